"""Compile Triton kernels ahead of time to machine code, also on machines without a GPU.

The programs of `support.launched` say what is launched; each launch is compiled for the arguments
that it has, and not done. What the machine code uses is measured.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from support.processes import run_python

CAPABILITIES = (80, 90)  # compute capability times 10: Ampere, Hopper
_POINTERS = {
    torch.float32: "*fp32", torch.float16: "*fp16", torch.bfloat16: "*bf16", torch.int32: "*i32",
    torch.float64: "*fp64", torch.int64: "*i64",
}  # fmt: skip


@dataclass(frozen=True)
class Usage:
    """The resources that a compiled kernel uses.

    Attributes:
        registers: registers per thread.
        local: bytes of local memory per thread, which is off the chip: spilled registers.
        size: bytes of the binary.
    """

    registers: int
    local: int
    size: int


def compile_launch(
    kernel: Any, args: tuple[Any, ...], constants: dict[str, Any], capability: int
) -> Usage:
    """Compile what a launch would compile, without launching; the tensors may be on the CPU.

    Args:
        kernel: a kernel of this package.
        args: the arguments of the launch: tensors, ints and floats.
        constants: the compile-time arguments of the launch, including options of the compiler.
        capability: the compute capability of the GPU, times 10.
    """
    from triton.compiler import ASTSource

    types: dict[str, str] = {}
    values = {name: x for name, x in constants.items() if name in kernel.arg_names}
    aligned: dict[tuple[int, ...], list[Any]] = {}
    for i, (parameter, x) in enumerate(zip(kernel.params, args, strict=False)):
        name = parameter.name
        if isinstance(x, Tensor):
            types[name] = _POINTERS[x.dtype]
            rounded = x.data_ptr() % 16 == 0 and not parameter.do_not_specialize_on_alignment
        else:
            types[name] = "fp32" if isinstance(x, float) else "i32"
            rounded = isinstance(x, int) and x % 16 == 0 and not parameter.do_not_specialize
            if isinstance(x, int) and x == 1 and not parameter.do_not_specialize:
                types[name], values[name] = "constexpr", 1
        if rounded:
            aligned[(i,)] = [["tt.divisibility", 16]]
    types |= {name: "constexpr" for name in values}
    options = {name: x for name, x in constants.items() if name not in values}
    return _compiled(ASTSource(kernel, types, values, aligned), capability, options)


def compile_launches() -> None:
    """The process of `launches_compiled`: compile what would be launched, and launch nothing."""
    from gendr.kernels.triton.launch import Launcher
    from support.launched import PROGRAMS

    warnings.simplefilter("error")
    program, cases, capabilities = json.loads(sys.argv[1])

    def compiled(self: Launcher, grid: tuple[int, ...], *args: Any) -> None:
        for capability in capabilities:
            usage = compile_launch(self.kernel, args, self.constants, capability)
            found = [self.kernel.fn.__name__, capability, asdict(usage)]
            sys.stdout.write(f"{json.dumps(found)}\n")

    Launcher.__call__ = compiled
    for case in cases:
        PROGRAMS[program](*case)


def launches_compiled(
    program: str, cases: Sequence[Any], capabilities: Sequence[int]
) -> list[tuple[str, int, Usage]]:
    """Compile what a program would launch: kernels with the arguments of real launches.

    Args:
        program: one of `support.launched`.
        cases: the arguments of its calls, of types that JSON knows.
        capabilities: the compute capabilities of GPUs, times 10.

    Returns:
        The name of the kernel, the capability and what the machine code uses: for each launch, in
        their order, and each capability.

    Raises:
        RuntimeError: if the program fails.
    """
    code = "from support.ahead_of_time import compile_launches; compile_launches()"
    request = json.dumps([program, cases, capabilities])
    run = run_python(code, request, env={"TRITON_INTERPRET": "0"})
    if run.returncode != 0:
        raise RuntimeError(f"the program failed:\n{run.stderr[-3000:]}")
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    return [(kernel, capability, Usage(**usage)) for kernel, capability, usage in rows]


def _compiled(source: Any, capability: int, options: dict[str, Any]) -> Usage:
    """Compile a source and return the resources of its machine code."""
    import triton
    from triton import knobs
    from triton.backends.compiler import GPUTarget

    target = GPUTarget("cuda", capability, 32)
    with tempfile.TemporaryDirectory() as folder, knobs.cache.scope():
        knobs.cache.dir = folder
        kernel = triton.compile(source, target=target, options=options)
        code = kernel.asm["cubin"]
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(code)
        command = [knobs.nvidia.cuobjdump.path, "-res-usage", str(file)]
        report = subprocess.run(command, capture_output=True, text=True, check=True)
    used = dict(re.findall(r"\b(REG|STACK|LOCAL):(\d+)", report.stdout + report.stderr))
    local = int(used["STACK"]) + int(used["LOCAL"])
    return Usage(int(used["REG"]), local, len(code))
