"""Transcendental functions that LLVM can vectorise, for the compiled distributions and generators.

A loop that calls the C library handles one element at a time. The functions here are arithmetic
without branches, so that a loop over them handles as many elements at once as the processor has
lanes. Every element gets the same bits in any lane, and in the remainder of the loop. All results
are within 2 units in the last place.

Source: the polynomials of logarithms and `arccot` are those of log and atan in Sun's fdlibm;
that of `exp_below` for float32 is that of `gendr.kernels.numba.singles`.
"""

# Numba compiles these functions; their arguments are float64, but for `exp_below`.
# pyright: basic, reportCallIssue=false

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload, register_jitable

_LOG2_E = 1 / math.log(2)
# log(2) in two parts, the first with trailing zeros: its product with an exponent is exact.
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
# Adding it to a small integer n leaves n in the low bits of the sum, rounded to nearest.
ROUNDER = 1.5 * 2.0**52
ROUNDER_BITS = 0x4338 << 48
TWO_52 = 2.0**52
TWO_52_BITS = 0x4330 << 48
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_BIAS = 1023
_LEAST = 2.2250738585072014e-308  # a smaller number has fewer digits
_LARGEST, _SMALLEST = math.log(1.7976931348623157e308), -708.0

# The same of float32, and the two parts of -log(2), of which an integer times the first is exact.
_LOG2_E_SINGLE, _SMALLEST_SINGLE = np.float32(_LOG2_E), np.float32(-87.0)
_ROUNDER_SINGLE, _ZERO_SINGLE = np.float32(1.5 * 2.0**23 + 127), np.float32(0.0)
_SINGLES = tuple(
    map(
        np.float32,
        (
            -0.693359375, 0.693359375 - math.log(2), 0.00138888683, 0.00836925954, 0.041667141,
            0.166665047, 0.49999997,
        ),
    )
)  # fmt: skip


def _fma(typingctx: Any, x: Any, y: Any, z: Any) -> Any:
    """Return x y + z, rounded once; called explicitly, so that all lanes round alike."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    kind = types.float32 if x == y == z == types.float32 else types.float64
    return kind(kind, kind, kind), codegen


fma: Any = intrinsic(_fma)


@intrinsic
def bits_of(typingctx: Any, x: Any) -> Any:
    """The bits of a float64 as an int64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@intrinsic
def from_bits(typingctx: Any, n: Any) -> Any:
    """The float64 with the bits of an int64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@register_jitable
def _expm1_near(r):
    """expm1(r) for |r| <= log(2) / 2."""
    p = fma(r, 1 / 6227020800, 1 / 479001600)  # Taylor's series, to r^13 / 13!
    p = fma(r, p, 1 / 39916800)
    p = fma(r, p, 1 / 3628800)
    p = fma(r, p, 1 / 362880)
    p = fma(r, p, 1 / 40320)
    p = fma(r, p, 1 / 5040)
    p = fma(r, p, 1 / 720)
    p = fma(r, p, 1 / 120)
    p = fma(r, p, 1 / 24)
    p = fma(r, p, 1 / 6)
    p = fma(r, p, 0.5)
    return fma(r * r, p, r)


@register_jitable
def _exp_parts(x) -> tuple[float, float]:
    """(2^(n - 1), expm1(r)) with x = n log(2) + r, |r| <= log(2) / 2; x is clamped to the range."""
    x = x if x > _SMALLEST else _SMALLEST
    x = x if x < _LARGEST else _LARGEST
    shifted = fma(x, _LOG2_E, ROUNDER)
    n = shifted - ROUNDER
    r = fma(n, -_LN2_LOW, fma(n, -_LN2_HIGH, x))
    # n - 1, because n may be 1024
    half_power = from_bits((bits_of(shifted) - ROUNDER_BITS + (_BIAS - 1)) << 52)
    return half_power, _expm1_near(r)


@register_jitable
def _exp_ends(x, body, below):
    """`body` for x within the range of exp, the limits of exp outside it, NaN for NaN."""
    body = body if x < _LARGEST else math.inf
    body = body if x > _SMALLEST else below
    return body if x == x else x


@register_jitable
def exp(x):
    """The exponential e^x; 0 below -708, where it would soon be subnormal."""
    half_power, q = _exp_parts(x)
    return _exp_ends(x, half_power * (1.0 + q) * 2.0, 0.0)


@intrinsic
def _power_of_bits(typingctx: Any, shifted: Any) -> Any:
    """2^n as a float32, n + _BIAS_SINGLE the low bits of a float32."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.bitcast(args[0], ir.IntType(32))
        bits = builder.shl(bits, ir.Constant(ir.IntType(32), 23))
        return builder.bitcast(bits, ir.FloatType())

    return types.float32(types.float32), codegen


@register_jitable
def _exp_below_single(x):
    y = _SMALLEST_SINGLE if x < _SMALLEST_SINGLE else x
    shifted = fma(y, _LOG2_E_SINGLE, _ROUNDER_SINGLE)
    n = shifted - _ROUNDER_SINGLE
    r = fma(n, _SINGLES[1], fma(n, _SINGLES[0], y))
    p = fma(r, _SINGLES[2], _SINGLES[3])
    p = fma(r, p, _SINGLES[4])
    p = fma(r, p, _SINGLES[5])
    p = fma(r, p, _SINGLES[6])
    s = _power_of_bits(shifted)
    result = fma(s, fma(r * r, p, r), s)
    return _ZERO_SINGLE if x < _SMALLEST_SINGLE else result


