"""What the scripts in the repository's folder experiments have in common.

A script says which options it has and what it does with them, and gets the behaviour of all:

    def add_options(parser):
        script.add_renderer(parser)
        script.add_output(parser, "shape")

    def run(args): ...

    main = script.program(__file__, __doc__, add_options, run)

    if __name__ == "__main__":
        sys.exit(main())

How a script ends is said in `gendr/cli/command_line.py`. Nothing here imports torch before it
is needed, so that --help is instant.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from gendr._common.files import write_whole
from gendr.cli import command_line
from gendr.cli.command_line import Parser, count, run_program
from gendr.jobs.folders import writable_folder
from lab import PROTOCOLS

if TYPE_CHECKING:
    import torch

    from lab.data import Splits, TerrainSplits
    from lab.engine.tasks import Outcome, Task

ROOT = Path(__file__).resolve().parents[2]
# The meshes of the repository's folder assets that a task has if none is named.
TARGETS = {"shape": "airplane.obj", "pose": "teapot.obj"}
# Of generated maps: cells of a side, for training, and for validation as well as for the test.
GENERATED, GENERATED_SMOKE = (12, 10_000, 1000), (6, 40, 10)

Options: TypeAlias = "argparse._ActionsContainer"  # a parser, or a group of its options
SettingsT = TypeVar("SettingsT")


# ---------------------------------------------------------------------------------------------
# options


def add_target(options: Options, task: str) -> None:
    """The argument `target`, a mesh file; by default the mesh of a task, see `default_target`."""
    default = default_target(task)
    options.add_argument("target", nargs="?", type=Path, default=default, help="a mesh file")


def add_task(options: Options) -> None:
    """The argument `task` and --target; `task_of` makes the task, see `add_protocol`."""
    options.add_argument("task", choices=tuple(TARGETS))
    options.add_argument("--target", metavar="MESH", help="default: the airplane, the teapot")


def add_patterns(options: Options) -> None:
    """--dist and --tconorm, of which `lab.engine.grid.select` chooses renderers."""
    for name, text in (
        ("dist", "distributions, such as gamma, 'gamma*.squared', logistic; default: all 54"),
        ("tconorm", "T-conorms, such as yager, 'yager(p=2)', max; default: all 23"),
    ):
        options.add_argument(f"--{name}", nargs="+", default=[], metavar="PATTERN", help=text)


def add_renderer(options: Options) -> None:
    """--dist and --tconorm, one renderer of the family."""
    options.add_argument("--dist", default="logistic", help="a distribution, see `gendr list`")
    options.add_argument("--tconorm", default="probabilistic", help="a T-conorm")


def add_protocol(options: Options) -> None:
    """--protocol, at which a task is done."""
    options.add_argument(
        "--protocol",
        choices=PROTOCOLS,
        default=PROTOCOLS[0],
        help="reduced, for two cores and an hour or two (default), or as published, for a GPU",
    )


def add_seed(options: Options) -> None:
    """--seed, of all that is drawn at random."""
    options.add_argument(
        "--seed", type=count(0), default=0, metavar="N", help="of random draws (default: 0)"
    )


def add_device(options: Options) -> None:
    """--device; `device_of` checks it."""
    options.add_argument("--device", default="cpu", help="such as cpu or cuda")


def add_digits(options: Options, smoke: str) -> None:
    """--data, --download and --smoke; `digits_of` reads them.

    Args:
        options: What they are added to.
        smoke: What --smoke makes small.
    """
    options.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="with the files of MNIST; default: mnist in $GENDR_DATA, or in the folder data",
    )
    options.add_argument("--download", action="store_true", help="get MNIST if it is not there")
    options.add_argument(
        "--smoke",
        action="store_true",
        help=f"{smoke}; without --data, on digits of seven segments that are made for it",
    )


def add_terrain(options: Options) -> None:
    """--data, --smoke, --size and --training-maps; `terrain_of` reads them."""
    options.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="with the Warcraft files, such as 12x12/train_maps.npy (default: generated maps)",
    )
    options.add_argument("--smoke", action="store_true", help="few steps with few small maps")
    options.add_argument("--size", type=count(2), help="cells of a side (default: 12; --smoke: 6)")
    options.add_argument(
        "--training-maps", type=count(4), metavar="N", help="to generate (default: 10,000)"
    )


def add_threads(options: Options) -> None:
    """--threads, of torch; `device_of` sets them."""
    options.add_argument("--threads", type=int, help="of torch on the CPU")


def add_resume(options: Options, what: str) -> None:
    """--resume; after an interruption `program` points to it.

    Args:
        options: What it is added to.
        what: It goes on with, such as "the checkpoint of -o".
    """
    options.add_argument("--resume", action="store_true", help=f"go on with {what}")


def add_output(options: Options, default: str) -> None:
    """-o, the folder of all files; `output_folder` makes it."""
    options.add_argument(
        "-o",
        "--output",
        default=default,
        type=Path,
        metavar="FOLDER",
        help=f"that the files are written to (default: {default})",
    )


def add_runs(options: Options, default: int | None = 1) -> None:
    """--runs and --seed; `seeds_of` gives the seeds that they have."""
    options.add_argument(
        "--runs", type=count(1), default=default, help="of each, with --seed and on"
    )
    add_seed(options)


def options_of(settings: type) -> list[str]:
    """The names of the fields of settings that are options."""
    return [each.name for each in fields(settings) if "arguments" in each.metadata]


def add_settings(parser: argparse.ArgumentParser, settings: type, title: str) -> None:
    """A group with the options of settings, None where they are not given; see `settings_of`."""
    names = options_of(settings)
    command_line.add_options(parser, settings, {title: " ".join(names)})
    for action in parser._actions:
        if action.dest in names:
            if action.default is not None:
                shown = action.default if isinstance(action.default, str) else f"{action.default:g}"
                action.help = f"{action.help} (default: {shown})"
            action.default = None


def add_execution(
    parser: argparse.ArgumentParser, folder: str, what: str = "the checkpoints of -o"
) -> Any:
    """The group "how it runs": --device, --threads, --save-every, --resume and -o.

    Args:
        parser: What it is added to.
        folder: The default of -o.
        what: `--resume` goes on with.

    Returns:
        The group.
    """
    group = parser.add_argument_group("how it runs")
    add_device(group)
    add_threads(group)
    group.add_argument(
        "--save-every", type=float, default=60.0, metavar="SECONDS",
        help="between checkpoints (default: 60)",
    )  # fmt: skip
    add_resume(group, what)
    add_output(group, folder)
    return group


def given(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The options that were given, for a function that has defaults of its own."""
    return {name: value for name in names if (value := getattr(args, name, None)) is not None}


