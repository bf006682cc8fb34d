"""The CPU backend of layers of gates: parallel, compiled at run time by Numba.

float32 and float64; for other dtypes `auto` takes the reference. First derivatives are computed by
kernels, second derivatives by the reference backend.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from gendr._common import memory
from gendr._common.checks import FLOATS
from gendr.kernels.numba.compilation import available as available
from gendr.kernels.numba.compilation import supports as _is_on_cpu
from gendr.kernels.operator import KernelPair
from gendr.kernels.threads import run
from gendr.logic.backends.wires import Wires
from gendr.logic.mixing import Bags

Tensors: TypeAlias = "tuple[Tensor, ...]"

# Numbers of the batch times gates below which a second thread is not worth waking: 0.1 ms of work.
_SHARED = 200_000


def supports(tensor: Tensor) -> bool:
    """Whether the tensor is on the CPU, in float32 or float64."""
    return _is_on_cpu(tensor) and tensor.dtype in FLOATS


# ---------------------------------------------------------------------------------------------
# Kernels of `gates`, see `gendr.kernels.operator.Kernels`
# ---------------------------------------------------------------------------------------------


def forward(wires: Wires, x: Tensor, tables: Tensor, *, save: bool) -> tuple[Tensors, Tensors]:
    """The outputs of gates; nothing is saved."""
    from gendr.logic.backends.cpu import kernels

    y = memory.empty((len(tables), x.shape[1]), x.dtype)
    kernel = kernels.pairs if tables.shape[1] == 4 else kernels.many
    _launch(kernel, len(tables), _work(x, tables), x, wires.compact, tables, y)
    return (y,), ()


def backward(
    wires: Wires, inputs: Tensors, saved: Tensors, grads: Tensors, wanted: tuple[bool, ...]
) -> tuple[Tensor | None, Tensor]:
    """The gradients of x, for many inputs only if it is wanted, and of the tables."""
    from gendr.logic.backends.cpu import kernels

    (x, tables), (grad,), read = inputs, grads, wires.compact
    work, is_pair = 2 * _work(x, tables), tables.shape[1] == 4
    grad_tables = torch.empty_like(tables)
    grad_x = memory.empty_like(x)
    if is_pair:
        _launch(
            kernels.pairs_back, len(x), work, x, read, tables, *wires.readers, grad, grad_x,
            grad_tables,
        )  # fmt: skip
        return grad_x, grad_tables
    of_wires = memory.empty((len(read), *grad.shape), x.dtype)
    _launch(kernels.many_back, len(tables), work, x, read, tables, grad, of_wires, grad_tables)
    if not wanted[0]:
        return None, grad_tables
    _launch(kernels.gather, len(x), work, *wires.readers, of_wires, grad_x)
    return grad_x, grad_tables


KERNELS = {"logic.gates": KernelPair(forward, backward), "logic.mixed": Bags}


def _work(x: Tensor, tables: Tensor) -> int:
    return x.shape[1] * tables.numel() // 4


def _launch(kernel: Callable[..., None], units: int, work: int, *tensors: Tensor) -> None:
    """Run a kernel over 0 .. units - 1, on all threads if the work is worth it."""
    run(kernel, units, *(t.numpy() for t in tensors), pieces=4, alone=work <= _SHARED)
