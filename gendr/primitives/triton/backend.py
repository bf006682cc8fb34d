"""The Triton backend of the primitives; see `gendr.primitives.choice`."""

from __future__ import annotations

from gendr.kernels.triton.launch import available, supports
from gendr.primitives.reference import antialias as topology
from gendr.primitives.triton import antialias, interpolate, raster
from gendr.primitives.triton.texture import Mipmaps, Texture

__all__ = ["KERNELS", "available", "supports"]

KERNELS = {
    "primitives.rasterize": raster,
    "primitives.interpolate": interpolate,
    "primitives.antialias": antialias,
    "primitives.topology": topology,
    "primitives.texture": Texture,
    "primitives.mipmaps": Mipmaps,
}
