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
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from gendr._runtime.files import writable_folder
from gendr.data import Splits, download_mnist, mnist_splits, svhn_splits
from gendr.experiments import script
from gendr.experiments.engine.store import software_version
from gendr.experiments.studies.ranking import RankingResult, RankingSettings, RankingTraining, train

CHECKPOINT, RESULTS, TENSORBOARD = "checkpoint.pt", "results.json", "tensorboard"
# What --smoke stands for. In minutes, many rough steps lead further than few smooth ones.
SMOKE = {"batch": 10, "evaluate_every": 100, "lists": 200, "test_lists": 1000}
SMOKE_MINUTES = 5.0


def make_options() -> argparse.ArgumentParser:
    """The options of the script."""
    parser = script.make_parser(__file__, __doc__)
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
    group.add_argument("--method", help="such as odd_even (default), bitonic, softsort")
    group.add_argument("--dist", help="of a sorting network (default: cauchy)")
    group.add_argument("--art", type=float, help="of a sorting network; published: 0.25")
    group.add_argument("--steepness", type=float, help="default: as published")
    group.add_argument(
        "--categorical",
        action="store_true",
        help="the cross-entropy as in (3.12) of the thesis, not the binary one of its code",
    )

    group = parser.add_argument_group("the training")
    group.add_argument("--steps", type=int, help="of Adam (default: 200,000)")
    group.add_argument("--batch", type=int, help="lists per step (default: 100)")
    group.add_argument("--learning-rate", type=float, help="of Adam (default: 10^-3.5)")
    group.add_argument("--evaluate-every", type=int, metavar="STEPS", help="default: 1000")
    group.add_argument("--lists", type=int, help="for an evaluation (default: 1000)")
    group.add_argument("--test-lists", type=int, help="for the test (default: 10,000)")
    script.add_seed(group)
    group.add_argument(
        "--smoke",
        action="store_true",
        help=f"small batches for {SMOKE_MINUTES:g} minutes of two cores",
    )

    group = parser.add_argument_group("how it runs")
    script.add_device(group)
    group.add_argument("--threads", type=int, help="of torch on the CPU")
    group.add_argument("--minutes", type=float, help="stop after them; --resume goes on")
    group.add_argument("--save-every", type=float, default=60.0, metavar="SECONDS")
    script.add_resume(group, "the checkpoint of -o")
    group.add_argument("--tensorboard", action="store_true", help="also write its files")
    script.add_output(group, "ranking")
    return parser


def settings_of(args: argparse.Namespace) -> RankingSettings:
    """The settings that were asked for."""
    names = ["n", "method", "dist", "art", "steepness", "steps", "batch", "learning_rate"]
    names += ["evaluate_every", "lists", "test_lists", "seed"]
    settings: dict[str, Any] = {"binary": not args.categorical, **(SMOKE if args.smoke else {})}
    return RankingSettings(**{**settings, **script.given(args, *names)})


def load(args: argparse.Namespace) -> Splits:
    """The data of the task."""
    folder = args.data or Path(os.environ.get("GENDR_DATA", "data")) / args.task
    if args.task == "svhn":
        return svhn_splits(folder)
    if args.download:
        download_mnist(writable_folder(folder, "--data"))
    try:
        return mnist_splits(folder)
    except FileNotFoundError as error:
        raise ValueError(f"{error}; name its folder with --data, or add --download") from None


@contextmanager
def _stoppable() -> Generator[Callable[[], None], None, None]:
    """A function that raises KeyboardInterrupt after Ctrl-C or SIGTERM, where it is safe to."""
    asked: list[int] = []
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, lambda received, _: asked.append(received))
    try:

        def check() -> None:
            if asked:
                raise KeyboardInterrupt

        yield check
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Board:
    """Writes the history to TensorBoard."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ValueError("--tensorboard needs it: pip install 'gendr[training]'") from None
        self._folder, self._make = folder, SummaryWriter
        self._writer: Any = None
        self._rows = 0

    def __enter__(self) -> _Board:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, training: RankingTraining) -> None:
        """What is new in the history."""
        if self._writer is None:  # from where it goes on, what was written before is void
            self._writer = self._make(str(self._folder), purge_step=training.step)
            self._rows = sum(row["step"] < training.step for row in training.history)
        for row in training.history[self._rows :]:
            for name, value in row.items():
                if name != "step":
                    self._writer.add_scalar(name, value, int(row["step"]))
        self._rows = len(training.history)


class _Bar:
    """Shows how far it is, and the last numbers of the history."""

    def __init__(self, steps: int | None, name: str) -> None:
        self._bar = tqdm(total=steps, desc=name, unit="step", dynamic_ncols=True)
        self._shown: dict[str, float] = {}
        self._is_first = True

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def write(self, training: RankingTraining) -> None:
        """After a step."""
        if self._is_first:  # what was done before does not count for the speed
            self._bar.initial = training.step - 1
            self._bar.n, self._is_first = training.step - 1, False
        row = training.history[-1] if training.history else {}
        new = {name: value for name, value in row.items() if name != "step"}
        if {**self._shown, **new} != self._shown:
            self._shown |= new
            text = {name: f"{value:.3f}" for name, value in self._shown.items()}
            self._bar.set_postfix(text, refresh=False)
        self._bar.update()


def table(result: RankingResult) -> str:
    """The metrics, for a human."""
    name = repr(result.sorter)
    return "\n".join(
        [
            f"{'method':{len(name)}}    n    steps  test EM | EW | EM5",
            f"{name}  {result.settings.n:3}  {result.step:7}  {result.test}",
        ]
    )


def run(args: argparse.Namespace) -> None:
    """The experiment, and its files."""
    clock = time.monotonic()
    device = script.device_of(args)
    settings = settings_of(args)
    if args.threads is not None:
        if args.threads < 1:
            raise ValueError(f"--threads must be >= 1, got {args.threads}")
        torch.set_num_threads(args.threads)
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
    with ExitStack() as stack:
        stop = stack.enter_context(_stoppable())
        # Where time runs out first, nobody wants to know how long all steps would take.
        bar = _Bar(None if minutes else settings.steps, f"{args.task} {settings.method}")
        writers: list[_Bar | _Board] = [stack.enter_context(bar)]
        if args.tensorboard:
            writers.append(stack.enter_context(_Board(out / TENSORBOARD)))

        def each_step(training: RankingTraining) -> None:
            for writer in writers:
                writer.write(training)
            stop()

        result = train(
            settings,
            data,
            device=device,
            checkpoint=out / CHECKPOINT,
            resume=args.resume,
            save_every=args.save_every,
            seconds=float("inf") if minutes is None else clock + 60 * minutes - time.monotonic(),
            callback=each_step,
        )
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; returns the exit status."""
    return script.run_script(make_options(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
