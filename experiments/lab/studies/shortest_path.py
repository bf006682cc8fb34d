"""Learning what terrain costs from nothing but the cheapest paths through maps of it.

A network maps the image of a map to a cost for each cell. The cheapest path under these costs is
compared with the true one, and nothing ever tells the network what a cell costs. The methods differ
in how a gradient comes through the algorithm: relaxed, or estimated. The baseline has no algorithm;
it marks the cells of the path itself.

    >>> drive(training := PathTraining(PathSettings(), generated_splits(10_000)))
    >>> training.result().test["optimal"]

Source: thesis, section 2.4 with Table 2.2, and section 7.5.3 with Table 7.5; Vlastelica et al.,
2020; Berthet et al., 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from gendr._common.checks import check_choice, check_count
from gendr.cli.command_line import above, count, option
from gendr.jobs.training import Row
from gendr.relaxed import shortest_path
from gendr.relaxed.backends.distributions import check_distribution
from gendr.relaxed.estimators import (
    BlackBox,
    Estimator,
    FenchelYoungLoss,
    FiniteDifferences,
    PerturbedOptimizer,
    Smoothing,
    StraightThrough,
    estimated,
)
from lab.data.warcraft import (
    TerrainMaps,
    TerrainSplits,
    cheapest_paths,
    generate_terrain,
    path_cost,
)
from lab.settings import check_options
from lab.studies.path_networks import CostNet, PathNet
from lab.studies.training import StudyResult, StudyTraining

# Costs below this count as this: noise may make them negative, and the network may make them 0.
LEAST = 1e-4
# How many maps pass through the network together outside training.
AT_ONCE = 250
# The learning rate falls to a tenth after each of these parts of the steps, as published.
DECAYS = (0.6, 0.8)
# Costs of paths that are the same but for rounding differ by less than this part.
SAME = 1e-4


@dataclass(frozen=True)
class PathSettings:
    """The settings of a training.

    Attributes:
        method: a name of `METHODS`.
        loss: of a path beside the true one, the sum over cells of "l2", squared differences, or
            "l1", absolute ones, which is the Hamming distance of hard paths. The baseline and
            Fenchel-Young have a loss of their own.
        dist: the distribution of the relaxed algorithm.
        steepness: 1 / scale of the distribution, in units of 1 / cost.
        longest: the length that the gradient of a map with respect to its costs has at most, where
            it comes through the relaxed algorithm; see `clipped`.
        samples: of the noise, for the methods that draw some.
        noise: the scale of Gaussian noise on the costs.
        strength: lambda of black-box differentiation.
        difference: how far finite differences move a cost.
        steps: steps of Adam. The learning rate falls to a tenth after 60 % and after 80 % of them.
        batch: maps per step.
        learning_rate: of Adam.
        evaluate_every: steps between evaluations.
        maps: how many maps of the validation part, at most, an evaluation has.
        precision: of the convolutions, "float32" or "bfloat16"; the latter takes half the time on
            a CPU that has it, 78 against 163 ms for 24 maps.
        seed: of the initial weights, of the order of the maps and of the noise.
    """

    method: str = "bellman_ford"
    loss: str = option("l2", choices=("l1", "l2"))
    dist: str = option("logistic")
    steepness: float = option(8.0, above(0))
    longest: float = option(2.0, above(0))
    samples: int = 10
    noise: float = option(0.3, above(0))
    strength: float = option(0.5, above(0))
    difference: float = option(0.3, above(0))
    steps: int = option(7200, count(1))
    batch: int = option(70, count(2))  # for the statistics of a batch
    learning_rate: float = option(1e-3, above(0))
    evaluate_every: int = option(144, count(1))
    maps: int = option(1000, count(1))
    precision: str = option("float32", choices=("float32", "bfloat16"))
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("method", self.method, METHODS)
        check_choice("loss", self.loss, ("l1", "l2"))
        check_choice("precision", self.precision, ("float32", "bfloat16"))
        check_options(self)
        check_count("samples", self.samples, least=2)
        check_count("seed", self.seed, least=0)
        check_distribution(self.dist)


# ---------------------------------------------------------------------------------------------
# methods


def hard_paths(costs: NDArray[Any]) -> NDArray[Any]:
    """The cheapest paths [N, H, W] of costs [N, H, W], the solver behind every estimator.

    Costs below 10^-4 count as that. Where paths cost the same, they share the mark.
    """
    found = shortest_path(torch.from_numpy(costs).clamp(min=LEAST), dist="heaviside")
    return found.numpy()


# The mean loss of a batch: costs [B, H, W] (of the baseline: logits), true paths [B, H, W], the
# settings, and a seed of what is drawn in this step.
PathLoss: TypeAlias = Callable[[Tensor, Tensor, PathSettings, int], Tensor]


def differences(found: Any, paths: Any, loss: str) -> Any:
    """The loss of each map [N], for tensors and for arrays."""
    off = found - paths
    return (off * off if loss == "l2" else abs(off)).sum((-2, -1))


def _bellman_ford(costs: Tensor, paths: Tensor, settings: PathSettings, _: int) -> Tensor:
    found = shortest_path(clipped(costs, settings.longest), settings.dist, settings.steepness)
    return differences(found, paths, settings.loss).mean()


def clipped(costs: Tensor, longest: float) -> Tensor:
    """The same costs [N, H, W], whose gradient from a mean over N maps has a bounded length.

    Where two ways cost nearly the same, the gradient of a path is long: one map in a hundred would
    weigh as much as the rest of a batch.

    Args:
        costs: of N maps.
        longest: the length that the gradient of the loss of one map has at most.
    """

    def shorten(grad: Tensor) -> Tensor:
        length = len(grad) * grad.flatten(1).norm(dim=1).clamp(min=1e-30)
        return grad * (longest / length).clamp(max=1)[:, None, None]

    if costs.requires_grad:
        costs = costs.view_as(costs)  # the hook is on this use of them only
        costs.register_hook(shorten)
    return costs


def _of_path(estimator: Callable[[PathSettings, int], Estimator]) -> PathLoss:
    """The loss of a hard path whose gradient is estimated."""

    def loss(costs: Tensor, paths: Tensor, settings: PathSettings, seed: int) -> Tensor:
        method = estimator(settings, len(costs))
        solve = estimated(hard_paths, method, batched=True, seed=seed)
        return differences(solve(costs), paths, settings.loss).mean()

    return loss


def _of_loss(estimator: Callable[[PathSettings, int], Estimator]) -> PathLoss:
    """The loss of a hard path, estimated together with the solver as one function."""

    def loss(costs: Tensor, paths: Tensor, settings: PathSettings, seed: int) -> Tensor:
        wanted = paths.cpu().numpy()

        def function(stack: NDArray[Any]) -> NDArray[Any]:  # several times the batch
            found = hard_paths(stack).reshape(-1, *wanted.shape)
            return differences(found, wanted, settings.loss).reshape(-1)

        method = estimator(settings, len(costs))
        return estimated(function, method, batched=True, seed=seed)(costs).mean()

    return loss


def fenchel_young(settings: PathSettings, seed: int) -> FenchelYoungLoss:
    """The mean loss of costs and true paths."""
    return FenchelYoungLoss(
        hard_paths, minimize=True, samples=settings.samples, scale=settings.noise, batched=True,
        seed=seed,
    )  # fmt: skip


def _fenchel_young(costs: Tensor, paths: Tensor, settings: PathSettings, seed: int) -> Tensor:
    return fenchel_young(settings, seed)(costs, paths)


def _marked_cells(logits: Tensor, paths: Tensor, settings: PathSettings, _: int) -> Tensor:
    return functional.binary_cross_entropy_with_logits(logits, paths)


def _smoothing(settings: PathSettings, _: int) -> Smoothing:
    return Smoothing(settings.samples, settings.noise)


class Method(NamedTuple):
    """A way to learn.

    Attributes:
        label: what it is, in a table.
        loss: of a batch.
        is_sampled: it draws samples.
        is_baseline: its network marks the cells of the path, without an algorithm.
        settings: its own in place of the defaults of `PathSettings`.
    """

    label: str
    loss: PathLoss
    is_sampled: bool = False
    is_baseline: bool = False
    settings: Mapping[str, Any] = MappingProxyType({})


HAMMING: Mapping[str, Any] = MappingProxyType({"loss": "l1"})  # as published for black boxes
# A gradient by the density of the noise has the less variance, the wider the noise.
WIDE: Mapping[str, Any] = MappingProxyType({"noise": 1.0})

METHODS: dict[str, Method] = {
    "bellman_ford": Method("relaxed Bellman-Ford", _bellman_ford),
    "smoothing_loss": Method("smoothing of the loss", _of_loss(_smoothing), True, settings=WIDE),
    "smoothing": Method("smoothing of the algorithm", _of_path(_smoothing), True, settings=WIDE),
    "fenchel_young": Method("perturbed, Fenchel-Young loss", _fenchel_young, True),
    "perturbed": Method(
        "perturbed, mean path",
        _of_path(lambda settings, _: PerturbedOptimizer(settings.samples, settings.noise)),
        True,
        settings=WIDE,
    ),
    # The mean over the batch divides gradients by its size, and strength multiplies them.
    "black_box": Method(
        "black-box differentiation",
        _of_path(lambda settings, batch: BlackBox(settings.strength * batch, minimize=True)),
        settings=HAMMING,
    ),
    "straight_through": Method(
        "straight-through", _of_path(lambda *_: StraightThrough(minimize=True)), settings=HAMMING
    ),
    "finite_differences": Method(
        "finite differences",
        _of_loss(lambda settings, _: FiniteDifferences(settings.difference)),
    ),
    "resnet": Method("ResNet18, no algorithm", _marked_cells, is_baseline=True),
}


# ---------------------------------------------------------------------------------------------
# data and scores


def generated_splits(
    train: int = 10_000, held_out: int = 1000, size: int = 12, seed: int = 0
) -> TerrainSplits:
    """Generated maps: for training, and as many for validation as for the test.

    Args:
        train: maps for training.
        held_out: maps for validation, and for the test.
        size: cells of a side.
        seed: the same maps for all trainings; others for each part.
    """
    counts = (train, held_out, held_out)
    return TerrainSplits(
        *(generate_terrain(n, size, seed=3 * seed + part) for part, n in enumerate(counts))
    )


class Scores(NamedTuple):
    """How good predicted paths are.

    Attributes:
        optimal: the part that are paths and cost what the cheapest path costs; the "exact match"
            of the papers.
        exact: the part that are the true path, cell by cell. Where paths cost the same, nobody can
            know which of them is the true one.
        paths: the part that lead from the first cell to the last, as all do that an algorithm
            finds.
        cost_ratio: the mean, over these, of their cost over that of the cheapest; None if there is
            none.
    """

    optimal: float
    exact: float
    paths: float
    cost_ratio: float | None


def is_path(marked: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether marked cells [N, H, W] join the first cell with the last, [N]."""
    marked = np.asarray(marked, dtype=bool)
    far = 4 * marked[0].size  # dearer than any way through marked cells
    found = cheapest_paths(np.where(marked, 1.0, far))
    return ~np.any(found.astype(bool) & ~marked, axis=(-2, -1))