def settings_of(
    args: argparse.Namespace,
    kind: type[SettingsT],
    defaults: Mapping[str, Any],
    **more: Any,
) -> SettingsT:
    """Settings from the options of `add_settings`.

    Args:
        args: The options; those that were given outweigh all else.
        kind: What the settings are.
        defaults: In place of the defaults of the settings.
        **more: Settings without an option.
    """
    return kind(**{**defaults, **given(args, *options_of(kind))}, **more)


def seeds_of(args: argparse.Namespace) -> range:
    """The seeds of the runs, from --seed on."""
    return range(args.seed, args.seed + args.runs)


def default_target(task: str) -> Path:
    """The mesh of a task if none is named."""
    return ROOT / "assets" / TARGETS[task]


def task_of(args: argparse.Namespace, **changes: Any) -> Any:
    """The task of `add_task`, with the options of `add_protocol` and `add_device`.

    Raises:
        FileNotFoundError: If there is no mesh.
        TypeError: If a field of the protocol has the wrong type.
        ValueError: If one of them is out of range, or the mesh is none.
    """
    from lab.studies.registry import TASKS

    target = args.target or default_target(args.task)
    return TASKS[args.task].make(args.protocol, target, args.device, **changes)


def device_of(args: argparse.Namespace) -> torch.device:
    """The device that was asked for; torch gets the threads that were.

    Raises:
        ValueError: If it does not work here, with those that do, or if there is less than one
            thread.
    """
    import torch

    from gendr.jobs.devices import usable_device

    device, threads = usable_device(args.device), getattr(args, "threads", None)
    if threads is not None:
        if threads < 1:
            raise ValueError(f"--threads must be >= 1, got {threads}")
        torch.set_num_threads(threads)
    return device


