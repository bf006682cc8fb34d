"""The application: from photographs to cameras, masks, meshes, colours, poses, scenes and splats.

It stands on the library (`gendr.Renderer`, `gendr.mesh`, `gendr.primitives`, …) and nothing of the
library imports it.
"""

from gendr._common.names import lazily

__getattr__, __dir__, __all__ = lazily(globals())
