"""A CDF of the user's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any, final
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from gendr._common.checks import FLOATS
from gendr._common.tracing import breaking_graphs, capturing, is_plain, is_transformed
from gendr.distributions.base import BaseDistribution, Part
from gendr.distributions.standard import INF
from gendr.kernels.through_cpu import with_doubles

_DOUBLINGS = 1030  # from 1 to the largest float64
_HALVINGS = 1100  # to adjacent floats, also next to 0
_NEAR = 1e4  # up to where a formula such as z^8 / (1 + z^8) must give numbers
_NEARLY = 0.1  # from 0 and 1, at some sample: tails may be heavy, and the scale be anything
# What was found to be a CDF: by callable, in which dtypes and whether with its slope.
_SEEN: WeakKeyDictionary[Any, set[Any]] = WeakKeyDictionary()


@final
@dataclass(frozen=True, eq=False, repr=False)
class CallableDistribution(BaseDistribution):
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
        self._check_once(u)
        return out

    def _check_once(self, u: Tensor) -> None:
        """Look whether it is a CDF, when a callable is met first in a dtype, or with gradients."""
        if capturing(u.device) or u.is_meta or not is_plain(u):
            return
        with_slope = u.requires_grad and torch.is_grad_enabled()
        function = self.cdf_function
        of_method = isinstance(function, MethodType)  # a new object whenever it is read
        item = (function.__func__ if of_method else None, self.ends, u.dtype, with_slope)
        try:
            seen = _SEEN.setdefault(function.__self__ if of_method else function, set())
        except TypeError:  # without a hash, or without weak references
            seen = set[Any]()
        if item not in seen:
            self._check(u, with_slope)
            seen.add(item)

    def _check(self, like: Tensor, with_slope: bool) -> None:
        """Look at a sample of values: all tests are such that no CDF fails them, however wide.

        Raises:
            ValueError: the callable is no CDF, or its slope is NaN.
        """
        low, high = self.support
        most = int(math.log10(torch.finfo(like.dtype).max))
        exponents = torch.cat(
            [torch.linspace(-4, 4, 65, device="cpu"), torch.arange(5, most + 1, device="cpu")]
        )
        sizes = (10.0 ** exponents.double()).to(like.device)
        z = torch.cat([-sizes.flip(0), sizes.new_zeros(1), sizes]).to(like.dtype)
        z = z[z.isfinite()].clamp(low, high)
        near = z.abs() <= (_NEAR if like.dtype in FLOATS else 100.0)
        with torch.no_grad():
            values = self.cdf_function(z.clone()).double()
        tolerance = max(1e-4, 8 * torch.finfo(like.dtype).eps)
        falls = torch.zeros_like(near)
        falls[1:] = values[1:] < values[:-1] - tolerance
        for rule, wrong in (
            ("a CDF must be a number", values.isnan()),
            ("a CDF must be at least 0", values < -tolerance),
            ("a CDF must be at most 1", values > 1 + tolerance),
            ("a CDF must never fall", falls),
        ):
            where = (wrong & near).nonzero()
            if len(where):
                k = int(where[0])
                raise ValueError(f"{self}: {rule}, got {values[k]:.4g} at z = {z[k]:.4g}")
        starts = low > -INF or bool((values <= _NEARLY).any())
        ends = high < INF or bool((values >= 1 - _NEARLY).any())
        if not (starts and ends):
            raise ValueError(
                f"{self}: a CDF must rise from 0 to 1, got {values[0]:.4g} at z = {z[0]:.4g} and "
                f"{values[-1]:.4g} at z = {z[-1]:.4g}; if it does so between two numbers only, "
                "give its support: (cdf, (low, high))"
            )
        if not with_slope:
            return
        # A checkpoint around, which counts what is saved, does not come here again.
        with torch.enable_grad(), saved_tensors_hooks(lambda x: x, lambda x: x):
            z = z[z.abs() <= 100].requires_grad_()
            values = self.cdf_function(z)
            if not values.requires_grad:
                return
            (slope,) = torch.autograd.grad(
                values.sum(), z, allow_unused=True, materialize_grads=True
            )
        if bool(slope.isnan().any()):
            k = int(slope.isnan().nonzero()[0])
            raise ValueError(
                f"{self}: its slope is NaN at z = {z[k]:.4g}; clamp what overflows there, also "
                "in the branch of a `where` that is not chosen"
            )

    def tails_at(self, u: Tensor, parts: tuple[Part, ...]) -> tuple[Tensor, ...]:
        """See `BaseDistribution`."""
        values = self._values(u)
        return tuple(values if part == "cdf" else 1 - values for part in parts)

    @breaking_graphs  # which would differentiate its derivative, an error of PyTorch
    def density_at(self, u: Tensor) -> Tensor:
        """See `BaseDistribution`."""
        if is_transformed():
            values, pulled = torch.func.vjp(self._values, u)  # pyright: ignore[reportAssignmentType]
            return pulled(torch.ones_like(values))[0]
        keep = torch.is_grad_enabled()
        if keep and not u.requires_grad:
            keep = self._values(u).requires_grad  # by parameters of the callable
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
        """See `BaseDistribution`."""
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

    @with_doubles
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
        """See `BaseDistribution`."""
        return self.quantile_at(torch.tensor(0.5, dtype=torch.float64, device="cpu"), "cdf")

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

    When it is first evaluated, a sample of its values is looked at: what is no CDF, or has a slope
    of NaN where gradients are asked for, raises a ValueError then.

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
