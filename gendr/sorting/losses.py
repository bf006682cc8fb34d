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
from functools import partial

import torch
from torch import Tensor

from gendr._common.checks import (
    check_choice,
    check_count,
    check_device,
    check_finite,
    check_float,
    check_shape,
    check_tensor,
    dtype_name,
    shape_text,
)
from gendr._common.ranges import saturated
from gendr._common.tracing import all_hold, breaking_graphs_for_masks, in_single, matmul
from gendr._common.words import worded
from gendr.distributions import Distribution, as_distribution
from gendr.distributions.decisions import Number, check_steepness, scale_of
from gendr.distributions.registry import DistributionLike
from gendr.sorting.ragged import by_lists, check_mask

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
REDUCTIONS = ("none", "mean", "sum")


# ---------------------------------------------------------------------------------------------
# the hard truth


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
    if (known := check_mask(mask, values, "values")) is not None:
        return by_lists(partial(hard_ranks, ties=ties), known, "n", values=(values, "n"))
    values = _list("values", values)
    if check_choice("ties", ties, ("average", "first")) == "average":
        first, last = _rank_range(values)
        return (first + last).to(_float_like(values)) / 2
    return ranks_of(values.argsort(dim=-1, stable=True), _float_like(values))


def ranks_of(order: Tensor, dtype: torch.dtype) -> Tensor:
    """The ranks from 1, [..., n], of values of this ascending order, int64 [..., n]."""
    ranks = torch.arange(1, order.shape[-1] + 1, dtype=dtype, device=order.device)
    return torch.zeros_like(order, dtype=dtype).scatter(-1, order, ranks.expand_as(order))


def matrix_of(order: Tensor, dtype: torch.dtype) -> Tensor:
    """The permutation matrix [..., rank, input] of this ascending order, int64 [..., n]."""
    shape = (*order.shape, order.shape[-1])
    return torch.zeros(shape, dtype=dtype, device=order.device).scatter(-1, order[..., None], 1.0)


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
    if (known := check_mask(mask, values, "values")) is not None:
        return by_lists(partial(permutation_matrix, ties=ties), known, "rn", values=(values, "n"))
    values = _list("values", values)
    if check_choice("ties", ties, ("average", "first")) == "first":
        return matrix_of(values.argsort(dim=-1, stable=True), _float_like(values))
    first, last = (rank[..., None, :] for rank in _rank_range(values))
    rank = torch.arange(1, values.shape[-1] + 1, device=values.device)[:, None]
    return ((first <= rank) & (rank <= last)) / (last - first + 1).to(_float_like(values))


def _rank_range(values: Tensor) -> tuple[Tensor, Tensor]:
    """The first and the last rank, int64 [..., n], that each value can have, given ties."""
    values = values.contiguous()
    ascending = values.sort(-1).values
    first = torch.searchsorted(ascending, values) + 1
    return first, torch.searchsorted(ascending, values, right=True)


# ---------------------------------------------------------------------------------------------
# metrics


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
    if (known := check_mask(mask, scores, "scores")) is not None:
        return by_lists(element_match, known, "", scores=(scores, "n"), values=(values, "n"))
    return _right(scores, values).mean(-1)


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
    if (known := check_mask(mask, scores, "scores")) is not None:
        return by_lists(exact_match, known, "", scores=(scores, "n"), values=(values, "n"))
    return _right(scores, values).amin(-1)


def _right(scores: Tensor, values: Tensor) -> Tensor:
    """1 for elements of the right rank, else 0; [..., n]."""
    scores, values = checked_pair("scores", scores, "values", values)
    result, true = _rank_range(scores.detach()), _rank_range(values)
    return ((true[0] <= result[0]) & (result[1] <= true[1])).to(scores.dtype)


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


