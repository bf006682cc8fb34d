"""Run the best renderers of a grid again, with more steps or at another size, or any others.

    python experiments/best_again.py results.sqlite shape --best 12 --steps 100 -o again.csv
    python experiments/best_again.py results.sqlite pose --instances logistic/average -o average.csv

Each row of the table is one renderer: its score in the grid, if it is there, and its score now.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

from lab import script


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    parser.add_argument("results", type=Path, metavar="RESULTS.sqlite")
    script.add_task(parser)
    parser.add_argument(
        "--best", type=script.count(1), default=12, metavar="N", help="so many of the best"
    )
    parser.add_argument("--instances", nargs="+", metavar="NAME", help="these instead")
    parser.add_argument(
        "--steps", type=script.count(1), metavar="N", help="instead of those of the protocol"
    )
    script.add_protocol(parser)
    script.add_device(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.csv")


def run(args: argparse.Namespace) -> None:
    """Run them one after the other; the table grows with each."""
    import gendr
    from lab.report.summary import load_summaries

    script.device_of(args)
    for instance in args.instances or ():
        gendr.instance(instance)
    summaries = [s for s in load_summaries(args.results) if s.run.task == args.task]
    if not summaries:
        raise ValueError(f"{args.results} holds no results of the task {args.task}")
    task = script.task_of(args, **script.given(args, "steps"))
    scores = {entry.result.instance: f"{entry.result.score:.4f}" for entry in summaries[0].entries}
    chosen = args.instances or list(scores)[: args.best]
    with args.output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["instance", "grid_score", "steps", "score", "scale", "seconds"])
        for instance in chosen:
            outcome = task.run(gendr.instance(instance))
            row = (
                outcome.instance, scores.get(instance, ""), task.protocol.steps,
                f"{outcome.score:.4f}", f"{outcome.scale:.4g}", f"{outcome.seconds:.1f}",
            )  # fmt: skip
            writer.writerow(row)
            file.flush()
            print(*row, flush=True)


main = script.program(__file__, __doc__, add_options, run)


if __name__ == "__main__":
    sys.exit(main())
