"""Bodies in the vocabulary, compiled by Triton for blocks of float32."""

from __future__ import annotations

from functools import cache
from types import FunctionType
from typing import Any

import triton
import triton.language as tl

from gendr._runtime.bodies import is_word, rebound
from gendr._runtime.triton import mathematics
from gendr._runtime.triton.launch import interpreted


def _primitive(name: str) -> Any:
    """A function of `triton.language`, looked up at each call where the interpreter replaces it."""
    return (lambda *args: getattr(tl, name)(*args)) if interpreted() else getattr(tl, name)


_WORDS = {
    **{name: _primitive(name) for name in ("where", "sqrt", "exp", "log", "minimum", "zeros_like")},
    "fabs": _primitive("abs"),
    "expm1": mathematics.expm1,
    "exp_and_complement": mathematics.exp_below_one,
    "arccot": mathematics.arccot,
    "log1p": mathematics.log1p,
    "log_of_sum": mathematics.log_of_sum,
    "hazard": mathematics.hazard,
    "parts_from_odds": mathematics.parts_from_odds,
    "power": mathematics.power,
}


# Triton evaluates annotations too, and looks their names up among the globals.
ANNOTATIONS = {"Any": tl.tensor, "Block": tl.tensor, "Number": tl.tensor}


@cache
def compiled(body: Any) -> Any:
    """Make a JIT function of a body and of what it calls.

    Numbers of its module become compile-time constants. Names that its module lacks are looked up
    in `gendr._runtime.triton.mathematics`, so that a body for Triton alone need not import them,
    except for type checkers; `tl` is at hand as well.
    """
    return triton.jit(rebound(body, _compiled_global, tl=tl, **ANNOTATIONS))


def _compiled_global(name: str, value: Any) -> Any:
    if is_word(value) and value.__name__ in _WORDS:
        return _WORDS[value.__name__]
    if isinstance(value, FunctionType):
        return compiled(value)
    if isinstance(value, (int, float)):
        return tl.constexpr(value)
    return getattr(mathematics, name, None) if value is None else value
