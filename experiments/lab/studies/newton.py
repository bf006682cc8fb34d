"""Newton losses and RESGRO beside the plain losses: classification, sorting, shortest paths.

The trainings are those of the other studies. What changes is the loss: its gradient by the output
of the network is replaced by a Newton step, see `gendr.optim`. Network, data, their order and the
initial weights are those of the plain training with the same seed, so that pairs can be compared.

    >>> settings = SortingSettings(method="neuralsort", variant="hessian", steps=1000)
    >>> training = SortingTraining(settings, mnist_splits("data/mnist"))

Source: thesis, section 7.5, Tables 7.1 to 7.7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from gendr._common.checks import check_choice, check_count
from gendr.cli.command_line import Number, above, count, option
from gendr.jobs.training import Row
from gendr.optim import RESGRO, NewtonLoss, NewtonStep, SoftmaxCrossEntropy, SplitPoint
from gendr.relaxed.estimators import FenchelYoungLoss, SmoothedLoss
from gendr.sorting.base import PermutationSort
from gendr.sorting.losses import permutation_matrix, ranking_cross_entropy
from lab.data import MultiDigits, Splits, TerrainSplits
from lab.settings import check_options
from lab.studies.ranking import RankingNet, RankingSettings, RankingTraining
from lab.studies.shortest_path import (
    PathSettings,
    PathTraining,
    differences,
    fenchel_young,
    hard_paths,
)
from lab.studies.training import StudyResult, StudyTraining

# How the thesis names them.
VARIANTS: Mapping[str, str] = MappingProxyType(
    {
        "regular": "Regular",
        "hessian": "NL (Hessian)",
        "fisher": "NL (Fisher)",
        "elementwise": "NL (e.w. H)",
        "resgro": "RESGRO",
    }
)
# Damping by what is trained and the variant, from short runs with seeds of their own.
TIKHONOV: Mapping[tuple[str, str], float] = MappingProxyType(
    {
        ("neuralsort", "hessian"): 0.01,
        ("neuralsort", "fisher"): 0.01,
        ("softsort", "hessian"): 0.01,
        ("softsort", "fisher"): 0.01,
        ("odd_even/logistic", "hessian"): 100.0,
        ("odd_even/logistic", "fisher"): 0.01,
        ("classification", "hessian"): 0.3,
    }
)
# Elsewhere.
DAMPING = 0.1


@dataclass(frozen=True)
class NewtonSettings:
    """What the settings of all trainings with a Newton loss have.

    Attributes:
        variant: a name of `VARIANTS`.
        tikhonov: damping; None is that of `TIKHONOV`.
    """

    variant: str = "regular"
    tikhonov: float | None = option(None, Number(0.0))

    def __post_init__(self) -> None:
        check_choice("variant", self.variant, VARIANTS)
        check_options(self)

    @property
    def trained(self) -> str:
        """What is trained, as `TIKHONOV` names it."""
        raise NotImplementedError

    @property
    def damping(self) -> float:
        """`tikhonov`, or else what was found for it."""
        found = TIKHONOV.get((self.trained, self.variant), DAMPING)
        return found if self.tikhonov is None else self.tikhonov

    def newton(self, loss: Callable[..., Tensor] | nn.Module, second: Any = "autograd") -> Any:
        """The Newton loss of this variant of a loss; None if the plain one is asked for."""
        if self.variant == "regular":
            return None
        variant: Any = self.variant
        return NewtonLoss(loss, variant, tikhonov=self.damping, second=second)


# ---------------------------------------------------------------------------------------------
# sorting


@dataclass(frozen=True)
class SortingSettings(RankingSettings, NewtonSettings):
    """The settings of a training to rank with a Newton loss; the defaults are those of 7.5.2.

    Attributes:
        method: a name of `gendr.sorting` with a permutation matrix; for the variant "resgro", which
            makes Kendall's tau large, it is not used.
        network: "published", or "digits", `DigitsNet` on images of half the size.
        samples: of RESGRO, of which the best is taken.
        drawn: of RESGRO, samples in all, out of which sets are made.
        scale: of RESGRO, of its Gaussian noise.
    """

    method: str = "neuralsort"
    steps: int = option(100_000, count(1))
    learning_rate: float = option(1e-3, above(0))
    network: str = option("published", choices=("published", "digits"))
    samples: int = option(10, count(1))
    drawn: int = option(100, count(1))
    scale: float = option(1.0, above(0))

    def __post_init__(self) -> None:
        super().__post_init__()
        NewtonSettings.__post_init__(self)
        check_choice("network", self.network, NETWORKS)
        check_count("drawn", self.drawn, least=self.samples)
        if not isinstance(self.sorter(), PermutationSort):
            raise ValueError(f"a method with a permutation matrix is needed, got {self.method}")

    @property
    def trained(self) -> str:
        """See `NewtonSettings`."""
        return f"{self.method}/{self.dist}" if self.dist else self.method


class DigitsNet(nn.Module):
    """A small network for numbers whose images stand side by side: it sees each digit by itself.

    All digits go through the same two layers of 64 and 32, and all of a number through one of 64.

    Args:
        shape: (C, H, W) of the images of numbers, W a multiple of H.
        channels: not used; as for `RankingNet`.
    """

    def __init__(self, shape: tuple[int, int, int], channels: tuple[int, ...] = ()) -> None:
        super().__init__()
        colours, height, width = shape
        self.digits = width // height
        self.digit = nn.Sequential(
            nn.Linear(colours * height * height, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU()
        )
        self.number = nn.Sequential(nn.Linear(32 * self.digits, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Scores [...] of images [..., C, H, W]."""
        parts = images.unflatten(-1, (self.digits, -1)).movedim(-2, -4)  # [..., digits, C, H, H]
        return self.number(self.digit(parts.flatten(-3)).flatten(-2)).squeeze(-1)


