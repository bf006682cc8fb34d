"""The search for poses of a mesh that agree with masks, from anywhere; its steps: see `fit.py`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

import torch
import torch.nn.functional as F
from torch import Tensor

from gendr.jobs.loop import Progress, Tell, between
from gendr.losses import iou
from gendr.mesh import Camera, Mesh, rotation_angle_between
from gendr.mesh.rotations import axis_angle_to_matrix
from gendr.photos.fitting.pose.descent import Descent, P, PoseRows, hard
from gendr.photos.fitting.pose.polish import polished
from gendr.photos.fitting.pose.settings import PoseSettings
from gendr.photos.meshing.simplification import clustered, simplified

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


@dataclass(frozen=True, eq=False)
class PoseResult:
    """The cameras of some masks.

    Attributes:
        camera: B cameras, the best for each mask; of a video, the best for all together. All
            cameras have the origin of the mesh, if it has one, and the windows of those given.
        iou: [B], of the hard silhouettes with the masks.
        candidates: for each mask the poses that look alike, that of `camera` first. Of a rig there
            is one tuple, and each candidate has B cameras.
        searched: the masks that were searched from anywhere: all, but of a video only some.
        placement: [4, 4] float64, of a rig: from the world of the mesh to that of the rig, from
            and to coordinates that count from 0; else None.
    """

    camera: Camera
    iou: Tensor
    candidates: tuple[tuple[PoseCandidate, ...], ...]
    searched: tuple[int, ...] = ()
    placement: Tensor | None = None


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
class Alike(PoseRows, Generic[P]):
    """Poses that look alike, the best first.

    Attributes:
        poses: K poses.
        scores: [K], hard IoUs, the mean over the masks.
    """

    poses: P
    scores: Tensor


class Search:
    """What is the same for all masks of a mesh.

    Args:
        mesh: one mesh.
        settings: of the search.
        optics: the cameras of the masks, whose poses do not count.
        is_free: whether the focal length is searched for too.

    Attributes:
        centre: [3], of the box around the mesh.
        radius: about it.
        fine: the mesh with no more faces than images show.
        few: the mesh with `settings.faces` faces.
    """

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
        self._rotations = directions(settings.directions).to(mesh.vertices)
        focal = optics.focal[:1].mean(1, keepdim=True).expand(len(self._rotations), 2)
        zero = torch.zeros_like(self._rotations[:, 0, :2])
        poses = Poses(self._rotations, zero, zero[:, 0] + math.log(FILL), focal)
        self._seen = hard(self.few, poses.camera(self.centre, self.radius, zero[:1]), SEEN)

    def fix(self, focal: Tensor) -> None:
        """Take a focal length [2] that was found as that of all further images."""
        if self.is_free:
            self.is_free = False
            self.optics = self.optics.with_tensors(focal=focal.expand(len(self.optics), 2))

    def starts(self, mask: Tensor, focal: Tensor, count: int) -> Poses:
        """The best poses that differ: images of the search are shifted, scaled and turned."""
        centre, area = moments(self._seen)
        wanted_centre, wanted_area = moments(mask[None])
        wanted = window(mask[None], wanted_centre, wanted_area, mask.new_zeros(1))[0].flatten()
        turns = torch.arange(self.settings.turns, device=mask.device) * (
            2 * math.pi / self.settings.turns
        )
        scores = []
        for turn in turns:
            shown = window(self._seen, centre, area, turn.expand(len(area))).flatten(1)
            both = torch.minimum(shown, wanted).sum(1)
            scores.append(both / (torch.maximum(shown, wanted).sum(1) + 1e-9))
        flat = torch.stack(scores, 1).flatten()  # [directions * turns]
        order = flat.topk(min(len(flat), 40 * count)).indices
        i, turn = order // len(turns), turns[order % len(turns)].to(mask)
        rotation = rolls(turn) @ self._rotations[i]
        rows = distinct(rotation, flat[order], count, APART)
        i, turn, rotation = i[rows], turn[rows], rotation[rows]
        # The centre of the object lies beside the centroid of its silhouette, and turns about it.
        grow = (wanted_area / area[i]).sqrt()
        beside = -(rolls(turn)[:, :2, :2] @ centre[i][..., None])[..., 0] * grow[:, None]
        size = math.log(FILL) + grow.log()
        return Poses(rotation, wanted_centre + beside, size, focal.expand(len(rows), 2))


class Problem(ABC, Generic[P]):
    """One pose that is to agree with all of some masks: of one view, or of the views of a rig.

    Args:
        search: of the mesh.
        masks: [B, H, W].
    """

    def __init__(self, search: Search, masks: Tensor) -> None:
        self.search, self.masks, self.settings = search, masks, search.settings

    @abstractmethod
    def camera(self, poses: P) -> Camera:
        """Cameras [K * B] that see the object so, those of one pose together."""

    @abstractmethod
    def starts(self) -> P:
        """The poses that are refined."""

    @abstractmethod
    def moves(self, poses: P, pixel: float) -> tuple[Callable[..., P], list[tuple[Tensor, float]]]:
        """Poses as a function of numbers; where these begin, and the rates of Adam for them."""

    def scores(self, poses: P, masks: Tensor, mesh: Mesh) -> Tensor:
        """[K, B], hard IoUs with masks of any size."""
        seen = hard(mesh, self.camera(poses), (masks.shape[1], masks.shape[2]))
        return iou(seen, masks.repeat(len(poses), 1, 1)).unflatten(0, (len(poses), len(masks)))

    def descent(self, masks: Tensor, mesh: Mesh) -> Descent[P]:
        """Of poses to masks of any size."""
        return Descent(
            mesh, masks, self.camera, lambda now: self.scores(now, masks, mesh).mean(1),
            self.settings.dist, self.settings.tconorm,
        )  # fmt: skip

    def refined(
        self, poses: P, masks: Tensor, mesh: Mesh, steps: int, pixels: tuple[float, float],
        tell: Callable[[float], None],
    ) -> P:  # fmt: skip
        """Poses moved by Adam, those with the best hard silhouettes on the way."""
        descent = self.descent(masks, mesh)
        moved, moves = self.moves(poses, descent.pixel)
        return descent.descended(poses, moved, moves, steps, pixels, tell)

    def finalists(self, tell: Tell) -> P:
        """The best poses, searched for from anywhere and refined."""
        settings, search = self.settings, self.search
        tell(Progress(0.0, "search"))
        small = shrunk(self.masks, settings.image_size // 2)
        poses = self.refined(
            self.starts(), small, search.few, settings.steps, (2.0, 0.4),
            between(tell, 0.1, 0.6, "refine"),
        )  # fmt: skip
        scores = self.scores(poses, small, search.few).mean(1)
        rows = distinct(poses.rotation, scores, settings.finalists, SAME)
        large = shrunk(self.masks, settings.image_size)
        return self.refined(
            poses[rows], large, search.fine, max(1, settings.steps // 2), (0.8, 0.2),
            between(tell, 0.6, 0.9, "finish"),
        )  # fmt: skip

    def scored(self, poses: P) -> Alike[P]:
        """Poses with their scores."""
        return Alike(poses, self.scores(poses, self.masks, self.search.mesh).mean(1))

    def alike(self, found: Alike[P]) -> Tensor:
        """The rows of those that differ and are not worse than the best by much, best first."""
        rows = distinct(found.poses.rotation, found.scores, len(found), SAME)
        return rows[found.scores[rows] >= found.scores[rows[0]] - self.settings.alike]

    def listed(self, found: Alike[P]) -> tuple[PoseCandidate, ...]:
        """Poses as candidates, with their angles to the first."""
        camera, views = self.camera(found.poses), len(self.masks)
        rotation = found.poses.rotation
        angles = rotation_angle_between(rotation[:1], rotation).reshape(-1)
        return tuple(
            PoseCandidate(camera[i * views : (i + 1) * views], score, angle)
            for i, (score, angle) in enumerate(
                zip(found.scores.tolist(), angles.tolist(), strict=True)
            )
        )


class View(Problem[Poses]):
    """The pose of one mask.

    Args:
        search: of the mesh.
        mask: [H, W].
        number: of its optics.
    """

    def __init__(self, search: Search, mask: Tensor, number: int) -> None:
        super().__init__(search, mask[None])
        self.optics = search.optics[number]

    def camera(self, poses: Poses) -> Camera:
        """Cameras [K] that see the object so."""
        search, shown = self.search, self.optics.window
        camera = poses.camera(search.centre, search.radius, self.optics.principal)
        return camera if shown is None else camera.with_window(shown.expand(len(camera), 4))

    def starts(self) -> Poses:
        """By images that are shifted, scaled and turned."""
        return self.search.starts(self.masks[0], self.optics.focal, self.settings.starts)

    def moves(
        self, poses: Poses, pixel: float
    ) -> tuple[Callable[..., Poses], list[tuple[Tensor, float]]]:
        """Turns of the camera, places, sizes, and focal lengths if they are free."""

        def moved(turn: Tensor, place: Tensor, grow: Tensor, wide: Tensor) -> Poses:
            return Poses(
                axis_angle_to_matrix(turn) @ poses.rotation, poses.place + place,
                poses.size + grow, poses.focal * wide.exp()[:, None],
            )  # fmt: skip

        zero = torch.zeros_like(poses.size)
        return moved, [
            (torch.zeros_like(poses.rotation[:, 0]), 0.05),
            (torch.zeros_like(poses.place), pixel),
            (zero, pixel),
            (zero, 0.02 if self.search.is_free else 0.0),
        ]

    def found(self, tell: Tell) -> Alike[Poses]:
        """The poses that look alike, searched for from anywhere."""
        poses = self.polished(self.finalists(tell))
        tell(Progress(1.0, "finish"))
        found = self.scored(poses)
        return found[self.alike(found)]

    def polished(self, poses: Poses) -> Poses:
        """The poses of these that may look alike, moved by least squares (`polish.py`)."""
        masks, is_free = shrunk(self.masks, self.settings.image_size), self.search.is_free
        scores = self.scores(poses, masks, self.search.fine).mean(1)
        rows = (scores >= scores.max() - self.settings.alike - _GAINED).nonzero()[:, 0]
        descent = self.descent(masks, self.search.fine)
        turn = descent.pixel * math.exp(-float(poses.size.mean()))
        units = [turn] * 3 + [descent.pixel] * 2 + [turn] + [turn] * is_free

        def moved(now: Poses, by: Tensor) -> Poses:
            focal = now.focal * by[:, 6:].exp() if is_free else now.focal
            return Poses(
                axis_angle_to_matrix(by[:, :3]) @ now.rotation, now.place + by[:, 3:5],
                now.size + by[:, 5], focal,
            )  # fmt: skip

        new = polished(
            descent, poses[rows], moved, torch.tensor(units).to(masks), self.settings.polish_steps
        )
        return poses.replaced(rows, new)


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


def shrunk(masks: Tensor, size: int) -> Tensor:
    """Masks [B, H, W] whose shorter side has at most `size` pixels: means over areas."""
    height, width = masks.shape[1:]
    part = size / min(height, width)
    if part >= 1:
        return masks
    shape = (max(1, round(height * part)), max(1, round(width * part)))
    return F.interpolate(masks[:, None], shape, mode="area")[:, 0]
