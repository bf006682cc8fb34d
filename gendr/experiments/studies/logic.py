"""Classification by logic gate networks: training, hardening, the circuit on every test row.

    >>> train, test = read_monk("data/monks", 1)
    >>> result = train_logic(LogicSettings(layers=6, width=24), Samples.of(train), Samples.of(test))
    >>> result.accuracy

Source: thesis, sections 6.3.1 and 6.4, Tables 6.2 to 6.6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from gendr._runtime.checks import check_choice, check_count, check_number, check_shape
from gendr.data import BitTable
from gendr.data.numbers import digest
from gendr.experiments.engine.training import Row, Training, drive
from gendr.logic import GroupSum, LogicLayer, Thermometer

__all__ = ["LogicResult", "LogicSettings", "LogicTraining", "Samples", "make_model", "train_logic"]

# How many rows pass through the network together outside training.
AT_ONCE = 1000


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows with their classes.

    Attributes:
        x: [N, F] uint8.
        labels: [N] int64, 0 .. classes - 1.
        classes: how many there are.
    """

    x: Tensor
    labels: Tensor
    classes: int

    def __post_init__(self) -> None:
        check_shape("labels", self.labels, "[N]", **check_shape("x", self.x, "[N, F]"))

    @classmethod
    def of(cls, table: BitTable) -> Samples:
        """The rows of a table of bits."""
        return cls(table.bits, table.labels, len(table.classes))

    @classmethod
    def of_images(cls, images: Tensor, labels: Tensor, classes: int = 10) -> Samples:
        """Images [N, ...] uint8, whose pixels are the features."""
        return cls(images.flatten(1), labels.long(), classes)

    def __len__(self) -> int:
        return len(self.x)

    def to(self, device: torch.device | str) -> Samples:
        """The same rows on a device."""
        return Samples(self.x.to(device), self.labels.to(device), self.classes)


@dataclass(frozen=True)
class LogicSettings:
    """A network and its training; widths and tau of the thesis are in Table 6.6.

    Attributes:
        layers: of gates.
        width: gates of each layer; a multiple of the number of classes.
        tau: by which the sums of the last layer's groups are divided.
        thresholds: which make bits of the features, such as (127.5,) for images of bytes; none if
            the features are bits.
        init: of the layers, "residual" or "normal".
        steps: steps of Adam; a resumed training may have more.
        batch: rows per step, drawn with replacement.
        learning_rate: of Adam.
        weight_decay: of the gates' weights, by Adam with decoupled decay: a prior for even
            mixtures.
        evaluate_every: steps between evaluations.
        seed: of the wires, the weights and the batches.
    """

    layers: int = 6
    width: int = 8000
    tau: float = 10.0
    thresholds: tuple[float, ...] = ()
    init: Literal["residual", "normal"] = "residual"
    steps: int = 10_000
    batch: int = 100
    learning_rate: float = 0.01
    weight_decay: float = 0.0
    evaluate_every: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("layers", "width", "steps", "batch", "evaluate_every"):
            check_count(name, getattr(self, name))
        check_count("seed", self.seed, least=0)
        for name in ("tau", "learning_rate"):
            check_number(name, getattr(self, name), above=0)
        if check_number("weight_decay", self.weight_decay) < 0:
            raise ValueError(f"weight_decay must be >= 0, got {self.weight_decay}")
        check_choice("init", self.init, ("residual", "normal"))


def make_model(settings: LogicSettings, features: int, classes: int) -> nn.Sequential:
    """The network: thresholds if there are any, layers of equal width, sums of groups.

    Raises:
        ValueError: if the width is no multiple of the number of classes.
    """
    if settings.width % classes:
        raise ValueError(f"width must be a multiple of the {classes} classes, got {settings.width}")
    parts: list[nn.Module] = []
    if settings.thresholds:
        parts.append(Thermometer(list(settings.thresholds)))
        features *= len(settings.thresholds)
    for _ in range(settings.layers):
        parts.append(LogicLayer(features, settings.width, init=settings.init))
        features = settings.width
    return nn.Sequential(*parts, GroupSum(classes, settings.tau))