NETWORKS: Mapping[str, Callable[[tuple[int, int, int], tuple[int, ...]], nn.Module]] = (
    MappingProxyType({"published": RankingNet, "digits": DigitsNet})
)


def halved(data: Splits) -> Splits:
    """The same numbers of digits with half as many pixels a side, the means of four.

    Raises:
        TypeError: if the data are no `MultiDigits`.
    """
    parts: list[MultiDigits] = []
    for part in map(digits_of, data):
        images = functional.avg_pool2d(part.images[:, None].float(), 2)[:, 0]
        parts.append(replace(part, images=images.round().byte()))
    return Splits(*parts)


def kendall_of(scores: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
    """Kendall's tau of scores and values [N, n]: [N], in [-1, 1]."""
    i, j = np.triu_indices(scores.shape[-1], 1)
    signs = np.sign(scores[:, i] - scores[:, j]) * np.sign(values[:, i] - values[:, j])
    return signs.mean(-1)


class SortingTraining(RankingTraining):
    """A training to rank with a Newton loss, or with RESGRO; see `RankingTraining`.

    Args:
        settings: the settings of the training.
        data: training, validation and test data.
        device: the device to train on.
    """

    kind = "a training to rank with a Newton loss"

    def __init__(
        self, settings: SortingSettings, data: Splits, device: torch.device | str = "cpu"
    ) -> None:
        if settings.variant == "resgro":
            self._criterion = RESGRO(
                kendall_of, settings.samples, settings.drawn, scale=settings.scale, minimize=False,
                batched=True,
            )  # fmt: skip
        else:  # the gradients are compiled kernels
            self._criterion = settings.newton(self._each, second="differences")
        self._damping = settings.damping
        if settings.network == "digits":
            data = halved(data)
        super().__init__(settings, data, device, network=NETWORKS[settings.network])

    def loss_of(self, scores: Tensor, values: Tensor) -> Tensor:
        """See `RankingTraining`."""
        if isinstance(self._criterion, RESGRO):
            return self._criterion(scores, values)
        q = permutation_matrix(values)
        if self._criterion is None:
            return self._each(scores, q).mean()
        return self._criterion(scores, q)

    def _each(self, scores: Tensor, q: Tensor) -> Tensor:
        """The loss of each list."""
        p = self.sorter.permutation(scores)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        return ranking_cross_entropy(p, q, binary=self.settings.binary, reduction="none")

    def signature(self) -> dict[str, Any]:
        """See `TrainingLoop`."""
        # A damping that is found anew makes another training.
        return {**super().signature(), "tikhonov": self._damping}


# ---------------------------------------------------------------------------------------------
# classification

# Of one hidden layer; M4 and M5 are convolutional.
WIDTHS = {"M1": 100, "M2": 400, "M3": 1600}
LENETS: dict[str, type[nn.Module]] = {"M4": nn.Sigmoid, "M5": nn.ReLU}
MODELS = (*WIDTHS, *LENETS)
# The learning rates, on which the thesis is silent.
RATES = {"sgd": 0.1, "adam": 1e-3}
# How many images an evaluation passes through the network together.
AT_ONCE = 1000


@dataclass(frozen=True)
class ClassSettings(NewtonSettings):
    """The settings of a training to classify digits; the defaults are one epoch of Table 7.1.

    Attributes:
        model: M1, M2, M3: fully connected, 5 layers of 100, 400, 1600; M4, M5: LeNet-5 with
            sigmoids or ReLU.
        optimizer: "sgd" or "adam".
        steps: an epoch of 55,000 digits has 550 of a batch of 100.
        batch: digits per step; the thesis does not say how many.
        rate: the learning rate; None is that of `RATES`.
        evaluate_every: steps between evaluations.
        images: how many validation images, at most, an evaluation has.
        seed: of the initial weights and of the order of the images.
    """

    model: str = "M1"
    optimizer: str = "adam"
    steps: int = option(550, count(1))
    batch: int = option(100, count(1))
    rate: float | None = option(None, above(0))
    evaluate_every: int = option(55, count(1))
    images: int = option(5000, count(1))
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("model", self.model, MODELS)
        check_choice("optimizer", self.optimizer, RATES)
        if self.variant == "resgro":
            raise ValueError("classification has no variant resgro")
        check_count("seed", self.seed, least=0)

    @property
    def learning_rate(self) -> float:
        """The learning rate."""
        return RATES[self.optimizer] if self.rate is None else self.rate

    @property
    def trained(self) -> str:
        """See `NewtonSettings`."""
        return "classification"


def classifier(name: str, side: int = 28, classes: int = 10) -> nn.Sequential:
    """A model of Table 7.1: images [N, 1, side, side] -> scores [N, classes]."""
    if name in WIDTHS:
        width = WIDTHS[name]
        sizes = [side * side, *[width] * 4]
        layers: list[nn.Module] = [nn.Flatten()]
        for a, b in pairwise(sizes):
            layers += [nn.Linear(a, b), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(width, classes))
    bend = LENETS[name]
    left = (side // 2 - 4) // 2
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), bend(), nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5), bend(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(16 * left * left, 120), bend(), nn.Linear(120, 84), bend(),
        nn.Linear(84, classes),
    )  # fmt: skip


