"""The choice of the backend of relaxed sorting networks: by device, or by name."""

from __future__ import annotations

from typing import Any

from gendr.kernels.backends import Choice

# In the order in which `auto` asks them; the reference, which takes every tensor, is the last.
NAMES = ("cpu", "triton", "reference")


def _load(name: str) -> Any:
    if name == "cpu":
        from gendr.sorting.backends.cpu import backend as module
    elif name == "triton":
        from gendr.sorting.backends.triton import backend as module
    else:
        return None
    return module


_choice = Choice(_load, NAMES)
backends, choose = _choice.backends, _choice.choose
