"""Losses of rankings: from scores and what is true to a number to minimise.

Scores and targets are [..., n], the larger the better both, so that no direction can be wrong.
Lists of different lengths come with a mask, True where an entry is present, or flat with the query
of each entry. `gendr.sorting.metrics` has what is to be reported.

    >>> loss = NDCGLoss("softsort", steepness=1.0, k=10)
    >>> loss(model(documents), grades, mask).backward()
    >>> loss(model(documents), grades, indexes=queries)     # all [N]
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from gendr._common.checks import (
    FLOATS,
    Reduction,
    check_choice,
    check_count,
    check_device,
    check_number,
    check_reduction,
    check_tensor,
    shape_text,
)
from gendr._common.tracing import (
    all_hold,
    is_plain,
    is_traced,
    matmul,
    running_log_sum_exp,
    stable_argsort,
    wide,
)
from gendr._common.words import worded
from gendr.distributions import Distribution, as_distribution
from gendr.distributions.decisions import Number, check_steepness, check_symmetric, scale_of
from gendr.distributions.registry import DistributionLike
from gendr.kernels.operator import Operator
from gendr.sorting.api import Method, get, permutation, soft_rank
from gendr.sorting.backends.choice import kernels_for
from gendr.sorting.backends.comparators import has_kernel, power_of
from gendr.sorting.base import PermutationSort
from gendr.sorting.losses import (
    checked_floats,
    checked_gains,
    checked_list,
    checked_pair,
    discounts_of,
    kendall,
    ndcg,
    ndcg_of_ranks,
    normalised,
    reduced,
    spearman,
)
from gendr.sorting.permutahedron import FastSort
from gendr.sorting.ragged import by_query, check_mask, present
from gendr.sorting.relaxed import NetworkSort
from gendr.sorting.rows import RowSort


class RankingLoss(nn.Module, ABC):
    """A loss of scores, to minimise.

    Args:
        reduction: "mean" over the lists that count, "sum", or "none" for one number for each list.

    Raises:
        ValueError: the reduction is unknown.
    """

    _kernel: ClassVar[str] = ""  # its name in `loss_kernels` of the CPU backend, if there is one

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__()
        self.reduction = check_reduction(reduction)

    def forward(
        self,
        scores: Tensor,
        target: Tensor,
        mask: Tensor | None = None,
        indexes: Tensor | None = None,
    ) -> Tensor:
        """The loss.

        Args:
            scores: [..., n], predicted; larger ones are nearer to the top.
            target: [..., n], true: grades, relevance or values; larger ones belong nearer to the
                top.
            mask: bool [..., n], True where an entry is present. Absent ones may be anything and
                get no gradient; lists without entries do not count.
            indexes: integers in the shape of the target: the query of each entry, in any order;
                entries of one query are a list. None if the last dimension is a list.

        Returns:
            A scalar in the dtype of the scores, computed in float32 at least; [...] for the
            reduction "none", with 0 for lists without entries, or [Q] for Q queries by ascending
            index. Lists with nothing to order, because all their targets are 0, have no gradient,
            but for `ListMLE`, `ListNet` and `OrdinalLoss`.

        Raises:
            TypeError: no real tensors.
            ValueError: shapes differ, or NaN or inf are among what is present.
        """
        scores, target = check_tensor("scores", scores), check_tensor("target", target)
        if indexes is not None:
            mask, (scores, target) = by_query(indexes, mask, scores, target)
        kernels = None
        if self._suits_kernel(scores, target, mask):
            kernels = kernels_for("sorting.losses", scores)
        return LOSSES(kernels, (self, self.reduction, self._kernel), scores, target, mask)

    def _suits_kernel(self, scores: Tensor, target: Tensor, mask: Tensor | None) -> bool:
        """Whether the kernel takes these, which checks them then as the definition does."""
        each = self._kernel == "levels"  # whether each entry has several scores
        if not self._kernel or (mask is None and not each):  # operators are faster for all of them
            return False
        shape, dtype = target.shape, scores.dtype
        return (
            is_plain(scores, target, *(() if mask is None else (mask,)))
            and dtype in FLOATS
            and target.dtype in (dtype, torch.int64)
            and (scores.shape[:-1] if each else scores.shape) == shape
            and (mask is None or (mask.dtype is torch.bool and mask.shape == shape and mask.is_cpu))
            and scores.numel() > 0
            and len(shape) > 0
            and not target.requires_grad
            and scores.is_cpu
            and target.is_cpu
        )

    def _reference(
        self, scores: Tensor, target: Tensor, mask: Tensor | None, reduction: str
    ) -> Tensor:
        """The loss in plain torch."""
        known = check_mask(mask, target, "target", by_length=False)
        dtype = scores.dtype if scores.is_floating_point() else torch.get_default_dtype()
        scores, target = self._checked(scores, target, known)
        losses = self.of_lists(scores, target, known)
        count = None if known is None else known.any(-1)
        if count is not None:
            if not is_traced() and bool(count.all()):
                count = None
            else:
                losses = torch.where(count, losses, 0.0)
        return reduced(losses, count, reduction).to(dtype)

    def _checked(
        self, scores: Tensor, target: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        return checked_pair("scores", scores, "target", target, mask)

    @abstractmethod
    def of_lists(self, scores: Tensor, target: Tensor, mask: Tensor | None) -> Tensor:
        """The losses [...] of lists [..., n]; checked, scores floating, 0 where absent.

        Those of lists without entries may be any finite number.
        """


LOSSES = Operator(
    "sorting.losses",
    reference=lambda spec, *inputs: spec[0]._reference(*inputs, spec[1]),
)


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

    def _ranks(self, scores: Tensor, mask: Tensor | None, *, descending: bool = True) -> Tensor:
        """Ranks among those present, 1 where absent."""
        scores, rest = self._apart(scores, mask, descending)
        ranks = soft_rank(scores, self.method, descending=descending, mask=rest)
        return ranks if mask is None else ranks.masked_fill(~mask, 1)

    def _apart(
        self, scores: Tensor, mask: Tensor | None, descending: bool
    ) -> tuple[Tensor, Tensor | None]:
        """The scores, and the mask that a sort of them still needs.

        Lengths of lists are no values of a graph. There those absent come so far behind that no
        method but networks mixes them with others.
        """
        if mask is None or not is_traced() or isinstance(self.method, NetworkSort):
            return scores, mask
        low, high = scores.detach().aminmax(dim=-1, keepdim=True)
        # Ranks of the permutahedron pool whole lists that are not further apart than they are long.
        widths = 100.0 + scores.shape[-1] * isinstance(self.method, FastSort)
        steepness = self.method.steepness
        if isinstance(steepness, Tensor):
            steepness = steepness.detach().flatten().amin(0).to(scores)
        gap = widths / steepness
        behind = 2 * low - high - gap if descending else 2 * high - low + gap
        return torch.where(mask, scores, behind), None

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

    def of_lists(self, scores: Tensor, target: Tensor, mask: Tensor | None) -> Tensor:
        """1 - NDCG."""
        if not isinstance(self.method, PermutationSort):
            ranks = self._ranks(scores, mask)
            return 1 - ndcg_of_ranks(ranks, target, self.gain, descending=True, mask=mask)
        if isinstance(self.method, NetworkSort):  # whose P sees in what order entries come
            order = stable_argsort(scores.detach())
            scores, target = scores.gather(-1, order), target.gather(-1, order)
            mask = None if mask is None else mask.gather(-1, order)
        keys, rest = self._apart(scores, mask, True)
        p = permutation(keys, self.method, descending=True, mask=rest)
        if isinstance(self.method, RowSort):
            sums = p.sum(-2, keepdim=True)
            p = p / torch.where(sums > 0, sums, 1.0)
        return 1 - ndcg(p, target, self.k, self.gain, descending=True, mask=mask)


class _OfRelevant(_Sorting):
    """A loss by the soft ranks of relevant entries.

    Args:
        method: a name or a method.
        threshold: a target above it is relevant.
        reduction: "mean", "sum" or "none". Lists without relevant entries have the loss 1.
        **options: settings of the method, such as `steepness`.
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

    def _relevant(self, target: Tensor, mask: Tensor | None) -> Tensor:
        """Which entries are relevant, of those present."""
        relevant = target > self.threshold
        return relevant if mask is None else relevant & mask


