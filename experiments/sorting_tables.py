r"""Sorting networks side by side, at equal steps; Tables 3.7 and 3.8 and Figure 3.9 of the thesis.

    python experiments/sorting_tables.py --smoke                       # seconds, no data
    python experiments/sorting_tables.py --data data/mnist --download --network digits \
        --steps 10000 --runs 5                                         # 40 minutes of one core
    python experiments/sorting_tables.py -n 5 --rows reciprocal --factors 0.25 0.5 1 2 4
    python experiments/sorting_tables.py -n 5 3 7 --known docs/results/sorting-tables.json
    python experiments/sorting_tables.py --method bitonic -n 16 32 --device cuda --runs 5

A row is a law at the steepness of Table 3.8, times each of --factors. Trainings of one seed have
the same weights at first and the same lists. Those that the file --known has, with the same
settings, are taken from there: what one day has trained another goes on from. The folder -o gets

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
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from gendr._runtime.command_line import count
from lab import script
from lab.report.ranking import ROWS, figure, table
from lab.studies.newton import NETWORKS, SortingSettings, SortingTraining
from lab.studies.ranking import RankingSettings, published_steepness
from lab.trials import Trial, run_trials, write_results

SMOKE: dict[str, Any] = {
    "steps": 4, "batch": 4, "evaluate_every": 2, "lists": 20, "test_lists": 20,
}  # fmt: skip


def make_options() -> argparse.ArgumentParser:
    """The options of the script."""
    parser = script.make_parser(__file__, __doc__)
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

    group = parser.add_argument_group("the training")
    group.add_argument(
        "--network", choices=NETWORKS, default="published",
        help="published, or digits: a small one on images of half the size",
    )  # fmt: skip
    script.add_training(group, steps="200,000", batch="lists per step (default: 100)",
                        rate="of Adam (default: 10^-3.5)", every="1000")  # fmt: skip
    group.add_argument("--lists", type=count(1), help="for an evaluation (default: 1000)")
    group.add_argument("--test-lists", type=count(1), help="for the test (default: 10,000)")

    group = script.add_execution(parser, "sorting-tables")
    group.add_argument("--known", type=Path, metavar="FILE.json",
                       help="of keep_results.py; what it has is not trained again")  # fmt: skip
    return parser


def settings_of(args: argparse.Namespace, n: int, row: str, factor: float, seed: int) -> Any:
    """The settings of one training."""
    names = ["steps", "batch", "learning_rate", "evaluate_every", "lists", "test_lists"]
    defaults = {name: getattr(RankingSettings, name) for name in ("steps", "learning_rate")}
    law = ROWS[row]
    steepness = published_steepness(args.method, n, law.dist, art=law.art > 0)
    return SortingSettings(
        n=n, method=args.method, dist=law.dist, art=law.art, seed=seed, network=args.network,
        steepness=steepness * law.factor * factor, variant="regular",
        **{**defaults, **(SMOKE if args.smoke else {}), **script.given(args, *names)},
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
    device = script.device_of(args)
    script.set_threads(args)
    if len(set(args.factors)) < len(args.factors) or not all(f > 0 for f in args.factors):
        raise ValueError("--factors must be different numbers > 0")
    known = known_results(args.known)
    # Seed by seed: an interruption leaves all of the comparison, with fewer seeds.
    plans = [
        (settings_of(args, n, row, factor, seed), row, factor)
        for seed in script.seeds_of(args)
        for n in dict.fromkeys(args.n)
        for row in dict.fromkeys(args.rows)
        for factor in args.factors
    ]
    have = [result["settings"] for result in known]
    plans = [plan for plan in plans if asdict(plan[0]) not in have]
    data = script.digits_of(args)
    out = script.output_folder(args)

    def row_of(_: Any, __: Any, row: str, factor: float) -> dict[str, Any]:
        return {"row": row, "factor": factor}

    trials = [
        Trial(
            name_of(settings, row, factor),
            partial(SortingTraining, settings, data, device),
            partial(row_of, row=row, factor=factor),
        )
        for settings, row, factor in plans
    ]
    found = run_trials(trials, out, resume=args.resume, save_every=args.save_every)
    results = [*known, *found.values()]
    lines = [*table(results), ""]
    print(write_results(out, found, "\n".join(lines), lambda: figure(results), device))


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; returns the exit status."""
    return script.run_script(make_options(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
