"""What the trainings of triangles on photos share: steps, rows of Adam, splitting, checkpoints.

A step draws one photo. Progress, from 0 to 1, is the part of the steps or of the time that is done.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Self

from gendr._common.readback import Readback
from gendr.jobs.checkpoint import check_steps, digest
from gendr.jobs.loop import Work, drive
from gendr.losses import psnr
from gendr.photos.splatting.photos import Photos
from gendr.photos.splatting.settings import SplatSettings

__all__ = ["Training", "psnr_of"]


def psnr_of(photos: Photos, images: Sequence[Tensor]) -> Tensor:
    """PSNR [B] of images [3, H, W] for photos, each within its window, in decibels."""
    return torch.stack([
        psnr(photos.cropped(image.to(photos.images), i), photos.cropped(photos.images[i], i))
        for i, image in enumerate(images)
    ])  # fmt: skip


class Training(Work):
    """Triangles in training, between two steps.

    Attributes:
        photos: to train on.
        settings: as given.
        held_out: photos that are drawn, not trained on.
        step: the number of steps done.
        seconds: the time since the first of them, looks at pictures held out, callbacks and earlier
            sessions included.
        earlier: those of earlier sessions.
        history: rows of step, seconds, loss, triangles, and psnr where photos held out were drawn.

    Args:
        photos: to train on.
        settings: of the training.
        held_out: photos that are drawn, not trained on.
        values: the parameters.
        rates: the learning rates at the start of all parameters, those of `vertices` in `size`.
        rows: the names of those that each triangle has, with vertices [N, 3, 3] among them.
    """

    def __init__(
        self, photos: Photos, settings: SplatSettings, held_out: Photos | None,
        values: Mapping[str, Tensor], rates: Mapping[str, float], rows: tuple[str, ...],
    ) -> None:  # fmt: skip
        self.photos, self.settings, self.held_out = photos, settings, held_out
        self.step, self.seconds, self.history = 0, 0.0, []
        self.earlier, self._clock, self._evaluated = 0.0, None, 0.0
        vertices, self._rows, self._rates = values["vertices"].detach(), rows, rates
        self._device, self._first = vertices.device, len(vertices)
        moved = photos.camera.to(self._device)
        self._cameras = [moved[i] for i in range(len(photos))]  # each keeps its projection
        self._generator = torch.Generator().manual_seed(settings.seed)
        corners = vertices - vertices.mean(1, keepdim=True)
        self._size = float(corners.square().sum(-1).sqrt().median())
        self._set_most()
        self._values = {k: v.detach().clone().requires_grad_() for k, v in values.items()}
        self._adam = self._optimizer()
        self._forget_loss()

    def _set_most(self) -> None:
        """Set how many triangles there are in the end."""
        height, width = self.photos.image_size
        self._most = max(self._first, self.settings.count_for(height * width))

    def _optimizer(self) -> torch.optim.Adam:
        groups = [{"params": [x], "name": name} for name, x in self._values.items()]
        return torch.optim.Adam(groups, betas=(0.9, 0.99), eps=1e-15, fused=True)

    # -- what it is like

    @property
    def progress(self) -> float:
        """What is done, from 0 to 1."""
        budget = self.settings.budget
        done = self.step / self.settings.steps if budget is None else self.seconds / budget
        return min(1.0, done)

    def __len__(self) -> int:
        """The number of triangles."""
        return len(self._values["vertices"])

    @property
    def loss(self) -> float:
        """The mean loss since the last row of the history, or of that row.

        On a GPU without its latest steps: nobody waits for them.
        """
        if (found := self._arriving.read()) is not None:
            self._known = found[0] / max(1.0, found[1])
        self._arriving.send(self._sums)
        return self._known

    def _forget_loss(self) -> None:
        """Begin with another mean."""
        self._sums = torch.zeros(2, device=self._device)  # of losses, and how many they are
        self._arriving = Readback(self._device, 2, torch.float32)
        self._known = self.history[-1]["loss"] if self.history else 0.0

    @property
    def before(self) -> float:
        """The progress before the step that is being done; time moves on at its end."""
        steps, timed = self.settings.steps, self.settings.budget is not None
        return self.progress if timed else (self.step - 1) / steps

    @property
    def is_over(self) -> bool:
        """Whether all steps are done."""
        return self.progress >= 1

    @abstractmethod
    def images(self, photos: Photos) -> list[Tensor]:
        """What the cameras of photos see, without gradient: RGB [3, H, W] in [0, 1] of each."""

    def psnr(self, photos: Photos) -> Tensor:
        """PSNR [B] of what the triangles look like from the cameras of photos, in decibels."""
        return psnr_of(photos, self.images(photos))

    # -- steps

    @abstractmethod
    def _error(self) -> Tensor:
        """What a photo of its choice lacks, differentiable in the parameters, [3, ...]."""

    @abstractmethod
    def _moved(self) -> None:
        """Bring parameters that moved into their ranges, and let triangles come and go."""

    @torch.enable_grad()
    def advance(self) -> None:
        """Do one step.

        Raises:
            ValueError: if the loss is no longer finite.
        """
        if self._clock is None:
            self._clock = time.perf_counter()
        settings = self.settings
        for group in self._adam.param_groups:
            rate = self._rates[group["name"]] * settings.rate * settings.decay**self.progress
            group["lr"] = rate * (self._size if group["name"] == "vertices" else 1.0)
        error = self._error()
        off, part = error.detach(), 1 / max(1, error.numel())
        loss = 0.8 * off.abs().mean() + 2 * off.square().mean()
        self._adam.zero_grad()
        # The gradient of that, in three passes over the picture instead of eight.
        error.backward(off.sign().mul_(0.8 * part).add_(off, alpha=4 * part))
        self._adam.step()
        self._sums += torch.stack([loss, torch.ones_like(loss)])
        self.step += 1
        self._moved()
        before, self._clock = self._clock, time.perf_counter()
        self.seconds += self._clock - before
        if self.progress >= self._evaluated + settings.evaluate_every or self.is_over:
            self._evaluated = self.progress
            self._write_row()

    def run(self, resume: str | Path | None, callback: Callable[[Self], None] | None) -> Self:
        """Do all steps, from a checkpoint if there is one, and call back after each."""
        if resume is not None:
            self.restore(resume)
        drive(self, callback=callback)
        return self

    def _write_row(self) -> None:
        total, count = self._sums.tolist()
        mean = total / max(1.0, count)
        if not math.isfinite(mean):
            raise ValueError(f"the loss is {mean} after {self.step} steps; try a smaller rate")
        row = {
            "step": self.step, "seconds": self.seconds, "loss": mean,
            "triangles": len(self),
        }  # fmt: skip
        if self.held_out is not None:
            row["psnr"] = float(self.psnr(self.held_out).mean())
        self.history.append(row)
        self._forget_loss()

    # -- density

    def _draw(self, weights: Tensor, count: int) -> Tensor:
        """`count` different rows at random, more likely those of larger weights >= 0."""
        if count <= 0:
            return torch.zeros(0, dtype=torch.int64, device=self._device)
        # As `torch.multinomial` draws on the CPU, so that the same are drawn on every device.
        race = torch.empty(len(weights), dtype=weights.dtype)
        race.exponential_(generator=self._generator)
        return (weights / race.to(weights)).topk(count).indices

    def _keep(self, rows: Tensor) -> None:
        """Let the triangles be those of these rows, with what Adam knows of them."""
        for group in self._adam.param_groups:
            name, old = group["name"], group["params"][0]
            if name not in self._rows:
                continue
            state = self._adam.state.pop(old, {})
            new = old.detach()[rows].requires_grad_()
            self._values[name], group["params"] = new, [new]
            if state:
                self._adam.state[new] = {k: v[rows] if v.ndim else v for k, v in state.items()}

    def _split(self, live: Tensor, chosen: Tensor, cornered: tuple[str, ...]) -> Tensor:
        """Keep the rows `live`, and split the `chosen` of them at the middle of the longest edge.

        Args:
            live: [L].
            chosen: [K], which of `live`.
            cornered: the names of parameters [N, 3, ...], of each corner.

        Returns:
            [2, K], the rows where the halves are.
        """
        self._keep(torch.cat([live, live[chosen]]))
        second = torch.arange(len(live), len(live) + len(chosen), device=live.device)
        corners = self._values["vertices"].data[chosen]
        longest = (corners - corners.roll(-1, 1)).square().sum(-1).argmax(1)
        turn = (longest[:, None] + torch.arange(3, device=longest.device)) % 3
        for name in cornered:
            values = self._values[name].data
            each = values[chosen].gather(1, turn[..., None].expand(-1, -1, values.shape[2]))
            a, b, c = each.unbind(1)
            middle = (a + b) / 2
            values[chosen] = torch.stack([a, middle, c], 1)
            values[second] = torch.stack([middle, b, c], 1)
        return torch.stack([chosen, second])

    # -- checkpoints

    def _more(self) -> dict[str, Any]:
        """What else a checkpoint holds, by the names of attributes without their underscore."""
        return {}

    def signature(self) -> dict[str, Any]:
        """The settings, but how long and where, and the photos."""
        settings, free = self.settings.describe(), ("steps", "budget", "device")
        photos = digest(self.photos.images, *self.photos.camera.tensors())
        return {k: v for k, v in settings.items() if k not in free} | {"photos": photos}

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on; with steps, bit for bit."""
        return {
            "step": self.step,
            "seconds": self.seconds,
            "history": self.history,
            "first": self._first,
            "size": self._size,
            "values": self._values,
            "adam": self._adam.state_dict(),
            "loss": (*self._sums.tolist(), self._evaluated),
            "generator": self._generator.get_state(),
            **self._more(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there.

        Raises:
            ValueError: if more steps are done than there shall be.
        """
        if self.settings.budget is None:
            check_steps(state["step"], self.settings.steps)
        self.step, self.seconds, self.history = state["step"], state["seconds"], state["history"]
        self.earlier = self.seconds
        self._first, self._size = state["first"], state["size"]
        self._set_most()
        self._values = {k: v.to(self._device).requires_grad_() for k, v in state["values"].items()}
        self._adam = self._optimizer()
        self._adam.load_state_dict(state["adam"])
        for name in self._more():
            value = state[name]
            moved = value.to(self._device) if isinstance(value, Tensor) else value
            setattr(self, f"_{name}", moved)
        *sums, self._evaluated = state["loss"]
        self._forget_loss()
        self._sums += torch.tensor(sums, device=self._device)
        self._generator.set_state(state["generator"])
