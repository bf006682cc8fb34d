"""Graphs of `torch.compile`, held against the calls that they are made of."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor


def inductor(test: Callable[..., None]) -> Any:
    """Mark a test that makes code by inductor, which takes long and wants a compiler."""
    marks = pytest.mark
    test = marks.skipif(shutil.which("g++") is None, reason="inductor wants a compiler")(test)
    return marks.every(marks.graphs(marks.filterwarnings("ignore")(test)))  # of the compiler itself


def assert_graph(
    call: Callable[..., Tensor], *cases: Tensor | tuple[Any, ...],
    rtol: float | None = None, atol: float | None = None, **options: Any,
) -> None:  # fmt: skip
    """A graph gives what a call gives, and the gradients of arguments that require some.

    Args:
        call: of tensors.
        cases: its arguments, one after the other for one graph; or its only one.
        rtol: of values and gradients; by default that of PyTorch.
        atol: the same.
        options: of `torch.compile`.
    """
    torch.compiler.reset()
    graph = torch.compile(call, **options)
    for case in cases:
        given, found = case if isinstance(case, tuple) else (case,), []
        leaves = [x for x in given if isinstance(x, Tensor) and x.requires_grad]
        for run in (graph, call):
            torch.manual_seed(0)
            y = run(*given)
            weights = torch.arange(y.numel()).cos().reshape(y.shape).to(y)
            grads = torch.autograd.grad(y, leaves, weights) if leaves else ()
            found.append((y.detach(), *grads))
        torch.testing.assert_close(*found, rtol=rtol, atol=atol)
