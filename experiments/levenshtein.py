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
    picture.png     accuracy beside chance; a pair of test strings and what each method reads
    METHOD-01-seed0/checkpoint.pt, result.json, tensorboard    of each training

Exit status: 0 if it went well, 2 for bad input, 130 after Ctrl-C.

Source: thesis, section 2.6.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from statistics import mean
from typing import Any

import torch

from gendr._runtime.command_line import count
from gendr.data import Splits
from lab import script
from lab.studies.edit_distance import (
    METHODS,
    EditResult,
    EditSettings,
    EditTraining,
    matched,
    true_distances,
)
from lab.trials import Trial, run_trials, write_results

# The published pairs of neighbours AB .. EF, the hardest pair, and two alphabets of four.
ALPHABETS = ("01", "12", "23", "34", "45", "49", "0123", "3589")
SMOKE = {"steps": 4, "batch": 2, "length": 8, "evaluate_every": 2, "images": 50}
# The strings of the picture are drawn with this seed.
EXAMPLE_SEED = 3


def make_options() -> argparse.ArgumentParser:
    """The options of the script."""
    parser = script.make_parser(__file__, __doc__)
    group = parser.add_argument_group("the task")
    script.add_digits(group, "few steps with short strings")
    group.add_argument(
        "--alphabets", nargs="+", metavar="DIGITS",
        help=f"each of two digits or more (default: {' '.join(ALPHABETS)}; with --smoke 01)",
    )  # fmt: skip
    group.add_argument("--length", type=count(4), help="of the strings (default: 32)")
    group.add_argument("--methods", nargs="+", choices=METHODS, default=tuple(METHODS))
    script.add_runs(group)

    group = parser.add_argument_group("the training")
    group.add_argument("--dist", help="the law of the relaxed minimum (default: logistic)")
    group.add_argument("--steepness", type=float, help="1 / scale of the law (default: 9)")
    script.add_training(
        group, steps="512", batch="pairs of strings per step (default: 16)",
        rate="of Adam (default: 10^-4)", every="64",
    )  # fmt: skip
    group.add_argument("--images", type=count(1), help="for an evaluation (default: 1000)")

    script.add_execution(parser, "levenshtein")
    return parser


def digits_in_word(word: str) -> tuple[int, ...]:
    """The alphabet that a word such as 0123 names."""
    digits = tuple(int(letter) for letter in word if letter in "0123456789")
    if len(digits) < max(2, len(word)) or len(set(digits)) < len(digits):
        raise ValueError(
            f"an alphabet must be two different digits or more, such as 0123, got {word!r}"
        )
    return digits


def settings_of(args: argparse.Namespace, method: str, word: str, seed: int) -> EditSettings:
    """The settings of one training."""
    names = ["length", "dist", "steepness", "steps", "batch", "learning_rate"]
    names += ["evaluate_every", "images"]
    values: dict[str, Any] = {**(SMOKE if args.smoke else {}), **script.given(args, *names)}
    return EditSettings(alphabet=digits_in_word(word), method=method, seed=seed, **values)


def name_of(method: str, word: str, seed: int) -> str:
    """The folder of a training."""
    return f"{method}-{word}-seed{seed}"


@torch.no_grad()
def example(training: EditTraining, result: EditResult) -> dict[str, Any]:
    """A pair of test strings, what the network reads, and the distances."""
    generator = torch.Generator().manual_seed(EXAMPLE_SEED)
    images, symbols = training.test.to("cpu").draw(1, training.settings.length, generator)
    images = images.to(training.device)
    digits = torch.tensor(training.settings.alphabet)
    classes = result.model(images).argmax(-1).cpu()
    return {
        "images": (255 * images[:, 0, :, 0]).round().byte().tolist(),
        "shown": digits[symbols[:, 0]].tolist(),
        "read": digits[matched(result.confusion)[classes[:, 0]]].tolist(),
        "true_distance": round(float(true_distances(symbols))),
        "distance": float(training.distances(images)),
    }


