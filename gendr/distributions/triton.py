"""The laws as functions of float32 blocks for Triton kernels, which take them at compile time.

Signatures; z is a block of any shape; shape, constant and psi are scalars (see `parameters`):

    tails(z, shape, constant) -> (cdf, sf)
    density(z, shape, constant) -> pdf
    shape_slope(z, shape, constant, psi) -> dF/dshape, for laws that have a shape

They equal the torch classes to 1e-6, in their own tails to 1e-5 relative down to 1e-30, and take
infinite z; a NaN stays one in cdf and sf. The cdf and the pdf of a law are written with the same
transcendental functions, which the compiler merges in a kernel that calls both.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from gendr.distributions.bodies import Kind, bodies, has_shape
from gendr.kernels.bodies import moved, rebound
from gendr.kernels.triton.bodies import compiled

BODY: Any = None  # stands for the body of a law; copies of functions bind it to one


def _without_shape(z: Any, shape: Any, constant: Any) -> Any:
    return BODY(z)


@cache
def function(name: str, kind: Kind) -> Any:
    """The JIT function of a body of a law, which kernels take as a constexpr.

    Args:
        name: by `kernel_name`.
        kind: of the body.

    Raises:
        ValueError: the law has no such body.
    """
    of = bodies(name)
    body = of.for_float32(kind)
    if not has_shape(of):
        adapter = rebound(_without_shape, lambda _, value: value, BODY=body)
        body = moved(adapter, body.__module__, f"{name}_{kind}")
    return compiled(body, f"{name}_{kind}")


def parameters(name: str, shape: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The numbers of a law that depend on its shape alone: (shape, constant, psi), float64.

    The shape is rounded to float32, as the kernel sees it. The others are computed in float64; the
    file of the law defines them. The host waits only for laws that define them for single numbers.

    Args:
        name: the name of a law that has a shape.
        shape: > 0, of any shape itself.
    """
    of, rounded = bodies(name), shape.detach().to(torch.float32).double()

    def found(kind: Kind) -> Tensor:
        if of.has(f"{kind}_float32"):
            return of.for_float32(kind)(rounded)
        every, index = rounded.unique(return_inverse=True)
        return rounded.new_tensor([of.for_float64(kind)(x) for x in every.tolist()])[index]

    return rounded, found("constant"), found("slope_constant")
