r"""Learn to predict costs by the decisions that they lead to: the benchmarks of PyEPO.

    python experiments/decisions.py -o decisions                      all that is on the page
    python experiments/decisions.py --problems "shortest path" --counts 100 1000 --degrees 6
    python experiments/decisions.py --docs                            writes the pages
    python experiments/decisions.py --smoke                           seconds

Three problems (see `lab.studies.decisions`), a linear prediction, and as many steps as published:
200 epochs of 100 problems, 20 of 1000, 4 of 5000, Adam, batches of 32. A run is a row of
decisions.csv, written when it is done; what is there is not run again. Seeds are those of the
published runs, and with them the data.

Regret is normalised: the sum over 1000 test problems of what decisions cost beyond the best, over
that of the best.

Exit status: 0 if it went well, 2 for bad input, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gendr.cli.command_line import count
from gendr.relaxed.estimators import (
    ContrastiveLoss,
    FenchelYoungLoss,
    SolutionCache,
    SolutionRankingLoss,
    SPOPlusLoss,
    estimated,
    regret,
)
from lab import script
from lab.pages import fill, table
from lab.studies.decisions import PROBLEMS, Problem

SEEDS = range(10)  # of the published runs
EPOCHS = {100: 200, 1000: 20, 5000: 4}
BATCH = 32
# A loss of predicted costs, true costs and best solutions.
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


class Method(NamedTuple):
    """A way to learn.

    Attributes:
        label: what it is, in a table.
        rate: of Adam.
        make: the loss for a problem.
        published: its name in the published results.
    """

    label: str
    rate: float
    make: Callable[[Problem], Loss]
    published: str = ""


def _decided(method: str, **options: Any) -> Callable[[Problem], Loss]:
    """The mean regret of decisions whose gradient is estimated."""

    def make(problem: Problem) -> Loss:
        sign = 1.0 if problem.minimize else -1.0
        own = {
            name: value(problem) if callable(value) else value for name, value in options.items()
        }
        solve = estimated(
            problem.solve, method, minimize=problem.minimize, batched=True, seed=problem.seed, **own
        )
        return lambda x, c, w: sign * ((solve(x) - w) * c).sum(1).mean()

    return make


def _cached(make_loss: Callable[..., nn.Module]) -> Callable[[Problem], Loss]:
    """A loss over a cache that begins with the solutions of the training set."""

    def make(problem: Problem) -> Loss:
        cache = SolutionCache(
            problem.solve, minimize=problem.minimize, refresh=0.05, batched=True,
            seed=problem.seed,
        )  # fmt: skip
        cache.add(problem.splits[0].solutions)
        loss = make_loss(cache)
        if isinstance(loss, SolutionRankingLoss):
            return lambda x, c, w: loss(x, c)
        if isinstance(loss, SPOPlusLoss):
            return loss
        return lambda x, c, w: loss(x, w)

    return make


def _spo(problem: Problem) -> Loss:
    return SPOPlusLoss(problem.solve, minimize=problem.minimize, batched=True)


def _fenchel_young(samples: int) -> Callable[[Problem], Loss]:
    def make(problem: Problem) -> Loss:
        loss = FenchelYoungLoss(
            problem.solve, minimize=problem.minimize, samples=samples, scale=1.0, batched=True,
            seed=problem.seed,
        )  # fmt: skip
        return lambda x, c, w: loss(x, w)

    return make


def _strength(problem: Problem) -> float:
    return 10.0 if problem.name == "knapsack" else 20.0  # as published


METHODS: dict[str, Method] = {
    "two-stage": Method("two-stage, linear regression", 0.0, _spo, "2s-lr"),
    "spo+": Method("SPO+", 0.01, _spo, "spo"),
    "spo+ cached": Method("SPO+, a solution cache", 0.01, _cached(SPOPlusLoss)),
    "fenchel-young": Method("perturbed, Fenchel-Young, 1 sample", 0.01, _fenchel_young(1), "pfyl"),
    "fenchel-young 5": Method("perturbed, Fenchel-Young, 5 samples", 0.01, _fenchel_young(5)),
    "perturbed": Method(
        "perturbed, mean decision, 10 samples", 0.01, _decided("perturbed", samples=10, scale=1.0)
    ),
    "black-box": Method("black-box", 0.1, _decided("black_box", step=_strength), "dbb"),
    "identity": Method("identity", 0.01, _decided("straight_through")),
    "identity projected": Method(
        "identity, costs standardised", 0.01, _decided("straight_through", projection="standard")
    ),
    "implicit mle": Method(
        "implicit MLE", 0.01, _decided("implicit_mle", step=_strength, scale=1.0)
    ),
    "adaptive mle": Method("implicit MLE, adaptive", 0.01, _decided("adaptive_implicit_mle")),
    "contrastive": Method("noise-contrastive", 0.01, _cached(ContrastiveLoss)),
    "map": Method(
        "maximum a posteriori", 0.01, _cached(lambda cache: ContrastiveLoss(cache, hardest=True))
    ),
    "listwise": Method("listwise", 0.01, _cached(SolutionRankingLoss)),
    "pairwise": Method(
        "pairwise", 0.01, _cached(lambda cache: SolutionRankingLoss(cache, order="pairwise"))
    ),
    "pointwise": Method(
        "pointwise", 0.01, _cached(lambda cache: SolutionRankingLoss(cache, order="pointwise"))
    ),
}


def trained(problem: Problem, method: Method, epochs: int) -> nn.Linear:
    """The linear prediction that a method learns."""
    features, costs, solutions = problem.splits[0]
    torch.manual_seed(problem.seed)
    model = nn.Linear(features.shape[1], costs.shape[1])
    if method.rate == 0:
        known = np.column_stack([features.double().numpy(), np.ones(len(features))])
        found = np.linalg.lstsq(known, costs.double().numpy(), rcond=None)[0]
        with torch.no_grad():
            model.weight.copy_(torch.from_numpy(found[:-1].T))
            model.bias.copy_(torch.from_numpy(found[-1]))
        return model
    loss = method.make(problem)
    optimizer = torch.optim.Adam(model.parameters(), method.rate)
    for _ in range(epochs):
        for chosen in torch.randperm(len(features)).split(BATCH):
            optimizer.zero_grad()
            loss(model(features[chosen]), costs[chosen], solutions[chosen]).backward()
            optimizer.step()
    return model


def tested(problem: Problem, model: nn.Linear) -> float:
    """The normalised regret on the test problems."""
    features, costs, solutions = problem.splits[1]
    with torch.no_grad():
        predicted = model(features)
    return regret(
        predicted.double(), costs.double(), problem.solve, minimize=problem.minimize, batched=True,
        wanted=solutions.double(),
    ).item()  # fmt: skip


COLUMNS = ("problem", "count", "degree", "noise", "seed", "method", "regret", "seconds")


def rows_of(path: Path) -> list[dict[str, str]]:
    """The runs that are done."""
    if not path.exists():
        return []
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    parser.add_argument("--smoke", action="store_true", help="few steps of small problems")
    parser.add_argument("--docs", action="store_true", help="write the tables of the page, only")
    parser.add_argument(
        "--problems", nargs="+", choices=[*PROBLEMS], default=[*PROBLEMS], metavar="PROBLEM",
        help=f"of {', '.join(PROBLEMS)} (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--methods", nargs="+", choices=[*METHODS], default=[*METHODS], metavar="METHOD",
        help=f"of {', '.join(METHODS)} (default: all)",
    )  # fmt: skip
    for name, kind, default in (
        ("counts", int, [100, 1000]),
        ("degrees", int, [1, 2, 4, 6]),
        ("noises", float, [0.0, 0.5]),
    ):
        said = " ".join(map(str, default))
        parser.add_argument(f"--{name}", nargs="+", type=kind, default=default,
                            help=f"default: {said}")  # fmt: skip
    parser.add_argument(
        "--runs", type=count(1), default=10, help="seeds, at most and by default 10"
    )
    script.add_threads(parser)
    script.add_output(parser, "decisions")


def run(args: argparse.Namespace) -> None:
    """Train what is missing, or write the tables."""
    if args.docs:
        write_docs()
        return
    if unknown := {*args.counts} - {*EPOCHS}:
        raise ValueError(f"--counts are of {', '.join(map(str, EPOCHS))}, got {unknown}")
    torch.set_num_threads(args.threads or 1)
    path = script.output_folder(args) / "decisions.csv"
    done = {tuple(row[name] for name in COLUMNS[:6]) for row in rows_of(path)}
    if not path.exists():
        path.write_text(",".join(COLUMNS) + "\n")
    if args.smoke:
        args.counts, args.degrees, args.noises, args.runs = [100], [4], [0.5], 1
    # Seeds outermost: an interruption leaves all settings with the same seeds.
    settings = product(args.problems, args.counts, args.degrees, args.noises)
    for seed, (name, number, degree, noise) in product(SEEDS[: args.runs], list(settings)):
        problem = PROBLEMS[name](number, degree, noise, seed)
        for method in args.methods:
            key = (name, str(number), str(degree), str(noise), str(seed), method)
            if key in done:
                continue
            start = time.process_time()
            model = trained(problem, METHODS[method], 1 if args.smoke else EPOCHS[number])
            seconds = time.process_time() - start
            found = tested(problem, model)
            with path.open("a", newline="") as lines:
                csv.writer(lines).writerow([*key, f"{found:.6f}", f"{seconds:.2f}"])
            print(*key, f"{100 * found:.2f} %", f"{seconds:.1f} s", flush=True)


# -- the page

DOCS = script.ROOT / "docs"
KEPT, THEIRS = DOCS / "results" / "decisions.csv", DOCS / "results" / "decisions-published.csv"


def write_docs() -> None:
    """Write the tables of docs/decisions.md and docs/results/decisions.md from docs/results."""
    ours = regrets(rows_of(KEPT))
    theirs = regrets(rows_of(THEIRS))
    places = {name: i for i, name in enumerate([*PROBLEMS, *METHODS])}
    # Without noise regrets are near 0; those runs stand in the file alone.
    settings = sorted({key[:4] for key in ours if key[3] == "0.5"}, key=lambda key: (
        places[key[0]], -int(key[1]), int(key[2])
    ))  # fmt: skip
    rows, said = [], {}
    for setting in settings:
        methods = sorted((key[4] for key in ours if key[:4] == setting), key=places.__getitem__)
        for number, method in enumerate(methods):
            found = ours[(*setting, method)]
            known = theirs.get((*setting, method), {})
            both = [seed for seed in found if seed in known]
            apart = [100 * (found[seed] - known[seed]) for seed in both]
            cells = [
                _said([100 * value for value in found.values()]),
                _said([100 * value for value in known.values()]),
                _said(apart, "+") if apart else "",
            ]
            said[(*setting, method)] = cells
            name = f"{setting[0]}, {setting[1]} problems, degree {setting[2]}, noise {setting[3]}"
            rows.append([
                name if not number else "", METHODS[method].label, str(len(found)), *cells
            ])  # fmt: skip
    head = ["setting", "method", "runs", "regret %", "PyEPO, 10 runs", "ours less theirs, paired"]
    fill(DOCS / "results" / "decisions.md", "decisions", table(head, rows, left=2))
    shown = ("two-stage", "spo+", "fenchel-young")
    lines = [
        [name if degree == "1" else "", degree, *(
            cell for method in shown
            for cell in said.get((*key, method), ["", ""])[: 1 if method == "two-stage" else 2]
        )]
        for key in settings
        if key[1] == "1000"
        for name, degree in [(key[0], key[2])]
    ]  # fmt: skip
    head = ["problem", "degree", "two-stage", "SPO+", "PyEPO's", "Fenchel-Young", "PyEPO's"]
    fill(DOCS / "decisions.md", "decisions", table(head, lines, left=1))


def regrets(rows: list[dict[str, str]]) -> dict[tuple[str, ...], dict[str, float]]:
    """Of problem, count, degree, noise and method, the regret by the seed."""
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for row in rows:
        key = (*(row[name] for name in COLUMNS[:4]), row["method"])
        found.setdefault(key, {})[row["seed"]] = float(row["regret"])
    return found


def _said(values: list[float], sign: str = "") -> str:
    """The mean, and the standard deviation of one run."""
    if not values:
        return ""
    error = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
    return f"{round(mean(values), 1) + 0.0:{sign}.1f}{error}"  # without a minus before 0


main = script.program(__file__, __doc__, add_options, run)

if __name__ == "__main__":
    sys.exit(main())
