r"""Learn to tell symbols apart from nothing but the edit distance of strings; Table 2.4.

    python experiments/levenshtein.py --smoke                                # seconds, no data
    python experiments/levenshtein.py --data data/mnist --download --alphabets 01 49 0123
    python experiments/levenshtein.py --device cuda --runs 10 --batch 64 -o runs/levenshtein

Pairs of strings of 32 images of digits, in place of letters, of which the second string comes from
the first by 2 to 4 deletions and insertions. A network gives every image a distribution over the
alphabet. It is trained so that the relaxed edit distance of the two strings is the true one; the
baseline, l1, has the sum of |differences| at equal places instead. Classes are matched with digits
so that most test images are right (Hungarian matching). The folder -o gets

    table.md        top-1 accuracy and F1 by method and alphabet, the mean over runs
    results.json    settings, scores, confusion matrices and histories of all trainings
    picture.png     accuracy beside chance
    METHOD-01-seed0/checkpoint.pt, result.json, tensorboard    of each training

Exit status: 0 if it went well, 2 for bad input, 130 after Ctrl-C.

Source: thesis, section 2.6.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from statistics import mean
from typing import Any

from lab import script
from lab.pages import table as markdown
from lab.studies.edit_distance import (
    METHODS,
    EditSettings,
    EditTraining,
)
from lab.trials import Found, run_trials

# The published pairs of neighbours AB .. EF, the hardest pair, and two alphabets of four.
ALPHABETS = ("01", "12", "23", "34", "45", "49", "0123", "3589")
SMOKE = {"steps": 4, "batch": 2, "length": 8, "evaluate_every": 2, "images": 50}


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    group = parser.add_argument_group("the task")
    script.add_digits(group, "few steps with short strings")
    group.add_argument(
        "--alphabets", nargs="+", metavar="DIGITS",
        help=f"each of two digits or more (default: {' '.join(ALPHABETS)}; with --smoke 01)",
    )  # fmt: skip
    group.add_argument("--methods", nargs="+", choices=METHODS, default=tuple(METHODS))
    script.add_runs(group)
    script.add_settings(parser, EditSettings, "the training")
    script.add_execution(parser, "levenshtein")


def digits_in_word(word: str) -> tuple[int, ...]:
    """The alphabet that a word such as 0123 names."""
    digits = tuple(int(letter) for letter in word if letter in "0123456789")
    if len(digits) < max(2, len(word)) or len(set(digits)) < len(digits):
        raise ValueError(
            f"an alphabet must be two different digits or more, such as 0123, got {word!r}"
        )
    return digits


def name_of(method: str, word: str, seed: int) -> str:
    """The folder of a training."""
    return f"{method}-{word}-seed{seed}"


def table(args: argparse.Namespace, found: Found) -> list[str]:
    """Accuracy and F1, as Table 2.4 of the thesis."""
    seeds = script.seeds_of(args)

    def score(method: str, word: str, key: str) -> str:
        return f"{mean(found[name_of(method, word, s)]['test'][key] for s in seeds):.3f}"

    rows = [
        [method, label, *(score(method, word, key) for word in args.alphabets)]
        for method in args.methods
        for key, label in (("accuracy", "top-1 accuracy"), ("f1", "F1"))
    ]
    first = next(iter(found.values()))
    caption = (
        f"{first['step']} steps of {first['settings']['batch']} pairs of strings of "
        f"{first['settings']['length']}, mean of {args.runs} run(s)"
    )
    return [*markdown(["method", "score", *args.alphabets], rows, 2), "", caption]


def draw(args: argparse.Namespace, found: Found) -> Any:
    """Accuracy beside chance."""
    from matplotlib.figure import Figure

    figure: Any = Figure((11, 3.2), layout="constrained")
    ax = figure.add_subplot()
    wide = 0.8 / len(args.methods)
    for k, method in enumerate(args.methods):
        runs = [
            [found[name_of(method, word, s)]["test"]["accuracy"] for s in script.seeds_of(args)]
            for word in args.alphabets
        ]
        places = [i + (k - (len(args.methods) - 1) / 2) * wide for i in range(len(runs))]
        bars = ax.bar(places, [mean(each) for each in runs], wide * 0.92, label=METHODS[method])
        ax.bar_label(bars, fmt="%.2f", fontsize=7)
        for place, each in zip(places, runs, strict=True):
            ax.plot([place] * len(each), each, ".", color="black", markersize=3)
    for i, word in enumerate(args.alphabets):
        label = "chance, at equal frequency" if i == 0 else None
        ax.plot([i - 0.45, i + 0.45], [1 / len(word)] * 2, "--", color="#666666", label=label)
    ax.set_xticks(range(len(args.alphabets)), args.alphabets)
    ax.set(
        ylim=(0, 1.15), xlabel="alphabet", ylabel="top-1 accuracy",
        title="Test images classified correctly, classes matched with digits (dots: single runs)",
    )  # fmt: skip
    ax.legend(fontsize=8, ncols=3, loc="upper right")
    return figure


def run(args: argparse.Namespace) -> None:
    """The experiment, and its files."""
    args.alphabets = args.alphabets or (ALPHABETS[:1] if args.smoke else ALPHABETS)
    small = SMOKE if args.smoke else {}
    plan = [
        (
            name_of(method, word, seed),
            script.settings_of(
                args, EditSettings, small, alphabet=digits_in_word(word), method=method, seed=seed
            ),
        )
        for word in args.alphabets for method in args.methods for seed in script.seeds_of(args)
    ]  # fmt: skip
    data = script.digits_of(args)
    run_trials(args, plan, data, EditTraining, partial(table, args), partial(draw, args))


main = script.program(__file__, __doc__, add_options, run)


if __name__ == "__main__":
    sys.exit(main())
