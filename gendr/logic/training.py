"""Classification by logic gate networks: training, hardening, the circuit on every test row.

    >>> train, test = Samples(x, labels, 2), Samples(x_test, labels_test, 2)
    >>> result = train_logic(LogicSettings(layers=6, width=24), train, test)
    >>> result.accuracy

Source: thesis, sections 6.3.1 and 6.4, Tables 6.2 to 6.6; networks of trees: Petersen et al.,
Convolutional Differentiable Logic Gate Networks, NeurIPS 2024, appendix A.1.2.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from gendr._common.checkpoint import digest
from gendr._common.checks import check_choice, check_count, check_number, check_shape
from gendr.kernels.threads import torch_on_one_thread
from gendr.logic import (
    Circuit,
    GroupSum,
    LogicConv2d,
    LogicLayer,
    OrPool2d,
    Stats,
    Thermometer,
    harden,
    random_wiring,
)
from gendr.logic.training_loop import Row, TrainingLoop, drive

__all__ = [
    "LogicResult",
    "LogicSettings",
    "LogicTraining",
    "Samples",
    "make_model",
    "time_per_row",
    "train_logic",
]

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
        layers: of gates; behind the convolutions if there are some.
        width: gates of each layer, or of the last if there are convolutions, before which they are
            twice as many from layer to layer; a multiple of the number of classes.
        kernels: trees of the first of three convolutions, for square images of one channel; 0 for
            a network without; see `tree_network`.
        tau: by which the sums of the last layer's groups are divided.
        thresholds: which make bits of the features, such as (127.5,) for images of bytes; none if
            the features are bits.
        init: of the layers, "residual" or "normal".
        steps: steps of Adam; a resumed training may have more.
        batch: rows per step, drawn with replacement.
        learning_rate: of Adam.
        decay: the part of the steps, at the end, in which the learning rate falls linearly to 0.
        weight_decay: of the gates' weights, by Adam with decoupled decay: a prior for even
            mixtures.
        population: how many networks are trained side by side, each with wires of its own; which
            one is kept is said at `description_length`. Nothing of the test is looked at.
        evaluate_every: steps between evaluations.
        seed: of the wires, the weights and the batches.
    """

    layers: int = 6
    width: int = 8000
    kernels: int = 0
    tau: float = 10.0
    thresholds: tuple[float, ...] = ()
    init: Literal["residual", "normal"] = "residual"
    steps: int = 10_000
    batch: int = 100
    learning_rate: float = 0.01
    decay: float = 0.0
    weight_decay: float = 0.0
    population: int = 1
    evaluate_every: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("layers", "width", "steps", "batch", "population", "evaluate_every"):
            check_count(name, getattr(self, name))
        check_count("seed", self.seed, least=0)
        if check_count("kernels", self.kernels, least=0) and self.population > 1:
            raise ValueError("a population is for networks without convolutions; leave one out")
        for name in ("tau", "learning_rate"):
            check_number(name, getattr(self, name), above=0)
        if not 0 <= check_number("decay", self.decay) <= 1:
            raise ValueError(f"decay must be in [0, 1], got {self.decay}")
        if check_number("weight_decay", self.weight_decay) < 0:
            raise ValueError(f"weight_decay must be >= 0, got {self.weight_decay}")
        check_choice("init", self.init, ("residual", "normal"))


def make_model(settings: LogicSettings, features: int, classes: int) -> nn.Sequential:
    """The network: thresholds if there are any, layers of equal width, sums of groups.

    The networks of a population are blocks of one: gates of a member read its own gates only. Its
    scores are [N, population * classes].

    Raises:
        ValueError: if the width is no multiple of the number of classes.
    """
    if settings.width % classes:
        raise ValueError(f"width must be a multiple of the {classes} classes, got {settings.width}")
    if settings.kernels:
        return tree_network(settings, features, classes)
    parts: list[nn.Module] = []
    if settings.thresholds:
        parts.append(Thermometer(list(settings.thresholds)))
        features *= len(settings.thresholds)
    members, width = settings.population, settings.width
    for k in range(settings.layers):
        wires = [
            random_wiring(features, width) + (features * member if k else 0)
            for member in range(members)
        ]
        whole = features * (members if k else 1)
        wiring = torch.cat(wires, 1)
        parts.append(LogicLayer(whole, width * members, wiring=wiring, init=settings.init))
        features = width
    return nn.Sequential(*parts, GroupSum(members * classes, settings.tau))


