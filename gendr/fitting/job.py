"""One fit from its first step to its result."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gendr._runtime.checks import check_like
from gendr.fitting.frame import SPHERE, Frame
from gendr.fitting.parametrization import SmoothParametrization, check_single
from gendr.fitting.settings import FitSettings
from gendr.fitting.state import FitResult, FitState
from gendr.losses import FlattenLoss, iou, iou_loss
from gendr.mesh import Camera, Mesh, icosphere
from gendr.optim import uniform_adam_step
from gendr.rendering import Renderer

__all__ = ["Job"]

# Decay rates of the optimiser's averages; the second is below the usual 0.999, as runs are short.
BETAS = (0.9, 0.99)
# How many times hard silhouettes are compared during a fit.
EVALUATIONS = 20


class Job:
    """One fit: what stays the same through its steps."""

    def __init__(
        self, masks: Tensor, camera: Camera, settings: FitSettings, init: Mesh | None
    ) -> None:
        self.settings, self.masks = settings, masks
        assert settings.lr is not None  # `resolved`
        self.lr = settings.lr
        size = (masks.shape[1], masks.shape[2])
        self.frame = Frame.of_masks(masks, camera)
        self.camera = self.frame.camera(camera)
        if init is None:
            self.frame.check_outside(camera)
            sphere = icosphere(settings.subdivisions, dtype=masks.dtype, device=masks.device)
            start = sphere.scaled(SPHERE)
        else:
            check_single("init", init)
            check_like("init", init.vertices, "target_masks", masks)
            # Only the shape is fitted; colours and textures move along with it.
            start = init.detach().with_vertices(self.frame.inner(init.vertices.detach()))
        self.shape = SmoothParametrization(start, settings.smoothness)
        self.creases = FlattenLoss(start.faces, start.vertex_counts[0])
        # Depths at which the object can be; silhouettes need no depth precision.
        depth = self.camera.translation[:, 2]
        near, far = float(depth.clamp(min=1e-3).min()) * 1e-2, float(depth.abs().max()) * 10 + 10
        planes: dict[str, Any] = {"near": near, "far": far, "backend": settings.backend}
        self.soft = Renderer(
            size, settings.law, settings.conorm, cutoff=settings.cutoff, check=False, **planes
        )
        self.hard = Renderer(size, "heaviside", "max", check=False, **planes)
        self.first_scale, self.last_scale = settings.scales(size)
        self.batches = _batches(len(masks), settings)
        frames = min(settings.frames, settings.steps)
        self.kept = {round(i * settings.steps / frames) for i in range(frames)} if frames else set()
        every = max(1, settings.steps // EVALUATIONS)
        self.measured = {*range(every, settings.steps, every), settings.steps}
        digest = hashlib.sha256()
        for tensor in (masks, *camera._tensors(), start.vertices, start.faces):
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        self.signature = {**settings.describe(), "input": digest.hexdigest()}

    def scale(self, state: FitState) -> float:
        """The scale of the next step: the last one times the factor that ends the schedule in time.

        The factor is the same for all steps unless their number was changed on the way; then the
        remaining steps share the rest of the schedule.
        """
        if not state.history:
            return self.first_scale
        now = state.history[-1]["scale"]
        return now * (self.last_scale / now) ** (1 / (self.settings.steps - state.step))

    def begin(self) -> FitState:
        """The state before the first step."""
        u = self.shape.u.detach().clone()
        vertices = self.shape(u).detach()
        trace = ((0, vertices),) if 0 in self.kept else ()
        zero = torch.zeros_like(u)
        score = float(self.measure(vertices).mean())
        return FitState(
            0, u, zero, zero, (), 0, score, vertices, trace, self.frame, 0.0, self.signature
        )

    def restore(self, resume: FitState | str | Path) -> FitState:
        """The state to continue from, which is given itself or as the path of a checkpoint.

        Raises:
            ValueError: If it belongs to another fit, or has done more steps than are asked for.
        """
        state = resume if isinstance(resume, FitState) else FitState.load(resume, self.masks.device)
        if state.step > self.settings.steps:
            raise ValueError(
                f"the checkpoint has {state.step} steps, more than the {self.settings.steps} asked "
                "for; resume with more steps, or start anew"
            )
        for key, value in self.signature.items():
            then = state.signature.get(key)
            if then != value and key != "steps":
                what = "masks, cameras or start" if key == "input" else f"{key}={then!r}"
                now = "others now" if key == "input" else f"{key}={value!r} now"
                raise ValueError(
                    f"the checkpoint is of a fit with {what}, {now}; resume with the same "
                    "arguments, or start anew"
                )
        return replace(state, signature=self.signature)

    def measure(self, vertices: Tensor) -> Tensor:
        """Hard IoU of every view, [B]."""
        with torch.no_grad():
            mesh = self.shape.start.with_vertices(vertices)
            found = [
                iou(self.hard(mesh, self.camera[rows]).alpha, self.masks[rows])
                for rows in _slices(len(self.masks))
            ]
        return torch.cat(found)

    def step(self, state: FitState, seconds: float) -> FitState:
        """One step of `UniformAdam`; returns a new state and does not change the one given."""
        i, scale = state.step, self.scale(state)
        rows = self.batches[i]
        u = state.u.clone().requires_grad_()
        vertices = self.shape(u)
        mesh = self.shape.start.with_vertices(vertices)
        alpha = self.soft(mesh, self.camera[rows], scale=scale).alpha
        loss = iou_loss(alpha, self.masks[rows])
        if self.settings.flatness > 0 and self.creases.pairs.shape[1] > 0:
            bends = (1 - self.creases.cosines(vertices)).square()
            loss = loss + self.settings.flatness * bends.mean()
        (grad,) = torch.autograd.grad(loss, u)
        moved = uniform_adam_step(
            state.u, grad, state.first, state.second, step=i + 1, lr=self.lr, betas=BETAS
        )
        entry = {"step": i + 1, "loss": float(loss.detach()), "scale": scale}
        best = state.best_step, state.best_iou, state.best
        trace = state.trace
        if i + 1 in self.measured or i + 1 in self.kept:
            vertices = self.shape(moved.value).detach()
            if i + 1 in self.kept:
                trace = (*trace, (i + 1, vertices))
            if i + 1 in self.measured:
                entry["iou"] = float(self.measure(vertices).mean())
                if entry["iou"] >= best[1]:
                    best = i + 1, entry["iou"], vertices
        return FitState(
            i + 1, *moved, (*state.history, entry), *best, trace, state.frame,
            state.seconds + seconds, state.signature,
        )  # fmt: skip

    def run(
        self, callback: Callable[[FitState], None] | None, resume: FitState | str | Path | None
    ) -> FitResult:
        """Do all remaining steps and return the result."""
        state = self.begin() if resume is None else self.restore(resume)
        clock = time.perf_counter()
        while state.step < self.settings.steps:
            now = time.perf_counter()
            state, clock = self.step(state, now - clock), now
            if callback is not None:
                callback(state)
        return self.result(state)

    def result(self, state: FitState) -> FitResult:
        """The best mesh of a state, in world coordinates, with its metrics."""
        per_view = self.measure(state.best)
        metrics = {
            "iou": float(per_view.double().mean()),
            "iou_per_view": [float(x) for x in per_view],
            "best_step": state.best_step,
            "final_iou": next((h["iou"] for h in reversed(state.history) if "iou" in h), None),
            "seconds": state.seconds,
        }
        shapes = (*state.trace, (state.best_step, state.best))
        if not self.settings.frames:
            shapes = ()
        meshes = tuple((i, self.world(vertices)) for i, vertices in shapes)
        mesh = self.world(state.best)
        return FitResult(mesh, metrics, state.history, meshes, self.settings, state)

    def world(self, vertices: Tensor) -> Mesh:
        """The mesh in the world of vertices [V, 3] of the frame."""
        return self.shape.start.with_vertices(self.frame.world(vertices))


def _slices(count: int, length: int = 24) -> list[list[int]]:
    """The views in groups that are rendered together, which bounds the memory."""
    return [list(range(i, min(i + length, count))) for i in range(0, count, length)]


def _batches(count: int, settings: FitSettings) -> list[list[int]]:
    """The views of every step: all, or successive parts of seeded random permutations."""
    size = settings.views_per_step
    if count <= size:
        return [list(range(count))] * settings.steps
    generator = torch.Generator().manual_seed(settings.seed)
    order: list[int] = []
    while len(order) < size * settings.steps:
        order += torch.randperm(count, generator=generator).tolist()
    return [sorted(order[i * size : (i + 1) * size]) for i in range(settings.steps)]
