"""Meshes, their files, and the cameras that look at them."""

from gendr._common.names import lazily

__getattr__, __dir__, __all__ = lazily(globals())
