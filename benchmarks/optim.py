"""Time a step with a Newton loss against the plain backward pass, on sorting losses.

    python benchmarks/optim.py                                  # everything, printed; a minute
    python benchmarks/optim.py --cases neuralsort --repeat 100  # some
    python benchmarks/optim.py --out docs/results --docs        # what the documentation shows

A case is a sorting method at n = 5 and a batch of 100 lists. What is timed is the way from scores
to the mean cross-entropy of the ranking and back to the gradient of the scores, float32, wall
clock, one thread; for a Newton loss to the gradient of the Newton loss. Hessians come by autograd
or by differences of gradients. Before they are timed, both must agree in float64; in float32 those
by autograd may have few digits where probabilities are small. The plain loss of a batch repeated as
often as differences need it, m + 2 times in float64, says how much of their time is that. All take
turns, in bursts, so that whatever else the machine does meets all of them; the ratios are those of
the minima. The targets are those of the project.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import comparison
import speed
import torch
from torch import Tensor
from tqdm import tqdm

from gendr.optim import NewtonLoss, derivatives
from gendr.sorting.base import PermutationSort
from gendr.sorting.losses import permutation_matrix, ranking_cross_entropy
from gendr.sorting.neuralsort import NeuralSort
from gendr.sorting.relaxed import BitonicSort, OddEvenSort
from gendr.sorting.softsort import SoftSort
from lab.pages import table
from support import relative_l2

AGREEMENT = 1e-3  # relative, of the Hessians by autograd and by differences
MARK = "newton-speed"  # in docs/optim.md
BATCH, LENGTH = 100, 5
TIKHONOV = 0.1
SPREAD = 0.3  # of the scores: with few confident mistakes, as after the first steps

METHODS: dict[str, PermutationSort] = {
    "neuralsort": NeuralSort(1.0),
    "softsort": SoftSort(1.0),
    "odd_even": OddEvenSort(10.0, dist="logistic"),
    "bitonic": BitonicSort(10.0, dist="logistic"),
}
PLAIN = ("plain", "")
REPEATED = (f"plain, of {LENGTH + 2} batches", "")
# (curvature, how second derivatives come about) and the target, in plain backward passes.
LOSSES: dict[tuple[str, str], float] = {
    ("fisher", ""): 2.0,
    ("hessian", "differences"): 6.0,
    ("hessian", "autograd"): 6.0,
    ("elementwise", "differences"): 2.0,
    ("elementwise", "autograd"): 2.0,
}


class Method(NamedTuple):
    """A case."""

    name: str


def measure(name: str, device: str, repeat: int, quick: bool) -> list[dict[str, Any]]:
    """One row for the plain loss, and one for each Newton loss."""
    batch = 3 if quick else BATCH
    generator = torch.Generator().manual_seed(LENGTH)
    scores = SPREAD * torch.randn(batch, LENGTH, generator=generator)
    scores = scores.to(device).requires_grad_()
    target = permutation_matrix(torch.rand(batch, LENGTH, generator=generator)).to(device)
    method = METHODS[name]

    def loss(y: Tensor, q: Tensor) -> Tensor:
        return ranking_cross_entropy(method.permutation(y), q, binary=True, reduction="none")

    def plain() -> Tensor:
        return torch.autograd.grad(loss(scores, target).mean(), scores)[0]

    def newton(criterion: NewtonLoss) -> Tensor:
        return torch.autograd.grad(criterion(scores, target), scores)[0]

    wide = [x.detach().double().repeat(LENGTH + 2, *(1,) * (x.ndim - 1)) for x in (scores, target)]
    wide[0].requires_grad_()

    def repeated() -> Tensor:
        return torch.autograd.grad(loss(*wide).mean(), wide[0])[0]

    runs: dict[tuple[str, str], Callable[[], Tensor]] = {PLAIN: plain, REPEATED: repeated}
    for curvature, second in LOSSES:
        criterion = NewtonLoss(
            loss,
            curvature,  # pyright: ignore[reportArgumentType]
            tikhonov=TIKHONOV,
            second=second or "autograd",  # pyright: ignore[reportArgumentType]
        )
        runs[curvature, second] = partial(newton, criterion)
    inputs = scores.double(), target.double()
    exact = derivatives(loss, *inputs).hessian
    ours = derivatives(loss, *inputs, second="differences").hessian
    apart = relative_l2(*(x for x in (ours, exact) if x is not None))
    if not apart <= AGREEMENT:
        raise SystemExit(f"{name}: differences are {apart:.1e} off autograd")
    times = comparison.take_turns({" ".join(key): run for key, run in runs.items()}, repeat, device)
    return [
        {
            "name": f"{name}/{batch}x{LENGTH}",
            "method": name,
            "loss": key[0],
            "second": key[1],
            "target": LOSSES.get(key),
            "median_s": statistics.median(times[" ".join(key)]),
            "min_s": min(times[" ".join(key)]),
            "ratio": min(times[" ".join(key)]) / min(times[" ".join(PLAIN)]),
            "runs": len(times[" ".join(key)]),
        }
        for key in runs
    ]


_HEAD = ["method", "loss", "second derivatives", "minimum", "median", "× plain", "target"]


def cells(row: dict[str, Any]) -> list[str]:
    """A row of the table."""
    target, first = row["target"], (row["loss"], row["second"]) == PLAIN
    return [
        f"`{row['method']}`" if first else "",
        row["loss"],
        row["second"],
        speed.milliseconds(row["min_s"]),
        speed.milliseconds(row["median_s"]),
        "" if first else f"{row['ratio']:.1f}",
        "" if target is None else f"{target:g}",
    ]


def markdown(report: dict[str, Any]) -> list[str]:
    """The report as lines of Markdown."""
    return [
        f"{comparison.measured_on(report['run'], '1 thread')}.",
        "",
        *table(_HEAD, [cells(row) for row in report["rows"]]),
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    parser = comparison.options(__doc__, "optim")
    args = parser.parse_args(argv)
    device = comparison.device_of(args, parser)
    asked = comparison.chosen(args, parser, [Method(name) for name in METHODS])
    report: dict[str, Any] = {"run": comparison.about_run(device)}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        report["rows"] = [
            row
            for method in tqdm(asked, unit="case", disable=None)
            for row in measure(method.name, device, args.repeat, args.quick)
        ]
    finally:
        torch.set_num_threads(threads)
    comparison.publish(report, markdown(report), args, "optim", MARK)


if __name__ == "__main__":
    main()
