r"""Every renderer of the family, or some of them, on one task; Figures 5.4 and 5.5 of the thesis.

    python experiments/grid_benchmark.py shape -r results.sqlite             # all 1242, hours
    python experiments/grid_benchmark.py pose -r results.sqlite --dist 'gamma*' --tconorm yager
    python experiments/grid_benchmark.py shape -r results.sqlite --resume --export csv shape.csv
    python experiments/grid_benchmark.py shape -r results.sqlite --protocol paper \
        --device cuda --executor ray --address auto --gpus-per-task 0.25

The results go into one SQLite file, which report.py turns into a page. The grid may be stopped
in any way, even by pulling the plug; --resume goes on where it was, and tries again what had
failed. Two of these commands may work on one file at once, if the second one has --resume.

Exit status: 0 if all is done, 1 if some instances failed, 2 for bad input, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from typing import TYPE_CHECKING

from gendr.cli.command_line import Number
from lab import script

if TYPE_CHECKING:
    from lab.engine.executors import Executor
    from lab.engine.store import Run, Store
    from lab.engine.tasks import Task

FAILED = 1
# Failures that the summary spells out; the file has all.
LISTED = 5


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    script.add_task(parser)
    parser.add_argument("-r", "--results", required=True, metavar="FILE", help="SQLite")
    script.add_resume(parser, "what the file has")
    parser.add_argument(
        "--export",
        nargs=2,
        metavar=("csv", "FILE"),
        help="in the end, write all results of the file as a table",
    )

    group = parser.add_argument_group("what is run")
    script.add_protocol(group)
    script.add_seed(group)
    script.add_patterns(group)
    group.add_argument(
        "--limit", type=script.count(1), metavar="N", help="only the first N of them"
    )

    group = parser.add_argument_group("where it runs")
    script.add_device(group)
    group.add_argument(
        "--workers",
        type=script.count(1),
        metavar="N",
        help="instances at once (default: one per core; on a cluster, what it has room for)",
    )
    group.add_argument("--executor", choices=("local", "ray"), default="local")
    group.add_argument("--address", help="of a Ray cluster, such as auto; default: start one here")
    group.add_argument(
        "--gpus-per-task", type=Number(0.0), default=0.0, metavar="X", help="with Ray, such as 0.25"
    )


def run(args: argparse.Namespace) -> int:
    """The grid, and its summary."""
    # These load torch, for which --help does not wait.
    from lab.engine.grid import progress_of, run_grid, select, shuffled
    from lab.engine.store import Store, check_export, export

    names = shuffled(select(args.dist, args.tconorm, args.limit))
    if args.export:
        kind, table = args.export
        if kind != "csv":
            raise ValueError(f"unknown format {kind!r}; allowed: csv")
        check_export(table)
    task = script.task_of(args)
    executor = _executor(args, task)
    with Store(args.results, write=True) as store:
        found = _begin(args, task, store)
        store.forget_failures(found, names)
        with progress_of(task.name, task.better) as show:
            status = run_grid(store, found, names, executor, show)
            show(status)
        if args.export:
            export(store, table)
        failures = store.failures(found)
    done = f"{len(status.scores)} of {status.total} instances done"
    failed = f", {status.failed} failed" if status.failed else ""
    print(f"{task.name}, {args.protocol}, seed {args.seed}: {done}{failed}; {args.results}")
    if best := status.best(task.better):
        print(f"best: {best[0]} with {task.unit} {best[1]:.4f}")
    if not status.failed:
        return 0
    for failure in failures[:LISTED]:
        print(f"failed: {failure.instance}: {failure.reason}")
    print("the same command with --resume tries what has failed again")
    return FAILED


def _executor(args: argparse.Namespace, task: Task) -> Executor:
    from lab.engine.executors import LocalExecutor, RayExecutor

    if args.executor == "ray":
        return RayExecutor(
            task,
            address=args.address,
            workers=args.workers,
            gpus=args.gpus_per_task,
            seed=args.seed,
        )
    if args.address or args.gpus_per_task:
        raise ValueError("--address and --gpus-per-task are for --executor ray")
    script.device_of(args)  # a cluster may have devices that this machine lacks
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return LocalExecutor(task, args.workers or cores or 1, seed=args.seed)


def _begin(args: argparse.Namespace, task: Task, store: Store) -> Run:
    """The run that was asked for, if it is new or may go on."""
    run = store.find(task.name, task.protocol_json(), args.seed)
    known = len(store.results(run, pictures=False)) if run else 0
    if known and not args.resume:
        raise ValueError(
            f"{args.results} has {known} results of this run already; go on with --resume, or "
            "name another file"
        )
    return store.begin(task.name, task.protocol_json(), args.seed, args.protocol)


main = script.program(__file__, __doc__, add_options, run)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    sys.exit(main())
