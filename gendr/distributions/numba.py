"""The distributions as loops that Numba compiles one by one; kernels call them by address.

Signatures; all arrays are pointers to float64, n is an int64 and shape a float64, which
distributions without a shape ignore:

    tails(z, n, shape, cdf, sf)      fills cdf[0:n] and sf[0:n]
    density(z, n, shape, pdf)
    tails_and_density(z, n, shape, cdf, sf, pdf)
    shape_slope(z, n, shape, dcdf)   dF/dshape, for distributions that have a shape

`single_loop` has the first and the third in vectors of float32. They equal the torch classes to
1e-13, those of float32 to 1e-6, with the same guards, and take infinite z. Most of the loops
are free of branches and calls, so that LLVM vectorises them: they bound the speed of the renderer.
"""

# The kernel functions are read as float64 functions here; see
# `gendr.distributions.kernel_functions`.
# pyright: basic, reportAttributeAccessIssue=false, reportUnknownParameterType=false

from __future__ import annotations

import ctypes
from functools import cache
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from numba import types
from torch import Tensor

from gendr._common.tracing import refuse_batch
from gendr.distributions.kernel_functions import Kind, has_shape, kernel_functions, kernel_name
from gendr.distributions.standard import StandardDistribution
from gendr.kernels.numba.functions import compiled, compiled_loop, compiled_step
from gendr.kernels.numba.singles import is_plain
from gendr.kernels.numba.vectors import SINGLES, wide

_S = types.CPointer(types.float32)
_POINTER = ctypes.POINTER(ctypes.c_double)
_P = types.CPointer(types.float64)
_TWO = types.void(_P, types.int64, types.float64, _P, _P)
_ONE = types.void(_P, types.int64, types.float64, _P)
_THREE = types.void(_P, types.int64, types.float64, _P, _P, _P)


BOTH: Literal["tails_and_density"] = "tails_and_density"  # a loop over two kernel functions

# Stands for the kernel function of a distribution; every compiled loop is a copy in which it is
# bound to one.
FUNCTION: Any = None
DENSITY: Any = None
CONSTANT: Any = None
PSI: Any = None
STEP: Any = None


def _tails(z, n, shape, cdf, sf):
    wide()
    for i in range(n):
        cdf[i], sf[i] = FUNCTION(z[i])


def _shaped_tails(z, n, shape, cdf, sf):
    wide()
    constant = CONSTANT(shape)
    for i in range(n):
        cdf[i], sf[i] = FUNCTION(z[i], shape, constant)


def _density(z, n, shape, pdf):
    wide()
    for i in range(n):
        pdf[i] = FUNCTION(z[i])


def _shaped_density(z, n, shape, pdf):
    wide()
    constant = CONSTANT(shape)
    for i in range(n):
        pdf[i] = FUNCTION(z[i], shape, constant)


# LLVM computes what both kernel functions need once.
def _tails_and_density(z, n, shape, cdf, sf, pdf):
    wide()
    for i in range(n):
        x = z[i]
        cdf[i], sf[i] = FUNCTION(x)
        pdf[i] = DENSITY(x)


def _shaped_tails_and_density(z, n, shape, cdf, sf, pdf):
    wide()
    constant = CONSTANT(shape)
    for i in range(n):
        x = z[i]
        cdf[i], sf[i] = FUNCTION(x, shape, constant)
        pdf[i] = DENSITY(x, shape, constant)


def _shaped_slope(z, n, shape, dcdf):
    wide()
    constant, psi = CONSTANT(shape), PSI(shape)
    for i in range(n):
        dcdf[i] = FUNCTION(z[i], shape, constant, psi)


def _step_of_tails(i, z, cdf, sf):
    cdf[i], sf[i] = FUNCTION(z[i])


def _single_tails(z, n, shape, cdf, sf):
    for i in range(0, n, SINGLES):
        STEP(i, z, cdf, sf)


def _step_of_both(i, z, cdf, sf, pdf):
    x = z[i]
    cdf[i], sf[i] = FUNCTION(x)
    pdf[i] = DENSITY(x)


def _single_tails_and_density(z, n, shape, cdf, sf, pdf):
    for i in range(0, n, SINGLES):
        STEP(i, z, cdf, sf, pdf)


