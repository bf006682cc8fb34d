"""The kernels of the projection onto the permutahedron, and of isotonic regression, on the CPU.

In float64 inside, by all threads over the rows of the batch.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from gendr.distributions.decisions import Number
from gendr.kernels.threads import run
from gendr.sorting.backends.isotonic import RANKS, VALUES, Projection
from gendr.sorting.base import spread_nan

# With fewer values than this in the batch, sharing rows among threads costs more than it gains.
_WORTH_THREADS = 1 << 16
_FEW = 4  # lists that digits sort faster than NumPy, called for them
_LIKE = {torch.float32: np.empty(0, np.float32), torch.float64: np.empty(0)}


@cache
def _compiled() -> tuple[Any, Any]:
    """What Numba has compiled: the kernels, and orders; imported when first wanted."""
    from gendr.sorting.backends.cpu import isotonic_kernels, order

    return isotonic_kernels, order


class Ranks(Projection):
    """The kernels of `RANKS`."""

    operator = RANKS

    @staticmethod
    def forward(
        entropic: bool, x: Tensor, steepness: Number, *, save: bool
    ) -> tuple[tuple[Tensor], tuple[Any, ...]]:
        """The ranks; the order, the starts of the blocks and entropic ranks are saved."""
        kernels, _ = _compiled()
        result, blocks = _projected(kernels.rank_rows, x, float(steepness), entropic)
        return (result,), (*blocks, result) if entropic else blocks

    @classmethod
    @override
    def gradient(
        cls, entropic: bool, inputs: tuple[Tensor, Number], saved: tuple[Any, ...], grad: Tensor
    ) -> Tensor:
        kernels, _ = _compiled()
        x, grad = _own(inputs[0]), _own(grad)
        to_x = torch.empty_like(grad)
        # Autograd gives back the result with its graph; projections by "l2" need none.
        ranks = saved[2].detach() if entropic else grad
        tensors, blocks = (x, grad, ranks, to_x), saved[:2]
        _run(kernels.rank_gradients, tensors, *blocks, float(inputs[1]), entropic)
        return to_x


class Values(Projection):
    """The kernels of `VALUES`."""

    operator = VALUES

    @staticmethod
    def forward(
        entropic: bool, x: Tensor, steepness: Number, *, save: bool
    ) -> tuple[tuple[Tensor], tuple[Any, ...]]:
        """The values; the order and the starts of the blocks are saved."""
        kernels, _ = _compiled()
        result, blocks = _projected(kernels.value_rows, x, float(steepness), entropic)
        return (result,), blocks

    @classmethod
    @override
    def gradient(
        cls, entropic: bool, inputs: tuple[Tensor, Number], saved: tuple[Any, ...], grad: Tensor
    ) -> Tensor:
        kernels, _ = _compiled()
        x, grad = _own(inputs[0]), _own(grad)
        to_x = torch.empty_like(grad)
        _run(kernels.value_gradients, (x, grad, to_x), *saved, entropic)
        return to_x


class Isotonic:
    """The kernels of `ISOTONIC`."""

    @staticmethod
    def forward(_: None, x: Tensor, *, save: bool) -> tuple[tuple[Tensor], tuple[Tensor]]:
        """The means of the blocks; their starts are saved."""
        kernels, _ = _compiled()
        rows, result = _rows(x), torch.empty_like(x)
        starts = np.empty(rows.shape, np.int64)
        _share(kernels.isotonic_rows, rows, starts)
        _share(kernels.block_means, rows, starts, _rows(result))
        spread_nan(rows, _rows(result))
        return (result,), (torch.from_numpy(starts),)

    @staticmethod
    def backward(
        _: None, inputs: tuple[Tensor], saved: tuple[Tensor], grads: tuple[Tensor],
        wanted: tuple[bool, ...],
    ) -> tuple[Tensor]:  # fmt: skip
        """The gradient of x: the means of what comes."""
        kernels, _ = _compiled()
        to_x = torch.empty_like(grads[0])
        _share(kernels.block_means, _rows(grads[0]), saved[0].numpy(), _rows(to_x))
        return (to_x,)


def _rows(x: Tensor) -> np.ndarray[Any, Any]:
    """A contiguous x [..., n] as an array [rows, n]."""
    return x.numpy().reshape(-1, x.shape[-1])


def _share(kernel: Any, rows: np.ndarray[Any, Any], *args: Any) -> None:
    """Call kernel(rows, *args, start, stop) on the rows of the first array, in threads if large."""
    run(kernel, len(rows), rows, *args, pieces=1, alone=rows.size < _WORTH_THREADS)


def _own(x: Tensor) -> Tensor:
    """X as an address tells it: no negated view, no tensor without memory that stands for another.

    Tensors that outlived `torch.func.functionalize` are such.
    """
    x = x.resolve_neg()
    return x if x.data_ptr() else torch.from_numpy(x.numpy())


def _run(kernel: Any, tensors: tuple[Tensor, ...], order: np.ndarray[Any, Any], *args: Any) -> None:
    """Call kernel(addresses of contiguous tensors, like, order, *args, start, stop) on all rows.

    The tensors are `_own`, and live until the kernel returns.
    """
    given = (*[x.data_ptr() for x in tensors], _LIKE[tensors[0].dtype], order, *args)
    if order.size < _WORTH_THREADS:
        kernel(*given, 0, len(order))
    else:
        run(kernel, len(order), *given, pieces=1)


def _projected(
    kernel: Any, x: Tensor, steepness: float, entropic: bool
) -> tuple[Tensor, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """The result of the kernel [..., n]; the order that sorts x, and the blocks, [rows, n]."""
    _, orders = _compiled()
    x = _own(x)
    n, rows = x.shape[-1], x.shape[:-1].numel()
    result, (order, starts) = torch.empty_like(x), np.empty((2, rows, n), np.int32)
    # Of few lists, or long ones, the kernel finds the order itself.
    sorts = x.dtype is torch.float32 and (n >= orders.MANY or rows < _FEW)
    project = kernel if sorts else partial(_sort_and_project, kernel, orders.fill_order, _rows(x))
    _run(project, (x, result), order, starts, steepness, entropic, sorts)
    return result, (order, starts)


def _sort_and_project(kernel: Any, fill: Any, rows: np.ndarray[Any, Any], *args: Any) -> None:
    order, (start, stop) = args[3], args[-2:]
    fill(rows[start:stop], order[start:stop])
    kernel(*args)
