"""The gamma distribution and its derivative by shape."""

# The kernel functions for Triton need these.
# pyright: reportGeneralTypeIssues=false, reportOperatorIssue=false

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

import torch
from torch import Tensor

from gendr._common.tracing import KNOWN_DISTRIBUTIONS, refuse_batch, refuse_onnx
from gendr.distributions.base import Number
from gendr.distributions.members.exponential import density as exponential_density
from gendr.distributions.members.exponential import tails as exponential_tails
from gendr.distributions.shaped import Shaped
from gendr.distributions.standard import INF, StandardDistribution
from gendr.kernels.vocabulary import (
    Block,
    any_of,
    exp_of_double,
    fabs,
    in_double,
    lgamma,
    log,
    log_ratio,
    negligible,
    quotient,
    repeated,
    where,
    zeros_like,
)

if TYPE_CHECKING:
    import triton.language as tl

    from gendr.kernels.triton.mathematics import erf_and_erfc, exp_sum

# For shape < 1 the pdf grows without bound towards 0. It counts as 0 below PDF_FLOOR, and as
# constant below SLOPE_FLOOR, so that neither it nor its slope leaves the range of float32.
PDF_FLOOR = 1e-30
SLOPE_FLOOR = 1e-18

# torch's own P and Q switch to an asymptotic series above this shape, good to 1e-9 only.
_TORCH_LIMIT = 20.0

_STIRLING = 10.0  # from this shape on Stirling's series to shape^-11 is exact to 1e-15
_MAX_TERMS = 20_000  # about 10 sqrt(shape) are needed, so this serves shapes up to 1e6

# Constants of the kernel functions.
_INV_SQRT_PI = 1 / math.sqrt(math.pi)
_END = 1e30  # P is 1 from here on


@final
@dataclass(frozen=True, eq=False, repr=False)
class Gamma(Shaped):
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

    @classmethod
    def examples(cls) -> tuple[StandardDistribution, ...]:
        """Shapes on both sides of 1, and far from it."""
        return tuple(cls(shape) for shape in (0.5, 2.0, 0.05, 1.0, 7.3, 100.0))

    def _shape_for(self, z: Tensor) -> Tensor:
        refuse_onnx("gamma", KNOWN_DISTRIBUTIONS)
        return super()._shape_for(z)

    def _cdf(self, z: Tensor) -> Tensor:
        shape = self._shape_for(z)
        if bool((shape <= _TORCH_LIMIT).all()):
            return torch.special.gammainc(shape, z.clamp(min=0))
        return super()._cdf(z)

    def _sf(self, z: Tensor) -> Tensor:
        shape = self._shape_for(z)
        if bool((shape <= _TORCH_LIMIT).all()):
            return torch.special.gammaincc(shape, z.clamp(min=0))
        return super()._sf(z)

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

    def _icdf(self, q: Tensor) -> Tensor:
        from scipy.special import gammaincinv

        return self._inverse(q, gammaincinv)

    def _isf(self, q: Tensor) -> Tensor:
        from scipy.special import gammainccinv

        return self._inverse(q, gammainccinv)

    def _inverse(self, q: Tensor, function: Callable[..., object]) -> Tensor:
        refuse_batch(f"the quantile of {self}", q)
        shape = self._shape_for(q).detach().cpu().numpy()
        return torch.as_tensor(function(shape, q.detach().cpu().numpy()), device=q.device).to(q)


# -- for all: P by its series on the left and Q by Legendre's continued fraction on the right, by
# -- Steed's method, whose corrections compound no errors; Numerical Recipes, 6.2


def constant(a: Block) -> Block:
    """What `_log_front` needs: a log(a) - a - log Gamma(a), or its Stirling form, small."""
    r = 1 / (a * a)
    rest = 1 / 12 - r * (
        1 / 360 - r * (1 / 1260 - r * (1 / 1680 - r * (1 / 1188 - r * (691 / 360360))))
    )
    large = 0.5 * log(a / (2 * math.pi)) - rest / a
    return where(a < _STIRLING, a * log(a) - a - lgamma(a), large)


constant_float32 = constant  # on tensors


def slope_constant(shape: Block) -> Block:
    """digamma(shape) - log(shape)."""
    x = shape
    shift = 0.0
    while x < 10:
        shift += 1 / x
        x += 1
    r = 1 / (x * x)
    rest = r * (
        1 / 12
        - r * (1 / 120 - r * (1 / 252 - r * (1 / 240 - r * (1 / 132 - r * (691 / 32760 - r / 12)))))
    )
    return math.log(x / shape) - 0.5 / x - rest - shift


