"""The Numba backend of the primitives; see `gendr.primitives.choice`."""

from __future__ import annotations

from gendr.kernels.numba.compilation import available, supports
from gendr.primitives.kernels import antialias, interpolate, raster, topology
from gendr.primitives.kernels.sampling import Mipmaps as mipmaps
from gendr.primitives.kernels.sampling import Texture as texture

__all__ = [
    "antialias", "available", "interpolate", "mipmaps", "raster", "supports", "texture", "topology",
]  # fmt: skip
