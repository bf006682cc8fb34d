"""Camera pose: a camera finds its way to the view in which a reference image was taken.

Many pairs of a reference and a start are optimised at once, each on its own. The scale falls from
soft to hard on the way, so that there is no grid search over it; the search is over the learning
rate alone.

As in the code of the source, a camera looks at the middle of the object; its view direction (two
angles), its distance and its viewing angle are unknown, start wrong, and are all optimised. Only
the direction counts in the score, for a silhouette hardly tells distance from viewing angle. Yet
they must not be fixed to those of the reference: a soft image is larger than a hard one, and a
camera that cannot step back to make up for this turns away instead.

For that reason the parameters are not distance and viewing angle, as in the source, but the
apparent size, on which a silhouette depends strongly, and the viewing angle at a constant size, on
which it hardly depends. With the parameters of the source the loss has a slanted valley, along
which Adam, which scales every parameter by itself, hardly moves, and directions stay a few degrees
off.

Source: thesis, section 5.4.2 and Figure 5.5; Petersen et al., GenDR, CVPR 2022, and its code.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from gendr._common.checks import check_choice, check_count, check_number
from gendr.losses import iou, iou_loss
from gendr.mesh import Camera, Mesh, look_at, rotation_angle_between
from gendr.photos.meshing.simplification import clustered
from gendr.photos.triangles import face_vertices, hard_silhouette
from gendr.rendering import silhouette
from gendr.rendering.scale import geometric_schedule
from lab import PROTOCOLS
from lab.engine.tasks import Better, Outcome, Progress, Trial
from lab.studies.scene import Meter, SceneTask, as_png, close_ups

if TYPE_CHECKING:
    from gendr.rendering.instances import Instance

# How many pairs are rendered together, to bound the memory. No score depends on it.
PAIRS_AT_ONCE = 200
# The radius of the object: seen from the nearest reference it fills the image and is not cut off.
RADIUS = 0.8
# The ranges from which reference and start are drawn, as in the code of the source: distances;
# angles from the optical axis to the side of the image, degrees; and the standard deviation of the
# elevation and azimuth of the reference, degrees.
REFERENCE_DISTANCE, START_DISTANCE = (2.5, 4.0), (2.0, 10.0)
REFERENCE_ANGLE, START_ANGLE = 20.0, (10.0, 30.0)
REFERENCE_SPREAD = 60.0
# The units of the parameters: degrees of the direction, the logarithm of the apparent size, and
# degrees of the viewing angle. With them one learning rate suits all, and a rate of 0.3 covers the
# 75 degrees that a start may be off while the scale is still large. The source steps in single
# degrees, and from half of the starts its cameras do not arrive before the image is hard.
TURN_UNIT, SIZE_UNIT, ANGLE_UNIT = 10.0, 0.3, 3.0
# The limits of distance and viewing angle: cameras stay outside the object, and see something.
DISTANCES, ANGLES = (1.0, 100.0), (2.0, 60.0)
# Tiles per side of the picture in an outcome, the side of a tile in pixels, and that of the images
# of which the tiles are parts.
TILES, TILE, WHOLE = 2, 56, 168


@dataclass(frozen=True)
class PoseProtocol:
    """Every number that the scores depend on; by default as published, but for `final_rate`.

    Attributes:
        image_size: Pixels of a side.
        pairs: The number of references, each with a start.
        off: Least and greatest angle between the view directions of start and reference, degrees.
        within: Angle up to which a pose counts as found, degrees.
        faces: Most faces of the target, which is simplified if it has more. 0 keeps all.
        steps: Steps of Adam.
        betas: Decay rates of Adam's averages.
        learning_rates: For directions, apparent sizes and viewing angles in their units; all are
            tried.
        final_rate: The part of the learning rate that is left at the last step; it falls
            geometrically. A nearly hard image has few gradients, which are mostly noise, and Adam
            turns them into steps of full length: at a constant rate, poses that were found are lost
            again.
        scales: First and last scale, NDC (NDC^2 for squared distributions); between them it falls
            geometrically.
        squared_scales: The same for squared distributions, whose scales are those of squared
            distances; None takes the same numbers.
        look: Steps between two comparisons of the hard silhouettes. Of every pair, the pose that
            looked most like the reference is kept.
        cutoff: Coverage at or below it counts as 0.

    Raises:
        ValueError: If a number is out of range, or nothing is there to search.
    """

    image_size: int = 64
    pairs: int = 600
    off: tuple[float, float] = (15.0, 75.0)
    within: float = 3.0
    faces: int = 0
    steps: int = 1000
    betas: tuple[float, float] = (0.5, 0.99)
    learning_rates: tuple[float, ...] = (0.1, 0.3)
    final_rate: float = 0.01
    scales: tuple[float, float] = (1e-1, 1e-7)
    squared_scales: tuple[float, float] | None = None
    look: int = 10
    cutoff: float = 1e-6

    def __post_init__(self) -> None:
        for name, least in (
            ("image_size", 1),
            ("pairs", 1),
            ("steps", 1),
            ("look", 1),
            ("faces", 0),
        ):
            check_count(name, getattr(self, name), least=least)
        for name in ("within", "final_rate"):
            check_number(name, getattr(self, name), above=0.0)
        if not self.learning_rates:
            raise ValueError("learning_rates must hold at least one number")

    def scales_of(self, instance: Instance) -> tuple[float, float]:
        """First and last scale of a renderer."""
        if self.squared_scales is not None and instance.dist.is_squared:
            return self.squared_scales
        return self.scales

    @staticmethod
    def named(name: str) -> PoseProtocol:
        """The protocol "laptop" or "paper"."""
        return LAPTOP if check_choice("protocol", name, PROTOCOLS) == "laptop" else PoseProtocol()


LAPTOP = PoseProtocol(
    image_size=32,
    pairs=48,
    faces=80,
    steps=60,
    learning_rates=(0.5,),
    scales=(1e-1, 1e-4),
)


@dataclass(frozen=True, eq=False)
class Poses:
    """B camera poses, each in the frame of its own reference view.

    Attributes:
        turn: [B, 2] degrees, the axis-angle vector that turns the camera about the object. The
            axis lies in the image plane of the reference (x and y); the length of the vector is the
            angle between camera and reference.
        distance: [B], from the middle of the object, whose radius is `RADIUS`.
        angle: [B] degrees from the optical axis to the side of the image; half of `fov`.
    """

    turn: Tensor
    distance: Tensor
    angle: Tensor

    def parameters(self) -> tuple[Tensor, Tensor, Tensor]:
        """The three tensors: turn, distance, angle."""
        return self.turn, self.distance, self.angle

    def __getitem__(self, index: slice) -> Poses:
        """The poses of a slice."""
        return Poses(*(x[index] for x in self.parameters()))

    def to(self, device: str) -> Poses:
        """The same poses on a device."""
        return Poses(*(x.to(device) for x in self.parameters()))

    def camera(self) -> Camera:
        """B cameras, in the frames of their references."""
        ahead = look_at(self.distance, 0.0, 0.0, 2 * self.angle)
        radians = torch.deg2rad(torch.nn.functional.pad(self.turn, (0, 1)))
        return ahead.rotated(radians)

    def error(self) -> Tensor:
        """[B] the angle between the orientations of camera and reference, degrees in [0, 180]."""
        rotation = self.camera().rotation
        return rotation_angle_between(rotation, look_at(1.0, 0.0, 0.0).rotation.to(rotation))


@dataclass(frozen=True, eq=False)
class Recovery:
    """The result of one learning rate.

    Attributes:
        learning_rate: The learning rate of Adam.
        found: The poses at which the cameras ended.
        error: [B], the errors of these poses in degrees.
    """

    learning_rate: float
    found: Poses
    error: Tensor

    def score(self, within: float) -> float:
        """The fraction of poses with an error of at most `within` degrees."""
        return float((self.error <= within).double().mean())


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of a reference pose and a start pose.

    Attributes:
        vertices: [B, V, 3], the target in the frames of the references.
        reference: B poses whose `turn` is 0.
        start: B poses.
    """

    vertices: Tensor
    reference: Poses
    start: Poses

    @staticmethod
    def draw(target: Mesh, protocol: PoseProtocol, seed: int) -> Pairs:
        """Draw the pairs of a protocol at random."""
        generator = torch.Generator().manual_seed(check_count("seed", seed, least=0))
        count = protocol.pairs

        def uniform(ends: tuple[float, float]) -> Tensor:
            return ends[0] + (ends[1] - ends[0]) * torch.rand(count, generator=generator)

        elevation, azimuth = REFERENCE_SPREAD * torch.randn(2, count, generator=generator)
        view = look_at(1.0, elevation, azimuth).rotation
        # In the frame of look_at(.., 0, 0) the reference is the camera that is not turned.
        frame = look_at(1.0, 0.0, 0.0).rotation.mT @ view
        vertices = (frame[:, None] @ target.vertices[:, :, None]).squeeze(-1)
        reference = Poses(
            torch.zeros(count, 2),
            uniform(REFERENCE_DISTANCE),
            torch.full((count,), REFERENCE_ANGLE),
        )
        axis = torch.nn.functional.normalize(torch.randn(count, 2, generator=generator), dim=-1)
        turn = axis * uniform(protocol.off)[:, None]
        start = Poses(turn, uniform(START_DISTANCE), uniform(START_ANGLE))
        return Pairs(vertices, reference, start)

    def __len__(self) -> int:
        return len(self.vertices)

    def split(self, count: int) -> Iterator[Pairs]:
        """The pairs in parts of at most `count`."""
        for first in range(0, len(self), count):
            part = slice(first, first + count)
            yield Pairs(self.vertices[part], self.reference[part], self.start[part])

    def to(self, device: str) -> Pairs:
        """The same poses on a device."""
        return Pairs(self.vertices.to(device), self.reference.to(device), self.start.to(device))


