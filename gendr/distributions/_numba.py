"""The laws as scalar loops for Numba kernels, each compiled by itself and called by address.

Signatures, all pointers to float64, n an int64, shape a float64 (ignored by laws without one):

    <name>_cdf(z, n, shape, cdf, sf)      fills cdf[0:n] and sf[0:n]
    <name>_pdf(z, n, shape, pdf)
    <name>_dshape(z, n, shape, dcdf)      dF/dshape, for laws that have a shape

They equal the torch classes to 1e-13, with the same guards, and take infinite z. Most of the loops
are free of branches and calls, so that LLVM vectorises them: they bound the speed of the renderer.
"""
# pyright: basic, reportAttributeAccessIssue=false, reportUnknownParameterType=false

import math
from functools import cache
from typing import Any

from numba import cfunc, njit, types

# Numba's cache looks at the time of this file only: touch it after changing what it imports here.
from gendr._runtime.numba.compilation import ensure_cache
from gendr._runtime.numba.mathematics import arccot, exp, expm1
from gendr.distributions.laws.gamma import PDF_FLOOR

ensure_cache()

_PI = math.pi
_INV_PI = 1 / math.pi
_TWO_OVER_PI = 2 / math.pi
_HALF_PI = math.pi / 2
_INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)
_SQRT_HALF = math.sqrt(0.5)
_EPS = 1e-17  # of a series, whose terms fall fast
_LENTZ_EPS = 1e-15  # of a fraction, whose factors are 1 up to rounding when it has converged
_MAX_TERMS = 20_000  # about 10 sqrt(shape) are needed, so this serves shapes up to 1e6
_STIRLING = 10.0  # from this shape on Stirling's series to z^-11 is exact to 1e-15

# numpy: a division by zero gives an infinity instead of a branch that raises.
_OPTIONS = {"cache": True, "error_model": "numpy"}


def heaviside_cdf(z, n, shape, cdf, sf):
    for i in range(n):
        a = z[i] if math.isnan(z[i]) else (1.0 if z[i] >= 0 else 0.0)
        cdf[i] = a
        sf[i] = 1 - a


def heaviside_pdf(z, n, shape, pdf):
    for i in range(n):
        pdf[i] = 0.0


def uniform_cdf(z, n, shape, cdf, sf):
    for i in range(n):
        x = z[i]
        if x <= -1:
            cdf[i], sf[i] = 0.0, 1.0
        elif x >= 1:
            cdf[i], sf[i] = 1.0, 0.0
        else:
            cdf[i] = 0.5 * (1 + x)
            sf[i] = 0.5 * (1 - x)


def uniform_pdf(z, n, shape, pdf):
    for i in range(n):
        pdf[i] = 0.5 if abs(z[i]) <= 1 else 0.0


def cubic_hermite_cdf(z, n, shape, cdf, sf):
    for i in range(n):
        x = z[i]
        if x <= -1:
            cdf[i], sf[i] = 0.0, 1.0
        elif x >= 1:
            cdf[i], sf[i] = 1.0, 0.0
        else:
            y = 0.5 * (1 + x)
            w = 0.5 * (1 - x)
            cdf[i] = y * y * (3 - 2 * y)
            sf[i] = w * w * (3 - 2 * w)


def cubic_hermite_pdf(z, n, shape, pdf):
    for i in range(n):
        x = z[i]
        pdf[i] = 0.75 * (1 + x) * (1 - x) if abs(x) <= 1 else 0.0


@njit(**_OPTIONS)
def _excess(angle):
    """Angle - sin(angle) without cancellation."""
    if angle >= 1:
        return angle - math.sin(angle)
    square = angle * angle
    series = 1.0
    for k in range(8, 0, -1):
        series = 1 - square / ((2 * k + 2) * (2 * k + 3)) * series
    return angle * square / 6 * series


def wigner_semicircle_cdf(z, n, shape, cdf, sf):
    for i in range(n):
        x = z[i]
        if x <= -1:
            cdf[i], sf[i] = 0.0, 1.0
        elif x >= 1:
            cdf[i], sf[i] = 1.0, 0.0
        else:
            tail = _excess(4 * math.asin(math.sqrt(0.5 * (1 - abs(x))))) * (0.5 * _INV_PI)
            cdf[i] = 1 - tail if x > 0 else tail
            sf[i] = tail if x > 0 else 1 - tail


