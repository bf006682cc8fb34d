"""Networks of logic gates as in the papers: populations of them, and trees over images.

Source: thesis, sections 6.3.1 and 6.4, Tables 6.2 to 6.6; networks of trees: Petersen et al.,
Convolutional Differentiable Logic Gate Networks, NeurIPS 2024, appendix A.1.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from gendr._common.checks import check_count, check_number
from gendr.jobs.logic import (
    AT_ONCE,
    LogicResult,
    LogicSettings,
    LogicTraining,
    Samples,
    make_model,
)
from gendr.jobs.training import Row, drive
from gendr.logic import (
    GroupSum,
    LogicConv2d,
    LogicLayer,
    OrPool2d,
    Thermometer,
    harden,
    random_wiring,
)


@dataclass(frozen=True)
class NetworkSettings(LogicSettings):
    """A network and its training, or many of them.

    Attributes:
        layers: behind the convolutions if there are some.
        width: of the last layer if there are convolutions, before which they are twice as many
            from layer to layer.
        kernels: trees of the first of three convolutions, for square images of one channel; 0 for
            a network without; see `tree_network`.
        weight_decay: of the gates' weights, by Adam with decoupled decay: a prior for even
            mixtures.
        population: how many networks are trained side by side, each with wires of its own; which
            one is kept is said at `description_length`. Nothing of the test is looked at.
    """

    kernels: int = 0
    weight_decay: float = 0.0
    population: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("population", self.population)
        if check_count("kernels", self.kernels, least=0) and self.population > 1:
            raise ValueError("a population is for networks without convolutions; leave one out")
        if check_number("weight_decay", self.weight_decay) < 0:
            raise ValueError(f"weight_decay must be >= 0, got {self.weight_decay}")


def networks(settings: NetworkSettings, features: int, classes: int) -> nn.Sequential:
    """A network; those of a population are blocks of one: a member reads its own gates only.

    Its scores are [N, population * classes].

    Raises:
        ValueError: if the width is no multiple of the number of classes.
    """
    if settings.width % classes:
        raise ValueError(f"width must be a multiple of the {classes} classes, got {settings.width}")
    if settings.kernels:
        return tree_network(settings, features, classes)
    members, width = settings.population, settings.width
    if members == 1:
        return make_model(settings, features, classes)
    parts: list[nn.Module] = []
    if settings.thresholds:
        parts.append(Thermometer(list(settings.thresholds)))
        features *= len(settings.thresholds)
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


def tree_network(settings: NetworkSettings, features: int, classes: int) -> nn.Sequential:
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


def member(model: nn.Sequential, settings: NetworkSettings, which: int) -> nn.Sequential:
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


class NetworkTraining(LogicTraining):
    """A training of a network, or of a population of them; see `LogicTraining`."""

    settings: NetworkSettings

    def network(self, features: int, classes: int) -> nn.Sequential:
        """See `networks`."""
        return networks(self.settings, features, classes)

    def optimizer(self) -> torch.optim.Optimizer:
        """Adam with decoupled decay."""
        settings = self.settings
        return torch.optim.AdamW(
            self.model.parameters(), settings.learning_rate, weight_decay=settings.weight_decay,
            fused=True,
        )  # fmt: skip

    def loss(self) -> Tensor:
        """Draw a batch; the cross-entropy of the scores, a sum over members.

        Each takes the steps that it would take alone.
        """
        size = (self.settings.batch,)
        index = torch.randint(len(self.train), size, generator=self.generator, device=self.device)
        scores = self.model(self.features(self.train.x[index]))
        members = self.settings.population
        scores = scores.reshape(-1, self.train.classes)  # by row, then by member
        labels = self.train.labels[index].repeat_interleave(members)
        return functional.cross_entropy(scores, labels) * members

    @torch.no_grad()
    def all_hits(self, part: Samples) -> Tensor:
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
        """The member that is kept; see `NetworkSettings.population`."""
        if self.settings.population == 1:
            return 0
        rows = len(self.train)
        errors = [rows - right for right in self.all_hits(self.train).sum(0).tolist()]
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
            row["accuracy"] = float(self.all_hits(self.validation).float().mean())

    def tested(self) -> tuple[nn.Sequential, Tensor]:
        """The best member, and its hits in the test part [N]."""
        best, hits = self.best(), self.all_hits(self.test)
        if self.settings.population == 1:
            return self.model, hits[:, 0]
        return member(self.model, self.settings, best), hits[:, best]


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


def train_logic(
    settings: NetworkSettings,
    train: Samples,
    test: Samples,
    *,
    validation: Samples | None = None,
    device: torch.device | str = "cpu",
    checkpoint: str | Path | None = None,
    resume: bool = False,
    callback: Callable[[NetworkTraining], object] | None = None,
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
    training = NetworkTraining(settings, train, validation, test, device)
    drive(training, checkpoint=checkpoint, resume=resume, callback=callback)
    return training.result()
