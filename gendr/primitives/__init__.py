"""The primitives of differentiable rasterisation, in the conventions of nvdiffrast."""

from gendr.primitives.texture import texture, texture_construct_mip

__all__ = ["texture", "texture_construct_mip"]
