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
    picture.png     validation EM over the steps; a test list in the order of each method
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

import torch

from gendr._runtime.command_line import count
from gendr.data import Splits
from lab import script
from lab.studies.ranking import RankingResult, RankingSettings, RankingTraining
from lab.trials import Trial, run_trials, write_results

METHODS = ("bubble_sort", "odd_even", "bitonic")
LENGTHS = (3, 5, 7)
SMOKE = {"steps": 6, "batch": 4, "evaluate_every": 3, "lists": 20, "test_lists": 20}
# The test list of the picture is drawn with this seed.
EXAMPLE_SEED = 3


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


def make_options() -> argparse.ArgumentParser:
    """The options of the script."""
    parser = script.make_parser(__file__, __doc__)
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

    group = parser.add_argument_group("the training")
    script.add_training(
        group, steps="200,000", batch="lists per step (default: 100)",
        rate="of Adam (default: 10^-3.5)", every="1000",
    )  # fmt: skip
    group.add_argument("--lists", type=count(1), help="for an evaluation (default: 1000)")
    group.add_argument("--test-lists", type=count(1), help="for the test (default: 10,000)")

    script.add_execution(parser, "relaxed_sort")
    return parser


def settings_of(args: argparse.Namespace, method: Method, n: int, seed: int) -> RankingSettings:
    """The settings of one training."""
    names = ["steps", "batch", "learning_rate", "evaluate_every", "lists", "test_lists"]
    values: dict[str, Any] = {**(SMOKE if args.smoke else {}), **script.given(args, *names)}
    return RankingSettings(
        n=n, method=method.name, dist=method.dist, steepness=method.steepness, seed=seed, **values
    )


def name_of(method: Method, n: int, seed: int) -> str:
    """The folder of a training."""
    text = re.sub(r"[^\w.=-]+", "-", method.text)
    return f"{text}-n{n}-seed{seed}"


def example_list(data: Splits, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The list of the picture: images [n, C, H, W] and values [n]."""
    images, values = data.test.draw(1, n, torch.Generator().manual_seed(EXAMPLE_SEED))
    return images[0], values[0]


@torch.no_grad()
def example(data: Splits, training: RankingTraining, result: RankingResult) -> dict[str, Any]:
    """The scores of the list of the picture."""
    images, values = example_list(data, training.settings.n)
    scores = result.model(images.to(training.device))
    return {"values": values.tolist(), "scores": scores.tolist()}


def table(methods: Sequence[Method], args: argparse.Namespace, found: dict[str, Any]) -> str:
    """EM (EW) [EM5], as Table 2.1 of the thesis."""
    rows = [["method", *(f"n = {n}" for n in args.n)]]
    for method in methods:
        cells = []
        for n in args.n:
            runs = [found[name_of(method, n, seed)]["test"] for seed in script.seeds_of(args)]
            em, ew, em5 = (mean(run[key] for run in runs) for key in ("em", "ew", "em5"))
            cells.append(f"{em:.3f} ({ew:.3f}) [{em5:.3f}]")
        rows.append([method.text, *cells])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    steps = next(iter(found.values()))["step"]
    caption = (
        "exact matches (element-wise correct ranks) [exact matches of five]; "
        f"{steps} steps, mean of {args.runs} run(s)"
    )
    return "\n".join([lines[0], "| --- |" + " ---: |" * len(args.n), *lines[1:], "", caption, ""])


def draw(
    methods: Sequence[Method], args: argparse.Namespace, data: Splits, found: dict[str, Any]
) -> Any:
    """Validation EM over the steps, and a test list in the order of each method."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    longest = max(args.n)
    width = max(9.0, 1.5 * longest)
    figure: Any = Figure((width, 3.4 + 0.75 * (len(methods) + 1)), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=[3.4, 0.75 * (len(methods) + 1)])
    top.suptitle("Lists of n validation numbers in exactly the right order (mean of all runs)")
    panels = top.subplots(1, len(args.n), squeeze=False, sharey=True)[0]
    for ax, n in zip(panels, args.n, strict=True):
        for method in methods:
            runs = [found[name_of(method, n, seed)]["history"] for seed in script.seeds_of(args)]
            rows = [[row for row in run if "em" in row] for run in runs]
            steps = [row["step"] for row in rows[0]]
            means = [mean(run[i]["em"] for run in rows) for i in range(len(steps))]
            ax.plot(steps, means, marker="o", markersize=3, label=method.text)
        ax.set(title=f"n = {n}", xlabel="steps", ylim=(0, 1))
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    panels[0].set_ylabel("exact match")
    panels[-1].legend(fontsize=8)

    images, values = example_list(data, longest)
    bottom.suptitle(
        f"A list of {longest} test numbers as each network orders it, the smallest first; "
        "green: at its true rank"
    )
    truth = values.sort().values
    grid = bottom.subplots(len(methods), longest, squeeze=False)
    for row, method in zip(grid, methods, strict=True):
        shown = found[name_of(method, longest, args.seed)]["example"]["scores"]
        for rank, (ax, place) in enumerate(zip(row, torch.tensor(shown).argsort(), strict=True)):
            ax.imshow(images[place].movedim(0, -1).squeeze(-1).numpy(), cmap="gray_r")
            right = bool(values[place] == truth[rank])
            colour = "#2a7f3b" if right else "#b3261e"
            ax.set_title(str(int(values[place])), fontsize=8, color=colour, pad=2)
            ax.set(xticks=[], yticks=[])
            for spine in ax.spines.values():
                spine.set_color(colour)
        row[0].set_ylabel(
            method.text, fontsize=8, rotation=0, horizontalalignment="right",
            verticalalignment="center",
        )  # fmt: skip
    return figure


def run(args: argparse.Namespace) -> None:
    """The experiment, and its files."""
    device = script.device_of(args)
    script.set_threads(args)
    methods = [Method.parse(text) for text in args.methods]
    args.n = args.n or (LENGTHS[:1] if args.smoke else LENGTHS)
    plan = [
        (name_of(method, n, seed), settings_of(args, method, n, seed))
        for n in args.n for method in methods for seed in script.seeds_of(args)
    ]  # fmt: skip
    if len({name for name, _ in plan}) < len(plan):
        raise ValueError("a method or a length is named twice; name each once")
    for _, settings in plan:
        settings.sorter()  # says at once what is wrong with it
    data = script.digits_of(args)
    out = script.output_folder(args)
    trials = [
        Trial(name, partial(RankingTraining, settings, data, device), partial(example, data))
        for name, settings in plan
    ]
    found = run_trials(trials, out, resume=args.resume, save_every=args.save_every)
    text = table(methods, args, found)
    print(write_results(out, found, text, lambda: draw(methods, args, data, found), device))


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; returns the exit status."""
    return script.run_script(make_options(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
