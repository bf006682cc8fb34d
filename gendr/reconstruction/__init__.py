"""Single-view reconstruction: from one image to a mesh, learnt from silhouettes alone."""

from typing import TYPE_CHECKING

from gendr._runtime.names import lazily

if TYPE_CHECKING:
    from gendr.reconstruction.classes import CLASSES, ShapeClass, find_class
    from gendr.reconstruction.evaluation import ClassScore, evaluate, voxel_iou
    from gendr.reconstruction.making import DatasetReport, make_dataset
    from gendr.reconstruction.model import Reconstructor
    from gendr.reconstruction.renderings import (
        Pairs,
        RenderedShape,
        ShapeNetRenderings,
        camera_of_view,
    )
    from gendr.reconstruction.settings import TrainingSettings
    from gendr.reconstruction.training import Losses, Training, load_model

__all__ = [
    "CLASSES",
    "ClassScore",
    "DatasetReport",
    "Losses",
    "Pairs",
    "Reconstructor",
    "RenderedShape",
    "ShapeClass",
    "ShapeNetRenderings",
    "Training",
    "TrainingSettings",
    "camera_of_view",
    "evaluate",
    "find_class",
    "load_model",
    "make_dataset",
    "voxel_iou",
]

# Imported at first use, so that the command line reads its settings without torch.
_MODULES = {
    "gendr.reconstruction.classes": ("CLASSES", "ShapeClass", "find_class"),
    "gendr.reconstruction.evaluation": ("ClassScore", "evaluate", "voxel_iou"),
    "gendr.reconstruction.making": ("DatasetReport", "make_dataset"),
    "gendr.reconstruction.model": ("Reconstructor",),
    "gendr.reconstruction.renderings": (
        "Pairs",
        "RenderedShape",
        "ShapeNetRenderings",
        "camera_of_view",
    ),
    "gendr.reconstruction.settings": ("TrainingSettings",),
    "gendr.reconstruction.training": ("Losses", "Training", "load_model"),
}
__getattr__, __dir__ = lazily(globals(), _MODULES)