_SINGLE_LOOPS = {
    "tails": (_step_of_tails, _single_tails, types.void(_S, types.int64, types.float64, _S, _S)),
    BOTH: (_step_of_both, _single_tails_and_density,
           types.void(_S, types.int64, types.float64, _S, _S, _S)),
}  # fmt: skip
_LOOPS = {
    ("tails", False): _tails,
    ("tails", True): _shaped_tails,
    (BOTH, False): _tails_and_density,
    (BOTH, True): _shaped_tails_and_density,
    ("density", False): _density,
    ("density", True): _shaped_density,
    ("shape_slope", True): _shaped_slope,
}


@cache
def loop(name: str, kind: Kind | Literal["tails_and_density"]) -> Any:
    """The compiled loop over one; kept alive, since its address is valid only so long.

    Args:
        name: by `kernel_name`.
        kind: of the kernel function, or `BOTH`.

    Raises:
        ValueError: the distribution has no such kernel function.
    """
    of = kernel_functions(name)
    shaped = has_shape(of)
    parts: dict[str, Kind] = (
        {"FUNCTION": "tails", "DENSITY": "density"} if kind == BOTH else {"FUNCTION": kind}
    )
    bound = {
        word: compiled(of.for_float64(part), inlined=_inlined(of, part))
        for word, part in parts.items()
    }
    if shaped:
        bound["CONSTANT"] = compiled(of.for_float64("constant"))
    if kind == "shape_slope":
        bound["PSI"] = compiled(of.for_float64("slope_constant"))
    signature = {"tails": _TWO, BOTH: _THREE}.get(kind, _ONE)
    return compiled_loop(_LOOPS[kind, shaped], signature, of, kind, **bound)


def has_single(name: str) -> bool:
    """Whether `single_loop` has a distribution: plain texts (`singles.is_plain`), and no shape."""
    of = kernel_functions(name)
    texts = [of.for_float32(part) for part in ("tails", "density")]
    return not has_shape(of) and all(map(is_plain, texts))


@cache
def single_loop(name: str, kind: Literal["tails", "tails_and_density"]) -> Any:
    """The loop of a distribution, which `has_single`, in vectors of float32.

    Args:
        name: by `kernel_name`.
        kind: of the kernel function, or `BOTH`.
    """
    of = kernel_functions(name)
    bound = {"FUNCTION": of.for_float32("tails")}
    if kind == BOTH:
        bound["DENSITY"] = of.for_float32("density")
    step, loop, signature = _SINGLE_LOOPS[kind]
    return compiled_step(step, loop, signature, of, kind, **bound)


def _inlined(of: Any, kind: str) -> bool:
    """Whether it has no loop: those with a second form for Triton may loop over a series."""
    return not (has_shape(of) and of.has(f"{kind}_float32"))


def evaluated(
    cls: type[StandardDistribution], kind: Kind, z: Tensor, shape: Tensor
) -> list[Tensor]:
    """What one with a shape gives for tensors of one size, one number after the other.

    Returns:
        (cdf, sf), or (dF/dshape,), float64 without gradients, where z lives.
    """
    for each in (z, shape):
        refuse_batch(f"the distribution {kernel_name(cls)!r}", each)
    shapes = shape.detach().double().flatten().cpu()
    order = shapes.argsort(stable=True) if bool((shapes != shapes[:1]).any()) else slice(None)
    shapes, inputs = shapes[order].numpy(), z.detach().double().flatten().cpu()[order].numpy()
    outputs = np.empty((2 if kind == "tails" else 1, len(inputs)))
    run = loop(kernel_name(cls), kind).ctypes
    starts = np.flatnonzero(np.diff(shapes, prepend=np.nan))
    for start, stop in pairwise([*starts, len(inputs)]):
        arrays = [a[start:stop].ctypes.data_as(_POINTER) for a in (inputs, *outputs)]
        run(arrays[0], stop - start, shapes[start], *arrays[1:])
    found = torch.empty(len(outputs), z.numel(), dtype=torch.float64, device="cpu")
    found[:, order] = torch.from_numpy(outputs)
    return [each.to(z.device).reshape(z.shape) for each in found]


def tails_address(name: str) -> int:
    """The address of the compiled loop over cdf and sf."""
    return loop(name, "tails").address


def density_address(name: str) -> int:
    """The address of the compiled loop over the pdf."""
    return loop(name, "density").address
