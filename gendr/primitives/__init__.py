"""Rasterize, interpolate, texture, antialias: the primitives of differentiable hard rasterisation.

The names, arguments and conventions are those of the public documentation of nvdiffrast, so that
programs written for it run on a CPU, or an NVIDIA GPU by Triton kernels:

    import gendr.primitives as dr                      # was: import nvdiffrast.torch as dr

    rast, rast_db = dr.rasterize(ctx, pos, tri, (256, 256))
    color, _ = dr.interpolate(colors, rast, tri)
    color = dr.antialias(color, rast, pos, tri)

Images have their rows from the bottom, positions are clip-space, y up. Every result has the same
bits on every run and any number of threads; float32 and float64; derivatives of any order. `soft`
gives, from the same inputs, the alpha of any renderer of the family.

Source: Laine et al., Modular Primitives for High-Performance Differentiable Rendering (2020), and
the documentation.
"""

import sys
from collections.abc import Callable
from typing import Any

from gendr.primitives.antialias import antialias, antialias_construct_topology_hash
from gendr.primitives.devices import on_cpu
from gendr.primitives.interpolate import interpolate
from gendr.primitives.rasterize import (
    DepthPeeler,
    RasterizeCudaContext,
    RasterizeGLContext,
    get_log_level,
    rasterize,
    set_log_level,
)
from gendr.primitives.texture import texture, texture_construct_mip

soft: Callable[..., Any]  # re-exported at first use, see `__getattr__`

__all__ = [
    "DepthPeeler",
    "RasterizeCudaContext",
    "RasterizeGLContext",
    "antialias",
    "antialias_construct_topology_hash",
    "get_log_level",
    "interpolate",
    "on_cpu",
    "rasterize",
    "set_log_level",
    "soft",
    "texture",
    "texture_construct_mip",
]


def __getattr__(name: str) -> Any:
    # `soft` is of the renderer, which stands on the primitives: it is re-exported at first use.
    if name == "soft":
        from importlib import import_module

        globals()[name] = import_module("gendr.rendering.clip_space").soft
        return globals()[name]
    if name == "torch":  # where this module stands in for the package nvdiffrast
        return sys.modules[__name__]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
