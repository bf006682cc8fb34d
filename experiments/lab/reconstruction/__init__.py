"""Single-view reconstruction: from one image to a mesh, learnt from silhouettes alone."""

from typing import TYPE_CHECKING

from gendr._common.names import lazily

if TYPE_CHECKING:
    from lab.reconstruction.classes import CLASSES, ShapeClass, find_class
    from lab.reconstruction.evaluation import ClassScore, evaluate, voxel_iou
    from lab.reconstruction.making import DatasetReport, make_dataset
    from lab.reconstruction.model import Reconstructor
    from lab.reconstruction.renderings import (
        Pairs,
        RenderedShape,
        ShapeNetRenderings,
        camera_of_view,
    )
    from lab.reconstruction.settings import TrainingSettings
    from lab.reconstruction.training import Losses, Training, load_model

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
    "lab.reconstruction.classes": ("CLASSES", "ShapeClass", "find_class"),
    "lab.reconstruction.evaluation": ("ClassScore", "evaluate", "voxel_iou"),
    "lab.reconstruction.making": ("DatasetReport", "make_dataset"),
    "lab.reconstruction.model": ("Reconstructor",),
    "lab.reconstruction.renderings": (
        "Pairs",
        "RenderedShape",
        "ShapeNetRenderings",
        "camera_of_view",
    ),
    "lab.reconstruction.settings": ("TrainingSettings",),
    "lab.reconstruction.training": ("Losses", "Training", "load_model"),
}
__getattr__, __dir__ = lazily(globals(), _MODULES)