def slope_constant_float32(shape: Tensor) -> Tensor:
    """The same of tensors."""
    return torch.digamma(shape) - shape.log()


def _log_front(x: Block, shape: Block, constant: Block) -> Block:
    """log(x^shape exp(-x) / Gamma(shape)); float64, since terms as large as the shape cancel."""
    wide, a = in_double(x), in_double(shape)
    return a * (log_ratio(wide, a) - (wide - a) / a) + constant


def _series(x: Block, shape: Block) -> Block:
    """P / front, for 0 <= x <= _split(shape); for a block of zeros the loop ends at once."""
    term = zeros_like(x) + quotient(1.0, shape)
    total = term
    n = 0.0
    while (n < _MAX_TERMS) & any_of(term > negligible(total)):
        for _ in repeated(8):
            n += 1.0
            term *= x * quotient(1.0, shape + n)
            total += term
    return total


def _fraction(x: Block, shape: Block) -> Block:
    """Q / front, for x > _split(shape), which keeps every denominator positive."""
    b = x + 1.0 - shape
    d = 1.0 / b
    step = d
    total = d
    n = 0.0
    while (n < _MAX_TERMS) & any_of(fabs(step) > negligible(total)):
        for _ in repeated(8):
            n += 1.0
            b += 2.0
            d = 1.0 / (b + n * (shape - n) * d)
            step *= b * d - 1.0
            total += step
    return total


def _slope_series(x: Block, log_of_ratio: Block, shape: Block, psi: Block) -> Block:
    """dP/dshape / front, for 0 <= x <= shape + 1 + sqrt(shape)."""
    inverse = quotient(1.0, shape)
    term = zeros_like(x) + inverse
    psi += inverse
    part = term * (log_of_ratio - psi)
    total = part
    n = 0.0
    while (n < _MAX_TERMS) & any_of(fabs(part) > negligible(fabs(total))):
        for _ in repeated(8):
            n += 1.0
            inverse = quotient(1.0, shape + n)
            term *= x * inverse
            psi += inverse
            part = term * (log_of_ratio - psi)
            total += part
    return total


def _slope_fraction(x: Block, log_of_ratio: Block, shape: Block, psi: Block) -> Block:
    """dQ/dshape / front, for larger x: the fraction and its derivative together."""
    b = x + 1.0 - shape
    d = 1.0 / b
    dd = d * d
    step, slope = d, dd
    total, total_slope = d, dd
    n = 0.0
    while (n < _MAX_TERMS) & any_of(
        (fabs(step) > negligible(total)) | (fabs(slope) > negligible(fabs(total_slope)))
    ):
        for _ in repeated(8):
            n += 1.0
            b += 2.0
            k = n * (shape - n)
            last = d
            d = 1.0 / (b + k * d)
            dd = -d * d * (n * last - 1.0 + k * dd)
            ratio = b * d - 1.0
            slope = slope * ratio + step * (b * dd - d)
            step *= ratio
            total += step
            total_slope += slope
    return total * (log_of_ratio - psi) + total_slope


# -- for the class and Numba


def tails(z: Block, shape: Block, constant: Block) -> tuple[Block, Block]:
    """Cdf and sf."""
    if z <= 0:
        return 0.0, 1.0
    if z > _END:
        return 1.0, 0.0
    if shape == 0.5 and z > 0.25:
        s = math.erfc(math.sqrt(z))
        return 1 - s, s
    if shape == 0.5:
        a = math.erf(math.sqrt(z))
        return a, 1 - a
    if shape == 2.0 and z > 1:
        s = math.exp(-z) * (1 + z)
        return 1 - s, s
    front = math.exp(_log_front(z, shape, constant))
    if z <= shape + 1:
        a = front * _series(z, shape)
        return a, 1 - a
    s = front * _fraction(z, shape)
    return 1 - s, s


def density(z: Block, shape: Block, constant: Block) -> Block:
    """The pdf."""
    if z < PDF_FLOOR:
        return 1.0 if shape == 1 and z >= 0 else 0.0
    if z > _END:
        return 0.0
    if shape == 2.0:
        return z * math.exp(-z)
    return math.exp(_log_front(z, shape, constant)) / z


def shape_slope(z: Block, shape: Block, constant: Block, psi: Block) -> Block:
    """dF/dshape."""
    if z <= 0 or z > _END:
        return 0.0
    front, ratio = math.exp(_log_front(z, shape, constant)), log_ratio(z, shape)
    if z <= shape + 1:
        return front * _slope_series(z, ratio, shape, psi)
    return -front * _slope_fraction(z, ratio, shape, psi)


# -- for Triton: closed forms for the shapes of the benchmark. Scalar branches: a launch takes one.


