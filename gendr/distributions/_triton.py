"""The laws as functions of float32 blocks for Triton kernels, which take them at compile time.

Signatures, z a block of any shape, shape, constant and psi scalars (see `parameters`):

    <name>_cdf(z, shape, constant) -> (cdf, sf)
    <name>_pdf(z, shape, constant) -> pdf
    <name>_dshape(z, shape, constant, psi) -> dF/dshape, for laws that have a shape

They equal the torch classes to 1e-6, in their own tails to 1e-5 relative down to 1e-30, and take
infinite z; a NaN stays one in cdf and sf. The cdf and the pdf of a law are written with the same
transcendental functions, which the compiler merges in a kernel that calls both.
"""

# Triton compiles these functions; their arguments are blocks and scalars of float32.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl

from gendr._runtime.triton.mathematics import atan, erfcx, exp_and_complement, exp_parts, exp_sum
from gendr.distributions.laws.gamma import PDF_FLOOR

# Constants stand on the right of a block: the interpreter makes a constexpr of constexpr * block.
_PDF_FLOOR: tl.constexpr = tl.constexpr(PDF_FLOOR)
_INV_PI: tl.constexpr = tl.constexpr(1 / math.pi)
_TWO_OVER_PI: tl.constexpr = tl.constexpr(2 / math.pi)
_HALF_PI_LOG2_E: tl.constexpr = tl.constexpr(math.pi / 2 / math.log(2))
_SQRT_HALF: tl.constexpr = tl.constexpr(math.sqrt(0.5))
_INV_SQRT_PI: tl.constexpr = tl.constexpr(1 / math.sqrt(math.pi))
_TWO_OVER_SQRT_PI: tl.constexpr = tl.constexpr(2 / math.sqrt(math.pi))
_INV_SQRT_2PI: tl.constexpr = tl.constexpr(1 / math.sqrt(2 * math.pi))
_SECANT_END: tl.constexpr = tl.constexpr(100.0)  # exp(-pi/2 100) is 0
_GAUSSIAN_END: tl.constexpr = tl.constexpr(16.0)  # exp(-16^2 / 2) is 0
_GUMBEL_END: tl.constexpr = tl.constexpr(30.0)  # exp(-exp(30)) is 0, and exp(30) no infinity
_LEVY_FLOOR: tl.constexpr = tl.constexpr(1e-4)  # exp(-1 / 2z) is 0 below
_GAMMA_END: tl.constexpr = tl.constexpr(1e30)  # P is 1 from here on
_EPS: tl.constexpr = tl.constexpr(1e-10)  # the terms left out sum up to 100 times the last one
_MAX_TERMS: tl.constexpr = tl.constexpr(20_000)  # about 10 sqrt(shape) are needed


@triton.jit
def _two_sided(z, tail):
    """(cdf, sf) of a symmetric law from its tail F(-|z|)."""
    body = 1.0 - tail
    return tl.where(z > 0, body, tail), tl.where(z > 0, tail, body)


@triton.jit
def _clip(z):
    """The nearest number in [-1, 1]."""
    return tl.where(z > 1.0, 1.0, tl.where(z < -1.0, -1.0, z))


@triton.jit
def heaviside_cdf(z, shape, constant):
    cdf = tl.where(z >= 0, 1.0, tl.where(z < 0, 0.0, z))
    return cdf, 1.0 - cdf


@triton.jit
def heaviside_pdf(z, shape, constant):
    return tl.zeros_like(z)


@triton.jit
def uniform_cdf(z, shape, constant):
    x = _clip(z)
    return 0.5 * (1.0 + x), 0.5 * (1.0 - x)


@triton.jit
def uniform_pdf(z, shape, constant):
    return tl.where(tl.abs(z) <= 1.0, 0.5, 0.0)


@triton.jit
def cubic_hermite_cdf(z, shape, constant):
    x = _clip(z)
    y = 0.5 * (1.0 + x)
    w = 0.5 * (1.0 - x)
    return y * y * (3.0 - 2.0 * y), w * w * (3.0 - 2.0 * w)


