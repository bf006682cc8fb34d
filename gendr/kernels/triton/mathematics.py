"""Functions of float32 blocks that Triton lacks, in its own primitives.

libdevice has most of them, but not under the interpreter (`TRITON_INTERPRET=1`), which is how the
kernels are tested where there is no GPU. None makes a NaN out of an argument in its range, the ends
included, and a NaN stays one. Errors are in units of the last place (ulp, 6e-8 to 1.2e-7).

On a GPU tl.exp(x) rounds x log2(e) before its approximate 2^y, an error of 2 + 0.6 |x| ulp. That is
good enough for exp(-|z|) by itself; where its error would be amplified, `exp_parts` reduces the
argument first. tl.log, tl.log2 and tl.erf are full-precision code, within 2 ulp; `/` is within 2.

The polynomials are near-minimax fits of relative error, made for this file.
"""

# Triton compiles these functions; their arguments are blocks of float32.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import triton
import triton.language as tl

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from gendr.kernels.vocabulary import Block

    F = TypeVar("F", bound=Callable[..., object])

    def jit(function: F, /) -> F:
        """Triton's own has a type whose call never returns, for all that checkers see."""
        ...
else:
    jit = triton.jit

_LOG2_E: tl.constexpr = tl.constexpr(1 / math.log(2))
# log(2) in two parts: an integer below 2^14 times the first is exact in float32.
_LN2_HIGH: tl.constexpr = tl.constexpr(0.693359375)
_LN2_LOW: tl.constexpr = tl.constexpr(math.log(2) - 0.693359375)
# The range of `exp_parts`: below it exp is 0, and soon above it infinite.
_EXP_LOWEST: tl.constexpr = tl.constexpr(-104.0)
_EXP_HIGHEST: tl.constexpr = tl.constexpr(88.0)
_BIAS: tl.constexpr = tl.constexpr(127.0)  # of exponents
_INTEGERS: tl.constexpr = tl.constexpr(1.5 * 2**23 + 127.0)  # around it float32 has integers only
_HALF_PI: tl.constexpr = tl.constexpr(math.pi / 2)


@jit
def bounded(x, limit):
    """Clamp x to -limit .. limit; NaN stays NaN."""
    return tl.where(x > limit, limit, tl.where(x < -limit, -limit, x))


@jit
def log1p(x):
    """log(1 + x) for x >= -1, 4 ulp; -inf at -1, inf at inf."""
    small = tl.abs(x) < 0.35
    near = tl.where(small, x, 0.0)
    y = near / (2.0 + near)
    w = y * y
    near = 2.0 * y * (1.0 + w * (1 / 3 + w * (1 / 5 + w * (1 / 7 + w * (1 / 9)))))
    return tl.where(small, near, tl.log(1.0 + x))


@jit
def log_of_sum(x, y):
    """log(y) for y = 1 + x, x >= -1, from whichever of the two has more digits; 3 ulp."""
    return tl.where(x > -0.5, log1p(x), tl.log(y))


@jit
def hazard(a, s):
    """-log(s) for s = 1 - a, from whichever of the two has more digits; 3 ulp, inf at s = 0."""
    return -log_of_sum(-a, s)


@jit
def exp_parts(x, rest) -> tuple[Block, Block]:
    """(s, p) with exp(x + rest) = s + s p, s a power of 2, p in [-0.3, 0.42] with its own digits.

    x has the magnitude, rest the digits that it had no room for, at most |x| / 2 of them; their sum
    is 88 at most. An x above counts as 88; one below -104 as -104 with no rest. A power below
    2^-126 counts as 0.
    """
    rest = tl.where(x < _EXP_LOWEST, 0.0, rest)
    x = tl.where(x < _EXP_LOWEST, _EXP_LOWEST, tl.where(x > _EXP_HIGHEST, _EXP_HIGHEST, x))
    # float32 has no digits below 1 there: the sum is rounded, and its last bits are n + _BIAS.
    shifted = (x + rest) * _LOG2_E + _INTEGERS
    n = shifted - _INTEGERS
    r = (x - n * _LN2_HIGH) + (rest - n * _LN2_LOW)
    p = 0.00836925954 + r * 0.00138888683
    p = 0.49999997 + r * (0.166665047 + r * (0.041667141 + r * p))
    # 2^n for n <= 127 from its bits: tl.exp2 is within 2 ulp, for integers too.
    biased = tl.maximum(shifted, _INTEGERS - _BIAS).to(tl.int32, bitcast=True)
    return (biased << 23).to(tl.float32, bitcast=True), r * (1.0 + r * p)


