"""The choice of the backend of layers of gates: by device, or by name."""

from __future__ import annotations

from typing import cast

from gendr._runtime.backends import Choice
from gendr.logic.backends.interface import Backend

# In the order in which `auto` asks them; the reference, which takes every tensor, is the last.
NAMES = ("cpu", "triton", "reference")


def _load(name: str) -> Backend:
    if name == "cpu":
        from gendr.logic.backends.cpu import backend as module
    elif name == "triton":
        from gendr.logic.backends.triton import backend as module
    else:
        from gendr.logic.backends import reference as module
    return cast("Backend", module)


_choice = Choice(_load, NAMES)
backends, choose = _choice.backends, _choice.choose
