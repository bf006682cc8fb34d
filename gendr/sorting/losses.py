"""Objectives and metrics of sorting and ranking.

Lists are the last dimension, batches any dimensions before it. Losses return a scalar, the mean
over the batch, or one number per list if they are asked to; coefficients (rho, tau, NDCG) and
matches return one number per list, [...]. Permutation matrices are P[..., rank, input], ranks count
from 1, the smallest value first.

    >>> loss = ranking_cross_entropy(permutation(scores), permutation_matrix(values))
    >>> exact_match(scores, values).mean()

All take `mask`, bool [..., n], True where an entry is present: a result is that of the lists of
these alone. Absent entries may be anything and get no gradient; a list without entries gets 0.

If true values are equal, any order of their scores is right. If scores are equal but their true
values differ, that is wrong, so that constant scores match nothing.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from gendr._common.checks import (
    FLOATS,
    check_choice,
    check_count,
    check_device,
    check_finite,
    check_float,
    check_reduction,
    check_shape,
    check_tensor,
    dtype_name,
    shape_text,
)
from gendr._common.ranges import saturated
from gendr._common.tracing import (
    all_hold,
    in_single,
    is_for_onnx,
    is_traced,
    matmul,
    running_max,
    stable_argsort,
    wide,
)
from gendr._common.words import worded
from gendr.distributions import Distribution, as_distribution
from gendr.distributions.decisions import Number, check_steepness, scale_of
from gendr.distributions.registry import DistributionLike
from gendr.sorting.ragged import check_mask, present

__all__ = [
    "element_match",
    "exact_match",
    "hard_ranks",
    "kendall",
    "ndcg",
    "ndcg_of_ranks",
    "permutation_matrix",
    "ranking_cross_entropy",
    "regrouped",
    "spearman",
]

# Below this probability the logarithm is replaced by its tangent, see `safe_log`. It is far below
# what a loss should distinguish, and far above the smallest float32.
LEAST = 1e-12


# ---------------------------------------------------------------------------------------------
# the hard truth


@in_single
def hard_ranks(values: Tensor, ties: str = "average", mask: Tensor | None = None) -> Tensor:
    """The rank of every value in its list, the smallest 1.

    Args:
        values: [..., n], n >= 1.
        ties: "average" gives equal values the mean of their ranks; "first" gives them different
            ranks, in their order.
        mask: bool [..., n], True where an entry is present.

    Returns:
        [..., n], in the dtype of the values, the default one for integers; without gradient.

    Raises:
        TypeError: if `values` is no real tensor.
        ValueError: if it has no dimension, n = 0, NaN or inf, or `ties` is something else.
    """
    known = check_mask(mask, values, "values", by_length=False)
    values = checked_list("values", values, known)
    if check_choice("ties", ties, ("average", "first")) == "average":
        return present(mean_ranks(values, known, _float_like(values)), known)
    return present(ranks_of(_order(values, known), _float_like(values)), known)


def ranks_of(order: Tensor, dtype: torch.dtype) -> Tensor:
    """The ranks from 1, [..., n], of values of this ascending order, int64 [..., n]."""
    ranks = torch.arange(1, order.shape[-1] + 1, dtype=dtype, device=order.device)
    return torch.zeros_like(order, dtype=dtype).scatter(-1, order, ranks.expand_as(order))


def matrix_of(order: Tensor, dtype: torch.dtype) -> Tensor:
    """The permutation matrix [..., rank, input] of this ascending order, int64 [..., n]."""
    shape = (*order.shape, order.shape[-1])
    return torch.zeros(shape, dtype=dtype, device=order.device).scatter(-1, order[..., None], 1.0)


@in_single
def permutation_matrix(values: Tensor, ties: str = "first", mask: Tensor | None = None) -> Tensor:
    """The hard permutation matrix Q of values (or of their ranks): Q @ values is sorted.

    Args:
        values: [..., n], n >= 1.
        ties: "first" keeps equal values in their order, so that Q is a permutation; "average" is
            the mean over all orders of equal values: Q stays doubly stochastic, and each column is
            uniform over the ranks that its value may have.
        mask: bool [..., n], True where an entry is present.

    Returns:
        Q [..., rank, input], in the dtype of the values, the default one for integers.

    Raises:
        TypeError: if `values` is no real tensor.
        ValueError: if it has no dimension, n = 0, NaN or inf, or `ties` is something else.
    """
    known = check_mask(mask, values, "values", by_length=False)
    values = checked_list("values", values, known)
    columns = None if known is None else known[..., None, :]
    if check_choice("ties", ties, ("average", "first")) == "first":
        return present(matrix_of(_order(values, known), _float_like(values)), columns)
    first, last = (rank[..., None, :] for rank in rank_range(values, known))
    rank = torch.arange(1, values.shape[-1] + 1, device=values.device)[:, None]
    shares = (last - first + 1).clamp(min=1).to(_float_like(values))
    return present(((first <= rank) & (rank <= last)) / shares, columns)


def _order(values: Tensor, mask: Tensor | None) -> Tensor:
    """The stable argsort [..., n], what is absent last."""
    order = stable_argsort(values)
    if mask is None:
        return order
    return order.gather(-1, stable_argsort((~mask).gather(-1, order).byte()))


def with_largest(values: Tensor, mask: Tensor | None) -> Tensor:
    """The values, with the largest number for what is absent."""
    if mask is None:
        return values
    kind = torch.finfo if values.is_floating_point() else torch.iinfo
    return values.masked_fill(~mask, kind(values.dtype).max)


def has_order(values: Tensor) -> bool:
    """Whether the kernels of `order` take these values."""
    return values.is_cpu and values.dtype in FLOATS and not is_traced()


def rank_range(values: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The first and the last rank, int64 [..., n], that each value can have, given ties."""
    values, n = with_largest(values, mask), values.shape[-1]
    if has_order(values):
        from gendr.sorting.backends.cpu.order import fill_order, tied

        keys = values.detach().reshape(-1, n).contiguous().numpy()
        ranks = np.empty((3, *keys.shape), np.int64)  # the order, the first, the last
        fill_order(keys, ranks[0])
        tied(keys, *ranks)
        first, last = torch.from_numpy(ranks[1:]).view(2, *values.shape).unbind()
        return first, last if mask is None else torch.minimum(last, mask.sum(-1, keepdim=True))
    ascending, order = values.sort(-1)
    place = torch.arange(1, n + 1, device=values.device).expand_as(order)
    rises = ascending[..., 1:] != ascending[..., :-1]
    starts = torch.nn.functional.pad(rises, (1, 0), value=True)
    ends = torch.nn.functional.pad(rises, (0, 1), value=True)
    first = running_max(torch.where(starts, place, 0))
    last = -running_max(torch.where(ends, -place, -n).flip(-1)).flip(-1)
    first, last = (torch.empty_like(order).scatter(-1, order, rank) for rank in (first, last))
    return first, last if mask is None else torch.minimum(last, mask.sum(-1, keepdim=True))


