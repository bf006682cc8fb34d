"""Which kernels serve a tensor; a Triton backend would be another answer here."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from gendr._common.tracing import constant
from gendr.kernels.numba.compilation import available

__all__ = ["kernels_for"]


@constant
def _works() -> bool:
    return available() is None


def kernels_for(name: str, tensor: Tensor) -> Any:
    """The kernels of a primitive for tensors like this one; None for its definition.

    Args:
        name: a module of `gendr.primitives.kernels`, imported by a plain statement, because
            `torch.compile` cannot trace `import_module`.
        tensor: an input.
    """
    if tensor.device.type != "cpu" or not _works():
        return None
    if name == "raster":
        from gendr.primitives.kernels import raster as module
    elif name == "interpolate":
        from gendr.primitives.kernels import interpolate as module
    elif name == "antialias":
        from gendr.primitives.kernels import antialias as module
    else:
        from gendr.primitives.kernels import topology as module
    return module
