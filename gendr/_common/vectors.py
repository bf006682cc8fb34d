"""Directions and lengths of vectors, and sums over rows, the same from run to run on GPUs too."""

from __future__ import annotations

import torch
from torch import Tensor

from gendr._common.tracing import is_traced


def unit(v: Tensor) -> Tensor:
    """Direction v / |v| along the last dimension; 0 with gradient 0 where v = 0.

    Neither over- nor underflows: the direction does not depend on the scale, so the largest
    component may be divided out as a constant.
    """
    size = v.detach().abs().amax(-1, keepdim=True)
    v = v / torch.where(size > 0, size, 1)
    square = (v * v).sum(-1, keepdim=True)
    return v * torch.where(square > 0, square, 1).rsqrt()


def length(v: Tensor) -> Tensor:
    """|v| along the last dimension, with gradient 0 where v = 0; neither over- nor underflows."""
    return (v * unit(v)).sum(-1)


# On a GPU PyTorch adds up by atomics, in any order, what `index_add` is given and what is the
# gradient of `index_select`; what `index_put` is given, and the gradient of an index, it sorts.


def gathered(values: Tensor, index: Tensor, dim: int = 0) -> Tensor:
    """The rows `index` [K], along dimension 0 or -2; the gradient has the same bits every time."""
    if values.device.type == "cpu" or is_traced():
        return values.index_select(dim, index)  # whose gradient is in order, and needs no sort
    return values[index] if dim == 0 else values[..., index, :]


def summed(values: Tensor, index: Tensor, count: int) -> Tensor:
    """The sum of those rows [K, ...] that go to each of `count`, of the same bits every time."""
    out = values.new_zeros(count, *values.shape[1:])
    if values.device.type == "cpu" or is_traced():
        return out.index_add(0, index, values)
    return out.index_put((index,), values, accumulate=True)
