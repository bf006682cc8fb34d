"""Triton twins of the generators, elementwise on float32 blocks of any shape.

    <name>_generator(a, s, p)            g(a)
    <name>_inverse(t, p)                 (A, S) with g(A) = t in [0, inf]
    <name>_weight(a, s, A, S, p)         g'(a) / g'(A)
    <name>_weight_p(a, s, A, S, p)       (dg/dp)(a) / g'(A), for families with p

p is a float32 scalar, or a block that broadcasts; families without one ignore it. The edges follow
the renderer's rules: g(0) = 0, g = inf where s <= 0, and both weights are 0 where a, s, A or S is
not positive, or where one would overflow. "average" has the generator a and takes 1 / count as p.

The mathematics is that of the classes, the forms are chosen for float32: no factor overflows or
vanishes unless the result does, and no difference cancels. A generator itself may leave the range
(s^p, odds^p): then g = inf, and as long as |p| <= 4, A rounds to 1 there; or g = 0, where a^p is
below the least float32. A power costs its exponent in units of the last place: for |p| <= 4 the
relative error is within 3e-6 where a and s exceed 1e-3, and grows to 2e-5 where one is 1e-30.
Without powers (probabilistic, Einstein, Hamacher, Frank) it is within 1e-6 throughout.
"""

# Triton compiles these functions; their arguments are blocks of float32.
# pyright: reportMissingParameterType=false

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from gendr._runtime.triton.mathematics import exp_and_complement, expm1, log1p, power


def generator_twin(name: str) -> Any:
    """The JIT function `<name>_generator`.

    Raises:
        ValueError: there is none: "max" has no generator.
    """
    return _twin(f"{name}_generator")


def inverse_twin(name: str) -> Any:
    """The JIT function `<name>_inverse`.

    Raises:
        ValueError: there is none: "max" has no generator.
    """
    return _twin(f"{name}_inverse")


def weight_twin(name: str) -> Any:
    """The JIT function `<name>_weight`.

    Raises:
        ValueError: there is none: "max" has no generator.
    """
    return _twin(f"{name}_weight")


def weight_p_twin(name: str) -> Any:
    """The JIT function `<name>_weight_p`.

    Raises:
        ValueError: there is none: the family has no p.
    """
    return _twin(f"{name}_weight_p")


def _twin(name: str) -> Any:
    twin = globals().get(name)
    if twin is None:
        raise ValueError(f"no Triton {name}: 'max' has no generator, and some families have no p")
    return twin


@triton.jit
def _unless_full(g, s):
    """A generator, with its edge: inf where s <= 0."""
    return tl.where(s > 0.0, g, float("inf"))


@triton.jit
def _inside(w, a, s, A, S):
    """A weight, with its edges: 0 where an argument is not positive, or the weight not finite."""
    live = (a > 0.0) & (s > 0.0) & (A > 0.0) & (S > 0.0)
    w = tl.where(live, w, 0.0)
    return tl.where(tl.abs(w) < float("inf"), w, 0.0)


@triton.jit
def _log_of_sum(x, y):
    """The logarithm of y = 1 + x, from whichever of the two has more digits."""
    return tl.where(x > -0.5, log1p(x), tl.log(y))


@triton.jit
def _hazard(a, s):
    """-log(s), from whichever of a and s has more digits."""
    return -_log_of_sum(-a, s)


@triton.jit
def _from_hazard(u):
    """(A, S) with S = exp(-u), u in [0, inf]."""
    S, A = exp_and_complement(-u, 0.0)
    return A, S


@triton.jit
def _from_odds(r):
    """(A, S) with A / S = r in [0, inf]."""
    S = 1.0 / (1.0 + r)
    return tl.where(r < 1.0, r * S, 1.0 / (1.0 + 1.0 / r)), S


@triton.jit
def average_generator(a, s, p):
    return a


@triton.jit
def average_inverse(t, p):
    A = tl.minimum(t * p, 1.0)
    # S tells the weights which pixels are saturated; the mean is linear, and passes on everywhere.
    return A, tl.zeros_like(A) + 1.0


@triton.jit
def average_weight(a, s, A, S, p):
    return _inside(p, a, s, A, S)


@triton.jit
def probabilistic_generator(a, s, p):
    return _unless_full(_hazard(a, s), s)


@triton.jit
def probabilistic_inverse(t, p):
    return _from_hazard(t)


@triton.jit
def probabilistic_weight(a, s, A, S, p):
    return _inside(S / s, a, s, A, S)


@triton.jit
def einstein_generator(a, s, p):
    return _unless_full(0.5 * log1p(2.0 * (a / s)), s)


@triton.jit
def einstein_inverse(t, p):
    return _from_odds(0.5 * expm1(2.0 * t))


@triton.jit
def einstein_weight(a, s, A, S, p):
    return _inside(S / s * ((1.0 + A) / (1.0 + a)), a, s, A, S)


@triton.jit
def hamacher_generator(a, s, p):
    return _unless_full(log1p(p * (a / s)), s)


@triton.jit
def hamacher_inverse(t, p):
    return _from_odds(expm1(t) / p)


@triton.jit
def hamacher_weight(a, s, A, S, p):
    return _inside(S / s * ((S + p * A) / (s + p * a)), a, s, A, S)


@triton.jit
def hamacher_weight_p(a, s, A, S, p):
    return _inside(a / (s + p * a) * S * ((S + p * A) / p), a, s, A, S)


