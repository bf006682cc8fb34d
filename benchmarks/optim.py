"""Time a step with a Newton loss against the plain backward pass, on sorting losses.

    python benchmarks/optim.py                                  # everything, printed; a minute
    python benchmarks/optim.py --cases neuralsort --repeat 100  # some
    python benchmarks/optim.py --out docs/results --docs        # what the documentation shows

A case is a sorting method, a batch of 100 lists and n = 5. What is timed is the way from scores to
the mean cross-entropy of the ranking and back to the gradient of the scores, float32, wall clock,
one thread; for a Newton loss to the gradient of the Newton loss. Hessians come by autograd or by
differences of gradients. Before they are timed, both must agree in float64; in float32 those by
autograd may have few digits where probabilities are small. The plain loss of a batch repeated as
often as differences need it, m + 2 times in float64, says how much of their time is that. The
targets, in plain backward passes, are those of the project.
"""

from __future__ import annotations

from functools import partial

import torch
from comparison import Case, Comparison, Groups, Run, drawn
from torch import Tensor

from gendr.optim import NewtonLoss, derivatives
from gendr.sorting.base import PermutationSort
from gendr.sorting.losses import permutation_matrix, ranking_cross_entropy
from gendr.sorting.neuralsort import NeuralSort
from gendr.sorting.relaxed import BitonicSort, OddEvenSort
from gendr.sorting.softsort import SoftSort
from support import relative_l2

AGREEMENT = 1e-3  # relative, of the Hessians by autograd and by differences
LENGTH = 5
SPREAD = 0.3  # of the scores: with few confident mistakes, as after the first steps

METHODS: dict[str, PermutationSort] = {
    "neuralsort": NeuralSort(1.0),
    "softsort": SoftSort(1.0),
    "odd_even": OddEvenSort(10.0, dist="logistic"),
    "bitonic": BitonicSort(10.0, dist="logistic"),
}
# (curvature, how second derivatives come about) and the target.
LOSSES = {
    ("fisher", "autograd"): "2×",
    ("hessian", "differences"): "6×",
    ("hessian", "autograd"): "6×",
    ("elementwise", "differences"): "2×",
    ("elementwise", "autograd"): "2×",
}


def groups(name: str, batch: int, device: str) -> Groups:
    """The plain loss, and each Newton loss.

    Raises:
        SystemExit: the two kinds of Hessians differ.
    """
    scores = (SPREAD * drawn(batch, LENGTH, device=device, seed=LENGTH)).requires_grad_()
    order = torch.rand(batch, LENGTH, generator=torch.Generator().manual_seed(LENGTH + 1))
    target = permutation_matrix(order).to(device)
    method = METHODS[name]

    def loss(y: Tensor, q: Tensor) -> Tensor:
        return ranking_cross_entropy(method.permutation(y), q, binary=True, reduction="none")

    def plain(y: Tensor, q: Tensor) -> list[Tensor]:
        return [*torch.autograd.grad(loss(y, q).mean(), y)]

    def newton(criterion: NewtonLoss) -> list[Tensor]:
        return [*torch.autograd.grad(criterion(scores, target), scores)]

    exact, ours = (
        derivatives(loss, scores.double(), target.double(), second=second).hessian
        for second in ("autograd", "differences")
    )
    apart = relative_l2(*(x for x in (ours, exact) if x is not None))
    if not apart <= AGREEMENT:
        raise SystemExit(f"{name}: differences are {apart:.1e} off autograd")
    copies = LENGTH + 2
    wide = [x.detach().double().repeat(copies, *(1,) * (x.ndim - 1)) for x in (scores, target)]
    runs: dict[str, Run] = {
        "plain": partial(plain, scores, target),
        f"plain, of {copies} batches": partial(plain, wide[0].requires_grad_(), wide[1]),
    }
    for curvature, second in LOSSES:
        criterion = NewtonLoss(loss, curvature, tikhonov=0.1, second=second)  # pyright: ignore[reportArgumentType]
        runs[f"{curvature}, {second}"] = partial(newton, criterion)
    return [{key: run} for key, run in runs.items()]


def cases(quick: bool, device: str) -> list[Case]:
    """All of them."""
    batch = 3 if quick else 100
    targets = {", ".join(key): target for key, target in LOSSES.items()}
    return [
        Case(f"{name}/{batch}x{LENGTH}", partial(groups, name, batch, device), targets)
        for name in METHODS
    ]


main = Comparison(
    "optim", __doc__, cases, page="results/newton", mark="newton-speed", threads=1
).main

if __name__ == "__main__":
    main()
