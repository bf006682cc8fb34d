"""The choice of the backend of the projection of splats: by device, or by name."""

from __future__ import annotations

from gendr.kernels.backends import Choice

_MODULES = {
    "cpu": "gendr.photos.splatting.kernels",
    "triton": "gendr.photos.splatting.triton",
}
kernels_for = Choice("splatting", _MODULES).kernels
