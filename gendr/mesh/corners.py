"""From vertices to the corners of faces, and back, in a fixed order on GPUs too.

PyTorch adds up what several faces give to one vertex by atomics on a GPU, in any order. Where the
corners of every vertex are listed (`Topology.vertex_corners`), they are added in that order: the
same input gives the same bits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gendr._common.tracing import applied, is_traced
from gendr._common.vectors import gathered, summed

Lists = tuple[Tensor, Tensor]  # starts and entries of `Topology.vertex_corners`


def needs_lists(values: Tensor) -> bool:
    """Whether adding up would depend on the order in which threads run."""
    return values.is_cuda and not is_traced()


def at_corners(values: Tensor, faces: Tensor, lists: Lists | None = None) -> Tensor:
    """Values per vertex [ΣV, C] at the corners of all faces: [ΣF, 3, C].

    Args:
        values: [ΣV, C].
        faces: [ΣF, 3].
        lists: of the corners of every vertex, for a gradient in a fixed order on a GPU.
    """
    flat = faces.reshape(-1)
    if lists is None:
        corners = gathered(values, flat)
    else:
        corners = _spread(values, flat, *lists)
    return corners.reshape(-1, 3, values.shape[-1])


def sums_of_corners(values: Tensor, faces: Tensor, count: int, lists: Lists | None) -> Tensor:
    """The sum, at each of `count` vertices, of the values [3 ΣF, C] of its corners: [count, C].

    Args:
        values: [3 ΣF, C].
        faces: [ΣF, 3].
        count: ΣV.
        lists: as in `at_corners`.
    """
    flat = faces.reshape(-1)
    if lists is None:
        return summed(values, flat, count)
    return _join(values, flat, *lists)


class _Spread(torch.autograd.Function):
    """values[index]; its gradient is `_Join`."""

    @staticmethod
    def forward(values: Tensor, index: Tensor, starts: Tensor, entries: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return values.index_select(0, index)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _join(grad, *ctx.saved_tensors), None, None, None


class _Join(torch.autograd.Function):
    """Sums over the entries of every vertex; its gradient is `_Spread`."""

    @staticmethod
    def forward(values: Tensor, index: Tensor, starts: Tensor, entries: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        # `unsafe` leaves out checks, for which the host would wait.
        return torch.segment_reduce(
            values.index_select(0, entries), "sum", offsets=starts, unsafe=True, initial=0
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _spread(grad, *ctx.saved_tensors), None, None, None


_spread, _join = applied(_Spread), applied(_Join)
