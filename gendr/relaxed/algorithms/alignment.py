"""The dynamic program that edit distances and dynamic time warping share.

From a matrix m [n, m] with one number for each pair of elements:

    d(0, 0) = 0,   d(i, 0) = i skip_row,   d(0, j) = j skip_column
    d(i, j) = min(d(i-1, j) + skip_row, d(i, j-1) + skip_column, d(i-1, j-1) + m(i, j))     edits
    d(i, j) = m(i, j) + min(d(i-1, j), d(i, j-1), d(i-1, j-1)), borders inf                  warping

with the relaxed min of `minimum`. It is computed diagonal by diagonal, i + j = 2, 3, ..: all cells
of a diagonal at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gendr._common.checks import check_integer, shape_text
from gendr._common.tracing import all_hold
from gendr.distributions import Distribution
from gendr.distributions.decisions import Number
from gendr.kernels.operator import Operator
from gendr.relaxed.algorithms.minimum import Minimum, minimum, weigh
from gendr.relaxed.backends.distributions import KernelDistribution


class AlignmentTask(NamedTuple):
    """What is asked about matrices and the prices of skips.

    Attributes:
        dist: checked by `check_distribution`.
        kernel_dist: the same for kernels, None if there can be none.
        lengths: [B, 2] int64, of the two sequences of every pair.
        warping: the second recursion, else the first.
        minimum: which relaxed min.
    """

    dist: Distribution
    kernel_dist: KernelDistribution | None
    lengths: Tensor
    warping: bool
    minimum: Minimum


def _reference(task: AlignmentTask, matrix: Tensor, skips: Tensor, steepness: Number) -> Tensor:
    """The costs [B] of the alignments."""
    batch, n, m = matrix.shape
    dist, _, lengths, warping, kind = task
    row, column = skips.unbind()
    index = torch.arange(n + 1, device=matrix.device)
    ends = lengths.sum(1)
    value = matrix.new_zeros(batch)
    # Diagonals [B, n + 1]: element i of diagonal k is d(i, k - i), inf outside the matrix.
    outside = matrix.new_full((batch, n + 1), torch.inf)
    last, current = outside, torch.where(index == 0, 0.0, outside)
    for k in range(n + m + 1):
        if k:
            above = torch.cat([outside[:, :1], current[:, :-1]], 1)
            across = torch.cat([outside[:, :1], last[:, :-1]], 1)
            local = _diagonal(matrix, k)
            prices = (0.0, 0.0, 0.0) if warping else (row, column, local)
            ways = torch.stack(
                [x + p for x, p in zip((above, current, across), prices, strict=True)], -1
            )
            result = minimum(ways, weigh(ways, dist, steepness), steepness, kind)
            if warping:
                result = result + local
            inside = (index >= max(1, k - m)) & (index < k)
            if not warping:
                result = torch.where(index == 0, k * column, result)
                result = torch.where(index == k, k * row, result)
                inside = (index >= k - m) & (index <= k)
            last, current = current, torch.where(inside, result, torch.inf)
        done = current.gather(1, lengths[:, :1])[:, 0]
        value = torch.where(ends == k, done, value)
    return value


ALIGNMENT = Operator("relaxed.alignment", reference=_reference)


def _diagonal(matrix: Tensor, k: int) -> Tensor:
    """[B, n + 1]: element i is that of row i and column k - i, counted from 1; 0 outside."""
    batch, n, m = matrix.shape
    first, stop = max(1, k - m), min(n, k - 1) + 1
    out = matrix.new_zeros(batch, n + 1)
    if first >= stop:
        return out
    rows = torch.arange(first, stop, device=matrix.device)
    inside = matrix[:, rows - 1, k - rows - 1]
    return torch.nn.functional.pad(inside, (first, n + 1 - stop))


def check_batches(names: str, one: Sequence[int], other: Sequence[int]) -> Sequence[int]:
    """What the batches of two sequences, "a and b", broadcast to; a ValueError if they do not."""
    try:
        return torch.broadcast_shapes(tuple(one), tuple(other))
    except RuntimeError:
        raise ValueError(
            f"the batches of {names} must broadcast, got {shape_text(one)} and {shape_text(other)}"
        ) from None


def check_lengths(
    lengths: tuple[object, object] | None, batch: Sequence[int], n: int, m: int, device: object
) -> Tensor:
    """The lengths of all pairs, [B, 2], from two tensors of integers that broadcast, or None.

    Raises:
        TypeError: no pair of integer tensors.
        ValueError: a shape that does not fit, or a length out of range.
    """
    if lengths is None:
        count = math.prod(batch)
        return torch.tensor([[n, m]], device=device).expand(count, 2)  # pyright: ignore[reportArgumentType]
    if not isinstance(lengths, (tuple, list)) or len(lengths) != 2:
        raise TypeError(
            f"lengths must be two tensors of integers, got {type(lengths).__name__}; "
            "one for the first sequences and one for the second"
        )
    result: list[Tensor] = []
    for name, value, most in (("first", lengths[0], n), ("second", lengths[1], m)):
        what = f"the lengths of the {name} sequences"
        tensor = check_integer(what, value)
        if not all_hold((tensor >= 0) & (tensor <= most)):
            raise ValueError(
                f"{what} must lie in 0 .. {most}, got {tensor.min().item()} .. "
                f"{tensor.max().item()}"
            )
        try:
            result.append(tensor.to(device).expand(tuple(batch)).reshape(-1))  # pyright: ignore[reportArgumentType, reportCallIssue]
        except RuntimeError:
            raise ValueError(
                f"{what} must have the shape of the batch, {shape_text(batch)}, "
                f"got {shape_text(tensor.shape)}"
            ) from None
    return torch.stack(result, 1)
