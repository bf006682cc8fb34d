"""Renderers scored on ten objects, with settings chosen on other ones.

    python experiments/ten_objects.py shape -r ten.sqlite -o docs/results/ten-objects/shape.csv
    python experiments/ten_objects.py pose -r ten.sqlite -o docs/results/ten-objects/pose.csv
    python experiments/ten_objects.py shape --protocol large --renderers uniform/probabilistic ...
    python experiments/ten_objects.py shape -r ten.sqlite -o ... --executor ray --address auto

What is scored, and how settings are chosen: `lab.studies.ten`. The SQLite file has each renderer as
soon as it is done, and the same command goes on where it was; several may work on one file. The
table has what the file has, and what it held before.

Exit status: 0 if all is done, 1 if some renderers failed, 2 for bad input, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import csv
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lab import script

if TYPE_CHECKING:
    from lab.engine.store import Run, Store
    from lab.studies.ten import TenPoses, TenShapes


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    parser.add_argument("task", choices=("shape", "pose"))
    parser.add_argument("-r", "--results", required=True, metavar="FILE", help="SQLite")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.csv")
    parser.add_argument("--protocol", choices=("small", "large"), default="small")
    parser.add_argument("--renderers", nargs="+", metavar="LAW/TCONORM", help="default: thirty")
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
    if args.address and args.executor == "local":
        raise ValueError("--address is for --executor ray")
    executor = (
        RayExecutor(task, address=args.address, workers=args.workers)
        if args.executor == "ray"
        else LocalExecutor(task, args.workers)
    )
    args.output.parent.mkdir(parents=True, exist_ok=True)
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


def _instances(path: Path) -> set[str]:
    from lab.studies.ten import read_table

    return set(read_table(path)) if path.exists() else set()


def _write(path: Path, store: Store, run: Run, task: TenShapes | TenPoses) -> int:
    """Add the renderers that a table lacks to it; returns how many it has."""
    from lab.engine.store import write_csv
    from lab.engine.tasks import Outcome
    from lab.studies.ten import HEAD, rows_of

    rows: list[tuple[str, ...]] = []
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            rows = [tuple(row) for row in csv.reader(file)][1:]
    there = {row[0] for row in rows}
    for result in store.results(run, pictures=False):
        if result.instance not in there:
            trials = tuple(store.trials(run, result.instance))
            outcome = Outcome(
                result.instance, result.score, result.scale, result.learning_rate, result.seconds,
                trials,
            )  # fmt: skip
            rows += rows_of(task, outcome, result.version)
    write_csv(path, [HEAD, *rows])
    return len({row[0] for row in rows})


main = script.program(__file__, __doc__, add_options, run)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