class ClassTraining(StudyTraining[ClassSettings, nn.Sequential, MultiDigits]):
    """A training to classify digits in progress; see `TrainingLoop`.

    The metric in its history is the accuracy on validation images. The test is one of the last
    weights.

    Args:
        settings: the settings of the training.
        data: training, validation and test data, `MultiDigits` of any number of digits.
        device: the device to train on.

    Raises:
        TypeError: if the data are no digits.
    """

    kind = "a training to classify with a Newton loss"

    def __init__(
        self, settings: ClassSettings, data: Splits, device: torch.device | str = "cpu"
    ) -> None:
        digits = [digits_of(part) for part in data]
        side = digits[0].images.shape[-1]
        plain = SoftmaxCrossEntropy()
        self._criterion = settings.newton(plain) or plain
        super().__init__(settings, digits, device, lambda: classifier(settings.model, side))

    def optimizer(self) -> torch.optim.Optimizer:
        """See `TrainingLoop`."""
        rate = self.settings.learning_rate
        if self.settings.optimizer == "sgd":
            return torch.optim.SGD(self.model.parameters(), rate)
        return torch.optim.Adam(self.model.parameters(), rate)

    def loss(self) -> Tensor:
        """The next images of the epoch; their mean loss."""
        chosen = self.batch_of_epoch(len(self.train.images), self.settings.batch)
        images, labels = pixels(self.train, chosen)
        return self._criterion(self.model(images), labels).mean()

    @torch.no_grad()
    def accuracy(self, data: MultiDigits, most: int | None = None) -> float:
        """The accuracy of the present network on the first images, in [0, 1]."""
        right = 0
        chosen = torch.arange(len(data.images), device=self.device)[:most]
        for part in chosen.split(AT_ONCE):
            images, labels = pixels(data, part)
            right += int((self.model(images).argmax(1) == labels).sum())
        return right / len(chosen)

    def evaluate(self, row: Row) -> None:
        """Write the accuracy on validation images into a row."""
        row["accuracy"] = self.accuracy(self.validation, self.settings.images)

    def signature(self) -> dict[str, Any]:
        """See `TrainingLoop`."""
        return {**super().signature(), "tikhonov": self.settings.damping}

    def result(self) -> StudyResult:
        """Test the present weights on all test images; the training itself is not changed."""
        history = self.evaluated_history("accuracy")
        return self.tested({"accuracy": self.accuracy(self.test)}, history)


