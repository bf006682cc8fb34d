"""The edit distance of two strings whose symbols are distributions over an alphabet.

    d(i, 0) = i deletion,   d(0, j) = j insertion
    d(i, j) = min(d(i-1, j) + deletion, d(i, j-1) + insertion, d(i-1, j-1) + sub(i, j))
    sub(i, j) = (1 - eq) substitution,   eq = <s_i, t_j> / (|s_i| |t_j|)

with the relaxed min of `minimum`. Two symbols are equal with the probability eq, the cosine of the
angle between their distributions: 1 if they are the same, sharp or not.

Source: thesis, section 2.6 and, for the equality of categories, 2.2.1.
"""

from __future__ import annotations

import math
from numbers import Real

import torch
from torch import Tensor

from gendr._common.checks import (
    INTEGERS,
    check_device,
    check_finite,
    check_float,
    check_like,
    check_tensor,
    dtype_name,
    shape_text,
)
from gendr._common.tracing import in_single, is_traced, matmul
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

_LEAST = 1e-12  # the norm of a symbol counts as at least this


@worded()
@in_single
def levenshtein(
    s: Tensor,
    t: Tensor,
    *,
    insertion: Number = 1.0,
    deletion: Number = 1.0,
    substitution: Number = 1.0,
    dist: DistributionLike = "logistic",
    steepness: Number = 10.0,
    minimum: Minimum = "expected",
    lengths: tuple[Tensor, Tensor] | None = None,
    check: bool = True,
    backend: str = "auto",
) -> Tensor:
    """The relaxed edit distance of s and t: what it costs to turn s into t.

    >>> levenshtein(logits_s.softmax(-1), logits_t.softmax(-1))     # [..., n, A], [..., m, A]

    Args:
        s: [..., n, A], a distribution over an alphabet of A symbols for each place; or integers
            [..., n], which have no gradient.
        t: [..., m, A], or integers [..., m]. Leading dimensions broadcast. n and m may be 0.
        insertion: the price of a symbol of t that s lacks; a number, or a tensor of a single one,
            through which gradients flow.
        deletion: the price of a symbol of s that t lacks.
        substitution: the price of a symbol in place of another.
        dist: the distribution of the comparisons, symmetric; "heaviside" gives the hard distance.
        steepness: 1 / scale of the distribution, in units of 1 / price; a number or a tensor of
            one.
        minimum: "expected", or "log_sum_exp", which is never above the hard distance (logistic
            only).
        lengths: of the strings of s and of t, integers in the shape of the batch; symbols beyond
            them do not count. By default all symbols count.
        check: look for NaN and inf.
        backend: "auto", "cpu" or "reference".

    Returns:
        [...].

    Raises:
        TypeError: tensors or settings of the wrong type.
        ValueError: shapes that do not fit, NaN or inf, negative prices, lengths out of range, or a
            distribution or minimum that does not fit.
    """
    dist, steepness = check_distribution(dist), check_steepness(steepness)
    check_minimum(minimum, dist)
    equal = _equality(s, t, check)
    given = {"deletion": deletion, "insertion": insertion, "substitution": substitution}
    prices = [_price(name, value, equal) for name, value in given.items()]
    *batch, n, m = equal.shape
    rows = check_lengths(lengths, batch, n, m, equal.device)
    matrix = ((1 - equal) * prices[2]).reshape(math.prod(batch), n, m)
    task = AlignmentTask(dist, for_kernels(dist), rows, warping=False, minimum=minimum)
    skips = torch.stack(prices[:2])
    return shaped(computed(ALIGNMENT, backend, task, matrix, skips, steepness=steepness), batch)


def _equality(s: object, t: object, check: bool) -> Tensor:
    """The probabilities [..., n, m] that symbols are equal."""
    s, t = check_tensor("s", s), check_tensor("t", t)
    if s.dtype in INTEGERS and t.dtype in INTEGERS:
        check_device("t", t, "s", s)
        if s.ndim == 0 or t.ndim == 0:
            raise ValueError("strings of integers must have shapes [..., n] and [..., m]")
        check_batches("s and t", s.shape[:-1], t.shape[:-1])
        return (s[..., :, None] == t[..., None, :]).to(torch.get_default_dtype())
    for one, other, name in ((s, t, "t"), (t, s, "s")):
        if other.dtype in INTEGERS and one.is_floating_point():
            raise TypeError(
                f"s and t must both hold probabilities, or both integers, and {name} holds "
                f"{dtype_name(other.dtype)}; make it torch.nn.functional.one_hot({name}, "
                f"{one.shape[-1] if one.ndim else 'A'}).to({dtype_name(one.dtype)})"
            )
    s, t = check_float("s", s), check_float("t", t)
    check_like("t", t, "s", s)
    if s.ndim < 2 or t.ndim < 2 or s.shape[-1] != t.shape[-1] or s.shape[-1] == 0:
        raise ValueError(
            "s and t must have shapes [..., n, A] and [..., m, A] with the same alphabet, got "
            f"{shape_text(s.shape)} and {shape_text(t.shape)}"
        )
    check_batches("s and t", s.shape[:-2], t.shape[:-2])
    if check:
        check_finite("s", s)
        check_finite("t", t)
    return matmul(_normalised(s), _normalised(t).mT)


def _normalised(x: Tensor) -> Tensor:
    return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp(min=_LEAST)


def _price(name: str, value: object, like: Tensor) -> Tensor:
    """A price as a tensor without dimensions.

    Raises:
        TypeError: it is no number.
        ValueError: it is negative or not finite.
    """
    if isinstance(value, Tensor) and value.numel() == 1 and value.is_floating_point():
        number = 0.0 if is_traced() else float(value.detach())
        price = value.reshape(()).to(like)
    elif isinstance(value, Real) and not isinstance(value, bool):
        number, price = float(value), like.new_tensor(float(value))
    else:
        raise TypeError(
            f"{name} must be a number or a tensor of a single one, got {type(value).__name__}"
        )
    if not 0 <= number < float("inf"):
        raise ValueError(f"{name} must be >= 0 and finite, got {number}")
    return price