def data_folder(name: str) -> Path:
    """Where a data set is if no folder is named: in $GENDR_DATA, or in the folder data."""
    return Path(os.environ.get("GENDR_DATA", "data")) / name


def digits_in(folder: Path, *, download: bool = False) -> Splits:
    """MNIST, from a folder named with --data.

    Args:
        folder: With the four idx files.
        download: Whether to get what is missing.

    Raises:
        ValueError: If something is missing or damaged.
        OSError: If the download fails.
    """
    from lab.data import download_mnist, mnist_splits

    if download:
        download_mnist(writable_folder(folder, "--data"))
    try:
        return mnist_splits(folder)
    except FileNotFoundError as error:
        raise ValueError(f"{error}; name its folder with --data, or add --download") from None


def digits_of(args: argparse.Namespace) -> Splits:
    """The digits that were asked for: MNIST, or with --smoke alone digits of seven segments.

    Raises:
        ValueError: If something is missing or damaged.
        OSError: If a download fails.
    """
    from lab.data import segment_splits

    if args.smoke and args.data is None and not args.download:
        return segment_splits()
    return digits_in(args.data or data_folder("mnist"), download=args.download)


def terrain_of(args: argparse.Namespace) -> TerrainSplits:
    """The maps that were asked for: those of a folder, or generated ones.

    Raises:
        ValueError: If something is missing or damaged.
    """
    from lab.data import read_warcraft
    from lab.studies.shortest_path import generated_splits

    size, train, held_out = GENERATED_SMOKE if args.smoke else GENERATED
    size = args.size or size
    if args.data is None:
        return generated_splits(args.training_maps or train, held_out, size)
    try:
        return read_warcraft(args.data, size)
    except FileNotFoundError as error:
        raise ValueError(f"{error}; name the folder of the Warcraft files with --data") from None


def output_folder(args: argparse.Namespace) -> Path:
    """The folder -o, made if it is not there.

    Raises:
        ValueError: If nothing can be written to it.
    """
    return writable_folder(args.output)


# ---------------------------------------------------------------------------------------------
# how a script runs


def program(
    file: str,
    text: str | None,
    add_options: Callable[[argparse.ArgumentParser], None],
    run: Callable[[argparse.Namespace], int | None],
) -> Callable[..., int]:
    """The function `main` of a script.

    Args:
        file: Of the script, whose name goes before its messages.
        text: What --help says, as it is; the docstring of the script.
        add_options: Adds the options to a parser.
        run: The script; may return an exit status.

    Returns:
        A function of the arguments without the name of the script, by default those of the
        process, that returns the exit status.
    """

    def main(argv: Sequence[str] | None = None) -> int:
        """Run the script; returns the exit status."""
        raw = argparse.RawDescriptionHelpFormatter
        parser = Parser(prog=Path(file).name, description=text, formatter_class=raw)
        add_options(parser)
        return run_program(parser, run, argv, resumes=lambda args: hasattr(args, "resume"))

    return main


@contextmanager
def progress_bar(name: str) -> Generator[Callable[[float], object], None, None]:
    """A bar with a name, and a function that sets the part of it that is done, in [0, 1]."""
    from tqdm import tqdm

    with tqdm(total=1.0, desc=name, bar_format="{l_bar}{bar}| {elapsed}<{remaining}") as bar:
        yield lambda done: bar.update(done - bar.n)


# ---------------------------------------------------------------------------------------------
# files


def described(outcome: Outcome, task: Task) -> dict[str, Any]:
    """All of an outcome but its picture, and the protocol of its task, as plain values."""
    values = {key: value for key, value in asdict(outcome).items() if key != "picture"}
    return {**values, "protocol": json.loads(task.protocol_json())}


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Write plain values; a file that is there is replaced when the new one is whole.

    Raises:
        OSError: With the path, if that fails.
    """
    write_whole(path, (json.dumps(values, indent=1) + "\n").encode())
