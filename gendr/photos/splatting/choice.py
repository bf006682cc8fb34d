"""The choice of the backend of the projection of splats: by device, or by name."""

from __future__ import annotations

from typing import Any

from gendr.kernels.backends import Choice


def _load(name: str) -> Any:
    if name == "cpu":
        from gendr.photos.splatting import kernels as module
    elif name == "triton":
        from gendr.photos.splatting import triton as module
    else:
        return None
    return module


kernels_for = Choice("splatting", _load).kernels
