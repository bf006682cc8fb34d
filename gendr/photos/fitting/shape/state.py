"""The state of a fit after a step, and its result."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gendr.jobs.checkpoint import load_checkpoint, save_checkpoint
from gendr.mesh import Mesh
from gendr.photos.fitting.frame import Frame
from gendr.photos.fitting.shape.settings import FitSettings

__all__ = ["FitResult", "FitState"]

KIND = "a fit"


@dataclass(frozen=True, eq=False)
class FitState:
    """The state of a fit after a step: all that is needed to continue it bit for bit.

    Attributes:
        step: Steps done.
        schedule: How far the schedule had come at the last of them, in [0, 1].
        faces: int64 [F, 3], which change where the mesh is remeshed.
        u: [V, 3], the parameter after these steps.
        first: [V, 3], Adam's average of the gradient.
        second: [V, 3], Adam's average of its square.
        history: One dict per step: step, loss, scale, and iou where it was measured.
        best_step: The step of the best mesh since the last remeshing.
        best_iou: The mean hard IoU of that mesh over all views.
        best: The vertices [Vb, 3] of that mesh, in the frame of the fit, and its faces [Fb, 3].
        trace: (step, vertices, faces) of some steps, for pictures.
        frame: The frame of the fit.
        seconds: The time spent so far, earlier runs included.
        signature: The settings, and a hash of masks, cameras and starting mesh.
    """

    step: int
    schedule: float
    faces: Tensor
    u: Tensor
    first: Tensor
    second: Tensor
    history: tuple[dict[str, float], ...]
    best_step: int
    best_iou: float
    best: tuple[Tensor, Tensor]
    trace: tuple[tuple[int, Tensor, Tensor], ...]
    frame: Frame
    seconds: float
    signature: dict[str, Any]

    @property
    def progress(self) -> float:
        """The part of the steps, or of the budget, that is done, in [0, 1]."""
        steps, budget = self.signature["steps"], self.signature["budget"]
        return min(1.0, self.step / steps if budget is None else self.seconds / budget)

    @property
    def loss(self) -> float:
        """The loss at the start of the last step."""
        return self.history[-1]["loss"] if self.history else float("nan")

    def save(self, path: str | Path) -> None:
        """Write a checkpoint; an existing file is replaced only when the new one is complete.

        Raises:
            OSError: With the path, if it cannot be written; an existing file is kept.
        """
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values["frame"] = (self.frame.centre, self.frame.size)
        save_checkpoint(path, KIND, values, self.signature)

    @staticmethod
    def load(path: str | Path, device: torch.device | str = "cpu") -> FitState:
        """Read a checkpoint.

        Raises:
            ValueError: If there is no file, or it is no checkpoint of a fit.
        """
        names = [f.name for f in fields(FitState)]
        values = load_checkpoint(path, KIND, names, device=device)
        centre, size = values["frame"]
        values["frame"] = Frame(centre.cpu(), size)
        return FitState(**{name: values[name] for name in names})


@dataclass(frozen=True, eq=False)
class FitResult:
    """A fitted mesh and how good it is.

    Attributes:
        mesh: The mesh with the best hard silhouettes, in world coordinates.
        metrics: iou (mean hard IoU) and iou_per_view, of `mesh`; best_step and best_iou, of the
            best shape that was measured on the way, and final_iou, of the last one, both before
            the mesh is smoothed where faces cut each other; seconds.
        history: One dict per step: step, loss, scale, and iou where it was measured.
        trace: (step, mesh) of some steps, in world coordinates, the best mesh last.
        settings: The settings that were used.
        state: The last state.
    """

    mesh: Mesh
    metrics: dict[str, Any]
    history: tuple[dict[str, float], ...]
    trace: tuple[tuple[int, Mesh], ...]
    settings: FitSettings
    state: FitState

    @property
    def iou(self) -> float:
        """Mean over the views of the IoU of hard silhouettes, in [0, 1]."""
        return self.metrics["iou"]
