"""The Numba backend of the primitives; see `gendr.primitives.choice`."""

from __future__ import annotations

from gendr.kernels.numba.compilation import available, supports
from gendr.primitives.kernels import antialias, interpolate, raster, topology
from gendr.primitives.kernels.sampling import Mipmaps, Texture

__all__ = ["KERNELS", "available", "supports"]

KERNELS = {
    "primitives.rasterize": raster,
    "primitives.interpolate": interpolate,
    "primitives.antialias": antialias,
    "primitives.topology": topology,
    "primitives.texture": Texture,
    "primitives.mipmaps": Mipmaps,
}
