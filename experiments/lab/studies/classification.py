"""Classifiers trained with top-k losses, and their accuracies among the first 1 .. 5.

    >>> data = read_embeddings("embeddings.npz")
    >>> settings = ClassificationSettings("splitter", p_k=(0.5, 0, 0, 0, 0.5))
    >>> drive(training := ClassificationTraining(settings, data))
    >>> training.result().test

Source: thesis, section 4.4; Petersen et al., Differentiable Top-k Classification Learning (ICML
2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from gendr._common.checks import check_choice, check_count
from gendr.cli.command_line import above, count, option
from gendr.jobs.training import Row
from gendr.topk import SmoothTopKSVM, TopKCrossEntropy, names, topk_accuracy
from lab.data import Examples, ExampleSplits
from lab.settings import check_options
from lab.studies.convolution import ConvolutionNet
from lab.studies.training import StudyResult, StudyTraining

PLACES = (1, 2, 3, 4, 5)
LOSSES = ("softmax", "svm", *(name for name in names() if name != "permutahedron"))
MODELS = ("auto", "linear", "perceptron", "convolution", "resnet18")
HIDDEN = 256  # units of the perceptron
AT_ONCE = 1000  # examples that pass through the network together outside training


@dataclass(frozen=True)
class ClassificationSettings:
    """The settings of a training.

    Attributes:
        loss: "softmax", "svm" (smooth, top 5), or a method of `soft_topk`.
        p_k: P(k = 1), P(k = 2), ..; for the methods of `soft_topk`.
        steepness: of the method; None for 1, or tau = 1 of the SVM.
        dist: the distribution of a network; None for its default.
        m: how many scores are ranked; None for all.
        top1: "softmax" or "network", see `TopKCrossEntropy`.
        model: "linear", "perceptron" (one hidden layer), "convolution" (small), "resnet18"; "auto"
            is linear for embeddings, resnet18 for images in colour, else convolution.
        steps: steps of Adam; a resumed training may have more.
        batch: examples per step.
        learning_rate: of Adam.
        evaluate_every: steps between evaluations.
        seed: of the initial weights and of the examples drawn.
    """

    loss: str = "splitter"
    p_k: tuple[float, ...] = (0.2, 0.2, 0.2, 0.2, 0.2)
    steepness: float | None = None
    dist: str | None = option(None)
    m: int | None = option(16, count(1))
    top1: str = option("softmax", choices=("softmax", "network"))
    model: str = option("auto", choices=MODELS)
    steps: int = option(1000, count(1))
    batch: int = option(100, count(1))
    learning_rate: float = option(1e-3, above(0))
    evaluate_every: int = option(100, count(1))
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("loss", self.loss, LOSSES)
        check_choice("model", self.model, MODELS)
        check_options(self)
        check_count("seed", self.seed, least=0)
        self.objective()

    def objective(self) -> nn.Module:
        """The loss of logits and labels."""
        if self.loss == "softmax":
            return nn.CrossEntropyLoss()
        steepness = 1.0 if self.steepness is None else self.steepness
        if self.loss == "svm":
            return SmoothTopKSVM(5, 1 / steepness)
        options: dict[str, Any] = {} if self.dist is None else {"dist": self.dist}
        top1: Any = self.top1  # checked there
        return TopKCrossEntropy(self.p_k, self.loss, self.m, top1, steepness=steepness, **options)


class ResNet18(nn.Module):
    """ResNet18 for images of 32 pixels: a first convolution of 3 x 3, and no pooling after it.

    Source: He et al., Deep Residual Learning for Image Recognition (CVPR 2016).
    """

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(channels, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64)
        widths = (64, 64, 64, 128, 128, 256, 256, 512, 512)
        self.blocks = nn.Sequential(*(_Block(before, after) for before, after in pairwise(widths)))
        self.score = nn.Linear(512, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits [N, classes] of images [N, channels, H, W]."""
        x = self.blocks(functional.relu(self.norm(self.first(images))))
        return self.score(x.mean((-2, -1)))


class _Block(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        stride = after // before
        self.one = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm_one, self.norm_two = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
        self.short: nn.Module = nn.Identity()
        if stride > 1:
            convolution = nn.Conv2d(before, after, 1, stride, bias=False)
            self.short = nn.Sequential(convolution, nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.norm_one(self.one(x)))
        return functional.relu(self.norm_two(self.two(y)) + self.short(x))


def model_of(settings: ClassificationSettings, data: Examples) -> nn.Module:
    """The network of the settings for such data.

    Raises:
        ValueError: a network for images, and data that are none.
    """
    kind, shape = settings.model, data.shape
    if kind == "auto":
        kind = "linear" if len(shape) == 1 else "resnet18" if shape[0] == 3 else "convolution"
    size = int(torch.Size(shape).numel())
    if kind == "linear":
        return nn.Sequential(nn.Flatten(), nn.Linear(size, data.classes))
    if kind == "perceptron":
        hidden = (nn.Linear(size, HIDDEN), nn.ReLU())
        return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(HIDDEN, data.classes))
    if len(shape) != 3:
        raise ValueError(f"model {kind!r} takes images, got features {list(shape)}; use 'linear'")
    if kind == "resnet18":
        return ResNet18(shape[0], data.classes)
    return ConvolutionNet((shape[0], shape[1], shape[2]), channels=(8, 16), outputs=data.classes)


class ClassificationTraining(StudyTraining[ClassificationSettings, nn.Module, Examples]):
    """A training of a classifier in progress: its state between two steps; see `TrainingLoop`.

    The metrics in its history are the accuracies on the validation part, `top1` .. `top5`. The
    weights with the largest top1 + top5 are kept, and tested.

    Args:
        settings: the settings of the training.
        data: training, validation and test data.
        device: the device to train on.

    Raises:
        ValueError: if the model does not fit the data, or there are fewer than 6 classes.
    """

    kind = "a training of a classifier"
    kept = ("best",)

    def __init__(
        self,
        settings: ClassificationSettings,
        data: ExampleSplits,
        device: torch.device | str = "cpu",
    ) -> None:
        if data.train.classes <= max(PLACES):
            raise ValueError(f"top 1 .. 5 need more than 5 classes, got {data.train.classes}")
        super().__init__(settings, data, device, lambda: model_of(settings, data.train))
        self.objective = settings.objective().to(device)

    def loss(self) -> Tensor:
        """Draw examples; the loss of the settings."""
        features, labels = self.train.draw(self.settings.batch, self.generator)
        return self.objective(self.model(features), labels)

    @torch.no_grad()
    def accuracies(self, model: nn.Module, data: Examples) -> list[float]:
        """How often the true class is among the first 1 .. 5, by a network."""
        model.eval()
        parts = torch.arange(len(data.labels), device=data.device).split(AT_ONCE)
        scores = torch.cat([model(data.at(part)[0]) for part in parts])
        model.train()
        return topk_accuracy(scores, data.labels, PLACES).tolist()

    def evaluate(self, row: Row) -> None:
        """Write the accuracies into a row; keep the weights if they are the best so far."""
        found = self.accuracies(self.model, self.validation)
        row.update({f"top{k}": value for k, value in zip(PLACES, found, strict=True)})
        self.keep_if_best(found[0] + found[-1])

    def result(self) -> StudyResult:
        """Test the best weights; the training itself is not changed."""
        best, step = self.best_model(), self.best["step"] or self.step
        history = [dict(row) for row in self.history]
        return self.tested(self.accuracies(best, self.test), history, best, best_step=step)
