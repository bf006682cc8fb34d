"""Classify images with logic gate networks, and run them as circuits.

    python experiments/logic_images.py --data data/mnist -o logic_images
    python experiments/logic_images.py --images cifar10 --network medium --device cuda -o cifar
    python experiments/logic_images.py --network conv-small -o conv  trees of gates over images
    python experiments/logic_images.py --runs 10 -o ten --resume     go on after an interruption
    python experiments/logic_images.py --smoke                       seconds, on digits made for it

MNIST is binarised at half of its range, CIFAR-10 becomes 3 or 31 bits per colour. Networks are
those of the thesis by name; MNIST's "small" trains in less than an hour on one core. "conv-small"
is the convolutional network S of Petersen et al. 2024, whose published accuracy is that of the best
of several on a validation part, at batches of 512. Accuracies are those of the hardened networks,
on all test images.

The folder -o gets
    results.json    every run: settings, accuracy, size of the circuit, seconds, history
    table.md        accuracies as in Tables 6.4 and 6.5
    NAME-seed0/checkpoint.pt, result.json, tensorboard    of each training

Exit status: 0 if it went well, 2 for bad input, 130 after Ctrl-C.

Source: thesis, sections 6.4.3 and 6.4.4; Petersen et al., Convolutional Differentiable Logic Gate
Networks, NeurIPS 2024, section 5.2 and appendix A.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from statistics import mean, stdev
from typing import Any

from gendr.cli.command_line import count
from gendr.jobs.logic import Samples
from lab import script
from lab.data import MultiDigits, cifar10
from lab.pages import table
from lab.studies.logic_networks import NetworkSettings, NetworkTraining
from lab.trials import Found, run_trials

# By images and name: layers, gates per layer, tau, bits per number; Table 6.6.
NETWORKS = {
    "mnist": {
        "small": (6, 8_000, 10.0, 1),
        "normal": (6, 64_000, 100 / 3, 1),
        "conv-small": (3, 10_240, 6.5, 1),
    },
    "cifar10": {
        "small": (4, 12_000, 100 / 3, 3),
        "medium": (4, 128_000, 100.0, 3),
        "large": (5, 256_000, 100.0, 31),
        "large2": (5, 512_000, 100.0, 31),
        "large4": (5, 1_024_000, 100.0, 31),
    },
}
# Those that begin with convolutions: how many trees the first has.
KERNELS = {"conv-small": 16}
PUBLISHED = {
    ("mnist", "small"): 97.69, ("mnist", "normal"): 98.47, ("mnist", "conv-small"): 98.46,
    ("cifar10", "small"): 51.27, ("cifar10", "medium"): 57.39, ("cifar10", "large"): 60.78,
    ("cifar10", "large2"): 61.41, ("cifar10", "large4"): 62.14,
}  # fmt: skip
SMOKE = {"layers": 2, "width": 200, "steps": 6, "evaluate_every": 3}
NUMBERS = {
    "steps": "of Adam (default: 55,000, 100 epochs)",
    "batch": "images per step (default: 100)",
    "learning-rate": "of Adam (default: 0.01)",
    "evaluate-every": "steps (default: 1,000)",
    "decay": "the part of the steps, at the end, in which the rate falls to 0 (default: 0.2)",
    "weight-decay": "of the weights (default: 0)",
}
# As published, this many of the training images, the last ones, are for validation.
VALIDATION = 5000


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    group = parser.add_argument_group("the task")
    group.add_argument("--images", choices=tuple(NETWORKS), default="mnist")
    script.add_digits(group, "a small network and few steps")
    group.add_argument(
        "--network", default="small", metavar="NAME",
        help="small, normal, conv-small for MNIST; small, medium, large, large2, large4 for "
        "CIFAR-10",
    )  # fmt: skip
    script.add_runs(group)

    group = parser.add_argument_group("the training")
    for name, text in NUMBERS.items():
        of = count(1) if name in ("steps", "batch", "evaluate-every") else float
        group.add_argument(f"--{name}", type=of, help=text)
    group.add_argument("--init", choices=("residual", "normal"), help="default: residual")

    script.add_execution(parser, "logic_images")


def settings_of(args: argparse.Namespace, seed: int) -> NetworkSettings:
    """The settings of one training.

    Raises:
        ValueError: if there is no such network for these images.
    """
    networks = NETWORKS[args.images]
    if args.network not in networks:
        raise ValueError(f"--network for {args.images} must be one of {', '.join(networks)}")
    layers, width, tau, bits = networks[args.network]
    names = ["steps", "batch", "learning_rate", "decay", "weight_decay", "init", "evaluate_every"]
    values: dict[str, Any] = {
        "layers": layers, "width": width, "tau": tau, "steps": 55_000, "decay": 0.2,
        "kernels": KERNELS.get(args.network, 0) // (8 if args.smoke else 1),
        "thresholds": tuple(255 * (k + 1) / (bits + 1) for k in range(bits)),
        **(SMOKE if args.smoke else {}), **script.given(args, *names),
    }  # fmt: skip
    return NetworkSettings(seed=seed, **values)


def samples_of(args: argparse.Namespace) -> tuple[Samples, Samples, Samples]:
    """Images to train, to validate and to test."""
    if args.images == "mnist":
        digits = script.digits_of(args)
        parts = [part for part in digits if isinstance(part, MultiDigits)]
        train, validation, test = (Samples.of_images(part.images, part.labels) for part in parts)
        return train, validation, test
    folder = args.data or script.data_folder("cifar10")
    try:
        images, labels = cifar10(folder, "train")
        test = cifar10(folder, "test")
    except FileNotFoundError as error:
        raise ValueError(f"{error}; name its folder with --data") from None
    return (
        Samples.of_images(images[:-VALIDATION], labels[:-VALIDATION]),
        Samples.of_images(images[-VALIDATION:], labels[-VALIDATION:]),
        Samples.of_images(*test),
    )


def scores(args: argparse.Namespace, found: Found) -> list[str]:
    """The rows of Table 6.4 or 6.5 that were run."""
    runs = list(found.values())
    percent = [100 * run["accuracy"] for run in runs]
    spread = f" ± {stdev(percent):.2f}" if len(percent) > 1 else ""
    published = PUBLISHED[args.images, args.network]
    head = ["network", "accuracy", "published", "gates", "minutes of training"]
    minutes = mean(run["seconds"] for run in runs) / 60
    row = [f"{args.images}, {args.network}", f"{mean(percent):.2f}%{spread}", f"{published:.2f}%"]
    lines = table(head, [[*row, f"{runs[0]['gates']:,}", f"{minutes:.1f}"]], 1)
    return [*lines, "", f"{len(runs)} run(s) of {runs[0]['step']:,} steps"]


def run(args: argparse.Namespace) -> None:
    """The experiment, and its files."""
    plan = [
        (f"{args.images}-{args.network}-seed{s}", settings_of(args, s))
        for s in script.seeds_of(args)
    ]
    run_trials(
        args, plan, samples_of(args),
        lambda settings, data, device: NetworkTraining(settings, *data, device),
        partial(scores, args),
    )  # fmt: skip


main = script.program(__file__, __doc__, add_options, run)


if __name__ == "__main__":
    sys.exit(main())
