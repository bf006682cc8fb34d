"""Student's t distribution and its derivative by the degrees of freedom.

With a = nu/2, x = nu / (nu + z^2) and y = 1 - x, and front = x^a sqrt(y) / B(a, 1/2):

    F(|z|) - 1/2 = front (1 + y (a + 1/2) / (3/2) + ...),   a series of positive terms, for small y
    1 - F(|z|) = front / nu * h,                            Gauss' continued fraction h, elsewhere

Both are differentiated term by term. Source: *Numerical Recipes*, 6.4; DLMF 8.17.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from gendr._common.tracing import refuse_batch
from gendr.distributions.base import Number
from gendr.distributions.shaped import Shaped
from gendr.distributions.standard import StandardDistribution, Symmetric
from gendr.kernels.vocabulary import (
    Block,
    any_of,
    exp_of_double,
    fabs,
    in_double,
    in_single,
    lgamma,
    log,
    repeated,
    sqrt,
    two_sided,
    where,
    zeros_like,
)

_STIRLING = 10.0  # from this a on the series of log Gamma(a + 1/2) / Gamma(a) is exact to 1e-15
_MAX_TERMS = 20_000  # about 10 sqrt(nu) are needed
_EPS = 1e-16
_CHANGE = 2e-15  # of the fraction by another step
_LOG_PI = math.log(math.pi)
_FAR = 1e150  # whose square is finite


@final
@dataclass(frozen=True, eq=False, repr=False)
class StudentT(Shaped, Symmetric):  # pyright: ignore[reportIncompatibleVariableOverride]
    """F(z) = 1 - I(nu / (nu + z^2); nu/2, 1/2) / 2 for z > 0; its tail falls as |z|^-nu.

    Attributes:
        shape: nu, the degrees of freedom, > 0; a number, or a tensor that broadcasts with z and may
            require grad. Default 3. 1 is `cauchy`, and large ones approach `gaussian`.

    Raises:
        ValueError: a shape that is not positive and finite.
    """

    shape: Number = 3.0

    name: ClassVar[str] = "student_t"
    formula: ClassVar[str] = "1 − ½·I(ν/(ν + z²); ν/2, ½) for z > 0, ν = shape"

    @classmethod
    def examples(cls) -> tuple[StandardDistribution, ...]:
        """Heavy tails, few degrees of freedom, and many."""
        return tuple(cls(shape) for shape in (3.0, 0.5, 7.3, 30.0))

    def _pdf(self, z: Tensor) -> Tensor:
        nu = self._shape_for(z)
        far = z.abs() > _FAR
        near = torch.where(far, 1.0, z)
        power = 2 * torch.where(far, z.abs(), 1.0).log() - nu.log()
        log = torch.where(far, power, (near * near / nu).log1p())
        return (constant(nu) - 0.5 * nu.log() - 0.5 * (nu + 1) * log).exp()

    def _pdf_shape_slope(self, z: Tensor) -> Tensor:
        nu = self._shape_for(z)
        z = z.clamp(-_FAR, _FAR)
        square = z * z / nu
        y = square / (1 + square)
        slope = slope_constant_float32(nu) - 0.5 * square.log1p() + (nu + 1) / (2 * nu) * y
        return self._pdf(z) * slope

    def _icdf_lower(self, q: Tensor) -> Tensor:
        from scipy.special import betaincinv

        refuse_batch(f"the quantile of {self}", q)
        half = 0.5 * self._shape_for(q).detach().cpu().double().numpy()
        p = q.detach().cpu().double().numpy()
        x = torch.as_tensor(betaincinv(half, 0.5, 2 * p), device="cpu").to(q)
        y = torch.as_tensor(betaincinv(0.5, half, 1 - 2 * p), device="cpu").to(q)
        odds = torch.where(q < 0.25, (1 - x) / x, y / (1 - y))
        return -(self._shape_for(q).detach() * odds).sqrt()


def slope_constant_float32(nu: Tensor) -> Tensor:
    """The derivative of `_constant` by nu, less 1 / 2nu."""
    a = 0.5 * nu
    r = 1 / (a * a)
    rest = r * r * (1 / 128 - r * (17 / 2048 - r * (31 / 2048 - r * (691 / 16384))))
    large = 0.5 * r * (1 / 8 - r / 64 + rest)
    plain = 0.5 * (torch.digamma(a + 0.5) - torch.digamma(a)) - 0.5 / nu
    return torch.where(a < _STIRLING, plain, large)


# -- the kernel functions; they compute in float64 up to the last step


def constant(shape: Block) -> Block:
    """-log B(nu/2, 1/2)."""
    a = 0.5 * shape
    r = 1 / (a * a)
    rest = r * (17 / 14336 - r * (31 / 18432 - r * (691 / 180224)))
    rest = (1 / 8 - r * (1 / 192 - r * (1 / 640 - rest))) / a
    large = 0.5 * log(a) - rest
    return where(a < _STIRLING, lgamma(a + 0.5) - lgamma(a), large) - 0.5 * _LOG_PI


constant_float32 = constant  # on tensors


def slope_constant(shape: Block) -> Block:
    """The derivative of `constant`, less 1 / 2nu."""
    a = 0.5 * shape
    shift = -0.5 / shape
    while a < _STIRLING:
        shift += 0.25 / (a * (a + 0.5))
        a += 1.0
    r = 1 / (a * a)
    rest = r * r * (1 / 128 - r * (17 / 2048 - r * (31 / 2048 - r * (691 / 16384))))
    return 0.5 * r * (1 / 8 - r / 64 + rest) + 0.25 / a + shift


def _parts(z: Block, nu: Block) -> tuple[Block, Block, Block]:
    """(log(1 + z^2 / nu), x, y)."""
    root = fabs(in_double(z)) / sqrt(nu)
    far = root > 1e8
    square = where(far, 1.0, root * root)
    x = where(far, 1.0 / root / root, 1.0 / (1.0 + square))
    y = where(far, 1.0, square / (1.0 + square))
    return where(far, 2.0 * log(root), log(1.0 + square)), x, y


def _series(x: Block, y: Block, nu: Block) -> tuple[Block, Block]:
    """The series and its derivative by nu; for a block of zeros the loop ends at once."""
    term = zeros_like(y) + 1.0
    log_slope = zeros_like(y)
    total = term
    slope = log_slope
    n = 0.0
    while (n < _MAX_TERMS) & any_of(term * (1.0 + fabs(log_slope)) > total * _EPS):
        for _ in repeated(8):
            rise = nu * 0.5 + 0.5 + n
            term *= y * rise / (n + 1.5)
            log_slope += 0.5 / rise - x / nu
            total += term
            slope += term * log_slope
            n += 1.0
    return total, slope


def _fraction(x: Block, y: Block, nu: Block) -> tuple[Block, Block]:
    """The fraction h and h'/h, by the modified Lentz method; a block of zeros ends at once."""
    a = nu * 0.5
    rate = y / nu
    first = (a + 0.5) * x / (a + 1.0)
    d = 1.0 / (1.0 - first)
    dd = d * d * first * (rate + 0.5 / (a + 0.5) - 0.5 / (a + 1.0))
    c = zeros_like(x) + 1.0
    dc = zeros_like(x)
    h = d
    log_slope = dd / d
    change = zeros_like(x) + 1.0
    m = 1.0
    while (m < _MAX_TERMS) & any_of(change > _CHANGE):
        before = h
        moved = log_slope
        k = m * (0.5 - m) * x / ((a - 1.0 + 2.0 * m) * (a + 2.0 * m))
        k_rate = rate - 0.5 / (a - 1.0 + 2.0 * m) - 0.5 / (a + 2.0 * m)
        for _ in repeated(2):
            last = d
            d = 1.0 / (1.0 + k * last)
            dd = -d * d * k * (k_rate * last + dd)
            dc = k / c * (k_rate - dc / c)
            c = 1.0 + k / c
            h *= c * d
            log_slope += dc / c + dd / d
            k = -(a + m) * (a + 0.5 + m) * x / ((a + 2.0 * m) * (a + 1.0 + 2.0 * m))
            k_rate = rate + 0.5 / (a + m) + 0.5 / (a + 0.5 + m)
            k_rate -= 0.5 / (a + 2.0 * m) + 0.5 / (a + 1.0 + 2.0 * m)
        change = fabs(h / before - 1.0) + fabs(log_slope - moved)
        m += 1.0
    return h, log_slope


