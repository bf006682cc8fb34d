"""How good predictions are: 3D IoU at 32³, in the published way, by class.

Source: Kato, Ushiku, Harada, Neural 3D Mesh Renderer, 2018: the surface and what it encloses fills
the cells of a prediction, and every view of every shape counts alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from tqdm import tqdm

from gendr.mesh import Mesh
from lab.reconstruction.model import Reconstructor
from lab.reconstruction.ranks import Ranks
from lab.reconstruction.renderings import VIEWS, ShapeNetRenderings
from lab.reconstruction.voxels import voxelize

__all__ = ["ClassScore", "evaluate", "voxel_iou"]


class ClassScore(NamedTuple):
    """The 3D IoU of one class.

    Attributes:
        name: of the class.
        iou: mean over shapes and views.
        error: standard error of that mean over shapes, NaN for a single one.
        shapes: how many.
        each: the 3D IoU of each shape, mean over its views, in the order of the data.
    """

    name: str
    iou: float
    error: float
    shapes: int
    each: tuple[float, ...] = ()


def voxel_iou(meshes: Mesh, voxels: Tensor) -> Tensor:
    """The 3D IoU of each mesh with its voxels.

    Args:
        meshes: B meshes in the cube [-1/2, 1/2]³.
        voxels: bool [B, 32, 32, 32] or [1, 32, 32, 32], indexed [x, y, z].

    Returns:
        [B] float64 on the CPU; 1 where both are empty.
    """
    found, voxels = voxelize(meshes, voxels.shape[-1], interior="flood"), voxels.cpu()
    both = (found & voxels).sum((1, 2, 3)).double()
    either = (found | voxels).sum((1, 2, 3)).double()
    return torch.where(either > 0, both / either.clamp(min=1), 1.0)


@torch.no_grad()
def evaluate(
    model: Reconstructor,
    data: ShapeNetRenderings,
    *,
    views: Sequence[int] | None = None,
    progress: bool = True,
    ranks: Ranks | None = None,
) -> list[ClassScore]:
    """The 3D IoU of a model, by class.

    Args:
        model: it is set to evaluation.
        data: what it is tried on.
        views: from which the shapes are seen, by default all 24.
        progress: show a bar if it takes more than two seconds.
        ranks: the processes that share the work; all of them call this, and get the same scores.

    Returns:
        A score for each class of `data`, in their order.
    """
    ranks = ranks or Ranks()
    model.eval()
    device = next(model.parameters()).device
    chosen = torch.tensor(list(range(VIEWS) if views is None else views))
    each = torch.zeros(len(data), dtype=torch.float64)
    shapes = range(ranks.rank, len(data), ranks.size)
    for shape in tqdm(shapes, "3D IoU", delay=2, leave=False, disable=not progress):
        number = torch.tensor([shape])
        images = data.images(number.expand(len(chosen)), chosen)
        meshes = model.mesh(images.to(device))
        each[shape] = voxel_iou(meshes, data.voxels(number)).mean()
    # The others have 0 there, so that a sum changes no digit.
    each, of = ranks.sum(each), data.class_of(torch.arange(len(data)))
    return [_score(one.name, each[of == k]) for k, one in enumerate(data.classes)]


def _score(name: str, each: Tensor) -> ClassScore:
    count = len(each)
    error = float(each.std()) / math.sqrt(count) if count > 1 else math.nan
    return ClassScore(name, float(each.mean()), error, count, tuple(each.tolist()))
