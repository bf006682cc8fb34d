"""The membership mask by its definition in plain torch, for what has no kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gendr._common.ranges import finite, spread
from gendr._common.tracing import (
    applied,
    is_for_onnx,
    is_traced,
    log_add_exp,
    running_log_sum_exp,
    wide,
)
from gendr.distributions import Distribution, StandardDistribution
from gendr.distributions.members.laplace import Laplace
from gendr.distributions.members.uniform import Uniform
from gendr.kernels.operator import Operator

# Relative errors of the sum at which the search ends; each dtype holds hardly more digits.
TOLERANCES = {torch.float32: 2e-8, torch.float64: 1e-13}
# Steps of the search where nobody may look whether it has ended: as the host waits for nothing.
_STEPS = 64
_NOISE = 1e-7  # errors that are that small and do not shrink any more are those of rounding


def has_kernel(dist: Distribution) -> bool:
    """Whether kernels take it: one of the registry, but for powers and learnt parameters."""
    return not (_learnt(dist) or dist.is_squared or dist.art_exponent)


def _learnt(dist: Distribution) -> bool:
    """Whether gradients may flow to something inside the distribution."""
    values = (dist.shape_parameter, dist.total_shift())
    return not isinstance(dist.base, StandardDistribution) or any(
        isinstance(value, Tensor) for value in values
    )


def _mask(dist: Distribution, x: Tensor, k: Tensor, scale: Tensor) -> Tensor:
    """The mask [rows, n]; k and scale are [rows, 1] in float64."""
    if is_for_onnx():  # in float32, which has few digits far from 0
        x = x - _kth_largest(x.detach(), k)
    with torch.no_grad():
        b = _threshold(wide(x), k, scale, dist, TOLERANCES[x.dtype])
    return _mask_at(dist, (b,), x, k, scale)


def _mask_at(
    dist: Distribution, threshold: tuple[Any, ...], x: Tensor, k: Tensor, scale: Tensor
) -> Tensor:
    """The mask, given its threshold [rows, 1] without gradient."""
    dtype, x, b = x.dtype, wide(spread(x)), threshold[0]
    if not _learnt(dist):
        b = _threshold_of(x, k, scale, b, dist)
    elif torch.is_grad_enabled():
        # Steps that move nothing, but carry all gradients, those of parameters of the distribution
        # too. The first has the right slopes, with the second they have.
        for _ in range(2):
            z = finite((x - b) / scale)
            inside, weight = dist.cdf(z).sum(-1, keepdim=True), dist.pdf(z).sum(-1, keepdim=True)
            is_flat = weight == 0
            step = (inside - k) * scale / torch.where(is_flat, 1.0, weight)
            b = b + torch.where(is_flat, 0.0, step)
    return dist.cdf(finite((x - b) / scale)).to(dtype)


MASK = Operator("topk.mask", reference=_mask, replay=_mask_at)


class _Threshold(torch.autograd.Function):
    """The threshold as the solution of sum F((x - b) / scale) = k, of any order of gradients."""

    generate_vmap_rule = True

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        x: Tensor, k: Tensor, scale: Tensor, b: Tensor, dist: Distribution
    ) -> Tensor:
        return b.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, _, scale, _, ctx.dist = inputs
        ctx.save_for_backward(x, scale, output)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        # Written in terms of the output, so that it can be differentiated again.
        x, scale, b = ctx.saved_tensors
        (grad,) = grad_outputs
        z = finite((x - b) / scale)
        w = ctx.dist.pdf(z)
        weight = w.sum(-1, keepdim=True)
        is_flat = weight == 0
        grad = torch.where(is_flat, 0.0, grad / torch.where(is_flat, 1.0, weight))
        return grad * w, -(grad * scale), -grad * (w * z).sum(-1, keepdim=True), None, None


_threshold_of = applied(_Threshold)


def _threshold(x: Tensor, k: Tensor, scale: Tensor, dist: Distribution, tolerance: float) -> Tensor:
    """The b [rows, 1] at which the mask of x [rows, n] has the sum k; all float64."""
    closed = _CLOSED.get(type(dist.base))
    is_plain = not (_learnt(dist) or dist.is_squared or dist.art_exponent or dist.total_shift())
    if closed is not None and is_plain:
        b = closed(x / scale, k) * scale
        return searched(x, k, scale, dist, b, tolerance, steps=2)
    # Where the hard mask has its threshold, for small scales; others are found from anywhere.
    ordered = x.sort(dim=-1, descending=True).values
    place = k.ceil().long().clamp(1, x.shape[-1] - 1)
    b = 0.5 * ordered.gather(-1, place - 1) + 0.5 * ordered.gather(-1, place)
    return searched(x, k, scale, dist, b - scale * dist.icdf(torch.full_like(b, 0.5)), tolerance)


def quantile(k: Tensor, n: int, dist: Distribution) -> Tensor:
    """The z with F(z) = k / n."""
    front = k <= 0.5 * n
    upper = torch.where(front, 0.5 * n, n - k)
    return torch.where(front, dist.icdf(k.clamp(max=0.5 * n) / n), dist.isf(upper / n))


def searched(
    x: Tensor, k: Tensor, scale: Tensor, dist: Distribution, b: Tensor, tolerance: float,
    steps: int = _STEPS,
) -> Tensor:  # fmt: skip
    """Search from b on; see `cpu.mask_kernels._search`, which does the same."""
    n = x.shape[-1]
    middle = scale * quantile(k, n, dist)
    lowest, highest = x.aminmax(dim=-1, keepdim=True)
    low, high = lowest - middle, highest - middle
    b = torch.where((low < b) & (b < high), b, 0.5 * low + 0.5 * high)
    best, error, least = b, torch.full_like(b, math.inf), torch.full_like(b, math.inf)
    is_found = torch.zeros_like(b, dtype=torch.bool)
    for _ in range(min(steps, 32) if is_for_onnx() else steps):  # float32 has no more digits
        z = finite((x - b) / scale)
        cdf, sf = dist.coverage(z)
        inside, outside = cdf.sum(-1, keepdim=True), sf.sum(-1, keepdim=True)
        rate = dist.pdf(z).sum(-1, keepdim=True) / scale * (1 / inside + 1 / outside)
        before, least = error.abs(), torch.minimum(error.abs(), least)
        error = (inside / k).log() - (outside / (n - k)).log()
        best = torch.where((error.abs() < least) & ~is_found, b, best)
        is_slow = error.abs() > 0.5 * before
        is_found = is_found | (error.abs() <= tolerance) | (is_slow & (before <= _NOISE))
        if x.device.type == "cpu" and not is_traced() and bool(is_found.all()):
            break
        low, high = torch.where(error > 0, b, low), torch.where(error > 0, high, b)
        after = b + error / rate
        is_good = (low < after) & (after < high) & ~is_slow
        b = torch.where(is_good, after, 0.5 * low + 0.5 * high)
    return best


def _laplace(x: Tensor, k: Tensor) -> Tensor:
    """The threshold for the Laplace distribution of scale 1, in closed form after one sort.

    Between two neighbours, with j values above, the sum at c + log t, c any number, is
    j + A / (2 t) - B t / 2, where A = sum exp(x - c) of the values below and B = sum exp(c - x) of
    those above: a quadratic equation for t, here solved on logarithms.
    """
    y = x.sort(dim=-1, descending=True).values
    n = y.shape[-1]
    # Logarithms of B and A, relative to y_j, for the j + 1 values down to y_j and those below it.
    above = running_log_sum_exp(-y) + y
    below = running_log_sum_exp(y.flip(-1)).flip(-1)[..., 1:]
    below = torch.nn.functional.pad(below, (0, 1), value=-math.inf) - y
    counts = torch.arange(1, n + 1, dtype=y.dtype, device=y.device)
    sums = counts + 0.5 * (below.exp() - above.exp())  # with the threshold at y_j; they increase
    j = (sums < k).sum(-1, keepdim=True)  # values above the threshold
    at = (j - 1).clamp(min=0)
    c = y.gather(-1, at)
    log_a, log_b = below.gather(-1, at), above.gather(-1, at)
    first = j == 0
    log_a = torch.where(first, log_add_exp(log_a, torch.zeros_like(log_a)), log_a)
    log_b = torch.where(first, -math.inf, log_b)
    d = k - j
    log_d = d.abs().log()
    log_root = 0.5 * log_add_exp(2 * log_d, log_a + log_b)
    log_sum = log_add_exp(log_d, log_root)
    return c + torch.where(d >= 0, log_a - log_sum, log_sum - log_b)


def _kth_largest(x: Tensor, k: Tensor) -> Tensor:
    place = k.detach().ceil().long().clamp(1, x.shape[-1]) - 1
    return x.sort(dim=-1, descending=True).values.gather(-1, place)


def _uniform(x: Tensor, k: Tensor) -> Tensor:
    """The threshold for the uniform distribution on [-1, 1], in closed form after one sort.

    The sum is piecewise linear; a value takes part in its slope from b = x - 1 to b = x + 1.
    """
    n = x.shape[-1]
    # It is within 1 of the k-th largest: those beyond 3 might as well be nearer, with all digits.
    kth = _kth_largest(x, k)
    y = (x - kth).clamp(-3, 3).sort(dim=-1).values
    bends, order = torch.cat([y - 1, y + 1], -1).sort(dim=-1)
    slopes = ((order < n).to(x) - 0.5).cumsum(-1)
    fallen = (slopes[..., :-1] * bends.diff(dim=-1)).cumsum(-1)
    fallen = torch.nn.functional.pad(fallen, (1, 0))  # n minus the sum, at every bend
    at = (fallen < n - k).sum(-1, keepdim=True).clamp(1, 2 * n - 1)
    left, slope = bends.gather(-1, at - 1), slopes.gather(-1, at - 1)
    rest = (n - k) - fallen.gather(-1, at - 1)
    return kth + left + rest / slope.clamp(min=0.5)


_CLOSED: dict[type, Callable[[Tensor, Tensor], Tensor]] = {Laplace: _laplace, Uniform: _uniform}
