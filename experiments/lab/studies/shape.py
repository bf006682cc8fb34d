"""Shape optimisation: a sphere becomes the object whose silhouettes are given.

Target and sphere are seen by the same cameras; the target through a hard renderer, the sphere
through the instance. Adam has few steps, so that what counts is how much a gradient is worth. A
grid search gives every instance the scale and the learning rate that suit it.

Source: thesis, section 5.4.1 and Figure 5.4; the setting is that of Liu et al., Soft Rasterizer,
2019, whose parametrisation and loss it keeps.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from gendr._common.checks import check_choice, check_count, check_number
from gendr.losses import FlattenLoss, LaplacianLoss, iou, iou_loss
from gendr.mesh import Camera, Mesh, icosphere, look_at
from gendr.photos import visual
from gendr.photos.triangles import face_vertices, hard_silhouette
from gendr.rendering import silhouette
from lab import PROTOCOLS
from lab.engine.tasks import Better, Outcome, Progress, Trial
from lab.studies.scene import Meter, SceneTask, as_png

if TYPE_CHECKING:
    from gendr.rendering.instances import Instance

# The picture in an outcome: its side in pixels; its elevation, azimuth and viewing angle in
# degrees.
PICTURE, PICTURE_VIEW = 96, (30.0, 30.0, 20.0)


@dataclass(frozen=True)
class ShapeProtocol:
    """Every number that the scores depend on; by default as published.

    Attributes:
        image_size: Pixels of a side.
        views: Azimuths, evenly around the object.
        elevations: Degrees; each is an independent run, with a grid search of its own.
        distance: From the cameras to the middle of the object, whose longest side is 1.
        fov: Full viewing angle, degrees.
        subdivisions: Subdivisions of the icosphere that is deformed.
        steps: Steps of Adam.
        betas: Decay rates of Adam's averages.
        laplacian: Weight of `LaplacianLoss`.
        flatness: Weight of `FlattenLoss`.
        learning_rates: The grid search tries all of them with all scales.
        exponents: Decimal logarithms of these scales.
        squared_exponents: Decimal logarithms of the scales for squared distributions.
        finer: For a second search at the best learning rate: what is added to the best exponent.
        squared_finer: The same for squared distributions.
        cutoff: Coverage at or below it counts as 0.

    Raises:
        ValueError: If a number is out of range, or nothing is there to search.
    """

    image_size: int = 64
    views: int = 24
    elevations: tuple[float, ...] = (-60.0, -30.0, 0.0, 30.0, 60.0)
    distance: float = 2.732
    fov: float = 30.0
    subdivisions: int = 3
    steps: int = 100
    betas: tuple[float, float] = (0.5, 0.95)
    laplacian: float = 0.03
    flatness: float = 3e-4
    learning_rates: tuple[float, ...] = (10**-1.25, 10**-1.5, 10**-1.75)
    exponents: tuple[float, ...] = (-1.0, -2.0, -3.0, -4.0, -5.0, -6.0, -7.0)
    squared_exponents: tuple[float, ...] = (-1.0, -2.0, -3.0, -4.0, -5.0, -6.0, -7.0)
    finer: tuple[float, ...] = tuple(n / 10 for n in range(-10, 11) if n)
    squared_finer: tuple[float, ...] = finer
    cutoff: float = 1e-6

    def __post_init__(self) -> None:
        for name, least in (("image_size", 1), ("views", 1), ("subdivisions", 0), ("steps", 1)):
            check_count(name, getattr(self, name), least=least)
        for name in ("distance", "fov", "laplacian", "flatness", "cutoff"):
            check_number(name, getattr(self, name), above=-1e-300)
        for name in ("elevations", "learning_rates", "exponents", "squared_exponents"):
            if not getattr(self, name):
                raise ValueError(f"{name} must hold at least one number")

    @staticmethod
    def named(name: str) -> ShapeProtocol:
        """The protocol "laptop" or "paper"."""
        return LAPTOP if check_choice("protocol", name, PROTOCOLS) == "laptop" else ShapeProtocol()


# A squared distribution compares the square of a distance with its scale: its exponents, and the
# steps between them, are twice those of a plain one, so that both are searched equally well.
LAPTOP = ShapeProtocol(
    image_size=32,
    views=6,
    elevations=(30.0,),
    subdivisions=2,
    steps=30,
    learning_rates=(10**-1.25,),
    exponents=(-0.5, -1.0, -1.5, -2.0, -2.5, -3.0, -3.5),
    squared_exponents=(-1.0, -2.0, -3.0, -4.0, -5.0, -6.0, -7.0),
    finer=(-0.25, 0.25),
    squared_finer=(-0.5, 0.5),
)


class Deformation:
    """The shapes that a sphere of radius 1/2 can take: every vertex stays in its octant.

    With start v, displacement e and centre c, each coordinate becomes

        c + |s| (sign(v) - c),    s = sigmoid(logit |v| + e) sign(v),

    so that it moves between the centre, which is tanh of a parameter, and -1 or 1, whichever is on
    its side of the centre.

    Source: Liu et al., Soft Rasterizer, 2019, and its code.
    """

    def __init__(self, sphere: Mesh) -> None:
        start = sphere.vertices / 2
        self.base, self.sign = torch.logit(start.abs()), start.sign()

    def __call__(self, displacement: Tensor, centre: Tensor) -> Tensor:
        """Vertices [K, V, 3] for displacements [K, V, 3] and centres [K, 1, 3]; 0 is the start."""
        c = torch.tanh(centre)
        return c + torch.sigmoid(self.base + displacement) * (self.sign - c)


@dataclass(frozen=True, eq=False)
class Fit:
    """The result of one candidate.

    Attributes:
        scale: Its scale.
        learning_rate: Its learning rate.
        loss: The lowest loss of all steps: one minus the mean IoU of its hard silhouettes with
            those of the target.
        mesh: The shape with that loss.
    """

    scale: float
    learning_rate: float
    loss: float
    mesh: Mesh


@dataclass(frozen=True, eq=False)
class Search:
    """The grid search of one elevation.

    Attributes:
        elevation: The elevation of the cameras, degrees.
        fits: All candidates.
    """

    elevation: float
    fits: tuple[Fit, ...]

    @property
    def best(self) -> Fit:
        """The candidate with the lowest loss; of equal ones the first."""
        return _best(self.fits)


@dataclass(frozen=True, eq=False)
class Views:
    """What is drawn in a step: one mesh for each of N images, all of one topology.

    Attributes:
        vertices: [N, V, 3].
        faces: [F, 3].
        camera: of N images.
        triangles: [N, F, ...], the faces as the kernels take them.
    """

    vertices: Tensor
    faces: Tensor
    camera: Camera
    triangles: Tensor


class _Scene:
    """The target as seen from one elevation, and the sphere that is fitted to it."""

    def __init__(self, task: ShapeTask, elevation: float) -> None:
        self.task, p = task, task.protocol
        self.protocol = p
        self.camera = task.camera(elevation)
        self.masks = task.silhouettes(task.target, elevation)
        self.sphere = icosphere(p.subdivisions, device=task.device)
        self.deformation = Deformation(self.sphere)
        self.laplacian = LaplacianLoss(self.sphere.faces)
        self.flatness = FlattenLoss(self.sphere.faces)

    def optimise(
        self, instance: Instance, rates: Sequence[float], scales: Sequence[float], progress: Meter
    ) -> list[Fit]:
        """Fit the target with every rate and every scale, all in one batch of images."""
        p, vertices = self.protocol, self.sphere.vertices
        shapes, views = len(rates) * len(scales), p.views
        blocks = [
            [torch.zeros(len(scales), n, 3, device=vertices.device) for n in (len(vertices), 1)]
            for _ in rates
        ]
        groups: list[dict[str, Any]] = [
            {"params": [x.requires_grad_() for x in block], "lr": rate}
            for block, rate in zip(blocks, rates, strict=True)
        ]
        adam = torch.optim.Adam(groups, betas=p.betas)
        scale = torch.tensor(scales, device=vertices.device).repeat(len(rates))
        scale = scale.repeat_interleave(views)
        camera, masks = self._of_all(shapes)
        best = torch.full((shapes,), math.inf, device=vertices.device)
        best_shapes = vertices.new_zeros(shapes, *vertices.shape)
        for step in range(p.steps + 1):
            displacement, centre = (torch.cat(x) for x in zip(*blocks, strict=True))
            shape = self.deformation(displacement, centre)
            repeated = shape.repeat_interleave(views, 0)
            triangles = face_vertices(repeated, self.sphere.faces, camera)
            found = hard_silhouette(triangles, p.image_size)
            loss = 1 - iou(found, masks).reshape(shapes, views).mean(1)
            better = loss < best
            best = torch.where(better, loss, best)
            best_shapes = torch.where(better[:, None, None], shape.detach(), best_shapes)
            progress.advance()
            if step == p.steps:
                break
            drawn = Views(repeated, self.sphere.faces, camera, triangles)
            alpha = self.task.soft(instance, drawn, scale)
            objective = self._objective(alpha, shape)
            adam.zero_grad()
            objective.backward()
            adam.step()
        return [
            Fit(scale, rate, float(best[i]), self.sphere.with_vertices(best_shapes[i]))
            for i, (rate, scale) in enumerate((r, s) for r in rates for s in scales)
        ]

    def _objective(self, alpha: Tensor, shape: Tensor) -> Tensor:
        """The sum of the losses of all shapes; no shape influences a bit of another one's loss."""
        p = self.protocol
        losses = [
            iou_loss(images, self.masks)
            + p.laplacian * self.laplacian(one)
            + p.flatness * self.flatness(one)
            for images, one in zip(alpha.split(p.views), shape, strict=True)
        ]
        return torch.stack(losses).sum()

    def _of_all(self, shapes: int) -> tuple[Camera, Tensor]:
        """Cameras and masks repeated for a number of shapes, one after the other."""
        views = torch.arange(len(self.camera), device=self.masks.device).repeat(shapes)
        return self.camera[views], self.masks[views]