@breaking_graphs_for_masks
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
    if (known := check_mask(mask, p[..., 0, :] if p.shape[-1] else p, "columns of p")) is not None:
        function = partial(ranking_cross_entropy, binary=binary, reduction="none")
        losses = by_lists(function, known, "", p=(p, "rn"), target=(target, "rn"))
        return reduced(losses, known.any(-1), reduction)
    target = check_device("target", target, "p", p).to(p.dtype)
    gain = target * safe_log(p, LEAST)
    if binary:
        gain = gain + (1 - target) * safe_log(1 - p, torch.finfo(p.dtype).eps)
    columns = max(1, p.shape[-1])
    if check_choice("reduction", reduction, REDUCTIONS) != "mean":
        losses = -gain.sum((-2, -1)) / columns
        return losses if reduction == "none" else losses.sum()
    return -gain.sum() / max(1, p.numel() // columns)


def reduced(losses: Tensor, counts: Tensor, reduction: str) -> Tensor:
    """Losses [...] of lists, of which those count where `counts` is True, as a reduction of them.

    Raises:
        ValueError: for an unknown reduction.
    """
    if check_choice("reduction", reduction, REDUCTIONS) == "none":
        return losses
    total = losses.sum()
    return total if reduction == "sum" else total / counts.sum().clamp(min=1)


def safe_log(p: Tensor, least: float) -> Tensor:
    """The logarithm of p, below `least` its tangent there; p < 0, by rounding, counts as 0."""
    is_safe = p >= least
    exact = torch.where(is_safe, p, 1.0).log()
    return torch.where(is_safe, exact, math.log(least) + (p.clamp(min=0) - least) / least)


# ---------------------------------------------------------------------------------------------
# rank correlations


@breaking_graphs_for_masks
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
    if (known := check_mask(mask, ranks, "ranks")) is not None:
        return by_lists(spearman, known, "", ranks=(ranks, "n"), values=(values, "n"))
    ranks, values = checked_pair("ranks", ranks, "values", values)
    ranks = ranks / _magnitude(ranks)
    a = ranks - ranks.mean(-1, keepdim=True)
    b = hard_ranks(values).to(ranks.dtype)
    b = b - b.mean(-1, keepdim=True)
    # Differences of equal numbers that are only rounding count as 0.
    noise = 8 * torch.finfo(ranks.dtype).eps * ranks.detach().abs().amax(-1, keepdim=True)
    a = torch.where(a.detach().abs().amax(-1, keepdim=True) > noise, a, 0.0)
    return _cosine((a * b).sum(-1), a.square().sum(-1), b.square().sum(-1))


@worded()
@breaking_graphs_for_masks
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
    if (known := check_mask(mask, x, "x")) is not None:
        function = partial(kendall, dist=dist, steepness=steepness, variant=variant)
        return by_lists(function, known, "", x=(x, "n"), values=(values, "n"))
    check_choice("variant", variant, ("a", "b"))
    law: Distribution = as_distribution(dist)
    steepness = check_steepness(steepness)
    x, values = checked_pair("x", x, "values", values)
    # F for all ordered pairs; the entry of (j, i) is F(-d) for the pair (i, j).
    above = saturated(law(x[..., :, None] - x[..., None, :], scale_of(steepness)))
    soft = above - above.mT
    sign = _signs(values).to(soft.dtype)
    n = x.shape[-1]
    if variant == "a":
        return (soft * sign).sum((-2, -1)) / max(1, n * (n - 1))
    soft, sign = soft.flatten(-2), sign.flatten(-2)
    soft = soft / _magnitude(soft)
    return _cosine((soft * sign).sum(-1), soft.square().sum(-1), sign.square().sum(-1))


def _signs(values: Tensor) -> Tensor:
    """sign(y_i - y_j), [..., n, n], without the difference, which may overflow."""
    above = values[..., :, None] > values[..., None, :]
    return above.to(torch.int8) - above.mT.to(torch.int8)


def _magnitude(x: Tensor) -> Tensor:
    """The power of 2 just below the largest |x| of every list, [..., 1], without gradient.

    Divided by it, huge numbers have finite sums and tiny ones nonzero squares; no digit changes.
    """
    exponent = torch.frexp(x.detach().abs().amax(-1, keepdim=True)).exponent
    return torch.exp2((exponent - 1).to(x.dtype))


def _cosine(product: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The quotient product / sqrt(a b); a constant 0 if a b = 0."""
    is_defined = (a > 0) & (b > 0)
    a, b = (torch.where(is_defined, square, 1.0) for square in (a, b))
    return torch.where(is_defined, product, 0.0) / (a.sqrt() * b.sqrt())


# ---------------------------------------------------------------------------------------------
# discounted cumulative gain


@breaking_graphs_for_masks
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
    if (known := check_mask(mask, columns, "columns of p")) is not None:
        function = partial(ndcg, k=k, gain=gain, descending=descending)
        return by_lists(function, known, "", p=(p, "rn"), relevance=(relevance, "n"))
    p = p if descending else p.flip(-2)
    gains = checked_gains(relevance, columns, gain)
    discounts = discounts_of(p)[:k]
    result = (matmul(discounts, p[..., :k, :]) * gains).sum(-1)
    return normalised(result, gains, discounts)


@breaking_graphs_for_masks
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
    if (known := check_mask(mask, ranks, "ranks")) is not None:
        function = partial(ndcg_of_ranks, gain=gain, descending=descending)
        return by_lists(function, known, "", ranks=(ranks, "n"), relevance=(relevance, "n"))
    ranks = _floats("ranks", ranks)
    ranks = ranks if descending else ranks.shape[-1] + 1 - ranks
    if ranks.numel() and not all_hold(ranks > 0):
        raise ValueError(f"ranks must be > 0, got {ranks.min().item():g}; they count from 1")
    gains = checked_gains(relevance, ranks, gain)
    return normalised((gains / torch.log2(1 + ranks)).sum(-1), gains, discounts_of(ranks))


def checked_gains(relevance: Tensor, like: Tensor, gain: str) -> Tensor:
    """The gains of elements with these relevances, [..., n]."""
    check_choice("gain", gain, ("exponential", "linear"))
    relevance = _floats("relevance", relevance)
    if relevance.shape != like.shape:
        raise ValueError(
            f"relevance must have shape {shape_text(like.shape)}, got {shape_text(relevance.shape)}"
        )
    if relevance.numel() and not all_hold(relevance >= 0):
        raise ValueError(f"relevance must be >= 0, got {relevance.min().item():g}")
    relevance = check_device("relevance", relevance, "the others", like).to(like.dtype)
    gains = torch.exp2(relevance) - 1 if gain == "exponential" else relevance
    if not all_hold(torch.isfinite(gains)):
        raise ValueError(
            f"gain {gain!r} of a relevance of {relevance.max().item():g} is beyond the range of "
            f"{dtype_name(gains.dtype)}; give relevance in smaller units"
        )
    return gains / _magnitude(gains)  # only ratios count


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


def _list(name: str, x: object) -> Tensor:
    """A finite tensor [..., n], n >= 1; integers stay integers, as floats may merge them."""
    x = check_tensor(name, x)
    if x.is_complex():
        raise TypeError(f"{name} must be real, got {dtype_name(x.dtype)}")
    if x.ndim == 0 or x.shape[-1] == 0:
        raise ValueError(f"{name} must have shape [..., n] with n >= 1, got {shape_text(x.shape)}")
    if x.is_floating_point():
        return check_finite(name, x)
    return x.byte() if x.dtype is torch.bool else x


def _float_like(x: Tensor) -> torch.dtype:
    """The dtype of what is computed from x."""
    if x.is_floating_point():
        return torch.promote_types(x.dtype, torch.float32)
    return torch.get_default_dtype()


def _floats(name: str, x: object) -> Tensor:
    """What `_list` gives, in float32 or float64."""
    x = _list(name, x)
    return x.to(_float_like(x))


def checked_pair(name: str, x: object, other_name: str, other: object) -> tuple[Tensor, Tensor]:
    """`x` as floats, and `other` as a list of the same shape on the same device."""
    one, two = _floats(name, x), _list(other_name, other)
    if one.shape != two.shape:
        raise ValueError(
            f"{name} and {other_name} must have one shape, "
            f"got {shape_text(one.shape)} and {shape_text(two.shape)}"
        )
    return one, check_device(other_name, two, name, one)
