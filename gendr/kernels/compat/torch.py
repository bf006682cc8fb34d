"""What we change of PyTorch: which frames `torch.compile` traces."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

TRIED = ("2.15", "2.13", "2.11", "2.8")
SEAMS = (
    ("torch._C._dynamo.eval_frame", "_FrameAction.SKIP"),
    ("torch._C._dynamo.eval_frame", "_FrameExecStrategy"),
    ("torch._C._dynamo.eval_frame", "set_code_exec_strategy"),
    # Read by `gendr._common.tracing`.
    ("torch._C", "_are_functorch_transforms_active"),
    ("torch._C", "_is_tracing"),
    ("torch._C", "_len_torch_dispatch_stack"),
    ("torch._C", "_functorch.is_legacy_batchedtensor"),
    ("torch._C", "_functorch.is_functorch_wrapped_tensor"),
    ("torch._C", "_functorch.get_interpreter_stack"),
    ("torch.autograd.forward_ad", "_current_level"),
    ("torch._C", "_current_graph_task_id"),  # by `gendr.relaxed.program`
    # Called by `gendr.kernels.operator`.
    ("torch._C", "_functorch.unwrap_if_dead"),
    ("torch._C", "_FunctionBase.apply"),
)


@cache
def leave_out_dynamo(methods: tuple[Any, ...]) -> None:
    """Let `torch.compile` trace no frame of Numba's compiler.

    Around code that it cannot trace it looks at every function that this calls. In the compiler
    that takes minutes and ends in a RecursionError.

    Args:
        methods: by which it begins.
    """
    from torch._C._dynamo import eval_frame

    skip = eval_frame._FrameAction.SKIP
    strategy = eval_frame._FrameExecStrategy(skip, skip)  # of the frame, and of all that it calls
    for method in methods:
        eval_frame.set_code_exec_strategy(inspect.unwrap(method).__code__, strategy)
