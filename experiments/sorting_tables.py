r"""Sorting networks side by side, at equal steps; Tables 3.7 and 3.8 and Figure 3.9 of the thesis.

    python experiments/sorting_tables.py --smoke                       # seconds, no data
    python experiments/sorting_tables.py --data data/mnist --download --network digits \
        --steps 10000 --runs 5                                         # 40 minutes of one core
    python experiments/sorting_tables.py -n 5 --rows reciprocal --factors 0.25 0.5 1 2 4
    python experiments/sorting_tables.py -n 5 3 7 --known docs/results/sorting-tables.json
    python experiments/sorting_tables.py --method bitonic -n 16 32 --device cuda --runs 5

A row is a distribution at the steepness of Table 3.8, times each of --factors. Trainings of one
seed have the same weights at first and the same lists. Those that the file --known has, with the
same settings, are taken from there: what one day has trained another goes on from. The folder -o
gets

    table.md        exact match with standard errors, differences from cauchy, the published scores
    results.json    settings, scores and histories of all trainings, but for those of --known
    picture.png     exact match over the steps, and over the steepness
    NAME-seed0/checkpoint.pt, result.json, tensorboard    of each training

Exit status: 0 if it went well, 2 for bad input, 130 after Ctrl-C.

Source: thesis, section 3.5.2.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

from gendr.cli.command_line import count
from lab import script
from lab.report.ranking import ROWS, figure, table
from lab.studies.newton import NETWORKS, SortingSettings, SortingTraining
from lab.studies.ranking import RankingSettings, published_steepness
from lab.trials import run_trials

SMOKE: dict[str, Any] = {
    "steps": 4, "batch": 4, "evaluate_every": 2, "lists": 20, "test_lists": 20,
}  # fmt: skip


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    group = parser.add_argument_group("the task")
    script.add_digits(group, "few steps, small batches")
    group.add_argument("-n", type=count(2), nargs="+", default=[5], help="length of lists; 5")
    script.add_runs(group)

    group = parser.add_argument_group("the methods")
    group.add_argument("--method", choices=("odd_even", "bitonic"), default="odd_even")
    group.add_argument("--rows", nargs="+", choices=ROWS, default=tuple(ROWS), metavar="ROW",
                       help=f"of {' '.join(ROWS)} (default: all)")  # fmt: skip
    group.add_argument("--factors", nargs="+", type=float, default=[1.0], metavar="FACTOR",
                       help="of the published steepness (default: 1)")  # fmt: skip
    group.add_argument(
        "--network", choices=NETWORKS, default="published",
        help="published, or digits: a small one on images of half the size",
    )  # fmt: skip
    script.add_settings(parser, RankingSettings, "the training")
    group = script.add_execution(parser, "sorting-tables")
    group.add_argument("--known", type=Path, metavar="FILE.json",
                       help="of keep_results.py; what it has is not trained again")  # fmt: skip


def settings_of(
    args: argparse.Namespace, n: int, row: str, factor: float, seed: int
) -> SortingSettings:
    """The settings of one training."""
    dist = ROWS[row]
    steepness = published_steepness(args.method, n, dist.dist, art=dist.art > 0)
    defaults = {name: getattr(RankingSettings, name) for name in ("steps", "learning_rate")}
    return script.settings_of(
        args, SortingSettings, {**defaults, **(SMOKE if args.smoke else {})},
        n=n, method=args.method, dist=dist.dist, art=dist.art, seed=seed, variant="regular",
        steepness=steepness * dist.factor * factor,
    )  # fmt: skip


def name_of(settings: SortingSettings, row: str, factor: float) -> str:
    """The folder of a training."""
    times = "" if factor == 1 else f"-x{factor:g}"
    return (
        f"{settings.network}-{settings.method}-{settings.n}-{row}{times}-{settings.steps}steps"
        f"-seed{settings.seed}"
    )


def known_results(path: Path | None) -> list[dict[str, Any]]:
    """The trainings of a file of keep_results.py.

    Raises:
        ValueError: if it is no such file.
    """
    if path is None:
        return []
    try:
        found = list(json.loads(path.read_text(encoding="utf-8"))["trainings"].values())
        if all({"settings", "test", "history", "example"} <= result.keys() for result in found):
            return found
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    raise ValueError(f"{path} has no trainings with their histories; see keep_results.py")


def run(args: argparse.Namespace) -> None:
    """The experiment, and its files."""
    if len(set(args.factors)) < len(args.factors) or not all(f > 0 for f in args.factors):
        raise ValueError("--factors must be different numbers > 0")
    known = known_results(args.known)
    have = [result["settings"] for result in known]
    # Seed by seed: an interruption leaves all of the comparison, with fewer seeds.
    examples: dict[SortingSettings, dict[str, Any]] = {}
    plan: list[tuple[str, SortingSettings]] = []
    for seed, n, row, factor in product(
        script.seeds_of(args), dict.fromkeys(args.n), dict.fromkeys(args.rows), args.factors
    ):
        settings = settings_of(args, n, row, factor, seed)
        if asdict(settings) not in have:
            plan.append((name_of(settings, row, factor), settings))
            examples[settings] = {"row": row, "factor": factor}
    run_trials(
        args, plan, script.digits_of(args), SortingTraining,
        lambda found: table([*known, *found.values()]),
        lambda found: figure([*known, *found.values()]),
        lambda training, _: examples[training.settings],
    )  # fmt: skip


main = script.program(__file__, __doc__, add_options, run)


if __name__ == "__main__":
    sys.exit(main())