@dataclass(frozen=True, eq=False)
class ShapeTask(SceneTask[ShapeProtocol]):
    """Fit a sphere to the silhouettes of a target; the score is one minus the mean hard IoU.

    Nothing is drawn at random: all seeds give the same score.
    """

    name: ClassVar[str] = "shape"
    title: ClassVar[str] = "Shape optimisation"
    better: ClassVar[Better] = "lower"
    unit: ClassVar[str] = "1 - mean hard IoU"
    protocols: ClassVar[dict[str, Any]] = {"laptop": LAPTOP, "paper": ShapeProtocol()}

    @staticmethod
    def placed(mesh: Mesh, protocol: ShapeProtocol) -> Mesh:
        """The middle of its bounding box at the origin, its longest side 1."""
        return mesh.normalized("cube")

    def camera(self, elevation: float) -> Camera:
        """The cameras of one elevation, around the object."""
        p = self.protocol
        azimuth = torch.arange(p.views, dtype=torch.float32, device=self.device) * (360 / p.views)
        return look_at(p.distance, elevation, azimuth, p.fov)

    def silhouettes(self, mesh: Mesh, elevation: float, image_size: int | None = None) -> Tensor:
        """Hard masks [views, H, W] of a mesh; by default at the protocol's size."""
        mesh = mesh.to(device=self.device)
        triangles = face_vertices(mesh.vertices[None], mesh.faces, self.camera(elevation))
        return hard_silhouette(triangles, image_size or self.protocol.image_size)

    def soft(self, instance: Instance, views: Views, scale: Tensor) -> Tensor:
        """The silhouettes [N, H, W] that are compared, at a scale [N] for each image."""
        p = self.protocol
        return silhouette(
            views.triangles, p.image_size, instance.dist, instance.tconorm, scale, p.cutoff
        )

    def try_scales(
        self, instance: Instance, elevation: float, scales: Sequence[float]
    ) -> list[Fit]:
        """Candidates at one elevation: every learning rate of the protocol with every scale.

        Args:
            instance: A distribution and a T-conorm.
            elevation: Degrees; the protocol need not have it.
            scales: All > 0, NDC (NDC^2 for squared distributions).

        Returns:
            By learning rate, then by scale.
        """
        scene = _Scene(self, elevation)
        return scene.optimise(instance, self.protocol.learning_rates, scales, Meter(1, None))

    def search(self, instance: Instance, progress: Progress | None = None) -> tuple[Search, ...]:
        """One grid search per elevation.

        First all learning rates are tried with all scales; then, if the protocol has finer steps,
        scales around the best one, at the best learning rate.
        """
        p = self.protocol
        squared = instance.dist.is_squared
        coarse = [10**x for x in (p.squared_exponents if squared else p.exponents)]
        around = p.squared_finer if squared else p.finer
        meter = Meter(len(p.elevations) * (2 if around else 1) * (p.steps + 1), progress)
        searches: list[Search] = []
        for elevation in p.elevations:
            scene = _Scene(self, elevation)
            fits = scene.optimise(instance, p.learning_rates, coarse, meter)
            if around:
                best = _best(fits)
                finer = [best.scale * 10**x for x in around]
                fits += scene.optimise(instance, [best.learning_rate], finer, meter)
            searches.append(Search(elevation, tuple(fits)))
        return tuple(searches)

    def run(self, instance: Instance, seed: int = 0, progress: Progress | None = None) -> Outcome:
        """Score one instance; see `Task.run`."""
        start = time.perf_counter()
        searches = self.search(instance, progress)
        return self.outcome(instance, searches, time.perf_counter() - start)

    def outcome(self, instance: Instance, searches: Sequence[Search], seconds: float) -> Outcome:
        """The outcome of the searches."""
        champion = _best([search.best for search in searches])
        return Outcome(
            instance.name,
            sum(search.best.loss for search in searches) / len(searches),
            champion.scale,
            champion.learning_rate,
            seconds,
            tuple(
                Trial(fit.scale, fit.learning_rate, number, fit.loss)
                for number, search in enumerate(searches)
                for fit in search.fits
            ),
            self.picture(champion.mesh),
        )

    def picture(self, mesh: Mesh) -> bytes:
        """A small PNG of a fitted shape."""
        camera = look_at(self.protocol.distance, *PICTURE_VIEW)
        (pixels,) = visual.shaded(mesh.to(device="cpu"), camera, PICTURE, visual.FIT)
        return as_png(pixels)


def _best(fits: Sequence[Fit]) -> Fit:
    """The fit with the lowest loss; of equal ones the first."""
    return min(fits, key=lambda fit: fit.loss)