def mean_ranks(values: Tensor, mask: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The ranks [..., n], of which equal values share the mean."""
    first, last = rank_range(values, mask)
    return (first + last).to(dtype) / 2


def counts_of(like: Tensor, mask: Tensor | None) -> Tensor | int:
    """How many entries [..., 1] of lists [..., n] are present, at least 1."""
    if mask is None:
        return max(1, like.shape[-1])
    return mask.sum(-1, keepdim=True).clamp(min=1)


# ---------------------------------------------------------------------------------------------
# metrics


@in_single
def element_match(scores: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
    """The fraction of elements whose rank among the scores is right (the metric EW).

    Without ties, an element is right if the rank of its score equals the rank of its value. With
    ties, every rank that its score can have must be one that its value can have.

    Args:
        scores: [..., n], predicted.
        values: [..., n], true.
        mask: bool [..., n], True where an entry is present.

    Returns:
        [...], in [0, 1], without gradient.

    Raises:
        TypeError: if one of them is no real tensor.
        ValueError: if shapes differ, n = 0, or NaN or inf are among them.

    Source: thesis, section 3.5; Grover et al., NeuralSort, 2019.
    """
    right, counts = _right(scores, values, mask)
    return (right / counts).sum(-1)


@in_single
def exact_match(scores: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
    """1 where a whole list is in the right order, else 0 (the metric EM).

    A list is in the right order if all its elements are right in the sense of `element_match`:
    whenever a value is below another one, its score is too.

    Args:
        scores: [..., n], predicted.
        values: [..., n], true.
        mask: bool [..., n], True where an entry is present.

    Returns:
        [...], without gradient; its mean is the fraction of lists.

    Raises:
        TypeError: if one of them is no real tensor.
        ValueError: if shapes differ, n = 0, or NaN or inf are among them.

    Source: thesis, section 3.5; Grover et al., NeuralSort, 2019.
    """
    right, counts = _right(scores, values, mask)
    return (right.sum(-1, keepdim=True) == counts)[..., 0].to(right.dtype)


def _right(scores: Tensor, values: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | int]:
    """1 for elements of the right rank, else 0, [..., n]; and how many there are."""
    known = check_mask(mask, scores, "scores", by_length=False)
    scores, values = checked_pair("scores", scores, "values", values, known)
    result, true = rank_range(scores.detach(), known), rank_range(values, known)
    right = ((true[0] <= result[0]) & (result[1] <= true[1])).to(scores.dtype)
    return present(right, known), counts_of(scores, known)


def regrouped(
    scores: Tensor,
    values: Tensor,
    size: int = 5,
    generator: torch.Generator | None = None,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """All predictions, shuffled, as lists of another size.

    The metric EM5, which can be compared between models trained with lists of different sizes, is
    exact_match(*regrouped(scores, values)).mean().

    Args:
        scores: m predictions in any shape; each must have been made without the others of its list.
        values: true, the same shape.
        size: the length of the new lists, <= m.
        generator: the random generator of the shuffle.
        mask: bool, shaped like them, True where one is present.

    Returns:
        Scores and values [m // size, size]; a remainder is left out.

    Raises:
        TypeError: if one of them is no real tensor.
        ValueError: if shapes differ, there are fewer than `size`, or NaN or inf are among them.

    Source: thesis, section 3.5.
    """
    if (known := check_mask(mask, scores, "scores")) is not None:
        scores, values = scores[known], values[known]
    scores, values = checked_pair("scores", scores, "values", values)
    check_count("size", size)
    count = scores.numel()
    if count < size:
        raise ValueError(f"lists of {size} need as many predictions, got {count}")
    device = scores.device if generator is None else generator.device
    chosen = torch.randperm(count, generator=generator, device=device)[: count - count % size]
    chosen = chosen.to(scores.device).reshape(-1, size)
    return scores.flatten()[chosen], values.flatten()[chosen]


# ---------------------------------------------------------------------------------------------
# losses of permutation matrices


@in_single
def ranking_cross_entropy(
    p: Tensor,
    target: Tensor,
    *,
    binary: bool = False,
    reduction: str = "mean",
    mask: Tensor | None = None,
) -> Tensor:
    """Cross-entropy between a relaxed permutation matrix and the true one.

    Column c of P is a distribution over the ranks of input c:

        L = mean over columns of -sum_r Q_rc log P_rc,
        and if binary, of -sum_r (Q_rc log P_rc + (1 - Q_rc) log(1 - P_rc)).

    The papers state the first but compute the second, as a mean over the n^2 entries, which is L/n.

    log P is exact for P >= 1e-12. Below that it is replaced by its tangent at 1e-12: a probability
    that underflows to 0 costs 28.6, and its gradient is finite and does not vanish, as it would
    with a clamped logarithm. log(1 - P) is treated in the same way where 1 - P is below the machine
    epsilon, as it has no digits there.

    Args:
        p: [..., rank, input], in [0, 1].
        target: Q, the same shape, such as `permutation_matrix(values)`; columns sum to 1.
        binary: also reward every rank that an input does not have.
        reduction: "mean" over the batch too, "sum" over the batch of what are means over columns,
            or "none" for a number for each list.
        mask: bool [..., n], True where an input is present, as for `permutation` and
            `permutation_matrix`. Lists without any do not count in the mean.

    Returns:
        Scalar >= 0, 0 for an empty batch; or [...] with the reduction "none". Twice differentiable.

    Raises:
        TypeError: if `p` is not float32 or float64, or `target` no tensor.
        ValueError: if shapes or devices differ, the matrices are not square, or the reduction is
            unknown.

    Source: thesis, (3.12) and Figure 3.1.
    """
    check_float("p", p)
    check_tensor("target", target)
    check_shape("p", p, "[..., n, n]")
    if target.shape != p.shape:
        raise ValueError(
            f"target must have the shape of p, {shape_text(p.shape)}, "
            f"got {shape_text(target.shape)}; permutation_matrix(values) makes it from values"
        )
    known = check_mask(mask, p[..., 0, :] if p.shape[-1] else p, "columns of p", by_length=False)
    target = check_device("target", target, "p", p).to(p.dtype)
    inside = None if known is None else _inside(known)
    p, target = present(p, inside), present(target, inside)
    gain = target * safe_log(p, LEAST)
    if binary:
        gain = gain + (1 - target) * safe_log(1 - p, torch.finfo(p.dtype).eps)
    losses = -present(gain, inside).sum(-1) / counts_of(p, known)
    return reduced(losses.sum(-1), None if known is None else known.any(-1), reduction)


def _inside(mask: Tensor) -> Tensor:
    """Where a matrix [..., rank, input] belongs to the list of those present."""
    rows = torch.arange(mask.shape[-1], device=mask.device) < mask.sum(-1, keepdim=True)
    return rows[..., :, None] & mask[..., None, :]


def reduced(losses: Tensor, counts: Tensor | None, reduction: str) -> Tensor:
    """Losses [...] of lists, of which those count where `counts` is True, as a reduction of them.

    All count for None.

    Raises:
        ValueError: for an unknown reduction.
    """
    if check_reduction(reduction) == "none":
        return losses
    total = losses.sum()
    if reduction == "sum":
        return total
    return total / (max(1, losses.numel()) if counts is None else counts.sum().clamp(min=1))


def safe_log(p: Tensor, least: float) -> Tensor:
    """The logarithm of p, below `least` its tangent there; p < 0, by rounding, counts as 0."""
    is_safe = p >= least
    if p.device.type == "cpu" and not is_traced() and bool(is_safe.all()):
        return p.log()
    exact = torch.where(is_safe, p, 1.0).log()
    positive = torch.where(p < 0, 0.0, p)  # not clamp, whose slope at 0 is 0 from torch 2.15 on
    return torch.where(is_safe, exact, math.log(least) + (positive - least) / least)


# ---------------------------------------------------------------------------------------------
# rank correlations


@in_single
def spearman(ranks: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
    """Spearman's rho: the correlation of soft ranks with the ranks of values.

    With hard ranks it is the coefficient itself, ties included. Unlike a squared error it does not
    depend on how far apart soft ranks are.

    Args:
        ranks: [..., n], soft or hard. Any scores can be given too; the result is then their linear
            correlation with the true ranks.
        values: [..., n], true; equal ones share the mean of their ranks.
        mask: bool [..., n], True where an entry is present.

    Returns:
        [...], in [-1, 1]; 0, with gradient 0, if the ranks or the values of a list are all equal.
        Twice differentiable.

    Raises:
        TypeError: if one of them is no real tensor.
        ValueError: if shapes differ, n = 0, or NaN or inf are among them.

    Source: Blondel et al., Fast Differentiable Sorting and Ranking, 2020.
    """
    known = check_mask(mask, ranks, "ranks", by_length=False)
    ranks, values = checked_pair("ranks", ranks, "values", values, known)
    ranks = ranks / magnitude(ranks)
    counts = counts_of(ranks, known)
    a = present(ranks - ranks.sum(-1, keepdim=True) / counts, known)
    b = present(mean_ranks(values, known, ranks.dtype) - (counts + 1) / 2, known)
    # Differences of equal numbers that are only rounding count as 0.
    noise = 8 * torch.finfo(ranks.dtype).eps * ranks.detach().abs().amax(-1, keepdim=True)
    a = torch.where(a.detach().abs().amax(-1, keepdim=True) > noise, a, 0.0)
    return cosine((a * b).sum(-1), a.square().sum(-1), b.square().sum(-1))


@worded()
@in_single
def kendall(
    x: Tensor,
    values: Tensor,
    dist: DistributionLike = "logistic",
    steepness: Number = 10.0,
    variant: str = "a",
    mask: Tensor | None = None,
) -> Tensor:
    """Kendall's tau, relaxed: how many pairs are in the right order, minus those in the wrong one.

    For a symmetric distribution the sign of a difference becomes 2 F(steepness d) - 1, in general
    s(d) = F(steepness d) - F(-steepness d), and

        tau_a = mean over pairs of s(x_i - x_j) sign(y_i - y_j),
        tau_b = sum s(x_i - x_j) sign(y_i - y_j) / sqrt(sum s(x_i - x_j)^2 sum sign(y_i - y_j)^2).

    With dist="heaviside" both are the coefficients themselves, ties included.

    Args:
        x: [..., n], scores.
        values: [..., n], true.
        dist: a name, an object or a callable CDF.
        steepness: 1 / scale, > 0; a number or a tensor of a single one, through which gradients
            flow.
        variant: "a" or "b"; tied values leave tau_a below 1 however good the scores are.
        mask: bool [..., n], True where an entry is present.

    Returns:
        [...], in [-1, 1]; 0, with gradient 0, for n = 1, and for "b" if all scores or all values
        are equal. Twice differentiable. Memory is O(n^2) a list.

    Raises:
        TypeError: if `x` or `values` is no real tensor.
        ValueError: if shapes differ, n = 0, NaN or inf are among them, or an option is unknown.

    Source: Kendall, A New Measure of Rank Correlation, 1938; Daniels, 1944.
    """
    known = check_mask(mask, x, "x", by_length=False)
    check_choice("variant", variant, ("a", "b"))
    distribution: Distribution = as_distribution(dist)
    steepness = check_steepness(steepness)
    x, values = checked_pair("x", x, "values", values, known)
    # F for all ordered pairs; the entry of (j, i) is F(-d) for the pair (i, j).
    gaps = x[..., :, None] - x[..., None, :]
    if variant == "b":  # which has no scale: of small gaps float32 would leave few digits
        gaps = wide(gaps)
    above = saturated(distribution(gaps, scale_of(steepness)))
    soft = (above - above.mT).to(x.dtype)
    sign = _signs(values).to(soft.dtype)
    n = torch.as_tensor(x.shape[-1], device=x.device)
    if known is not None:
        pairs, n = known[..., :, None] & known[..., None, :], known.sum(-1)
        soft, sign = present(soft, pairs), present(sign, pairs)
    if variant == "a":
        return (soft * sign).sum((-2, -1)) / (n * (n - 1)).clamp(min=1)
    soft, sign = soft.flatten(-2), sign.flatten(-2)
    soft = soft / magnitude(soft)
    return cosine((soft * sign).sum(-1), soft.square().sum(-1), sign.square().sum(-1))


def _signs(values: Tensor) -> Tensor:
    """sign(y_i - y_j), [..., n, n], without the difference, which may overflow."""
    above = values[..., :, None] > values[..., None, :]
    return above.to(torch.int8) - above.mT.to(torch.int8)


def magnitude(x: Tensor) -> Tensor:
    """The power of 2 just below the largest |x| of every list, [..., 1], without gradient.

    Divided by it, huge numbers have finite sums and tiny ones nonzero squares; no digit changes.
    """
    largest = x.detach().abs().amax(-1, keepdim=True)
    if is_for_onnx():  # which has no frexp; 0 counts as the smallest number there
        return torch.exp2(largest.clamp(min=torch.finfo(x.dtype).tiny).log2().floor())
    # Not by the exponent: of its int32 inductor (torch 2.13) makes no C++ for 16 lists of doubles.
    return torch.where(largest > 0, largest / (2 * torch.frexp(largest).mantissa), 0.5)


def cosine(product: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The quotient product / sqrt(a b); a constant 0 if a b = 0."""
    is_defined = (a > 0) & (b > 0)
    a, b = (torch.where(is_defined, square, 1.0) for square in (a, b))
    return torch.where(is_defined, product, 0.0) / (a.sqrt() * b.sqrt())


# ---------------------------------------------------------------------------------------------
# discounted cumulative gain


@in_single
def ndcg(
    p: Tensor,
    relevance: Tensor,
    k: int | None = None,
    gain: str = "exponential",
    *,
    descending: bool,
    mask: Tensor | None = None,
) -> Tensor:
    """Normalised discounted cumulative gain, expected under a relaxed permutation matrix.

        DCG = sum_{r <= k} sum_c P_rc gain(relevance_c) / log2(1 + r),   NDCG = DCG / largest DCG

    Rank 1 is the top of the list here, the largest score. Of a P it cannot be seen in which order
    it sorts the scores, so this is to be said. With a hard one, as
    `ndcg(permutation_matrix(scores, ties="average"), relevance, descending=False)`, it is the
    metric itself, the mean over the orders of equal scores. `gendr.sorting.NDCGLoss` takes scores.

    Args:
        p: [..., rank, input], of the scores.
        relevance: [..., n], >= 0; grades or real numbers.
        k: only the first k ranks count; all by default.
        gain: "exponential", 2^relevance - 1, or "linear", the relevance itself.
        descending: how P sorts the scores: True for the largest first, as
            `permutation(scores, descending=True)`, False for that of `permutation(scores)`.
        mask: bool [..., n], True where an entry is present.

    Returns:
        [...], in [0, 1]; 0, with gradient 0, for a list without relevant elements. Linear in P.

    Raises:
        TypeError: if `p` is not float32 or float64, `relevance` no real tensor, k no int.
        ValueError: if shapes do not fit, relevance is negative, NaN, inf or so large that its gain
            overflows, or k < 1.

    Source: Järvelin and Kekäläinen, 2002; Taylor et al., SoftRank, 2008; Swezey et al., PiRank,
    2021.
    """
    check_float("p", p)
    sizes = check_shape("p", p, "[..., n, n]")
    k = sizes["n"] if k is None else check_count("k", k)
    columns = p[..., 0, :] if sizes["n"] else p
    known = check_mask(mask, columns, "columns of p", by_length=False)
    gains = checked_gains(relevance, columns, gain, known)
    discounts = discounts_of(p)[:k]
    if known is not None:
        p = present(p, _inside(known))
        if not descending:  # the last row is that of the last one present
            shift = (sizes["n"] - known.sum(-1))[..., None, None]
            rows = torch.arange(sizes["n"], device=p.device)[:, None] - shift
            p = p.gather(-2, (rows % sizes["n"]).expand_as(p))
    p = p if descending else p.flip(-2)
    result = (matmul(discounts, p[..., :k, :]) * gains).sum(-1)
    return normalised(result, gains, discounts)


@in_single
def ndcg_of_ranks(
    ranks: Tensor,
    relevance: Tensor,
    gain: str = "exponential",
    *,
    descending: bool,
    mask: Tensor | None = None,
) -> Tensor:
    """Normalised discounted cumulative gain with every element discounted at its soft rank.

        DCG = sum_c gain(relevance_c) / log2(1 + rank_c),   NDCG = DCG / largest DCG

    For methods that have ranks but no permutation matrix. By convexity of the discount it is at
    most the expected NDCG of a P with these ranks, see `ndcg`.

    Args:
        ranks: [..., n], soft or hard, >= 1, of the scores.
        relevance: [..., n], >= 0.
        gain: "exponential", 2^relevance - 1, or "linear", the relevance itself.
        descending: whether the largest score has rank 1, as in `soft_rank(scores,
            descending=True)`, or the last, as in `soft_rank(scores)`.
        mask: bool [..., n], True where an entry is present.

    Returns:
        [...]; 0, with gradient 0, for a list without relevant elements. Twice differentiable.

    Raises:
        TypeError: if one of them is no real tensor.
        ValueError: if shapes differ, n = 0, a rank is not above 0, relevance is negative or so
            large that its gain overflows, or NaN or inf are among them.
    """
    known = check_mask(mask, ranks, "ranks", by_length=False)
    ranks = checked_floats("ranks", ranks, known)
    ranks = ranks if descending else counts_of(ranks, known) + 1 - ranks
    ranks = ranks if known is None else ranks.masked_fill(~known, 1)
    if ranks.numel() and not all_hold(ranks > 0):
        raise ValueError(f"ranks must be > 0, got {ranks.min().item():g}; they count from 1")
    gains = checked_gains(relevance, ranks, gain, known)
    return normalised((gains / torch.log2(1 + ranks)).sum(-1), gains, discounts_of(ranks))


def checked_gains(relevance: Tensor, like: Tensor, gain: str, mask: Tensor | None = None) -> Tensor:
    """The gains of elements with these relevances, [..., n]."""
    check_choice("gain", gain, ("exponential", "linear"))
    if check_tensor("relevance", relevance).shape != like.shape:
        raise ValueError(
            f"relevance must have shape {shape_text(like.shape)}, got {shape_text(relevance.shape)}"
        )
    relevance = checked_floats("relevance", relevance, mask)
    if relevance.numel() and not all_hold(relevance >= 0):
        raise ValueError(f"relevance must be >= 0, got {relevance.min().item():g}")
    relevance = check_device("relevance", relevance, "the others", like).to(like.dtype)
    gains = torch.exp2(relevance) - 1 if gain == "exponential" else relevance
    if not all_hold(torch.isfinite(gains)):
        raise ValueError(
            f"gain {gain!r} of a relevance of {relevance.max().item():g} is beyond the range of "
            f"{dtype_name(gains.dtype)}; give relevance in smaller units"
        )
    return gains / magnitude(gains)  # only ratios count


def discounts_of(like: Tensor) -> Tensor:
    """The discounts 1 / log2(1 + r) of the ranks r = 1 .. n."""
    ranks = torch.arange(1, like.shape[-1] + 1, dtype=like.dtype, device=like.device)
    return 1 / torch.log2(1 + ranks)


def normalised(result: Tensor, gains: Tensor, discounts: Tensor) -> Tensor:
    """DCG divided by that of the best order; 0 if the latter is 0."""
    best = gains.sort(-1, descending=True).values[..., : len(discounts)]
    best = (best * discounts).sum(-1)
    is_defined = best > 0
    return torch.where(is_defined, result, 0.0) / torch.where(is_defined, best, 1.0)


# ---------------------------------------------------------------------------------------------
# checks of arguments


def checked_list(name: str, x: object, mask: Tensor | None = None) -> Tensor:
    """A finite tensor [..., n], n >= 1; integers stay integers, as floats may merge them."""
    x = check_tensor(name, x)
    if x.is_complex():
        raise TypeError(f"{name} must be real, got {dtype_name(x.dtype)}")
    if x.ndim == 0 or x.shape[-1] == 0:
        raise ValueError(f"{name} must have shape [..., n] with n >= 1, got {shape_text(x.shape)}")
    x = present(x, mask)
    if x.is_floating_point():
        return check_finite(name, x)
    return x.byte() if x.dtype is torch.bool else x


def _float_like(x: Tensor) -> torch.dtype:
    """The dtype of what is computed from x."""
    if x.is_floating_point():
        return torch.promote_types(x.dtype, torch.float32)
    return torch.get_default_dtype()


def checked_floats(name: str, x: object, mask: Tensor | None = None) -> Tensor:
    """What `checked_list` gives, in float32 or float64."""
    x = checked_list(name, x, mask)
    return x.to(_float_like(x))


def checked_pair(
    name: str, x: object, other_name: str, other: object, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """`x` as floats, and `other` as a list of the same shape on the same device; 0 if absent."""
    one, two = check_tensor(name, x), check_tensor(other_name, other)
    if one.shape != two.shape:
        raise ValueError(
            f"{name} and {other_name} must have one shape, "
            f"got {shape_text(one.shape)} and {shape_text(two.shape)}"
        )
    one, two = checked_floats(name, one, mask), checked_list(other_name, two, mask)
    return one, check_device(other_name, two, name, one)
