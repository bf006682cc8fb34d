"""Renderers scored on ten objects, with settings chosen on other ones.

    python experiments/ten_objects.py shape -r ten.sqlite -o docs/results/ten-objects/shape.csv
    python experiments/ten_objects.py pose -r ten.sqlite -o docs/results/ten-objects/pose.csv
    python experiments/ten_objects.py shape --protocol large --renderers uniform/probabilistic ...
    python experiments/ten_objects.py shape -o docs/results/ten-objects/shape.csv --peers
    python experiments/ten_objects.py time -o docs/results/ten-objects/seconds.csv
    python experiments/ten_objects.py shape -r ten.sqlite -o ... --executor ray --address auto

What is scored, and how settings are chosen: `lab.studies.ten`. The SQLite file has each renderer as
soon as it is done, and the same command goes on where it was; several may work on one file. The
table has what the file has, and what it held before. With --peers, the images of others are scored
in the same loop (`lab.studies.peers`; DEODR by its package, `pip install deodr`), in this process,
and go into the table one by one. The task "time" measures a step of each renderer of the table
shape.csv beside it, at its chosen settings, in seconds of processor time: the median of five fits
of one object, by turns.

Exit status: 0 if all is done, 1 if some renderers failed, 2 for bad input, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import csv
import os
import signal
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lab import script

if TYPE_CHECKING:
    from lab.engine.store import Run, Store
    from lab.studies.ten import TenPoses, TenShapes

# Fits of each renderer that are timed, and their steps.
TURNS, TIMED = 5, 20


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    parser.add_argument("task", choices=("shape", "pose", "time"))
    parser.add_argument("-r", "--results", metavar="FILE", help="SQLite; needed without --peers")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.csv")
    parser.add_argument("--protocol", choices=("small", "large"), default="small")
    parser.add_argument("--renderers", nargs="+", metavar="DIST/TCONORM", help="default: 26")
    parser.add_argument("--peers", action="store_true", help="the images of others, for shapes")
    parser.add_argument("--workers", type=script.count(1), default=1, metavar="N")
    parser.add_argument("--executor", choices=("local", "ray"), default="local")
    parser.add_argument("--address", help="of a Ray cluster, such as auto; default: start one here")


def run(args: argparse.Namespace) -> int:
    """Score what is missing; the table grows with each renderer."""
    import gendr
    from lab.engine.executors import LocalExecutor, RayExecutor
    from lab.engine.grid import progress_of, run_grid
    from lab.engine.store import Store
    from lab.studies.ten import POSES, RENDERERS, SHAPES, TenPoses, TenShapes

    if args.task == "pose" and args.protocol not in POSES:
        raise ValueError(f"poses have no protocol {args.protocol!r}; allowed: {', '.join(POSES)}")
    task = TenShapes(SHAPES[args.protocol]) if args.task == "shape" else TenPoses(POSES["small"])
    names = [gendr.instance(name).name for name in args.renderers or RENDERERS]
    args.output.parent.mkdir(parents=True, exist_ok=True)
    if args.task == "time":
        return _measure(args)
    if args.peers:
        if args.task != "shape":
            raise ValueError("--peers are for shapes")
        return _run_peers(args)
    if args.results is None:
        raise ValueError("name the SQLite file of the results with -r")
    if args.address and args.executor == "local":
        raise ValueError("--address is for --executor ray")
    executor = (
        RayExecutor(task, address=args.address, workers=args.workers)
        if args.executor == "ray"
        else LocalExecutor(task, args.workers)
    )
    with Store(args.results, write=True) as store:
        found = store.begin(task.name, task.protocol_json(), 0, args.protocol)
        known = _instances(args.output)
        store.forget_failures(found, names)
        try:
            with progress_of(task.title, task.better) as show:
                wanted = [name for name in names if name not in known]
                run_grid(store, found, wanted, executor, show)
        finally:
            count = _write(args.output, store, found, task)
        failures = store.failures(found)
    print(f"{args.output}: {count} renderers")
    for failure in failures:
        print(f"failed: {failure.instance}: {failure.reason}")
    return 1 if failures else 0


def _run_peers(args: argparse.Namespace) -> int:
    """Score the images of others that the table lacks; each is written when it is done."""
    import torch

    import gendr
    from lab.engine.store import software_version
    from lab.studies.peers import PEERS
    from lab.studies.ten import FIRST_WIDTHS, SHAPES, TenShapes, rows_of

    torch.set_num_threads(1)
    missing = sorted(PEERS.keys() - _instances(args.output))
    for number, name in enumerate(missing, 1):
        make, renderer, has_scale = PEERS[name]
        widths = FIRST_WIDTHS if has_scale else (0,)
        task = TenShapes(SHAPES[args.protocol], make, widths)
        with script.progress_bar(f"{name}, {number} of {len(missing)}") as show:
            outcome = replace(task.run(gendr.instance(renderer), progress=show), instance=name)
        _add(args.output, rows_of(task, outcome, software_version()))
        print(f"{name}: {task.unit} {outcome.score:.4f}", flush=True)
    return 0


def _measure(args: argparse.Namespace) -> int:
    """Write seconds of a step for each renderer of the table shape.csv."""
    import torch

    import gendr
    from lab.engine.store import write_csv
    from lab.report.ten import TenObjects
    from lab.studies.peers import PEERS
    from lab.studies.shape import ShapeTask
    from lab.studies.ten import SHAPES, bare, scale_at

    torch.set_num_threads(1)
    ten = TenObjects.read(args.output.with_name("shape.csv"), "shape")
    protocol = SHAPES[args.protocol]
    seconds: dict[str, list[float]] = {name: [] for name in ten.names}
    with script.progress_bar("time") as show:
        for turn in range(TURNS):
            for k, name in enumerate(ten.names):
                make, renderer, _ = PEERS.get(name, (ShapeTask, name, True))
                instance = gendr.instance(renderer)
                rates = (10 ** ten.rates[k],)
                task = make(
                    replace(protocol, steps=TIMED, learning_rates=rates),
                    make.placed(bare("teapot"), protocol),
                )
                begun = time.process_time()
                task.try_scales(instance, 30.0, [scale_at(instance, ten.widths[k])])
                seconds[name].append((time.process_time() - begun) / TIMED)
                show((turn + (k + 1) / len(ten.names)) / TURNS)
    rows = [(name, f"{statistics.median(every):.5f}") for name, every in seconds.items()]
    write_csv(args.output, [("instance", "seconds"), *rows])
    return 0


def _add(path: Path, new: list[tuple[str, ...]]) -> int:
    """Add rows to a table, which is written whole; returns how many renderers it has."""
    from lab.engine.store import write_csv
    from lab.studies.ten import HEAD

    rows: list[tuple[str, ...]] = []
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            rows = [tuple(row) for row in csv.reader(file)][1:]
    write_csv(path, [HEAD, *rows, *new])
    return len({row[0] for row in (*rows, *new)})


def _instances(path: Path) -> set[str]:
    from lab.studies.ten import read_table

    return set(read_table(path)) if path.exists() else set()


def _write(path: Path, store: Store, run: Run, task: TenShapes | TenPoses) -> int:
    """Add the renderers that a table lacks to it; returns how many it has."""
    from lab.engine.tasks import Outcome
    from lab.studies.ten import rows_of

    rows: list[tuple[str, ...]] = []
    there = _instances(path)
    for result in store.results(run, pictures=False):
        if result.instance not in there:
            trials = tuple(store.trials(run, result.instance))
            outcome = Outcome(
                result.instance, result.score, result.scale, result.learning_rate, result.seconds,
                trials,
            )  # fmt: skip
            rows += rows_of(task, outcome, result.version)
    return _add(path, rows)


main = script.program(__file__, __doc__, add_options, run)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
