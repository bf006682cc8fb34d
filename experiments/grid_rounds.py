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
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from lab import script

if TYPE_CHECKING:
    from lab.engine.grid import Status
    from lab.engine.store import Failure, Run, Store
    from lab.studies.rounds import Block, Scores

FAILED, LATER = 1, 3
ROOT = Path(__file__).resolve().parents[1]


class _TimeIsUp(Exception):
    """The minutes are over."""


def make_options() -> argparse.ArgumentParser:
    """The options of the script."""
    parser = script.make_parser(__file__, __doc__)
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
    parser.add_argument(
        "--dist", nargs="+", default=[], metavar="PATTERN", help="default: all 54 distributions"
    )
    parser.add_argument(
        "--tconorm", nargs="+", default=[], metavar="PATTERN", help="default: all 23 T-conorms"
    )
    parser.add_argument(
        "--older",
        type=Path,
        default=ROOT / "docs" / "results" / "grid-laptop.csv",
        metavar="TABLE",
        help="an exported grid whose best scales are where the searches begin",
    )
    script.add_device(parser)
    parser.add_argument("--workers", type=script.count(1), default=1, metavar="N")
    return parser


def run(args: argparse.Namespace) -> int:
    """Do one block after the other."""
    from lab.engine.grid import select
    from lab.engine.store import Store
    from lab.studies.rounds import BLOCKS, chosen_for, means

    script.device_of(args)
    names = [instance.name for instance in select(args.dist, args.tconorm)]
    older = _older(args.older)
    ends = time.monotonic() + 60 * args.minutes if args.minutes else None
    order = [
        block
        for number in range(1, args.rounds + 1)
        for task in args.tasks
        for block in BLOCKS[task]
        if block.round == number
    ]
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
            left = _Left(args, store, block, chosen, done, older)
            try:
                failures = [] if args.list else left.work(ends)
            except _TimeIsUp:
                left.say()
                print("the minutes are over; the same command goes on")
                return LATER
            left.say()
            if failures:
                print(f"failed: {failures[0].instance}: {failures[0].reason}")
                print("the same command tries again what has failed")
                return FAILED
    return 0


class _Left:
    """What is left of a block, and how it is done."""

    def __init__(
        self,
        args: argparse.Namespace,
        store: Store,
        block: Block,
        chosen: Sequence[str],
        done: dict[str, dict[str, Scores]],
        older: dict[str, float],
    ) -> None:
        from lab.studies.rounds import file_of, restore, starts_for

        self.args, self.store, self.block, self.done = args, store, block, done
        self.chosen = chosen
        starts = starts_for(block, done, chosen, older)
        self.task = block.make(ROOT / "assets", starts, args.device)
        self.table = file_of(args.tables, block)
        self.seed = block.number if block.task == "pose" else 0
        self.run: Run = store.begin(
            self.task.name, self.task.protocol_json(), self.seed, block.name
        )
        if self.table.exists():
            restore(store, self.run, self.table)
        self._note()

    def _note(self) -> int:
        """Take what there is for done if it is the whole block; how many are missing."""
        from lab.studies.rounds import results_as_scores

        found = results_as_scores(self.store, self.run)
        missing = sum(name not in found for name in self.chosen)
        if not missing:
            self.done[self.block.name] = found
        return missing

    def say(self) -> None:
        """Print how far the block is."""
        results = self.store.results(self.run, pictures=False)
        hours = sum(result.seconds for result in results) / 3600
        found = sum(result.instance in set(self.chosen) for result in results)
        print(f"{self.block.name}: {found} of {len(self.chosen)}, {hours:.2f} h", flush=True)

    def work(self, ends: float | None) -> list[Failure]:
        """Run what is missing, and write the table; what failed."""
        import gendr
        from lab.engine.executors import LocalExecutor
        from lab.engine.grid import Progress, jobs, run_grid
        from lab.studies.rounds import place_of_tconorm, write_block

        if not self._note():
            write_block(self.table, self.store, self.run)
            return []
        every = jobs([gendr.instance(name) for name in self.chosen])
        every.sort(key=lambda job: place_of_tconorm(job.name))  # stable
        self.store.forget_failures(self.run, self.chosen)
        executor = LocalExecutor(self.task, self.args.workers, seed=self.seed)

        def watch(status: Status) -> None:
            progress(status)
            if ends is not None and time.monotonic() > ends:
                raise _TimeIsUp

        try:
            with closing(Progress(self.block.name, self.task.better)) as progress:
                run_grid(self.store, self.run, every, executor, watch)
        finally:
            write_block(self.table, self.store, self.run)
        return self.store.failures(self.run) if self._note() else []


def _older(path: Path) -> dict[str, float]:
    """The best scales of an exported grid of shapes."""
    with path.open(newline="", encoding="utf-8") as file:
        return {
            row["instance"]: float(row["scale"])
            for row in csv.DictReader(file)
            if row["task"] == "shape"
        }


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; returns the exit status."""
    return script.run_script(make_options(), run, argv)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    sys.exit(main())
