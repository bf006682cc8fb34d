"""Functions of float32 blocks for Triton kernels, which take them at compile time.

Signatures; z is a block of any shape; shape, constant and psi are scalars (see `parameters`):

    tails(z, shape, constant) -> (cdf, sf)
    density(z, shape, constant) -> pdf
    shape_slope(z, shape, constant, psi) -> dF/dshape, for distributions that have a shape

They equal the torch classes to 1e-6, in their own tails to 1e-5 relative down to 1e-30, and take
infinite z; a NaN stays one in cdf and sf. The cdf and the pdf of a distribution are written with
the same transcendental functions, which the compiler merges in a kernel that calls both.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from gendr.distributions.kernel_functions import Kind, has_shape, kernel_functions
from gendr.kernels.functions import moved, rebound
from gendr.kernels.triton.functions import compiled

# Stands for the kernel function of a distribution; copies of functions bind it to one.
FUNCTION: Any = None


def _without_shape(z: Any, shape: Any, constant: Any) -> Any:
    return FUNCTION(z)


@cache
def function(name: str, kind: Kind) -> Any:
    """The JIT function of a kernel function of a distribution, which kernels take as a constexpr.

    Args:
        name: by `kernel_name`.
        kind: of the kernel function.

    Raises:
        ValueError: the distribution has no such kernel function.
    """
    of = kernel_functions(name)
    function = of.for_float32(kind)
    if not has_shape(of):
        adapter = rebound(_without_shape, lambda _, value: value, FUNCTION=function)
        function = moved(adapter, function.__module__, f"{name}_{kind}")
    return compiled(function, f"{name}_{kind}")


def parameters(name: str, shape: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The numbers that depend on the shape alone: (shape, constant, psi), float64.

    The shape is rounded to float32, as the kernel sees it. The others are computed in float64; the
    file of the distribution defines them. The host waits only for distributions that define them
    for single numbers.

    Args:
        name: the name of a distribution that has a shape.
        shape: > 0, of any shape itself.
    """
    of, rounded = kernel_functions(name), shape.detach().to(torch.float32).double()

    def found(kind: Kind) -> Tensor:
        if of.has(f"{kind}_float32"):
            return of.for_float32(kind)(rounded)
        every, index = rounded.unique(return_inverse=True)
        return rounded.new_tensor([of.for_float64(kind)(x) for x in every.tolist()])[index]

    return rounded, found("constant"), found("slope_constant")
