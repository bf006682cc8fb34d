"""Bodies in the vocabulary, compiled by Numba for one float64 number."""

# Numba compiles these functions; their arguments are float64.
# pyright: basic, reportMissingParameterType=false

from __future__ import annotations

import math
from functools import cache
from types import FunctionType
from typing import Any

from numba import njit
from numba.extending import register_jitable

from gendr._runtime.bodies import is_word, rebound
from gendr._runtime.numba import mathematics


@register_jitable
def _where(condition, chosen, other):
    return chosen if condition else other


@register_jitable
def _fabs(x):
    return abs(x)


@register_jitable
def _exp_and_complement(x):
    return mathematics.exp(x), -mathematics.expm1(x)


@register_jitable
def _zeros_like(x):
    return 0.0


_WORDS = {
    "where": _where,
    "fabs": _fabs,
    "sqrt": math.sqrt,
    "exp": mathematics.exp,
    "expm1": mathematics.expm1,
    "exp_and_complement": _exp_and_complement,
    "arccot": mathematics.arccot,
    "zeros_like": _zeros_like,
}


@cache
def compiled(body: Any, *, inlined: bool = False) -> Any:
    """Compile a body, and what it calls, into a function that other compiled functions may call.

    Its divisions by 0 give infinities. It is compiled again with each of its callers, which may be
    cached. With `inlined`, a loop around a body without branches can be vectorised even if the body
    is long.
    """
    return njit(error_model="numpy", forceinline=inlined)(rebound(body, _compiled_global))


def _compiled_global(name: str, value: Any) -> Any:
    if is_word(value) and value.__name__ in _WORDS:
        return _WORDS[value.__name__]
    return compiled(value) if isinstance(value, FunctionType) else value
