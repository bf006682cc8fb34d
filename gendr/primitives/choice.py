"""Which kernels serve a tensor: by its device, or by the name of a backend."""

from __future__ import annotations

from gendr.kernels.backends import Choice

__all__ = ["kernels_for"]

_MODULES = {
    "cpu": "gendr.primitives.kernels.backend",
    "triton": "gendr.primitives.triton.backend",
}
kernels_for = Choice("primitives", _MODULES, traced=True).kernels
