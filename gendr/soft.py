"""Soft forms of functions of torch: a hard decision becomes its probability under noise.

x > 0 holds with probability F(x / scale) if noise of the distribution F is added to x, and a
function that decides becomes the mean of its branches. As scale goes to 0 each is the function of
torch of the same name. All are plain PyTorch, so that `torch.compile`, `torch.func`, export and any
number of derivatives work. Sorted things have functions of their own: `gendr.sorting`,
`gendr.topk`.

    >>> from gendr import soft
    >>> soft.sign(torch.tensor([-1.0, 0.0, 0.3]), scale=0.1)
    tensor([-0.9999,  0.0000,  0.9051])

Source: Petersen, Learning with Differentiable Algorithms (2022), (2.13) to (2.15).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import torch
from torch import Tensor

from gendr._common.checks import (
    check_count,
    check_finite,
    check_like,
    check_tensor,
    dtype_name,
)
from gendr._common.tracing import all_hold, in_single, matmul
from gendr._common.words import worded
from gendr.distributions.base import checked_scale
from gendr.distributions.decisions import check_symmetric
from gendr.distributions.registry import as_distribution

if TYPE_CHECKING:
    from gendr.distributions import Distribution

__all__ = [
    "abs", "clamp", "equal", "greater", "heaviside", "histogram", "less", "relu", "round", "sign",
    "take_along_dim", "where",
]  # fmt: skip

Dist: TypeAlias = "str | Distribution"
Scale: TypeAlias = "float | Tensor"
F = TypeVar("F", bound=Callable[..., Any])


def _soft(function: F) -> F:
    """A function that takes other words for its settings, and computes in float32 at least."""
    return worded()(in_single(function))


def _floating(name: str, x: object) -> Tensor:
    tensor = check_tensor(name, x)
    if not tensor.is_floating_point():
        raise TypeError(
            f"{name} must be floating, got {dtype_name(tensor.dtype)}; convert it with .float()"
        )
    return tensor


def _meeting(x: Tensor, other: Tensor | float) -> torch.dtype:
    """`torch.result_type` of a floating x with another, in a form that does not break graphs."""
    if not isinstance(other, Tensor) or other.ndim == 0 < x.ndim:
        return x.dtype
    if x.ndim == 0 < other.ndim and other.is_floating_point():
        return other.dtype
    return torch.promote_types(x.dtype, other.dtype)


def _coverage(x: Tensor, scale: Scale, dist: Dist) -> tuple[Tensor, Tensor]:
    """F(x / scale), and 1 less that without cancellation."""
    return as_distribution(dist).coverage(_floating("x", x), scale)


@_soft
def heaviside(x: Tensor, scale: Scale = 0.1, dist: Dist = "logistic") -> Tensor:
    """The probability of x > 0: F(x / scale), in [0, 1].

    Args:
        x: any shape; float32, float64, or half precision.
        scale: > 0, of the noise, in units of x; a number, or a tensor that broadcasts to x.
        dist: its distribution, a name or an object.

    Raises:
        TypeError: x is no floating tensor.
        ValueError: an unknown distribution, a scale that is not positive.
    """
    return _coverage(x, scale, dist)[0]


@_soft
def greater(a: Tensor, b: Tensor | float, scale: Scale = 0.1, dist: Dist = "logistic") -> Tensor:
    """The probability of a > b; see `heaviside`."""
    return heaviside(a - b, scale, dist)


@_soft
def less(a: Tensor, b: Tensor | float, scale: Scale = 0.1, dist: Dist = "logistic") -> Tensor:
    """The probability of a < b; see `heaviside`."""
    return heaviside(b - a, scale, dist)


@_soft
def equal(a: Tensor, b: Tensor | float, scale: Scale = 0.1, dist: Dist = "logistic") -> Tensor:
    """How much a equals b: the density at a − b over that at 0, in [0, 1]; see `heaviside`.

    Raises:
        ValueError: also for a distribution that is not symmetric, or whose density at 0 is no
            number.
    """
    dist = check_symmetric(as_distribution(dist), "equal needs")
    peak = dist.pdf(torch.zeros((), dtype=torch.float64, device="cpu"))
    if not all_hold((peak > 0) & (peak < math.inf)):
        raise ValueError(
            f"equal needs a distribution with a density at 0, got {dist} with {peak:g}"
        )
    return dist.pdf(_floating("a - b", a - b) / checked_scale(scale)) / peak


@_soft
def sign(x: Tensor, scale: Scale = 0.1, dist: Dist = "logistic") -> Tensor:
    """2 F(x / scale) − 1, in [−1, 1]; see `heaviside`."""
    above, below = _coverage(x, scale, dist)
    return above - below


@_soft
def abs(x: Tensor, scale: Scale = 0.1, dist: Dist = "logistic") -> Tensor:
    """`x if x > 0 else -x`: x (2 F(x / scale) − 1), at most |x|; see `heaviside`."""
    return x * sign(x, scale, dist)


@_soft
def relu(x: Tensor, scale: Scale = 0.1, dist: Dist = "logistic") -> Tensor:
    """`x if x > 0 else 0`: x F(x / scale), which is slightly negative below 0; see `heaviside`.

    With the Gaussian distribution it is GELU, with the logistic one SiLU (swish).
    """
    above = heaviside(x, scale, dist)
    return torch.where(above > 0, x, 0.0) * above  # 0 of -inf too


@_soft
def clamp(
    x: Tensor, min: float | Tensor | None = None, max: float | Tensor | None = None,
    scale: Scale = 0.1, dist: Dist = "logistic",
) -> Tensor:  # fmt: skip
    """X, or a limit with the probability that x is beyond it; see `heaviside`.

    x + F((min − x) / scale) (min − x) + F((x − max) / scale) (max − x). Beyond a limit by about the
    scale, the result may be so too, by at most 0.28 scales for the logistic distribution.

    Args:
        x: any shape.
        min: the lower limit, a number or a tensor that broadcasts; None for none.
        max: the upper limit.
        scale: of the noise.
        dist: its distribution.

    Raises:
        TypeError, ValueError: without limits, for a lower one above the upper one, or as
            `heaviside`.
    """
    _floating("x", x)
    min, max = (
        v if v is None else torch.as_tensor(v, dtype=_meeting(x, v), device=x.device)
        for v in (min, max)
    )
    if not (min is None or max is None or all_hold(min <= max)):
        raise ValueError(f"clamp needs min <= max, got {min} and {max}")
    inner = torch.where(x.isinf(), 0.0, x)

    def beyond(limit: Tensor, gap: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """How likely x is beyond a limit, how likely not, and the limit times the former."""
        outside, inside = _coverage(gap, scale, dist)
        return outside, inside, torch.where(outside > 0, limit, 0.0) * outside  # 0 of an inf

    if min is not None and max is not None:
        low, high = beyond(min, min - inner), beyond(max, inner - max)
        # How likely x is within, by the difference that does not cancel: x may be large.
        is_low = min - inner > inner - max
        share, found = torch.where(is_low, low[1] - high[0], high[1] - low[0]), low[2] + high[2]
    elif min is not None:
        _, share, found = beyond(min, min - inner)
    elif max is not None:
        _, share, found = beyond(max, inner - max)
    else:
        raise ValueError("clamp needs min, max or both")
    found = found + inner * share
    hard = x if min is None else torch.maximum(x, min)
    hard = hard if max is None else torch.minimum(hard, max)
    return torch.where(x.isinf(), hard.to(found.dtype), found)  # not inf - inf


@_soft
def round(x: Tensor, scale: Scale = 0.1, dist: Dist = "logistic") -> Tensor:
    """The nearest integer, of noise that is less than one half in magnitude.

    n + (F((t − ½) / scale) − F(−½ / scale)) / (1 − 2 F(−½ / scale)) for x = n + t, 0 <= t < 1: the
    distribution given that the noise lies in [−½, ½]. Monotonic, and x itself at integers and
    halves.

    Args:
        x: any shape.
        scale: of the noise.
        dist: its distribution; symmetric.

    Raises:
        ValueError: as `heaviside`, and for a distribution that is not symmetric.
    """
    dist = check_symmetric(as_distribution(dist), "round needs")
    below = torch.floor(_floating("x", x)).detach()
    half = torch.full_like(x, 0.5)
    # Beyond this scale differences would cancel, and the result is x but for 1 / scale.
    most = torch.finfo(x.dtype).eps ** (-1 / 3)
    scale = checked_scale(scale)
    scale = scale.clamp(max=most) if isinstance(scale, Tensor) else min(scale, most)
    high, low = _coverage(half, scale, dist)
    above, _ = _coverage(torch.where(x.isinf(), x, x - below) - half, scale, dist)
    return below + (above - low) / (high - low)


@in_single
def where(condition: Tensor, a: Tensor | float, b: Tensor | float) -> Tensor:
    """`a` with the probability `condition`, else `b`: their mean, in value and gradient.

    Where a condition is exactly 0 or 1, the branch that is not taken may be NaN or infinite: it has
    no part in the value, and gets the gradient 0.

    Args:
        condition: probabilities in [0, 1], or bool as for `torch.where`.
        a: a tensor or number that broadcasts.
        b: another.

    Returns:
        In the dtype in which all three meet, as from `torch.where`.

    Raises:
        ValueError: a condition that is no probability, but for rounding.
    """
    check_tensor("condition", condition)
    if condition.dtype == torch.bool:
        return torch.where(condition, a, b)
    p, zero = _floating("condition", condition), condition.new_zeros(())
    if not all_hold(((p > -1e-3) & (p < 1.001)) | p.isnan()):
        low, high = p.detach().aminmax()
        raise ValueError(
            f"condition must be a probability, in [0, 1], got values from {low:g} to {high:g}; "
            "soft.heaviside makes one of a number"
        )
    dtype = torch.promote_types(_meeting(p, a), _meeting(p, b))
    yes, no = (torch.as_tensor(v, dtype=dtype, device=p.device) for v in (a, b))
    yes = torch.where((p > 0) | yes.isfinite(), yes, zero)
    no = torch.where((p < 1) | no.isfinite(), no, zero)
    return p * yes + (1 - p) * no


@in_single
def take_along_dim(x: Tensor, probabilities: Tensor, dim: int = -1) -> Tensor:
    """What soft indices select: the mean of x by probabilities.

    Args:
        x: [..., n] with n along `dim`.
        probabilities: [..., k, n] of k indices, such as a soft permutation matrix or the
            `attribution` of `gendr.topk.soft_topk`; other dimensions broadcast to those of x
            without `dim`.
        dim: of x.

    Returns:
        x with k in place of n along `dim`.

    Raises:
        TypeError: x and probabilities are not of one floating dtype.
        ValueError: the last dimension of probabilities is not n.
    """
    moved = _floating("x", x).movedim(dim, -1)
    check_like("probabilities", check_tensor("probabilities", probabilities), "x", x)
    if probabilities.shape[-1:] != moved.shape[-1:]:
        raise ValueError(
            f"probabilities must end in {moved.shape[-1]}, the size of x along dim {dim}, got "
            f"{list(probabilities.shape)}"
        )
    return matmul(probabilities, moved.unsqueeze(-1)).squeeze(-1).movedim(-1, dim)


@_soft
def histogram(
    x: Tensor, bins: int | Tensor = 100, range: tuple[float, float] | None = None,
    scale: Scale = 0.1, dist: Dist = "logistic", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """How many values fall into each bin: sum of F((x − low) / scale) − F((x − high) / scale).

    Args:
        x: [..., n]; histograms are taken along the last dimension.
        bins: how many of equal width, or their edges [bins + 1], ascending.
        range: of the bins; by default from the least to the greatest value of x, and the outer bins
            take what noise puts beyond; the edges are then constants, without a gradient to x.
        scale: of the noise, in units of x.
        dist: its distribution.
        weight: [..., n] of the values; 1 by default.

    Returns:
        [..., bins]; of given edges or a given range, what is beyond is not counted, else the sum is
        that of the weights.

    Raises:
        TypeError: bins are neither an int nor a tensor, a range that is no pair, or as `heaviside`.
        ValueError: fewer than one bin, edges or a range that do not ascend, NaN or inf without a
            range, shapes that do not fit, or as `heaviside`.
    """
    if _floating("x", x).ndim == 0:
        raise ValueError("x must have shape [..., n], got a single number, []")
    if weight is not None and check_tensor("weight", weight).shape != x.shape:
        raise ValueError(
            f"weight must have the shape of x, {list(x.shape)}, got {list(weight.shape)}"
        )
    open_ends = not isinstance(bins, Tensor) and range is None
    if isinstance(bins, Tensor):
        edges = bins.to(x)
        if edges.ndim != 1 or len(edges) < 2 or not all_hold(edges.diff() > 0):
            raise ValueError(
                f"edges of bins must ascend, [bins + 1], got shape {list(edges.shape)}"
            )
    else:
        check_count("bins", bins)
        if range is None:
            values = check_finite("x", x).detach()
            low, high = (
                values.flatten().aminmax(dim=0) if x.numel() else (x.new_zeros(()), x.new_ones(()))
            )
            room = 0.5 * (low == high)
            part = torch.arange(bins + 1, dtype=x.dtype, device=x.device) / bins
            edges = (1 - part) * (low - room) + part * (high + room)
        else:
            try:
                low, high = range
            except (TypeError, ValueError):
                raise TypeError(f"range must be a pair of numbers, got {range!r}") from None
            if low == high:
                low, high = low - 0.5, high + 0.5
            if not -math.inf < low < high < math.inf:
                raise ValueError(f"range must ascend and be finite, got {range}")
            edges = torch.linspace(low, high, bins + 1, dtype=x.dtype, device=x.device)
    below = heaviside(x.unsqueeze(-1) - edges, scale, dist)  # [..., n, bins + 1]
    if open_ends:
        one = torch.ones_like(below[..., :1])
        below = torch.cat([one, below[..., 1:-1], 0 * one], -1)
    if weight is not None:
        below = below * weight.unsqueeze(-1)
    return (below[..., :-1] - below[..., 1:]).sum(-2)