def exp_below(x):
    """exp(x) for x <= 0, in the dtype of x: of float32, twice as many lanes; 0 below -87."""
    raise NotImplementedError  # Numba has it from `_exp_below`


@overload(exp_below)
def _exp_below(x):
    return (lambda x: _exp_below_single(x)) if x == types.float32 else (lambda x: exp(x))


@register_jitable
def split_exp(x):
    """(r, n) with exp(x) = r 2^n, n an integer and r between sqrt(1/2) and sqrt(2); |x| below 1e9.

    Unlike exp(x), the pair neither overflows nor underflows, and scaling it by another power of 2
    is exact.
    """
    n = math.floor(x * _LOG2_E + 0.5)
    return 1.0 + _expm1_near(fma(n, -_LN2_LOW, fma(n, -_LN2_HIGH, x))), n


@register_jitable
def power_of_two(n):
    """2^n for an integer n <= 0; 0 below -1022."""
    n = n if n > -1023.0 else -1023.0
    return from_bits((bits_of(n + ROUNDER) - ROUNDER_BITS + _BIAS) << 52)


@register_jitable
def expm1(x):
    """exp(x) - 1, with all its digits near 0."""
    half_power, q = _exp_parts(x)
    result = _exp_ends(x, 2.0 * fma(half_power, q, half_power - 0.5), -1.0)
    return result if x != 0.0 else x  # keeps the sign of a zero


@register_jitable
def _log_of_parts(k, f, lost):
    """The logarithm of 2^k (1 + f), 1 + f between sqrt(1/2) and sqrt(2), and `lost` besides."""
    s = f / (2.0 + f)
    z = s * s
    p = fma(z, 1.479819860511658591e-01, 1.531383769920937332e-01)
    p = fma(z, p, 1.818357216161805012e-01)
    p = fma(z, p, 2.222219843214978396e-01)
    p = fma(z, p, 2.857142874366239149e-01)
    p = fma(z, p, 3.999999999940941908e-01)
    p = z * fma(z, p, 6.666666666666735130e-01)
    half_square = 0.5 * f * f
    rest = fma(s, half_square + p, fma(k, _LN2_LOW, lost))
    return fma(k, _LN2_HIGH, f - (half_square - rest))


@register_jitable
def log1p(x):
    """log(1 + x) for x >= 0, with all its digits near 0."""
    u = 1.0 + x
    lost = x - (u - 1.0)  # what rounding took from u
    # u = 2^k (1 + f); k >= 0, so its shift needs no sign.
    bits = bits_of(u)
    k = (bits - _SQRT_HALF_BITS) >> 52
    f = from_bits(bits - (k << 52)) - 1.0
    result = _log_of_parts(from_bits(k | TWO_52_BITS) - TWO_52, f, lost / u)
    return result if u < math.inf else u


@register_jitable
def hazard(a, s):
    """-log(s) for s = 1 - a in [0, 1], with all its digits near 0; one division."""
    bits = bits_of(s if s > _LEAST else _LEAST)
    k = (bits + ((_BIAS << 52) - _SQRT_HALF_BITS)) >> 52  # plus _BIAS, so not below 0
    f = from_bits(bits - ((k - _BIAS) << 52)) - 1.0
    k = from_bits(k | TWO_52_BITS) - (TWO_52 + _BIAS)
    result = -_log_of_parts(k, f if k != 0.0 else -a, 0.0)
    return result if s > 0.0 else math.inf - s  # NaN stays NaN


@register_jitable
def arccot(x):
    """The angle in [0, pi/2] whose cotangent is x, for x >= 0: atan(1 / x)."""
    # With t = tan(pi/8), the angle is atan(1/x), pi/4 + atan((1 - x)/(1 + x)) or pi/2 - atan(x).
    low, high = x < 0.41421356237309503, x > 2.414213562373095
    base = 0.5 * math.pi if low else (0.0 if high else 0.25 * math.pi)
    base_low = 6.123233995736766e-17 if low else (0.0 if high else 3.061616997868383e-17)
    above = -x if low else (1.0 if high else 1.0 - x)
    below = 1.0 if low else (x if high else 1.0 + x)
    w = above / below
    z = w * w
    p = fma(z, 1.62858201153657823623e-02, -3.65315727442169155270e-02)
    p = fma(z, p, 4.97687799461593236017e-02)
    p = fma(z, p, -5.83357013379057348645e-02)
    p = fma(z, p, 6.66107313738753120669e-02)
    p = fma(z, p, -7.69187620504482999495e-02)
    p = fma(z, p, 9.09088713343650656196e-02)
    p = fma(z, p, -1.11111104054623557880e-01)
    p = fma(z, p, 1.42857142725034663711e-01)
    p = fma(z, p, -1.99999999998764832476e-01)
    p = fma(z, p, 3.33333333333329318027e-01)
    return base + (fma(-w * z, p, w) + base_low)