@triton.jit
def cubic_hermite_pdf(z, shape, constant):
    x = _clip(z)
    return 0.75 * (1.0 + x) * (1.0 - x)


@triton.jit
def wigner_semicircle_cdf(z, shape, constant):
    # The tail over w sqrt(w (2 - w)) is smooth in w = 1 - |z|: no arc sine, no difference.
    w = 1.0 - tl.abs(_clip(z))
    p = -0.00428316649 + w * (0.00968081411 + w * (-0.0067830109 + w * 0.00273574982))
    p = 0.0182385184 + w * (0.00760726957 + w * (0.0059512509 + w * p))
    p = 0.424413204 + w * (0.0424393639 + w * p)
    return _two_sided(z, w * tl.sqrt(w * (2.0 - w)) * p)


@triton.jit
def wigner_semicircle_pdf(z, shape, constant):
    w = 1.0 - tl.abs(_clip(z))
    return tl.sqrt(w * (2.0 - w)) * _TWO_OVER_PI


@triton.jit
def _exp_half_square(z):
    """exp(-z^2 / 2); the rounding of the square, which a tail would amplify, is put back."""
    a = tl.abs(z)
    a = tl.where(a > _GAUSSIAN_END, _GAUSSIAN_END, a)
    square = a * a
    return exp_sum(-0.5 * square, -0.5 * tl.fma(a, a, -square))


@triton.jit
def gaussian_cdf(z, shape, constant):
    return _two_sided(z, 0.5 * _exp_half_square(z) * erfcx(tl.abs(z) * _SQRT_HALF))


@triton.jit
def gaussian_pdf(z, shape, constant):
    return _exp_half_square(z) * _INV_SQRT_2PI


@triton.jit
def laplace_cdf(z, shape, constant):
    return _two_sided(z, 0.5 * tl.exp(-tl.abs(z)))


@triton.jit
def laplace_pdf(z, shape, constant):
    return 0.5 * tl.exp(-tl.abs(z))


@triton.jit
def logistic_cdf(z, shape, constant):
    e = tl.exp(-tl.abs(z))
    body = 1.0 / (1.0 + e)
    tail = e * body
    return tl.where(z > 0, body, tail), tl.where(z > 0, tail, body)


@triton.jit
def logistic_pdf(z, shape, constant):
    e = tl.exp(-tl.abs(z))
    body = 1.0 / (1.0 + e)
    return e * body * body


@triton.jit
def _exp_half_pi(z):
    """exp(-pi/2 |z|), the argument rounded once."""
    a = tl.abs(z)
    return tl.exp2(tl.where(a > _SECANT_END, _SECANT_END, a) * -_HALF_PI_LOG2_E)


@triton.jit
def hyperbolic_secant_cdf(z, shape, constant):
    return _two_sided(z, atan(_exp_half_pi(z)) * _TWO_OVER_PI)


@triton.jit
def hyperbolic_secant_pdf(z, shape, constant):
    e = _exp_half_pi(z)
    return e / (1.0 + e * e)


@triton.jit
def cauchy_cdf(z, shape, constant):
    a = tl.abs(z)
    far = a > 1.0
    slope = tl.where(far, 1.0, a) / tl.where(far, a, 1.0)
    angle = atan(slope) * _INV_PI
    return _two_sided(z, tl.where(far, angle, 0.5 - angle))


@triton.jit
def cauchy_pdf(z, shape, constant):
    a = tl.abs(z)
    far = a > 1.0
    slope = tl.where(far, 1.0, a) / tl.where(far, a, 1.0)
    square = slope * slope
    return tl.where(far, square, 1.0) / (1.0 + square) * _INV_PI


@triton.jit
def reciprocal_cdf(z, shape, constant):
    return _two_sided(z, 0.5 / (1.0 + tl.abs(z)))


@triton.jit
def reciprocal_pdf(z, shape, constant):
    tail = 0.5 / (1.0 + tl.abs(z))
    return 2.0 * tail * tail