def wigner_semicircle_pdf(z, n, shape, pdf):
    for i in range(n):
        x = z[i]
        pdf[i] = _TWO_OVER_PI * math.sqrt((1 - x) * (1 + x)) if abs(x) < 1 else 0.0


def gaussian_cdf(z, n, shape, cdf, sf):
    for i in range(n):
        x = z[i]
        tail = 0.5 * math.erfc(abs(x) * _SQRT_HALF)
        cdf[i] = 1 - tail if x > 0 else tail
        sf[i] = tail if x > 0 else 1 - tail


def gaussian_pdf(z, n, shape, pdf):
    for i in range(n):
        pdf[i] = _INV_SQRT_2PI * exp(-0.5 * z[i] * z[i])


def laplace_cdf(z, n, shape, cdf, sf):
    for i in range(n):
        x = z[i]
        tail = 0.5 * exp(-abs(x))
        cdf[i] = 1 - tail if x > 0 else tail
        sf[i] = tail if x > 0 else 1 - tail


def laplace_pdf(z, n, shape, pdf):
    for i in range(n):
        pdf[i] = 0.5 * exp(-abs(z[i]))


def logistic_cdf(z, n, shape, cdf, sf):
    for i in range(n):
        x = z[i]
        e = exp(-abs(x))
        body = 1 / (1 + e)
        tail = e * body
        cdf[i] = body if x > 0 else tail
        sf[i] = tail if x > 0 else body


def logistic_pdf(z, n, shape, pdf):
    for i in range(n):
        e = exp(-abs(z[i]))
        body = 1 / (1 + e)
        pdf[i] = e * body * body


def hyperbolic_secant_cdf(z, n, shape, cdf, sf):
    for i in range(n):
        x = z[i]
        tail = _TWO_OVER_PI * arccot(exp(_HALF_PI * abs(x)))
        cdf[i] = 1 - tail if x > 0 else tail
        sf[i] = tail if x > 0 else 1 - tail


def hyperbolic_secant_pdf(z, n, shape, pdf):
    for i in range(n):
        e = exp(-_HALF_PI * abs(z[i]))
        pdf[i] = e / (1 + e * e)


def cauchy_cdf(z, n, shape, cdf, sf):
    for i in range(n):
        x = z[i]
        tail = _INV_PI * arccot(abs(x))
        cdf[i] = 1 - tail if x > 0 else tail
        sf[i] = tail if x > 0 else 1 - tail


def cauchy_pdf(z, n, shape, pdf):
    for i in range(n):
        pdf[i] = _INV_PI / (1 + z[i] * z[i])


def reciprocal_cdf(z, n, shape, cdf, sf):
    for i in range(n):
        x = z[i]
        tail = 0.5 / (1 + abs(x))
        cdf[i] = 1 - tail if x > 0 else tail
        sf[i] = tail if x > 0 else 1 - tail


def reciprocal_pdf(z, n, shape, pdf):
    for i in range(n):
        tail = 0.5 / (1 + abs(z[i]))
        pdf[i] = 2 * tail * tail


def gumbel_max_cdf(z, n, shape, cdf, sf):
    for i in range(n):
        sf[i] = -exp(-z[i])
    for i in range(n):
        cdf[i], sf[i] = exp(sf[i]), -expm1(sf[i])


def gumbel_max_pdf(z, n, shape, pdf):
    for i in range(n):
        x = z[i]
        pdf[i] = 0.0 if x < -30 else exp(-x - exp(-x))


def gumbel_min_cdf(z, n, shape, cdf, sf):
    for i in range(n):
        cdf[i] = -exp(z[i])
    for i in range(n):
        sf[i], cdf[i] = exp(cdf[i]), -expm1(cdf[i])


def gumbel_min_pdf(z, n, shape, pdf):
    for i in range(n):
        x = z[i]
        pdf[i] = 0.0 if x > 30 else exp(x - exp(x))