@final
class MAPLoss(_OfRelevant):
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

    def of_lists(self, scores: Tensor, target: Tensor, mask: Tensor | None) -> Tensor:
        """1 - AP."""
        relevant = self._relevant(target, mask)
        precision = self._ranks(scores, relevant) / self._ranks(scores, mask)
        return 1 - present(precision, relevant).sum(-1) / relevant.sum(-1).clamp(min=1)


@final
class MRRLoss(_OfRelevant):
    """1 - the reciprocal rank of the first relevant entry, with soft ranks; its mean is 1 - MRR.

        RR = max over the relevant of 1 / (rank among all)

    With exact ranks it is the metric itself.

    Args:
        method: a name or a method.
        threshold: a target above it is relevant.
        reduction: "mean", "sum" or "none". Lists without relevant entries have the loss 1.
        **options: settings of the method, such as `steepness`.

    Raises:
        TypeError, ValueError: as `soft_rank`.

    Source: Voorhees, The TREC-8 Question Answering Track Report, 1999, for the metric.
    """

    def of_lists(self, scores: Tensor, target: Tensor, mask: Tensor | None) -> Tensor:
        """1 - RR."""
        relevant = self._relevant(target, mask)
        return 1 - present(1 / self._ranks(scores, mask), relevant).amax(-1)


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

    def of_lists(self, scores: Tensor, target: Tensor, mask: Tensor | None) -> Tensor:
        """1 - rho, which has no scale: of close scores float32 would leave few digits of ranks."""
        return 1 - spearman(self._ranks(wide(scores), mask, descending=False), target, mask)


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

    def of_lists(self, scores: Tensor, target: Tensor, mask: Tensor | None) -> Tensor:
        """1 - tau."""
        return 1 - kendall(scores, target, self.dist, self.steepness, self.variant, mask)


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

    def of_lists(self, scores: Tensor, target: Tensor, mask: Tensor | None) -> Tensor:
        """The negative logarithm of the likelihood."""
        order = stable_argsort(scores.detach(), descending=True)
        for keys in (target,) if mask is None else (target, mask.byte()):  # those absent last
            again = stable_argsort(keys.gather(-1, order), descending=True)
            order = order.gather(-1, again)
        ordered = scores.gather(-1, order)
        inside = None if mask is None else mask.gather(-1, order)
        if inside is not None:
            ordered = ordered.masked_fill(~inside, _lowest(scores))
        rest = running_log_sum_exp(ordered.flip(-1)).flip(-1)
        return present(rest - ordered, inside)[..., : self.k].sum(-1)


