"""Membership among the k largest, relaxed: a number in [0, 1] for each value, whose sum is k."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast, final

import torch
from torch import Tensor, nn

from gendr._common.checks import check_device, check_number, check_tensor, shape_text
from gendr._common.ranges import finite
from gendr._common.tracing import (
    all_hold,
    applied,
    breaking_graphs_for_masks,
    is_for_onnx,
    is_traced,
    stable_sort,
    wide,
)
from gendr._common.words import worded
from gendr.distributions import Distribution, Law, as_distribution
from gendr.distributions.bodies import kernel_name
from gendr.distributions.decisions import Number
from gendr.distributions.laws.heaviside import Heaviside
from gendr.distributions.laws.laplace import Laplace
from gendr.distributions.laws.uniform import Uniform
from gendr.distributions.registry import DistributionLike
from gendr.kernels.numba.compilation import available
from gendr.kernels.operator import Operator
from gendr.kernels.threads import run
from gendr.sorting.base import back, check_keys, gumbel, straight_through
from gendr.sorting.ragged import Ragged

# Relative errors of the sum at which the search ends; each dtype holds hardly more digits.
_TOLERANCES = {torch.float32: 2e-8, torch.float64: 1e-13}
# Steps of the search where nobody may look whether it has ended: as the host waits for nothing.
_STEPS = 64
_NOISE = 1e-7  # errors that are that small and do not shrink any more are those of rounding
_WORTH_THREADS = 1 << 15  # with fewer values, sharing rows among threads costs more than it gains


@worded()
@breaking_graphs_for_masks
def soft_topk_mask(
    x: Tensor,
    k: Number,
    dist: DistributionLike = "laplace",
    scale: Number = 0.1,
    *,
    mask: Tensor | None = None,
    dim: int = -1,
    hard: bool = False,
    noise: float = 0.0,
    check: bool = True,
) -> Tensor:
    """How far each value is among the k largest: p = F((x - b) / scale), where b makes sum p = k.

    >>> soft_topk_mask(torch.tensor([3.0, 1.0, 2.0, 0.0]), 2, scale=0.5)
    tensor([0.9323, 0.0677, ...

    Small p keep their digits: a value far below the threshold b has the p of the law's tail, not 0
    (unless the law itself is 0 there). Gradients to x, scale and k are those of the solution, by
    the implicit function theorem, and can be differentiated again. Where the density is 0 at all
    values, as for the uniform law between two clusters, they are 0.

    Time is O(n), by Newton's method on the sum in compiled code, on the CPU for the laws of
    `gendr.distributions.names()` without a square or `art`. Elsewhere in plain torch: for laplace
    and uniform in closed form after one sort, for others by a fixed number of bracketed Newton
    steps, for which the host never waits unless the functions of the law do, as those of gamma.
    Arithmetic is float64, memory O(n).

    Args:
        x: [..., n], finite where present.
        k: the sum, any real number of [0, n], where 0 and n select nothing and all, without
            gradient; or a tensor, one for every row: of the shape of x
            without `dim`, or with size 1 there, or one that broadcasts to that of the rows.
        dist: a name, a `Distribution` or a CDF of your own. It may be one-sided. heaviside gives
            the hard mask, in which equal values at the threshold have equal shares; no gradient.
        scale: of the law, positive: the smaller, the harder. In units of x, squared units for
            squared laws; a number or a tensor as k.
        mask: bool, broadcasting to x, True where a value is present. p is that of the lists of what
            is present alone, and 0 for what is absent. k may then be any number from 0 on: in a
            row that has no more than k present, these have p = 1, without gradient.
        dim: along which p sums to k.
        hard: 1 for the k largest and 0 for the others, of equal values the first; the gradients are
            those of the soft mask (straight-through). k must be whole.
        noise: of the scale of Gumbel noise that is added to x, from torch's generator. With `hard`
            a subset is then sampled without replacement: its first member is i with probability
            softmax(x / noise)[i], the next one in the same way of the others, and so on.
        check: look for NaN and inf in x, and for tensors k and scale out of range, for which the
            host waits if they are on a GPU.

    Returns:
        p, shaped like x, in its dtype.

    Raises:
        TypeError: x is no tensor, k or scale no number, or an unknown word. `steepness` is
            taken for 1 / scale.
        ValueError: bad shapes, NaN or inf, k or scale out of range, or an unknown law.

    Source: Struski et al., LapSum: One Method to Differentiate Them All (ICML 2025), whose operator
        is the Laplace member.
    """
    keys, present = check_keys(x, check=check, dim=dim, mask=mask)
    law = as_distribution(dist)
    n = keys.shape[-1]
    most = float(n) if mask is None else math.inf
    total = _parameter("k", k, keys, most, check, dim)
    width = _parameter("scale", scale, keys, None, check, dim)
    if hard and check and not all_hold(total == total.round()):
        raise ValueError(f"k must be whole for a hard mask, got {k}")
    if check_number("noise", noise, least=0.0):
        keys = gumbel(keys, noise)
    if not n:
        return x if x.is_floating_point() else keys
    rows = keys.flatten(0, -2) if keys.ndim > 1 else keys[None]
    total, width = (value.expand(keys.shape[:-1]).reshape(-1, 1) for value in (total, width))
    if mask is not None:
        present = torch.ones_like(keys, dtype=torch.bool) if present is None else present
        p = _of_present(law, rows, total, width, present.reshape(rows.shape))
    elif n > 1 and not isinstance(k, Tensor) and 0 < k < n:
        p = _of_rows(law, rows, total, width)
    else:
        p = _of_any(law, rows, total, width)
    if hard:
        lowest = rows.detach()
        if present is not None:
            lowest = lowest.masked_fill(~present.reshape(rows.shape), -math.inf)
        order = stable_sort(lowest, descending=True)[1]
        selected = torch.arange(n, device=rows.device) < total.detach()
        exact = torch.zeros_like(p).scatter(-1, order, selected.to(p.dtype))
        if present is not None:
            exact = exact * present.reshape(rows.shape)
        p = straight_through(exact, p)
    p = back(p.reshape(keys.shape), dim)
    return p.to(x.dtype) if x.is_floating_point() else p


def _of_rows(law: Distribution, rows: Tensor, k: Tensor, scale: Tensor) -> Tensor:
    """The mask of rows [rows, n], of k and scale [rows, 1]."""
    if isinstance(law.law, Heaviside):
        return _hard(rows.detach(), k).to(rows.dtype)
    kernels = _MaskKernels if has_kernel(law, rows) else None
    return MASK(kernels, law, rows, k, _distance(law, scale))


def _of_any(law: Distribution, rows: Tensor, k: Tensor, scale: Tensor) -> Tensor:
    """The same for k from 0 to n; rows where there is nothing to choose get any k in between."""
    n = rows.shape[-1]
    if n == 1:
        return k.expand(rows.shape).to(rows.dtype)
    is_open = (k > 0) & (k < n)
    p = _of_rows(law, rows, torch.where(is_open, k, 0.5 * n), scale)
    return torch.where(is_open, p, k.detach().clamp(0, 1).to(p.dtype))


def _of_present(law: Distribution, rows: Tensor, k: Tensor, scale: Tensor, mask: Tensor) -> Tensor:
    """The same of the lists of what is present."""
    counts = mask.sum(-1, keepdim=True)
    is_open = (k > 0) & (k < counts) & (counts > 1)  # the others have nothing to choose from
    ragged = Ragged(mask & is_open)
    parts = [
        _of_rows(law, part, k[group.rows], scale[group.rows])
        for group, part in zip(ragged.groups, ragged.packed(rows, "n"), strict=True)
    ]
    p = ragged.joined(parts, "n", rows.shape[-1:])
    alike = torch.where(counts == 1, k, k.detach()).clamp(max=1)
    return p + torch.where(mask & ~is_open, alike, 0.0).to(p.dtype)


def _parameter(
    name: str, value: Number, x: Tensor, most: float | None, check: bool, dim: int
) -> Tensor:
    """Return k, of 0 .. most, or scale, positive, as float64 (see `wide`) on the device of x.

    Its shape broadcasts to the batch of x, whose dimension `dim` has come last.
    """

    def refusal(got: str) -> ValueError:
        below = "" if most in (None, math.inf) else f" and <= {most:g}"
        return ValueError(f"{name} must be {'> 0' if most is None else '>= 0'}{below}, got {got}")

    dtype = x.dtype if is_for_onnx() else torch.float64
    if not isinstance(value, Tensor):
        least = {"above": 0.0} if most is None else {"least": 0.0}
        if (number := check_number(name, value, **least)) > (math.inf if most is None else most):
            raise refusal(f"{number:g}")
        return torch.full((), number, dtype=dtype, device=x.device)
    check_device(name, check_tensor(name, value, meta=x.is_meta), "x", x)
    inside = (value > 0) & (value < math.inf) if most is None else (value >= 0) & (value <= most)
    if check and not x.is_meta and not all_hold(inside):
        low, high = (f"{end.item():g}" for end in value.detach().aminmax())
        raise refusal(f"values from {low} to {high}")
    shape = value.shape
    if value.ndim == x.ndim and value.shape[dim] == 1:
        value = value.squeeze(dim)  # a column, as sums with keepdim=True are
    try:
        value.expand(x.shape[:-1])
    except RuntimeError:
        raise ValueError(
            f"{name} must broadcast to the batch of x, {shape_text(x.shape[:-1])}, or be a column "
            f"with size 1 where x has n, got {shape_text(shape)}; for other batches expand x"
        ) from None
    return value.to(dtype)


def _distance(law: Distribution, scale: Tensor) -> Tensor:
    """The distance d for which the law at x and this scale is the law at x / d and scale 1."""
    if law.is_squared:
        return scale.sqrt()
    return scale ** (1 / (1 - law.art_exponent)) if law.art_exponent else scale


def _learnt(law: Distribution) -> bool:
    """Whether gradients may flow to something inside the law."""
    values = (law.shape_parameter, law.total_shift())
    return not isinstance(law.law, Law) or any(isinstance(value, Tensor) for value in values)


# ---------------------------------------------------------------------------------------------
# Plain torch
# ---------------------------------------------------------------------------------------------


def _hard(x: Tensor, k: Tensor) -> Tensor:
    """The limit of small scales: 1 above the threshold, equal shares of the rest at it."""
    ordered = x.sort(dim=-1, descending=True).values
    at = ordered.gather(-1, (k.detach().ceil().long() - 1).clamp(0, x.shape[-1] - 1))
    above, equal = x > at, x == at
    return above + equal * (
        (k.detach() - above.sum(-1, keepdim=True)) / equal.sum(-1, keepdim=True)
    )


def _mask(law: Distribution, x: Tensor, k: Tensor, scale: Tensor) -> Tensor:
    """The mask [rows, n]; k and scale are [rows, 1] in float64."""
    with torch.no_grad():
        b = _threshold(wide(x), k, scale, law, _TOLERANCES[x.dtype])
    return _mask_at(law, (b,), x, k, scale)


def _mask_at(
    law: Distribution, threshold: tuple[Any, ...], x: Tensor, k: Tensor, scale: Tensor
) -> Tensor:
    """The mask, given its threshold [rows, 1] without gradient."""
    dtype, x, b = x.dtype, wide(x), threshold[0]
    if not _learnt(law):
        b = _threshold_of(x, k, scale, b, law)
    elif torch.is_grad_enabled():
        # Steps that move nothing, but carry all gradients, those of parameters of the law too. The
        # first has the right slopes, with the second they have.
        for _ in range(2):
            z = finite((x - b) / scale)
            inside, weight = law.cdf(z).sum(-1, keepdim=True), law.pdf(z).sum(-1, keepdim=True)
            is_flat = weight == 0
            step = (inside - k) * scale / torch.where(is_flat, 1.0, weight)
            b = b + torch.where(is_flat, 0.0, step)
    return law.cdf(finite((x - b) / scale)).to(dtype)


MASK = Operator("topk.mask", reference=_mask, replay=_mask_at)


class _Threshold(torch.autograd.Function):
    """The threshold as the solution of sum F((x - b) / scale) = k, of any order of gradients."""

    generate_vmap_rule = True

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        x: Tensor, k: Tensor, scale: Tensor, b: Tensor, law: Distribution
    ) -> Tensor:
        return b.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, _, scale, _, ctx.law = inputs
        ctx.save_for_backward(x, scale, output)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        # Written in terms of the output, so that it can be differentiated again.
        x, scale, b = ctx.saved_tensors
        (grad,) = grad_outputs
        z = finite((x - b) / scale)
        w = ctx.law.pdf(z)
        weight = w.sum(-1, keepdim=True)
        is_flat = weight == 0
        grad = torch.where(is_flat, 0.0, grad / torch.where(is_flat, 1.0, weight))
        return grad * w, -(grad * scale), -grad * (w * z).sum(-1, keepdim=True), None, None


_threshold_of = applied(_Threshold)


def _threshold(x: Tensor, k: Tensor, scale: Tensor, law: Distribution, tolerance: float) -> Tensor:
    """The b [rows, 1] at which the mask of x [rows, n] has the sum k; all float64."""
    closed = _CLOSED.get(type(law.law))
    is_plain = not (_learnt(law) or law.is_squared or law.art_exponent or law.total_shift())
    if closed is not None and is_plain:
        b = closed(x / scale, k) * scale
        return searched(x, k, scale, law, b, tolerance, steps=2)
    # Where the hard mask has its threshold, for small scales; others are found from anywhere.
    ordered = x.sort(dim=-1, descending=True).values
    place = k.ceil().long().clamp(1, x.shape[-1] - 1)
    b = 0.5 * ordered.gather(-1, place - 1) + 0.5 * ordered.gather(-1, place)
    return searched(x, k, scale, law, b - scale * law.icdf(torch.full_like(b, 0.5)), tolerance)


def _quantile(k: Tensor, n: int, law: Distribution) -> Tensor:
    """The z with F(z) = k / n."""
    front = k <= 0.5 * n
    upper = torch.where(front, 0.5 * n, n - k)
    return torch.where(front, law.icdf(k.clamp(max=0.5 * n) / n), law.isf(upper / n))


def searched(
    x: Tensor, k: Tensor, scale: Tensor, law: Distribution, b: Tensor, tolerance: float,
    steps: int = _STEPS,
) -> Tensor:  # fmt: skip
    """Search from b on; see `mask_kernels._search`, which does the same."""
    n = x.shape[-1]
    middle = scale * _quantile(k, n, law)
    lowest, highest = x.aminmax(dim=-1, keepdim=True)
    low, high = lowest - middle, highest - middle
    b = torch.where((low < b) & (b < high), b, 0.5 * low + 0.5 * high)
    best, error, least = b, torch.full_like(b, math.inf), torch.full_like(b, math.inf)
    is_found = torch.zeros_like(b, dtype=torch.bool)
    for _ in range(min(steps, 32) if is_for_onnx() else steps):  # float32 has no more digits
        z = finite((x - b) / scale)
        cdf, sf = law.coverage(z)
        inside, outside = cdf.sum(-1, keepdim=True), sf.sum(-1, keepdim=True)
        rate = law.pdf(z).sum(-1, keepdim=True) / scale * (1 / inside + 1 / outside)
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
    """The threshold for the Laplace law of scale 1, in closed form after one sort.

    Between two neighbours, with j values above, the sum at c + log t, c any number, is
    j + A / (2 t) - B t / 2, where A = sum exp(x - c) of the values below and B = sum exp(c - x) of
    those above: a quadratic equation for t, here solved on logarithms.
    """
    y = x.sort(dim=-1, descending=True).values
    n = y.shape[-1]
    # Logarithms of B and A, relative to y_j, for the j + 1 values down to y_j and those below it.
    above = (-y).logcumsumexp(-1) + y
    below = y.flip(-1).logcumsumexp(-1).flip(-1)[..., 1:]
    below = torch.nn.functional.pad(below, (0, 1), value=-math.inf) - y
    counts = torch.arange(1, n + 1, dtype=y.dtype, device=y.device)
    sums = counts + 0.5 * (below.exp() - above.exp())  # with the threshold at y_j; they increase
    j = (sums < k).sum(-1, keepdim=True)  # values above the threshold
    at = (j - 1).clamp(min=0)
    c = y.gather(-1, at)
    log_a, log_b = below.gather(-1, at), above.gather(-1, at)
    first = j == 0
    log_a = torch.where(first, torch.logaddexp(log_a, torch.zeros_like(log_a)), log_a)
    log_b = torch.where(first, -math.inf, log_b)
    d = k - j
    log_d = d.abs().log()
    log_root = 0.5 * torch.logaddexp(2 * log_d, log_a + log_b)
    log_sum = torch.logaddexp(log_d, log_root)
    return c + torch.where(d >= 0, log_a - log_sum, log_sum - log_b)


def _uniform(x: Tensor, k: Tensor) -> Tensor:
    """The threshold for the uniform law on [-1, 1], in closed form after one sort.

    The sum is piecewise linear; a value takes part in its slope from b = x - 1 to b = x + 1.
    """
    y = x.sort(dim=-1).values
    n = y.shape[-1]
    bends, order = torch.cat([y - 1, y + 1], -1).sort(dim=-1)
    slopes = torch.where(order < n, 0.5, -0.5).cumsum(-1)
    fallen = (slopes[..., :-1] * bends.diff(dim=-1)).cumsum(-1)
    fallen = torch.nn.functional.pad(fallen, (1, 0))  # n minus the sum, at every bend
    at = (fallen < n - k).sum(-1, keepdim=True).clamp(1, 2 * n - 1)
    left, slope = bends.gather(-1, at - 1), slopes.gather(-1, at - 1)
    rest = (n - k) - fallen.gather(-1, at - 1)
    return left + rest / slope.clamp(min=0.5)


_CLOSED: dict[type, Callable[[Tensor, Tensor], Tensor]] = {Laplace: _laplace, Uniform: _uniform}


# ---------------------------------------------------------------------------------------------
# Compiled
# ---------------------------------------------------------------------------------------------


def has_kernel(law: Distribution, x: Tensor) -> bool:
    """Whether the kernel takes it: values on the CPU, and a law of the registry, but for powers."""
    if is_traced() or x.device.type != "cpu" or _learnt(law):
        return False
    return not (law.is_squared or law.art_exponent) and available() is None


class _MaskKernels:
    """The kernels of `MASK`."""

    @staticmethod
    def forward(
        law: Distribution, x: Tensor, k: Tensor, scale: Tensor, *, save: bool
    ) -> tuple[tuple[Tensor], tuple[Any, ...]]:
        from gendr.distributions.numba import density_address, tails_address
        from gendr.topk.backends.cpu import mask_kernels

        p, b = torch.empty_like(x), torch.empty_like(k)
        name = kernel_name(type(cast("Law", law.law)))
        numbers = (-1.0 if law.is_reversed else 1.0, float(cast("Any", law.total_shift())))
        shape = float(cast("Any", law.shape_parameter or 0.0))
        _launch(
            mask_kernels.mask, x, x.numpy(), _column(k), _column(scale),
            _column(_quantile(k, x.shape[-1], law)), _TOLERANCES[x.dtype], *numbers,
            tails_address(name), density_address(name), shape, p.numpy(), _column(b),
        )  # fmt: skip
        return (p,), (b, (*numbers, density_address(name), shape))

    @staticmethod
    def backward(
        law: Distribution, inputs: tuple[Tensor, ...], saved: tuple[Any, ...],
        grads: tuple[Tensor], wanted: tuple[bool, ...],
    ) -> tuple[Tensor, ...]:  # fmt: skip
        from gendr.topk.backends.cpu import mask_kernels

        (x, _, scale), (b, numbers) = inputs, saved
        by_x, by_scale, by_k = torch.empty_like(x), torch.empty_like(b), torch.empty_like(b)
        _launch(
            mask_kernels.mask_back, x, x.numpy(), _column(b), _column(scale), grads[0].numpy(),
            *numbers, by_x.numpy(), _column(by_scale), _column(by_k),
        )  # fmt: skip
        return by_x, by_k, by_scale


def _column(values: Tensor) -> Any:
    """A contiguous [rows, 1] as an array [rows]."""
    return values.view(-1).numpy()


def _launch(kernel: Callable[..., None], x: Tensor, *args: Any) -> None:
    """Run a kernel over the rows of x, on all threads if there are many values."""
    run(kernel, len(x), *args, pieces=4, alone=x.numel() < _WORTH_THREADS)


# ---------------------------------------------------------------------------------------------
# A module
# ---------------------------------------------------------------------------------------------


@worded()
@final
class SoftTopKMask(nn.Module):
    """`soft_topk_mask` as a module, from values [..., n] to their membership [..., n].

    Args:
        k: the sum, see `soft_topk_mask`.
        dist: a name, a `Distribution` or a CDF of your own.
        scale: of the law, positive.
        dim: along which p sums to k.
        hard: 0 and 1, with soft gradients.
        noise: of Gumbel noise, for sampled subsets; in training mode only.
        check: look for NaN and inf.
        learnable: whether the scale is a parameter; its logarithm is learnt, so it is positive.

    Raises:
        TypeError, ValueError: as `soft_topk_mask`.
    """

    def __init__(
        self,
        k: Number,
        dist: DistributionLike = "laplace",
        scale: float = 0.1,
        *,
        dim: int = -1,
        hard: bool = False,
        noise: float = 0.0,
        check: bool = True,
        learnable: bool = False,
    ) -> None:
        super().__init__()
        self.k, self.dist = k, as_distribution(dist)
        self.scale = check_number("scale", scale, above=0.0)
        self.dim, self.hard, self.noise, self.check = dim, hard, noise, check
        self.log_scale = nn.Parameter(torch.tensor(scale).log()) if learnable else None

    @breaking_graphs_for_masks
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """p, shaped like x; see `soft_topk_mask`."""
        scale = self.scale if self.log_scale is None else self.log_scale.exp()
        return soft_topk_mask(
            x, self.k, self.dist, scale, mask=mask, dim=self.dim, hard=self.hard,
            noise=self.noise if self.training else 0.0, check=self.check,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """k, the law and the flags."""
        return f"{self.k}, {self.dist}, scale={self.scale}, hard={self.hard}, noise={self.noise}"
