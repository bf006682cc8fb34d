r"""Learn what terrain costs from nothing but shortest paths through maps of it; Tables 2.2 and 7.5.

    python experiments/shortest_path.py --smoke                     # seconds, small generated maps
    python experiments/shortest_path.py --steps 300 --runs 3        # 10,000 generated maps
    python experiments/shortest_path.py --data warcraft_shortest_path_oneskin --device cuda \
        --samples 3 10 30 --runs 10 --batch 70 -o runs/warcraft     # the published files

The first block of ResNet18 gives every cell of a map a cost. The cheapest path from the first cell
to the last is compared with the true one. The methods differ in how a gradient comes through the
algorithm: relaxed Bellman-Ford, or an estimator around the hard algorithm. The baseline, resnet, is
all of ResNet18, which marks the cells of the path without an algorithm. The folder -o gets

    table.md        by method, on test maps: the predictions that cost what the cheapest path costs
                    ("exact match" in the thesis), that are the true path, and the cost ratio
    results.json    settings, scores, examples and histories of all trainings
    picture.png     scores over the steps; maps, costs and paths, predicted beside true
    METHOD-seed0/checkpoint.pt, result.json, tensorboard    of each training

Exit status: 0 if it went well, 2 for bad input, 130 after Ctrl-C.

Source: thesis, sections 2.4 and 7.5.3.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gendr.cli.command_line import count
from lab import script
from lab.report.paths import example, figure, table
from lab.studies.shortest_path import METHODS, PathSettings, PathTraining
from lab.trials import run_trials

SMOKE: dict[str, Any] = {"steps": 4, "batch": 4, "evaluate_every": 2, "maps": 10}
EXAMPLES = 2  # test maps of the picture


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    group = parser.add_argument_group("the task")
    script.add_terrain(group)
    group.add_argument(
        "--methods", nargs="+", choices=METHODS, default=tuple(METHODS), metavar="METHOD",
        help=f"to compare (default: {' '.join(METHODS)})",
    )  # fmt: skip
    group.add_argument(
        "--samples", nargs="+", type=count(2), default=[10], metavar="N",
        help="of methods that draw some; each number is a training (default: 10)",
    )  # fmt: skip
    script.add_runs(group)
    script.add_settings(parser, PathSettings, "the training, for all methods alike")
    script.add_execution(parser, "shortest_path")


def planned(args: argparse.Namespace) -> list[tuple[str, PathSettings]]:
    """The name and the settings of every training."""
    plan: list[tuple[str, PathSettings]] = []
    for method in args.methods:
        defaults = {**METHODS[method].settings, **(SMOKE if args.smoke else {})}
        for samples in args.samples if METHODS[method].is_sampled else [None]:
            more = {} if samples is None else {"samples": samples}
            name = method if samples is None else f"{method}-{samples}"
            plan += [
                (
                    f"{name}-seed{seed}",
                    script.settings_of(
                        args, PathSettings, defaults, method=method, seed=seed, **more
                    ),
                )
                for seed in script.seeds_of(args)
            ]
    return plan


def run(args: argparse.Namespace) -> None:
    """The experiment, and its files."""
    plan, data = planned(args), script.terrain_of(args)
    run_trials(
        args, plan, data, PathTraining,
        lambda found: table(found.values()),
        lambda found: figure(found.values(), data.test[:EXAMPLES]),
        lambda training, _: example(training, EXAMPLES),
    )  # fmt: skip


main = script.program(__file__, __doc__, add_options, run)


if __name__ == "__main__":
    sys.exit(main())
