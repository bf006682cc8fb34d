"""Coarse to fine: what a step is like, by the progress of the fit from 0 to 1."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from gendr.mesh import Camera, Mesh
from gendr.photos.fitting.shape.settings import FitSettings

__all__ = ["REMESHED", "FitSchedule", "edge_of", "pixel_at_middle", "shortest_edge"]

# The shorter side of the smallest masks, which are halved until half would be less.
_SMALLEST = 96
# By this progress the masks have their whole size.
_WHOLE = 0.5
# The progress at which a mesh is remeshed. Each costs some IoU, which the steps after it win back:
# with eight of them, or one at the end, a fit took twice the steps.
REMESHED = (0.2, 0.4, 0.6)
# How much longer edges are at first than from the last of these on, and the length of the last
# steps in edges. Long edges do not follow the ridges of a hull; with short ones these stay.
_FIRST_EDGE, _STEP_IN_EDGES = 1.5, 0.25
# Edges are longer than asked for where there would be more faces than this.
_MOST_FACES = 40_000


class FitSchedule:
    """Scale, masks, edges and step length as functions of the progress, in [0, 1].

    Where the mesh is remeshed, small masks come first, each half as large as the next, edges
    shrink, and steps get as short as a part of an edge.

    Args:
        masks: [B, H, W].
        settings: `resolved`.
        edge: the length of edges at the end.

    Attributes:
        masks: those of each level, the smallest first; the last are those given. Smaller ones are
            means over areas.
        sizes: (H, W) of each level.
        scales: the first and the last. In pixels, a schedule begins with those of the smallest
            masks.
        begin: the progress of the first step: 1 if the scale stays the same, so that all steps have
            whole masks, else 0.
    """

    def __init__(self, masks: Tensor, settings: FitSettings, edge: float) -> None:
        self._edge_at_end, self._remesh = edge, bool(settings.remesh)
        assert settings.lr is not None  # `resolved`
        self._lr = settings.lr
        self.masks = [masks]
        height, width = masks.shape[1:]
        half = 2
        while self._remesh and min(height, width) // half >= _SMALLEST:
            shape = (round(height / half), round(width / half))
            self.masks.insert(0, F.interpolate(masks[:, None], shape, mode="area")[:, 0])
            half *= 2
        self.sizes = [(m.shape[1], m.shape[2]) for m in self.masks]
        self.scales = settings.scales(self.sizes[0])[0], settings.scales(self.sizes[-1])[1]
        self.begin = float(self.scales[0] == self.scales[1])

    def scale(self, progress: float) -> float:
        """The scale, in NDC (NDC^2 for squared distributions)."""
        return _between(*self.scales, progress)

    def level(self, progress: float) -> int:
        """The number of the masks that are compared."""
        last = len(self.masks) - 1
        return min(last, int(progress / _WHOLE * last + 1e-9))

    def edge(self, progress: float) -> float:
        """The length of edges."""
        end = self._edge_at_end
        return _between(_FIRST_EDGE * end, end, min(progress / REMESHED[-1], 1.0))

    def step_length(self, progress: float) -> float:
        """The `lr` of a step."""
        if not self._remesh:
            return self._lr
        return _between(self._lr, min(self._lr, _STEP_IN_EDGES * self._edge_at_end), progress)


def _between(first: float, last: float, progress: float) -> float:
    """A number on the geometric way from first to last."""
    return first * (last / first) ** progress


def pixel_at_middle(camera: Camera, size: tuple[int, int]) -> float:
    """The size of a pixel of images (H, W) at the origin, the median over cameras."""
    depth = torch.ones_like(camera.focal[:, 0])
    if not camera.orthographic:
        depth = camera.translation[:, 2].abs()
    return float((2 / min(size) * depth / camera.focal.mean(-1)).median())


def shortest_edge(mesh: Mesh) -> float:
    """The length of edges at which the most faces that are fitted cover a mesh."""
    return edge_of(mesh, _MOST_FACES)


def edge_of(mesh: Mesh, faces: int) -> float:
    """The length of edges at which so many equilateral faces cover a mesh."""
    a, b, c = mesh.vertices.double()[mesh.faces].unbind(1)
    area = float(torch.linalg.cross(b - a, c - a).norm(dim=-1).sum()) / 2
    return (area / (3**0.5 / 4 * faces)) ** 0.5