def table(args: argparse.Namespace, found: dict[str, Any]) -> str:
    """Accuracy and F1, as Table 2.4 of the thesis."""
    seeds = script.seeds_of(args)
    lines = [
        f"| method | score | {' | '.join(args.alphabets)} |",
        "| --- | --- |" + " ---: |" * len(args.alphabets),
    ]
    for method in args.methods:
        for key, label in (("accuracy", "top-1 accuracy"), ("f1", "F1")):
            cells = [
                f"{mean(found[name_of(method, word, s)]['test'][key] for s in seeds):.3f}"
                for word in args.alphabets
            ]
            lines.append(f"| {method} | {label} | {' | '.join(cells)} |")
    first = next(iter(found.values()))
    caption = (
        f"{first['step']} steps of {first['settings']['batch']} pairs of strings of "
        f"{first['settings']['length']}, mean of {args.runs} run(s)"
    )
    return "\n".join([*lines, "", caption, ""])


def draw(args: argparse.Namespace, found: dict[str, Any]) -> Any:
    """Accuracy beside chance, and a pair of test strings with what each method reads."""
    from matplotlib.figure import Figure

    shown = [found[name_of(method, args.alphabets[0], args.seed)] for method in args.methods]
    figure: Any = Figure((11, 3.2 + 1.7 * len(shown)), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=[3.2, 1.7 * len(shown)])
    ax = top.subplots()
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

    bottom.suptitle(
        f"A pair of test strings over {args.alphabets[0]}; below each image what the network reads "
        "(red: wrong)"
    )
    panels = bottom.subplots(len(shown), 1, squeeze=False)[:, 0]
    for ax, method, one in zip(panels, args.methods, shown, strict=True):
        _draw_pair(ax, METHODS[method], one["example"])
    return figure


def _draw_pair(ax: Any, name: str, pair: dict[str, Any]) -> None:
    """Two strings below each other, with what is read."""
    images = torch.tensor(pair["images"], dtype=torch.uint8)  # [2, n, H, W]
    _, n, height, width = images.shape
    step = height * 1.6
    for row in range(2):
        strip = images[row].movedim(0, 1).reshape(height, n * width).numpy()
        top = row * step
        ax.imshow(strip, cmap="gray_r", extent=(0, n * width, top + height, top), vmin=0, vmax=255)
        for i, (digit, read) in enumerate(zip(pair["shown"][row], pair["read"][row], strict=True)):
            ax.text(
                (i + 0.5) * width, top + 1.28 * height, str(read), fontsize=8,
                color="#222222" if read == digit else "#c62828",
                horizontalalignment="center", verticalalignment="center",
            )  # fmt: skip
    ax.set(xlim=(0, n * width), ylim=(2 * step, 0), xticks=[], yticks=[])
    ax.set_title(
        f"{name}: {pair['distance']:.2f}; true edit distance {pair['true_distance']}", fontsize=9
    )
    ax.set_frame_on(False)


def run(args: argparse.Namespace) -> None:
    """The experiment, and its files."""
    device = script.device_of(args)
    script.set_threads(args)
    args.alphabets = args.alphabets or (ALPHABETS[:1] if args.smoke else ALPHABETS)
    plan = [
        (name_of(method, word, seed), settings_of(args, method, word, seed))
        for word in args.alphabets for method in args.methods for seed in script.seeds_of(args)
    ]  # fmt: skip
    if len({name for name, _ in plan}) < len(plan):
        raise ValueError("a method or an alphabet is named twice; name each once")
    data: Splits = script.digits_of(args)
    out = script.output_folder(args)
    trials = [
        Trial(name, partial(EditTraining, settings, data, device), example)
        for name, settings in plan
    ]
    found = run_trials(trials, out, resume=args.resume, save_every=args.save_every)
    text = table(args, found)
    print(write_results(out, found, text, lambda: draw(args, found), device))


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; returns the exit status."""
    return script.run_script(make_options(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
