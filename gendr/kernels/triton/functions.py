"""Kernel functions in the vocabulary, compiled by Triton for blocks of float32."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

import triton
import triton.language as tl

from gendr.kernels.functions import is_word, moved, plain_code, rebound
from gendr.kernels.triton import mathematics
from gendr.kernels.triton.launch import interpreted


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
    "repeated": _primitive("static_range"),
    "any_of": mathematics.any_of,
    "negligible": mathematics.negligible,
    "quotient": _primitive("div_rn"),
    "log_ratio": mathematics.log_ratio,
    "in_double": mathematics.in_double,
    "in_single": mathematics.in_single,
    "exp_of_double": mathematics.exp_of_double,
}


# Triton evaluates annotations too, and looks their names up among the globals.
ANNOTATIONS = {"Any": tl.tensor, "Block": tl.tensor, "Number": tl.tensor}


def compiled(source: Any, name: str = "") -> Any:
    """Make a JIT function of a kernel function and of what it calls.

    Numbers of its module become compile-time constants. Names that its module lacks are looked up
    in `gendr.kernels.triton.mathematics`, so that a kernel function for Triton alone need not
    import them, except for type checkers; `tl` is at hand as well.

    Args:
        source: an undecorated function.
        name: that a kernel function of the user's own gets, as Triton tells functions apart by full
            names.

    Raises:
        ValueError: the source text of the kernel function is not known, or has become another one.
    """
    own = not source.__module__.startswith("gendr.")
    if own:
        _check_source(source)
    function = rebound(source, _compiled_global, tl=tl, **ANNOTATIONS)
    return triton.jit(moved(function, source.__module__, name) if own and name else function)


def _check_source(source: Any) -> None:
    """Look whether the text that Triton will read is that of the function that Python has."""
    whose = f"the source text of {source.__qualname__} of {source.__module__}"
    try:
        lines, start = inspect.findsource(source)
    except OSError:
        raise ValueError(
            f"Triton needs {whose}, which stands in no file; write it into one, or use another "
            "backend"
        ) from None
    try:
        # The whole file, because bytecode depends on what is imported around a function.
        code = compile("".join(lines), "", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True)
    except SyntaxError:
        found = []
    else:
        found = [plain_code(c) for c in _codes(code) if c.co_firstlineno == start + 1]
    if plain_code(source.__code__) not in found:
        raise ValueError(
            f"Triton reads {whose}, which was edited after it was imported; reload the module "
            "(importlib.reload), or start again"
        )


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _codes(value)


def _compiled_global(name: str, value: Any) -> Any:
    if is_word(value) and value.__name__ in _WORDS:
        return _WORDS[value.__name__]
    if isinstance(value, FunctionType):
        return compiled(value)
    if isinstance(value, (int, float)):
        return tl.constexpr(value)
    return getattr(mathematics, name, None) if value is None else value
