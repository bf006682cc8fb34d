"""Single-view reconstruction: from one image to a mesh, learnt from silhouettes alone."""

from gendr.reconstruction.classes import CLASSES, ShapeClass, find_class
from gendr.reconstruction.evaluation import ClassScore, evaluate, voxel_iou
from gendr.reconstruction.making import DatasetReport, make_dataset
from gendr.reconstruction.model import Reconstructor
from gendr.reconstruction.renderings import Pairs, RenderedShape, ShapeNetRenderings, camera_of_view
from gendr.reconstruction.training import Losses, Training, TrainingSettings, load_model

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