@triton.jit
def frank_generator(a, s, p):
    log_p = tl.log(p)
    # |.|: where s log(p) underflows the quotient is a number over a zero of either sign.
    return _unless_full(log1p(tl.abs(expm1(a * log_p) / expm1(-s * log_p))), s)


@triton.jit
def frank_inverse(t, p):
    log_p = tl.log(p)
    left, gone = exp_and_complement(-t, 0.0)
    A = -_log_of_sum((1.0 - p) / p * gone, left + gone / p) / log_p
    S = _log_of_sum((p - 1.0) * left, gone + p * left) / log_p
    # At the ends log(p) / log(p) may round to a neighbour of 1.
    A, S = tl.minimum(A, 1.0), tl.minimum(S, 1.0)
    return tl.where(left > 0.0, A, 1.0), tl.where(gone > 0.0, S, 1.0)


@triton.jit
def frank_weight(a, s, A, S, p):
    log_p = tl.log(p)
    return _inside(expm1(-S * log_p) / expm1(-s * log_p), a, s, A, S)


@triton.jit
def _frank_rate(a, s, log_p):
    """The derivative p dg/dp = s / expm1(-sL) - 1 / expm1(-L), L = log p, to relative precision.

    As -(a + s expm1(-aL) / expm1(sL)) / expm1(-L) it keeps its digits for small a and small s
    alike, and cancels for small L only. There the Bernoulli series of L / (1 - exp(-L)) less that
    of sL, with factor 1 - s^2 = a (1 + s) taken out, gives
    a/2 + (1 - s^2) L (1/12 - (1 + s^2) L^2 / 720 + (1 + s^2 + s^4) L^4 / 30240 - ...).
    """
    closed = -(a + s * (expm1(-a * log_p) / expm1(s * log_p))) / expm1(-log_p)
    q, r = log_p * log_p, s * s
    sum2 = 1.0 + r
    sum3 = 1.0 + r * sum2
    sum4 = 1.0 + r * sum3
    tail = 1.0 / 720.0 * sum2 - q * (1.0 / 30240.0 * sum3 - q * (1.0 / 1209600.0 * sum4))
    series = a * (0.5 + (1.0 + s) * (log_p * (1.0 / 12.0 - q * tail)))
    # Up to there the term left out is below 3e-8 of the sum, and the closed form loses a digit.
    return tl.where(tl.abs(log_p) < 0.75, series, closed)


@triton.jit
def frank_weight_p(a, s, A, S, p):
    log_p = tl.log(p)
    inverse_slope = -expm1(-S * log_p) / log_p  # 1 / g'(A)
    return _inside(_frank_rate(a, s, log_p) / p * inverse_slope, a, s, A, S)


@triton.jit
def yager_generator(a, s, p):
    return _unless_full(power(a, p), s)


@triton.jit
def yager_inverse(t, p):
    # Unlike 1 - A this S has all the digits that t has, next to t = 1.
    S = tl.where(t < 1.0, -expm1(tl.log(t) / p), 0.0)
    return tl.minimum(power(t, 1.0 / p), 1.0), S


@triton.jit
def yager_weight(a, s, A, S, p):
    return _inside(power(a / A, p - 1.0), a, s, A, S)


@triton.jit
def yager_weight_p(a, s, A, S, p):
    log_a = _log_of_sum(-s, a)
    return _inside(power(a / A, p - 1.0) * a * log_a / p, a, s, A, S)


@triton.jit
def aczel_alsina_generator(a, s, p):
    return _unless_full(power(_hazard(a, s), p), s)


@triton.jit
def aczel_alsina_inverse(t, p):
    return _from_hazard(power(t, 1.0 / p))


@triton.jit
def aczel_alsina_weight(a, s, A, S, p):
    u, total = _hazard(a, s), _hazard(A, S)
    return _inside(power(u / total, p - 1.0) * (S / s), a, s, A, S)


@triton.jit
def aczel_alsina_weight_p(a, s, A, S, p):
    u, total = _hazard(a, s), _hazard(A, S)
    # The power meets u before S: for p < 1 it is large where u is small.
    return _inside(power(u / total, p - 1.0) * u * S * (tl.log(u) / p), a, s, A, S)


@triton.jit
def dombi_generator(a, s, p):
    return _unless_full(power(a / s, p), s)


@triton.jit
def dombi_inverse(t, p):
    return _from_odds(power(t, 1.0 / p))


@triton.jit
def _dombi_share(a, s, A, S, p):
    """(r/R)^(p-1) S/s, r and R the odds of a and A; r/R itself may leave the range."""
    return power(a / A, p - 1.0) * power(S / s, p)


@triton.jit
def dombi_weight(a, s, A, S, p):
    return _inside(_dombi_share(a, s, A, S, p) * (S / s), a, s, A, S)


@triton.jit
def dombi_weight_p(a, s, A, S, p):
    return _inside(_dombi_share(a, s, A, S, p) * a * S * (tl.log(a / s) / p), a, s, A, S)


@triton.jit
def schweizer_sklar_generator(a, s, p):
    return _unless_full(expm1(-p * _hazard(a, s)), s)


@triton.jit
def schweizer_sklar_inverse(t, p):
    return _from_hazard(log1p(t) / -p)


@triton.jit
def schweizer_sklar_weight(a, s, A, S, p):
    return _inside(power(S / s, 1.0 - p), a, s, A, S)


@triton.jit
def schweizer_sklar_weight_p(a, s, A, S, p):
    return _inside(power(S / s, -p) * S * (_hazard(a, s) / p), a, s, A, S)
