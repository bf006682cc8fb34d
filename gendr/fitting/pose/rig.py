"""One pose of an object in the masks of several cameras whose poses to each other are known.

As the search for one mask, with three differences. Orientations are proposed by some of the masks,
and compared with all. The place is where the lines of sight through the masks meet. And turn,
place and, if it is unknown, scale of the object are refined by the sum over all masks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from gendr.fitting.pose.descent import Descent, PoseRows
from gendr.fitting.pose.search import (
    APART,
    FILL,
    SAME,
    SEEN,
    PoseCandidate,
    Search,
    distinct,
    moments,
    shrunk,
    window,
)
from gendr.fitting.pose.settings import PoseSettings
from gendr.losses import iou
from gendr.mesh import Camera, Mesh, rotation_angle_between
from gendr.mesh.rotations import axis_angle_to_matrix, rigid

__all__ = ["RigFound", "fit_rig"]

# So many views propose orientations, so many all together.
_PROPOSERS, _PROPOSED = 4, 240
# How much the apparent size says about the depth, against what the lines of sight say.
_BY_SIZE = 0.05
# Cameras whose distances are below this part of their distance to the object show no scale.
_BESIDE = 1e-3


@dataclass(frozen=True)
class RigFound:
    """The pose of an object in a rig of B cameras.

    Attributes:
        candidates: the poses that look alike, the best first, each with B cameras.
        iou: [B], of the best.
        traces: for each camera the best pose on the way.
        placement: [4, 4], from the world of the mesh to that of the rig, by the best.
    """

    candidates: tuple[PoseCandidate, ...]
    iou: Tensor
    traces: tuple[Camera, ...]
    placement: Tensor


@dataclass(frozen=True)
class _Placed(PoseRows):
    """Poses of the object in the world of the rig.

    Attributes:
        turn: [K, 3, 3], determinant 1.
        place: [K, 3], of the centre.
        size: [K], the logarithm of the scale.
    """

    turn: Tensor
    place: Tensor
    size: Tensor


class _RigSearch:
    """What the steps share."""

    def __init__(
        self, mesh: Mesh, masks: Tensor, rig: Camera, settings: PoseSettings, *, find_scale: bool
    ) -> None:
        self.search = Search(mesh, settings, rig, is_free=False)
        self.settings, self.masks, self.rig, self.find_scale = settings, masks, rig, find_scale
        self.centre, self.radius = self.search.centre, self.search.radius
        self.way: list[Camera] = []

    def camera(self, placed: _Placed) -> Camera:
        """Cameras [K * B] in the world of the mesh, those of one pose together."""
        rig = self.rig
        rotation = rig.rotation[None] @ placed.turn[:, None]  # [K, B, 3, 3]
        at = (rig.rotation @ placed.place[:, None, :, None])[..., 0] + rig.translation
        shift = at * (-placed.size).exp()[:, None, None]
        shift = shift - (rotation @ self.centre[:, None])[..., 0]
        return Camera(
            rotation.flatten(0, 1), shift.flatten(0, 1), rig.focal.repeat(len(placed), 1),
            rig.principal.repeat(len(placed), 1),
        )  # fmt: skip

    def scores(self, placed: _Placed, masks: Tensor, mesh: Mesh) -> Tensor:
        """[K, B], hard IoUs; 0 where the object is not ahead of a camera."""
        camera = self.camera(placed)
        size = (masks.shape[1], masks.shape[2])
        found = iou(self.search.hard(mesh, camera, size), masks.repeat(len(placed), 1, 1))
        ahead = camera.world_to_camera(self.centre[None])[:, 0, 2] > self.radius
        return (found * ahead).reshape(len(placed), len(masks))

    # -- where to start -----------------------------------------------------------------------

    def starts(self, count: int) -> _Placed:
        """The best poses that differ, by images that are shifted and scaled."""
        views = len(self.rig)
        proposers = sorted({i * views // _PROPOSERS for i in range(_PROPOSERS)} & set(range(views)))
        proposed = []
        for v in proposers:
            mask, focal = self.masks[v], self.rig.focal[v]
            poses, _ = self.search.starts(mask, focal, _PROPOSED // len(proposers))
            proposed.append(self.rig.rotation[v].mT @ poses.rotation)
        turn = torch.cat(proposed)
        rotation = (self.rig.rotation[None] @ turn[:, None]).flatten(0, 1)
        zero = torch.zeros_like(rotation[:, 0, :2])
        focal = self.rig.focal.repeat(len(turn), 1)
        depth = focal.mean(1) * self.radius / FILL
        ahead = torch.cat([zero, depth[:, None]], 1)
        camera = Camera(rotation, ahead - (rotation @ self.centre[:, None])[..., 0], focal, zero)
        seen = self.search.hard(self.search.few, camera, SEEN)
        centre, area = moments(seen)
        wanted_centre, wanted_area = moments(self.masks)
        upright = seen.new_zeros(len(seen))
        shown = window(seen, centre, area, upright).unflatten(0, (len(turn), views))
        wanted = window(self.masks, wanted_centre, wanted_area, upright[:views])
        both = torch.minimum(shown, wanted).sum((2, 3))
        score = (both / (torch.maximum(shown, wanted).sum((2, 3)) + 1e-9)).mean(1)
        rows = distinct(turn, score, count, APART)
        # Where the centre of the object is seen, and how large.
        grow = (wanted_area / area.unflatten(0, (len(turn), views))).sqrt()
        at = wanted_centre - centre.unflatten(0, (len(turn), views)) * grow[..., None]
        return self._placed(turn[rows], at[rows], grow[rows] * FILL)

    def _placed(self, turn: Tensor, at: Tensor, seen: Tensor) -> _Placed:
        """Where the lines of sight meet.

        Args:
            turn: [K, 3, 3].
            at: [K, B, 2], where each camera sees the centre, NDC.
            seen: [K, B], the apparent radius.
        """
        rig = self.rig
        line = torch.cat([(at - rig.principal) / rig.focal, torch.ones_like(at[..., :1])], -1)
        line = (rig.rotation.mT @ line[..., None])[..., 0]  # depth 1, [K, B, 3]
        unit = line / line.norm(dim=-1, keepdim=True)
        along = unit[..., None] * unit[..., None, :]
        across = torch.eye(3).to(at) - along
        depth = rig.focal.mean(1) * self.radius / seen  # at scale 1
        weight = across if self.find_scale else across + _BY_SIZE * along
        point = rig.eye + (0 if self.find_scale else 1) * depth[..., None] * line
        left = weight.sum(1)
        right = (weight @ point[..., None]).sum(1)
        place = torch.linalg.lstsq(left, right).solution[..., 0]
        size = at.new_zeros(len(turn))
        if self.find_scale:
            found = (rig.rotation @ place[:, None, :, None])[..., 2, 0] + rig.translation[:, 2]
            size = (found.clamp(min=1e-6) / depth).log().median(1).values
        return _Placed(turn, place, size)

    # -- refinement ---------------------------------------------------------------------------

    def refined(
        self, placed: _Placed, masks: Tensor, mesh: Mesh, steps: int, pixels: tuple[float, float],
        tell: Callable[[float], None],
    ) -> _Placed:  # fmt: skip
        """Poses moved by Adam, those with the best hard silhouettes on the way."""
        count, views = len(placed), len(masks)
        descent = Descent[_Placed](
            mesh, masks, self.camera, lambda now: self.scores(now, masks, mesh).mean(1),
            self.settings.dist, self.settings.tconorm, self.way,
        )  # fmt: skip
        # Steps of the place are a pixel large, in the middle of the views.
        depth = self.camera(placed).world_to_camera(self.centre[None])[:, 0, 2]
        depth = depth.reshape(count, views).abs().median(1).values * placed.size.exp()
        unit = (depth / self.rig.focal.mean())[:, None]

        def moved(turn: Tensor, place: Tensor, grow: Tensor) -> _Placed:
            return _Placed(
                placed.turn @ axis_angle_to_matrix(turn), placed.place + place * unit,
                placed.size + grow,
            )  # fmt: skip

        moves = [
            (torch.zeros_like(placed.turn[:, 0]), 0.05),
            (torch.zeros_like(placed.place), descent.pixel),
            (torch.zeros_like(placed.size), descent.pixel if self.find_scale else 0.0),
        ]
        return descent.descended(placed, moved, moves, steps, pixels, tell)


def fit_rig(
    mesh: Mesh, masks: Tensor, rig: Camera, settings: PoseSettings, find_scale: bool,
    callback: Callable[[str, float], None] | None,
) -> RigFound:  # fmt: skip
    """Find the pose of a mesh in masks [B, H, W] of B cameras; see `fit_pose`.

    Raises:
        ValueError: if the scale is wanted and all cameras stand at one place.
    """

    def tell(stage: str, done: float) -> None:
        if callback is not None:
            callback(stage, done)

    with torch.no_grad():
        if find_scale:
            apart = float((rig.eye - rig.eye.mean(0)).norm(dim=1).max())
            if not apart > _BESIDE * float(rig.eye.norm(dim=1).max()):
                raise ValueError(
                    "find_scale needs cameras at different places, all of the rig stand at one"
                )
        each = _RigSearch(mesh, masks, rig, settings, find_scale=find_scale)
        tell("search", 0.0)
        few = each.search.few
        placed = each.starts(max(settings.finalists, math.ceil(settings.starts / len(masks))))
        small = _all_shrunk(masks, settings.image_size // 2)
        placed = each.refined(
            placed, small, few, settings.steps, (2.0, 0.4),
            lambda done: tell("refine", 0.2 + 0.4 * done),
        )  # fmt: skip
        scores = each.scores(placed, small, few).mean(1)
        rows = distinct(placed.turn, scores, settings.finalists, SAME)
        large = _all_shrunk(masks, settings.image_size)
        placed = each.refined(
            placed[rows], large, each.search.fine, max(1, settings.steps // 2), (0.8, 0.2),
            lambda done: tell("finish", 0.6 + 0.4 * done),
        )  # fmt: skip
        by_view = each.scores(placed, masks, mesh)
        scores = by_view.mean(1)
        rows = distinct(placed.turn, scores, len(scores), SAME)
        rows = rows[scores[rows] >= scores[rows[0]] - settings.alike]
        best, views = int(rows[0]), len(masks)
        camera = each.camera(placed[rows])
        angles = rotation_angle_between(
            placed.turn[best].expand(len(rows), 3, 3), placed.turn[rows]
        ).tolist()
        candidates = tuple(
            PoseCandidate(camera[i * views : (i + 1) * views], float(scores[row]), angles[i])
            for i, row in enumerate(rows.tolist())
        )
        way = [*each.way, candidates[0].camera]
        traces = tuple(Camera.batch([step[v] for step in way]) for v in range(views))
        linear = placed.turn[best] * placed.size[best].exp()
        shift = placed.place[best] - linear @ each.centre
        return RigFound(candidates, by_view[best], traces, rigid(linear[None], shift[None])[0])


def _all_shrunk(masks: Tensor, size: int) -> Tensor:
    return torch.stack([shrunk(mask, size) for mask in masks])