def _positive(z: Block) -> Block:
    """The argument, limited to _END, and 1 where z <= 0, where a logarithm would fail."""
    return tl.where(z <= 0, 1.0, tl.where(z > _END, _END, z))


def _split(shape: Block) -> Block:
    """The x from which Q is computed rather than P; 1 - the computed one then does not cancel."""
    return tl.where(shape < 1.0, 0.25, shape + 1.0)


def _incomplete_float32(z: Block, shape: Block, constant: Block) -> tuple[Block, Block]:
    """(P, Q) for any shape."""
    shape = tl.cast(shape, tl.float32)  # under the interpreter it is a Python number
    x = _positive(z)
    left = x <= _split(shape)
    front = exp_of_double(_log_front(x, shape, constant))
    # Each loop gets arguments that end it at once where the other loop is used.
    p = front * _series(tl.where(left, x, 0.0), shape)
    q = front * _fraction(tl.where(left, _END, x), shape)
    p = tl.where(left, p, 1.0 - q)
    q = tl.where(left, 1.0 - p, q)
    return tl.where(z <= 0, 0.0, p), tl.where(z <= 0, 1.0, q)


def _half_incomplete(z: Block) -> tuple[Block, Block]:
    """(P, Q) for shape 1/2: erf and erfc of the root."""
    x = tl.where(z < 0, 0.0, z)
    return erf_and_erfc(tl.sqrt_rn(x), exp_sum(-x, 0.0))


def _two_incomplete(z: Block) -> tuple[Block, Block]:
    """(P, Q) for shape 2."""
    x = tl.where(z <= 0, 0.0, tl.where(z > _END, _END, z))
    e = exp_sum(-x, 0.0)
    sf = e * (1.0 + x)
    # P = exp(-x) (x^2 / 2 + x^3 / 6 + ...), of positive terms.
    near = tl.where(x > 1.0, 1.0, x)
    p = 0.00138792861 + near * (0.000200450522 + near * (2.24446267e-05 + near * 4.12339159e-06))
    p = 0.166666672 + near * (0.0416666381 + near * (0.00833357684 + near * p))
    cdf = tl.where(x > 1.0, 1.0 - sf, e * near * near * (0.5 + near * p))
    return cdf, tl.where(x > 1.0, sf, 1.0 - cdf)


def tails_float32(z: Block, shape: Block, constant: Block) -> tuple[Block, Block]:
    """Cdf and sf."""
    cdf = tl.zeros_like(z)
    sf = tl.zeros_like(z)
    if shape == 0.5:
        cdf, sf = _half_incomplete(z)
    elif shape == 1.0:
        cdf, sf = exponential_tails(z)
    elif shape == 2.0:
        cdf, sf = _two_incomplete(z)
    else:
        cdf, sf = _incomplete_float32(z, shape, constant)
    return cdf, sf


def density_float32(z: Block, shape: Block, constant: Block) -> Block:
    """The pdf."""
    pdf = tl.zeros_like(z)
    if shape == 0.5:
        x = tl.where(z < 0, 0.0, z)
        root = tl.sqrt_rn(tl.where(z < PDF_FLOOR, 1.0, x))
        pdf = tl.where(z < PDF_FLOOR, 0.0, exp_sum(-x, 0.0) / root * _INV_SQRT_PI)
    elif shape == 1.0:
        pdf = exponential_density(z)
    elif shape == 2.0:
        x = tl.where(z <= 0, 0.0, tl.where(z > _END, _END, z))
        pdf = x * exp_sum(-x, 0.0)
    else:
        # Divide by x in the exponent: front / x would underflow before the pdf does.
        x = _positive(z)
        log_pdf = _log_front(x, shape, constant) - tl.log(x.to(tl.float64))
        pdf = tl.where(z < PDF_FLOOR, 0.0, exp_of_double(log_pdf))
    return pdf


def shape_slope_float32(z: Block, shape: Block, constant: Block, psi: Block) -> Block:
    """dF/dshape."""
    shape = tl.cast(shape, tl.float32)  # under the interpreter it is a Python number
    x = _positive(z)
    # Just above shape + 1 the slope of the fraction would cancel; that of the series does not yet.
    left = x <= shape + 1.0 + tl.sqrt(shape)
    front = exp_of_double(_log_front(x, shape, constant))
    ratio = log_ratio(in_double(x), in_double(shape)).to(tl.float32)
    lower = front * _slope_series(tl.where(left, x, 0.0), ratio, shape, psi)
    upper = front * _slope_fraction(tl.where(left, _END, x), ratio, shape, psi)
    slope = tl.where(left, lower, -upper)
    return tl.where(z <= 0, 0.0, slope)