@triton.jit
def _exp_two_parts(z):
    """exp(z) as a sum whose second part holds the digits that exp(-exp(z)) amplifies; z <= 30."""
    s, p = exp_parts(tl.where(z > _GUMBEL_END, _GUMBEL_END, z), 0.0)
    return s, s * p


@triton.jit
def gumbel_max_cdf(z, shape, constant):
    t, rest = _exp_two_parts(-z)
    return exp_and_complement(-t, -rest)


@triton.jit
def gumbel_max_pdf(z, shape, constant):
    t, rest = _exp_two_parts(-z)
    return (t + rest) * exp_sum(-t, -rest)


@triton.jit
def gumbel_min_cdf(z, shape, constant):
    cdf, sf = gumbel_max_cdf(-z, shape, constant)
    return sf, cdf


@triton.jit
def gumbel_min_pdf(z, shape, constant):
    return gumbel_max_pdf(-z, shape, constant)


@triton.jit
def exponential_cdf(z, shape, constant):
    sf, cdf = exp_and_complement(-tl.where(z < 0, 0.0, z), 0.0)
    return cdf, sf


@triton.jit
def exponential_pdf(z, shape, constant):
    return tl.where(z < 0, 0.0, exp_sum(-tl.where(z < 0, 0.0, z), 0.0))


@triton.jit
def _erf_and_erfc(t, e):
    """(erf(t), erfc(t)) for t >= 0 and e = exp(-t^2), both with all their digits."""
    small = t < 0.5
    near = tl.where(small, t, 0.0)
    w = near * near
    p = 0.112828225 + w * (-0.0267571844 + w * 0.00471798982)
    body = near * (1.12837911 + w * (-0.376126081 + w * p))
    tail = e * erfcx(t)
    return tl.where(small, body, 1.0 - tail), tl.where(small, 1.0 - body, tail)


@triton.jit
def levy_cdf(z, shape, constant):
    x = tl.where(z < _LEVY_FLOOR, _LEVY_FLOOR, z)
    # Not the root of 0.5 / x, which may be subnormal: a GPU's fast root takes that for 0.
    t = tl.rsqrt(x) * _SQRT_HALF
    sf, cdf = _erf_and_erfc(t, exp_sum(tl.div_rn(-0.5, x), 0.0))
    return cdf, sf


@triton.jit
def levy_pdf(z, shape, constant):
    x = tl.where(z < _LEVY_FLOOR, _LEVY_FLOOR, z)
    t = tl.rsqrt(x) * _SQRT_HALF
    return exp_sum(tl.div_rn(-0.5, x), 0.0) * (t * t * t) * _TWO_OVER_SQRT_PI


@triton.jit
def optimal_cdf(z, shape, constant):
    a = tl.abs(z)
    inverse = 0.25 / tl.where(a < 0.25, 0.25, a)
    return _two_sided(z, tl.where(a < 0.25, 0.5 - a, 0.25 * inverse))


@triton.jit
def optimal_pdf(z, shape, constant):
    a = tl.abs(z)
    inverse = 0.25 / tl.where(a < 0.25, 0.25, a)
    return inverse * inverse


# -- gamma: closed forms for the shapes of the benchmark, else P by its series on the left and Q by
# -- Legendre's continued fraction on the right. Scalar branches: a launch takes one of them.


@triton.jit
def _positive(z):
    """The argument, finite; 1 where gamma has no mass and a logarithm would fail."""
    return tl.where(z <= 0, 1.0, tl.where(z > _GAMMA_END, _GAMMA_END, z))


@triton.jit
def _log_ratio(x, shape):
    """log(x / shape) in float64."""
    return tl.log(x.to(tl.float64)) - tl.log(tl.cast(shape, tl.float64))


@triton.jit
def _log_front(x, shape, constant):
    """log(x^shape exp(-x) / Gamma(shape)); float64, since terms as large as the shape cancel."""
    a = tl.cast(shape, tl.float64)
    return a * _log_ratio(x, shape) - (x.to(tl.float64) - a) + constant


@triton.jit
def _exp_of_double(y):
    """exp(y) in float32 for a float64 y <= 88, as `exp_sum`."""
    high = y.to(tl.float32)
    return exp_sum(high, (y - high.to(tl.float64)).to(tl.float32))


