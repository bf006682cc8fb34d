"""The renderer: geometry -> fragments -> coverage -> aggregation -> shading."""

from importlib import import_module
from typing import Any

from gendr.rendering.api import silhouette
from gendr.rendering.output import Output
from gendr.rendering.renderer import Renderer

__all__ = ["Output", "Renderer", "silhouette"]

# These names exist here since the first release; the modules are imported at first use.
_BACKENDS = ("cpu", "triton")


def __getattr__(name: str) -> Any:
    if name in _BACKENDS:
        return import_module(f"gendr.rendering.backends.{name}.backend")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