def digits_of(part: object) -> MultiDigits:
    """The data if they are digits.

    Raises:
        TypeError: if not.
    """
    if not isinstance(part, MultiDigits):
        raise TypeError(f"the data must be MultiDigits, got {type(part).__name__}")
    return part


def pixels(data: MultiDigits, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Images [N, 1, H, W] in [0, 1], and labels [N], of some digits."""
    return data.images[chosen][:, None].float() / 255, data.labels[chosen].long()


# ---------------------------------------------------------------------------------------------
# shortest paths


@dataclass(frozen=True)
class NewtonPathSettings(PathSettings, NewtonSettings):
    """The settings of a training with shortest paths and a Newton loss; see `PathSettings`.

    The variants "hessian" and "elementwise" need a loss that estimates its Hessian,
    "smoothing_loss" or "fenchel_young"; for "resgro" the method is not used.

    Attributes:
        drawn: of RESGRO, samples in all, out of which sets of `samples` are made; the scale of its
            Gaussian noise is `noise`.
    """

    drawn: int = option(10, count(1))

    def __post_init__(self) -> None:
        super().__post_init__()
        NewtonSettings.__post_init__(self)
        if self.variant == "resgro":
            check_count("drawn", self.drawn, least=self.samples)
        if self.variant in ("hessian", "elementwise") and self.method not in HESSIANS:
            raise ValueError(
                f"variant {self.variant} needs a Hessian, which {self.method} has not, but "
                f"{' and '.join(HESSIANS)} have; use fisher"
            )

    @property
    def trained(self) -> str:
        """See `NewtonSettings`."""
        return self.method


def _apart(settings: PathSettings) -> Callable[..., NDArray[Any]]:
    """How far the cheapest paths of costs [S, H, W] are from others, [S]."""
    return lambda stack, wanted: differences(hard_paths(stack), wanted, settings.loss)


def _smoothed(settings: PathSettings, seed: int) -> SmoothedLoss:
    return SmoothedLoss(
        _apart(settings), samples=settings.samples, scale=settings.noise, batched=True, seed=seed
    )


# Losses of each map that know their Hessian, by the method.
HESSIANS: dict[str, Callable[[PathSettings, int], SmoothedLoss | FenchelYoungLoss]] = {
    "smoothing_loss": _smoothed,
    "fenchel_young": fenchel_young,
}


class NewtonPathTraining(PathTraining):
    """A training with shortest paths and a Newton loss, or RESGRO; see `PathTraining`.

    Args:
        settings: the settings of the training.
        data: training, validation and test maps.
        device: the device to train on.
    """

    kind = "a training with shortest paths and a Newton loss"

    def __init__(
        self,
        settings: NewtonPathSettings,
        data: TerrainSplits,
        device: torch.device | str = "cpu",
    ) -> None:
        self._own = settings
        # The Fisher matrix needs gradients alone, so it comes behind any method.
        self._cut = SplitPoint(NewtonStep("fisher", settings.damping))
        super().__init__(settings, data, device)

    def loss(self) -> Tensor:
        """See `PathTraining`."""
        own = self._own
        images, paths, _ = self.next_batch()
        seed = (own.seed << 32) + self.step
        costs = self._run(images)
        if own.variant == "resgro":
            criterion = RESGRO(
                _apart(own), own.samples, own.drawn, scale=own.noise, batched=True, seed=seed
            )
            return criterion(costs, paths)
        if own.variant in ("hessian", "elementwise"):
            return own.newton(HESSIANS[own.method](own, seed))(costs, paths)
        if own.variant == "fisher":
            costs = self._cut(costs)
        return self.method.loss(costs, paths, own, seed)

    def signature(self) -> dict[str, Any]:
        """See `TrainingLoop`."""
        return {**super().signature(), "tikhonov": self._own.damping}
