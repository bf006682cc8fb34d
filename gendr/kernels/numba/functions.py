"""Kernel functions in the vocabulary, compiled by Numba for one float64 number."""

# Numba compiles these functions; their arguments are float64.
# pyright: basic, reportMissingParameterType=false

from __future__ import annotations

import math
from hashlib import sha256
from pathlib import Path
from types import FunctionType
from typing import Any

from numba import cfunc
from numba.extending import register_jitable

from gendr.kernels import vocabulary
from gendr.kernels.functions import KernelFunctions, code_of, is_word, moved, rebound
from gendr.kernels.numba import mathematics
from gendr.kernels.numba.compilation import ensure_cache, inner, ours, renewed
from gendr.kernels.numba.singles import of_lanes
from gendr.kernels.numba.vectors import lanewise

ensure_cache()


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
def _log_of_sum(x, y):
    return math.log1p(x) if x > -0.5 else math.log(y)


@register_jitable
def _power(x, p):
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
def _minimum(x, y):
    return x if x < y else y


@register_jitable
def _zeros_like(x):
    return 0.0


# Words whose definition for numbers is what Numba compiles.
_PLAIN = ("any_of", "negligible", "quotient", "log_ratio", "in_double", "in_single")
_WORDS = {
    "where": _where,
    "fabs": _fabs,
    "sqrt": math.sqrt,
    "exp": mathematics.exp,
    "expm1": mathematics.expm1,
    "exp_and_complement": _exp_and_complement,
    "arccot": mathematics.arccot,
    "log": math.log,
    "log1p": mathematics.log1p,
    "log_of_sum": _log_of_sum,
    "hazard": mathematics.hazard,
    "power": _power,
    "minimum": _minimum,
    "zeros_like": _zeros_like,
    "lgamma": math.lgamma,
    "repeated": range,
    "exp_of_double": mathematics.exp,
    **{name: register_jitable(getattr(vocabulary, name)) for name in _PLAIN},
}


def compiled(function: Any, *, inlined: bool = False) -> Any:
    """Compile a kernel function, and what it calls, for other compiled functions to call.

    Its divisions by 0 give infinities. It is compiled again with each of its callers, which may be
    cached. Inlined, with all that it calls, a kernel function without branches lets the loop around
    it be vectorised, however long.
    """

    def global_of(name: str, value: Any) -> Any:
        if is_word(value) and value.__name__ in _WORDS:
            return _WORDS[value.__name__]
        return compiled(value, inlined=inlined) if isinstance(value, FunctionType) else value

    decorate = inner(cache=False, forceinline=inlined)
    return decorate(rebound(function, global_of))


def compiled_step(
    step: Any, loop: Any, signature: Any, of: KernelFunctions[Any], kind: str, **bound: Any
) -> Any:
    """A loop over a kernel function for vectors of float32 as a C function; see `compiled_loop`.

    Args:
        step: of the loop, an undecorated function of places and arrays (`lanewise`).
        loop: over `STEP`.
        signature: of the loop.
        of: the kernel functions of the member.
        kind: of the kernel function that the loop is about.
        **bound: plain kernel functions that stand for globals of the step.
    """
    kernel_functions = {name: of_lanes(function) for name, function in bound.items()}
    step = rebound(step, lambda _, value: value, **kernel_functions)
    code = sha256(repr(code_of(step)).encode()).hexdigest()[:16]
    return compiled_loop(loop, signature, of, f"{kind}_{code}_float32", STEP=lanewise(step))


def compiled_loop(
    loop: Any, signature: Any, of: KernelFunctions[Any], kind: str, **bound: Any
) -> Any:
    """A loop over one as a C function; keep it, since its address is valid only so long.

    Numba's cache on disk has it beside the kernel functions, under the code of all that it calls:
    no two share an entry. Kernel functions without a file, of a notebook, are compiled by every
    process.

    Args:
        loop: an undecorated function.
        signature: of the loop.
        of: the kernel functions of the member.
        kind: of the kernel function that the loop is about.
        **bound: what stands for globals of the loop.
    """
    function = rebound(loop, lambda _, value: value, **bound)
    digest = sha256(repr(code_of(function)).encode()).hexdigest()[:16]
    file = next(iter(of.functions.values())).__code__.co_filename
    function = moved(function, of.cls.__module__, f"{of.cls.__name__}_{kind}_{digest}", file)
    # With "numpy" a division by zero gives an infinity, without a branch that raises.
    made = cfunc(signature, cache=Path(file).is_file(), error_model="numpy")(ours(function))
    return renewed(made, file)