def tree_network(settings: LogicSettings, features: int, classes: int) -> nn.Sequential:
    """The network of the paper for MNIST, of rows that are square images: [N, H H] -> [N, classes].

    Three blocks of k, 3 k and 9 k trees of depth 3, in windows of 5, 3 and 3 pixels, each with a
    pool that halves the image; then layers of gates. Its size S is k = 16, with layers of 40,960,
    20,480 and 10,240 gates.

    Raises:
        ValueError: if rows are no square images of 12 x 12 pixels or more.

    Source: Petersen et al., NeurIPS 2024, appendix A.1.2.
    """
    side, k, bits = math.isqrt(features), settings.kernels, max(1, len(settings.thresholds))
    if side * side != features or side < 12:
        raise ValueError(
            f"convolutions are for square images of 12 x 12 pixels or more, got {features} features"
        )
    parts: list[nn.Module] = [nn.Unflatten(1, (1, side, side))]
    if settings.thresholds:
        parts.append(Thermometer(list(settings.thresholds), dim=-3))
    for channels, trees, window, padding in (
        (bits, k, 5, 0),
        (k, 3 * k, 3, 1),
        (3 * k, 9 * k, 3, 1),
    ):
        block = LogicConv2d(channels, trees, window, padding=padding, init=settings.init)
        parts += [block, OrPool2d(2)]
    width = 9 * k * ((side - 4) // 8) ** 2
    parts.append(nn.Flatten())
    for left in range(settings.layers - 1, -1, -1):
        parts.append(LogicLayer(width, settings.width << left, init=settings.init))
        width = settings.width << left
    return nn.Sequential(*parts, GroupSum(classes, settings.tau))


def member(model: nn.Sequential, settings: LogicSettings, which: int) -> nn.Sequential:
    """One network of a population, with weights of its own."""
    parts: list[nn.Module] = []
    own = slice(which * settings.width, (which + 1) * settings.width)
    is_first = True
    for part in model:
        if isinstance(part, LogicLayer):
            wires = part.wires[:, own] - (0 if is_first else own.start)
            features = part.in_features if is_first else settings.width
            is_first = False
            layer = LogicLayer(features, settings.width, wiring=wires, device=part.weight.device)
            layer.weight.data = part.weight.detach()[own].clone()
            parts.append(layer.train(part.training))
        elif isinstance(part, GroupSum):
            parts.append(GroupSum(part.k // settings.population, part.tau))
        else:
            parts.append(part)
    return nn.Sequential(*parts)


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
        super().__init__(settings, device, lambda: make_model(settings, features, train.classes))
        self.adam = torch.optim.AdamW(
            self.model.parameters(), settings.learning_rate, weight_decay=settings.weight_decay,
            fused=True,
        )  # fmt: skip

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
        members = self.settings.population
        scores = scores.reshape(-1, self.train.classes)  # by row, then by member
        labels = self.train.labels[index].repeat_interleave(members)
        # The sum over members: each takes the steps that it would take alone.
        return functional.cross_entropy(scores, labels) * members

    def features(self, x: Tensor) -> Tensor:
        """Bytes as the network takes them."""
        return x.float()

    @torch.no_grad()
    def hits(self, part: Samples) -> Tensor:
        """Which rows the hardened networks classify correctly, [N, population] bool."""
        self.model.eval()
        members = self.settings.population
        try:
            hits: list[Tensor] = []
            for x, labels in zip(part.x.split(AT_ONCE), part.labels.split(AT_ONCE), strict=True):
                scores = self.model(self.features(x)).unflatten(1, (members, -1))
                hits.append(scores.argmax(2) == labels[:, None])
        finally:
            self.model.train()
        return torch.cat(hits)

    def best(self) -> int:
        """The member that is kept; see `LogicSettings.population`."""
        if self.settings.population == 1:
            return 0
        rows = len(self.train)
        errors = [rows - right for right in self.hits(self.train).sum(0).tolist()]
        shortest, best = math.inf, 0
        for k in sorted(range(len(errors)), key=errors.__getitem__):
            if description_length(rows, errors[k], 0) >= shortest:
                break  # from here on, errors alone take more than the best circuit in all
            circuit = harden(member(self.model, self.settings, k))
            length = description_length(rows, errors[k], len(circuit.netlist))
            if length < shortest:
                shortest, best = length, k
        return best

    def evaluate(self, row: Row) -> None:
        """Write the accuracy on the validation part, the mean of all members, into a row."""
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
        best = self.best()
        hits = self.hits(self.test)[:, best]
        model = self.model
        if self.settings.population > 1:
            model = member(model, self.settings, best)
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


def description_length(rows: int, errors: int, gates: int) -> float:
    """What it takes to say the classes of the training rows by a circuit, in nats; less is better.

    The rows times the entropy of the rate of errors, and one for each gate: of circuits that fit
    alike the smallest is kept, and what only noise asks for is not worth its gates. One for each
    parameter is what Akaike's criterion asks. A circuit that errs in more than half of the rows
    says no more of them than one that errs in half.

    Source: Akaike, A New Look at the Statistical Model Identification, 1974.
    """
    rate = min(errors / rows, 0.5)
    if rate == 0:
        return float(gates)
    return gates - rows * (rate * math.log(rate) + (1 - rate) * math.log1p(-rate))


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


def train_logic(
    settings: LogicSettings,
    train: Samples,
    test: Samples,
    *,
    validation: Samples | None = None,
    device: torch.device | str = "cpu",
    checkpoint: str | Path | None = None,
    resume: bool = False,
    callback: Callable[[LogicTraining], object] | None = None,
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
