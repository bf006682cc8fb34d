"""Classification by logic gate networks: training, hardening, the circuit on every test row.

    >>> train, test = Samples(x, labels, 2), Samples(x_test, labels_test, 2)
    >>> training = LogicTraining(LogicSettings(layers=6, width=24), train, None, test)
    >>> drive(training)
    >>> training.result().accuracy

Source: thesis, sections 6.3.1 and 6.4, Tables 6.2 to 6.6.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from gendr._common.checks import check_shape
from gendr.jobs.checkpoint import digest
from gendr.jobs.settings import Range, check_settings
from gendr.jobs.training import Row, TrainingLoop
from gendr.kernels.threads import torch_on_one_thread
from gendr.logic import (
    Circuit,
    GroupSum,
    LogicLayer,
    Stats,
    Thermometer,
    harden,
    random_wiring,
)

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
        decay: the part of the steps, at the end, in which the learning rate falls linearly to 0.
        evaluate_every: steps between evaluations.
        seed: of the wires, the weights and the batches.
    """

    layers: Annotated[int, Range(1)] = 6
    width: Annotated[int, Range(1)] = 8000
    tau: Annotated[float, Range(0, closed=False)] = 10.0
    thresholds: tuple[float, ...] = ()
    init: Literal["residual", "normal"] = "residual"
    steps: Annotated[int, Range(1)] = 10_000
    batch: Annotated[int, Range(1)] = 100
    learning_rate: Annotated[float, Range(0, closed=False)] = 0.01
    decay: Annotated[float, Range(0)] = 0.0
    evaluate_every: Annotated[int, Range(1)] = 1000
    seed: Annotated[int, Range(0)] = 0

    def __post_init__(self) -> None:
        check_settings(self)
        if self.decay > 1:
            raise ValueError(f"decay must be in [0, 1], got {self.decay}")


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
        wiring = random_wiring(features, settings.width)
        parts.append(LogicLayer(features, settings.width, wiring=wiring, init=settings.init))
        features = settings.width
    return nn.Sequential(*parts, GroupSum(classes, settings.tau))


class LogicTraining(TrainingLoop[LogicSettings, nn.Sequential]):
    """A training of a logic gate network in progress; see `TrainingLoop`.

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

    kind = "a training of a logic gate network"

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
        super().__init__(settings, device, lambda: self.network(features, train.classes))

    def network(self, features: int, classes: int) -> nn.Sequential:
        """A network that has learnt nothing."""
        return make_model(self.settings, features, classes)

    def optimizer(self) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.model.parameters(), self.settings.learning_rate, fused=True)

    def advance(self) -> None:
        """Do one step, at the learning rate of the schedule."""
        settings = self.settings
        if settings.decay:
            left = (settings.steps - self.step) / (settings.decay * settings.steps)
            self.adam.param_groups[0]["lr"] = settings.learning_rate * min(1.0, left)
        super().advance()

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
            hits: list[Tensor] = []
            for x, labels in zip(part.x.split(AT_ONCE), part.labels.split(AT_ONCE), strict=True):
                hits.append(self.model(self.features(x)).argmax(1) == labels)
        finally:
            self.model.train()
        return torch.cat(hits)

    def tested(self) -> tuple[nn.Sequential, Tensor]:
        """The network that is kept, and its hits in the test part [N]."""
        return self.model, self.hits(self.test)

    def evaluate(self, row: Row) -> None:
        """Write the accuracy on the validation part into a row."""
        if self.validation is not None:
            row["accuracy"] = float(self.hits(self.validation).float().mean())

    def signature(self) -> dict[str, Any]:
        """See `TrainingLoop`."""
        values = self.signature_of(self._digest)
        del values["evaluate_every"]  # an evaluation changes no step
        return {**values, "thresholds": list(self.settings.thresholds)}

    def result(self) -> LogicResult:
        """Harden the present weights and test the circuit; the training itself is not changed.

        Raises:
            RuntimeError: if the circuit and the network in `eval` mode differ on a test row.
        """
        model, hits = self.tested()
        whole, circuit = harden(model, simplify=False), harden(model)
        if not torch.equal(circuit.predict(self.test.x) == self.test.labels, hits):
            raise RuntimeError(
                "the circuit and the network differ; this is a bug: please report it"
            )
        return LogicResult(
            self.settings, self.step, float(hits.double().mean()), whole.stats(), circuit.stats(),
            time_per_row(circuit, self.test.x), tuple(dict(row) for row in self.history),
            self.seconds, model, circuit,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class LogicResult:
    """The result of a training.

    Attributes:
        settings: as given.
        step: steps done.
        accuracy: of the circuit, which is that of the hardened network, on all test rows.
        whole: the size of the circuit before it was simplified; its levels are the layers.
        stats: the size of the circuit.
        row_seconds: what a row takes on one thread; see `time_per_row`.
        history: rows as in `LogicTraining`.
        seconds: the time spent on the steps.
        model: the network.
        circuit: what it is in hardware.
    """

    settings: LogicSettings
    step: int
    accuracy: float
    whole: Stats
    stats: Stats
    row_seconds: float
    history: tuple[Row, ...]
    seconds: float
    model: nn.Sequential
    circuit: Circuit

    def describe(self) -> dict[str, Any]:
        """All but the weights, as plain values."""
        return {
            "settings": {**asdict(self.settings), "thresholds": list(self.settings.thresholds)},
            "step": self.step,
            "accuracy": self.accuracy,
            "layers": list(self.whole.levels),
            "gates": self.whole.gates,
            "circuit": {"gates": self.stats.gates, "depth": self.stats.depth},
            "row_seconds": self.row_seconds,
            "seconds": self.seconds,
            "history": list(self.history),
        }


def time_per_row(circuit: Circuit, x: Tensor, rows: int = 65_536) -> float:
    """Seconds from the packed bits of a row to its counts, on one thread, the best of five runs.

    Args:
        circuit: with groups.
        x: [N, F], rows that are repeated.
        rows: how many are run at a time.
    """
    bits = circuit.pack(x.repeat(-(-rows // len(x)), 1)[:rows].cpu())
    best = float("inf")
    with torch_on_one_thread(1):
        for _ in range(5):
            clock = time.perf_counter()
            circuit.counts(bits)
            best = min(best, time.perf_counter() - clock)
    return best / rows
