"""The kernels of the projection onto the permutahedron, and of isotonic regression, on the CPU.

In float64 inside, by all threads over the rows of the batch.
"""

from __future__ import annotations

from functools import cache
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
        rows = _rows(grad)
        to_x = np.empty_like(rows)
        # Autograd gives back the result with its graph; projections by "l2" need none.
        ranks = _rows(saved[2].detach()) if entropic else rows
        blocks = ranks, *saved[:2], float(inputs[1]), entropic
        _run(kernels.rank_gradients, rows, _rows(inputs[0]), *blocks, to_x)
        return _like(grad, to_x)


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
        to_x, rows = torch.empty_like(grad), (_rows(grad), _rows(inputs[0]))
        _run(kernels.value_gradients, *rows, *saved, entropic, _rows(to_x))
        return to_x


class Isotonic:
    """The kernels of `ISOTONIC`."""

    @staticmethod
    def forward(_: None, x: Tensor, *, save: bool) -> tuple[tuple[Tensor], tuple[Tensor]]:
        """The means of the blocks; their starts are saved."""
        kernels, _ = _compiled()
        rows, result = _rows(x), torch.empty_like(x)
        starts = np.empty(rows.shape, np.int64)
        _run(kernels.isotonic_rows, rows, starts)
        _run(kernels.block_means, rows, starts, _rows(result))
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
        _run(kernels.block_means, _rows(grads[0]), saved[0].numpy(), _rows(to_x))
        return (to_x,)


def _rows(x: Tensor) -> np.ndarray[Any, Any]:
    """A contiguous x [..., n] as an array [rows, n]."""
    rows = x.numpy()
    return rows if rows.ndim == 2 else rows.reshape(-1, rows.shape[-1])


def _like(x: Tensor, rows: np.ndarray[Any, Any]) -> Tensor:
    """An array [rows, n] as a tensor in the shape of x."""
    found = torch.from_numpy(rows)
    return found if x.ndim == 2 else found.reshape(x.shape)


def _run(kernel: Any, rows: np.ndarray[Any, Any], *args: Any) -> None:
    """Call kernel(rows, *args, start, stop) on the rows of the first array, in threads if large."""
    run(kernel, len(rows), rows, *args, pieces=1, alone=rows.size < _WORTH_THREADS)


def _projected(
    kernel: Any, x: Tensor, steepness: float, entropic: bool
) -> tuple[Tensor, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """The result of the kernel [..., n]; the order that sorts x, and the blocks, [rows, n]."""
    _, orders = _compiled()
    rows = _rows(x)
    result, blocks = np.empty_like(rows), np.empty((2, *rows.shape), np.int32)
    order, starts = blocks[0], blocks[1]
    # Of few lists, or long ones, the kernel finds the order itself.
    by_kernel = rows.dtype == np.float32 and (rows.shape[1] >= orders.MANY or len(rows) < _FEW)
    keys = (rows if by_kernel else rows[:0]).view(np.uint32)

    def sort_and_project(rows: np.ndarray[Any, Any], *args: Any) -> None:
        start, stop = args[-2:]
        orders.fill_order(rows[start:stop], order[start:stop])
        kernel(rows, *args)

    project = kernel if by_kernel else sort_and_project
    _run(project, rows, keys, order, steepness, entropic, result, starts)
    return _like(x, result), (order, starts)
