r"""Pictures of what the renderers of the grid in rounds fitted, for its report.

    python experiments/grid_pictures.py docs/results/rounds
    python experiments/grid_pictures.py docs/results/rounds --tasks pose --rounds 1

For each round of each task that has begun, one image beside the tables: shape-1.png, pose-1.png and
so on. A renderer fits one scene of the round once more, at the scale that is its best on average. A
picture of a shape shows the mesh, one of poses the first four pairs: grey where both silhouettes
are, blue where only the reference is, orange where only the one found is. A picture takes about a
third of a second. What an image has is not made again; Ctrl-C loses nothing.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from lab import script

TASKS = ("shape", "pose")
SECONDS = 60  # between two times that an image is written


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    parser.add_argument("tables", type=Path, metavar="FOLDER", help="the tables of the grid")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS, metavar="TASK")
    parser.add_argument(
        "--rounds", nargs="+", type=int, choices=(1, 2, 3), default=(1, 2, 3), metavar="N"
    )
    script.add_device(parser)


def run(args: argparse.Namespace) -> int:
    """Make the pictures of one round after the other."""
    script.device_of(args)
    if not args.tables.is_dir():
        raise ValueError(f"there is no folder {args.tables}")
    for task in args.tasks:
        for number in args.rounds:
            draw(args, task, number)
    return 0


def draw(args: argparse.Namespace, task: str, number: int) -> None:
    """Make the pictures of a round, as far as its tables go."""
    from tqdm import tqdm

    import gendr
    from lab.report.pictures import pictures_of, read_pictures, write_pictures
    from lab.studies.rounds import (
        BLOCKS,
        best_exponent,
        file_of,
        pictured,
        read_block,
    )

    tables = [
        read_block(file_of(args.tables, block))
        for block in BLOCKS[task]
        if block.round == number and file_of(args.tables, block).exists()
    ]
    path, block = pictures_of(args.tables, task, number), pictured(task, number)
    pictures = read_pictures(path)
    wanted = [name for name in (tables[0] if tables else ()) if name not in pictures]
    if not wanted:
        print(f"{path.name}: {len(pictures)} pictures", flush=True)
        return
    made, written = block.make(script.ROOT / "assets", {}, args.device), time.monotonic()
    try:
        for name in tqdm(wanted, desc=path.name, unit="picture"):
            at = best_exponent(task, [table[name] for table in tables if name in table])
            pictures[name] = made.drawn(gendr.instance(name), at, block.number)
            if time.monotonic() > written + SECONDS:
                write_pictures(path, pictures)
                written = time.monotonic()
    finally:
        if pictures:  # none if the first was cut off
            write_pictures(path, pictures)
    print(f"{path.name}: {len(pictures)} pictures of {block.name}", flush=True)


main = script.program(__file__, __doc__, add_options, run)


if __name__ == "__main__":
    sys.exit(main())
