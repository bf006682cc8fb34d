"""Run the best renderers of a grid again, with more steps or at another size, or any others.

    python experiments/best_again.py results.sqlite shape --best 12 --steps 100 -o again.csv
    python experiments/best_again.py results.sqlite pose --instances logistic/average -o average.csv

Each row of the table is one renderer: its score in the grid, if it is there, and its score now.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path


def make_parser() -> argparse.ArgumentParser:
    """What the command takes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, metavar="RESULTS.sqlite")
    parser.add_argument("task", choices=("shape", "pose"))
    parser.add_argument("--best", type=int, default=12, metavar="N", help="so many of the best")
    parser.add_argument("--instances", nargs="+", metavar="NAME", help="these instead")
    parser.add_argument("--steps", type=int, metavar="N", help="instead of those of the protocol")
    parser.add_argument("--protocol", choices=("laptop", "paper"), default="laptop")
    parser.add_argument("--target", metavar="MESH", help="default: the airplane, the teapot")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.csv")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; 0 on success, 2 for bad input."""
    args = make_parser().parse_args(argv)
    try:
        return run(args)
    except (OSError, TypeError, ValueError) as error:
        sys.stderr.write(f"best_again.py: {error}\n")
        return 2


def run(args: argparse.Namespace) -> int:
    """Run them one after the other; the table grows with each."""
    import gendr
    from gendr._runtime.checks import check_count
    from gendr.cli.common import check_device
    from gendr.experiments import make_task
    from gendr.experiments.report.summary import load_summaries

    check_count("--best", args.best)
    check_device(args.device)
    for instance in args.instances or ():
        gendr.instance(instance)
    summaries = [s for s in load_summaries(args.results) if s.run.task == args.task]
    if not summaries:
        raise ValueError(f"{args.results} holds no results of the task {args.task}")
    target = args.target or {"shape": "assets/airplane.obj", "pose": "assets/teapot.obj"}[args.task]
    steps = {} if args.steps is None else {"steps": check_count("--steps", args.steps)}
    task = make_task(args.task, args.protocol, target, device=args.device, **steps)
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
    return 0


if __name__ == "__main__":
    sys.exit(main())
