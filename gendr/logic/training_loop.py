"""A training by steps: its history, its checkpoints, and the loop that runs it.

A study derives a class from `TrainingLoop`, says what the loss of a step is and how the network is
evaluated, and `drive` does the steps:

    training = MyTraining(settings, data)
    drive(training, checkpoint="checkpoint.pt")
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from gendr._common.checkpoint import load_checkpoint, save_checkpoint

__all__ = ["Result", "Row", "TrainingLoop", "drive"]

# How many rows of the history are written from one evaluation to the next.
LOGS = 10
# The values that every checkpoint holds.
SAVED = ("signature", "step", "seconds", "history", "loss", "model", "adam", "generator", "random")

Row: TypeAlias = "dict[str, float]"


class Schedule(Protocol):
    """What the settings of every training say."""

    @property
    def seed(self) -> int:
        """The seed of the initial weights and of what is drawn."""
        ...

    @property
    def steps(self) -> int:
        """Steps of Adam in all."""
        ...

    @property
    def learning_rate(self) -> float:
        """The learning rate of Adam."""
        ...

    @property
    def evaluate_every(self) -> int:
        """Steps between evaluations."""
        ...


class Result(Protocol):
    """What a training came to."""

    def describe(self) -> dict[str, Any]:
        """All but the weights, as plain values."""
        ...


SettingsT = TypeVar("SettingsT", bound=Schedule)
ModelT = TypeVar("ModelT", bound=nn.Module)


class TrainingLoop(ABC, Generic[SettingsT, ModelT]):
    """A training in progress: its state between two steps.

    Attributes:
        kind: the format of its checkpoints and its version.
        what: what a checkpoint is of, for messages.
        kept: further attributes that checkpoints hold, as plain values and tensors.
        settings: as given.
        step: the number of steps done.
        seconds: the time spent on them, earlier sessions included.
        history: one row for every tenth part of the interval between evaluations: step, loss (the
            mean since the last row), and the metrics where it was evaluated.
        model: the network.

    Args:
        settings: the settings of the training.
        device: the device to train on.
        make: makes the network on the CPU; with equal seeds it has equal weights on every device.
    """

    kind: ClassVar[str]
    what: ClassVar[str]
    kept: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, settings: SettingsT, device: torch.device | str, make: Callable[[], ModelT]
    ) -> None:
        self.settings, self.device = settings, torch.device(device)
        with torch.random.fork_rng(devices=[]):  # the caller's random numbers are left alone
            torch.manual_seed(settings.seed)
            model = make()
        self.model = model.to(device)
        self.adam = self.optimizer()
        self.generator = torch.Generator(device).manual_seed(settings.seed)
        self.step, self.seconds = 0, 0.0
        self.history: list[Row] = []
        self._loss = torch.zeros((), device=device)  # sum since the last row

    def optimizer(self) -> torch.optim.Optimizer:
        """The optimiser of the network, Adam unless a study has another one."""
        return torch.optim.Adam(self.model.parameters(), self.settings.learning_rate)

    @abstractmethod
    def loss(self) -> Tensor:
        """Draw a batch and return its loss."""

    @abstractmethod
    def evaluate(self, row: Row) -> None:
        """Write the metrics on the validation part into a row of the history."""

    @abstractmethod
    def signature(self) -> dict[str, Any]:
        """Settings and data as plain values; trainings with equal signatures take equal steps."""

    @abstractmethod
    def result(self) -> Result:
        """Test the network; the training itself is not changed."""

    # -- for studies

    def signature_of(self, data: Any) -> dict[str, Any]:
        """The settings but for the number of steps, and what says which data they are.

        For studies whose steps do not depend on how many there are.
        """
        values = asdict(self.settings)  # pyright: ignore[reportArgumentType]
        del values["steps"]
        return {**values, "data": data}

    def batch_of_epoch(self, count: int, batch: int) -> Tensor:
        """The samples of this step, [min(batch, count)] of `count`, on the device.

        Those of an epoch come in a random order, which depends on the seed and the epoch alone;
        what is left at its end is left.
        """
        batch = min(batch, count)
        epoch, place = divmod(self.step, count // batch)
        generator = torch.Generator().manual_seed((self.settings.seed << 32) + epoch)
        order = torch.randperm(count, generator=generator)
        return order[place * batch : (place + 1) * batch].to(self.device)

    def evaluated_history(self, metric: str) -> tuple[Row, ...]:
        """A copy of the history with an evaluation of the present network at its end.

        Args:
            metric: a name that `evaluate` writes.
        """
        history = [dict(row) for row in self.history]
        if not history or history[-1]["step"] != self.step:
            history.append({"step": self.step})
        if metric not in history[-1]:
            self.evaluate(history[-1])
        return tuple(history)

    # -- steps

    def advance(self) -> None:
        """Do one step.

        Raises:
            ValueError: if the loss is no longer finite.
        """
        clock = time.perf_counter()
        loss = self.loss()
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        self._loss += loss.detach()
        self.step += 1
        every = self.settings.evaluate_every
        since = self.step % max(1, every // LOGS)
        if since == 0 or self.step % every == 0:
            self._write_row()
        if self.step % every == 0:
            self.evaluate(self.history[-1])
        self.seconds += time.perf_counter() - clock

    def _write_row(self) -> None:
        steps = self.step - (self.history[-1]["step"] if self.history else 0)
        mean = float(self._loss) / steps
        if not math.isfinite(mean):
            raise ValueError(
                f"the loss is {mean} after {self.step} steps; try a smaller steepness or "
                "learning rate"
            )
        self._loss.zero_()
        self.history.append({"step": self.step, "loss": mean})

    # -- checkpoints

    def save(self, path: str | Path) -> None:
        """Write a checkpoint; an existing file is replaced only when the new one is complete."""
        values: dict[str, Any] = {
            "signature": self.signature(),
            "step": self.step,
            "seconds": self.seconds,
            "history": self.history,
            "loss": self._loss,
            "model": self.model.state_dict(),
            "adam": self.adam.state_dict(),
            "generator": self.generator.get_state(),
            "random": torch.get_rng_state(),  # a method may use it
            **{name: getattr(self, name) for name in self.kept},
        }
        if self.device.type == "cuda":
            values["random_cuda"] = torch.cuda.get_rng_state(self.device)
        save_checkpoint(path, self.kind, values)

    def restore(self, path: str | Path) -> None:
        """Continue from a checkpoint; on a CPU, bit for bit as if there had been no interruption.

        The state of torch's global random numbers is restored too.

        Raises:
            ValueError: if there is no file, or it is no checkpoint, or that of another training.
        """
        values = load_checkpoint(path, self.kind, (*SAVED, *self.kept), self.what)
        for key, value in self.signature().items():
            then = values["signature"].get(key)
            if then != value:
                raise ValueError(
                    f"{path} is of a training with {key} = {then}, now it is {value}; resume with "
                    "the same settings and data, or start anew elsewhere"
                )
        self.model.load_state_dict(values["model"])
        self.adam.load_state_dict(values["adam"])
        self.generator.set_state(values["generator"])
        torch.set_rng_state(values["random"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(values["random_cuda"], self.device)
        self._loss = values["loss"].to(self._loss.device)
        self.step, self.seconds = values["step"], values["seconds"]
        self.history = values["history"]
        for name in self.kept:
            setattr(self, name, values[name])


TrainingT = TypeVar("TrainingT", bound="TrainingLoop[Any, Any]")


def drive(
    training: TrainingT,
    *,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    save_every: float = 60.0,
    seconds: float = math.inf,
    callback: Callable[[TrainingT], None] | None = None,
) -> None:
    """Do the steps of a training.

    Args:
        training: the training, changed in place.
        checkpoint: a file that is written every `save_every` seconds and at the end.
        resume: whether to continue from that file.
        save_every: seconds between two checkpoints: the most that a killed process loses.
        seconds: a limit for the steps of this session; the first step beyond it is the last.
        callback: called after every step. What it raises, KeyboardInterrupt included, ends the
            training after a checkpoint.

    Raises:
        ValueError: if the loss is no longer finite, or there is nothing to resume from, or
            more steps are done than there shall be.
    """
    if resume:
        if checkpoint is None:
            raise ValueError("resume needs a checkpoint; name its file")
        training.restore(checkpoint)
        if training.step > training.settings.steps:
            raise ValueError(
                f"{checkpoint} has {training.step} steps, more than the {training.settings.steps} "
                "asked for"
            )

    def save() -> None:
        if checkpoint is not None:
            training.save(checkpoint)

    start = saved = time.monotonic()
    while training.step < training.settings.steps:
        training.advance()
        if callback is not None:
            try:
                callback(training)
            except BaseException:
                save()
                raise
        now = time.monotonic()
        if now - start >= seconds:
            break
        if now - saved >= save_every:
            save()
            saved = now
    save()