def scored(found: Tensor, maps: TerrainMaps) -> Scores:
    """The scores of predicted paths [N, H, W], 0 and 1, of N maps."""
    found, costs = found.cpu(), maps.costs.cpu().double()
    ratio = path_cost(found, costs) / path_cost(maps.paths.cpu(), costs)
    valid = torch.from_numpy(is_path(found.numpy()))
    optimal = valid & (ratio < 1 + SAME)
    exact = (found == maps.paths.cpu()).flatten(1).all(1)
    return Scores(
        float(optimal.double().mean()),
        float(exact.double().mean()),
        float(valid.double().mean()),
        float(ratio[valid].mean()) if valid.any() else None,
    )


# ---------------------------------------------------------------------------------------------
# training


class PathTraining(StudyTraining[PathSettings, nn.Module, TerrainMaps]):
    """A training with cheapest paths in progress: its state between two steps; see `TrainingLoop`.

    The metrics in its history are the scores on validation maps. The test is one of the last
    weights.

    Args:
        settings: the settings of the training.
        data: training, validation and test maps.
        device: the device to train on.
    """

    kind = "a training with shortest paths"

    def __init__(
        self, settings: PathSettings, data: TerrainSplits, device: torch.device | str = "cpu"
    ) -> None:
        self.method = METHODS[settings.method]
        height, width = data.train.paths.shape[-2:]
        network = PathNet if self.method.is_baseline else CostNet

        def make() -> nn.Module:
            # Faster on a CPU, measured with 70 images of 96 x 96: 0.43 against 0.56 s.
            return network((height, width)).to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]

        super().__init__(settings, data, device, make)

    def advance(self) -> None:
        """See `TrainingLoop`; with the learning rate of this step."""
        done = self.step / self.settings.steps
        rate = self.settings.learning_rate * 0.1 ** sum(done >= part for part in DECAYS)
        for group in self.adam.param_groups:
            group["lr"] = rate
        super().advance()

    def loss(self) -> Tensor:
        """Take the next maps; their mean loss."""
        images, paths, _ = self.next_batch()
        # What is drawn depends on the step only, so that resuming changes nothing.
        seed = (self.settings.seed << 32) + self.step
        return self.method.loss(self._run(images), paths, self.settings, seed)

    def _run(self, images: Tensor) -> Tensor:
        """The network, in the precision of the settings; float32 [B, H, W]."""
        half = self.settings.precision == "bfloat16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=half):
            return self.model(images).float()

    def next_batch(self) -> tuple[Tensor, Tensor, Tensor]:
        """Images, paths and costs of the maps of this step."""
        return self.train.batch(self.batch_of_epoch(len(self.train), self.settings.batch))

    @torch.no_grad()
    def outputs(self, maps: TerrainMaps) -> Tensor:
        """Costs [N, H, W] of maps by the present network, or its logits; on the CPU."""
        self.model.eval()
        found = [
            self._run(maps.batch(slice(start, start + AT_ONCE))[0]).cpu()
            for start in range(0, len(maps), AT_ONCE)
        ]
        self.model.train()
        return torch.cat(found)

    def predicted(self, outputs: Tensor) -> Tensor:
        """The paths [N, H, W], uint8, of outputs: cheapest paths, or the cells that are marked."""
        if self.method.is_baseline:
            return (outputs > 0).byte()
        return torch.from_numpy(cheapest_paths(outputs.clamp(min=LEAST)))

    def scores(self, maps: TerrainMaps) -> Scores:
        """The scores of the present network."""
        return scored(self.predicted(self.outputs(maps)), maps)

    def evaluate(self, row: Row) -> None:
        """Write the scores on validation maps into a row."""
        found = self.scores(self.validation[: self.settings.maps])._asdict()
        row.update({name: value for name, value in found.items() if value is not None})

    def signature(self) -> dict[str, Any]:
        """See `TrainingLoop`; the number of steps counts, as the learning rate depends on it."""
        return {**super().signature(), "steps": self.settings.steps}

    def result(self) -> StudyResult:
        """Test the present weights on all test maps; the training itself is not changed."""
        return self.tested(self.scores(self.test)._asdict(), self.evaluated_history("optimal"))