def _lowest(like: Tensor) -> float:
    """A number of which the exponential is 0, with room for differences."""
    return torch.finfo(like.dtype).min / 4


@final
class ListNet(RankingLoss):
    """The cross-entropy of who is first: by the targets, and by the scores.

        L = -sum_i softmax(y)_i log softmax(s)_i

    Args:
        reduction: "mean", "sum" or "none".

    Source: Cao et al., Learning to Rank: From Pairwise Approach to Listwise Approach, 2007, with
        top one probabilities.
    """

    _kernel: ClassVar[str] = "tops"

    def of_lists(self, scores: Tensor, target: Tensor, mask: Tensor | None) -> Tensor:
        """The cross-entropy."""
        target = target.to(scores.dtype)
        if mask is not None:
            absent, lowest = ~mask, _lowest(scores)
            scores, target = (x.masked_fill(absent, lowest) for x in (scores, target))
        return -(target.softmax(-1) * scores.log_softmax(-1)).sum(-1)


@worded(paper=("sigma",))
@final
class RankNet(RankingLoss):
    """The logistic loss of pairs, alike for all of which one has the larger target.

        L = mean over y_i > y_j of log(1 + exp(-steepness (s_i - s_j)))

    Memory is O(n^2) a list.

    Args:
        steepness: of the logistic loss, positive.
        reduction: "mean", "sum" or "none". Lists of equal targets have the loss 0.

    Raises:
        TypeError, ValueError: the steepness is not positive.

    Source: Burges et al., Learning to Rank using Gradient Descent, 2005.
    """

    def __init__(self, steepness: float = 1.0, *, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.steepness = check_number("steepness", steepness, above=0.0)

    def of_lists(self, scores: Tensor, target: Tensor, mask: Tensor | None) -> Tensor:
        """The mean over pairs."""
        pairs = target[..., :, None] > target[..., None, :]
        if mask is not None:
            pairs = pairs & mask[..., :, None] & mask[..., None, :]
        costs = functional.softplus(self.steepness * (scores[..., None, :] - scores[..., :, None]))
        return present(costs, pairs).sum((-2, -1)) / pairs.sum((-2, -1)).clamp(min=1)


@worded()
@final
class ApproxNDCG(RankingLoss):
    """1 - NDCG with ranks that are sums of comparisons.

        rank_i = 1 + sum over j != i of F(steepness (s_j - s_i))

    Other ranks: `NDCGLoss("permutahedron")`. Memory is O(n^2) a list where there is no kernel: on a
    GPU, in graphs, for distributions with parameters or powers.

    Args:
        dist: the distribution F of comparisons, symmetric: a name, an object or a callable CDF.
        steepness: 1 / scale, > 0.
        gain: "exponential", 2^grade - 1, or "linear".
        reduction: "mean", "sum" or "none".

    Raises:
        TypeError, ValueError: a distribution that is not symmetric, or an option out of range.

    Source: Qin et al., A General Approximation Framework for Direct Optimization of Information
        Retrieval Measures, 2010, where F is logistic.
    """

    def __init__(
        self,
        dist: DistributionLike = "logistic",
        steepness: Number = 10.0,
        gain: str = "exponential",
        *,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction)
        self.dist = check_symmetric(as_distribution(dist), "ApproxNDCG needs")
        self.steepness = check_steepness(steepness)
        self.gain = check_choice("gain", gain, ("exponential", "linear"))

    def of_lists(self, scores: Tensor, target: Tensor, mask: Tensor | None) -> Tensor:
        """1 - NDCG."""
        counted = torch.ones_like(scores) if mask is None else mask.to(scores.dtype)
        known = has_kernel(self.dist) and power_of(self.dist) == 1
        kernels = kernels_for("sorting.places", scores) if known else None
        ranks = PLACES(kernels, self.dist, scores, self.steepness, counted)
        return 1 - ndcg_of_ranks(ranks, target, self.gain, descending=True, mask=mask)


def _places(dist: Distribution, scores: Tensor, steepness: Number, counted: Tensor) -> Tensor:
    """Ranks [..., n] among those counted, the largest 1: 1 where not counted."""
    above = dist(scores[..., :, None] - scores[..., None, :], scale_of(steepness))  # of row, column
    itself = dist(scores.new_zeros(()))  # 1/2, but for the hard distribution
    ranks = (1 - itself) + matmul(counted[..., None, :], above)[..., 0, :]
    return torch.where(counted > 0, ranks, 1.0)


PLACES = Operator("sorting.places", reference=_places)


@final
class OrdinalLoss(RankingLoss):
    """The likelihood of grades by scores of every level: is the grade at least k?

        L = -mean over entries of sum_k log P(y >= k or not),    P(y >= k) = sigmoid(s_k)

    Scores are [..., n, K] for the grades 0 .. K, target [..., n]; `scores.sigmoid().sum(-1)` is the
    expected grade, to sort by.

    Args:
        reduction: "mean", "sum" or "none".

    Raises:
        ValueError: scores without the dimension of levels, or grades that are not 0 .. K.

    Source: Niu et al., Ordinal Regression with Multiple Output CNN for Age Estimation, 2016;
        Pobrotyn et al., Context-Aware Learning to Rank with Self-Attention, 2020.
    """

    _kernel: ClassVar[str] = "levels"

    def _checked(
        self, scores: Tensor, target: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        if scores.shape[:-1] != target.shape or 0 in scores.shape[-1:]:
            raise ValueError(
                "scores must have shape [..., n, K] for the target [..., n] of grades 0 .. K, got "
                f"{shape_text(scores.shape)} and {shape_text(target.shape)}"
            )
        whole = None if mask is None else mask[..., None].expand(scores.shape)
        scores = checked_floats("scores", scores, whole)
        target = checked_list("target", target, mask)
        return scores, check_device("target", target, "scores", scores)

    def of_lists(self, scores: Tensor, target: Tensor, mask: Tensor | None) -> Tensor:
        """The mean over entries."""
        levels = torch.arange(1, scores.shape[-1] + 1, device=scores.device)
        is_grade = (target >= 0) & (target <= scores.shape[-1]) & (target == target.floor())
        if not all_hold(is_grade):
            raise ValueError(
                f"grades must be whole numbers in 0 .. {scores.shape[-1]}, the number of levels of "
                f"scores, got {target[~is_grade][0].item():g}"
            )
        is_reached = (target[..., None] >= levels).to(scores.dtype)
        costs = functional.binary_cross_entropy_with_logits(scores, is_reached, reduction="none")
        counts = target.shape[-1] if mask is None else mask.sum(-1).clamp(min=1)
        return present(costs.sum(-1), mask).sum(-1) / counts


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

    def of_lists(self, scores: Tensor, target: Tensor, mask: Tensor | None) -> Tensor:
        """The sum over pairs."""
        gains = checked_gains(target, scores, self.gain, mask)
        by_rank = discounts_of(scores)
        one = torch.ones_like(gains[..., 0])
        gains = gains * normalised(one, gains, by_rank[: self.k])[..., None]
        keys = scores.detach() if mask is None else scores.detach().masked_fill(~mask, -torch.inf)
        order = stable_argsort(keys, descending=True)
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
        if mask is not None:  # others have the gain 0
            gap = gap * mask[..., None, :]
        margin = scores[..., :, None] - scores[..., None, :]
        costs = functional.softplus(-self.steepness * margin) / math.log(2)
        return (gap * weights * costs).sum((-2, -1))
