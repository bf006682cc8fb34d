"""Relaxed bubble sort, with its number of swaps and the probability that nothing had to be swapped.

    swapped = 1; swaps = 0; ordered = 1; m = n - 1
    while swapped:
        swapped = 0
        for i in range(m):
            if x[i] > x[i + 1]:                    # with probability p = F((x_i - x_(i+1)) beta)
                x[i], x[i + 1] = x[i + 1], x[i]    # both become mixtures, p and 1 - p
                swapped = 1; ordered = 0; swaps += 1
        m -= 1

With s_k the variables after k passes and c_k = swapped after pass k, the loop gives sum_k P(k) s_k,
P(k) = c_1 .. c_(k-1) (1 - c_k); after n - 1 passes there is nothing left to compare.

Source: thesis, section 2.3; the while loop is (2.12). 1 - ordered is its loss.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from gendr._common.checks import check_finite, check_float, shape_text
from gendr._common.tracing import in_single
from gendr._common.words import worded
from gendr.distributions import Distribution
from gendr.distributions.decisions import Number, check_steepness, scale_of
from gendr.distributions.registry import DistributionLike
from gendr.kernels.operator import Operator
from gendr.relaxed.backends.choice import computed, shaped
from gendr.relaxed.backends.distributions import KernelDistribution, check_distribution, for_kernels


class SortTask(NamedTuple):
    """What is asked about numbers.

    Attributes:
        dist: checked by `check_distribution`.
        kernel_dist: the same for kernels, None if there can be none.
    """

    dist: Distribution
    kernel_dist: KernelDistribution | None


class BubbleSorted(NamedTuple):
    """The result of `bubble_sort`.

    Attributes:
        values: [..., n], ascending.
        swaps: [...], the expected number of swaps: of pairs in the wrong order, the distance of
            Kendall's tau.
        ordered: [...], the probability that no swap was necessary.
    """

    values: Tensor
    swaps: Tensor
    ordered: Tensor


@worded()
@in_single
def bubble_sort(
    x: Tensor,
    dist: DistributionLike = "logistic",
    steepness: Number = 10.0,
    *,
    check: bool = True,
    backend: str = "auto",
) -> BubbleSorted:
    """Sort along the last dimension, ascending, and count how far from sorted x was.

    >>> loss = bubble_sort(scores[..., order]).swaps.mean()     # 0 if the scores have this order

    Args:
        x: [..., n], n >= 1, finite.
        dist: the distribution of the comparisons, symmetric; "heaviside" sorts hard, without
            gradient.
        steepness: 1 / scale of the distribution; a number, or a tensor of one, through which
            gradients flow.
        check: look for NaN and inf.
        backend: "auto", "cpu" or "reference".

    Raises:
        TypeError: no float32 or float64 tensor, or settings of the wrong type.
        ValueError: a bad shape, NaN or inf, or a distribution that is not symmetric.
    """
    x = check_float("x", x)
    if x.ndim == 0 or x.shape[-1] == 0:
        raise ValueError(f"x must have shape [..., n] with n >= 1, got {shape_text(x.shape)}")
    if check:
        check_finite("x", x)
    dist, steepness = check_distribution(dist), check_steepness(steepness)
    batch = x.shape[:-1]
    if x.shape[-1] == 1:
        return BubbleSorted(x.clone(), 0 * x[..., 0], 1 + 0 * x[..., 0])
    flat, task = shaped(x, (math.prod(batch), x.shape[-1])), SortTask(dist, for_kernels(dist))
    values, swaps, ordered = computed(_BUBBLE_SORT, backend, task, flat, steepness=steepness)
    return BubbleSorted(shaped(values, x.shape), shaped(swaps, batch), shaped(ordered, batch))


def _reference(task: SortTask, x: Tensor, steepness: Number) -> tuple[Tensor, Tensor, Tensor]:
    """Values [B, n], swaps [B] and ordered [B] of x [B, n]."""
    n = x.shape[1]
    scale = scale_of(steepness)
    array = list(x.unbind(1))
    swaps, ordered = torch.zeros_like(array[0]), torch.ones_like(array[0])
    reached = torch.ones_like(swaps)  # the probability that the pass is made
    total = (torch.zeros_like(x), torch.zeros_like(swaps), torch.zeros_like(swaps))
    for last in range(n - 1, 0, -1):
        swapped, left = torch.zeros_like(swaps), torch.ones_like(swaps)
        for i in range(last):
            a, b = array[i], array[i + 1]
            q, p = task.dist.coverage(b - a, scale)  # a > b is "not b >= a", so that ties stay
            array[i], array[i + 1] = p * b + q * a, p * a + q * b
            swapped, left, ordered = p + q * swapped, q * left, q * ordered
            swaps = swaps + p
        part = reached if last == 1 else reached * left
        state = (torch.stack(array, 1), swaps, ordered)
        total = (
            total[0] + part[:, None] * state[0], total[1] + part * swaps, total[2] + part * ordered
        )  # fmt: skip
        reached = reached * swapped
    return total


_BUBBLE_SORT = Operator("relaxed.bubble_sort", reference=_reference)
