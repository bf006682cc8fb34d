"""Where a fit is after a step, and what it comes to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gendr._runtime.files import write_whole
from gendr.fitting.frame import Frame
from gendr.fitting.settings import FitSettings
from gendr.mesh import Mesh

__all__ = ["FitResult", "FitState"]


@dataclass(frozen=True, eq=False)
class FitState:
    """Where a fit is after a step; what it needs to go on, bit for bit.

    Attributes:
        step: Steps done.
        u: [V, 3], the parameter after them.
        first: [V, 3], Adam's average of the gradient.
        second: [V, 3], Adam's average of its square.
        history: One dict per step: step, loss, scale, and iou where it was measured.
        best_step: The step of the best mesh so far.
        best_iou: Its mean hard IoU over all views.
        best: [V, 3], its vertices, in the frame of the fit.
        trace: (step, vertices) along the way, for pictures.
        frame: Of the fit.
        seconds: Spent so far, earlier runs included.
        signature: What the fit is of and how: settings, and a digest of masks, cameras and start.
    """

    step: int
    u: Tensor
    first: Tensor
    second: Tensor
    history: tuple[dict[str, float], ...]
    best_step: int
    best_iou: float
    best: Tensor
    trace: tuple[tuple[int, Tensor], ...]
    frame: Frame
    seconds: float
    signature: dict[str, Any]

    @property
    def loss(self) -> float:
        """Loss of the last step, at its start."""
        return self.history[-1]["loss"] if self.history else float("nan")

    def save(self, path: str | Path) -> None:
        """Write a checkpoint; the file is replaced only when the new one is whole.

        Raises:
            OSError: With the path, if it cannot be written; what was there is left.
        """
        path = Path(path)
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values["frame"] = (self.frame.centre, self.frame.size)
        values = {"format": "gendr fit 1", **_map_tensors(values, lambda t: t.detach().cpu())}
        write_whole(path, lambda file: torch.save(values, file))

    @staticmethod
    def load(path: str | Path, device: torch.device | str = "cpu") -> FitState:
        """Read a checkpoint.

        Raises:
            ValueError: If there is none, or the file is something else.
        """
        path = Path(path)
        if not path.is_file():
            raise ValueError(f"no checkpoint to resume from at {path}; start without resuming")
        try:
            values = torch.load(path, map_location=device, weights_only=True)
            if values.pop("format") != "gendr fit 1":
                raise KeyError("format")
            centre, size = values.pop("frame")
            return FitState(**values, frame=Frame(centre.cpu(), size))
        except Exception as error:  # noqa: BLE001 (unpicklers raise anything on a foreign file)
            kind = type(error).__name__
            raise ValueError(f"{path} is no checkpoint of a fit ({kind}); delete it") from None


def _map_tensors(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, dict):
        return {k: _map_tensors(v, function) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(_map_tensors(v, function) for v in value)
    return value


@dataclass(frozen=True, eq=False)
class FitResult:
    """A fitted mesh and how good it is.

    Attributes:
        mesh: The mesh with the best hard silhouettes, in world coordinates.
        metrics: iou (mean hard IoU), iou_per_view, best_step, final_iou, seconds.
        history: One dict per step: step, loss, scale, and iou where it was measured.
        trace: (step, mesh) along the way, in world coordinates, the best mesh last.
        settings: As used.
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
