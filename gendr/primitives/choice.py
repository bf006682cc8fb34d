"""Which kernels serve a tensor; a Triton backend would be another answer here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from torch import Tensor

from gendr._runtime.numba.compilation import available
from gendr._runtime.tracing import constant

__all__ = ["kernels_for"]


@constant
def _load(name: str) -> Any:
    """The module of kernels, or None if Numba is missing."""
    return None if available() is not None else import_module(f"gendr.primitives.kernels.{name}")


def kernels_for(name: str, tensor: Tensor) -> Any:
    """The kernels of a primitive for tensors like this one; None for its definition."""
    return _load(name) if tensor.device.type == "cpu" else None
