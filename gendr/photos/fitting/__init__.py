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

from typing import TYPE_CHECKING

from gendr._common.names import lazily

if TYPE_CHECKING:
    from gendr.photos.fitting.cameras.refine import CameraResult, refine_cameras
    from gendr.photos.fitting.colors.fit import ColorResult, fit_colors
    from gendr.photos.fitting.colors.light import HarmonicLight
    from gendr.photos.fitting.frame import Frame
    from gendr.photos.fitting.parametrization import SmoothParametrization
    from gendr.photos.fitting.pose.fit import PoseCandidate, PoseResult, fit_pose
    from gendr.photos.fitting.pose.settings import PoseSettings
    from gendr.photos.fitting.remeshing import RemeshingAdam
    from gendr.photos.fitting.shape.fit import fit
    from gendr.photos.fitting.shape.refine import ShapeResult, refine_shape
    from gendr.photos.fitting.shape.settings import FitSettings
    from gendr.photos.fitting.shape.state import FitResult, FitState

__all__ = [
    "CameraResult",
    "ColorResult",
    "FitResult",
    "FitSettings",
    "FitState",
    "Frame",
    "HarmonicLight",
    "PoseCandidate",
    "PoseResult",
    "PoseSettings",
    "RemeshingAdam",
    "ShapeResult",
    "SmoothParametrization",
    "fit",
    "fit_colors",
    "fit_pose",
    "refine_cameras",
    "refine_shape",
]

# Imported at first use, so that the command line reads its settings without torch.
_MODULES = {
    "gendr.photos.fitting.cameras.refine": ("CameraResult", "refine_cameras"),
    "gendr.photos.fitting.colors.fit": ("ColorResult", "fit_colors"),
    "gendr.photos.fitting.colors.light": ("HarmonicLight",),
    "gendr.photos.fitting.frame": ("Frame",),
    "gendr.photos.fitting.parametrization": ("SmoothParametrization",),
    "gendr.photos.fitting.pose.fit": ("PoseCandidate", "PoseResult", "fit_pose"),
    "gendr.photos.fitting.pose.settings": ("PoseSettings",),
    "gendr.photos.fitting.remeshing": ("RemeshingAdam",),
    "gendr.photos.fitting.shape.fit": ("fit",),
    "gendr.photos.fitting.shape.refine": ("ShapeResult", "refine_shape"),
    "gendr.photos.fitting.shape.settings": ("FitSettings",),
    "gendr.photos.fitting.shape.state": ("FitResult", "FitState"),
}
__getattr__, __dir__ = lazily(globals(), _MODULES)
