"""The CPU backend of layers of gates: parallel, compiled at run time by Numba.

float32 and float64; for other dtypes `auto` takes the reference. First derivatives are computed by
kernels, second derivatives by the reference backend.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from gendr._runtime import memory
from gendr._runtime.checks import FLOATS
from gendr._runtime.numba.compilation import available as available
from gendr._runtime.numba.compilation import supports as _is_on_cpu
from gendr._runtime.threads import run
from gendr.logic.backends.wires import Wires

__all__ = ["available", "backward", "forward", "supports"]

Tensors: TypeAlias = "tuple[Tensor, ...]"

# Numbers of the batch times gates below which a second thread is not worth waking: 0.1 ms of work.
_SHARED = 200_000


def supports(tensor: Tensor) -> bool:
    """Whether the tensor is on the CPU, in float32 or float64."""
    return _is_on_cpu(tensor) and tensor.dtype in FLOATS


# ---------------------------------------------------------------------------------------------
# Kernels of `gates`, see `gendr._runtime.operator.Kernels`
# ---------------------------------------------------------------------------------------------


def forward(wires: Wires, x: Tensor, tables: Tensor, *, save: bool) -> tuple[Tensors, Tensors]:
    """The outputs of gates; nothing is saved."""
    from gendr.logic.backends.cpu import kernels

    y = memory.empty((len(tables), x.shape[1]), x.dtype)
    kernel = kernels.pairs if tables.shape[1] == 4 else kernels.many
    _launch(
        kernel, len(tables), _work(x, tables), x.numpy(), wires.compact.numpy(), tables.numpy(),
        y.numpy(),
    )  # fmt: skip
    return (y,), ()


def backward(
    wires: Wires, inputs: Tensors, saved: Tensors, grads: Tensors, wanted: tuple[bool, ...]
) -> tuple[Tensor | None, Tensor]:
    """The gradients of x, if it is wanted, and of the tables."""
    from gendr.logic.backends.cpu import kernels

    (x, tables), (grad,), wants_x = inputs, grads, wanted[0]
    work, read = 2 * _work(x, tables), wires.compact.numpy()
    grad_tables = torch.empty_like(tables)
    if tables.shape[1] == 4 and not wants_x:
        _launch(
            kernels.pairs_tables_back, len(tables), work, x.numpy(), read, grad.numpy(),
            grad_tables.numpy(),
        )  # fmt: skip
        return None, grad_tables
    readers = [part.numpy() for part in wires.readers]
    grad_x = memory.empty_like(x)
    if tables.shape[1] == 4:
        _launch(
            kernels.pairs_back, len(x), work, x.numpy(), read, tables.numpy(), *readers,
            grad.numpy(), grad_x.numpy(), grad_tables.numpy(),
        )  # fmt: skip
        return grad_x, grad_tables
    grad_wires = memory.empty((len(read), *grad.shape), x.dtype)
    _launch(
        kernels.many_back, len(tables), work, x.numpy(), read, tables.numpy(), grad.numpy(),
        grad_wires.numpy(), grad_tables.numpy(),
    )  # fmt: skip
    if not wants_x:
        return None, grad_tables
    _launch(kernels.gather, len(x), work, *readers, grad_wires.numpy(), grad_x.numpy())
    return grad_x, grad_tables


def _work(x: Tensor, tables: Tensor) -> int:
    return x.shape[1] * tables.numel() // 4


def _launch(kernel: Callable[..., None], units: int, work: int, *args: Any) -> None:
    """Run a kernel over 0 .. units - 1, on all threads if the work is worth it."""
    run(kernel, units, *args, pieces=4, alone=work <= _SHARED)
