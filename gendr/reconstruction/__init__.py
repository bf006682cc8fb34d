"""Single-view reconstruction: from one image to a mesh, learnt from silhouettes alone."""

from gendr.reconstruction.classes import CLASSES, ShapeClass, find_class
from gendr.reconstruction.model import Reconstructor
from gendr.reconstruction.renderings import Pairs, RenderedShape, ShapeNetRenderings, camera_of_view

__all__ = [
    "CLASSES",
    "Pairs",
    "Reconstructor",
    "RenderedShape",
    "ShapeClass",
    "ShapeNetRenderings",
    "camera_of_view",
    "find_class",
]
