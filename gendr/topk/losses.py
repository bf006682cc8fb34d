"""The top-k cross-entropy and what it is compared with, and top-k accuracy.

>>> loss = TopKCrossEntropy([0.5, 0, 0, 0, 0.5])     # top 1 and top 5, half each
>>> loss(model(images), labels).backward()
>>> topk_accuracy(scores, labels, (1, 5))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from gendr._common.checks import (
    Reduction,
    check_choice,
    check_classes,
    check_count,
    check_device,
    check_finite,
    check_integer,
    check_number,
    check_reduction,
    check_tensor,
    dtype_name,
    shape_text,
)
from gendr._common.tracing import (
    TensorCache,
    breaking_graphs_for_masks,
    doubled,
    is_traced,
    stable_argsort,
)
from gendr._common.words import worded
from gendr.kernels.operator import Operator
from gendr.kernels.through_cpu import with_doubles
from gendr.sorting.backends.comparators import has_kernel
from gendr.sorting.base import PermutationSort
from gendr.sorting.losses import LEAST, safe_log
from gendr.sorting.ragged import Ragged, check_mask, present
from gendr.sorting.rows import RowSort
from gendr.topk.backends.choice import kernels_for
from gendr.topk.selection import Method, NetworkSelection, get, select

TOP1 = ("softmax", "network")
_MOST = 64  # candidates of a row sort that its kernel takes
_ABSENT = "target must be present, got true classes where mask is False"


class TopKCrossEntropy(nn.Module):
    """Cross-entropy of being among the k largest scores, with k drawn from a distribution P_K.

    With P[r, y] the probability that the true class y is the r-th largest of the scores, by a
    relaxed selection of the m largest ones,

        L = -log sum_k P_K(k) sum_{r <= k} P[r, y]                                  top1="network"
        L = P_K(1) CE(softmax) - (1 - P_K(1)) log sum_{k >= 2} P_K(k) sum_{r <= k} P[r, y]
                                                                                    top1="softmax"

    Only the m largest scores of each row are ranked; where the true class is not among them it
    takes the place of the least of them. Scores are not rescaled: 1 / steepness is in units of
    logits. A network gets the true class on its first wire and the others in ascending order,
    because the output of a relaxed network depends on which wire a value comes in by: with all
    scores in ascending order, the loss would jump whenever the true class passes another.

    A selection network and the softmax are one kernel, which finds the gradient along with the
    loss; on a GPU in float32, for m up to 64. So are, on a CPU and for m up to 64, NeuralSort or
    SoftSort and the softmax. For other methods and targets and for second derivatives it is plain
    torch. No step waits for a GPU if `check` is False.

    Args:
        p_k: p_k[j - 1] = P(k = j), [K], or one row for every class, [C, K]; not negative, sum 1.
        method: as in `soft_topk`: a selection network, "neuralsort", "softsort", "sinkhorn".
        m: how many scores are ranked, at least K; None for all.
        top1: "softmax" or "network" (whichever method): what P[1, y] is.
        weight: of the classes, [C].
        ignore_index: a target that does not count.
        reduction: "none", "mean" or "sum". The mean is that of `torch.nn.CrossEntropyLoss`:
            weighted for class indices, over the rows for several true labels.
        label_smoothing: how much of the target is spread evenly, in [0, 1): by the softmax over all
            classes, by the selection over the m that it ranks.
        check: look for NaN, inf and labels out of range, for which the host waits for a GPU.
        **options: settings of the method, such as `steepness` and `dist`.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: an argument out of range, P_K that does not sum to 1, or a method without
            attribution.

    Source: Petersen et al., Differentiable Top-k Classification Learning (ICML 2022), equations (2)
        and (4); thesis, (4.3) and (4.4).
    """

    p_k: Tensor
    weight: Tensor | None

    def __init__(
        self,
        p_k: Sequence[float] | Tensor,
        method: Method = "splitter",
        m: int | None = 16,
        top1: Literal["softmax", "network"] = "softmax",
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
        check: bool = True,
        **options: Any,
    ) -> None:
        super().__init__()
        self.register_buffer("p_k", _distribution(p_k, "[K] or [C, K]"))
        self.method = get(method, **options)
        if not isinstance(self.method, (NetworkSelection, PermutationSort)):
            raise ValueError(f"method {method!r} gives values only, no probabilities of places")
        self.m = None if m is None else check_count("m", m)
        if self.m is not None and self.m < self.p_k.shape[-1]:
            raise ValueError(f"m must be at least K = {self.p_k.shape[-1]} of p_k, got {m}")
        self.top1 = check_choice("top1", top1, TOP1)
        self.register_buffer("weight", _class_weights(weight))
        self.ignore_index = ignore_index
        self.reduction = check_reduction(reduction)
        self.label_smoothing = check_number("label_smoothing", label_smoothing)
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing must lie in [0, 1), got {label_smoothing}")
        self.check = check
        self._kept = TensorCache()

    @property
    def _is_softmax(self) -> bool:
        """Whether the loss is that of the softmax alone."""
        return self.top1 == "softmax" and self.p_k.ndim == 1 and len(self.p_k) == 1

    def extra_repr(self) -> str:
        """The method and the options that matter."""
        return f"{self.method}, m={self.m}, top1={self.top1!r}, reduction={self.reduction!r}"

    @override
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> TopKCrossEntropy:
        """Move what it holds, but to mps of Apple: that has no float64, so the CPU computes."""
        if fn(torch.empty(0, dtype=torch.float32)).device.type == "mps":
            return self
        return super()._apply(fn, recurse)

    @breaking_graphs_for_masks
    @with_doubles
    def forward(
        self,
        logits: Tensor,
        target: Tensor,
        p_k: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """The loss.

        Args:
            logits: [C], [N, C] or [N, C, d1, ..], floating; half precision is computed, and the
                loss returned, in float32.
            target: class indices, [], [N] or [N, d1, ..]; or for several true labels a tensor like
                logits: bool, the true ones, which count alike; floating, the probability of each
                class, as `torch.nn.CrossEntropyLoss` takes them.
            p_k: another distribution for every row, [N, K] or [N, d1, .., K].
            mask: bool, broadcasting to logits, True for the classes that a row may have, such as
                its candidates. The loss is that of these alone, where a k beyond their number
                counts as that number; absent logits may be anything and get no gradient. The true
                class must be present, or be ignored. Not together with `weight`.

        Returns:
            A scalar; for the reduction "none" [N] or [N, d1, ..].

        Raises:
            TypeError: no tensors, or of the wrong dtype.
            ValueError: bad shapes, labels out of range, NaN or inf, more true labels than m.
        """
        rows, shape = _rows(logits)
        known = check_mask(mask, logits, "logits")
        dense = check_tensor("target", target).is_floating_point() or target.dtype == torch.bool
        expected = logits.shape if dense else shape
        if target.shape != expected:
            raise ValueError(
                f"target must have shape {shape_text(expected)} for logits of shape "
                f"{shape_text(logits.shape)}, got {shape_text(target.shape)}; class indices are "
                "integers, several true labels bool or floating"
            )
        check_device("target", target, "logits", logits)
        by_row = None if p_k is None else _distribution(p_k, "[.., K]", check=self.check)
        if by_row is not None:
            if by_row.shape[:-1] != shape:
                raise ValueError(
                    f"p_k must have shape {shape_text(shape)} + [K], got {shape_text(by_row.shape)}"
                )
            by_row = check_device("p_k", by_row, "logits", logits).reshape(-1, by_row.shape[-1])
        if self.p_k.device != logits.device or self.p_k.ndim == 2:
            check_device("p_k", self.p_k, "logits", logits)
        n, k = rows.shape[-1], (self.p_k if by_row is None else by_row).shape[-1]
        if k > n:
            raise ValueError(f"p_k has k up to {k}, but there are only {n} classes")
        if self.p_k.ndim == 2 and by_row is None and (len(self.p_k) != n or dense):
            raise ValueError(
                f"p_k is for the {len(self.p_k)} classes of class indices, "
                f"got {n} classes{' and several true labels' if dense else ''}; "
                "give p_k for every row to the call"
            )
        if self.weight is not None and len(self.weight) != n:
            raise ValueError(f"weight must have one number for each of {n} classes")
        targets = _flat(target) if dense else target.reshape(-1)
        if known is not None:
            losses = self._of_present(rows, targets, by_row, _flat(known))
        elif dense:
            losses = self._of_many(rows, targets, by_row)
        else:
            losses = self._of_one(rows, targets, by_row)
        if self.reduction == "mean":
            return losses.mean() if dense else self._mean(losses, targets)
        return losses.sum() if self.reduction == "sum" else losses.reshape(shape)

    def _of_present(
        self, logits: Tensor, target: Tensor, by_row: Tensor | None, mask: Tensor
    ) -> Tensor:
        """The losses [N] of rows [N, C] of which only some classes are present."""
        if self.weight is not None:
            raise ValueError(
                "weight and mask exclude each other; weigh the losses of reduction='none' yourself"
            )
        dense, is_ignored = target.ndim == 2, None
        if not dense:
            labels = check_integer("target", target)
            is_ignored = labels == self.ignore_index
            valid = check_classes(torch.where(is_ignored, 0, labels), logits.shape[-1])
            if by_row is None and self.p_k.ndim == 2:
                by_row = self.p_k[valid]
            target = torch.zeros_like(mask).scatter(-1, valid[:, None], ~is_ignored[:, None])
        if self.check:
            check_finite("logits", present(logits, mask))
            if bool(((target != 0) & ~mask).any()):
                raise ValueError(_ABSENT)
        ragged, losses = Ragged(mask), []
        by_row = self.p_k.expand(len(logits), -1) if by_row is None else by_row
        parts = zip(
            ragged.groups, ragged.packed(logits, "n"), ragged.packed(target, "n"), strict=True
        )
        for group, part, true in parts:
            p_k = _folded(by_row[group.rows], part.shape[-1])
            if dense:
                losses.append(self._of_many(part, true, p_k))
                continue
            found = torch.where(true.any(-1), true.long().argmax(-1), self.ignore_index)
            losses.append(self._of_one(part, found, p_k))
        return ragged.joined(losses, "", [])

    def _mean(self, losses: Tensor, labels: Tensor) -> Tensor:
        if self.weight is None and not self._may_ignore(labels):
            return losses.mean()
        counts = (labels != self.ignore_index).to(losses.dtype)
        if self.weight is not None:
            valid = labels.long().clamp(0, len(self.weight) - 1)
            counts = counts * self.weight.to(losses.dtype)[valid]
        return losses.sum() / counts.sum()

    def _may_ignore(self, labels: Tensor) -> bool:
        """Whether some of the labels are to be ignored, or nobody may look at them."""
        blind = is_traced() or labels.device.type != "cpu"
        return blind or self.ignore_index in labels.numpy()

    # -- parts

    def _of_one(self, logits: Tensor, labels: Tensor, by_row: Tensor | None) -> Tensor:
        """The losses [N] for class indices."""
        labels = check_integer("target", labels)
        kernels = self._kernels(logits, by_row)
        if kernels is not None:
            return LOSSES(kernels, _Batch(self, labels, by_row), logits)
        if self.check:
            check_finite("logits", logits)
            valid = labels
            if self._may_ignore(labels):
                valid = torch.where(labels == self.ignore_index, 0, labels)
            check_classes(valid, logits.shape[-1])
        return self._counted(logits, labels, by_row)

    def _counted(self, logits: Tensor, labels: Tensor, by_row: Tensor | None) -> Tensor:
        """The losses [N] of labels that are in range or ignored, in plain torch."""
        if not self._may_ignore(labels):
            return self._composed(logits, labels, by_row)
        is_ignored = labels == self.ignore_index
        losses = self._composed(logits, torch.where(is_ignored, 0, labels), by_row)
        return torch.where(is_ignored, 0.0, losses)

    def _composed(self, logits: Tensor, labels: Tensor, by_row: Tensor | None) -> Tensor:
        """The losses [N] of labels that are in range, in plain torch."""
        alone = self.top1 == "network"  # the selection; the softmax has no weight
        softmax = logits.new_zeros(()) if alone else self._softmax(logits, labels)
        if self._is_softmax and by_row is None:
            return softmax
        first, rest, places = self._weighed(logits.dtype, labels, by_row)
        n = logits.shape[-1]
        m = self._size(n)
        top, classes = None, torch.arange(n, device=logits.device)
        if m < n:
            top = logits.detach().topk(m, dim=-1).indices
            is_there = (top == labels[:, None]).any(-1)
            last = torch.where(is_there, top[:, -1], labels)
            top = classes = torch.cat([top[:, :-1], last[:, None]], -1)
        selected = self._selected(logits, top, classes == labels[:, None], places)
        return selected if alone else first * softmax + rest * selected

    def _softmax(self, logits: Tensor, target: Tensor) -> Tensor:
        """The losses [N] of the softmax."""
        weight = None if self.weight is None else self.weight.to(logits.dtype)
        return functional.cross_entropy(
            logits, target, weight, reduction="none", label_smoothing=self.label_smoothing
        )

    def _weighed(
        self, dtype: torch.dtype, labels: Tensor, by_row: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """`_weights` of rows; kept where all have those of the loss."""
        if by_row is not None or self.p_k.ndim == 2:
            p_k = self.p_k[labels] if by_row is None else by_row
            return _weights(p_k.to(dtype), self.top1)
        of = (self.p_k,), dtype
        return self._kept.of(*of, lambda: _weights(self.p_k.to(dtype), self.top1))

    def _of_many(self, logits: Tensor, target: Tensor, by_row: Tensor | None) -> Tensor:
        """The losses [N] for several true labels, [N, C]."""
        n = logits.shape[-1]
        if target.dtype == torch.bool:
            target = target.to(logits.dtype)
            target = target / target.sum(-1, keepdim=True).clamp(min=1)
        target = target.to(logits.dtype)
        m = self._size(n)
        if self.check:
            check_finite("logits", logits)
            if target.numel() and not bool(((target >= 0) & (target <= 1)).all()):
                raise ValueError("target must hold probabilities in [0, 1], or be bool")
            most = int((target > 0).sum(-1).max()) if target.numel() else 0
            if m < most < n:
                raise ValueError(
                    f"m must be at least the number of true labels, {most}, got {m}; "
                    "m=None ranks all"
                )
        softmax = self._softmax(logits, target)
        if self._is_softmax and by_row is None:
            return softmax
        p_k = self.p_k if by_row is None else by_row
        first, rest, places = _weights(p_k.to(logits.dtype), self.top1)
        top = logits.detach().masked_fill(target > 0, math.inf).topk(m, dim=-1).indices
        selected = self._selected(logits, top, target.gather(-1, top), places)
        return first * softmax + rest * selected

    def _size(self, n: int) -> int:
        return n if self.m is None else min(self.m, n)

    def _selected(
        self, logits: Tensor, top: Tensor | None, target: Tensor, places: Tensor
    ) -> Tensor:
        """The cross-entropy of the selection among the classes `top` [N, m], or all of them.

        The target is bool where a single class is true.
        """
        if not isinstance(self.method, RowSort):
            # The true classes first, the others ascending: so a wire only ever changes to another
            # class of the same score, and the loss has no jumps.
            scores = logits.detach()
            scores = scores if top is None else scores.gather(-1, top)
            order = stable_argsort(scores.masked_fill(target > 0, -math.inf))
            top = order if top is None else top.gather(-1, order)
            target = target.gather(-1, order)
        scores = logits if top is None else logits.gather(-1, top)
        method, keys = self.method.drawn(scores)
        p = select(method, keys, places.shape[-1]).weighted(places)
        if target.dtype == torch.bool and not self.label_smoothing and self.weight is None:
            loss = -safe_log((p * target).sum(-1), LEAST)  # of a single class
        else:
            target = target.to(p.dtype)
            if smooth := self.label_smoothing:
                target = (1 - smooth) * target + smooth / target.shape[-1]
            if self.weight is not None:
                weight = self.weight.to(target.dtype)
                target = target * (weight if top is None else weight[top])
            loss = -(target * safe_log(p, LEAST)).sum(-1)
        # A single class has no comparator: a sum of none gives its loss a gradient, of 0.
        return loss if scores.shape[-1] > 1 else loss + scores[..., :0].sum(-1)

    # -- compiled

    def _kernels(self, logits: Tensor, by_row: Tensor | None) -> Any:
        """What a backend has for these settings; None for plain torch."""
        method, size = self.method, self._size(logits.shape[-1])
        plain = self.label_smoothing == 0 and not (self._is_softmax and by_row is None)
        if is_traced() or not plain or isinstance(method.steepness, Tensor):
            return None
        if isinstance(method, NetworkSelection) and has_kernel(method.distribution):
            return kernels_for(LOSSES.name, logits, method.backend, size)
        if not isinstance(method, RowSort) or method.form is None or method.noise or size > _MOST:
            return None
        here = logits.is_cpu and method.backend in ("auto", "cpu")
        return kernels_for(LOSSES.name, logits, "cpu", size) if here else None

    def _numbers(self, labels: Tensor, by_row: Tensor | None) -> tuple[Any, ...]:
        """`_weights` for the kernel: float64 arrays with a row for all, or one for each label."""
        p_k = self.p_k if by_row is None else by_row
        if p_k.ndim == 1:
            return _numbers_of(tuple(p_k.tolist()), self.top1)
        if by_row is None:
            p_k = p_k[labels.clamp(0, len(p_k) - 1)]
        return tuple(w.numpy() for w in _weights(p_k.double(), self.top1))


def _weights(p_k: Tensor, top1: str) -> tuple[Tensor, Tensor, Tensor]:
    """The weight of the softmax, that of the selection, and those of the places, [.., K]."""
    if top1 == "network":
        zero = torch.zeros_like(p_k[..., 0])
        return zero, zero + 1, p_k.flip(-1).cumsum(-1).flip(-1)
    first = p_k[..., 0]
    rest = torch.cat([torch.zeros_like(p_k[..., :1]), p_k[..., 1:]], -1)
    return first, 1 - first, rest.flip(-1).cumsum(-1).flip(-1)


@lru_cache(maxsize=64)
def _numbers_of(p_k: tuple[float, ...], top1: str) -> tuple[Any, ...]:
    """`_weights` of one distribution for all rows, as arrays that are only read."""
    return tuple(
        w.numpy() for w in _weights(torch.tensor([p_k], dtype=torch.float64, device="cpu"), top1)
    )


def _folded(p_k: Tensor, n: int) -> Tensor:
    """P_K [N, K] of n classes: a k beyond n is n."""
    if p_k.shape[-1] <= n:
        return p_k
    return torch.cat([p_k[:, : n - 1], p_k[:, n - 1 :].sum(-1, keepdim=True)], -1)


class _Batch(NamedTuple):
    """A loss, and what it is asked for beside logits: labels [N], and P_K of rows if given."""

    loss: TopKCrossEntropy
    labels: Tensor
    p_k: Tensor | None


def _losses(batch: _Batch, logits: Tensor) -> Tensor:
    return batch.loss._counted(logits, batch.labels, batch.p_k)


LOSSES = Operator("topk.losses", reference=_losses)


@worded(paper=("tau",))
class SmoothTopKSVM(nn.Module):
    """The smooth top-k SVM loss: a margin of 1 between sets of k classes with and without y.

        L = scale log sum_A exp((1[y not in A] + mean of the scores of A) / scale)
          - scale log sum_{A with y} exp(mean of the scores of A / scale)

    over all sets A of k classes. The sums are elementary symmetric polynomials, here multiplied in
    a tree, on logarithms: O(n k^2) time, no underflow. As the scale falls to 0 it becomes the hinge
    loss of the k-th largest score. Twice differentiable.

    Args:
        k: at least 1, below the number of classes.
        scale: the temperature, positive; the paper's word `tau` is taken too.
        reduction: "none", "mean" or "sum".

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: an argument out of range.

    Source: Berrada, Zisserman, Kumar, Smooth Loss Functions for Deep Top-k Classification (ICLR
        2018), equation (10).
    """

    def __init__(self, k: int = 5, scale: float = 1.0, *, reduction: Reduction = "mean") -> None:
        super().__init__()
        self.k, self.scale = check_count("k", k), check_number("scale", scale, above=0.0)
        self.reduction = check_reduction(reduction)

    @breaking_graphs_for_masks
    def forward(self, logits: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
        """The loss of logits [N, C] and class indices [N].

        Args:
            logits: [C], [N, C] or [N, C, d1, ..].
            target: class indices, [], [N] or [N, d1, ..].
            mask: bool, broadcasting to logits, True for the classes that a row may have. The loss
                is that of these alone, 0 where they are no more than k.

        Raises:
            TypeError: no tensors, or of the wrong dtype.
            ValueError: bad shapes, labels out of range or absent, NaN or inf, or k not below C.
        """
        rows, shape = _rows(logits)
        known = check_mask(mask, logits, "logits")
        known = None if known is None else _flat(known)
        n = rows.shape[-1]
        if self.k >= n:
            raise ValueError(f"k must be below the number of classes, {n}, got {self.k}")
        labels = check_integer("target", target)
        if labels.shape != shape:
            raise ValueError(
                f"target must have shape {shape_text(shape)}, got {shape_text(labels.shape)}"
            )
        labels = check_classes(labels, n).reshape(-1, 1)
        if known is not None and not bool(known.gather(-1, labels).all()):
            raise ValueError(_ABSENT)
        rows = check_finite("logits", present(rows, known)) / (self.k * self.scale)
        own = rows.gather(-1, labels)
        others = rows.scatter(-1, labels, -math.inf)
        if known is not None:
            others = others.masked_fill(~known, -math.inf)
        sums = _symmetric_sums(others, self.k)
        with_truth = own[:, 0] + sums[:, self.k - 1]
        losses = self.scale * functional.softplus(1 / self.scale + sums[:, self.k] - with_truth)
        if known is not None:
            losses = torch.where(known.sum(-1) > self.k, losses, 0.0)
        losses = losses.to(logits.dtype)
        if self.reduction == "none":
            return losses.reshape(shape)
        return losses.mean() if self.reduction == "mean" else losses.sum()


def _symmetric_sums(logs: Tensor, k: int) -> Tensor:
    """Logarithms of the elementary symmetric polynomials 0 .. k of exp(logs) [N, n]: [N, k + 1]."""
    finite = torch.finfo(logs.dtype).min / 8  # -inf has no finite slope
    sums = torch.stack([torch.zeros_like(logs), logs.clamp(min=finite)], -1)
    while sums.shape[1] > 1:
        if sums.shape[1] % 2:
            one = torch.full_like(sums[:, :1], finite)
            one[..., 0] = 0.0
            sums = torch.cat([sums, one], 1)
        a, b = sums[:, ::2], sums[:, 1::2]
        width = a.shape[-1]
        degree = min(2 * (width - 1), k)
        # All products of a polynomial with the shifted other one, by degree.
        padded = functional.pad(b.flip(-1), (degree, degree + 1), value=finite)
        shifted = torch.stack(
            [
                padded[..., degree + width - 1 - d : degree + 2 * width - 1 - d]
                for d in range(degree + 1)
            ],
            -2,
        )
        sums = (a[..., None, :] + shifted).clamp(min=finite).logsumexp(-1)
    return sums[:, 0]


def topk_accuracy(
    scores: Tensor, target: Tensor, ks: Sequence[int] = (1, 5), mask: Tensor | None = None
) -> Tensor:
    """The fractions of rows whose true class is among the k largest scores.

    Equal scores count as larger, so that a constant is right for no k below the number of classes.

    Args:
        scores: [..., C].
        target: class indices [...].
        ks: such as range(1, 6).
        mask: bool, broadcasting to scores, True for the classes that are present.

    Returns:
        [len(ks)], float64 (on mps float32), on the device of the scores, without gradient; NaN
        for no rows.

    Raises:
        TypeError: no tensors, or target without integers.
        ValueError: shapes that do not fit, NaN among the scores, labels or k out of range.
    """
    known = check_mask(mask, scores, "scores")
    scores = check_finite("scores", present(check_tensor("scores", scores).detach(), known))
    labels = check_device("target", check_integer("target", target), "scores", scores)
    if scores.ndim == 0 or labels.shape != scores.shape[:-1]:
        raise ValueError(
            f"scores [..., C] and target [...] must fit, got {shape_text(scores.shape)} and "
            f"{shape_text(labels.shape)}"
        )
    check_classes(labels, scores.shape[-1])
    own = scores.gather(-1, labels[..., None])
    is_above = scores >= own
    rank = (is_above if known is None else is_above & known).sum(-1)
    return torch.stack([doubled(rank <= check_count("k", k)).mean() for k in ks])


# ---------------------------------------------------------------------------------------------
# Checks
# ---------------------------------------------------------------------------------------------


def _distribution(p_k: object, shape: str, *, check: bool = True) -> Tensor:
    """P_K as float64; without zeros at the end if it is one for all.

    Raises:
        ValueError: negative, no numbers, or not of sum 1.
    """
    p = (
        p_k.detach()
        if isinstance(p_k, Tensor)
        else torch.tensor(p_k, dtype=torch.float64, device="cpu")
    )
    if p.ndim == 0 or p.shape[-1] == 0 or not p.is_floating_point():
        raise ValueError(f"p_k must be probabilities {shape}, got {p.dtype} {shape_text(p.shape)}")
    if not check:
        return p
    sums = p.double().sum(-1)
    if not bool(((p >= 0).all(-1) & ((sums - 1).abs() < 1e-4)).all()):
        raise ValueError(
            "p_k must hold probabilities P(k = 1), P(k = 2), .. that are >= 0 and sum to 1, got "
            f"{p.tolist() if p.numel() <= 20 else f'sums from {sums.min():g} to {sums.max():g}'}"
        )
    if p.ndim == 1:
        p = p[: int(p.nonzero().max()) + 1]
    return p.double()


def _class_weights(weight: Tensor | None) -> Tensor | None:
    if weight is None:
        return None
    check_tensor("weight", weight)
    if weight.ndim != 1 or not weight.is_floating_point() or not bool((weight >= 0).all()):
        raise ValueError(
            "weight must be numbers >= 0, one for each class, "
            f"got {dtype_name(weight.dtype)} of shape {shape_text(weight.shape)}"
        )
    return weight.detach().clone()


def _flat(x: Tensor) -> Tensor:
    """[C], [N, C] or [N, C, d1, ..] as rows [.., C]."""
    return x[None] if x.ndim == 1 else x.movedim(1, -1).reshape(-1, x.shape[1])


def _rows(logits: Tensor) -> tuple[Tensor, torch.Size]:
    """Logits as rows [.., C] in float32 or float64, and the shape of the rows.

    Raises:
        TypeError: no floating tensor.
        ValueError: without dimensions or classes.
    """
    if not check_tensor("logits", logits).is_floating_point():
        raise TypeError(f"logits must be floating, got {dtype_name(logits.dtype)}")
    if logits.ndim == 0 or logits.shape[1 if logits.ndim > 1 else 0] == 0:
        raise ValueError(
            f"logits must have shape [C], [N, C] or [N, C, ..], got {shape_text(logits.shape)}"
        )
    if logits.dtype not in (torch.float32, torch.float64):
        logits = logits.float()
    shape = torch.Size([n for dim, n in enumerate(logits.shape) if dim != min(1, logits.ndim - 1)])
    return logits if logits.ndim == 2 else _flat(logits), shape
