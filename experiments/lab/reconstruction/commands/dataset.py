"""`dataset.py`: a class of a data set, made of meshes, and a sheet to look at."""

from __future__ import annotations

import sys
from pathlib import Path

from gendr._common.files import write_whole
from gendr.cli.command_line import say
from gendr.photos import visual
from lab.reconstruction.commands.options import Dataset
from lab.reconstruction.making import DatasetReport, make_dataset
from lab.reconstruction.pictures import dataset_sheet

NAMED = 20  # skipped shapes that are named; dataset.json has all of them


def run(args: Dataset) -> int:
    """Run `dataset.py` and return the exit status."""
    _check_name(args.name)
    if args.address and args.executor != "ray":
        raise ValueError("--address is for --executor ray")
    out = Path(args.output)
    report = make_dataset(
        args.meshes,
        out,
        args.name,
        shares=args.shares,
        seed=args.seed,
        up=args.up,
        workers=args.workers,
        executor=args.executor,
        address=args.address,
        progress=not args.quiet,
    )
    sheet = out / f"sheet-{report.name}.png"
    write_whole(sheet, visual.picture(dataset_sheet(out, report.name)))
    if not args.quiet:
        counts = ", ".join(f"{split} {count}" for split, count in report.counts.items())
        sys.stdout.write(f"{out}: {report.name}, {counts}; see {sheet.name}\n")
    _name_skipped(report)
    return 0


def _check_name(name: str) -> None:
    """Refuse names that cannot be part of a file name, or would be mistaken for another's."""
    if not name or not all(letter.isalnum() or letter in "-." for letter in name):
        raise ValueError(f"--name must consist of letters, digits, - and ., got {name!r}")


def _name_skipped(report: DatasetReport) -> None:
    """Say which shapes could not be used."""
    for name, reason in list(report.skipped.items())[:NAMED]:
        say("gendr", f"skipped {name}: {reason}")
    if len(report.skipped) > NAMED:
        more = len(report.skipped) - NAMED
        say("gendr", f"skipped {more} more, which dataset.json names")
