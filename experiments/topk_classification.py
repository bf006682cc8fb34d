r"""Train classifiers with top-k losses, k drawn from P_K; Tables 4.1 to 4.3.

    python experiments/topk_classification.py --smoke                     # seconds, no data
    python experiments/topk_classification.py --embeddings features.npz   # a linear head
    python experiments/topk_classification.py --cifar data --download --device cuda --steps 90000
    python experiments/topk_classification.py --meshes shapes --runs 5 -o topk-silhouettes

The data are stored embeddings (an npz file with `features` [N, D] and `labels` [N]), CIFAR-100 in
its binary format, or a folder with npz files of meshes, one a class, of which silhouettes from
random sides are rendered first. A row of the table is a loss: `softmax`, `svm` (the smooth top-5
SVM), or a method and P_K such as `splitter:.5,0,0,0,.5`, with `@STEEPNESS` behind it if wanted.
The weights with the best top-1 + top-5 accuracy on the validation part are tested. The folder -o
gets

    table.md        test accuracy among the first 1 .. 5, mean and standard deviation over runs
    results.json    settings, accuracies and histories of all trainings
    picture.png     top-1 against top-5 accuracy of all losses
    LOSS-seed0/checkpoint.pt, result.json, tensorboard    of each training

Exit status: 0 if it went well, 2 for bad input, 130 after Ctrl-C.

Source: thesis, section 4.4; Petersen et al., Differentiable Top-k Classification Learning (ICML
2022), section 5.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from gendr.cli.command_line import count
from lab import script
from lab.data import Examples, ExampleSplits, cifar100_splits, download_cifar100, read_embeddings
from lab.data.examples import split_by_group
from lab.pages import table as markdown
from lab.studies.classification import (
    LOSSES,
    PLACES,
    ClassificationSettings,
    ClassificationTraining,
)
from lab.studies.silhouettes import silhouette_splits
from lab.trials import Found, run_trials

# The rows: the baselines, the P_K of Tables 2 to 4 of the paper, and the other methods.
ROWS = (
    "softmax", "svm", "splitter:0,0,0,0,1", "splitter:.5,0,0,0,.5", "splitter:.25,0,0,0,.75",
    "splitter:.1,0,0,0,.9", "splitter:.2,.2,.2,.2,.2", "neuralsort:.2,.2,.2,.2,.2",
    "softsort:.2,.2,.2,.2,.2", "sinkhorn:.2,.2,.2,.2,.2",
)  # fmt: skip
SMOKE = {"steps": 4, "batch": 10, "evaluate_every": 2}
CACHE = "silhouettes.npz"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    group = parser.add_argument_group("the data, one of")
    group.add_argument("--embeddings", type=Path, metavar="NPZ")
    group.add_argument("--cifar", type=Path, metavar="FOLDER", help="with CIFAR-100")
    group.add_argument("--meshes", type=Path, metavar="FOLDER", help="an npz file for each class")
    group.add_argument("--smoke", action="store_true", help="few steps on points made for it")
    group.add_argument("--download", action="store_true", help="get CIFAR-100 if it is not there")
    group.add_argument("--views", type=count(1), default=8, help="of each mesh (default: 8)")
    group.add_argument("--size", type=count(8), default=32, help="of silhouettes (default: 32)")

    group = parser.add_argument_group("the losses")
    group.add_argument("--losses", nargs="+", default=ROWS, metavar="LOSS[:P_K][@STEEPNESS]")
    script.add_runs(group)
    script.add_settings(parser, ClassificationSettings, "the training")
    script.add_execution(parser, "topk_classification")


def parsed(text: str) -> dict[str, Any]:
    """The settings that a row names.

    Raises:
        ValueError: if it is no row.
    """
    match = re.fullmatch(r"(\w+)(?::([\d.,e-]+))?(?:@([\d.e-]+))?", text)
    if not match or match[1] not in LOSSES:
        raise ValueError(
            f"a loss must be one of {', '.join(LOSSES)}, with P_K and steepness if wanted, such as "
            f"splitter:.5,0,0,0,.5@2, got {text!r}"
        )
    try:
        values: dict[str, Any] = {"loss": match[1]}
        if match[2]:
            values["p_k"] = tuple(float(word) for word in match[2].split(","))
        if match[3]:
            values["steepness"] = float(match[3])
    except ValueError:
        raise ValueError(f"P_K and steepness must be numbers, got {text!r}") from None
    return values


def name_of(text: str, seed: int) -> str:
    """The folder of a training."""
    return f"{re.sub('[^a-z0-9.,@]', '-', text)}-seed{seed}"


def made_points() -> ExampleSplits:
    """Points of 8 overlapping classes, for --smoke."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(400) % 8
    features = 0.5 * torch.eye(8)[labels] + torch.randn(400, 8, generator=generator)
    return split_by_group(Examples(features, labels, 8), torch.arange(400))


