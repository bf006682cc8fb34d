"""The Numba backend of the primitives; see `gendr.primitives.choice`."""

from __future__ import annotations

from gendr.kernels.numba.compilation import available, supports
from gendr.primitives.graphs import rasterized
from gendr.primitives.kernels import antialias, interpolate, raster, topology
from gendr.primitives.kernels.sampling import Mipmaps, Texture

__all__ = ["KERNELS", "available", "supports"]


class _Rasterize:
    """The rasteriser; pictures do without the operator, which PyTorch takes long to register."""

    backend = "cpu"
    forward, backward = staticmethod(raster.forward), staticmethod(raster.backward)
    traced = staticmethod(rasterized(backend, raster.visible_ids))


KERNELS = {
    "primitives.rasterize": _Rasterize,
    "primitives.interpolate": interpolate,
    "primitives.antialias": antialias,
    "primitives.topology": topology,
    "primitives.texture": Texture,
    "primitives.mipmaps": Mipmaps,
}
