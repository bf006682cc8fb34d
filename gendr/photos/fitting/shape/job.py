"""One fit from its first step to its result."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gendr._common.checks import check_like
from gendr.jobs.checkpoint import check_same, check_steps, digest
from gendr.jobs.loop import iterate
from gendr.losses import FlattenLoss, iou_loss
from gendr.mesh import Camera, Mesh, icosphere
from gendr.optim import uniform_adam_step
from gendr.photos import remesh
from gendr.photos.fitting.frame import SPHERE, Frame
from gendr.photos.fitting.parametrization import SmoothParametrization, check_single
from gendr.photos.fitting.remeshing import interpolated_moments
from gendr.photos.fitting.shape.schedule import (
    REMESHED,
    FitSchedule,
    pixel_at_middle,
    shortest_edge,
)
from gendr.photos.fitting.shape.settings import FitSettings
from gendr.photos.fitting.shape.state import KIND, FitResult, FitState
from gendr.photos.fitting.value_and_grad import value_and_grad
from gendr.photos.meshing.remeshing import without_cuts
from gendr.rendering import Renderer

__all__ = ["Job"]

# Decay rates of the optimiser's averages; the second is below the usual 0.999, as runs are short.
BETAS = (0.9, 0.99)
# How many times hard silhouettes are compared during a fit; on a GPU of so many views at once, as
# memory is bounded.
EVALUATIONS, TOGETHER = 20, 6
ITERATIONS = 3  # of remeshing
# A fit whose parameters, in its own frame about 1, reach so far goes nowhere.
_DIVERGED = 1e12
# The part of the best IoU below which the last one is of a fit that went wrong.
_LOST = 0.5
# A start that is not remeshed may have at most so many.
MOST_GIVEN = 250_000
# Lengths in pixels that edges have at the end if none is asked for: the first that costs the start
# at most so much of its IoU when it is remeshed, or the last. That is a hundredth less what a hull
# has lost when it was simplified: a cow that lost 0.0100 was fitted to 0.975 instead of 0.991.
EDGES, LOSS_BY_EDGES = (2.0, 1.4, 1.0, 0.7, 0.5), 0.0095


@dataclass(frozen=True, eq=False)
class _Surface:
    """What belongs to the faces of a mesh that is fitted."""

    shape: SmoothParametrization
    creases: FlattenLoss


class Job:
    """One fit: what stays the same through its steps."""

    def __init__(
        self, masks: Tensor, camera: Camera, settings: FitSettings, init: Mesh | None
    ) -> None:
        self.settings, self.masks = settings, masks
        size = (masks.shape[1], masks.shape[2])
        self.frame = Frame.of_masks(masks, camera)
        self.camera = self.frame.camera(camera)
        if init is None:
            self.frame.check_outside(camera)
            sphere = icosphere(settings.subdivisions, dtype=masks.dtype, device=masks.device)
            self.start = sphere.scaled(SPHERE)
            if camera.origin is not None:
                self.start = self.start.with_origin(camera.origin)
        else:
            check_single("init", init)
            check_like("init", init.vertices, "target_masks", masks)
            _check_faces(init, settings)
            # Only the shape is fitted; colours and textures move along with it.
            self.start = init.detach().with_vertices(self.frame.inner(init.vertices.detach()))
        pixel = pixel_at_middle(self.camera, size)
        self.remeshed = bool(settings.remesh)
        assert settings.steps is not None  # `resolved`
        self.steps = settings.steps
        # Depths at which the object can be; silhouettes need no depth precision.
        depth = self.camera.translation[:, 2]
        near, far = float(depth.clamp(min=1e-3).min()) * 1e-2, float(depth.abs().max()) * 10 + 10
        planes: dict[str, Any] = {"near": near, "far": far, "backend": settings.backend}
        self.hard = Renderer(size, "heaviside", "max", check=False, **planes)
        together = TOGETHER if masks.is_cuda else len(masks)
        parts = [slice(i, i + together) for i in range(0, len(masks), together)]
        self.compared = [(self.camera[part], masks[part] > 0.5) for part in parts]
        self.schedule = FitSchedule(masks, settings, self._edge(settings.edge, pixel))
        self.soft = [
            Renderer(
                level,
                settings.distribution,
                settings.conorm,
                cutoff=settings.cutoff,
                check=False,
                **planes,
            )
            for level in self.schedule.sizes
        ]
        steps, frames = self.steps, min(settings.frames, self.steps)
        self.batches = _batches(len(masks), steps, settings)
        self.kept = {round(i * steps / frames) for i in range(frames)} if frames else set()
        every = math.ceil(steps / EVALUATIONS)
        self.measured = {*range(every, steps, every), steps}
        # Steps before which the mesh is remeshed; the start is as well.
        self.evened = {round(part * steps) for part in REMESHED} - {0} if self.remeshed else set()
        self._known: tuple[Tensor, _Surface] | None = None
        self._solved: tuple[Tensor, Tensor] | None = None
        self._parts: dict[tuple[int, ...], tuple[Camera, Tensor]] = {}
        given = digest(masks, *camera.tensors(), self.start.vertices, self.start.faces)
        self.signature = {**settings.describe(), "masks, cameras or start": given}

    def _edge(self, wanted: float | None, pixel: float) -> float:
        """The length of edges at the end, from that asked for in pixels and the size of these."""
        least = shortest_edge(self.start)
        if wanted is not None or not self.remeshed:
            return max((wanted or EDGES[0]) * pixel, least)
        before = self.measure(self.start.vertices, self.start.faces).mean()
        edge = EDGES[0] * pixel
        for edge in (max(each * pixel, least) for each in EDGES):
            even = remesh(self.start, edge, iterations=ITERATIONS).mesh
            if before - self.measure(even.vertices, even.faces).mean() <= LOSS_BY_EDGES:
                break
        return edge

    def surface(self, faces: Tensor, vertices: Tensor) -> _Surface:
        """What belongs to some faces, kept until others come; the vertices [V, 3] are a start."""
        if self._known is None or self._known[0] is not faces:
            start = self.mesh(vertices, faces)
            shape = SmoothParametrization(start, self.settings.smoothness)
            creases = FlattenLoss(start.faces, start.vertex_counts[0])
            self._known = faces, _Surface(shape, creases)
        return self._known[1]

    def _shape(self, surface: _Surface, u: Tensor) -> Tensor:
        """The vertices of parameters, without gradient; kept, as the next step asks for them."""
        if self._solved is None or self._solved[0] is not u:
            self._solved = u, surface.shape(u).detach()
        return self._solved[1].detach()

    def mesh(self, vertices: Tensor, faces: Tensor) -> Mesh:
        """The mesh in the frame, with colours and textures of the start if it is not remeshed."""
        if not self.remeshed:
            return self.start.with_vertices(vertices)
        return Mesh(vertices, faces).with_origin(self.start.origin[0])

    def even(self, state: FitState, progress: float) -> FitState:
        """The state with the mesh remeshed, and all that Adam knows carried over."""
        old = self.surface(state.faces, state.u).shape
        mesh = Mesh(old(state.u).detach(), state.faces)
        found = remesh(mesh, self.schedule.edge(progress), iterations=ITERATIONS)
        faces = found.mesh.faces
        u = self.surface(faces, found.mesh.vertices).shape.u.detach().clone()
        first, second = interpolated_moments(found, state.first, state.second)
        return replace(state, faces=faces, u=u, first=first, second=second)

    def progress(self, state: FitState, seconds: float = 0.0) -> float:
        """That of the next step: the remaining steps share what is left of the schedule.

        With a budget, the seconds spent say how far it has come: those of the state and `seconds`
        since then.
        """
        if state.step == 0:
            return self.schedule.begin
        if self.settings.budget is not None:
            return max(state.schedule, min((state.seconds + seconds) / self.settings.budget, 1.0))
        return state.schedule + (1 - state.schedule) / (self.steps - state.step)

    def begin(self) -> FitState:
        """The state before the first step."""
        mesh = self.start
        if self.remeshed:
            mesh = remesh(mesh, self.schedule.edge(0.0)).mesh
        shape = self.surface(mesh.faces, mesh.vertices).shape
        u = shape.u.detach().clone()
        vertices = shape(u).detach()
        trace = ((0, vertices, mesh.faces),) if 0 in self.kept else ()
        zero = torch.zeros_like(u)
        score = float(self.measure(vertices, mesh.faces).mean())
        return FitState(
            0, self.schedule.begin, mesh.faces, u, zero, zero, (), 0, score, (vertices, mesh.faces),
            trace, self.frame, 0.0, self.signature,
        )  # fmt: skip

    def restore(self, resume: FitState | str | Path) -> FitState:
        """The state to continue from, which is given itself or as the path of a checkpoint.

        Raises:
            ValueError: If it belongs to another fit, or has done more steps than are asked for.
        """
        state = resume if isinstance(resume, FitState) else FitState.load(resume, self.masks.device)
        if self.settings.budget is None:
            check_steps(state.step, self.steps)
        given = {k: v for k, v in self.signature.items() if k not in ("steps", "budget")}
        check_same("the checkpoint", KIND, state.signature, given)
        return replace(state, signature=self.signature)

    def measure(self, vertices: Tensor, faces: Tensor) -> Tensor:
        """Hard IoU of every view, [B]."""
        with torch.no_grad():
            mesh = self.mesh(vertices, faces)
            pairs = [(self._hard_masks(mesh, part), masks) for part, masks in self.compared]
            both = torch.cat([(a & b).sum((-2, -1)) for a, b in pairs]).to(vertices.dtype)
            either = torch.cat([(a | b).sum((-2, -1)) for a, b in pairs])
        return torch.where(either > 0, both / either, 1.0)

    def views(self, level: int, some: list[int]) -> tuple[Camera, Tensor]:
        """Some cameras and their masks, kept for as long as the same are asked for."""
        key = level, *some
        if key not in self._parts:
            if len(self._parts) > 2:
                self._parts.clear()
            self._parts[key] = self.camera[some], self.schedule.masks[level][some]
        return self._parts[key]

    def _hard_masks(self, mesh: Mesh, camera: Camera) -> Tensor:
        """Hard masks of some views, bool."""
        out = self.hard(mesh, camera)
        # On a CPU, where distances to edges take longer.
        return out.alpha > 0.5 if mesh.vertices.is_cuda else out.mask

    def step(self, state: FitState, seconds: float) -> FitState:
        """One step of `UniformAdam`; returns a new state and does not change the one given."""
        i, progress = state.step, self.progress(state, seconds)
        even, kept, measured = self.events(state, seconds)
        if even:
            state = self.even(state, progress)
        rows, level = self.batches[i % len(self.batches)], self.schedule.level(progress)
        scale = self.schedule.scale(progress)
        surface = self.surface(state.faces, state.u)
        vertices = self._shape(surface, state.u).requires_grad_()

        def image_loss(vertices: Tensor, some: list[int]) -> Tensor:
            mesh, (camera, masks) = self.mesh(vertices, state.faces), self.views(level, some)
            alpha = self.soft[level](mesh, camera, scale=scale).alpha
            return len(some) / len(rows) * iou_loss(alpha, masks)

        loss, slope = value_and_grad(image_loss, vertices, rows, len(state.faces))
        regularisation = vertices.new_zeros(())
        if self.settings.flatness > 0 and surface.creases.pairs.shape[1] > 0:
            bends = (1 - surface.creases.cosines(vertices)).square()
            regularisation = regularisation + self.settings.flatness * bends.mean()
        if regularisation.requires_grad:
            slope = slope + torch.autograd.grad(regularisation, vertices)[0]
        grad = surface.shape(slope)  # the matrix of the parametrization is symmetric
        moved = uniform_adam_step(
            state.u, grad, state.first, state.second, step=i + 1,
            lr=self.schedule.step_length(progress), betas=BETAS,
        )  # fmt: skip
        entry = {"step": i + 1, "loss": float(loss + regularisation.detach()), "scale": scale}
        # Of squares of a slope that overflow, the optimiser would stand still.
        if not (
            float(moved.value.abs().amax()) < _DIVERGED and float(moved.second.sum()) < math.inf
        ):
            raise ValueError(
                f"the fit diverged in step {i + 1}, at a loss of {entry['loss']:.3g}; give a "
                f"smaller lr or flatness than {self.settings.lr:g} and {self.settings.flatness:g}"
            )
        best = state.best_step, state.best_iou, state.best
        trace = state.trace
        if measured or kept:
            vertices = self._shape(surface, moved.value)
            if kept:
                trace = (*trace, (i + 1, vertices, state.faces))
            if measured:
                entry["iou"] = float(self.measure(vertices, state.faces).mean())
                # One of longer edges is no result: the best is sought since the last remeshing.
                if entry["iou"] >= best[1] or not torch.equal(best[2][1], state.faces):
                    best = i + 1, entry["iou"], (vertices, state.faces)
        return FitState(
            i + 1, progress, state.faces, *moved, (*state.history, entry), *best, trace,
            state.frame, state.seconds + seconds, state.signature,
        )  # fmt: skip

    def events(self, state: FitState, seconds: float) -> tuple[bool, bool, bool]:
        """Whether a step remeshes first, keeps its shape for pictures, and measures it."""
        budget = self.settings.budget
        if budget is None:
            after = state.step + 1
            return state.step in self.evened, after in self.kept, after in self.measured
        before, now = state.seconds / budget, (state.seconds + seconds) / budget

        def crossed(count: int) -> bool:
            return int(min(now, 1.0) * count) > int(before * count)

        even = self.remeshed and any(before < part <= now for part in REMESHED)
        return even, crossed(self.settings.frames), crossed(EVALUATIONS)

    def run(
        self, callback: Callable[[FitState], object] | None, resume: FitState | str | Path | None
    ) -> FitResult:
        """Do all remaining steps and return the result."""
        state = self.begin() if resume is None else self.restore(resume)
        result = self.result(iterate(state, self.step, callback=callback))
        last, best = (result.metrics[key] for key in ("final_iou", "best_iou"))
        if last is not None and last < _LOST * best:
            warnings.warn(
                f"the fit fell apart: its last mesh has an IoU of {last:.2f}, so that the result "
                f"is that of step {result.metrics['best_step']}, {best:.2f}; give a smaller lr or "
                f"flatness than {self.settings.lr:g} and {self.settings.flatness:g}",
                stacklevel=3,
            )
        return result

    def result(self, state: FitState) -> FitResult:
        """The best mesh of a state, in world coordinates, with its metrics."""
        best = state.best
        if self.remeshed:
            found = without_cuts(Mesh(*best))
            best = found.vertices, found.faces
        per_view = self.measure(*best)
        metrics = {
            "iou": float(per_view.double().mean()),
            "iou_per_view": [float(x) for x in per_view],
            "best_step": state.best_step,
            "best_iou": state.best_iou,
            "final_iou": next((h["iou"] for h in reversed(state.history) if "iou" in h), None),
            "seconds": state.seconds,
        }
        shapes = (*state.trace, (state.best_step, *best))
        if not self.settings.frames:
            shapes = ()
        meshes = tuple((i, self.world(vertices, faces)) for i, vertices, faces in shapes)
        mesh = self.world(*best)
        return FitResult(mesh, metrics, state.history, meshes, self.settings, state)

    def world(self, vertices: Tensor, faces: Tensor) -> Mesh:
        """The mesh in the world of vertices [V, 3] of the frame."""
        return self.mesh(self.frame.world(vertices), faces)


def _check_faces(init: Mesh, settings: FitSettings) -> None:
    """Refuse a start with so many faces that each step would take minutes."""
    count = init.face_counts[0]
    if count > MOST_GIVEN and not settings.remesh:
        raise ValueError(
            f"init has {count:,} faces, and at most {MOST_GIVEN:,} are fitted as they are; "
            "simplify it, or let the fit remesh it (remesh, on the command line --remesh)"
        )


def _batches(count: int, steps: int, settings: FitSettings) -> list[list[int]]:
    """The views of every step: all, or successive parts of seeded random permutations."""
    size = settings.views_per_step
    if count <= size:
        return [list(range(count))] * steps
    generator = torch.Generator().manual_seed(settings.seed)
    order: list[int] = []
    while len(order) < size * steps:
        order += torch.randperm(count, generator=generator).tolist()
    return [sorted(order[i * size : (i + 1) * size]) for i in range(steps)]
