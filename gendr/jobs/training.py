"""A training by steps: its history, its checkpoints, and the loop that runs it.

A study derives a class from `TrainingLoop`, says what the loss of a step is and how the network is
evaluated, and `drive` does the steps:

    training = MyTraining(settings, data)
    drive(training, checkpoint="checkpoint.pt")
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from gendr.jobs.checkpoint import check_steps
from gendr.jobs.loop import Work
from gendr.jobs.loop import drive as drive

# How many rows of the history are written from one evaluation to the next.
LOGS = 10

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


class TrainingLoop(Work, Generic[SettingsT, ModelT]):
    """A training in progress: its state between two steps.

    Attributes:
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

    def signature_of(self, data: Any) -> dict[str, Any]:
        """The settings but for the number of steps, and what says which data they are.

        For studies whose steps do not depend on how many there are.
        """
        values = asdict(self.settings)  # pyright: ignore[reportArgumentType]
        del values["steps"]
        return {**values, "data": data}

    # -- steps

    @property
    def progress(self) -> float:
        """The part of the steps that is done, in [0, 1]."""
        steps = self.settings.steps
        return self.step / steps if self.step < steps else 1.0

    def advance(self) -> None:
        """Do one step, in place.

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

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on; the state of torch's global random numbers is of it."""
        values: dict[str, Any] = {
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
        return values

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there.

        Raises:
            ValueError: if more steps are done than there shall be.
        """
        check_steps(state["step"], self.settings.steps)
        self.model.load_state_dict(state["model"])
        self.adam.load_state_dict(state["adam"])
        self.generator.set_state(state["generator"])
        torch.set_rng_state(state["random"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(state["random_cuda"], self.device)
        self._loss = state["loss"].to(self._loss.device)
        for name in ("step", "seconds", "history", *self.kept):
            setattr(self, name, state[name])
