"""The gamma distribution and its derivative by shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from gendr._runtime.checks import check_float, check_number
from gendr.distributions.base import Number
from gendr.distributions.law import INF, Law

# For shape < 1 the pdf grows without bound towards 0. It counts as 0 below PDF_FLOOR, and as
# constant below SLOPE_FLOOR, so that neither it nor its slope leaves the range of float32.
PDF_FLOOR = 1e-30
SLOPE_FLOOR = 1e-18

# torch's own P and Q switch to an asymptotic series above this shape, good to 1e-9 only.
_TORCH_LIMIT = 20.0

_STIRLING = 10.0  # from this shape on Stirling's series to shape^-11 is exact to 1e-15
_MAX_TERMS = 20_000  # about 10 sqrt(shape) are needed, so this serves shapes up to 1e6
_EPS = 1e-17  # of a series, whose terms fall fast
_LENTZ_EPS = 1e-15  # of a fraction, whose factors are 1 up to rounding when it has converged


@final
@dataclass(frozen=True, eq=False, repr=False)
class Gamma(Law):
    """F(z) = P(shape, z), the regularised lower incomplete gamma function; 0 for z <= 0.

    Attributes:
        shape: > 0; a number, or a tensor that broadcasts with z and may require grad. Default 2.

    Raises:
        ValueError: a shape that is not positive and finite.
    """

    shape: Number = 2.0

    name: ClassVar[str] = "gamma"
    formula: ClassVar[str] = "P(shape, z), the regularised lower incomplete gamma function"
    support: ClassVar[tuple[float, float]] = (0.0, INF)
    in_float64: ClassVar[bool] = True

    def __post_init__(self) -> None:
        shape = self.shape
        if isinstance(shape, Tensor):
            check_float("the shape of gamma", shape)
            if not bool(((shape > 0) & (shape < INF)).all()):
                raise ValueError(f"the shape of gamma must be > 0 and finite, got {shape.tolist()}")
        else:
            object.__setattr__(self, "shape", check_number("the shape of gamma", shape, above=0))

    @classmethod
    def examples(cls) -> tuple[Law, ...]:
        """Shapes on both sides of 1, and far from it."""
        return tuple(cls(shape) for shape in (0.5, 2.0, 0.05, 1.0, 7.3, 100.0))

    @property
    def shape_parameter(self) -> Number:
        """The shape."""
        return self.shape

    def _shape_for(self, z: Tensor) -> Tensor:
        if isinstance(self.shape, Tensor):
            return self.shape
        return torch.tensor(self.shape, dtype=z.dtype, device=z.device)

    def _cdf(self, z: Tensor) -> Tensor:
        return self._tail(z, lower=True)

    def _sf(self, z: Tensor) -> Tensor:
        return self._tail(z, lower=False)

    def _tail(self, z: Tensor, lower: bool) -> Tensor:
        shape = self._shape_for(z)
        z = z.clamp(min=0)
        if bool((shape <= _TORCH_LIMIT).all()):
            return (torch.special.gammainc if lower else torch.special.gammaincc)(shape, z)
        p, q, _ = _incomplete(shape.expand_as(z), z)
        return p if lower else q

    def _pdf(self, z: Tensor) -> Tensor:
        shape = self._shape_for(z)
        inside = z >= PDF_FLOOR
        safe = torch.where(inside, z, 1.0)
        safe = torch.where(safe < SLOPE_FLOOR, safe.detach(), safe)
        pdf = torch.exp((shape - 1) * safe.log() - safe - torch.lgamma(shape))
        # At 0 the pdf is 1 for shape 1, as the exponential's; else 0 or, counted as 0, infinite.
        edge = ((z >= 0) & (shape == 1)).to(z.dtype)
        return torch.where(inside, pdf, edge + 0 * z)

    def _pdf_shape_slope(self, z: Tensor) -> Tensor:
        shape = self._shape_for(z)
        return self._pdf(z) * (z.clamp(min=PDF_FLOOR).log() - torch.digamma(shape))

    def _shape_slope(self, z: Tensor) -> Tensor:
        return _incomplete(self._shape_for(z).expand_as(z), z)[2]

    def _icdf(self, q: Tensor) -> Tensor:
        from scipy.special import gammaincinv

        return self._inverse(q, gammaincinv)

    def _isf(self, q: Tensor) -> Tensor:
        from scipy.special import gammainccinv

        return self._inverse(q, gammainccinv)

    def _inverse(self, q: Tensor, function: Callable[..., object]) -> Tensor:
        shape = self._shape_for(q).detach().cpu().numpy()
        return torch.as_tensor(function(shape, q.detach().cpu().numpy()), device=q.device).to(q)


def _incomplete(shape: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """P, Q and dP/dshape, each with its own digits in its own tail. Shapes equal, float64."""
    p, q, slope = 0 * z, 1 + 0 * z, 0 * z
    left = (z > 0) & (z <= shape + 1)
    if bool(left.any()):
        p[left], slope[left] = _series(shape[left], z[left])
        q[left] = 1 - p[left]
    right = z > shape + 1
    if bool(right.any()):
        q[right], slope[right] = _fraction(shape[right], z[right])
        p[right] = 1 - q[right]
    return p, q, slope


def _front(shape: Tensor, z: Tensor) -> Tensor:
    """z^shape exp(-z) / Gamma(shape); large shapes about the mean, where less cancels."""
    m = (z - shape) / shape
    log_ratio = torch.where(m > -0.5, m.log1p(), (z / shape).log())
    r = shape**-2
    rest = 1 / 1260 - r * (1 / 1680 - r * (1 / 1188 - r * (691 / 360360)))
    rest = (1 / 12 - r * (1 / 360 - r * rest)) / shape
    about_mean = shape * (log_ratio - m) + 0.5 * (shape / (2 * math.pi)).log() - rest
    plain = shape * z.log() - z - torch.lgamma(shape)
    return torch.where(shape < _STIRLING, plain, about_mean).exp()


def _series(shape: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """P and dP/dshape for z <= shape + 1, from P = sum_n z^(a+n) e^-z / Gamma(a+n+1)."""
    term = _front(shape, z) / shape
    psi = torch.digamma(shape) + 1 / shape
    log_z = z.log()
    value, slope = term, term * (log_z - psi)
    for n in range(1, _MAX_TERMS):
        term = term * (z / (shape + n))
        psi = psi + 1 / (shape + n)
        part = term * (log_z - psi)
        value = value + term
        slope = slope + part
        if n % 8 == 0 and bool(((term <= _EPS * value) & (part.abs() <= _EPS * slope.abs())).all()):
            break
    return value, slope


def _fraction(shape: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """Q and dP/dshape for z > shape + 1: Legendre's fraction h, differentiated step by step.

    Q = z^a e^-z / Gamma(a) * h, so dQ/da = Q (log z - psi(a) + h'/h), a sum of positive terms: the
    right tail keeps its relative accuracy. Source: Lentz' method, in Numerical Recipes, 6.2.
    """
    b = z + 1 - shape
    c, dc = torch.full_like(z, INF), torch.zeros_like(z)
    d = 1 / b
    dd = d * d
    h, log_slope = d, d
    for n in range(1, _MAX_TERMS):
        a = n * (shape - n)  # da/dshape = n, db/dshape = -1
        b = b + 2
        ratio = 1 / c
        c, dc = b + a * ratio, n * ratio - 1 - a * ratio * ratio * dc
        last = d
        d = 1 / (b + a * d)
        dd = -d * d * (n * last - 1 + a * dd)
        h = h * (c * d)
        part = dc / c + dd / d
        log_slope = log_slope + part
        if n % 8 == 0 and bool(((c * d - 1).abs().maximum(part.abs()) <= _LENTZ_EPS).all()):
            break
    q = _front(shape, z) * h
    return q, -q * (z.log() - torch.digamma(shape) + log_slope)
