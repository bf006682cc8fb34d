r"""Learn to read four-digit numbers from nothing but their order; Tables 3.3 and 3.7 of the thesis.

    python experiments/sorting_mnist.py --data data/mnist --download --smoke      # five minutes
    python experiments/sorting_mnist.py -n 9 --dist optimal --device cuda -o runs/optimal-9
    python experiments/sorting_mnist.py -n 16 --method bitonic --dist logistic --art 0.25
    python experiments/sorting_mnist.py -n 5 --method permutahedron --steepness 1
    python experiments/sorting_mnist.py -n 9 --dist optimal --device cuda -o runs/optimal-9 --resume

Prints the metrics on numbers that were not seen: EM, the lists of n that come out exactly right,
EW, the elements whose rank is right, and EM5, the lists of five that come out exactly right. The
folder -o gets

    results.json    settings, metrics, history
    checkpoint.pt   what --resume goes on from; a kill costs what came after it
    tensorboard/    with --tensorboard

Exit status: 0 if it went well, 2 for bad input, 130 after Ctrl-C.

Source: thesis, section 3.5.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch

from gendr.jobs.training import drive
from lab import script
from lab.data import Splits, svhn_splits
from lab.engine.store import software_version
from lab.session import TrainingSession, has_tensorboard
from lab.studies.ranking import Metrics, RankingSettings, RankingTraining
from lab.studies.training import StudyResult

CHECKPOINT, RESULTS, TENSORBOARD = "checkpoint.pt", "results.json", "tensorboard"
# What --smoke stands for. In minutes, many rough steps lead further than few smooth ones.
SMOKE = {"batch": 10, "evaluate_every": 100, "lists": 200, "test_lists": 1000}
SMOKE_MINUTES = 5.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    group = parser.add_argument_group("the task")
    group.add_argument("--task", choices=("mnist", "svhn"), default="mnist")
    group.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="that has the files; default: mnist or svhn in $GENDR_DATA, or in the folder data",
    )
    group.add_argument("--download", action="store_true", help="get MNIST if it is not there")
    group.add_argument("-n", type=int, help="length of the lists (default: 5)")

    group = parser.add_argument_group("the method")
    group.add_argument("--method", help="such as odd_even (default), bitonic, bubble_sort")
    group.add_argument("--dist", help="of a network (default: cauchy) or of bubble_sort")
    group.add_argument("--art", type=float, help="of a sorting network; published: 0.25")
    group.add_argument("--steepness", type=float, help="default: as published")
    group.add_argument(
        "--categorical",
        action="store_true",
        help="the cross-entropy as in (3.12) of the thesis, not the binary one of its code",
    )

    script.add_settings(parser, RankingSettings, "the training")
    group = parser.add_argument_group("the session")
    script.add_seed(group)
    group.add_argument(
        "--smoke",
        action="store_true",
        help=f"small batches for {SMOKE_MINUTES:g} minutes of two cores",
    )

    group = script.add_execution(parser, "ranking", "the checkpoint of -o")
    group.add_argument("--minutes", type=float, help="stop after them; --resume goes on")
    group.add_argument("--tensorboard", action="store_true", help="also write its files")


def settings_of(args: argparse.Namespace) -> RankingSettings:
    """The settings that were asked for."""
    return script.settings_of(
        args, RankingSettings, SMOKE if args.smoke else {}, binary=not args.categorical,
        seed=args.seed, **script.given(args, "n", "method", "dist", "art", "steepness"),
    )  # fmt: skip


def load(args: argparse.Namespace) -> Splits:
    """The data of the task."""
    folder = args.data or script.data_folder(args.task)
    if args.task == "svhn":
        return svhn_splits(folder)
    return script.digits_in(folder, download=args.download)


def table(result: StudyResult) -> str:
    """The metrics, for a human."""
    name, metrics = result.more["sorter"], Metrics(**result.test)
    return "\n".join(
        [
            f"{'method':{len(name)}}    n    steps  test EM | EW | EM5",
            f"{name}  {result.settings.n:3}  {result.step:7}  {metrics}",
        ]
    )


def run(args: argparse.Namespace) -> None:
    """The experiment, and its files."""
    clock = time.monotonic()
    device = script.device_of(args)
    settings = settings_of(args)
    minutes = args.minutes if args.minutes is not None or not args.smoke else SMOKE_MINUTES
    if minutes is not None and not minutes > 0:
        raise ValueError(f"--minutes must be > 0, got {minutes:g}")
    torch.manual_seed(settings.seed)  # of what a method may draw
    data = load(args)
    out = script.output_folder(args)
    if not args.resume and (out / CHECKPOINT).exists():
        raise ValueError(
            f"{out} has a training already; go on with --resume, or name another folder with -o"
        )
    # Where time runs out first, nobody wants to know how long all steps would take.
    steps = None if minutes else settings.steps
    board = out / TENSORBOARD if args.tensorboard else None
    if args.tensorboard and not has_tensorboard():
        raise ValueError("--tensorboard needs it: pip install '.[training]' in the repository")
    with TrainingSession(f"{args.task} {settings.method}", steps, curves=board) as session:
        training = RankingTraining(settings, data, device)
        drive(
            training,
            checkpoint=out / CHECKPOINT,
            resume=args.resume,
            save_every=args.save_every,
            seconds=float("inf") if minutes is None else clock + 60 * minutes - time.monotonic(),
            callback=session.each_step,
        )
    result = training.result()
    values = {
        "task": args.task,
        **result.describe(),
        "finished": result.step >= settings.steps,
        "device": str(device),
        "threads": torch.get_num_threads(),
        "version": software_version(),
    }
    script.write_json(out / RESULTS, values)
    print(table(result))
    print(f"{out}: {RESULTS}, {CHECKPOINT}")


main = script.program(__file__, __doc__, add_options, run)


if __name__ == "__main__":
    sys.exit(main())