def exponential_cdf(z, n, shape, cdf, sf):
    for i in range(n):
        x = max(z[i], 0.0)
        cdf[i], sf[i] = -expm1(-x), exp(-x)


def exponential_pdf(z, n, shape, pdf):
    for i in range(n):
        pdf[i] = exp(-z[i]) if z[i] >= 0 else 0.0


def levy_cdf(z, n, shape, cdf, sf):
    for i in range(n):
        x = z[i]
        if x <= 0:
            cdf[i], sf[i] = 0.0, 1.0
        else:
            t = math.sqrt(0.5 / x)
            if t < 0.5:
                s = math.erf(t)
                cdf[i], sf[i] = 1 - s, s
            else:
                a = math.erfc(t)
                cdf[i], sf[i] = a, 1 - a


def levy_pdf(z, n, shape, pdf):
    for i in range(n):
        x = z[i]
        pdf[i] = 0.0 if x <= 1e-4 else _INV_SQRT_2PI * exp(-0.5 / x) / (x * math.sqrt(x))


def optimal_cdf(z, n, shape, cdf, sf):
    for i in range(n):
        x = z[i]
        if abs(x) <= 0.25:
            cdf[i], sf[i] = 0.5 + x, 0.5 - x
        else:
            tail = 0.0625 / abs(x)
            cdf[i] = 1 - tail if x > 0 else tail
            sf[i] = tail if x > 0 else 1 - tail


def optimal_pdf(z, n, shape, pdf):
    for i in range(n):
        inverse = 0.25 / max(abs(z[i]), 0.25)
        pdf[i] = inverse * inverse


# -- gamma: P by its series up to shape + 1, Q by Legendre's continued fraction above


@njit(**_OPTIONS)
def _log_constant(a):
    """What `_front` needs of the shape alone: log Gamma(a), or its Stirling form."""
    if a < _STIRLING:
        return -math.lgamma(a)
    r = 1 / (a * a)
    rest = 1 / 12 - r * (
        1 / 360 - r * (1 / 1260 - r * (1 / 1680 - r * (1 / 1188 - r * 691 / 360360)))
    )
    return 0.5 * math.log(a / (2 * _PI)) - rest / a


@njit(**_OPTIONS)
def _front(a, x, constant):
    """x^a exp(-x) / Gamma(a); large shapes about the mean, where the exponent cancels less."""
    if a < _STIRLING:
        return math.exp(a * math.log(x) - x + constant)
    m = (x - a) / a
    log_ratio = math.log1p(m) if m > -0.5 else math.log(x / a)
    return math.exp(a * (log_ratio - m) + constant)


@njit(**_OPTIONS)
def _series(a, x):
    """P / front."""
    term = 1 / a
    total = term
    for n in range(1, _MAX_TERMS):
        term *= x / (a + n)
        total += term
        if term <= _EPS * total:
            break
    return total


@njit(**_OPTIONS)
def _fraction(a, x):
    """Q / front, by the modified Lentz method; x > a + 1 keeps every denominator positive."""
    b = x + 1 - a
    d = 1 / b
    c = math.inf
    h = d
    for n in range(1, _MAX_TERMS):
        k = n * (a - n)
        b += 2
        c = b + k / c
        d = 1 / (b + k * d)
        factor = c * d
        h *= factor
        if abs(factor - 1) <= _LENTZ_EPS:
            break
    return h


@njit(**_OPTIONS)
def _digamma(x):
    shift = 0.0
    while x < 10:
        shift += 1 / x
        x += 1
    r = 1 / (x * x)
    rest = r * (
        1 / 12
        - r * (1 / 120 - r * (1 / 252 - r * (1 / 240 - r * (1 / 132 - r * (691 / 32760 - r / 12)))))
    )
    return math.log(x) - 0.5 / x - rest - shift


