"""Losses of rankings: from scores and what is true to a number to minimise.

Scores and targets are [..., n], the larger the better both, so that no direction can be wrong.
Lists of different lengths come with a mask, True where an entry is present.

    >>> loss = NDCGLoss("softsort", steepness=1.0, k=10)
    >>> loss(model(documents), grades, mask).backward()
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Literal, TypeAlias, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from gendr._common.checks import check_choice, check_count, check_number
from gendr._common.tracing import breaking_graphs_for_masks, is_traced
from gendr._common.words import worded
from gendr.distributions import as_distribution
from gendr.distributions.decisions import Number, check_steepness
from gendr.distributions.registry import DistributionLike
from gendr.sorting.api import Method, get, permutation, soft_rank
from gendr.sorting.base import PermutationSort
from gendr.sorting.losses import (
    REDUCTIONS,
    checked_gains,
    checked_pair,
    discounts_of,
    kendall,
    ndcg,
    ndcg_of_ranks,
    normalised,
    reduced,
    spearman,
)
from gendr.sorting.ragged import by_lists, check_mask
from gendr.sorting.relaxed import NetworkSort
from gendr.sorting.rows import RowSort

__all__ = [
    "KendallLoss", "LambdaLoss", "ListMLE", "MAPLoss", "NDCGLoss", "RankingLoss", "SpearmanLoss",
]  # fmt: skip

Reduction: TypeAlias = Literal["none", "mean", "sum"]


class RankingLoss(nn.Module, ABC):
    """A loss of scores, to minimise.

    Args:
        reduction: "mean" over the lists that count, "sum", or "none" for one number for each list.

    Raises:
        ValueError: the reduction is unknown.
    """

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__()
        self.reduction = check_choice("reduction", reduction, REDUCTIONS)

    @breaking_graphs_for_masks
    def forward(self, scores: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
        """The loss.

        Args:
            scores: [..., n], predicted; larger ones are nearer to the top.
            target: [..., n], true: grades, relevance or values; larger ones belong nearer to the
                top.
            mask: bool [..., n], True where an entry is present. Absent ones may be anything and
                get no gradient; lists without entries do not count.

        Returns:
            A scalar in the dtype of the scores, computed in float32 at least; [...] for the
            reduction "none", with 0 for lists without entries. Lists with
            nothing to order, because all their targets are 0, have no gradient, but for `ListMLE`.

        Raises:
            TypeError: no real tensors.
            ValueError: shapes differ, or NaN or inf are among what is present.
        """
        known = check_mask(mask, scores, "scores")
        dtype = scores.dtype if scores.is_floating_point() else torch.get_default_dtype()
        if known is None:
            scores, target = checked_pair("scores", scores, "target", target)
            losses = self.of_lists(scores, target)
            return reduced(losses, torch.ones_like(losses), self.reduction).to(dtype)
        if target.shape != scores.shape:
            checked_pair("scores", scores, "target", target)  # raises
        losses = by_lists(self._checked, known, "", scores=(scores, "n"), target=(target, "n"))
        return reduced(losses, known.any(-1), self.reduction).to(dtype)

    def _checked(self, scores: Tensor, target: Tensor) -> Tensor:
        return self.of_lists(*checked_pair("scores", scores, "target", target))

    @abstractmethod
    def of_lists(self, scores: Tensor, target: Tensor) -> Tensor:
        """The losses [...] of whole lists [..., n]; checked, scores floating."""


class _Sorting(RankingLoss):
    """A loss by a soft sort or soft ranks.

    Args:
        method: a name (`gendr.sorting.names()` lists them) or a method.
        reduction: "mean", "sum" or "none".
        **options: settings of the method, such as `steepness`, which is 1 / scale; in units of
            scores.
    """

    def __init__(
        self, method: Method = "softsort", *, reduction: Reduction = "mean", **options: Any
    ) -> None:
        super().__init__(reduction)
        self.method = get(method, **options)

    def extra_repr(self) -> str:
        """The method and the reduction."""
        return f"{self.method}, reduction={self.reduction!r}"


@final
class NDCGLoss(_Sorting):
    """1 - NDCG, expected under the permutation matrix of a soft sort; or of soft ranks without one.

    NeuralSort is that of PiRank. Of it and of SoftSort only the rows of P sum to 1, so that an
    entry could count at several places; here columns are divided by their sums, as for ranks, and
    every entry counts once. Networks get the entries in the order of their scores.

    Args:
        method: a name or a method; "permutahedron" has ranks only (`ndcg_of_ranks`).
        k: only the first k places count; all by default, and always for ranks.
        gain: "exponential", 2^grade - 1, or "linear".
        reduction: "mean", "sum" or "none".
        **options: settings of the method, such as `steepness`.

    Raises:
        TypeError, ValueError: as `soft_rank`; k together with a method without a matrix.

    Source: Swezey et al., PiRank: Learning To Rank via Differentiable Sorting, 2021; Taylor et al.,
        SoftRank, 2008.
    """

    def __init__(
        self,
        method: Method = "neuralsort",
        *,
        k: int | None = None,
        gain: str = "exponential",
        reduction: Reduction = "mean",
        **options: Any,
    ) -> None:
        super().__init__(method, reduction=reduction, **options)
        self.k = None if k is None else check_count("k", k)
        self.gain = check_choice("gain", gain, ("exponential", "linear"))
        if k is not None and not isinstance(self.method, PermutationSort):
            raise ValueError(
                f"method {self.method.name!r} has no permutation matrix, which k = {k} needs; "
                "leave out k or take another method"
            )

    def of_lists(self, scores: Tensor, target: Tensor) -> Tensor:
        """1 - NDCG."""
        if isinstance(self.method, NetworkSort):  # whose P sees in what order entries come
            order = scores.detach().argsort(dim=-1, stable=True)
            scores, target = scores.gather(-1, order), target.gather(-1, order)
        if isinstance(self.method, PermutationSort):
            p = permutation(scores, self.method, descending=True)
            if isinstance(self.method, RowSort):
                p = p / p.sum(-2, keepdim=True)
            return 1 - ndcg(p, target, self.k, self.gain, descending=True)
        ranks = soft_rank(scores, self.method, descending=True)
        return 1 - ndcg_of_ranks(ranks, target, self.gain, descending=True)


@final
class MAPLoss(_Sorting):
    """1 - average precision, with soft ranks; its mean is 1 - MAP.

        AP = mean over the relevant of (rank among the relevant) / (rank among all)

    With exact ranks it is the metric itself.

    Args:
        method: a name or a method.
        threshold: a target above it is relevant.
        reduction: "mean", "sum" or "none". Lists without relevant entries have the loss 1.
        **options: settings of the method, such as `steepness`.

    Raises:
        TypeError, ValueError: as `soft_rank`.

    Source: Brown et al., Smooth-AP: Smoothing the Path Towards Large-Scale Image Retrieval, 2020,
        here with the ranks of any method.
    """

    def __init__(
        self,
        method: Method = "sinkhorn",
        *,
        threshold: float = 0.0,
        reduction: Reduction = "mean",
        **options: Any,
    ) -> None:
        super().__init__(method, reduction=reduction, **options)
        self.threshold = check_number("threshold", threshold)

    def of_lists(self, scores: Tensor, target: Tensor) -> Tensor:
        """1 - AP."""
        relevant = target > self.threshold
        if is_traced() and not isinstance(self.method, NetworkSort):
            among = self._among(scores, relevant)
        else:
            among = soft_rank(scores, self.method, descending=True, mask=relevant)
        ranks = soft_rank(scores, self.method, descending=True)
        precision = torch.where(relevant, among / ranks, 0.0)
        return 1 - precision.sum(-1) / relevant.sum(-1).clamp(min=1)

    def _among(self, scores: Tensor, relevant: Tensor) -> Tensor:
        """The ranks of the relevant among themselves, with all in one list, as graphs need it.

        The others come so far below that no method but networks mixes them with the relevant.
        """
        fixed = scores.detach()
        low, high = fixed.aminmax(dim=-1, keepdim=True)
        below = 2 * low - high - 100 / torch.as_tensor(self.method.steepness).detach().to(fixed)
        return soft_rank(torch.where(relevant, scores, below), self.method, descending=True)


@final
class SpearmanLoss(_Sorting):
    """1 - Spearman's rho of the soft ranks of the scores with the ranks of the target.

    Args:
        method: a name or a method.
        reduction: "mean", "sum" or "none".
        **options: settings of the method, such as `steepness`.

    Raises:
        TypeError, ValueError: as `soft_rank`.

    Source: Blondel et al., Fast Differentiable Sorting and Ranking, 2020.
    """

    def of_lists(self, scores: Tensor, target: Tensor) -> Tensor:
        """1 - rho."""
        return 1 - spearman(soft_rank(scores, self.method), target)


@worded()
@final
class KendallLoss(RankingLoss):
    """1 - Kendall's tau, relaxed; see `gendr.sorting.losses.kendall`.

    Args:
        dist: a name, an object or a callable CDF.
        steepness: 1 / scale, > 0.
        variant: "a" or "b", which is 1 for perfect scores of tied targets too.
        reduction: "mean", "sum" or "none".

    Raises:
        TypeError, ValueError: as `kendall`.
    """

    def __init__(
        self,
        dist: DistributionLike = "logistic",
        steepness: Number = 10.0,
        variant: Literal["a", "b"] = "a",
        *,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction)
        self.dist, self.steepness = as_distribution(dist), check_steepness(steepness)
        self.variant = check_choice("variant", variant, ("a", "b"))

    def of_lists(self, scores: Tensor, target: Tensor) -> Tensor:
        """1 - tau."""
        return 1 - kendall(scores, target, self.dist, self.steepness, self.variant)


@final
class ListMLE(RankingLoss):
    """-log of the probability of the true order under the Plackett-Luce model of the scores.

    Of equal targets every order is right, and the likeliest one counts: they come in the order of
    their scores. The loss is continuous, and does not depend on how the entries are listed.

    Args:
        k: only the first k places of the true order count; all by default.
        reduction: "mean", "sum" or "none".

    Source: Xia et al., Listwise Approach to Learning to Rank: Theory and Algorithm, 2008.
    """

    def __init__(self, k: int | None = None, *, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.k = None if k is None else check_count("k", k)

    def of_lists(self, scores: Tensor, target: Tensor) -> Tensor:
        """The negative logarithm of the likelihood."""
        by_score = scores.detach().argsort(dim=-1, descending=True, stable=True)
        order = target.gather(-1, by_score).argsort(dim=-1, descending=True, stable=True)
        ordered = scores.gather(-1, by_score.gather(-1, order))
        rest = ordered.flip(-1).logcumsumexp(-1).flip(-1)
        return (rest - ordered)[..., : self.k].sum(-1)


@worded(paper=("sigma",))
@final
class LambdaLoss(RankingLoss):
    """Pairs in the wrong order, weighed by what they cost in NDCG: NDCG-Loss2++ and LambdaRank.

        L = sum over y_i > y_j of w_ij log2(1 + exp(-steepness (s_i - s_j))),
        w_ij = |G_i - G_j| (|1/D(r_i) - 1/D(r_j)| + mu |1/D(d) - 1/D(d + 1)|),  d = |r_i - r_j|

    with the ranks r by the scores, which have no gradient, D(r) = log2(1 + r), and gains G divided
    by the largest DCG. mu = 0 is LambdaRank. Memory is O(n^2) a list.

    Args:
        k: only pairs of which one is among the first k count; all by default.
        mu: weight of the part that depends on the distance of two ranks, >= 0.
        steepness: steepness of the logistic loss, positive.
        gain: "exponential", 2^grade - 1, or "linear".
        reduction: "mean", "sum" or "none".

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: one out of range, or a negative target.

    Source: Wang et al., The LambdaLoss Framework for Ranking Metric Optimization, 2018;
        Burges et al., Learning to Rank with Nonsmooth Cost Functions, 2006.
    """

    def __init__(
        self,
        k: int | None = None,
        mu: float = 10.0,
        steepness: float = 1.0,
        gain: str = "exponential",
        *,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction)
        self.k = None if k is None else check_count("k", k)
        self.mu = check_number("mu", mu, least=0.0)
        self.steepness = check_number("steepness", steepness, above=0.0)
        self.gain = check_choice("gain", gain, ("exponential", "linear"))

    def of_lists(self, scores: Tensor, target: Tensor) -> Tensor:
        """The sum over pairs."""
        gains = checked_gains(target, scores, self.gain)
        by_rank = discounts_of(scores)
        one = torch.ones_like(gains[..., 0])
        gains = gains * normalised(one, gains, by_rank[: self.k])[..., None]
        order = scores.detach().argsort(dim=-1, descending=True, stable=True)
        place = order.argsort(dim=-1)  # from 0
        discount = by_rank[place]
        distance = (place[..., :, None] - place[..., None, :]).abs()
        steps = functional.pad(by_rank[:-1] - by_rank[1:], (1, 0))  # by distance, from 0
        weights = (discount[..., :, None] - discount[..., None, :]).abs()
        weights = weights + self.mu * steps[distance]
        if self.k is not None:
            is_first = place < self.k
            weights = weights * (is_first[..., :, None] | is_first[..., None, :])
        gap = (gains[..., :, None] - gains[..., None, :]).clamp(min=0)
        margin = scores[..., :, None] - scores[..., None, :]
        costs = functional.softplus(-self.steepness * margin) / math.log(2)
        return (gap * weights * costs).sum((-2, -1))
