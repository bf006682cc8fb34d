"""Fitting a mesh to given silhouettes, its colours to photos, and a camera to a given mesh.

    >>> result = gendr.fit(masks, camera, steps=100)      # masks [B, H, W], B cameras
    >>> result.mesh.save("fit.obj"); result.iou

The recipe, each part of which was chosen by trial on two airplanes:

- the vertices are v = (I + smoothness L)^-1 u with the graph Laplacian L, and Adam moves u: every
  step moves whole regions, so that steps can be large and the surface stays smooth. This Adam
  divides by one number for all vertices (`gendr.optim.UniformAdam`), which keeps its steps parallel
  to its averaged gradient. Both are from Nicolet, Jacobson, Jakob, Large Steps in Inverse Rendering
  of Geometry, 2021;
- the loss is one minus the soft intersection over union, plus a small penalty of creases;
- the scale falls geometrically. It starts wide enough for every pixel near an outline to pull on
  the outline, and ends narrow enough for the soft image to equal the hard one;
- everything happens in a frame whose unit is the size of the object, so that no setting depends on
  the units of the world;
- from a visual hull, faces are made even on the way, with edges that shrink with the scale, and
  large masks are shrunk at first (`gendr.photos.remesh`, `gendr.photos.fitting.shape.schedule`);
- the result is the mesh that had the best hard silhouettes.
"""

from gendr._common.names import lazily

__getattr__, __dir__, __all__ = lazily(globals())
