"""The choice of the rendering backend: by device, or by name."""

from __future__ import annotations

from typing import cast

from torch import Tensor

from gendr._common.tracing import refuse_vmap
from gendr.kernels.backends import Choice
from gendr.rendering.backends.interface import Backend

# In the order in which `auto` asks them; the reference, which takes every tensor, is the last.
NAMES = ("cpu", "triton", "reference")


def _load(name: str) -> Backend:
    if name == "cpu":
        from gendr.rendering.backends.cpu import backend as module
    elif name == "triton":
        from gendr.rendering.backends.triton import backend as module
    else:
        from gendr.rendering.backends import reference as module
    return cast("Backend", module)


_choice = Choice(_load, NAMES)


def choose(name: str, tensor: Tensor) -> Backend:
    """See `Choice.choose`.

    Raises:
        RuntimeError: also inside `torch.func.vmap`: pictures have batches of their own.
    """
    refuse_vmap("rendering")
    return _choice.choose(name, tensor)


def backends() -> dict[str, str | None]:
    """Every backend's name -> None if it is usable here, else the reason why not."""
    return _choice.backends()
