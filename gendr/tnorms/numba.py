"""The generators and weights as loops that Numba compiles, for kernels that call them by address.

    generator(a, s, n, p, g)            g[i] = g(a[i])
    inverse(t, n, p, A, S)              A[i] and S[i] = 1 - A[i] with g(A[i]) = t[i]; A may be t
    weight(a, s, A, S, n, p, w)         w[i] = g'(a[i]) / g'(A[i])
    weight_p(a, s, A, S, n, p, w)       w[i] = (dg/dp)(a[i]) / g'(A[i]), for families with p

All but n (int64) and p (float64, ignored by families without one) point to float64. They equal the
torch classes to 1e-13; the edges are those of `gendr.tnorms.kernel_functions`.
"""

# The kernel functions are read as float64 functions here; see `gendr.tnorms.kernel_functions`.
# pyright: basic, reportMissingParameterType=false, reportUnknownParameterType=false

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import numpy as np
from numba import types

from gendr.kernels.numba.functions import compiled, compiled_loop, compiled_step
from gendr.kernels.numba.singles import is_plain
from gendr.kernels.numba.vectors import SINGLES, wide
from gendr.tnorms.kernel_functions import Kind, derives, kernel_function, kernel_functions, of_norm

_P = types.CPointer(types.float64)
_S = types.CPointer(types.float32)
_GENERATOR = types.void(_P, _P, types.int64, types.float64, _P)
_INVERSE = types.void(_P, types.int64, types.float64, _P, _P)
_WEIGHT = types.void(_P, _P, _P, _P, types.int64, types.float64, _P)

# What every family binds to its own.
FUNCTION: Any = None
OF_NORM: Any = None
STEP: Any = None


def _generator(a, s, n, p, g):
    wide()
    for i in range(n):
        g[i] = FUNCTION(a[i], s[i], p)


def _norm_generator(a, s, n, p, g):
    # Two loops: the first one has no branches and is vectorised, the second one chooses by p.
    wide()
    for i in range(n):
        g[i] = FUNCTION(a[i], s[i], p)
    for i in range(n):
        g[i] = OF_NORM(g[i], p)


def _inverse(t, n, p, A, S):
    wide()
    for i in range(n):
        A[i], S[i] = FUNCTION(t[i], p)


def _weight(a, s, A, S, n, p, w):
    wide()
    for i in range(n):
        w[i] = FUNCTION(a[i], s[i], A[i], S[i], p)


def _step_of_generator(i, a, s, p, g):
    g[i] = FUNCTION(a[i], s[i], p)


def _single_generator(a, s, n, p, g):
    narrow = np.float32(p)
    for i in range(0, n, SINGLES):
        STEP(i, a, s, narrow, g)


def _step_of_weight(i, a, s, A, S, p, w):
    w[i] = FUNCTION(a[i], s[i], A[i], S[i], p)


def _single_weight(a, s, A, S, n, p, w):
    narrow = np.float32(p)
    for i in range(0, n, SINGLES):
        STEP(i, a, s, A, S, narrow, w)


def _step_of_inverse(i, t, p, A, S):
    A[i], S[i] = FUNCTION(t[i], p)


def _single_inverse(t, n, p, A, S):
    narrow = np.float32(p)
    for i in range(0, n, SINGLES):
        STEP(i, t, narrow, A, S)


_SINGLE_LOOPS = {
    "inverse": (_step_of_inverse, _single_inverse,
                types.void(_S, types.int64, types.float64, _S, _S)),
    "generator": (_step_of_generator, _single_generator,
                  types.void(_S, _S, types.int64, types.float64, _S)),
    "weight": (_step_of_weight, _single_weight,
               types.void(_S, _S, _S, _S, types.int64, types.float64, _S)),
}  # fmt: skip
_LOOPS = {"generator": (_generator, _GENERATOR), "inverse": (_inverse, _INVERSE)}


@cache
def loop(name: str, kind: Kind) -> Any:
    """The compiled loop over a kernel function of a family; kept, for its `address` dies with it.

    The generator of "average" is a itself, and its weight p, to which 1 / count goes.

    Args:
        name: by `kernel_name`.
        kind: of the kernel function.

    Raises:
        ValueError: the family has no such kernel function.
    """
    function, signature = _LOOPS.get(kind, (_weight, _WEIGHT))
    bound: dict[str, Any] = {}
    if kind == "generator" and derives(name, kind):
        function, bound["OF_NORM"], kind = _norm_generator, compiled(of_norm), "measure"
    bound["FUNCTION"] = compiled(kernel_function(name, kind), inlined=True)
    return compiled_loop(function, signature, kernel_functions(name), kind, **bound)


def has_single(name: str) -> bool:
    """Whether `single_loop` has a family: its texts are plain, see `singles.is_plain`."""
    if kernel_functions(name).cls.kind != "archimedean":
        return False
    return all(is_plain(kernel_function(name, part, float32=True)) for part in _SINGLE_LOOPS)


@cache
def single_loop(name: str, kind: Literal["generator", "inverse", "weight"]) -> Any:
    """The loop of a family, which `has_single`, in vectors of float32.

    Args:
        name: by `kernel_name`.
        kind: of the kernel function.
    """
    step, loop, signature = _SINGLE_LOOPS[kind]
    text = kernel_function(name, kind, float32=True)
    return compiled_step(step, loop, signature, kernel_functions(name), kind, FUNCTION=text)
