"""Which kernels serve a tensor: by its device, or by the name of a backend."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from gendr.kernels.backends import Choice

__all__ = ["NAMES", "kernels_for"]

# In the order in which `auto` asks them; the definitions, which take every tensor, are the last.
NAMES = ("cpu", "triton", "reference")


def _load(name: str) -> Any:
    if name == "cpu":
        from gendr.primitives.kernels import backend as module
    elif name == "triton":
        from gendr.primitives.triton import backend as module
    else:
        return None
    return module


_OPERATORS = "raster", "interpolate", "antialias", "texture", "mipmaps", "topology"
_choice = Choice(_load, NAMES, traced=True, operators=_OPERATORS)


def kernels_for(operator: str, tensor: Tensor, backend: str = "auto") -> Any:
    """The kernels of an operator for tensors like this one; None for its definition.

    Args:
        operator: "raster", "interpolate", "antialias", "texture", "mipmaps" or "topology".
        tensor: an input.
        backend: "auto", or one of `NAMES`.

    Raises:
        ValueError: for an unknown name, or a backend that does not serve this device.
        RuntimeError: for a backend that is not usable here, with its reason.
    """
    module = _choice.choose(backend, tensor)
    return None if module is None else getattr(module, operator)
