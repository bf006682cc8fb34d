"""The contract of a distribution, and the one wrapper that holds every transform.

A distribution is evaluated in three steps that live here and nowhere else: the argument
u = +-(inner(x) / scale) + shift, the base distribution at u, and the swap of cdf and sf when it is
reversed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, TypeAlias, final

import torch
from torch import Tensor

from gendr._common.checks import check_float, check_number, widened
from gendr._common.ranges import finite, ratio, saturated
from gendr._common.tracing import all_hold, once

Number: TypeAlias = "float | Tensor"
Part: TypeAlias = Literal["cdf", "sf"]

# Search radii grow by this part, because F in float32 is a few 1e-7 off.
RADIUS_MARGIN = 1e-5
# A shift adds rounding of its own to the argument: radii also grow by this times |shift|.
SHIFT_MARGIN = 1e-6


def floating(x: object) -> Tensor:
    """`x` as a real floating-point tensor; integers and bools become the default dtype."""
    tensor = x if isinstance(x, Tensor) else torch.as_tensor(x)
    if tensor.is_complex():
        raise TypeError(f"a distribution takes real values, got {tensor.dtype}; pass x.real")
    return tensor if tensor.is_floating_point() else tensor.to(torch.get_default_dtype())


def checked_scale(scale: Number) -> Number:
    """The scale, which must be positive, or a `ValueError`."""
    if not isinstance(scale, Tensor):
        return check_number("scale", scale, above=0)
    if not all_hold(scale > 0):
        raise ValueError(f"scale must be > 0, got a tensor with minimum {scale.min().item():g}")
    return scale


def _ratio(x: Tensor, scale: Number) -> Tensor:
    """Return x / scale."""
    scale = checked_scale(scale)
    return x if not isinstance(scale, Tensor) and scale == 1 else ratio(x, scale)


def number_text(value: Number) -> str:
    """A parameter as text: numbers in full, a tensor of several values by its shape."""
    if not isinstance(value, Tensor):
        return repr(float(value))
    if value.numel() == 1:
        return repr(float(value.item()))
    return f"tensor{list(value.shape)}"


class Distribution(ABC):
    """A CDF in closed form: a standard one, one of the user's, or either of them transformed.

    `dist(x, scale)` is the CDF at x; cdf(z), sf(z) and pdf(z) are at scale 1, icdf(q) and isf(q)
    are the inverses of cdf and sf. All take and return tensors of any shape and floating dtype
    (integers are promoted), broadcast, and are differentiable in every tensor that enters: twice in
    x and scale, once in a shape. They are finite at every z, infinite ones included, and so are
    their gradients; where a pdf is infinite it counts as 0.

    Attributes:
        base: the distribution under all transforms.
        shape_parameter: the shape of the base distribution, None if it has none.
        is_symmetric: whether the base distribution is symmetric: F(z) = 1 - F(-z).
        is_reversed: whether F(z) stands for 1 - F(-z).
        is_centred: whether the shift is the median.
        is_squared: whether x |x| / scale takes the place of x / scale.
        art_exponent: of the activation replacement trick, 0 without it.

    Source: Petersen (thesis), chapter 5 and appendix A.
    """

    @property
    @abstractmethod
    def support(self) -> tuple[float, float]:
        """The smallest closed interval outside of which the CDF is 0 or 1."""

    # -- the normal form, which kernels read

    base: BaseDistribution
    shape_parameter: Number | None = None
    is_symmetric: bool = False
    is_reversed: bool = False
    is_centred: bool = False
    is_squared: bool = False
    art_exponent: float = 0.0

    @once
    def has_tensors(self) -> bool:
        """Whether a parameter is a tensor; what depends on numbers alone can be kept."""
        return isinstance(self.shape_parameter, Tensor) or isinstance(self.total_shift(), Tensor)

    def total_shift(self) -> Number:
        """What is added to the argument: 0, the shift, or the median (differentiable)."""
        return 0.0

    # -- evaluation

    def __call__(self, x: object, scale: Number = 1.0) -> Tensor:
        """The CDF at x for a scale: F(x / scale), or what the transforms make of it.

        Args:
            x: any shape.
            scale: positive; a number, or a tensor that broadcasts with x. In units of x, squared
                units for squared members.

        Raises:
            ValueError: the scale is not positive.
        """
        return self._tails(x, scale, ("cdf",))[0]

    def cdf(self, z: object) -> Tensor:
        """The CDF at scale 1, of the shape of z: F(z) in [0, 1]."""
        return self._tails(z, 1.0, ("cdf",))[0]

    def sf(self, z: object) -> Tensor:
        """The survival function 1 - cdf, of the shape of z, computed without cancellation."""
        return self._tails(z, 1.0, ("sf",))[0]

    def coverage(self, x: object, scale: Number = 1.0) -> tuple[Tensor, Tensor]:
        """The CDF at x and its complement 1 - CDF, each computed so that it keeps all its digits.

        Args:
            x: signed distances, any shape.
            scale: positive; a number, or a tensor that broadcasts with x.

        Returns:
            (a, s) with a + s = 1, differentiable in x, scale, shape and shift.
        """
        a, s = self._tails(x, scale, ("cdf", "sf"))
        return a, s

    def pdf(self, z: object) -> Tensor:
        """The slope of cdf(z), of the shape of z: >= 0; 0 where it is infinite."""
        z = floating(z)
        x = finite(widened(z))
        out = self.base.density_at(self._argument(x, 1.0))
        if self.is_squared:
            out = 2 * (out * x.abs())  # 2 |x| may overflow where out is 0
        elif self.art_exponent:
            _, slope = self._art(x)
            out = out * slope
        return out.to(z.dtype) if z.dtype != x.dtype else out

    def icdf(self, q: object) -> Tensor:
        """The z with cdf(z) = q, of the shape of q in [0, 1]; NaN for a q outside."""
        return self._quantile(q, "cdf")

    def isf(self, q: object) -> Tensor:
        """The z with sf(z) = q, of the shape of q in [0, 1]; NaN for a q outside.

        Exact for tiny q too.
        """
        return self._quantile(q, "sf")

    def sample(
        self,
        shape: Sequence[int] = (),
        scale: Number = 1.0,
        *,
        generator: torch.Generator | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> Tensor:
        """Draw independent numbers x with P(x <= t) = self(t, scale).

        Each is a quantile of a uniform number, so that the same generator gives the same numbers
        and gradients flow to the scale and to tensors among the parameters.

        Args:
            shape: of the result.
            scale: positive; a number, or a tensor that broadcasts with the shape.
            generator: the source of randomness, by default that of torch.
            dtype: float32 or float64, by default that of torch.
            device: where the result lives, by default where the generator does.

        Raises:
            ValueError: the scale is not positive.
        """
        scale = checked_scale(scale)
        if device is None:
            device = "cpu" if generator is None else generator.device
        # As torch.rand, which no graph with free sizes takes together with a generator.
        wide = torch.float32 if torch.device(device).type == "mps" else torch.float64
        u = torch.empty(tuple(shape), dtype=wide, device=device).uniform_(generator=generator)
        # Both tails by their own quantiles, so that the upper one is as long as the lower.
        upper = u >= 0.5
        q = torch.where(upper, u - 0.5, u).clamp(min=torch.finfo(u.dtype).tiny)
        z = torch.where(upper, self.isf(q), self.icdf(q))
        if self.is_squared:
            scale = scale**0.5
        elif self.art_exponent:
            scale = scale ** (1 / (1 - self.art_exponent))
        return (z * scale).to(torch.get_default_dtype() if dtype is None else dtype)

    def reach(self, cutoff: float) -> Number:
        """How far outside F falls to the cutoff, in units of the scale and before squaring.

        A number, found once and kept, unless a parameter is a tensor; `radius` makes a distance of
        it. The host never waits for a GPU here.

        Args:
            cutoff: in [0, 1); 0 keeps whatever is not exactly 0.

        Returns:
            At least 0; inf when the tail has no end, and for a callable CDF without a support.

        Raises:
            ValueError: a cutoff outside of [0, 1).
        """
        if not 0 <= cutoff < 1:
            raise ValueError(f"cutoff must lie in [0, 1), got {cutoff}; 1e-6 is usual")
        learnt = self.shape_parameter, self.total_shift()
        if not (isinstance(learnt[0], Tensor) or isinstance(learnt[1], Tensor)):
            return _reach_of_numbers(self, cutoff)
        return self._reach(cutoff, next(x.device for x in learnt if isinstance(x, Tensor)))

    @torch.no_grad()
    def _reach(self, cutoff: float, where: torch.device) -> Tensor:
        y = self._lower_end(torch.full((), cutoff, dtype=torch.float64, device=where))
        return (SHIFT_MARGIN * abs(self.total_shift()) - y).clamp(min=0)

    @torch.no_grad()
    def radius(self, scale: Number, cutoff: float, *, check: bool = True) -> Tensor:
        """The distance beyond which an outside pixel has F <= cutoff.

        Args:
            scale: positive; a number or a tensor.
            cutoff: in [0, 1); 0 keeps whatever is not exactly 0.
            check: look for scales that are not positive, for which the host waits on a GPU.

        Returns:
            A tensor shaped like the scale, without gradient, rounded outwards; inf when the tail
            has no end, and for a callable CDF without a support.
        """
        reach = self.reach(cutoff)
        where = scale.device if isinstance(scale, Tensor) else torch.device("cpu")
        width = checked_scale(scale) if check else scale
        reach = reach.to(where) if isinstance(reach, Tensor) else reach
        reach = reach * torch.as_tensor(width, dtype=torch.float64, device=where)
        if self.is_squared:
            reach = reach.sqrt()
        elif self.art_exponent:
            reach = reach ** (1 / (1 - self.art_exponent))
        reach = reach * (1 + RADIUS_MARGIN)
        dtype = scale.dtype if isinstance(scale, Tensor) else torch.float64
        return reach.to(dtype)

    # -- transforms

    def reversed(self) -> Distribution:
        """The mirror image 1 - F(-z); reversing twice gives the original.

        The text of a symmetric distribution says `reversed` too, although its values do not change,
        because a shift that is set later makes a difference.
        """
        return self._form(is_reversed=not self.is_reversed)

    def shifted(self, shift: Number) -> Distribution:
        """F(z + shift).

        Raises:
            ValueError: it is shifted or centred already.
        """
        if isinstance(shift, Tensor):
            check_float("shift", shift)
        else:
            shift = check_number("shift", shift)
        if self._own_shift is not None or self.is_centred:
            raise ValueError(f"{self} has its shift already; shift the plain {self.base} instead")
        return self._form(shift=shift)

    def centred(self) -> Distribution:
        """Shifted by the median, so that F(0) = 1/2.

        Raises:
            ValueError: it is shifted.
        """
        if self._own_shift is not None:
            raise ValueError(f"{self} has its shift already; centre the plain {self.base} instead")
        return self._form(is_centred=True)

    def squared(self) -> Distribution:
        """The square-root distribution F(|x| x / scale), thesis (5.5).

        Raises:
            ValueError: it is squared already, or uses `art`.
        """
        if self.is_squared:
            raise ValueError(f"{self} is squared already; it can be squared only once")
        if self.art_exponent:
            raise ValueError(f"{self} uses art, which excludes squared; choose one of them")
        return self._form(is_squared=True)

    def art(self, exponent: float) -> Distribution:
        """The activation replacement trick F(x / |x|^exponent / scale); slope 0 at x = 0.

        Args:
            exponent: in [0, 1); 0 changes nothing.

        Raises:
            ValueError: out of range, squared, or set already.
        """
        exponent = check_number("the exponent of art", exponent)
        if not 0 <= exponent < 1:
            raise ValueError(f"the exponent of art must lie in [0, 1), got {exponent}")
        if self.is_squared:
            raise ValueError(f"{self} is squared, which excludes art; choose one of them")
        if self.art_exponent:
            raise ValueError(f"{self} uses art already; set one exponent for the plain {self.base}")
        return self._form(exponent=exponent)

    # -- identity

    def _key(self) -> tuple[object, ...]:
        # Tensors count by identity: comparing values would make equality change under training.
        values = [getattr(self, name) for name in self.__match_args__]  # pyright: ignore[reportAttributeAccessIssue]  # members are dataclasses
        return tuple([("tensor", id(v)) if isinstance(v, Tensor) else v for v in values])

    def __eq__(self, other: object) -> bool:
        # Classes are compared by `is`: torch.compile of PyTorch 2.11 stops at == of two.
        return type(self) is type(other) and self._key() == other._key()  # pyright: ignore[reportAttributeAccessIssue]  # of the same type

    def __hash__(self) -> int:
        return hash((type(self), *self._key()))

    def __repr__(self) -> str:
        return str(self)

    # -- internals

    @property
    def _own_shift(self) -> Number | None:
        return None

    def with_shape(self, shape: Number) -> Distribution:
        """This distribution, with its transforms, for another shape of the base distribution.

        Raises:
            TypeError: the base distribution has no shape.
        """
        if self.shape_parameter is None:
            raise TypeError(f"{self.base} has no shape")
        base = replace(self.base, shape=shape)  # pyright: ignore[reportArgumentType, reportCallIssue]  # distributions are dataclasses
        return base if self.base is self else replace(self, base=base)  # pyright: ignore[reportArgumentType, reportCallIssue]

    def with_numbers(self, shift: Number, shape: Number | None) -> Distribution:
        """This distribution with the numbers that kernels take in place of its own.

        Args:
            shift: in place of `total_shift()`; without effect if it has neither shift nor median.
            shape: in place of `shape_parameter`; None if the base distribution has none.
        """
        found = self if shape is None else self.with_shape(shape)
        if self._own_shift is None and not self.is_centred:
            return found
        return replace(found, shift=shift, is_centred=False)  # pyright: ignore[reportArgumentType, reportCallIssue]  # it is transformed

    def _form(self, **changes: Any) -> Distribution:
        wrapped = self if isinstance(self, Transformed) else Transformed(self.base)
        wrapped = replace(wrapped, **changes)
        return wrapped.base if wrapped == Transformed(wrapped.base) else wrapped

    def _art(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """phi(x) and its slope; below the smallest normal number both are 0."""
        tiny = torch.finfo(x.dtype).tiny
        size = x.abs()
        inside = ~(size < tiny)  # NaN stays NaN
        size = torch.where(inside, size, 1.0)
        phi = torch.where(inside, x.sign() * size ** (1 - self.art_exponent), 0.0)
        slope = torch.where(inside, (1 - self.art_exponent) * size**-self.art_exponent, 0.0)
        return phi, slope

    def _argument(self, x: Tensor, scale: Number) -> Tensor:
        """The argument of the base distribution for a finite x; it may overflow to infinity."""
        if self.is_squared:
            x = saturated(x * x.abs())
        elif self.art_exponent:
            x, _ = self._art(x)
        y = _ratio(x, scale)
        if self.is_reversed:
            y = -y
        shift = self.total_shift()
        if isinstance(shift, Tensor):
            return y + (shift.to(y) if shift.ndim == 0 else shift.to(y.device))
        return y + shift if shift else y

    def _tails(self, x: object, scale: Number, parts: tuple[Part, ...]) -> tuple[Tensor, ...]:
        x = floating(x)
        u = self._argument(finite(widened(x)), scale)
        if self.is_reversed:
            parts = tuple("sf" if part == "cdf" else "cdf" for part in parts)
        out = self.base.tails_at(u, parts)
        return tuple(v.to(x.dtype) for v in out) if x.dtype != widened(x).dtype else out

    def _placed(self, u: Tensor) -> Tensor:
        """The x / scale, before squaring, that has this argument of the base distribution."""
        shift = self.total_shift()
        if isinstance(shift, Tensor):
            shift = shift.to(u) if shift.ndim == 0 else shift.to(u.device)
        return shift - u if self.is_reversed else u - shift

    def _lower_end(self, q: Tensor) -> Tensor:
        """The argument up to which F <= q, after shift and reversal and before squaring."""
        return self._placed(self.base.bound_at(q, "sf" if self.is_reversed else "cdf"))

    def _quantile(self, q: object, part: Part) -> Tensor:
        q = floating(q)
        wide = widened(q)
        if self.is_reversed:
            part = "sf" if part == "cdf" else "cdf"
        y = self._placed(self.base.quantile_at(wide, part))
        if self.is_squared or self.art_exponent:
            power = 0.5 if self.is_squared else 1 / (1 - self.art_exponent)
            # At 0 the slope of the root is infinite, its gradient 0 as for every infinite slope.
            size = torch.where(y == 0, 1.0, y.abs())
            y = torch.where(y == 0, 0.0, y.sign() * size**power)
        return y.to(q.dtype) if q.dtype != wide.dtype else y


@lru_cache(maxsize=256)
def _reach_of_numbers(dist: Distribution, cutoff: float) -> float:
    """`Distribution.reach` where no parameter is a tensor."""
    return dist._reach(cutoff, torch.device("cpu")).item()  # pyright: ignore[reportPrivateUsage]


class BaseDistribution(Distribution):
    """What stands under the transforms: one of the registry, or a callable of the user's."""

    @property
    def base(self) -> BaseDistribution:  # pyright: ignore[reportIncompatibleVariableOverride]
        """This object itself."""
        return self

    @abstractmethod
    def tails_at(self, u: Tensor, parts: tuple[Part, ...]) -> tuple[Tensor, ...]:
        """The parts asked for, "cdf" or "sf", at u; differentiable. u may be infinite."""

    @abstractmethod
    def density_at(self, u: Tensor) -> Tensor:
        """The pdf at u; differentiable. u may be infinite."""

    @abstractmethod
    def quantile_at(self, q: Tensor, part: Part) -> Tensor:
        """The u with cdf(u) = q or sf(u) = q; differentiable."""

    @abstractmethod
    def median(self) -> Number:
        """The median; differentiable if a parameter is a tensor."""

    def bound_at(self, q: Tensor, part: Part) -> Tensor:
        """A u beyond which the part is <= q ("cdf" to its left, "sf" to its right)."""
        return self.quantile_at(q, part)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Transformed(Distribution):
    """A distribution under transforms, in normal form; the methods of `Distribution` make it.

    Evaluation is always shift, then reverse, then square, in whatever order they were set.

    Attributes:
        base: the distribution under the transforms.
        is_reversed: 1 - F(-z).
        shift: added to the argument, or None.
        is_centred: shifted by the median.
        is_squared: x |x| takes the place of x.
        exponent: of the activation replacement trick, 0 for none.
    """

    base: BaseDistribution
    is_reversed: bool = False  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]  # a field fills the property
    shift: Number | None = None
    is_centred: bool = False  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    is_squared: bool = False  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    exponent: float = 0.0

    @property
    def shape_parameter(self) -> Number | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The shape of the base distribution, None if it has none."""
        return self.base.shape_parameter

    @property
    def is_symmetric(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the base distribution is symmetric: F(z) = 1 - F(-z)."""
        return self.base.is_symmetric

    @property
    def art_exponent(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The exponent of the activation replacement trick, 0 without it."""
        return self.exponent

    @property
    def _own_shift(self) -> Number | None:
        return self.shift

    def total_shift(self) -> Number:
        """What is added to the argument: 0, the shift, or the median (differentiable)."""
        if self.is_centred:
            return self.base.median()
        return 0.0 if self.shift is None else self.shift

    @property
    def support(self) -> tuple[float, float]:
        """The support of x at scale 1."""
        low, high = self.base.support
        shift = self.total_shift()
        if isinstance(shift, Tensor):
            shift = shift.item()
        ends = [end - shift for end in (low, high)]
        if self.is_reversed:
            ends = [-end for end in reversed(ends)]
        power = 0.5 if self.is_squared else 1 / (1 - self.exponent)
        low, high = (math.copysign(abs(end) ** power, end) for end in ends)
        return low, high

    def __str__(self) -> str:
        words = [str(self.base)]
        if self.is_reversed:
            words.append("reversed")
        if self.is_centred:
            words.append("centred")
        if self.shift is not None:
            words.append(f"shifted({number_text(self.shift)})")
        if self.is_squared:
            words.append("squared")
        if self.exponent:
            words.append(f"art({self.exponent!r})")
        return ".".join(words)
