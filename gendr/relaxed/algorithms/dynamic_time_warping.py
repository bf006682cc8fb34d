"""Dynamic time warping: the cheapest way to walk along two sequences at once.

    D(i, j) = the cost of pairing a_i with b_j;   d(0, 0) = 0,   d(i, 0) = d(0, j) = inf
    d(i, j) = D(i, j) + min(d(i-1, j), d(i, j-1), d(i-1, j-1))

with the relaxed min of `minimum`. minimum="log_sum_exp" with the logistic distribution is soft-DTW,
whose gamma is 1 / steepness. The gradient with respect to D is the relaxed alignment.

Source: Sakoe and Chiba, 1978; Cuturi and Blondel, Soft-DTW, 2017; relaxed as in thesis, chapter 2.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from gendr._common.checks import (
    check_choice,
    check_finite,
    check_float,
    check_like,
    shape_text,
)
from gendr._common.tracing import all_hold, in_single, is_traced
from gendr._common.words import worded
from gendr.distributions.decisions import Number, check_steepness
from gendr.distributions.registry import DistributionLike
from gendr.relaxed.algorithms.alignment import (
    ALIGNMENT,
    AlignmentTask,
    check_batches,
    check_lengths,
)
from gendr.relaxed.algorithms.minimum import Minimum, check_minimum
from gendr.relaxed.backends.choice import computed, shaped
from gendr.relaxed.backends.distributions import check_distribution, for_kernels

Cost: TypeAlias = Literal["squared", "absolute", "euclidean"]
COSTS = ("squared", "absolute", "euclidean")


@worded()
@in_single
def dynamic_time_warping(
    a: Tensor,
    b: Tensor,
    *,
    cost: Cost = "squared",
    features: bool = False,
    dist: DistributionLike = "logistic",
    steepness: Number = 10.0,
    minimum: Minimum = "expected",
    lengths: tuple[Tensor, Tensor] | None = None,
    check: bool = True,
    backend: str = "auto",
) -> Tensor:
    """The relaxed distance of two sequences by dynamic time warping.

    >>> dynamic_time_warping(a, b, minimum="log_sum_exp", steepness=1 / gamma)     # soft-DTW

    Args:
        a: [..., n], or [..., n, c] with `features`; n >= 1.
        b: [..., m], or [..., m, c]. Leading dimensions broadcast.
        cost: of a pair: the sum of squared differences, that of absolute ones, or the Euclidean
            distance, the root of the first.
        features: the last dimension holds the features of one step.
        dist: the distribution of the comparisons, symmetric; "heaviside" gives the hard distance.
        steepness: 1 / scale of the distribution, in units of 1 / cost; a number or a tensor of one,
            through which gradients flow.
        minimum: "expected" or "log_sum_exp" (logistic only).
        lengths: of the sequences a and b, integers in the shape of the batch, at least 1; what lies
            beyond them does not count, and may be NaN.
        check: look for NaN and inf, also among sums of costs.
        backend: "auto", "cpu" or "reference".

    Returns:
        [...].

    Raises:
        TypeError: tensors or settings of the wrong type.
        ValueError: shapes that do not fit, NaN or inf, costs so large that their sums overflow, an
            unknown cost, lengths out of range, or a distribution or minimum that does not fit.
    """
    a, b = check_sequences(a, b, features, check, lengths)
    return warping_of_costs(
        pair_costs(a, b, cost, check=check),
        dist=dist,
        steepness=steepness,
        minimum=minimum,
        lengths=lengths,
        check=False,
        backend=backend,
    )


@worded()
@in_single
def warping_of_costs(
    costs: Tensor,
    *,
    dist: DistributionLike = "logistic",
    steepness: Number = 10.0,
    minimum: Minimum = "expected",
    lengths: tuple[Tensor, Tensor] | None = None,
    check: bool = True,
    backend: str = "auto",
) -> Tensor:
    """Do what `dynamic_time_warping` does, for the costs [..., n, m] of all pairs.

    All other arguments are those of `dynamic_time_warping`. See there.
    """
    costs = check_float("costs", costs)
    if costs.ndim < 2 or 0 in costs.shape[-2:]:
        raise ValueError(
            "sequences must have at least one step each: costs must have shape [..., n, m] with "
            f"n, m >= 1, got {shape_text(costs.shape)}"
        )
    if check:
        _check_sums(check_finite("costs", costs))
    dist, steepness = check_distribution(dist), check_steepness(steepness)
    check_minimum(minimum, dist)
    *batch, n, m = costs.shape
    rows = check_lengths(lengths, batch, n, m, costs.device)
    if lengths is not None and not all_hold(rows >= 1):
        raise ValueError("lengths must be at least 1, got 0; an empty sequence has no partner")
    task = AlignmentTask(dist, for_kernels(dist), rows, warping=True, minimum=minimum)
    flat, skips = shaped(costs, (math.prod(costs.shape[:-2]), n, m)), costs.new_zeros(2)
    return shaped(computed(ALIGNMENT, backend, task, flat, skips, steepness=steepness), batch)


def check_sequences(
    a: Tensor, b: Tensor, features: bool, check: bool, lengths: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor]:
    """Both sequences as [..., n, c] and [..., m, c], 0 beyond their lengths.

    Raises:
        TypeError: no floating tensors, or of two dtypes.
        ValueError: shapes or lengths that do not fit; NaN or inf, if they are looked for.
    """
    check_like("b", check_float("b", b), "a", check_float("a", a))
    least = 2 if features else 1
    if min(a.ndim, b.ndim) < least or (features and a.shape[-1] != b.shape[-1]):
        wanted = "[..., n, c] and [..., m, c]" if features else "[..., n] and [..., m]"
        raise ValueError(
            f"a and b must have shapes {wanted}, got {shape_text(a.shape)} and "
            f"{shape_text(b.shape)}"
        )
    if not features:
        a, b = a[..., None], b[..., None]
    batch = check_batches("a and b", a.shape[:-2], b.shape[:-2])
    if lengths is not None:
        check_lengths(lengths, batch, a.shape[-2], b.shape[-2], a.device)
        a, b = _within(a, lengths[0]), _within(b, lengths[1])
    if check:
        check_finite("a", a)
        check_finite("b", b)
    return a, b


def _within(x: Tensor, length: Tensor) -> Tensor:
    """Sequences [..., n, c] of such lengths, with 0 in place of what lies beyond."""
    steps = torch.arange(x.shape[-2], device=x.device)[:, None]
    return torch.where(steps < length.to(x.device)[..., None, None], x, 0.0)


def pair_costs(a: Tensor, b: Tensor, cost: Cost, *, check: bool) -> Tensor:
    """[..., n, m] from a [..., n, c] and b [..., m, c]; the slope of a root at 0 is 0.

    Raises:
        ValueError: an unknown cost; sums of costs that overflow, if they are looked for.
    """
    check_choice("cost", cost, COSTS)
    costs = _pair_costs(a, b, cost)
    if check:
        _check_sums(costs)
    return costs


def _pair_costs(a: Tensor, b: Tensor, cost: Cost) -> Tensor:
    if a.shape[-1] == 1:
        difference = a - b.mT
        return difference.square() if cost == "squared" else difference.abs()
    difference = a[..., :, None, :] - b[..., None, :, :]
    if cost == "absolute":
        return difference.abs().sum(-1)
    squares = difference.square().sum(-1)
    if cost == "squared":
        return squares
    positive = squares > 0
    return torch.where(positive, torch.where(positive, squares, 1.0).sqrt(), 0.0)


def _check_sums(costs: Tensor) -> None:
    """Refuse costs [..., n, m] whose sums along a path, or differences of these, overflow."""
    if is_traced() or not costs.numel():
        return
    low, high = (float(x) for x in costs.detach().aminmax())
    if not 2 * sum(costs.shape[-2:]) * max(-low, high) <= torch.finfo(costs.dtype).max:
        raise ValueError(
            f"sums of costs must be finite in {str(costs.dtype)[6:]}, got costs from {low:.3g} to "
            f"{high:.3g}; scale the sequences down, or give them in float64"
        )
