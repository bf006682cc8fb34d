"""What the trainings of all studies share: their data, the best weights, and what they come to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from gendr.jobs.training import ModelT, Row, SettingsT, TrainingLoop

DataT = TypeVar("DataT")


@dataclass(frozen=True, eq=False)
class StudyResult:
    """The result of a training.

    Attributes:
        settings: of the training.
        step: steps done; fewer than in the settings if the training was stopped.
        test: the scores on the test part, as plain values.
        history: rows as in the training.
        seconds: the time spent on the steps.
        model: the network that was tested.
        more: what else the study says of it, as plain values.
    """

    settings: Any
    step: int
    test: Any
    history: tuple[Row, ...]
    seconds: float
    model: nn.Module
    more: Mapping[str, Any]

    def describe(self) -> dict[str, Any]:
        """All but the weights, as plain values."""
        return {
            "settings": asdict(self.settings),
            "step": self.step,
            **self.more,
            "test": self.test,
            "seconds": self.seconds,
            "history": list(self.history),
        }


class StudyTraining(TrainingLoop[SettingsT, ModelT], Generic[SettingsT, ModelT, DataT]):
    """A training with three parts of data in progress; see `TrainingLoop`.

    Attributes:
        train: the training data, on the device.
        validation: the validation data.
        test: the test data.
        best: of the weights with the largest score so far, "step", "score" and "model"; `kept` of
            studies that choose by a score.

    Args:
        settings: the settings of the training.
        data: training, validation and test data.
        device: the device to train on.
        make: makes the network.
    """

    def __init__(
        self,
        settings: SettingsT,
        data: Iterable[Any],
        device: torch.device | str,
        make: Callable[[], ModelT],
    ) -> None:
        data = list(data)
        self._digests = [part.digest() for part in data]
        self.train: DataT
        self.train, self.validation, self.test = (part.to(device) for part in data)
        self.best: dict[str, Any] = {"step": 0, "score": -1.0, "model": {}}
        super().__init__(settings, device, make)

    def signature(self) -> dict[str, Any]:
        """See `TrainingLoop`."""
        return self.signature_of(self._digests)

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

    def keep_if_best(self, score: float) -> None:
        """Keep the present weights if no score so far was as large."""
        if score > self.best["score"]:
            weights = {k: v.detach().cpu().clone() for k, v in self.model.state_dict().items()}
            self.best = {"step": self.step, "score": score, "model": weights}

    def best_model(self) -> ModelT:
        """A copy of the network with the best weights, or the present ones if none were kept."""
        model = deepcopy(self.model)
        if self.best["model"]:
            model.load_state_dict(self.best["model"])
        return model

    def tested(
        self, test: Any, history: Sequence[Row], model: nn.Module | None = None, **more: Any
    ) -> StudyResult:
        """The result of a test, by default of the present network."""
        model = self.model if model is None else model
        return StudyResult(
            self.settings, self.step, test, tuple(history), self.seconds, model, more
        )
