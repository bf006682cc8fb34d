"""Scalar twins of the generators, for compiled kernels.

    <name>_generator(a, s, n, p, g)            g[i] = g(a[i])
    <name>_weight(a, s, A, S, n, p, w)         w[i] = g'(a[i]) / g'(A[i])
    <name>_weight_p(a, s, A, S, n, p, w)       w[i] = (dg/dp)(a[i]) / g'(A[i])

All but n (int64) and p (float64, ignored by families without one) point to float64. The formulas
are those of the classes, and the edges follow the renderer's rules: g(0) = 0, g = inf where
s <= 0, and both weights are 0 where a, s, A or S is not positive, or where one would overflow.
Each is compiled at first use and cached on disk; kernels call them through their address.
"""

# Numba compiles these functions for pointers to float64.
# pyright: reportMissingParameterType=false

from __future__ import annotations

import functools
import math
from typing import Any

from numba import cfunc, types
from numba.extending import register_jitable

# Numba's cache looks at the time of this file only: touch it after changing what it imports here.
from gendr._runtime.numba.compilation import ensure_cache
from gendr._runtime.numba.mathematics import expm1, log1p

ensure_cache()

_POINTER = types.CPointer(types.float64)
_GENERATOR = types.void(_POINTER, _POINTER, types.int64, types.float64, _POINTER)
_WEIGHT = types.void(_POINTER, _POINTER, _POINTER, _POINTER, types.int64, types.float64, _POINTER)


def generator_address(name: str) -> int:
    """The address of `<name>_generator`; for "average" it is a itself."""
    return _compiled(f"{name}_generator", _GENERATOR).address


def weight_address(name: str) -> int:
    """The address of `<name>_weight`; for "average" it is p, to which callers pass 1 / count."""
    return _compiled(f"{name}_weight", _WEIGHT).address


def weight_p_address(name: str) -> int:
    """The address of `<name>_weight_p`, for families with p."""
    return _compiled(f"{name}_weight_p", _WEIGHT).address


@functools.cache  # keeps the machine code alive, too
def _compiled(name: str, signature: Any) -> Any:
    twin = globals().get(name)
    if twin is None:
        raise ValueError(f"no compiled {name}: 'max' has no generator, and some families have no p")
    # numpy's error model: a division by 0 is inf, not an exception nobody can catch.
    return cfunc(signature, cache=True, error_model="numpy")(twin)


@register_jitable
def _power(x: float, p: float) -> float:
    """x**p, without pow for the exponents of the benchmark."""
    if p == 1.0:
        return x
    if p == 2.0:
        return x * x
    if p == 0.5:
        return math.sqrt(x)
    if p == 0.0:
        return 1.0
    if p == -0.5:
        return 1.0 / math.sqrt(x)
    if p == 3.0:
        return x * x * x
    if p == 4.0:
        return (x * x) * (x * x)
    if p == 5.0:
        return (x * x) * (x * x) * x
    if p == 1.5:
        return x * math.sqrt(x)
    return x**p


@register_jitable
def _inside(a: float, s: float, A: float, S: float) -> bool:
    return (a > 0.0) & (s > 0.0) & (A > 0.0) & (S > 0.0)


@register_jitable
def _finite(w: float) -> float:
    return w if abs(w) < math.inf else 0.0


def average_generator(a, s, n, p, g):
    for i in range(n):
        g[i] = a[i]


def average_weight(a, s, A, S, n, p, w):
    for i in range(n):
        w[i] = p if _inside(a[i], s[i], A[i], S[i]) else 0.0


def probabilistic_generator(a, s, n, p, g):
    for i in range(n):
        g[i] = log1p(a[i] / s[i]) if s[i] > 0.0 else math.inf


def probabilistic_weight(a, s, A, S, n, p, w):
    for i in range(n):
        if _inside(a[i], s[i], A[i], S[i]):
            w[i] = _finite(S[i] / s[i])
        else:
            w[i] = 0.0


def einstein_generator(a, s, n, p, g):
    for i in range(n):
        g[i] = 0.5 * log1p(2.0 * a[i] / s[i]) if s[i] > 0.0 else math.inf


def einstein_weight(a, s, A, S, n, p, w):
    for i in range(n):
        if _inside(a[i], s[i], A[i], S[i]):
            w[i] = _finite(S[i] / s[i] * ((1.0 + A[i]) / (1.0 + a[i])))
        else:
            w[i] = 0.0


def hamacher_generator(a, s, n, p, g):
    for i in range(n):
        g[i] = log1p(p * (a[i] / s[i])) if s[i] > 0.0 else math.inf


def hamacher_weight(a, s, A, S, n, p, w):
    for i in range(n):
        if _inside(a[i], s[i], A[i], S[i]):
            w[i] = _finite(S[i] / s[i] * ((S[i] + p * A[i]) / (s[i] + p * a[i])))
        else:
            w[i] = 0.0


