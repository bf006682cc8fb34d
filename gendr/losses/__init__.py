"""Objectives: how well images and shapes agree, and how smooth a mesh is.

Image losses take [B, H, W] (or [B, C, H, W]), mesh losses a packed `Mesh`; every loss returns a
scalar that is a mean over images or meshes, so that weights do not depend on the batch size. The
regularisers exist as a function of a mesh, and as a module that is built once per topology and
takes tensors of vertices. Their
operators are lists of edges: time and memory are O(V + F).
"""

from gendr._common.names import lazily

__getattr__, __dir__, __all__ = lazily(globals())
