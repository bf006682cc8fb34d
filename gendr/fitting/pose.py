"""`fit_pose`: where a camera stood, from masks of an object whose mesh is known.

1. The mesh is seen from directions all over the sphere, in small images. Shifted and scaled to the
   centroid and the area of the mask, and turned in their plane, they are compared with the mask.
2. The best that differ are refined together, by soft silhouettes whose scale falls.
3. The best of these are refined in larger images.

Poses that look alike at the end are given too: a symmetric or flat object has several.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gendr._runtime.checks import (
    check_choice,
    check_count,
    check_finite,
    check_float,
    check_like,
    check_number,
    check_shape,
)
from gendr.fitting.parametrization import check_single
from gendr.losses import iou
from gendr.mesh import Camera, Mesh, rotation_angle_between
from gendr.mesh.rotations import axis_angle_to_matrix
from gendr.mesh.simplification import simplified
from gendr.rendering import silhouette
from gendr.rendering.triangles import face_vertices, hard_silhouette

__all__ = ["PoseCandidate", "PoseResult", "PoseSettings", "fit_pose", "shrunk"]

# Sides of the images of the search; the mask is compared in a square of this half width, in units
# of the root of its area.
_SEEN, _COMPARED, _WINDOW = 64, 32, 1.6
# Apparent half width of the object in the images of the search.
_FILL = 0.7
# Refined poses that are nearer than this, in degrees, count as one.
_SAME = 3.0


@dataclass(frozen=True)
class PoseSettings:
    """The settings of `fit_pose`.

    Attributes:
        directions: from which the mesh is seen in the search, >= 8.
        turns: in the plane of the image, for each direction, >= 1.
        starts: how many poses of the search are refined, >= 1.
        finalists: how many of them are refined in larger images, >= 1.
        steps: of the first refinement; the second has half as many. >= 1.
        image_size: largest side of the images of the second refinement; that of the first is half.
        faces: at most so many faces of the mesh are used in the search and the first refinement.
        alike: poses whose hard IoU is within this of the best are given as candidates.
        dist, tconorm: of the soft silhouettes.
    """

    directions: int = 600
    turns: int = 36
    starts: int = 24
    finalists: int = 6
    steps: int = 60
    image_size: int = 128
    faces: int = 600
    alike: float = 0.02
    dist: str = "uniform"
    tconorm: str = "yager(p=2)"

    def __post_init__(self) -> None:
        least = {"directions": 8, "turns": 1, "starts": 1, "finalists": 1, "steps": 1,
                 "image_size": 16, "faces": 8}  # fmt: skip
        for name, number in least.items():
            check_count(name, getattr(self, name), least=number)
        check_number("alike", self.alike, above=0)

    def changed(self, changes: dict[str, Any]) -> PoseSettings:
        """The settings with some of them replaced."""
        for name in changes:
            check_choice("setting of a pose", name, [f.name for f in fields(PoseSettings)])
        return replace(self, **changes)


@dataclass(frozen=True, eq=False)
class PoseCandidate:
    """A pose, and how well its silhouette agrees.

    Attributes:
        camera: one camera.
        iou: of the hard silhouette with the mask.
        angle: to the best pose, in degrees.
    """

    camera: Camera
    iou: float
    angle: float


@dataclass(frozen=True, eq=False)
class PoseResult:
    """The cameras of some masks.

    Attributes:
        camera: B cameras, the best for each mask.
        iou: [B], of the hard silhouettes with the masks.
        candidates: for each mask the poses that look alike, the best first.
        trace: for each mask the best camera of some moments on the way, for pictures.
    """

    camera: Camera
    iou: Tensor
    candidates: tuple[tuple[PoseCandidate, ...], ...]
    trace: tuple[Camera, ...]


def fit_pose(
    mesh: Mesh,
    masks: Tensor,
    *,
    fov: float | None = 30.0,
    intrinsics: Camera | None = None,
    settings: PoseSettings | None = None,
    callback: Callable[[str, float], None] | None = None,
    **changes: Any,
) -> PoseResult:
    """Find the cameras that saw an object in masks.

    Args:
        mesh: one mesh, of any size at any place.
        masks: [B, H, W] or [H, W] in [0, 1], cut at 0.5; each of its own camera. The object should
            be wholly in the image.
        fov: across the shorter side, in degrees; None if it is not known: then it is searched for,
            which a silhouette determines only roughly.
        intrinsics: a camera, or one for each mask, whose focal length and principal point are used
            instead of `fov`; its pose is not.
        settings: by default `PoseSettings()`.
        callback: called with the name of a stage and the part of the work that is done, in [0, 1].
        **changes: fields of `settings` to replace.

    Returns:
        Perspective cameras in the world of the mesh.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if shapes or values are wrong, or a mask is empty or fills its image.
    """
    settings = (settings or PoseSettings()).changed(changes)
    check_single("mesh", mesh)
    check_finite("masks", check_float("masks", masks))
    masks = masks.detach()[None] if masks.ndim == 2 else masks.detach()
    check_shape("masks", masks, "[B, H, W]")
    check_like("the mesh", mesh.vertices, "masks", masks)
    _check_outlines(masks)
    if intrinsics is not None:
        if not isinstance(intrinsics, Camera):
            raise TypeError(f"intrinsics must be a camera, got {type(intrinsics).__name__}")
        if intrinsics.orthographic or len(intrinsics) not in (1, len(masks)):
            raise ValueError(
                f"intrinsics must be 1 or {len(masks)} perspective cameras, got {intrinsics!r}"
            )
        optics = intrinsics.detach().expand(len(masks))
    else:
        optics = Camera(fov=30.0 if fov is None else fov).to(masks.dtype).expand(len(masks))
    if fov is not None:
        check_number("fov", fov, above=0, below=180)
    search = _Search(mesh.detach(), settings, optics, is_free=fov is None and intrinsics is None)
    found = []
    with torch.no_grad():
        for b in range(len(masks)):
            tell = _teller(callback, b, len(masks))
            found.append(search.candidates(masks[b], b, tell))
    best = [each[0] for each in found]
    return PoseResult(
        Camera.batch([each.camera for each in best]),
        torch.tensor([each.iou for each in best], dtype=masks.dtype),
        tuple(found),
        tuple(search.traces),
    )


def _teller(callback: Callable[[str, float], None] | None, b: int, count: int) -> Any:
    def tell(stage: str, done: float) -> None:
        if callback is not None:
            callback(stage, (b + done) / count)

    return tell


def _check_outlines(masks: Tensor) -> None:
    inside = (masks > 0.5).flatten(1)
    for what, wrong in (("is empty", ~inside.any(1)), ("fills its image", inside.all(1))):
        if bool(wrong.any()):
            raise ValueError(
                f"mask {int(wrong.int().argmax())} {what}, so it has no outline to find a pose by"
            )


@dataclass(frozen=True)
class _Poses:
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

    def __getitem__(self, rows: Tensor) -> _Poses:
        return _Poses(self.rotation[rows], self.place[rows], self.size[rows], self.focal[rows])

    def camera(self, centre: Tensor, radius: float, principal: Tensor) -> Camera:
        """Cameras [K] that see the object so."""
        depth = self.focal.mean(1) * radius * (-self.size).exp()
        beside = (self.place - principal) / self.focal * depth[:, None]
        at = torch.cat([beside, depth[:, None]], 1)
        translation = at - (self.rotation @ centre[:, None])[..., 0]
        return Camera(self.rotation, translation, self.focal, principal.expand(len(depth), 2))


class _Search:
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
        self.few = simplified(mesh, settings.faces)
        self.traces: list[Camera] = []
        self._way: list[Camera] = []
        self.rotations = _directions(settings.directions).to(mesh.vertices)
        focal = optics.focal[:1].mean(1, keepdim=True).expand(len(self.rotations), 2)
        zero = torch.zeros_like(self.rotations[:, 0, :2])
        poses = _Poses(self.rotations, zero, zero[:, 0] + math.log(_FILL), focal)
        self.seen = self._hard(self.few, poses.camera(self.centre, self.radius, zero[:1]), _SEEN)

    def _hard(self, mesh: Mesh, camera: Camera, size: int | tuple[int, int]) -> Tensor:
        parts = [camera[i : i + 50] for i in range(0, len(camera), 50)]
        return torch.cat([hard_silhouette(_triangles(mesh, part), size) for part in parts])

    def candidates(self, mask: Tensor, b: int, tell: Any) -> tuple[PoseCandidate, ...]:
        """The poses of one mask that look alike, the best first."""
        settings, optics = self.settings, self.optics[b]
        principal = optics.principal
        tell("search", 0.0)
        self._way = []
        poses = self._starts(mask, optics.focal)
        small = shrunk(mask, settings.image_size // 2)
        poses = self._refined(
            poses, small, principal, self.few, settings.steps, (2.0, 0.4),
            lambda done: tell("refine", 0.1 + 0.5 * done),
        )  # fmt: skip
        scores = self._scores(poses, small, principal, self.few)
        rows = _distinct(poses.rotation, scores, settings.finalists, _SAME)
        large = shrunk(mask, settings.image_size)
        poses = self._refined(
            poses[rows], large, principal, self.mesh, max(1, settings.steps // 2), (0.8, 0.2),
            lambda done: tell("finish", 0.6 + 0.4 * done),
        )  # fmt: skip
        scores = self._scores(poses, mask, principal, self.mesh)
        rows = _distinct(poses.rotation, scores, len(scores), _SAME)
        camera = poses[rows].camera(self.centre, self.radius, principal)
        angles = rotation_angle_between(camera.rotation[:1], camera.rotation)
        best = float(scores[rows[0]])
        self.traces.append(Camera.batch([*self._way, camera[0]]))
        return tuple(
            PoseCandidate(camera[i], float(scores[row]), float(angles.reshape(-1)[i]))
            for i, row in enumerate(rows.tolist())
            if i == 0 or float(scores[row]) >= best - settings.alike
        )

    def _scores(self, poses: _Poses, mask: Tensor, principal: Tensor, mesh: Mesh) -> Tensor:
        camera = poses.camera(self.centre, self.radius, principal)
        return iou(self._hard(mesh, camera, (mask.shape[0], mask.shape[1])), mask[None])

    def _starts(self, mask: Tensor, focal: Tensor) -> _Poses:
        """The best poses that differ, by images that are shifted, scaled and turned."""
        centre, area = _moments(self.seen)
        wanted_centre, wanted_area = _moments(mask[None])
        wanted = _window(mask[None], wanted_centre, wanted_area, torch.zeros(1))[0].flatten()
        turns = torch.arange(self.settings.turns) * (2 * math.pi / self.settings.turns)
        scores = []
        for turn in turns:
            shown = _window(self.seen, centre, area, turn.expand(len(area))).flatten(1)
            both = torch.minimum(shown, wanted).sum(1)
            scores.append(both / (torch.maximum(shown, wanted).sum(1) + 1e-9))
        table = torch.stack(scores, 1)  # [directions, turns]
        flat = table.flatten()
        order = flat.topk(min(len(flat), 40 * self.settings.starts)).indices
        i, turn = order // len(turns), turns[order % len(turns)].to(mask)
        rotation = _rolls(turn) @ self.rotations[i]
        rows = _distinct(rotation, flat[order], self.settings.starts, 12.0)
        i, turn, rotation = i[rows], turn[rows], rotation[rows]
        # The centre of the object lies beside the centroid of its silhouette, and turns about it.
        grow = (wanted_area / area[i]).sqrt()
        beside = -(_rolls(turn)[:, :2, :2] @ centre[i][..., None])[..., 0] * grow[:, None]
        size = math.log(_FILL) + grow.log()
        return _Poses(rotation, wanted_centre + beside, size, focal.expand(len(rows), 2))

    def _refined(
        self, poses: _Poses, mask: Tensor, principal: Tensor, mesh: Mesh, steps: int,
        pixels: tuple[float, float], tell: Any,
    ) -> _Poses:  # fmt: skip
        """Poses moved by Adam, those with the best hard silhouette on the way."""
        size = (mask.shape[0], mask.shape[1])
        count = len(poses.size)
        with torch.enable_grad():
            turn = torch.zeros(count, 3, dtype=mask.dtype, requires_grad=True)
            place = torch.zeros_like(poses.place).requires_grad_()
            grow = torch.zeros_like(poses.size).requires_grad_()
            wide = torch.zeros_like(poses.size).requires_grad_()
            pixel = 2 / min(size)
            groups = [
                {"params": [turn], "lr": 0.05},
                {"params": [place, grow], "lr": 1.0 * pixel},
                {"params": [wide], "lr": 0.02 if self.is_free else 0.0},
            ]
            optimizer = torch.optim.Adam(groups, betas=(0.8, 0.95))
            rates = [group["lr"] for group in groups]
            now = poses
            best, best_scores = poses, self._scores(poses, mask, principal, mesh)
            self._keep(best, best_scores, principal)
            for step in range(steps):
                part = step / steps
                for group, rate in zip(optimizer.param_groups, rates, strict=True):
                    group["lr"] = rate * 0.1**part
                scale = pixels[0] * (pixels[1] / pixels[0]) ** part * pixel
                now = _Poses(
                    axis_angle_to_matrix(turn) @ poses.rotation, poses.place + place,
                    poses.size + grow, poses.focal * wide.exp()[:, None],
                )  # fmt: skip
                camera = now.camera(self.centre, self.radius, principal)
                alpha = silhouette(
                    _triangles(mesh, camera), size, self.settings.dist,
                    self.settings.tconorm, scale,
                )  # fmt: skip
                both = alpha * mask
                union = (alpha + mask - both).sum((1, 2))
                loss = (1 - both.sum((1, 2)) / union).sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                tell((step + 1) / steps)
                if (step + 1) % 10 == 0 or step + 1 == steps:
                    with torch.no_grad():
                        best, best_scores = self._better(
                            best, best_scores, now, mask, principal, mesh
                        )
                        self._keep(best, best_scores, principal)
        return best

    def _keep(self, poses: _Poses, scores: Tensor, principal: Tensor) -> None:
        """Note the best pose for the trace."""
        row = scores.argmax()[None]
        self._way.append(poses[row].camera(self.centre, self.radius, principal))

    def _better(
        self, best: _Poses, scores: Tensor, now: _Poses, mask: Tensor, principal: Tensor, mesh: Mesh
    ) -> tuple[_Poses, Tensor]:
        """Of each pair the pose with the better hard silhouette."""
        now = _Poses(*(getattr(now, f.name).detach() for f in fields(_Poses)))
        found = self._scores(now, mask, principal, mesh)
        is_better = found > scores
        joined = []
        for f in fields(_Poses):
            new, old = getattr(now, f.name), getattr(best, f.name)
            joined.append(torch.where(is_better.reshape(-1, *(1,) * (new.ndim - 1)), new, old))
        return _Poses(*joined), torch.maximum(found, scores)


def _triangles(mesh: Mesh, camera: Camera) -> Tensor:
    return face_vertices(mesh.vertices[None], mesh.faces, camera)


def _directions(count: int) -> Tensor:
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


def _rolls(turn: Tensor) -> Tensor:
    """Rotations [K, 3, 3] that turn images counter-clockwise by `turn` [K]."""
    c, s, o = turn.cos(), turn.sin(), torch.zeros_like(turn)
    return torch.stack([c, -s, o, s, c, o, o, o, o + 1], -1).unflatten(-1, (3, 3))


def _moments(images: Tensor) -> tuple[Tensor, Tensor]:
    """Centroids [K, 2] and areas [K] of images [K, H, W], in NDC."""
    height, width = images.shape[1:]
    side = min(height, width)
    x = (2 * torch.arange(width, dtype=images.dtype) + 1 - width) / side
    y = (height - 1 - 2 * torch.arange(height, dtype=images.dtype)) / side
    total = images.sum((1, 2)).clamp(min=1e-6)
    centre = torch.stack([(images.sum(1) * x).sum(1), (images.sum(2) * y).sum(1)], 1)
    return centre / total[:, None], total * (2 / side) ** 2


def _window(images: Tensor, centre: Tensor, area: Tensor, turn: Tensor) -> Tensor:
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


def _distinct(rotation: Tensor, scores: Tensor, count: int, degrees: float) -> Tensor:
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
    return torch.tensor(kept, dtype=torch.int64)


def shrunk(mask: Tensor, size: int) -> Tensor:
    """A mask [H, W] whose shorter side has at most `size` pixels: means over areas."""
    height, width = mask.shape
    part = size / min(height, width)
    if part >= 1:
        return mask
    shape = (max(1, round(height * part)), max(1, round(width * part)))
    return F.interpolate(mask[None, None], shape, mode="area")[0, 0]
