"""Metrics of rankings, to report beside the losses: hard, without gradient, one number a list.

Scores and targets are [..., n], the larger the better both. Lists of different lengths come with a
mask, True where an entry is present, or flat with `indexes`: the query of each entry. An entry is
relevant if its target is above the threshold.

    >>> metrics.ndcg(scores, grades, k=10, indexes=queries).mean()

Equal scores have no order: a metric is its mean over all orders of them, so that no model gains by
the order in which entries come. Lists without entries, or without relevant ones, have 0.

Source: McSherry and Najork, Computing Information Retrieval Performance Measures Efficiently in the
Presence of Tied Scores, ECIR 2008; Manning et al., Introduction to Information Retrieval, 2008,
chapter 8, for the metrics.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gendr._common.checks import check_choice, check_count, check_number
from gendr._common.tracing import doubled, is_for_onnx, is_traced, running_max
from gendr.sorting.losses import (
    checked_gains,
    checked_pair,
    counts_of,
    discounts_of,
    has_order,
    normalised,
    rank_range,
    with_largest,
)
from gendr.sorting.ragged import by_query, check_mask, present

__all__ = [
    "average_precision", "kendall", "ndcg", "precision", "recall", "reciprocal_rank", "spearman",
]  # fmt: skip

_BLOCK = 16  # within which inversions are counted pair by pair


class _Lists(NamedTuple):
    """Checked lists [..., n], and which entries are present; None for all."""

    scores: Tensor
    target: Tensor
    mask: Tensor | None
    dtype: torch.dtype

    @property
    def sizes(self) -> Tensor:
        """How many are present, [..., 1]."""
        if self.mask is None:
            return torch.full_like(self.target[..., :1], self.target.shape[-1], dtype=torch.int64)
        return self.mask.sum(-1, keepdim=True)

    def result(self, found: Tensor) -> Tensor:
        """[...] in the dtype of the scores as given, 0 for lists without entries."""
        found = found if self.mask is None else present(found, self.mask.any(-1))
        return found.to(self.dtype)


def _lists(scores: Tensor, target: Tensor, mask: Tensor | None, indexes: Tensor | None) -> _Lists:
    if indexes is not None:
        mask, (scores, target) = by_query(indexes, mask, scores, target)
    known = check_mask(mask, scores, "scores", by_length=False)
    wide, target = checked_pair("scores", scores, "target", target, known)
    dtype = scores.dtype if scores.is_floating_point() else wide.dtype
    return _Lists(wide.detach(), target.detach(), known, dtype)


class _Ranked(NamedTuple):
    """Lists by descending score, [..., n], what is absent last.

    Attributes:
        mean: of a quantity over all with the score of this one.
        before: how many have larger scores.
        ties: how many have this score.
    """

    mean: Tensor
    before: Tensor
    ties: Tensor

    @property
    def place(self) -> Tensor:
        """From 1, [n]."""
        return torch.arange(1, self.mean.shape[-1] + 1, device=self.mean.device)

    def above(self, worth: Tensor) -> Tensor:
        """The sum of a quantity over all with larger scores than each."""
        return torch.nn.functional.pad(worth.cumsum(-1), (1, 0)).gather(-1, self.before)

    def first(self, worth: Tensor, k: int | None) -> Tensor:
        """The sum [...] of a quantity over the first k; over all for None."""
        return worth[..., : None if k is None else check_count("k", k)].sum(-1)


def _ranked(lists: _Lists, worth: Tensor) -> _Ranked:
    """The lists by rank, and the mean worth of equals; 0 where absent."""
    keys = lists.scores
    if lists.mask is not None:
        keys = keys.masked_fill(~lists.mask, -torch.inf)
    ordered, order = keys.sort(dim=-1, descending=True)
    worth = doubled(worth).gather(-1, order)
    place = torch.arange(worth.shape[-1], device=worth.device).expand_as(order)
    rises = torch.ones_like(order, dtype=torch.bool)
    rises[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    if not is_traced() and bool(rises.all()):
        return _Ranked(worth, place, torch.ones_like(place))
    before = running_max(torch.where(rises, place, 0))
    ties = torch.zeros_like(place).scatter_add(-1, before, torch.ones_like(place))
    sums = torch.zeros_like(worth).scatter_add(-1, before, worth)
    ties = ties.gather(-1, before)
    return _Ranked(sums.gather(-1, before) / ties, before, ties)


def ndcg(
    scores: Tensor, target: Tensor, k: int | None = None, gain: str = "exponential", *,
    mask: Tensor | None = None, indexes: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Normalised discounted cumulative gain, DCG / largest DCG.

        DCG = sum over ranks r <= k of gain(target of r) / log2(1 + r)

    Args:
        scores: [..., n], predicted.
        target: [..., n] >= 0: grades or relevance.
        k: only the first k ranks count; all by default.
        gain: "exponential", 2^target - 1, or "linear", as scikit-learn and torchmetrics have it.
        mask: bool [..., n], True where an entry is present.
        indexes: integers in the shape of the target, the query of each entry.

    Returns:
        [...], or [Q] for Q queries by ascending index; in [0, 1], without gradient.

    Raises:
        TypeError, ValueError: as the losses, `gendr.sorting.RankingLoss`.

    Source: Järvelin and Kekäläinen, 2002.
    """
    lists = _lists(scores, target, mask, indexes)
    gains = doubled(checked_gains(lists.target, lists.scores, gain, lists.mask))
    discounts, ranked = discounts_of(gains), _ranked(lists, gains)
    found = ranked.first(ranked.mean * discounts, k)
    return lists.result(normalised(found, gains, discounts[:k]))