def data_of(args: argparse.Namespace) -> ExampleSplits:
    """The data that were asked for.

    Raises:
        ValueError: if none or several were named, or something is missing or damaged.
    """
    named = [x for x in (args.embeddings, args.cifar, args.meshes) if x is not None]
    if len(named) != (0 if args.smoke else 1):
        raise ValueError("name the data with one of --embeddings, --cifar, --meshes and --smoke")
    try:
        if args.embeddings:
            return read_embeddings(args.embeddings)
        if args.cifar:
            if args.download:
                download_cifar100(args.cifar)
            return cifar100_splits(args.cifar)
    except FileNotFoundError as error:
        raise ValueError(str(error)) from None
    if args.meshes:
        cache = script.output_folder(args) / CACHE
        return silhouette_splits(args.meshes, args.views, args.size, cache=cache)
    return made_points()


def accuracies(args: argparse.Namespace, found: Found, text: str) -> list[list[float]]:
    """The accuracies of the runs of a row, in percent, for every place."""
    runs = [found[name_of(text, seed)]["test"] for seed in script.seeds_of(args)]
    return [[100 * run[k] for run in runs] for k in range(len(PLACES))]


def cell(values: Sequence[float]) -> str:
    """Mean and standard deviation."""
    return f"{mean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")


def table(args: argparse.Namespace, data: ExampleSplits, found: Found) -> list[str]:
    """Accuracies by loss, as Tables 4.1 to 4.3 of the thesis."""
    rows = [[text, *map(cell, accuracies(args, found, text))] for text in args.losses]
    first = next(iter(found.values()))
    sizes = " / ".join(str(len(part.labels)) for part in data)
    caption = (
        f"Accuracy on test data in percent; {data.train.classes} classes, {sizes} examples to "
        f"train, validate and test; {first['step']} steps of {first['settings']['batch']}, "
        f"{args.runs} run(s): mean ± standard deviation"
    )
    return [*markdown(["loss", *(f"top {k}" for k in PLACES)], rows, 1), "", caption]


def draw(args: argparse.Namespace, found: Found) -> Any:
    """Top-1 against top-5 accuracy, a point for each loss, with the spread of its runs."""
    from matplotlib.figure import Figure

    figure: Any = Figure((8, 5), layout="constrained")
    ax = figure.add_subplot()
    for text in args.losses:
        by_place = accuracies(args, found, text)
        first, last = by_place[0], by_place[-1]
        spread = [stdev(v) / len(v) ** 0.5 if len(v) > 1 else 0.0 for v in (first, last)]
        ax.errorbar(
            mean(first), mean(last), spread[1], spread[0], "o" if ":" in text else "s",
            label=text, capsize=2,
        )  # fmt: skip
    ax.set(xlabel="top-1 accuracy, %", ylabel="top-5 accuracy, %", title="Bars: standard errors")
    ax.legend(fontsize=8)
    return figure


def run(args: argparse.Namespace) -> None:
    """The experiment, and its files."""
    small = SMOKE if args.smoke else {}
    plan = [
        (
            name_of(text, seed),
            script.settings_of(args, ClassificationSettings, small, **parsed(text), seed=seed),
        )
        for text in args.losses
        for seed in script.seeds_of(args)
    ]
    data = data_of(args)
    run_trials(
        args, plan, data, ClassificationTraining, partial(table, args, data), partial(draw, args)
    )


main = script.program(__file__, __doc__, add_options, run)


if __name__ == "__main__":
    sys.exit(main())
