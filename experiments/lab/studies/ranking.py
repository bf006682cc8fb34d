"""Learning to read numbers from nothing but their order.

A network maps every image of a list to a score. The scores are sorted by a differentiable method,
whose permutation matrix is compared with that of the true values; methods without one are judged by
the ranks, and relaxed bubble sort by its swaps. Nothing ever tells the network what a number is.

    >>> training = RankingTraining(RankingSettings(n=5, steps=1000), mnist_splits("data/mnist"))
    >>> drive(training)
    >>> training.result().test["em5"]

Source: thesis, section 3.5, Tables 3.3, 3.7 and 3.8; Grover et al., NeuralSort, 2019.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from gendr._common.checks import check_count
from gendr.cli.command_line import above, count, option
from gendr.jobs.training import Row
from gendr.sorting.api import get
from gendr.sorting.base import PermutationSort, Sort
from gendr.sorting.losses import (
    element_match,
    exact_match,
    hard_ranks,
    permutation_matrix,
    ranking_cross_entropy,
    regrouped,
)
from gendr.sorting.networks import NETWORKS, network
from lab.data import Numbers, Splits
from lab.pages import published
from lab.settings import check_options
from lab.studies.bubble import BUBBLES, BubbleOrder
from lab.studies.convolution import ConvolutionNet
from lab.studies.training import StudyResult, StudyTraining

# The length of the lists of the metric EM5.
FIVE = 5
# The default distribution of sorting networks; its results are among the best of Table 3.7.
DIST = "cauchy"
# The inverse temperatures beta of Table 3.8, by distribution, network and n, and its row "Log. w/
# ART".
TABLE: dict[str, dict[str, dict[str, float]]] = published("steepness")
TABLE_ART: dict[str, dict[str, float]] = published("steepness with art")
# Our steepness divided by beta: (3.22) has 2 beta where the other distributions have beta.
BETA = {"reciprocal": 2.0}
# How many images an evaluation passes through the network together.
AT_ONCE = 500
# All runs are evaluated on the same lists, drawn with these seeds.
VALIDATION_SEED, TEST_SEED = 1, 2
Method: TypeAlias = "Sort | BubbleOrder"


# ---------------------------------------------------------------------------------------------
# settings


def published_steepness(method: str, n: int, dist: str = DIST, *, art: bool = False) -> float:
    """The steepness with which the thesis trains, from Table 3.8.

    If the table lacks the network or n, the entry of the most similar depth is used, because the
    best steepness depends on the depth. With the activation replacement trick the table has the
    logistic distribution; other distributions get twice the number of layers, the rule of Table
    3.3.

    Args:
        method: the name of a sorting network.
        n: the length of the lists.
        dist: the name of the distribution.
        art: whether the trick is used.

    Raises:
        ValueError: if the method is no sorting network, or no steepness is published for the
            distribution.
    """
    depth = network(method, n).depth
    if art and dist != "logistic":
        return 2.0 * depth
    if dist not in TABLE:
        raise ValueError(
            f"there is no published steepness for {dist}, only for {', '.join(TABLE)}; set one"
        )
    table = TABLE_ART if art else TABLE[dist]

    def distance(entry: tuple[str, str]) -> tuple[float, bool]:
        name, size = entry
        return abs(math.log(max(1, depth) / network(name, int(size)).depth)), name != method

    name, size = min(((name, size) for name, row in table.items() for size in row), key=distance)
    return table[name][size] * BETA.get(dist, 1.0)


@dataclass(frozen=True)
class RankingSettings:
    """The settings of a training; the defaults are those of Table 3.7.

    Attributes:
        n: length of the lists, >= 2.
        method: a name of `gendr.sorting`, or of `BUBBLES`, relaxed bubble sort.
        dist: the distribution of a sorting network, where None is "cauchy", or of bubble sort,
            where None is "logistic".
        art: the `art` exponent of a sorting network, in [0, 1).
        steepness: None is `published_steepness` for a sorting network, 8 for bubble sort, and for
            the other methods their own default.
        binary: which cross-entropy, see `ranking_cross_entropy`; the published code uses the binary
            one. Methods without a permutation matrix use the squared error of the ranks.
        steps: steps of Adam; a resumed training may have more.
        batch: lists per step.
        learning_rate: the learning rate of Adam.
        evaluate_every: steps between evaluations.
        lists: how many lists are drawn for an evaluation.
        test_lists: how many lists are drawn for the final test.
        seed: the seed of the initial weights and of the lists.
    """

    n: int = 5
    method: str = "odd_even"
    dist: str | None = None
    art: float = 0.0
    steepness: float | None = None
    binary: bool = True
    steps: int = option(200_000, count(1))
    batch: int = option(100, count(1))
    learning_rate: float = option(10**-3.5, above(0))
    evaluate_every: int = option(1000, count(1))
    lists: int = option(1000, count(1))
    test_lists: int = option(10_000, count(1))
    seed: int = 0

    def __post_init__(self) -> None:
        check_count("n", self.n, least=2)
        check_count("seed", self.seed, least=0)
        check_options(self)
        if min(self.lists, self.test_lists) * self.n < FIVE:
            raise ValueError(f"lists must hold {FIVE} numbers in all for EM{FIVE}, got fewer")
        if self.art and self.method in BUBBLES:
            raise ValueError(
                f"art is for sorting networks ({', '.join(NETWORKS)}), got it with {self.method}"
            )
        if self.method not in {*NETWORKS, *BUBBLES} and (self.dist is not None or self.art):
            raise ValueError(
                f"dist and art are for sorting networks ({', '.join(NETWORKS)}), "
                f"got them with {self.method}"
            )

    def sorter(self) -> Method:
        """The sorting method of these settings.

        Raises:
            TypeError: if one of its settings has the wrong type.
            ValueError: if the method is unknown, or one of its settings is out of range.
        """
        options: dict[str, Any] = {}
        steepness = self.steepness
        if self.method in BUBBLES:
            options = {} if steepness is None else {"steepness": steepness}
            return BubbleOrder(self.method, self.dist or BubbleOrder.dist, **options)
        if self.method in NETWORKS:
            dist = self.dist or DIST
            options = {"dist": dist, "art": self.art}
            if steepness is None:
                steepness = published_steepness(self.method, self.n, dist, art=self.art > 0)
        if steepness is not None:
            options["steepness"] = steepness
        return get(self.method, **options)


# ---------------------------------------------------------------------------------------------
# the network, and its evaluation


class RankingNet(ConvolutionNet):
    """The published network with one output, the score.

    Args:
        shape: (C, H, W) of the images.
        channels: output channels of the convolutions: 32, 64 for MNIST; 32, 64, 128, 256 for SVHN.

    Source: thesis, section 3.5.
    """

    def __init__(self, shape: tuple[int, int, int], channels: tuple[int, ...] = (32, 64)) -> None:
        super().__init__(shape, channels, outputs=1)

    def forward(self, images: Tensor) -> Tensor:
        """Scores [...] of images [..., C, H, W]."""
        return super().forward(images).squeeze(-1)


class Metrics(NamedTuple):
    """How often numbers that the network has not seen are ordered correctly, in [0, 1].

    Attributes:
        em: the part of the lists of n that are exactly right.
        ew: the part of the elements of these lists whose rank is right.
        em5: the part of the lists of five that are exactly right.
    """

    em: float
    ew: float
    em5: float

    def __str__(self) -> str:
        return " | ".join(f"{100 * value:.1f}" for value in self)


@torch.no_grad()
def evaluate(model: nn.Module, numbers: Numbers, n: int, lists: int, seed: int) -> Metrics:
    """The metrics of a network.

    Args:
        model: images [lists, n, C, H, W] -> scores [lists, n].
        numbers: the numbers to order, on the device of the model.
        n: the length of the lists.
        lists: how many lists are drawn.
        seed: equal seeds draw equal lists.
    """
    generator = torch.Generator(numbers.device).manual_seed(seed)
    several = max(1, AT_ONCE // n)
    found: list[tuple[Tensor, Tensor]] = []
    for first in range(0, lists, several):
        images, values = numbers.draw(min(several, lists - first), n, generator)
        found.append((model(images).double(), values))
    scores, values = (torch.cat(parts) for parts in zip(*found, strict=True))
    fives = regrouped(scores, values, FIVE, generator)
    matches = (
        exact_match(scores, values),
        element_match(scores, values),
        exact_match(*fives),
    )
    return Metrics(*(float(match.mean()) for match in matches))


# ---------------------------------------------------------------------------------------------
# training


class RankingTraining(StudyTraining[RankingSettings, nn.Module, Numbers]):
    """A training to rank in progress: its state between two steps; see `TrainingLoop`.

    The metrics in its history are em, ew and em5.

    Args:
        settings: the settings of the training.
        data: training, validation and test data.
        device: the device to train on.
        network: makes the network, from the shape of an image and the channels of the data.

    Raises:
        TypeError: if a setting of the method has the wrong type.
        ValueError: if the method is unknown, or one of its settings is out of range.
    """

    kind = "a ranking training"
    kept = ("best",)

    def __init__(
        self,
        settings: RankingSettings,
        data: Splits,
        device: torch.device | str = "cpu",
        network: Callable[[tuple[int, int, int], tuple[int, ...]], nn.Module] = RankingNet,
    ) -> None:
        self.sorter = settings.sorter()
        shape, channels = data.train.shape, data.train.channels
        super().__init__(settings, data, device, lambda: network(shape, channels))

    def loss(self) -> Tensor:
        """Draw a batch of lists and return its loss."""
        images, values = self.train.draw(self.settings.batch, self.settings.n, self.generator)
        return self.loss_of(self.model(images), values)

    def loss_of(self, scores: Tensor, values: Tensor) -> Tensor:
        """The mean loss of the scores of lists [B, n] with these values."""
        if isinstance(self.sorter, BubbleOrder):
            return self.sorter.loss(scores, values)
        if isinstance(self.sorter, PermutationSort):
            p, q = self.sorter.permutation(scores), permutation_matrix(values)
            return ranking_cross_entropy(p, q, binary=self.settings.binary)
        return functional.mse_loss(self.sorter.ranks(scores), hard_ranks(values))

    def evaluate(self, row: Row) -> None:
        """Write the metrics into a row; keep the weights if they are the best so far."""
        s = self.settings
        row.update(evaluate(self.model, self.validation, s.n, s.lists, VALIDATION_SEED)._asdict())
        self.keep_if_best(row["em5"])

    def result(self) -> StudyResult:
        """Test the weights that were best on the validation part (the present weights count too).

        The training itself is not changed; `more` has the method and the best step.
        """
        s, best = self.settings, self.best
        history = self.evaluated_history("em5")
        judge, step = self.best_model(), self.best["step"]
        self.best = best
        test = evaluate(judge, self.test, s.n, s.test_lists, TEST_SEED)
        return self.tested(test._asdict(), history, judge, sorter=repr(self.sorter), best_step=step)

    def signature(self) -> dict[str, Any]:
        """See `TrainingLoop`."""
        signature = super().signature()
        del signature["test_lists"]
        return signature