def _hits(
    scores: Tensor, target: Tensor, threshold: float, mask: Tensor | None, indexes: Tensor | None
) -> tuple[_Lists, _Ranked, Tensor]:
    """Lists, how likely each rank is relevant, and how many are [...]."""
    lists = _lists(scores, target, mask, indexes)
    relevant = lists.target > check_number("threshold", threshold)
    relevant = relevant if lists.mask is None else relevant & lists.mask
    return lists, _ranked(lists, relevant), doubled(relevant.sum(-1))


def precision(
    scores: Tensor, target: Tensor, k: int | None = None, threshold: float = 0.0, *,
    mask: Tensor | None = None, indexes: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The fraction of relevant ones among the first k, which may be more than there are entries.

    All entries by default. Arguments and result are those of `reciprocal_rank`.
    """
    lists, ranked, _ = _hits(scores, target, threshold, mask, indexes)
    count = lists.sizes[..., 0].clamp(min=1) if k is None else k
    return lists.result(ranked.first(ranked.mean, k) / count)


def recall(
    scores: Tensor, target: Tensor, k: int | None = None, threshold: float = 0.0, *,
    mask: Tensor | None = None, indexes: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The fraction of the relevant ones that is among the first k.

    Arguments and result are those of `reciprocal_rank`.
    """
    lists, ranked, total = _hits(scores, target, threshold, mask, indexes)
    return lists.result(ranked.first(ranked.mean, k) / total.clamp(min=1))


def average_precision(
    scores: Tensor, target: Tensor, k: int | None = None, threshold: float = 0.0, *,
    mask: Tensor | None = None, indexes: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The mean over the relevant ones of the precision at their rank; its mean is MAP.

    With k, those of the first k only, divided by k if more are relevant, so that 1 is the best.
    Arguments and result are those of `reciprocal_rank`.
    """
    lists, ranked, total = _hits(scores, target, threshold, mask, indexes)
    mean, before, ties = ranked
    # How many relevant ones are expected above an entry that is so: of larger scores, and equals.
    equal = (mean * ties - 1).clamp(min=0) / (ties - 1).clamp(min=1)
    above = ranked.above(mean) + (ranked.place - 1 - before) * equal
    found = ranked.first(mean * (above + 1) / ranked.place, k)
    return lists.result(found / total.clamp(min=1, max=k))


def reciprocal_rank(
    scores: Tensor, target: Tensor, k: int | None = None, threshold: float = 0.0, *,
    mask: Tensor | None = None, indexes: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """1 / the rank of the first relevant entry; its mean is MRR.

    Args:
        scores: [..., n], predicted.
        target: [..., n].
        k: only the first k ranks count; all by default.
        threshold: a target above it is relevant.
        mask: bool [..., n], True where an entry is present.
        indexes: integers in the shape of the target, the query of each entry.

    Returns:
        [...], or [Q] for Q queries by ascending index; in [0, 1], without gradient.

    Raises:
        TypeError, ValueError: as the losses, `gendr.sorting.RankingLoss`.
    """
    lists, ranked, _ = _hits(scores, target, threshold, mask, indexes)
    mean, before, ties = ranked
    hits = (mean * ties).round()
    # Of t equals h are relevant: the first of these is at place i with C(t - i, h - 1) / C(t, h).
    left = ties - (ranked.place - before)
    chance = (_choices(left, hits - 1) - _choices(ties, hits)).exp()
    is_first = (hits > 0) & (left >= hits - 1) & (ranked.above(mean) == 0)
    return lists.result(ranked.first(torch.where(is_first, chance, 0.0) / ranked.place, k))


def _choices(n: Tensor, k: Tensor) -> Tensor:
    """The logarithm of the number of choices of k among n, [..., m], of 0 .. m; k may be beyond."""
    logs = doubled(torch.arange(1, n.shape[-1] + 1, device=n.device)).log()
    logs = torch.nn.functional.pad(logs.cumsum(0), (1, 0))  # of factorials, from 0
    n, k = n.long(), k.long().clamp(min=0)
    return logs[n] - logs[k] - logs[(n - k).clamp(min=0)]


def spearman(
    scores: Tensor, target: Tensor, *, mask: Tensor | None = None, indexes: Tensor | None = None
) -> Tensor:
    """Spearman's rho: the correlation of the ranks, of which equal values share the mean.

    Args:
        scores: [..., n], predicted.
        target: [..., n].
        mask: bool [..., n], True where an entry is present.
        indexes: integers in the shape of the target, the query of each entry.

    Returns:
        [...] in [-1, 1], or [Q] for Q queries by ascending index; 0 where all are equal.

    Raises:
        TypeError, ValueError: as the losses, `gendr.sorting.RankingLoss`.
    """
    lists = _lists(scores, target, mask, indexes)
    pair, mask = (lists.scores, lists.target), lists.mask
    columns = None if mask is None else mask[..., None, :]
    if pair[0].dtype == pair[1].dtype:  # one pass over the order of both
        both = torch.stack(pair, -2)
        if has_order(both):
            return lists.result(_correlations(with_largest(both, columns), mask))
        first, last = rank_range(both, columns)
    else:
        each = zip(*(rank_range(values, mask) for values in pair), strict=True)
        first, last = (torch.stack(ranks, -2) for ranks in each)
    # Twice the mean ranks less their means: integers, which are 0 or at least 1.
    ranks = present(doubled(first + last - (counts_of(first, columns) + 1)), columns)
    products = ranks @ ranks.mT
    squares = products.diagonal(dim1=-2, dim2=-1).prod(-1).sqrt()
    return lists.result(products[..., 0, 1] / squares.clamp(min=1))


def _correlations(pairs: Tensor, mask: Tensor | None) -> Tensor:
    """Spearman's rho, float64 [...], of pairs [..., 2, n] by a kernel; see `with_largest`."""
    from gendr.sorting.backends.cpu.order import correlations, fill_order

    n = pairs.shape[-1]
    keys = pairs.reshape(-1, n).numpy()
    order = np.empty(keys.shape, np.int64)
    fill_order(keys, order)
    known = np.empty((0, 0), bool) if mask is None else mask.reshape(-1, n).numpy()
    found = np.empty(len(keys) // 2)
    correlations(keys, order, known, found)
    return torch.from_numpy(found).view(pairs.shape[:-2])


def kendall(
    scores: Tensor, target: Tensor, variant: str = "b", *, mask: Tensor | None = None,
    indexes: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Kendall's tau, in O(n log^2 n): pairs in the right order less those in the wrong one.

    Args:
        scores: [..., n], predicted.
        target: [..., n].
        variant: "a", divided by the number of pairs, or "b", by the root of those that are not tied
            in the one and in the other.
        mask: bool [..., n], True where an entry is present.
        indexes: integers in the shape of the target, the query of each entry.

    Returns:
        [...] in [-1, 1], or [Q] for Q queries by ascending index; 0 where all are equal.

    Raises:
        TypeError, ValueError: as the losses, `gendr.sorting.RankingLoss`.

    Source: Knight, A Computer Method for Calculating Kendall's Tau with Ungrouped Data, 1966.
    """
    check_choice("variant", variant, ("a", "b"))
    lists = _lists(scores, target, mask, indexes)
    n, size = lists.scores.shape[-1], doubled(lists.sizes[..., 0])
    x, y = (rank_range(values, lists.mask)[0] for values in (lists.scores, lists.target))
    if lists.mask is not None:
        x, y = (rank.masked_fill(~lists.mask, n + 1) for rank in (x, y))
    both = x * (n + 2) + y
    all_pairs, *tied = (size * (size - 1) / 2, *(_tied(v, lists.mask) for v in (x, y, both)))
    second = both.sort(-1).values % (n + 2)
    balance = all_pairs - tied[0] - tied[1] + tied[2] - 2 * _inversions(second)
    pairs = all_pairs
    if variant == "b":
        pairs = ((all_pairs - tied[0]) * (all_pairs - tied[1])).sqrt()
    return lists.result(torch.where(pairs > 0, balance / pairs.clamp(min=1), 0.0))


def _tied(values: Tensor, mask: Tensor | None) -> Tensor:
    """The number of pairs [...] of equal ones among those present."""
    first, last = rank_range(values, mask)
    return present(doubled(last - first), mask).sum(-1) / 2


def _inversions(values: Tensor) -> Tensor:
    """How many pairs [...] of integers [..., n] are in descending order, by merging."""
    if is_for_onnx():  # which has no word for searches: pair by pair
        return doubled((values[..., :, None] > values[..., None, :]).triu(1).sum((-2, -1)))
    n, size = values.shape[-1], _BLOCK
    while size < n:
        size *= 2
    # What fills up the last block is larger than all.
    values = torch.nn.functional.pad(values, (0, size - n), value=2**53)
    blocks = values.unflatten(-1, (-1, _BLOCK))
    found = doubled((blocks[..., :, None] > blocks[..., None, :]).triu(1).sum((-3, -2, -1)))
    half = _BLOCK
    while half < size:
        low, high = values.unflatten(-1, (-1, 2, half)).sort(-1).values.unbind(-2)
        places = torch.searchsorted(low.contiguous(), high.contiguous(), right=True)
        found = found + (half - places).sum((-2, -1))
        values, half = torch.cat([low, high], -1).flatten(-2), 2 * half
    return found
