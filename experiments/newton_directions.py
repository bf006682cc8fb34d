"""Newton steps beside gradients, in trainings to sort: their directions and lengths.

    python experiments/newton_directions.py --smoke          # seconds, no data
    python experiments/newton_directions.py --data data/mnist --download -o directions.json
                                                             # minutes; docs/results/newton.md

A training as those of `newton_losses.py sorting --network digits`, with the Newton loss of the mean
Hessian. At some of its steps, for the batch of that step: the Newton step of all its lists, with
the mean Hessian and with the Fisher matrix, beside their gradients: the cosine of the two, all
numbers of the batch one vector, and the length of the step in units of the gradient. And how far
Hessians in float32 are off those by autograd in float64, relative.

Exit status: 0 if it went well, 2 for bad input, 130 after Ctrl-C.

Source: thesis, 7.3 and 7.5.2.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from gendr.cli.command_line import count
from gendr.optim import NewtonStep, derivatives
from gendr.sorting.base import PermutationSort
from gendr.sorting.losses import permutation_matrix, ranking_cross_entropy
from lab import script
from lab.data import Splits
from lab.studies.newton import SortingSettings, SortingTraining
from support import relative_l2

METHODS = ("neuralsort", "odd_even/logistic")
AT = (0, 100, 300, 700, 1400)
SMOKE: dict[str, Any] = {"at": [0, 2], "batch": 4}


def directions(training: SortingTraining) -> dict[str, float]:
    """What is measured at the step that comes next; the training is not changed."""
    settings, sorter = training.settings, training.sorter
    assert isinstance(sorter, PermutationSort)  # for the type checker

    def loss(y: Tensor, q: Tensor) -> Tensor:
        p = sorter.permutation(y)
        return ranking_cross_entropy(p, q, binary=settings.binary, reduction="none")

    state = training.generator.get_state()
    images, values = training.train.draw(settings.batch, settings.n, training.generator)
    training.generator.set_state(state)
    with torch.no_grad():
        y, q = training.model(images), permutation_matrix(values)
    exact = derivatives(loss, y.double(), q.double())
    found: dict[str, float] = {}
    for curvature in ("hessian", "fisher"):
        damping = SortingSettings(method=settings.method, dist=settings.dist, variant=curvature)
        step = NewtonStep(curvature, damping.damping, second="differences")
        moved, down = y.double() - step(y.double(), loss, q.double()).z, exact.gradient
        found[f"{curvature}_cosine"] = float((moved * down).sum() / moved.norm() / down.norm())
        found[f"{curvature}_length"] = float(moved.norm() / down.norm())
    for second in ("autograd", "differences"):
        hessian = derivatives(loss, y, q, second=second).hessian
        assert hessian is not None
        assert exact.hessian is not None
        found[second] = relative_l2(hessian.double(), exact.hessian)
    return found


def measured(method: str, args: argparse.Namespace, data: Splits) -> list[dict[str, Any]]:
    """A row for each of the steps, of a training with the mean Hessian."""
    name, _, dist = method.partition("/")
    training = SortingTraining(
        SortingSettings(
            method=name, dist=dist or None, variant="hessian", network="digits", batch=args.batch,
            seed=args.seed, evaluate_every=10**9,
        ),
        data,
        script.device_of(args),
    )  # fmt: skip
    rows: list[dict[str, Any]] = []
    for step in tqdm(range(max(args.at) + 1), desc=method, disable=None):
        if step in args.at:
            rows.append({"method": method, "step": step, **directions(training)})
        if step < max(args.at):
            training.advance()
    return rows


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    script.add_digits(parser, "two steps, small batches")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--at", nargs="+", type=count(0), metavar="STEP", help="default: 0 to 1400")
    parser.add_argument("--batch", type=count(2), help="lists per step (default: 50)")
    script.add_seed(parser)
    script.add_device(parser)
    script.add_threads(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.json", help="also write it")


def run(args: argparse.Namespace) -> None:
    """Measure, print, write."""
    script.device_of(args)
    small = SMOKE if args.smoke else {}
    args.at = args.at or small.get("at", list(AT))
    args.batch = args.batch or small.get("batch", 50)
    data = script.digits_of(args)
    rows = [row for method in args.methods for row in measured(method, args, data)]
    for row in rows:
        print("  ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{v}" for k, v in row.items()))
    if args.output is not None:
        settings = {"batch": args.batch, "seed": args.seed, "torch": torch.__version__}
        script.write_json(args.output, {"settings": settings, "rows": rows})


main = script.program(__file__, __doc__, add_options, run)


if __name__ == "__main__":
    sys.exit(main())