@triton.jit
def _any(mask):
    return tl.max(mask.to(tl.int32)) > 0


@triton.jit
def _series(x, shape):
    """P / front, for 0 <= x <= _split(shape); a block of zeros ends it at once."""
    term = tl.zeros_like(x) + tl.div_rn(1.0, shape)
    total = term
    n = 0.0
    while (n < _MAX_TERMS) & _any(term > total * _EPS):
        for _ in tl.static_range(8):
            n += 1.0
            term *= x * tl.div_rn(1.0, shape + n)
            total += term
    return total


@triton.jit
def _fraction(x, shape):
    """Q / front, for x > _split(shape), by Steed's method, whose corrections compound no errors."""
    b = x + 1.0 - shape
    d = 1.0 / b
    step = d
    total = d
    n = 0.0
    while (n < _MAX_TERMS) & _any(tl.abs(step) > total * _EPS):
        for _ in tl.static_range(8):
            n += 1.0
            b += 2.0
            d = 1.0 / (b + n * (shape - n) * d)
            step *= b * d - 1.0
            total += step
    return total


@triton.jit
def _split(shape):
    """Where Q takes over from P: each must be no small difference from 1 on its side."""
    return tl.where(shape < 1.0, 0.25, shape + 1.0)


@triton.jit
def _incomplete(z, shape, constant):
    """(P, Q) for any shape."""
    shape = tl.cast(shape, tl.float32)  # the interpreter hands over a Python number
    x = _positive(z)
    left = x <= _split(shape)
    front = _exp_of_double(_log_front(x, shape, constant))
    # Each loop gets arguments that end it at once where the other one serves.
    p = front * _series(tl.where(left, x, 0.0), shape)
    q = front * _fraction(tl.where(left, _GAMMA_END, x), shape)
    p = tl.where(left, p, 1.0 - q)
    q = tl.where(left, 1.0 - p, q)
    return tl.where(z <= 0, 0.0, p), tl.where(z <= 0, 1.0, q)


@triton.jit
def _half_incomplete(z):
    """(P, Q) for shape 1/2: erf and erfc of the root."""
    x = tl.where(z < 0, 0.0, z)
    return _erf_and_erfc(tl.sqrt_rn(x), exp_sum(-x, 0.0))


@triton.jit
def _two_incomplete(z):
    """(P, Q) for shape 2."""
    x = tl.where(z <= 0, 0.0, tl.where(z > _GAMMA_END, _GAMMA_END, z))
    e = exp_sum(-x, 0.0)
    sf = e * (1.0 + x)
    # P = exp(-x) (x^2 / 2 + x^3 / 6 + ...), of positive terms.
    near = tl.where(x > 1.0, 1.0, x)
    p = 0.00138792861 + near * (0.000200450522 + near * (2.24446267e-05 + near * 4.12339159e-06))
    p = 0.166666672 + near * (0.0416666381 + near * (0.00833357684 + near * p))
    cdf = tl.where(x > 1.0, 1.0 - sf, e * near * near * (0.5 + near * p))
    return cdf, tl.where(x > 1.0, sf, 1.0 - cdf)


@triton.jit
def gamma_cdf(z, shape, constant):
    cdf = tl.zeros_like(z)
    sf = tl.zeros_like(z)
    if shape == 0.5:
        cdf, sf = _half_incomplete(z)
    elif shape == 1.0:
        cdf, sf = exponential_cdf(z, shape, constant)
    elif shape == 2.0:
        cdf, sf = _two_incomplete(z)
    else:
        cdf, sf = _incomplete(z, shape, constant)
    return cdf, sf