def hamacher_weight_p(a, s, A, S, n, p, w):
    for i in range(n):
        if _inside(a[i], s[i], A[i], S[i]):
            w[i] = _finite(a[i] / (s[i] + p * a[i]) * S[i] * (S[i] + p * A[i]) / p)
        else:
            w[i] = 0.0


def frank_generator(a, s, n, p, g):
    log_p = math.log(p)
    for i in range(n):
        if s[i] > 0.0:
            g[i] = log1p(-expm1(a[i] * log_p) / expm1(-s[i] * log_p))
        else:
            g[i] = math.inf


def frank_weight(a, s, A, S, n, p, w):
    log_p = math.log(p)
    for i in range(n):
        if _inside(a[i], s[i], A[i], S[i]):
            w[i] = _finite(expm1(-S[i] * log_p) / expm1(-s[i] * log_p))
        else:
            w[i] = 0.0


def frank_weight_p(a, s, A, S, n, p, w):
    log_p = math.log(p)
    for i in range(n):
        if _inside(a[i], s[i], A[i], S[i]):
            rate = s[i] / expm1(-s[i] * log_p) - 1.0 / expm1(-log_p)
            w[i] = _finite(-rate * expm1(-S[i] * log_p) / (log_p * p))
        else:
            w[i] = 0.0


def yager_generator(a, s, n, p, g):
    for i in range(n):
        g[i] = _power(a[i], p) if s[i] > 0.0 else math.inf


def yager_weight(a, s, A, S, n, p, w):
    for i in range(n):
        if _inside(a[i], s[i], A[i], S[i]):
            w[i] = _finite(_power(a[i] / A[i], p - 1.0))
        else:
            w[i] = 0.0


def yager_weight_p(a, s, A, S, n, p, w):
    for i in range(n):
        if _inside(a[i], s[i], A[i], S[i]):
            u, total = a[i], A[i]
            w[i] = _finite(_power(u / total, p - 1.0) * u * math.log(u) / p)
        else:
            w[i] = 0.0


def aczel_alsina_generator(a, s, n, p, g):
    for i in range(n):
        g[i] = log1p(a[i] / s[i]) if s[i] > 0.0 else math.inf
    for i in range(n):
        g[i] = _power(g[i], p)


def aczel_alsina_weight(a, s, A, S, n, p, w):
    for i in range(n):
        if _inside(a[i], s[i], A[i], S[i]):
            u, total = log1p(a[i] / s[i]), log1p(A[i] / S[i])
            w[i] = _finite(_power(u / total, p - 1.0) * (S[i] / s[i]))
        else:
            w[i] = 0.0


def aczel_alsina_weight_p(a, s, A, S, n, p, w):
    for i in range(n):
        if _inside(a[i], s[i], A[i], S[i]):
            u, total = log1p(a[i] / s[i]), log1p(A[i] / S[i])
            w[i] = _finite(_power(u / total, p - 1.0) * (u * S[i]) * math.log(u) / p)
        else:
            w[i] = 0.0


def dombi_generator(a, s, n, p, g):
    for i in range(n):
        g[i] = _power(a[i] / s[i], p) if s[i] > 0.0 else math.inf


def dombi_weight(a, s, A, S, n, p, w):
    for i in range(n):
        if _inside(a[i], s[i], A[i], S[i]):
            u, total, rest = a[i] / s[i], A[i] / S[i], S[i] / s[i]
            w[i] = _finite(_power(u / total, p - 1.0) * (rest * rest))
        else:
            w[i] = 0.0


def dombi_weight_p(a, s, A, S, n, p, w):
    for i in range(n):
        if _inside(a[i], s[i], A[i], S[i]):
            u, total = a[i] / s[i], A[i] / S[i]
            w[i] = _finite(_power(u / total, p - 1.0) * (u * S[i] * S[i]) * math.log(u) / p)
        else:
            w[i] = 0.0


def schweizer_sklar_generator(a, s, n, p, g):
    for i in range(n):
        g[i] = expm1(-p * log1p(a[i] / s[i])) if s[i] > 0.0 else math.inf


def schweizer_sklar_weight(a, s, A, S, n, p, w):
    for i in range(n):
        if _inside(a[i], s[i], A[i], S[i]):
            w[i] = _finite(_power(S[i] / s[i], 1.0 - p))
        else:
            w[i] = 0.0


def schweizer_sklar_weight_p(a, s, A, S, n, p, w):
    for i in range(n):
        if _inside(a[i], s[i], A[i], S[i]):
            w[i] = _finite(_power(S[i] / s[i], -p) * S[i] * log1p(a[i] / s[i]) / p)
        else:
            w[i] = 0.0
