"""libigl: marching cubes, simplification by quadrics, winding numbers."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any


@cache
def libigl() -> Any:
    """The module `igl`, imported where it is used first; its annotations do not fit its results."""
    return import_module("igl")