@triton.jit
def gamma_pdf(z, shape, constant):
    pdf = tl.zeros_like(z)
    if shape == 0.5:
        x = tl.where(z < 0, 0.0, z)
        root = tl.sqrt_rn(tl.where(z < _PDF_FLOOR, 1.0, x))
        pdf = tl.where(z < _PDF_FLOOR, 0.0, exp_sum(-x, 0.0) / root * _INV_SQRT_PI)
    elif shape == 1.0:
        pdf = exponential_pdf(z, shape, constant)
    elif shape == 2.0:
        x = tl.where(z <= 0, 0.0, tl.where(z > _GAMMA_END, _GAMMA_END, z))
        pdf = x * exp_sum(-x, 0.0)
    else:
        # x in the exponent: front / x would underflow before the pdf does.
        x = _positive(z)
        log_pdf = _log_front(x, shape, constant) - tl.log(x.to(tl.float64))
        pdf = tl.where(z < _PDF_FLOOR, 0.0, _exp_of_double(log_pdf))
    return pdf


@triton.jit
def _slope_series(x, log_ratio, shape, psi):
    """dP/dshape / front, for 0 <= x <= shape + 1 + sqrt(shape)."""
    inverse = tl.div_rn(1.0, shape)
    term = tl.zeros_like(x) + inverse
    psi += inverse
    part = term * (log_ratio - psi)
    total = part
    n = 0.0
    while (n < _MAX_TERMS) & _any(tl.abs(part) > tl.abs(total) * _EPS):
        for _ in tl.static_range(8):
            n += 1.0
            inverse = tl.div_rn(1.0, shape + n)
            term *= x * inverse
            psi += inverse
            part = term * (log_ratio - psi)
            total += part
    return total


@triton.jit
def _slope_fraction(x, log_ratio, shape, psi):
    """dQ/dshape / front, for x above: Steed's method and its derivative together."""
    b = x + 1.0 - shape
    d = 1.0 / b
    dd = d * d
    step, slope = d, dd
    total, total_slope = d, dd
    n = 0.0
    while (n < _MAX_TERMS) & _any(
        (tl.abs(step) > total * _EPS) | (tl.abs(slope) > tl.abs(total_slope) * _EPS)
    ):
        for _ in tl.static_range(8):
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
    return total * (log_ratio - psi) + total_slope


@triton.jit
def gamma_dshape(z, shape, constant, psi):
    shape = tl.cast(shape, tl.float32)  # the interpreter hands over a Python number
    x = _positive(z)
    # Just above shape + 1 the fraction's slope would cancel, while the series' does not yet.
    left = x <= shape + 1.0 + tl.sqrt(shape)
    front = _exp_of_double(_log_front(x, shape, constant))
    log_ratio = _log_ratio(x, shape).to(tl.float32)
    lower = front * _slope_series(tl.where(left, x, 0.0), log_ratio, shape, psi)
    upper = front * _slope_fraction(tl.where(left, _GAMMA_END, x), log_ratio, shape, psi)
    slope = tl.where(left, lower, -upper)
    return tl.where(z <= 0, 0.0, slope)


# -- what the host hands to kernels


def parameters(shape: float) -> tuple[float, float, float]:
    """The scalars of a law that depend on its shape alone: (shape, constant, psi).

    The shape is rounded to float32, as the kernel sees it; the others are computed in float64 in
    forms that stay small: constant = shape log(shape) - shape - log Gamma(shape), and psi =
    digamma(shape) - log(shape).

    Args:
        shape: > 0.
    """
    rounded = torch.tensor(shape, dtype=torch.float32).double()
    log = rounded.log()
    constant = rounded * log - rounded - torch.lgamma(rounded)
    return rounded.item(), constant.item(), (torch.digamma(rounded) - log).item()


def _twin(symbol: str) -> Any:
    function = globals().get(symbol)
    if function is None or symbol.startswith("_"):
        raise ValueError(f"no Triton twin {symbol!r}; a law needs <name>_cdf and <name>_pdf here")
    return function


def cdf_twin(name: str) -> Any:
    """`<name>_cdf`, for kernels to take as a constexpr.

    Raises:
        ValueError: there is no such twin.
    """
    return _twin(f"{name}_cdf")


def pdf_twin(name: str) -> Any:
    """`<name>_pdf`."""
    return _twin(f"{name}_pdf")


def dshape_twin(name: str) -> Any:
    """`<name>_dshape`."""
    return _twin(f"{name}_dshape")
