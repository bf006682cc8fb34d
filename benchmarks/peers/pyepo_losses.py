"""Losses and gradients of `gendr.relaxed.estimators` beside PyEPO's, on the same problems.

    python -m venv peers && peers/bin/pip install torch numba scipy pyepo==2.2.7
    PYTHONPATH=. peers/bin/python benchmarks/peers/pyepo_losses.py

Runs from a clone, in an environment of its own, and prints the largest differences of values and
gradients; float32 on both sides. PyEPO calls our exact solvers, so that nothing else can differ.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))

import numpy as np
import torch
from pyepo import EPO, func  # pyright: ignore[reportMissingImports]
from pyepo.data.dataset import optDataset, optDatasetKNN  # pyright: ignore[reportMissingImports]
from pyepo.model.opt import optModel  # pyright: ignore[reportMissingImports]
from torch import Tensor

from gendr.relaxed.estimators import (
    ContrastiveLoss,
    PerturbationGradientLoss,
    SolutionCache,
    SolutionRankingLoss,
    SPOPlusLoss,
    estimated,
    knn_costs,
)
from lab.studies.decisions import Knapsack, Problem, ShortestPath


def model_of(problem: Problem) -> Any:
    """A problem as PyEPO wants it, around our solver."""
    size = problem.splits[0].costs.shape[1]

    class Model(optModel):
        def __init__(self) -> None:
            self.modelSense = EPO.MINIMIZE if problem.minimize else EPO.MAXIMIZE
            super().__init__()

        def _getModel(self) -> Any:
            return None, dict(enumerate(range(size)))

        @property
        def num_cost(self) -> int:
            return size

        def setObj(self, c: Any) -> None:
            self.costs = np.asarray(c, np.float64)

        def solve(self) -> Any:
            found = problem.solve(self.costs[None])[0]
            return found, float(found @ self.costs)

    return Model()


def compare(problem: Problem) -> None:
    """Print the differences of all losses."""
    torch.manual_seed(0)
    training, model = problem.splits[0], model_of(problem)
    known = optDataset(model, training.features.numpy(), training.costs.numpy())
    costs, wanted = training.costs[:16], training.solutions[:16]
    x = (costs + torch.randn_like(costs)).requires_grad_()
    weights, best = torch.randn_like(costs), (costs * wanted).sum(1, keepdim=True)
    ours = {"minimize": problem.minimize, "batched": True}
    theirs: Any = {"processes": 1, "solve_ratio": 0.0, "dataset": known, "reduction": "none"}
    cache = SolutionCache(problem.solve, refresh=0.0, **ours)
    cache.add(training.solutions)

    def ranked(order: Any) -> Tensor:
        return SolutionRankingLoss(cache, order=order, reduction="none")(x, costs)

    def decided(method: str, **options: Any) -> Tensor:
        return (estimated(problem.solve, method, **ours, **options)(x) * weights).sum(1)

    pairs = {
        "SPO+": (
            func.SPOPlus(model, processes=1, reduction="none")(x, costs, wanted, best).flatten(),
            SPOPlusLoss(problem.solve, reduction="none", **ours)(x, costs, wanted),
        ),
        **{
            f"perturbation gradient{', two-sided' * two}": (
                func.perturbationGradient(model, sigma=0.2, two_sides=two, reduction="none")(
                    x, costs
                ).flatten(),
                PerturbationGradientLoss(
                    problem.solve, step=0.2, two_sided=two, reduction="none", **ours
                )(x, costs),
            )
            for two in (False, True)
        },
        "black-box": (
            (func.blackboxOpt(model, lambd=3.0, processes=1)(x) * weights).sum(1),
            decided("black_box", step=3.0),
        ),
        "identity": (
            (func.negativeIdentity(model, processes=1)(x) * weights).sum(1),
            decided("straight_through"),
        ),
        "noise-contrastive": (
            func.noiseContrastiveEstimation(model, **theirs)(x, wanted),
            ContrastiveLoss(cache, reduction="none")(x, wanted),
        ),
        "maximum a posteriori": (
            func.contrastiveMAP(model, **theirs)(x, wanted),
            ContrastiveLoss(cache, hardest=True, reduction="none")(x, wanted),
        ),
        "listwise": (func.listwiseLearningToRank(model, **theirs)(x, costs), ranked("listwise")),
        "pairwise": (func.pairwiseLearningToRank(model, **theirs)(x, costs), ranked("pairwise")),
        "pointwise": (
            func.pointwiseLearningToRank(model, **theirs)(x, costs), ranked("pointwise"),
        ),
    }  # fmt: skip
    robust = optDatasetKNN(model, training.features.numpy(), training.costs.numpy(), k=5).costs
    mean = knn_costs(training.features, training.costs, 5).mean(1)
    print(f"{problem.name}, costs of neighbours: {float((robust - mean).abs().max()):.1e}")
    for name, values in pairs.items():
        slopes = [torch.autograd.grad(value.sum(), x)[0] for value in values]
        apart = [float((a - b).detach().abs().max()) for a, b in (values, slopes)]
        print(f"{problem.name}, {name}: values {apart[0]:.1e}, gradients {apart[1]:.1e}")


if __name__ == "__main__":
    for kind in (ShortestPath, Knapsack):
        compare(kind(100, 4, 0.5, 3))
