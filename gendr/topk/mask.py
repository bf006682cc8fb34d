"""Membership among the k largest, relaxed: a number in [0, 1] for each value, whose sum is k."""

from __future__ import annotations

import math
from typing import final

import torch
from torch import Tensor, nn

from gendr._common.checks import (
    check_choice,
    check_device,
    check_number,
    check_tensor,
    shape_text,
)
from gendr._common.tracing import all_hold, breaking_graphs_for_masks, is_for_onnx, stable_sort
from gendr._common.words import worded
from gendr.distributions import Distribution, as_distribution
from gendr.distributions.decisions import Number
from gendr.distributions.members.heaviside import Heaviside
from gendr.distributions.registry import DistributionLike
from gendr.kernels.backends import NAMES
from gendr.kernels.through_cpu import with_doubles
from gendr.sorting.base import back, check_keys, gumbel, straight_through
from gendr.sorting.ragged import Ragged
from gendr.topk.backends.choice import kernels_for
from gendr.topk.backends.reference import MASK, has_kernel


@with_doubles
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
    backend: str = "auto",
) -> Tensor:
    """How far each value is among the k largest: p = F((x - b) / scale), where b makes sum p = k.

    >>> soft_topk_mask(torch.tensor([3.0, 1.0, 2.0, 0.0]), 2, scale=0.5)
    tensor([0.9323, 0.0677, ...

    Small p keep their digits: a value far below the threshold b has the p of the distribution's
    tail, not 0 (unless the distribution itself is 0 there). Gradients to x, scale and k are those
    of the solution, by the implicit function theorem, and can be differentiated again. Where the
    density is 0 at all values, as for the uniform distribution between two clusters, they are 0.

    Time is O(n), by Newton's method on the sum in kernels, for the distributions of
    `gendr.distributions.names()` without a square or `art`: on the CPU in float64; on a GPU for
    rows of float32 of up to 65,536, with sums in float64 and distributions in float32. Elsewhere in
    plain torch of float64: for laplace and uniform in closed form after one sort, for others by a
    fixed number of bracketed Newton steps, for which the host never waits unless the functions of
    the distribution do, as those of gamma. Memory is O(n).

    Args:
        x: [..., n], finite where present.
        k: the sum, any real number of [0, n], where 0 and n select nothing and all, without
            gradient; or a tensor, one for every row: of the shape of x
            without `dim`, or with size 1 there, or one that broadcasts to that of the rows.
        dist: a name, a `Distribution` or a CDF of your own. It may be one-sided. heaviside gives
            the hard mask, in which equal values at the threshold have equal shares; no gradient.
        scale: of the distribution, positive: the smaller, the harder. In units of x, squared units
            for squared distributions; a number or a tensor as k.
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
        backend: "auto", or a name of `gendr.backends("topk")`.

    Returns:
        p, shaped like x, in its dtype.

    Raises:
        TypeError: x is no tensor, k or scale no number, or an unknown word. `steepness` is
            taken for 1 / scale.
        ValueError: bad shapes, NaN or inf, k or scale out of range, an unknown distribution or
            backend, or one that does not serve x.
        RuntimeError: the backend is not usable here.

    Source: Struski et al., LapSum: One Method to Differentiate Them All (ICML 2025), whose operator
        is the Laplace member.
    """
    keys, present = check_keys(x, check=check, dim=dim, mask=mask)
    distribution = as_distribution(dist)
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
    check_choice("backend", backend, ("auto", *NAMES))
    rows = keys.flatten(0, -2) if keys.ndim > 1 else keys[None]
    total, width = (value.expand(keys.shape[:-1]).reshape(-1, 1) for value in (total, width))
    if mask is not None:
        present = torch.ones_like(keys, dtype=torch.bool) if present is None else present
        p = _of_present(distribution, rows, total, width, present.reshape(rows.shape), backend)
    elif n > 1 and not isinstance(k, Tensor) and 0 < k < n:
        p = _of_rows(distribution, rows, total, width, backend)
    else:
        p = _of_any(distribution, rows, total, width, backend)
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


