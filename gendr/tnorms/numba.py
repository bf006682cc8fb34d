"""The generators and weights as loops that Numba compiles, for kernels that call them by address.

    generator(a, s, n, p, g)            g[i] = g(a[i])
    weight(a, s, A, S, n, p, w)         w[i] = g'(a[i]) / g'(A[i])
    weight_p(a, s, A, S, n, p, w)       w[i] = (dg/dp)(a[i]) / g'(A[i]), for families with p

All but n (int64) and p (float64, ignored by families without one) point to float64. They equal the
torch classes to 1e-13; the edges are those of `gendr.tnorms.bodies`.
"""

# The bodies are read as float64 functions here; see `gendr.tnorms.bodies`.
# pyright: basic, reportMissingParameterType=false, reportUnknownParameterType=false

from __future__ import annotations

import inspect
import sys
from functools import cache
from typing import Any

from numba import cfunc, types

from gendr._runtime.bodies import moved, rebound
from gendr._runtime.numba.bodies import compiled
from gendr._runtime.numba.compilation import ensure_cache
from gendr.tnorms.bodies import Kind, body, derives, of_norm

ensure_cache()

_P = types.CPointer(types.float64)
_GENERATOR = types.void(_P, _P, types.int64, types.float64, _P)
_WEIGHT = types.void(_P, _P, _P, _P, types.int64, types.float64, _P)

# What every family binds to its own.
BODY: Any = None
OF_NORM: Any = None


def _generator(a, s, n, p, g):
    for i in range(n):
        g[i] = BODY(a[i], s[i], p)


def _norm_generator(a, s, n, p, g):
    # Two loops: the first one has no branches and is vectorised, the second one chooses by p.
    for i in range(n):
        g[i] = BODY(a[i], s[i], p)
    for i in range(n):
        g[i] = OF_NORM(g[i], p)


def _weight(a, s, A, S, n, p, w):
    for i in range(n):
        w[i] = BODY(a[i], s[i], A[i], S[i], p)


@cache
def loop(name: str, kind: Kind) -> Any:
    """The compiled loop over a body of a family; kept, for its address dies with it.

    Numba's disk cache keeps it as part of the family's file: it is compiled anew when that changes,
    but not when the machinery or the mathematics does (touch the family's file after that).

    Raises:
        ValueError: the family has no such body.
    """
    function, signature = (_generator, _GENERATOR) if kind == "generator" else (_weight, _WEIGHT)
    bound: dict[str, Any] = {}
    if derives(name, kind):
        function, bound["OF_NORM"], kind = _norm_generator, compiled(of_norm), "measure"
    own = body(name, kind)
    bound["BODY"] = compiled(own, inlined=True)
    function = rebound(function, lambda _, value: value, **bound)
    file = inspect.getfile(sys.modules[own.__module__])
    function = moved(function, own.__module__, f"{name}_{kind}", file)
    # numpy: a division by zero gives an infinity instead of a branch that raises.
    return cfunc(signature, cache=True, error_model="numpy")(function)


def generator_address(name: str) -> int:
    """Where the compiled loop over the generator lies; that of "average" is a itself."""
    return loop(name, "generator").address


def weight_address(name: str) -> int:
    """Where the loop over g'(a) / g'(A) lies; that of "average" is p, to which 1 / count goes."""
    return loop(name, "weight").address


def weight_p_address(name: str) -> int:
    """Where the loop over (dg/dp)(a) / g'(A) lies, for families with p."""
    return loop(name, "weight_p").address
