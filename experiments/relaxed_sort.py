r"""Teach a network to read numbers by relaxed bubble sort, beside sorting networks; Table 2.1.

    python experiments/relaxed_sort.py --smoke                               # seconds, no data
    python experiments/relaxed_sort.py --data data/mnist --download --steps 2000
    python experiments/relaxed_sort.py -n 5 --methods bubble_sort bubble_swaps odd_even/logistic
    python experiments/relaxed_sort.py --device cuda --steps 150000 --runs 10 -o runs/bubble

A method is written NAME, NAME/DIST, NAME@STEEPNESS or NAME/DIST@STEEPNESS. bubble_sort makes the
probability small that anything must be swapped, as published, bubble_swaps the number of swaps; the
other names are those of gendr.sorting. All methods have the same numbers, network, order of lists
and steps. The metrics are of numbers that were not seen: EM, the lists of n that come out exactly
right, EW, the elements whose rank is right, and EM5, the lists of five that come out exactly right.
The folder -o gets

    table.md        EM (EW) [EM5] by method and n, the mean over runs
    results.json    settings, metrics and histories of all trainings
    picture.png     validation EM over the steps
    METHOD-n5-seed0/checkpoint.pt, result.json, tensorboard    of each training

Exit status: 0 if it went well, 2 for bad input, 130 after Ctrl-C.

Source: thesis, section 2.3.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from functools import partial
from statistics import mean
from typing import Any, NamedTuple

from gendr.cli.command_line import count
from lab import script
from lab.pages import table as markdown
from lab.report.curves import curve, panels_of
from lab.studies.ranking import RankingSettings, RankingTraining
from lab.trials import Found, run_trials

METHODS = ("bubble_sort", "odd_even", "bitonic")
LENGTHS = (3, 5, 7)
SMOKE = {"steps": 6, "batch": 4, "evaluate_every": 3, "lists": 20, "test_lists": 20}


class Method(NamedTuple):
    """A method to compare, as it was written."""

    text: str
    name: str
    dist: str | None
    steepness: float | None

    @classmethod
    def parse(cls, text: str) -> Method:
        """The parts of NAME/DIST@STEEPNESS, of which the last two may be missing."""
        rest, at, steepness = text.partition("@")
        name, _, dist = rest.partition("/")
        try:
            return cls(text, name, dist or None, float(steepness) if at else None)
        except ValueError:
            raise ValueError(
                f"the steepness of {text!r} must be a number; write NAME/DIST@STEEPNESS"
            ) from None


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    group = parser.add_argument_group("the task")
    script.add_digits(group, "few steps with small batches")
    group.add_argument(
        "-n", type=count(2), nargs="+", metavar="N",
        help="lengths of the lists (default: 3 5 7; with --smoke 3)",
    )  # fmt: skip
    group.add_argument(
        "--methods", nargs="+", default=METHODS, metavar="METHOD",
        help="to compare (default: bubble_sort odd_even bitonic)",
    )  # fmt: skip
    script.add_runs(group)
    script.add_settings(parser, RankingSettings, "the training")
    script.add_execution(parser, "relaxed_sort")


def name_of(method: Method, n: int, seed: int) -> str:
    """The folder of a training."""
    text = re.sub(r"[^\w.=-]+", "-", method.text)
    return f"{text}-n{n}-seed{seed}"


def table(methods: Sequence[Method], args: argparse.Namespace, found: Found) -> list[str]:
    """EM (EW) [EM5], as Table 2.1 of the thesis."""

    def scores(method: Method, n: int) -> str:
        runs = [found[name_of(method, n, seed)]["test"] for seed in script.seeds_of(args)]
        em, ew, em5 = (mean(run[key] for run in runs) for key in ("em", "ew", "em5"))
        return f"{em:.3f} ({ew:.3f}) [{em5:.3f}]"

    rows = [[method.text, *(scores(method, n) for n in args.n)] for method in methods]
    steps = next(iter(found.values()))["step"]
    caption = (
        "exact matches (element-wise correct ranks) [exact matches of five]; "
        f"{steps} steps, mean of {args.runs} run(s)"
    )
    return [*markdown(["method", *(f"n = {n}" for n in args.n)], rows, 1), "", caption]


def draw(methods: Sequence[Method], args: argparse.Namespace, found: Found) -> Any:
    """Lists of validation numbers in exactly the right order, over the steps."""
    figure, panels = panels_of(len(args.n))
    for ax, n in zip(panels, args.n, strict=True):
        for k, method in enumerate(methods):
            runs = [found[name_of(method, n, seed)]["history"] for seed in script.seeds_of(args)]
            curve(ax, runs, "em", color=f"C{k}", label=method.text)
        ax.set(title=f"n = {n}", xlabel="steps", ylabel="exact match, %", ylim=(0, 100))
        ax.legend(fontsize=8)
    return figure


def run(args: argparse.Namespace) -> None:
    """The experiment, and its files."""
    methods = [Method.parse(text) for text in args.methods]
    args.n = args.n or (LENGTHS[:1] if args.smoke else LENGTHS)
    small = SMOKE if args.smoke else {}
    plan = [
        (
            name_of(method, n, seed),
            script.settings_of(
                args, RankingSettings, small,
                n=n, method=method.name, dist=method.dist, steepness=method.steepness, seed=seed,
            ),
        )
        for n in args.n for method in methods for seed in script.seeds_of(args)
    ]  # fmt: skip
    for _, settings in plan:
        settings.sorter()  # says at once what is wrong with it
    run_trials(
        args, plan, script.digits_of(args), RankingTraining, partial(table, methods, args),
        partial(draw, methods, args),
    )  # fmt: skip


main = script.program(__file__, __doc__, add_options, run)


if __name__ == "__main__":
    sys.exit(main())