class LogicTraining(Training[LogicSettings, nn.Sequential]):
    """A training of a logic gate network in progress; see `Training`.

    The metric in its history is the accuracy of the hardened network on the validation part. No
    weights are chosen by it: the test is one of the last weights.

    Args:
        settings: the settings of the training.
        train: what is trained with.
        validation: for the history; None leaves it without a metric.
        test: for the result.
        device: the device to train on.

    Raises:
        ValueError: if the parts do not fit together.
    """

    kind = "gendr logic 1"
    what = "a training of a logic gate network"

    def __init__(
        self,
        settings: LogicSettings,
        train: Samples,
        validation: Samples | None,
        test: Samples,
        device: torch.device | str = "cpu",
    ) -> None:
        features = train.x.shape[1]
        for name, part in (("validation", validation), ("test", test)):
            if part is not None and (part.x.shape[1], part.classes) != (features, train.classes):
                raise ValueError(
                    f"the {name} part must have {features} features and {train.classes} classes, "
                    f"got {part.x.shape[1]} and {part.classes}"
                )
        self._digest = digest(train.x, train.labels)
        self.train = train.to(device)
        self.validation = None if validation is None else validation.to(device)
        self.test = test.to(device)
        super().__init__(settings, device, lambda: make_model(settings, features, train.classes))
        self.adam = torch.optim.AdamW(
            self.model.parameters(), settings.learning_rate, weight_decay=settings.weight_decay,
            fused=True,
        )  # fmt: skip

    def loss(self) -> Tensor:
        """Draw a batch; the cross-entropy of the scores."""
        size = (self.settings.batch,)
        index = torch.randint(len(self.train), size, generator=self.generator, device=self.device)
        scores = self.model(self.features(self.train.x[index]))
        return functional.cross_entropy(scores, self.train.labels[index])

    def features(self, x: Tensor) -> Tensor:
        """Bytes as the network takes them."""
        return x.float()

    @torch.no_grad()
    def hits(self, part: Samples) -> Tensor:
        """Which rows the hardened network classifies correctly, [N] bool."""
        self.model.eval()
        try:
            found = [
                self.model(self.features(x)).argmax(1) == labels
                for x, labels in zip(part.x.split(AT_ONCE), part.labels.split(AT_ONCE), strict=True)
            ]
        finally:
            self.model.train()
        return torch.cat(found)

    def evaluate(self, row: Row) -> None:
        """Write the accuracy on the validation part into a row."""
        if self.validation is not None:
            row["accuracy"] = float(self.hits(self.validation).float().mean())

    def signature(self) -> dict[str, Any]:
        """See `Training`."""
        values = asdict(self.settings)
        del values["steps"]
        return {**values, "thresholds": list(self.settings.thresholds), "data": self._digest}

    def result(self) -> LogicResult:
        """Harden the present weights and test them; the training itself is not changed."""
        accuracy = float(self.hits(self.test).double().mean())
        history = tuple(dict(row) for row in self.history)
        gates = self.settings.layers * self.settings.width
        return LogicResult(
            self.settings, self.step, accuracy, gates, history, self.seconds, self.model
        )


@dataclass(frozen=True, eq=False)
class LogicResult:
    """The result of a training.

    Attributes:
        settings: as given.
        step: steps done.
        accuracy: of the hardened network on all test rows.
        gates: of the network, before the circuit is simplified.
        history: rows as in `LogicTraining`.
        seconds: the time spent on the steps.
        model: the network.
    """

    settings: LogicSettings
    step: int
    accuracy: float
    gates: int
    history: tuple[Row, ...]
    seconds: float
    model: nn.Sequential

    def describe(self) -> dict[str, Any]:
        """All but the weights, as plain values."""
        return {
            "settings": {**asdict(self.settings), "thresholds": list(self.settings.thresholds)},
            "step": self.step,
            "accuracy": self.accuracy,
            "gates": self.gates,
            "seconds": self.seconds,
            "history": list(self.history),
        }


def train_logic(
    settings: LogicSettings,
    train: Samples,
    test: Samples,
    *,
    validation: Samples | None = None,
    device: torch.device | str = "cpu",
    checkpoint: str | Path | None = None,
    resume: bool = False,
    callback: Callable[[LogicTraining], None] | None = None,
) -> LogicResult:
    """Train a logic gate network, and test its hard form.

    Args:
        settings: the settings of the training.
        train: what is trained with.
        test: for the result.
        validation: for the history.
        device: the device to train on.
        checkpoint: a file that is written every minute and at the end.
        resume: whether to continue from that file.
        callback: called after every step; see `drive`.

    Raises:
        ValueError: if the parts do not fit together, the loss is no longer finite, or there is
            nothing to resume from.
    """
    training = LogicTraining(settings, train, validation, test, device)
    drive(training, checkpoint=checkpoint, resume=resume, callback=callback)
    return training.result()
