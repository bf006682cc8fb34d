r"""Join what trainings came to into one file, from which pages of the documentation are made.

    python experiments/keep_results.py runs/logic_tables -o docs/results/logic-tables.json
    python experiments/keep_results.py runs/paths-120 runs/paths-300 --first-examples \
        -o docs/results/shortest-path.json
    python experiments/keep_results.py -o docs/results/newton-paths.json \
        --set "the default damping" runs/newton-paths \
        --set "the damping chosen" runs/newton-paths/*regular* runs/fisher-100 runs/hessian-10
    python experiments/keep_results.py --add -o docs/results/newton-paths.json \
        --set "RESGRO" runs/paths-resgro

A folder is the -o of a script, or that of one training in it. Trainings that are not finished are
left out. The file has each by its name, with settings, scores and the evaluated rows of its
history, and the device, threads and version that they had. Which commands a file in docs/results
comes from is said by the script in docs that reads it.

Exit status: 0 if it went well, 2 for bad input, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from lab import script


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="with trainings")
    parser.add_argument(
        "--set", nargs="+", action="append", default=[], metavar=("NAME", "FOLDER"), dest="sets",
        help="folders whose trainings stand under a name of their own; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--add", action="store_true", help="to what the file has, of which no folder may be left"
    )
    parser.add_argument("--no-history", action="store_true", help="leave out all of it")
    parser.add_argument(
        "--first-examples", action="store_true",
        help="leave out the examples of all but the first seed of each",
    )  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.json")


def run(args: argparse.Namespace) -> None:
    """Read, join and write."""
    from lab.trials import joined, kept_results

    if bool(args.folders) == bool(args.sets):
        raise ValueError("name folders, or name sets of them with --set NAME FOLDER ...")
    sets = {name: [Path(folder) for folder in folders] for name, *folders in args.sets}
    for name, folders in sets.items():
        if not folders:
            raise ValueError(f"--set {name!r} needs a folder behind the name")
    if len(sets) < len(args.sets):
        raise ValueError("two sets have one name; name all folders of a set behind one --set")
    values = kept_results(
        sets or args.folders, history=not args.no_history, first_examples=args.first_examples
    )
    found = values["trainings"]
    if args.add:
        values = joined(before_of(args.output, bool(sets)), values)
    script.write_json(args.output, values)
    counts = [f"{name}: {len(some)}" for name, some in found.items()] if sets else []
    print(f"{args.output}: {', '.join(counts) or len(found)} training(s)")


def before_of(path: Path, is_of_sets: bool) -> dict[str, Any]:
    """What a file has that is added to.

    Raises:
        ValueError: if it is no such file, or has sets where trainings come, or the reverse.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        first = next(iter(values["trainings"].values()))
    except (OSError, ValueError, KeyError, TypeError, StopIteration):
        raise ValueError(f"{path} has no trainings to add to; leave out --add") from None
    if ("settings" not in first) != is_of_sets:
        has = "trainings without sets" if is_of_sets else "sets"
        raise ValueError(f"{path} has {has}, and so must be what is added, see --set")
    return values


main = script.program(__file__, __doc__, add_options, run)


if __name__ == "__main__":
    sys.exit(main())
