"""Single-view reconstruction: from one image to a mesh, learnt from silhouettes alone."""

from gendr._common.names import lazily

__getattr__, __dir__, __all__ = lazily(globals())