def gamma_cdf(z, n, shape, cdf, sf):
    constant = _log_constant(shape)
    for i in range(n):
        x = z[i]
        if x <= 0:
            cdf[i], sf[i] = 0.0, 1.0
        elif math.isinf(x):
            cdf[i], sf[i] = 1.0, 0.0
        elif shape == 0.5 and x > 0.25:
            s = math.erfc(math.sqrt(x))
            cdf[i], sf[i] = 1 - s, s
        elif shape == 0.5:
            a = math.erf(math.sqrt(x))
            cdf[i], sf[i] = a, 1 - a
        elif shape == 2.0 and x > 1:
            s = math.exp(-x) * (1 + x)
            cdf[i], sf[i] = 1 - s, s
        elif x <= shape + 1:
            a = _front(shape, x, constant) * _series(shape, x)
            cdf[i], sf[i] = a, 1 - a
        else:
            s = _front(shape, x, constant) * _fraction(shape, x)
            cdf[i], sf[i] = 1 - s, s


def gamma_pdf(z, n, shape, pdf):
    constant = _log_constant(shape)
    for i in range(n):
        x = z[i]
        if x < PDF_FLOOR:
            pdf[i] = 1.0 if shape == 1 and x >= 0 else 0.0
        elif math.isinf(x):
            pdf[i] = 0.0
        elif shape == 2.0:
            pdf[i] = x * math.exp(-x)
        else:
            pdf[i] = _front(shape, x, constant) / x


@njit(**_OPTIONS)
def _slope_series(a, x, psi):
    """dP/dshape / front, for x <= a + 1."""
    log_x = math.log(x)
    term = 1 / a
    psi += 1 / a
    total = term * (log_x - psi)
    for n in range(1, _MAX_TERMS):
        term *= x / (a + n)
        psi += 1 / (a + n)
        part = term * (log_x - psi)
        total += part
        if abs(part) <= _EPS * abs(total):
            break
    return total


@njit(**_OPTIONS)
def _slope_fraction(a, x, psi):
    """dQ/dshape / front, for x > a + 1: the fraction and its logarithmic derivative together."""
    b = x + 1 - a
    c, dc = math.inf, 0.0
    d = 1 / b
    dd = d * d
    h, log_slope = d, d
    for n in range(1, _MAX_TERMS):
        k = n * (a - n)
        b += 2
        ratio = 1 / c
        dc = n * ratio - 1 - k * ratio * ratio * dc
        c = b + k * ratio
        last = d
        d = 1 / (b + k * d)
        dd = -d * d * (n * last - 1 + k * dd)
        h *= c * d
        part = dc / c + dd / d
        log_slope += part
        if max(abs(c * d - 1), abs(part)) <= _LENTZ_EPS:
            break
    return h * (math.log(x) - psi + log_slope)


def gamma_dshape(z, n, shape, dcdf):
    constant = _log_constant(shape)
    psi = _digamma(shape)
    for i in range(n):
        x = z[i]
        if x <= 0 or math.isinf(x):
            dcdf[i] = 0.0
        elif x <= shape + 1:
            dcdf[i] = _front(shape, x, constant) * _slope_series(shape, x, psi)
        else:
            dcdf[i] = -_front(shape, x, constant) * _slope_fraction(shape, x, psi)


# -- addresses

_P = types.CPointer(types.float64)
_CDF = types.void(_P, types.int64, types.float64, _P, _P)
_ONE = types.void(_P, types.int64, types.float64, _P)


@cache
def compiled(symbol: str) -> Any:
    """The compiled twin of a name like "logistic_cdf"; kept, for its address dies with it.

    Raises:
        ValueError: there is no such twin.
    """
    function = globals().get(symbol)
    if function is None or symbol.startswith("_"):
        raise ValueError(f"no Numba twin {symbol!r}; a law needs <name>_cdf and <name>_pdf here")
    return cfunc(_CDF if symbol.endswith("_cdf") else _ONE, **_OPTIONS)(function)


def cdf_address(name: str) -> int:
    """Where the compiled `<name>_cdf` lies."""
    return compiled(f"{name}_cdf").address


def pdf_address(name: str) -> int:
    """Where the compiled `<name>_pdf` lies."""
    return compiled(f"{name}_pdf").address


def dshape_address(name: str) -> int:
    """Where the compiled `<name>_dshape` lies."""
    return compiled(f"{name}_dshape").address
