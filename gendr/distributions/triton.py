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


def tails(name: str) -> Any:
    """The cdf and the sf of a law."""
    return function(name, "tails")


def density(name: str) -> Any:
    """The pdf of a law."""
    return function(name, "density")


def shape_slope(name: str) -> Any:
    """dF/dshape of a law."""
    return function(name, "shape_slope")


def parameters(name: str, shape: float) -> tuple[float, float, float]:
    """The scalars of a law that depend on its shape alone: (shape, constant, psi).

    The shape is rounded to float32, as the kernel sees it. The others are computed in float64; the
    file of the law defines them.

    Args:
        name: the name of a law that has a shape.
        shape: > 0.
    """
    rounded = torch.tensor(shape, dtype=torch.float32, device="cpu").double().item()
    of = bodies(name)
    return (
        rounded,
        of.for_float32("constant")(rounded),
        of.for_float32("slope_constant")(rounded),
    )
