"""The renderer: geometry -> fragments -> coverage -> aggregation -> shading."""

from gendr.rendering.api import silhouette
from gendr.rendering.output import Output
from gendr.rendering.renderer import Renderer

__all__ = ["Output", "Renderer", "silhouette"]