def tails(z: Block, shape: Block, constant: Block) -> tuple[Block, Block]:
    """Cdf and sf."""
    nu = in_double(shape)
    growth, x, y = _parts(z, nu)
    front = exp_of_double(constant - nu * 0.5 * growth) * sqrt(y)
    far = y > 1.5 / (nu * 0.5 + 2.5)
    h, _ = _fraction(where(far, x, 0.0), y, nu)
    total, _ = _series(x, where(far, 0.0, y), nu)
    tail = where(far, front / nu * h, 0.5 - front * total)
    return two_sided(z, in_single(tail))


def density(z: Block, shape: Block, constant: Block) -> Block:
    """The pdf."""
    nu = in_double(shape)
    growth, _, _ = _parts(z, nu)
    return exp_of_double(constant - 0.5 * log(nu) - (nu + 1.0) * 0.5 * growth)


def shape_slope(z: Block, shape: Block, constant: Block, psi: Block) -> Block:
    """dF/dshape."""
    nu = in_double(shape)
    growth, x, y = _parts(z, nu)
    front = exp_of_double(constant - nu * 0.5 * growth) * sqrt(y)
    log_slope = psi + 0.5 * (y / nu - (growth - y))
    far = y > 1.5 / (nu * 0.5 + 2.5)
    h, h_slope = _fraction(where(far, x, 0.0), y, nu)
    total, total_slope = _series(x, where(far, 0.0, y), nu)
    upper = front / nu * h * (log_slope - 1.0 / nu + h_slope)
    slope = where(far, upper, -front * (log_slope * total + total_slope))
    slope = in_single(where(front > 0.0, slope, 0.0))
    return where(z > 0.0, -slope, slope)
