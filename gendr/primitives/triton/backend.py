"""The Triton backend of the primitives; see `gendr.primitives.choice`."""

from __future__ import annotations

from gendr.kernels.triton.launch import available, supports
from gendr.primitives.reference import antialias as topology
from gendr.primitives.triton import antialias, interpolate, raster
from gendr.primitives.triton.texture import Mipmaps as mipmaps
from gendr.primitives.triton.texture import Texture as texture

__all__ = [
    "antialias", "available", "interpolate", "mipmaps", "raster", "supports", "texture", "topology",
]  # fmt: skip
