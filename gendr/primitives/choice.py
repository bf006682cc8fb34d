"""Which kernels serve a tensor: by its device, or by the name of a backend."""

from __future__ import annotations

from typing import Any

from gendr.kernels.backends import Choice

__all__ = ["kernels_for"]


def _load(name: str) -> Any:
    if name == "cpu":
        from gendr.primitives.kernels import backend as module
    elif name == "triton":
        from gendr.primitives.triton import backend as module
    else:
        return None
    return module


kernels_for = Choice("primitives", _load, traced=True).kernels
