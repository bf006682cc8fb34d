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

from gendr.jobs.loop import Progress, Tell
from gendr.mesh import Camera, Mesh
from gendr.mesh.rotations import axis_angle_to_matrix, rigid
from gendr.photos.fitting.pose.descent import PoseRows, hard
from gendr.photos.fitting.pose.search import (
    APART,
    FILL,
    SEEN,
    PoseResult,
    Problem,
    Search,
    distinct,
    moments,
    window,
)

__all__ = ["fit_rig"]

# So many views propose orientations, so many all together.
_PROPOSERS, _PROPOSED = 4, 240
# How much the apparent size says about the depth, against what the lines of sight say.
_BY_SIZE = 0.05
# Cameras whose distances are below this part of their distance to the object show no scale.
_BESIDE = 1e-3


@dataclass(frozen=True)
class _Placed(PoseRows):
    """Poses of the object in the world of the rig.

    Attributes:
        rotation: [K, 3, 3], of the object, determinant 1.
        place: [K, 3], of the centre.
        size: [K], the logarithm of the scale.
    """

    rotation: Tensor
    place: Tensor
    size: Tensor


class _Rig(Problem[_Placed]):
    """The pose of the object in the masks of B cameras."""

    def __init__(self, search: Search, masks: Tensor, *, find_scale: bool) -> None:
        super().__init__(search, masks)
        self.rig, self.find_scale = search.optics, find_scale
        self.centre, self.radius = search.centre, search.radius

    def camera(self, poses: _Placed) -> Camera:
        """Cameras [K * B] in the world of the mesh, those of one pose together."""
        rig = self.rig
        rotation = rig.rotation[None] @ poses.rotation[:, None]  # [K, B, 3, 3]
        at = (rig.rotation @ poses.place[:, None, :, None])[..., 0] + rig.translation
        shift = at * (-poses.size).exp()[:, None, None]
        shift = shift - (rotation @ self.centre[:, None])[..., 0]
        many = rig[torch.arange(len(rig)).repeat(len(poses))].with_origin(None)
        return many.with_tensors(rotation.flatten(0, 1), shift.flatten(0, 1))

    def scores(self, poses: _Placed, masks: Tensor, mesh: Mesh) -> Tensor:
        """[K, B], hard IoUs; 0 where the object is not ahead of a camera."""
        depth = self.camera(poses).world_to_camera(self.centre[None])[:, 0, 2]
        ahead = (depth > self.radius).reshape(len(poses), len(masks))
        return super().scores(poses, masks, mesh) * ahead

    def starts(self) -> _Placed:
        """By images of some views that are shifted and scaled, the best for all views."""
        views, settings = len(self.rig), self.settings
        proposers = sorted({i * views // _PROPOSERS for i in range(_PROPOSERS)} & set(range(views)))
        proposed = []
        for v in proposers:
            mask, focal = self.masks[v], self.rig.focal[v]
            poses = self.search.starts(mask, focal, _PROPOSED // len(proposers))
            proposed.append(self.rig.rotation[v].mT @ poses.rotation)
        turn = torch.cat(proposed)
        rotation = (self.rig.rotation[None] @ turn[:, None]).flatten(0, 1)
        zero = torch.zeros_like(rotation[:, 0, :2])
        focal = self.rig.focal.repeat(len(turn), 1)
        depth = focal.mean(1) * self.radius / FILL
        ahead = torch.cat([zero, depth[:, None]], 1)
        camera = Camera(rotation, ahead - (rotation @ self.centre[:, None])[..., 0], focal, zero)
        seen = hard(self.search.few, camera, SEEN)
        centre, area = moments(seen)
        wanted_centre, wanted_area = moments(self.masks)
        upright = seen.new_zeros(len(seen))
        shown = window(seen, centre, area, upright).unflatten(0, (len(turn), views))
        wanted = window(self.masks, wanted_centre, wanted_area, upright[:views])
        both = torch.minimum(shown, wanted).sum((2, 3))
        score = (both / (torch.maximum(shown, wanted).sum((2, 3)) + 1e-9)).mean(1)
        count = max(settings.finalists, math.ceil(settings.starts / views))
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

    def moves(
        self, poses: _Placed, pixel: float
    ) -> tuple[Callable[..., _Placed], list[tuple[Tensor, float]]]:
        """Turns of the object, places in units of a pixel in the middle of the views, sizes."""
        depth = self.camera(poses).world_to_camera(self.centre[None])[:, 0, 2]
        depth = depth.reshape(len(poses), -1).abs().median(1).values * poses.size.exp()
        unit = (depth / self.rig.focal.mean())[:, None]

        def moved(turn: Tensor, place: Tensor, grow: Tensor) -> _Placed:
            return _Placed(
                poses.rotation @ axis_angle_to_matrix(turn), poses.place + place * unit,
                poses.size + grow,
            )  # fmt: skip

        return moved, [
            (torch.zeros_like(poses.rotation[:, 0]), 0.05),
            (torch.zeros_like(poses.place), pixel),
            (torch.zeros_like(poses.size), pixel if self.find_scale else 0.0),
        ]


def fit_rig(search: Search, masks: Tensor, find_scale: bool, tell: Tell) -> PoseResult:
    """Find the pose of a mesh in masks [B, H, W] of B cameras; see `fit_pose`.

    Raises:
        ValueError: if the scale is wanted and all cameras stand at one place.
    """
    eye, origin = search.optics.eye, search.mesh.origin[0]
    if find_scale:
        apart = float((eye - eye.mean(0)).norm(dim=1).max())
        if not apart > _BESIDE * float(eye.norm(dim=1).max()):
            raise ValueError(
                "find_scale needs cameras at different places, all of the rig stand at one"
            )
    rig = _Rig(search, masks, find_scale=find_scale)
    found = rig.scored(rig.finalists(tell))
    tell(Progress(1.0, "finish"))
    found = found[rig.alike(found)]
    candidates, best = rig.listed(found), found.poses[:1]
    linear = (best.rotation * best.size.exp()).double().cpu()
    shift = best.place.double().cpu() - linear[0] @ (search.centre.double().cpu() + origin)
    if search.optics.origin is not None:
        shift = shift + search.optics.origin
    return PoseResult(
        candidates[0].camera,
        rig.scores(best, masks, search.mesh)[0],
        (candidates,),
        tuple(range(len(masks))),
        rigid(linear, shift)[0],
    )
