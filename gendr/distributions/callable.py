"""A CDF of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from gendr.distributions.base import Base, Part
from gendr.distributions.law import INF

_DOUBLINGS = 1030  # from 1 to the largest float64
_HALVINGS = 1100  # to adjacent floats, also next to 0


@final
@dataclass(frozen=True, eq=False, repr=False)
class CallableDistribution(Base):
    """A distribution from a callable CDF; `from_callable` checks its arguments.

    sf is 1 - cdf, pdf comes by autograd, icdf by bisection. Parameters that the callable
    closes over receive gradients.

    Attributes:
        cdf_function: elementwise, torch to torch, non-decreasing from 0 to 1.
        ends: its support, outside of which it is not called; None if unknown.
    """

    cdf_function: Callable[[Tensor], Tensor]
    ends: tuple[float, float] | None = None

    @property
    def support(self) -> tuple[float, float]:
        """The support that was given, else all reals."""
        return (-INF, INF) if self.ends is None else self.ends

    def _values(self, u: Tensor) -> Tensor:
        low, high = self.support
        limit = torch.finfo(u.dtype).max
        inside = u.clamp(max(low, -limit), min(high, limit))
        out = self.cdf_function(inside)
        if not isinstance(out, Tensor) or out.shape != u.shape or not out.is_floating_point():
            got = (
                f"{out.dtype} {list(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
            )
            raise TypeError(
                f"{self} must map a tensor to a float tensor of the same sizes, "
                f"got {got} for {list(u.shape)}"
            )
        return out

    def tails_at(self, u: Tensor, parts: tuple[Part, ...]) -> tuple[Tensor, ...]:
        """See `Base`."""
        values = self._values(u)
        return tuple(values if part == "cdf" else 1 - values for part in parts)

    def density_at(self, u: Tensor) -> Tensor:
        """See `Base`."""
        keep = torch.is_grad_enabled()
        with torch.enable_grad():
            u = u if u.requires_grad and keep else u.detach().requires_grad_()
            values = self._values(u)
            if not values.requires_grad:
                return torch.zeros_like(u)
            (slope,) = torch.autograd.grad(
                values.sum(), u, create_graph=keep, allow_unused=True, materialize_grads=True
            )
        return slope

    def quantile_at(self, q: Tensor, part: Part) -> Tensor:
        """See `Base`."""
        root = self._bisect(q.detach(), part)
        if not torch.is_grad_enabled():
            return root
        # One Newton step that moves nothing but carries the gradients of q and of the callable.
        at = root.clamp(-torch.finfo(q.dtype).max, torch.finfo(q.dtype).max)
        pdf = self.density_at(at).detach()
        known = (pdf > 0) & root.isfinite()
        error = (self.tails_at(at, (part,))[0] - q) / torch.where(known, pdf, 1.0)
        error = torch.where(known, error - error.detach(), 0.0)
        return root - error if part == "cdf" else root + error

    def bound_at(self, q: Tensor, part: Part) -> Tensor:
        """The end of the support, since nothing else is known of a callable."""
        return torch.full_like(q, self.support[0 if part == "cdf" else 1])

    @torch.no_grad()
    def _bisect(self, q: Tensor, part: Part) -> Tensor:
        bottom, top = self.support
        wide = q.double()

        def is_right_of_root(u: Tensor) -> Tensor:
            value = self.tails_at(u.to(q.dtype), (part,))[0].double()
            return value >= wide if part == "cdf" else value <= wide

        low = torch.full_like(wide, max(bottom, min(top, 0.0) - 1))
        high = torch.full_like(wide, min(top, max(bottom, 0.0) + 1))
        for _ in range(_DOUBLINGS):
            below, above = is_right_of_root(low) & (low > bottom), ~is_right_of_root(high)
            above &= high < top
            if not bool((below | above).any()):
                break
            low = torch.where(below, (low - 2 * low.abs()).clamp(min=bottom), low)
            high = torch.where(above, (high + 2 * high.abs()).clamp(max=top), high)
        for _ in range(_HALVINGS):
            middle = low + 0.5 * (high - low)
            if not bool(((middle > low) & (middle < high)).any()):
                break
            right = is_right_of_root(middle)
            low, high = torch.where(right, low, middle), torch.where(right, middle, high)
        rising = part == "cdf"
        high = torch.where(wide == 0, bottom if rising else top, high)
        high = torch.where(wide == 1, top if rising else bottom, high)
        return torch.where((wide >= 0) & (wide <= 1), high, float("nan")).to(q.dtype)

    def median(self) -> Tensor:
        """See `Base`."""
        return self.quantile_at(torch.tensor(0.5, dtype=torch.float64), "cdf")

    def __str__(self) -> str:
        function = self.cdf_function
        name = getattr(function, "__qualname__", type(function).__name__)
        return f"callable({name})"


def from_callable(
    cdf: Callable[[Tensor], Tensor], support: Sequence[float] | None = None
) -> CallableDistribution:
    """A distribution from a CDF of your own, for use wherever a name is.

    Args:
        cdf: from a tensor z of any shape to F(z) of the same shape and dtype, elementwise and
            differentiable, non-decreasing from 0 to 1. z is x / scale.
        support: (low, high), the interval outside of which the CDF is 0 or 1. Without it the
            renderer computes all pairs of pixel and face.

    Raises:
        TypeError: it is not callable, or the support is no pair.
        ValueError: the support is empty.
    """
    if isinstance(cdf, type) or not callable(cdf):
        raise TypeError(f"a CDF must be a callable from tensor to tensor, got {cdf!r}")
    if support is None:
        return CallableDistribution(cdf)
    try:
        low, high = (float(end) for end in support)
    except (TypeError, ValueError):
        raise TypeError(f"a support must be a pair (low, high), got {support!r}") from None
    if not low < high:
        raise ValueError(f"a support must be a pair with low < high, got ({low}, {high})")
    return CallableDistribution(cdf, (low, high))