def _log_size(distance: Tensor, angle: Tensor) -> Tensor:
    """The logarithm of the apparent size, the part of the image that the object's radius fills."""
    return -torch.log(distance * torch.tan(torch.deg2rad(angle)))


def _distance(log_size: Tensor, angle: Tensor) -> Tensor:
    """The inverse of `_log_size` at a viewing angle."""
    return torch.exp(-log_size) / torch.tan(torch.deg2rad(angle))


class _Best:
    """Keeps the pose of every pair whose hard silhouette was most like that of the reference."""

    def __init__(self, pairs: Pairs, masks: Tensor) -> None:
        self.masks, self.poses = masks, pairs.start
        self.loss = torch.full((len(pairs),), math.inf, device=masks.device)

    def look(self, poses: Poses, found: Tensor) -> None:
        """Keep those of B poses whose silhouettes [B, H, W] are better than all before."""
        loss = 1 - iou(found, self.masks)
        better = loss < self.loss
        self.loss = torch.where(better, loss, self.loss)
        pairs = zip(poses.parameters(), self.poses.parameters(), strict=True)
        self.poses = Poses(
            *(
                torch.where(better[:, None] if new.ndim == 2 else better, new.detach(), old)
                for new, old in pairs
            )
        )


@dataclass(frozen=True, eq=False)
class PoseTask(SceneTask[PoseProtocol]):
    """Find camera poses of a target from its silhouettes; the score is the fraction found."""

    name: ClassVar[str] = "pose"
    title: ClassVar[str] = "Camera pose"
    better: ClassVar[Better] = "higher"
    unit: ClassVar[str] = "fraction of poses found"
    protocols: ClassVar[dict[str, Any]] = {"laptop": LAPTOP, "paper": PoseProtocol()}

    @staticmethod
    def placed(mesh: Mesh, protocol: PoseProtocol) -> Mesh:
        """The middle of its bounding box at the origin, its radius `RADIUS`, simplified."""
        mesh = mesh.normalized("sphere").scaled(RADIUS)
        return clustered(mesh, protocol.faces) if protocol.faces else mesh

    def search(
        self,
        instance: Instance,
        seed: int = 0,
        progress: Progress | None = None,
        first: int | None = None,
    ) -> tuple[Recovery, ...]:
        """Optimise all pairs, or so many of the first ones, with every learning rate.

        Returns:
            One result per rate.
        """
        p = self.protocol
        pairs = next(Pairs.draw(self.target, p, seed).split(first or p.pairs))
        batches = list(pairs.to(self.device).split(PAIRS_AT_ONCE))
        meter = Meter(len(p.learning_rates) * len(batches) * p.steps, progress)
        recoveries: list[Recovery] = []
        for rate in p.learning_rates:
            found = [self._descend(instance, pairs, rate, meter) for pairs in batches]
            parameters = zip(*(poses.parameters() for poses in found), strict=True)
            whole = Poses(*(torch.cat(parts) for parts in parameters))
            recoveries.append(Recovery(rate, whole, whole.error()))
        return tuple(recoveries)

    def _descend(self, instance: Instance, pairs: Pairs, rate: float, meter: Meter) -> Poses:
        """Optimise the pairs with one learning rate; returns the poses at the end."""
        p, faces = self.protocol, self.target.faces.to(self.device)
        masks = hard_silhouette(
            face_vertices(pairs.vertices, faces, pairs.reference.camera()), p.image_size
        )
        start = pairs.start
        turn, size, angle = (
            x.clone().requires_grad_()
            for x in (
                start.turn / TURN_UNIT,
                _log_size(start.distance, start.angle) / SIZE_UNIT,
                start.angle / ANGLE_UNIT,
            )
        )
        adam = torch.optim.Adam([turn, size, angle], rate, p.betas)
        slower = torch.optim.lr_scheduler.ExponentialLR(adam, p.final_rate ** (1 / p.steps))
        kept = _Best(pairs, masks)
        scales = geometric_schedule(*p.scales_of(instance), p.steps)
        for step in range(p.steps + 1):
            opening = ANGLE_UNIT * angle
            poses = Poses(TURN_UNIT * turn, _distance(SIZE_UNIT * size, opening), opening)
            triangles = face_vertices(pairs.vertices, faces, poses.camera())
            if step % p.look == 0 or step == p.steps:
                kept.look(poses, hard_silhouette(triangles.detach(), p.image_size))
            if step == p.steps:
                break
            alpha = silhouette(
                triangles, p.image_size, instance.dist, instance.tconorm, scales[step], p.cutoff
            )
            # Times the number of pairs the mean is a sum, so that each pair moves independently.
            loss = iou_loss(alpha, masks) * len(pairs)
            adam.zero_grad()
            loss.backward()
            adam.step()
            slower.step()
            with torch.no_grad():
                angle.clamp_(*(x / ANGLE_UNIT for x in ANGLES))
                near, far = (
                    _log_size(torch.full_like(size, x), ANGLE_UNIT * angle) for x in DISTANCES
                )
                size.clamp_(far / SIZE_UNIT, near / SIZE_UNIT)
            meter.advance()
        return kept.poses

    def run(self, instance: Instance, seed: int = 0, progress: Progress | None = None) -> Outcome:
        """Score one instance; see `Task.run`."""
        start = time.perf_counter()
        recoveries = self.search(instance, seed, progress)
        return self.outcome(instance, recoveries, seed, time.perf_counter() - start)

    def outcome(
        self, instance: Instance, recoveries: Sequence[Recovery], seed: int, seconds: float
    ) -> Outcome:
        """The outcome of a search."""
        scale, within = self.protocol.scales_of(instance)[0], self.protocol.within
        best = self.best(recoveries)
        trials = (Trial(scale, r.learning_rate, seed, r.score(within)) for r in recoveries)
        return Outcome(
            instance.name,
            best.score(within),
            scale,
            best.learning_rate,
            seconds,
            tuple(trials),
            self.picture(best, seed),
        )

    def best(self, recoveries: Sequence[Recovery]) -> Recovery:
        """The result that found most poses; of equal ones the first."""
        return max(recoveries, key=lambda recovery: recovery.score(self.protocol.within))

    def picture(self, recovery: Recovery, seed: int = 0) -> bytes:
        """A small PNG: silhouettes of the first poses found, over those of their references."""
        pairs = next(Pairs.draw(self.target, self.protocol, seed).split(TILES**2))
        target = self.silhouettes(pairs, pairs.reference, WHOLE)
        found = self.silhouettes(pairs, recovery.found[: len(pairs)], WHOLE)
        return as_png(close_ups(target, found, TILES, TILE))

    def silhouettes(self, pairs: Pairs, poses: Poses, image_size: int) -> Tensor:
        """Hard masks [B, H, W] of the target from B poses, one of each pair."""
        faces = self.target.faces
        triangles = face_vertices(pairs.vertices, faces, poses.to("cpu").camera())
        return hard_silhouette(triangles, image_size)
