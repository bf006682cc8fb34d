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
from collections.abc import Sequence
from functools import partial
from typing import Any

from gendr._runtime.command_line import count
from lab import script
from lab.report.paths import example, figure, table
from lab.studies.shortest_path import (
    METHODS,
    PathResult,
    PathSettings,
    PathTraining,
)
from lab.trials import Trial, run_trials, write_results

SMOKE: dict[str, Any] = {"steps": 4, "batch": 4, "evaluate_every": 2, "maps": 10}
EXAMPLES = 2  # test maps of the picture


def make_options() -> argparse.ArgumentParser:
    """The options of the script."""
    parser = script.make_parser(__file__, __doc__)
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

    group = parser.add_argument_group("the training, for all methods alike")
    script.add_terrain_training(group)
    group.add_argument("--dist", help="the law of the relaxed algorithm (default: logistic)")
    group.add_argument("--steepness", type=float, help="1 / scale of the law (default: 8)")
    group.add_argument(
        "--longest", type=float, metavar="LENGTH",
        help="of the relaxed gradient of a map (default: 2)",
    )  # fmt: skip
    group.add_argument("--noise", type=float, help="scale of noise (default: 0.3, smoothing 1)")
    group.add_argument("--strength", type=float, help="lambda of black boxes (default: 0.5)")
    group.add_argument("--difference", type=float, help="of finite differences (default: 0.3)")
    script.add_training(
        group, steps="7200, 50 epochs", batch="maps per step (default: 70)", least=2,
        rate="of Adam, at first (default: 0.001)", every="144",
    )  # fmt: skip

    script.add_execution(parser, "shortest_path")
    return parser


def planned(args: argparse.Namespace) -> list[tuple[str, PathSettings]]:
    """The name and the settings of every training."""
    names = ["loss", "dist", "steepness", "longest", "noise", "strength", "difference", "steps"]
    given = script.given(
        args, *names, "batch", "learning_rate", "evaluate_every", "maps", "precision"
    )
    plan: list[tuple[str, PathSettings]] = []
    for method in args.methods:
        values: dict[str, Any] = {
            **METHODS[method].settings,
            **(SMOKE if args.smoke else {}),
            **given,
        }
        for samples in args.samples if METHODS[method].is_sampled else [None]:
            for seed in script.seeds_of(args):
                more = {} if samples is None else {"samples": samples}
                name = f"{method}{'' if samples is None else f'-{samples}'}-seed{seed}"
                plan.append((name, PathSettings(method=method, seed=seed, **values, **more)))
    if len({name for name, _ in plan}) < len(plan):
        raise ValueError("a method or a number of samples is named twice; name each once")
    return plan


def run(args: argparse.Namespace) -> None:
    """The experiment, and its files."""
    device = script.device_of(args)
    script.set_threads(args)
    plan = planned(args)
    data = script.terrain_of(args)
    out = script.output_folder(args)

    def shown(training: PathTraining, result: PathResult) -> dict[str, Any]:
        return example(training, EXAMPLES)

    trials = [
        Trial(name, partial(PathTraining, settings, data, device), shown) for name, settings in plan
    ]
    found = run_trials(trials, out, resume=args.resume, save_every=args.save_every)
    text = "\n".join([*table(found.values()), ""])
    maps = data.test[:EXAMPLES]
    print(write_results(out, found, text, lambda: figure(found.values(), maps), device))


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; returns the exit status."""
    return script.run_script(make_options(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
