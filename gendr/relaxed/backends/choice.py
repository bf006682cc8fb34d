"""The choice of the backend of the ready-made algorithms: by device, or by name."""

from __future__ import annotations

from typing import cast

from gendr._runtime.backends import Choice
from gendr.relaxed.backends.interface import Backend

# In the order in which `auto` asks them; the reference, which takes every tensor, is the last.
NAMES = ("cpu", "reference")


def _load(name: str) -> Backend:
    if name == "cpu":
        from gendr.relaxed.backends.cpu import backend as module
    else:
        from gendr.relaxed.backends import reference as module
    return cast("Backend", module)


choose = Choice(_load, NAMES).choose
