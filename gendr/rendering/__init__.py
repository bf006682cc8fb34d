"""The renderer: geometry -> coverage -> aggregation -> shading."""

from gendr.rendering.api import silhouette
from gendr.rendering.backends.choice import backends
from gendr.rendering.renderer import Output, Renderer

__all__ = ["Output", "Renderer", "backends", "silhouette"]