@jit
def exp_sum(x, rest) -> Block:
    """exp(x + rest), 2 ulp plus the rounding of the arguments; see `exp_parts` for the ranges."""
    s, p = exp_parts(x, rest)
    return s + s * p


@jit
def expm1(x):
    """exp(x) - 1, 2 ulp; -1 at -inf, inf above 88."""
    s, p = exp_parts(x, 0.0)
    return tl.where(x > _EXP_HIGHEST, float("inf"), (s - 1.0) + s * p)


@jit
def exp_and_complement(x, rest) -> tuple[Block, Block]:
    """(y, 1 - y) for y = exp(x + rest) <= 1, both with all their digits; see `exp_parts`."""
    s, p = exp_parts(x, rest)
    return s + s * p, (1.0 - s) - s * p


@jit
def parts_from_odds(r) -> tuple[Block, Block]:
    """(A, S) with A + S = 1 and A / S = r in [0, inf], 3 ulp each; A = 0 at 0 and S = 0 at inf.

    The larger one is 1 less the smaller one: 1 / (1 + 0) need not be 1 on a GPU, but 1 - 0 is.
    """
    low = r < 1.0
    lesser = tl.where(low, r, 1.0) / (1.0 + r)
    greater = 1.0 - lesser
    return tl.where(low, lesser, greater), tl.where(low, greater, lesser)


@jit
def power(x, p):
    """x^p for x >= 0 and finite p; 0 and inf go where the limit is, 1 for p = 0.

    The logarithm of the result has a relative error of 2.5 ulp: 2e-5 of a result of 1e-30.
    """
    return tl.where(p == 0.0, 1.0, tl.exp2(p * tl.log2(x)))


@jit
def erfcx(x) -> Block:
    """exp(x^2) erfc(x) for x >= 0, 6 ulp; 0 at inf. With exp(-x^2) it is the tail of erfc."""
    v = 1.0 / (1.0 + 0.4 * x)
    p = 0.137561962 + v * (-0.235527724 + v * (0.140446931 + v * -0.0292151608))
    p = 0.171739295 + v * (0.119008251 + v * (0.0839165896 + v * (-0.0468955748 + v * p)))
    return v * (0.225675836 + v * (0.225675866 + v * (0.207613721 + v * p)))


@jit
def atan(x):
    """The arc tangent for x in [0, 1], 2 ulp."""
    w = x * x
    p = -0.0750427395 + w * (0.0426912755 + w * (-0.016068479 + w * 0.00284985197))
    p = 0.199926198 + w * (-0.142036423 + w * (0.106409244 + w * p))
    return x * (1.0 + w * (-0.333330721 + w * p))


@jit
def arccot(x):
    """The angle in [0, pi/2] whose cotangent is x >= 0, 2 ulp; 0 at inf."""
    far = x > 1.0
    angle = atan(tl.where(far, 1.0, x) / tl.where(far, x, 1.0))
    return tl.where(far, angle, _HALF_PI - angle)


@jit
def exp_below_one(x) -> tuple[Block, Block]:
    """(y, 1 - y) for y = exp(x), x <= 0; see `exp_and_complement`."""
    return exp_and_complement(x, 0.0)


@jit
def erf_and_erfc(t, e) -> tuple[Block, Block]:
    """(erf(t), erfc(t)) for t >= 0 and e = exp(-t^2), both with all their digits."""
    small = t < 0.5
    near = tl.where(small, t, 0.0)
    w = near * near
    p = 0.112828225 + w * (-0.0267571844 + w * 0.00471798982)
    body = near * (1.12837911 + w * (-0.376126081 + w * p))
    tail = e * erfcx(t)
    return tl.where(small, body, 1.0 - tail), tl.where(small, 1.0 - body, tail)


@jit
def exp_of_double(y):
    """exp(y) in float32 for a float64 y <= 88, as `exp_sum`; it may be -inf."""
    y = tl.where(y < -200.0, -200.0, y)
    high = y.to(tl.float32)
    return exp_sum(high, (y - high.to(tl.float64)).to(tl.float32))


@jit
def negligible(total):
    """What need not be added to a sum any more: what is left out may be 100 times that."""
    return total * 1e-10


@jit
def log_ratio(x, y):
    """log(x / y) of float64 blocks or numbers."""
    return tl.log(x) - tl.log(y)


@jit
def in_double(x):
    """A block or a number in float64."""
    return tl.cast(x, tl.float64)


@jit
def in_single(x):
    """A block in float32."""
    return x.to(tl.float32)


@jit
def any_of(mask):
    """Whether a mask is true anywhere, for the condition of a loop."""
    return tl.max(mask.to(tl.int32)) > 0
