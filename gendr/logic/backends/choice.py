"""The choice of the backend of layers of gates: by device, or by name."""

from __future__ import annotations

from typing import cast

from torch import Tensor

from gendr._runtime.backends import choose_from, reason_of
from gendr.logic.backends.interface import Backend

# In the order in which `auto` asks them; the reference, which takes every tensor, is the last.
NAMES = ("cpu", "triton", "reference")


def _module(name: str) -> Backend:
    """Import a backend, by plain statements: `torch.compile` cannot trace `import_module`."""
    if name == "cpu":
        from gendr.logic.backends.cpu import backend as module
    elif name == "triton":
        from gendr.logic.backends.triton import backend as module
    else:
        from gendr.logic.backends import reference as module
    return cast("Backend", module)


def backends() -> dict[str, str | None]:
    """Every backend's name -> None if it is usable here, else the reason why not."""
    return {name: reason_of(_module, name) for name in NAMES}


def choose(name: str, tensor: Tensor) -> Backend:
    """The backend of that name, or for `auto` the first that serves the tensor's device and dtype.

    Raises:
        ValueError: for an unknown name, or a backend that does not serve this device or dtype.
        RuntimeError: for a backend that is not usable here, with its reason.
    """
    return choose_from(_module, NAMES, name, tensor)
