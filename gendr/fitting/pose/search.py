"""The search for the pose of a mesh in a mask, from anywhere; its steps: see `fit.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from gendr.fitting.pose.descent import Descent, PoseRows
from gendr.fitting.pose.polish import polished
from gendr.fitting.pose.settings import PoseSettings
from gendr.losses import iou
from gendr.mesh import Camera, Mesh, rotation_angle_between
from gendr.mesh.rotations import axis_angle_to_matrix
from gendr.mesh.simplification import clustered, simplified
from gendr.rendering.triangles import face_vertices, hard_silhouette

__all__ = ["FoundPose", "PoseCandidate", "Poses", "Search", "Tell", "shrunk"]

# Told the name of a stage and the part of the work on a mask that is done, in [0, 1].
Tell: TypeAlias = Callable[[str, float], None]

# Sides of the images of the search; the mask is compared in a square of this half width, in units
# of the root of its area.
SEEN, _COMPARED, _WINDOW = 64, 32, 1.6
# Apparent half width of the object in the images of the search.
FILL = 0.7
# Refined poses that are nearer than this, in degrees, count as one.
SAME = 3.0
# The same for poses that the search proposes.
APART = 12.0
# With so many faces a mesh is refined, or as many as the images have pixels: more of them make no
# other silhouette. Of so many times as many, quadrics would take minutes: they are clustered to
# half of that, in cells smaller than a pixel.
_FINE, _HUGE = 20_000, 10
# The IoU that least squares gain at most.
_GAINED = 0.015


@dataclass(frozen=True, eq=False)
class PoseCandidate:
    """A pose, and how well its silhouette agrees.

    Attributes:
        camera: one camera; of a rig, all of them.
        iou: of the hard silhouette with the mask; of a rig, the mean over the masks.
        angle: to the best pose, in degrees.
    """

    camera: Camera
    iou: float
    angle: float


@dataclass(frozen=True)
class Poses(PoseRows):
    """Poses of the object's centre before a camera, all [K, ...].

    Attributes:
        rotation: [K, 3, 3], of the camera.
        place: [K, 2], of the centre in the image, NDC.
        size: [K], the logarithm of the apparent radius, focal length * radius / depth.
        focal: [K, 2].
    """

    rotation: Tensor
    place: Tensor
    size: Tensor
    focal: Tensor

    def camera(self, centre: Tensor, radius: float, principal: Tensor) -> Camera:
        """Cameras [K] that see the object so."""
        depth = self.focal.mean(1) * radius * (-self.size).exp()
        beside = (self.place - principal) / self.focal * depth[:, None]
        at = torch.cat([beside, depth[:, None]], 1)
        translation = at - (self.rotation @ centre[:, None])[..., 0]
        return Camera(self.rotation, translation, self.focal, principal.expand(len(depth), 2))


@dataclass(frozen=True)
class FoundPose:
    """Poses of one mask that look alike, the best first.

    Attributes:
        poses: K poses.
        scores: [K], hard IoUs with the mask.
    """

    poses: Poses
    scores: Tensor

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, rows: Tensor) -> FoundPose:
        return FoundPose(self.poses[rows], self.scores[rows])

    def packed(self, way: Sequence[Camera]) -> dict[str, Any]:
        """The poses, and the cameras on the way to them, as tensors."""
        cameras = [(x.rotation, x.translation, x.focal, x.principal) for x in way]
        return {"poses": self.poses.tensors(), "scores": self.scores, "way": cameras}

    @staticmethod
    def unpacked(values: Mapping[str, Any]) -> FoundPose:
        """The poses that were packed."""
        return FoundPose(Poses(*values["poses"]), values["scores"])

    @staticmethod
    def joined(parts: Sequence[FoundPose]) -> FoundPose:
        """All poses of some, in order."""
        poses = Poses.joined([part.poses for part in parts])
        return FoundPose(poses, torch.cat([part.scores for part in parts]))


class Search:
    """What is the same for all masks."""

    def __init__(
        self, mesh: Mesh, settings: PoseSettings, optics: Camera, *, is_free: bool
    ) -> None:
        self.settings, self.mesh, self.optics, self.is_free = settings, mesh, optics, is_free
        used = mesh.vertices[mesh.faces.reshape(-1).unique()]
        self.centre = (used.amin(0) + used.amax(0)) / 2
        self.radius = float((used - self.centre).norm(dim=1).max())
        if not self.radius > 0:
            raise ValueError("the mesh has no extent, all its vertices coincide")
        a, b, c = mesh.vertices[mesh.faces].unbind(1)
        if not float(torch.linalg.cross(b - a, c - a).norm(dim=1).max()) > 1e-9 * self.radius**2:
            raise ValueError("the mesh has no area, so no pose of it has a silhouette")
        many = max(_FINE, settings.image_size**2)
        is_huge = len(mesh.faces) > _HUGE * many
        self.fine = clustered(mesh, _HUGE * many // 2) if is_huge else simplified(mesh, many)
        self.few = simplified(self.fine, settings.faces)
        self._way: list[Camera] = []
        self.rotations = directions(settings.directions).to(mesh.vertices)
        focal = optics.focal[:1].mean(1, keepdim=True).expand(len(self.rotations), 2)
        zero = torch.zeros_like(self.rotations[:, 0, :2])
        poses = Poses(self.rotations, zero, zero[:, 0] + math.log(FILL), focal)
        self.seen = self.hard(self.few, poses.camera(self.centre, self.radius, zero[:1]), SEEN)

    def hard(self, mesh: Mesh, camera: Camera, size: int | tuple[int, int]) -> Tensor:
        """Hard silhouettes [K, H, W]."""
        parts = [camera[i : i + 50] for i in range(0, len(camera), 50)]
        return torch.cat([hard_silhouette(triangles(mesh, part), size) for part in parts])

    def found(self, mask: Tensor, b: int, tell: Tell) -> FoundPose:
        """The poses of mask `b` that look alike, searched for from anywhere."""
        settings, optics = self.settings, self.optics[b]
        principal = optics.principal
        tell("search", 0.0)
        self._way = []
        poses = self.starts(mask, optics.focal, settings.starts)[0]
        small = shrunk(mask, settings.image_size // 2)
        poses = self.refined(
            poses, small, principal, self.few, settings.steps, (2.0, 0.4),
            lambda done: tell("refine", 0.1 + 0.5 * done),
        )  # fmt: skip
        scores = self.scores(poses, small, principal, self.few)
        rows = distinct(poses.rotation, scores, settings.finalists, SAME)
        large = shrunk(mask, settings.image_size)
        poses = self.refined(
            poses[rows], large, principal, self.fine, max(1, settings.steps // 2), (0.8, 0.2),
            lambda done: tell("finish", 0.6 + 0.3 * done),
        )  # fmt: skip
        poses = self.polished(poses, large, principal)
        tell("finish", 1.0)
        return self.alike(poses, mask, b)

    def alike(self, poses: Poses, mask: Tensor, b: int) -> FoundPose:
        """The poses of these that differ and are not worse than the best by much."""
        found = FoundPose(poses, self.scores(poses, mask, self.optics[b].principal, self.mesh))
        return found[self.kept(found)]

    def kept(self, found: FoundPose) -> Tensor:
        """The rows of those that differ and are not worse than the best by much, best first."""
        rows = distinct(found.poses.rotation, found.scores, len(found), SAME)
        return rows[found.scores[rows] >= found.scores[rows[0]] - self.settings.alike]

    def listed(self, found: FoundPose, b: int) -> tuple[PoseCandidate, ...]:
        """Poses of mask `b` as candidates, with their angles to the first."""
        camera = self.camera(found.poses, b)
        angles = rotation_angle_between(camera.rotation[:1], camera.rotation).reshape(-1)
        return tuple(
            PoseCandidate(camera[i], score, angle)
            for i, (score, angle) in enumerate(
                zip(found.scores.tolist(), angles.tolist(), strict=True)
            )
        )

    def camera(self, poses: Poses, b: int) -> Camera:
        """Cameras [K] that saw mask `b`."""
        return poses.camera(self.centre, self.radius, self.optics[b].principal)

    def fix(self, focal: Tensor) -> None:
        """Take a focal length [2] that was found as that of all further images."""
        if self.is_free:
            self.is_free = False
            optics = self.optics
            self.optics = Camera(
                optics.rotation, optics.translation, focal.expand(len(optics), 2), optics.principal
            )

    def way(self) -> list[Camera]:
        """The best camera after each part of the last search or refinement."""
        way, self._way = self._way, []
        return way

    def scores(self, poses: Poses, mask: Tensor, principal: Tensor, mesh: Mesh) -> Tensor:
        """[K], hard IoUs with a mask."""
        camera = poses.camera(self.centre, self.radius, principal)
        return iou(self.hard(mesh, camera, (mask.shape[0], mask.shape[1])), mask[None])

    def starts(self, mask: Tensor, focal: Tensor, count: int) -> tuple[Poses, Tensor]:
        """The best poses that differ and their scores.

        The images of the search are shifted, scaled and turned.
        """
        centre, area = moments(self.seen)
        wanted_centre, wanted_area = moments(mask[None])
        wanted = window(mask[None], wanted_centre, wanted_area, mask.new_zeros(1))[0].flatten()
        turns = torch.arange(self.settings.turns, device=mask.device) * (
            2 * math.pi / self.settings.turns
        )
        scores = []
        for turn in turns:
            shown = window(self.seen, centre, area, turn.expand(len(area))).flatten(1)
            both = torch.minimum(shown, wanted).sum(1)
            scores.append(both / (torch.maximum(shown, wanted).sum(1) + 1e-9))
        table = torch.stack(scores, 1)  # [directions, turns]
        flat = table.flatten()
        order = flat.topk(min(len(flat), 40 * count)).indices
        i, turn = order // len(turns), turns[order % len(turns)].to(mask)
        rotation = rolls(turn) @ self.rotations[i]
        rows = distinct(rotation, flat[order], count, APART)
        i, turn, rotation = i[rows], turn[rows], rotation[rows]
        # The centre of the object lies beside the centroid of its silhouette, and turns about it.
        grow = (wanted_area / area[i]).sqrt()
        beside = -(rolls(turn)[:, :2, :2] @ centre[i][..., None])[..., 0] * grow[:, None]
        size = math.log(FILL) + grow.log()
        poses = Poses(rotation, wanted_centre + beside, size, focal.expand(len(rows), 2))
        return poses, flat[order][rows]

    def refined(
        self, poses: Poses, mask: Tensor, principal: Tensor, mesh: Mesh, steps: int,
        pixels: tuple[float, float], tell: Callable[[float], None],
    ) -> Poses:  # fmt: skip
        """Poses moved by Adam, those with the best hard silhouette on the way."""
        descent = self._descent(mask, principal, mesh)

        def moved(turn: Tensor, place: Tensor, grow: Tensor, wide: Tensor) -> Poses:
            return Poses(
                axis_angle_to_matrix(turn) @ poses.rotation, poses.place + place,
                poses.size + grow, poses.focal * wide.exp()[:, None],
            )  # fmt: skip

        zero = torch.zeros_like(poses.size)
        moves = [
            (torch.zeros_like(poses.rotation[:, 0]), 0.05),
            (torch.zeros_like(poses.place), descent.pixel),
            (zero, descent.pixel),
            (zero, 0.02 if self.is_free else 0.0),
        ]
        return descent.descended(poses, moved, moves, steps, pixels, tell)

    def polished(self, poses: Poses, mask: Tensor, principal: Tensor) -> Poses:
        """The poses of these that may look alike, moved by least squares (`polish.py`)."""
        scores = self.scores(poses, mask, principal, self.fine)
        rows = (scores >= scores.max() - self.settings.alike - _GAINED).nonzero()[:, 0]
        descent = self._descent(mask, principal, self.fine)
        turn = descent.pixel * math.exp(-float(poses.size.mean()))
        units = [turn] * 3 + [descent.pixel] * 2 + [turn] + [turn] * self.is_free

        def moved(now: Poses, by: Tensor) -> Poses:
            focal = now.focal * by[:, 6:].exp() if self.is_free else now.focal
            return Poses(
                axis_angle_to_matrix(by[:, :3]) @ now.rotation, now.place + by[:, 3:5],
                now.size + by[:, 5], focal,
            )  # fmt: skip

        new = polished(
            descent, poses[rows], moved, torch.tensor(units).to(mask), self.settings.polish_steps
        )
        return poses.replaced(rows, new)

    def _descent(self, mask: Tensor, principal: Tensor, mesh: Mesh) -> Descent[Poses]:
        return Descent(
            mesh, mask[None], lambda now: now.camera(self.centre, self.radius, principal),
            lambda now: self.scores(now, mask, principal, mesh),
            self.settings.dist, self.settings.tconorm, self._way,
        )  # fmt: skip


def triangles(mesh: Mesh, camera: Camera) -> Tensor:
    return face_vertices(mesh.vertices[None], mesh.faces, camera)


def directions(count: int) -> Tensor:
    """Rotations [count, 3, 3] of cameras that look from everywhere: a spiral over the sphere."""
    i = torch.arange(count, dtype=torch.float64) + 0.5
    z = 1 - 2 * i / count
    angle = math.pi * (3 - 5**0.5) * i
    across = (1 - z * z).sqrt()
    ahead = torch.stack([across * angle.cos(), z, across * angle.sin()], -1)
    helper = torch.where(
        ahead[:, 1:2].abs() < 0.9,
        torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64),
        torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64),
    )
    # right = ahead x up and up = right x ahead, as of all our cameras.
    right = F.normalize(torch.linalg.cross(ahead, helper), dim=1)
    up = torch.linalg.cross(right, ahead)
    return torch.stack([right, up, ahead], 1)


def rolls(turn: Tensor) -> Tensor:
    """Rotations [K, 3, 3] that turn images counter-clockwise by `turn` [K]."""
    c, s, o = turn.cos(), turn.sin(), torch.zeros_like(turn)
    return torch.stack([c, -s, o, s, c, o, o, o, o + 1], -1).unflatten(-1, (3, 3))


def moments(images: Tensor) -> tuple[Tensor, Tensor]:
    """Centroids [K, 2] and areas [K] of images [K, H, W], in NDC."""
    height, width = images.shape[1:]
    side = min(height, width)
    x = (2 * torch.arange(width).to(images) + 1 - width) / side
    y = (height - 1 - 2 * torch.arange(height).to(images)) / side
    total = images.sum((1, 2)).clamp(min=1e-6)
    centre = torch.stack([(images.sum(1) * x).sum(1), (images.sum(2) * y).sum(1)], 1)
    return centre / total[:, None], total * (2 / side) ** 2


def window(images: Tensor, centre: Tensor, area: Tensor, turn: Tensor) -> Tensor:
    """Images in squares about their centroids, as wide as the roots of their areas say, turned."""
    height, width = images.shape[1:]
    side = min(height, width)
    half = _WINDOW * area.sqrt()
    c, s = turn.cos().to(images), turn.sin().to(images)
    # From a pixel of the window to the image: turned back, scaled and shifted; y counts downwards.
    rows = [
        torch.stack([half * c, -half * s, centre[:, 0]], -1) * (side / width),
        torch.stack([half * s, half * c, -centre[:, 1]], -1) * (side / height),
    ]
    grid = F.affine_grid(
        torch.stack(rows, 1), [len(images), 1, _COMPARED, _COMPARED], align_corners=False
    )
    return F.grid_sample(images[:, None], grid, align_corners=False)[:, 0]


def distinct(rotation: Tensor, scores: Tensor, count: int, degrees: float) -> Tensor:
    """The rows of the best scores whose rotations differ by more than some degrees."""
    order = scores.argsort(descending=True, stable=True)
    kept: list[int] = []
    for i in order.tolist():
        if len(kept) == count:
            break
        if kept:
            angles = rotation_angle_between(rotation[kept], rotation[i].expand(len(kept), 3, 3))
            if bool((angles < degrees).any()):
                continue
        kept.append(i)
    return torch.tensor(kept, dtype=torch.int64, device=scores.device)


def shrunk(mask: Tensor, size: int) -> Tensor:
    """A mask [H, W] whose shorter side has at most `size` pixels: means over areas."""
    height, width = mask.shape
    part = size / min(height, width)
    if part >= 1:
        return mask
    shape = (max(1, round(height * part)), max(1, round(width * part)))
    return F.interpolate(mask[None, None], shape, mode="area")[0, 0]
