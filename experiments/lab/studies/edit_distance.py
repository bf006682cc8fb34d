"""Learning to tell symbols apart from nothing but the edit distance of strings.

A network maps every image of two strings to a distribution over symbols. Relaxed `levenshtein` of
the two strings is compared with their true edit distance. Nothing ever tells the network what an
image shows, so that its classes have no names: for the test they are matched with the symbols, each
with one, so that as many images as possible are right.

    >>> training = EditTraining(EditSettings(alphabet=(0, 1)), mnist_splits("data/mnist"))
    >>> drive(training)
    >>> training.result().test["accuracy"]

Source: thesis, section 2.6 and Table 2.4, with letters of EMNIST.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from gendr._common.checks import check_choice, check_count
from gendr.cli.command_line import above, count, option
from gendr.jobs.training import Row
from gendr.relaxed import levenshtein
from gendr.relaxed.backends.distributions import check_distribution
from lab.data import DigitStrings, MultiDigits, Splits
from lab.settings import check_options
from lab.studies.convolution import ConvolutionNet
from lab.studies.training import StudyResult, StudyTraining

# By the name of the method, the distance of two strings that is compared with the true one.
METHODS = {
    "levenshtein": "relaxed edit distance",
    "l1": "sum of |differences| at equal places, the baseline",
}
# How many images pass through the network together outside training.
AT_ONCE = 500


@dataclass(frozen=True)
class EditSettings:
    """The settings of a training; the defaults are published, but for the batch.

    Attributes:
        alphabet: the digits of the strings, two or more.
        method: a name of `METHODS`.
        length: of the strings, >= 4.
        dist: the distribution of the relaxed minimum.
        steepness: 1 / scale of the distribution.
        steps: steps of Adam; a resumed training may have more.
        batch: pairs of strings per step; the thesis does not say how many.
        learning_rate: of Adam.
        evaluate_every: steps between evaluations.
        images: how many images of the validation part, at most, are classified for an evaluation.
        seed: of the initial weights and of the strings.
    """

    alphabet: tuple[int, ...] = (0, 1)
    method: str = "levenshtein"
    length: int = option(32, count(4))
    dist: str = option("logistic")
    steepness: float = option(9.0, above(0))
    steps: int = option(512, count(1))
    batch: int = option(16, count(1))
    learning_rate: float = option(1e-4, above(0))
    evaluate_every: int = option(64, count(1))
    images: int = option(1000, count(1))
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("method", self.method, METHODS)
        check_options(self)
        check_count("seed", self.seed, least=0)
        check_distribution(self.dist)


class Scores(NamedTuple):
    """How well the classes of a network, after the best matching, fit the symbols, in [0, 1].

    Attributes:
        accuracy: the part of the images that are classified correctly.
        f1: the mean over symbols of the harmonic mean of precision and recall; 0 for a symbol that
            no image is taken for.
    """

    accuracy: float
    f1: float


def matched(confusion: Tensor) -> Tensor:
    """The symbol that each class stands for, [A], so that most images are right.

    Args:
        confusion: [A, A], at (s, c) how many images of symbol s are in class c.

    Source: Kuhn, The Hungarian Method for the Assignment Problem, 1955.
    """
    from scipy.optimize import linear_sum_assignment

    symbols, classes = linear_sum_assignment(confusion.cpu().numpy(), maximize=True)
    found = torch.empty(len(classes), dtype=torch.int64)
    found[torch.as_tensor(classes)] = torch.as_tensor(symbols)
    return found


def scored(confusion: Tensor) -> Scores:
    """The scores of a confusion matrix [A, A], (symbol, class), after matching."""
    confusion = confusion.cpu().double()
    table = torch.zeros_like(confusion)
    table[:, matched(confusion)] = confusion  # (symbol, symbol)
    right = table.diagonal()
    f1 = 2 * right / (table.sum(0) + table.sum(1)).clamp(min=1)
    return Scores(float(right.sum() / table.sum().clamp(min=1)), float(f1.mean()))


@torch.no_grad()
def classify(model: nn.Module, strings: DigitStrings, most: int | None = None) -> Tensor:
    """The confusion matrix [A, A], (symbol, class), of a network.

    Args:
        model: images [N, 1, H, W] -> logits [N, A].
        strings: whose images are classified, on the device of the model.
        most: at most so many of them, taken at equal distances.
    """
    count, size = len(strings.symbols), len(strings.alphabet)
    chosen = torch.arange(count, device=strings.device)
    if most is not None and most < count:
        chosen = chosen[:most] * count // most
    classes = torch.cat(
        [model(strings.pictures(part)).argmax(-1) for part in chosen.split(AT_ONCE)]
    )
    pairs = strings.symbols[chosen] * size + classes
    return pairs.bincount(minlength=size * size).reshape(size, size)


class EditTraining(StudyTraining[EditSettings, ConvolutionNet, DigitStrings]):
    """A training with edit distances in progress: its state between two steps; see `TrainingLoop`.

    The metrics in its history are accuracy and f1 on validation images. No weights are chosen by
    them, as that would be a supervision by labels: the test is one of the last weights.

    Args:
        settings: the settings of the training.
        data: training, validation and test data.
        device: the device to train on.

    Raises:
        TypeError: if the data are no digits.
        ValueError: if there is no image of a digit of the alphabet.
    """

    kind = "a training with edit distances"

    def __init__(
        self, settings: EditSettings, data: Splits, device: torch.device | str = "cpu"
    ) -> None:
        parts: list[DigitStrings] = []
        for part in data:
            if not isinstance(part, MultiDigits):
                raise TypeError(f"the data must be MultiDigits, got {type(part).__name__}")
            parts.append(DigitStrings.of(part, settings.alphabet))
        shape, outputs = parts[0].shape, len(settings.alphabet)
        super().__init__(settings, parts, device, lambda: ConvolutionNet(shape, outputs=outputs))

    def distances(self, images: Tensor) -> Tensor:
        """The distance of each pair of strings by the method, [P].

        Args:
            images: [2, P, n, 1, H, W].
        """
        s, t = self.model(images).softmax(-1)
        if self.settings.method == "l1":
            return (s - t).abs().sum((-2, -1))
        return levenshtein(s, t, dist=self.settings.dist, steepness=self.settings.steepness)

    def loss(self) -> Tensor:
        """Draw pairs of strings; the mean squared error of their distances."""
        images, symbols = self.train.draw(self.settings.batch, self.settings.length, self.generator)
        found = self.distances(images)
        return functional.mse_loss(found, true_distances(symbols).to(found))

    def evaluate(self, row: Row) -> None:
        """Write accuracy and F1 of validation images into a row."""
        found = scored(classify(self.model, self.validation, self.settings.images))
        row.update(found._asdict())

    def result(self) -> StudyResult:
        """Test the present weights on all test images; the training itself is not changed.

        `more` has the confusion matrix, at (s, c) how many test images of symbol s are in class c.
        """
        confusion = classify(self.model, self.test)
        return self.tested(
            scored(confusion)._asdict(), self.evaluated_history("accuracy"),
            confusion=confusion.tolist(),
        )  # fmt: skip


def true_distances(symbols: Tensor) -> Tensor:
    """The edit distances [P] of pairs of strings of symbols [2, P, n]."""
    return levenshtein(symbols[0], symbols[1], dist="heaviside")