def _of_rows(dist: Distribution, rows: Tensor, k: Tensor, scale: Tensor, backend: str) -> Tensor:
    """The mask of rows [rows, n], of k and scale [rows, 1]."""
    if isinstance(dist.base, Heaviside):
        return _hard(rows.detach(), k).to(rows.dtype)
    size = rows.shape[-1]
    kernels = kernels_for(MASK.name, rows, backend, size) if has_kernel(dist) else None
    return MASK(kernels, dist, rows, k, _distance(dist, scale))


def _hard(x: Tensor, k: Tensor) -> Tensor:
    """The limit of small scales: 1 above the threshold, equal shares of the rest at it."""
    ordered = x.sort(dim=-1, descending=True).values
    at = ordered.gather(-1, (k.detach().ceil().long() - 1).clamp(0, x.shape[-1] - 1))
    above, equal = x > at, x == at
    return above + equal * (
        (k.detach() - above.sum(-1, keepdim=True)) / equal.sum(-1, keepdim=True)
    )


def _of_any(dist: Distribution, rows: Tensor, k: Tensor, scale: Tensor, backend: str) -> Tensor:
    """The same for k from 0 to n; rows where there is nothing to choose get any k in between."""
    n = rows.shape[-1]
    if n == 1:
        # x has the gradient 0, and none only if it requires none.
        return torch.where(torch.zeros_like(rows, dtype=torch.bool), rows, k.to(rows.dtype))
    is_open = (k > 0) & (k < n)
    p = _of_rows(dist, rows, torch.where(is_open, k, 0.5 * n), scale, backend)
    return torch.where(is_open, p, k.detach().clamp(0, 1).to(p.dtype))


def _of_present(
    dist: Distribution, rows: Tensor, k: Tensor, scale: Tensor, mask: Tensor, backend: str
) -> Tensor:
    """The same of the lists of what is present."""
    counts = mask.sum(-1, keepdim=True)
    is_open = (k > 0) & (k < counts) & (counts > 1)  # the others have nothing to choose from
    ragged = Ragged(mask & is_open)
    parts = [
        _of_rows(dist, part, k[group.rows], scale[group.rows], backend)
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


def _distance(dist: Distribution, scale: Tensor) -> Tensor:
    """The distance d for which F at x and this scale is F at x / d and scale 1."""
    if dist.is_squared:
        return scale.sqrt()
    return scale ** (1 / (1 - dist.art_exponent)) if dist.art_exponent else scale


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
        scale: of the distribution, positive.
        dim: along which p sums to k.
        hard: 0 and 1, with soft gradients.
        noise: of Gumbel noise, for sampled subsets; in training mode only.
        check: look for NaN and inf.
        backend: "auto", or a name of `gendr.backends("topk")`.
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
        backend: str = "auto",
        learnable: bool = False,
    ) -> None:
        super().__init__()
        self.k, self.dist = k, as_distribution(dist)
        self.scale = check_number("scale", scale, above=0.0)
        self.dim, self.hard, self.noise, self.check = dim, hard, noise, check
        self.backend = check_choice("backend", backend, ("auto", *NAMES))
        self.log_scale = nn.Parameter(torch.tensor(scale).log()) if learnable else None

    @breaking_graphs_for_masks
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """p, shaped like x; see `soft_topk_mask`."""
        scale = self.scale if self.log_scale is None else self.log_scale.exp()
        return soft_topk_mask(
            x, self.k, self.dist, scale, mask=mask, dim=self.dim, hard=self.hard,
            noise=self.noise if self.training else 0.0, check=self.check,
            backend=self.backend,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """k, the distribution and the flags."""
        return f"{self.k}, {self.dist}, scale={self.scale}, hard={self.hard}, noise={self.noise}"
