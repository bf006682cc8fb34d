"""The choice of the backend of sorting: by device, or by name."""

from __future__ import annotations

from typing import Any

from gendr.kernels.backends import Choice


def _load(name: str) -> Any:
    if name == "cpu":
        from gendr.sorting.backends.cpu import backend as module
    elif name == "triton":
        from gendr.sorting.backends.triton import backend as module
    else:
        return None
    return module


_choice = Choice("sorting", _load)
choose, kernels_for = _choice.choose, _choice.kernels
