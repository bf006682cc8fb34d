r"""The grid of all renderers in rounds, with errors: all cheaply, the better ones again and longer.

    python experiments/grid_rounds.py -r rounds.sqlite --tables docs/results/rounds
    python experiments/grid_rounds.py -r rounds.sqlite --tables docs/results/rounds --minutes 30
    python experiments/grid_rounds.py -r rounds.sqlite --tables docs/results/rounds --list

The blocks of `lab.studies.rounds` are done one after the other: round 1 of shapes,
round 1 of poses, round 2 of shapes and so on; in a block, one T-conorm with all distributions after
the other, so that a part of it says something. The command may be stopped in any way and given
again; it goes on where it was. Each block becomes a table in the folder of --tables, which is also
read at the start: what a table has is not run again, even where the SQLite file is a new one.

Exit status: 0 if all is done, 1 if some instances failed, 2 for bad input, 3 if the minutes were
over before, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import csv
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lab import script

if TYPE_CHECKING:
    from lab.engine.grid import Status
    from lab.engine.store import Failure, Store
    from lab.studies.rounds import Block, Scores

FAILED, LATER = 1, 3


class _TimeIsUp(Exception):
    """The minutes are over."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    parser.add_argument("-r", "--results", required=True, metavar="FILE", help="SQLite")
    parser.add_argument(
        "--tables", type=Path, required=True, metavar="FOLDER", help="one table for each block"
    )
    parser.add_argument("--list", action="store_true", help="say what is done, and run nothing")
    parser.add_argument(
        "--minutes", type=script.count(1), metavar="N", help="stop after so many; default: go on"
    )
    parser.add_argument(
        "--tasks", nargs="+", choices=("shape", "pose"), default=("shape", "pose"), metavar="TASK"
    )
    parser.add_argument("--rounds", type=script.count(1), default=3, metavar="N", help="the last")
    script.add_patterns(parser)
    parser.add_argument(
        "--older",
        type=Path,
        default=script.ROOT / "docs" / "results" / "grid-laptop.csv",
        metavar="TABLE",
        help="an exported grid whose best scales are where the searches begin",
    )
    script.add_device(parser)
    parser.add_argument("--workers", type=script.count(1), default=1, metavar="N")


def run(args: argparse.Namespace) -> int:
    """Do one block after the other."""
    from lab.engine.grid import select
    from lab.engine.store import Store
    from lab.studies.rounds import BLOCKS, chosen_for, means

    script.device_of(args)
    names = [instance.name for instance in select(args.dist, args.tconorm)]
    older = _older(args.older)
    ends = time.monotonic() + 60 * args.minutes if args.minutes else None
    numbers = range(1, args.rounds + 1)
    order = [b for n in numbers for task in args.tasks for b in BLOCKS[task] if b.round == n]
    args.tables.mkdir(parents=True, exist_ok=True)
    done: dict[str, dict[str, Scores]] = {}
    with Store(args.results, write=True) as store:
        for block in order:
            before = [b.name for b in BLOCKS[block.task] if b.round == block.round - 1]
            if args.list and not set(before) <= set(done):
                continue  # its renderers are not chosen yet
            chosen = chosen_for(block, done, names)
            if block.round == 1 and not (args.dist or args.tconorm):
                chosen += means()
            try:
                failures = _work(args, store, block, chosen, done, older, ends)
            except _TimeIsUp:
                print("the minutes are over; the same command goes on")
                return LATER
            if failures:
                print(f"failed: {failures[0].instance}: {failures[0].reason}")
                print("the same command tries again what has failed")
                return FAILED
    return 0


def _work(
    args: argparse.Namespace,
    store: Store,
    block: Block,
    chosen: Sequence[str],
    done: dict[str, dict[str, Scores]],
    older: dict[str, float],
    ends: float | None,
) -> list[Failure]:
    """Run what is missing of a block, write its table and say how far it is; what failed."""
    from lab.engine.executors import LocalExecutor
    from lab.engine.grid import progress_of, run_grid
    from lab.studies.rounds import (
        file_of,
        place_of_tconorm,
        restore,
        results_as_scores,
        starts_for,
        write_block,
    )

    task = block.make(script.ROOT / "assets", starts_for(block, done, chosen, older), args.device)
    table, seed = file_of(args.tables, block), block.number if block.task == "pose" else 0
    run = store.begin(task.name, task.protocol_json(), seed, block.name)
    if table.exists():
        restore(store, run, table)

    def is_missing() -> bool:
        """Whether anything is missing; what there is counts as done if it is the whole block."""
        found = results_as_scores(store, run)
        if found.keys() >= set(chosen):
            done[block.name] = found
        return block.name not in done

    try:
        if not args.list and is_missing():
            store.forget_failures(run, chosen)
            executor = LocalExecutor(task, args.workers, seed=seed)
            with progress_of(block.name, task.better) as show:

                def watch(status: Status) -> None:
                    show(status)
                    if ends is not None and time.monotonic() > ends:
                        raise _TimeIsUp

                run_grid(store, run, sorted(chosen, key=place_of_tconorm), executor, watch)
    finally:
        if not args.list:
            write_block(table, store, run)
        results = [r for r in store.results(run, pictures=False) if r.instance in set(chosen)]
        hours = sum(result.seconds for result in results) / 3600
        print(f"{block.name}: {len(results)} of {len(chosen)}, {hours:.2f} h", flush=True)
    return store.failures(run) if is_missing() and not args.list else []


def _older(path: Path) -> dict[str, float]:
    """The best scales of an exported grid of shapes."""
    with path.open(newline="", encoding="utf-8") as file:
        return {
            row["instance"]: float(row["scale"])
            for row in csv.DictReader(file)
            if row["task"] == "shape"
        }


main = script.program(__file__, __doc__, add_options, run)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    sys.exit(main())
