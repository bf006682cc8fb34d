"""Fit a sphere to the silhouettes of a mesh with one renderer of the family.

    python experiments/shape_optimization.py assets/airplane.obj --dist logistic
    python experiments/shape_optimization.py model.obj --tconorm "yager(p=2)" --protocol paper

Prints the candidates of the grid search and writes, to the folder -o,

    fit.obj     the best shape, in the frame of the experiment: centred, its longest side about 1
    views.png   silhouettes of target and best shape, by default from 12 views of the best search
    fit.json    the protocol, the score and all candidates

Source: thesis, section 5.4.1.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence

import gendr
from gendr.kernels.threads import torch_on_one_thread
from gendr.photos import visual
from lab import script
from lab.studies.scene import overlays
from lab.studies.shape import Search, ShapeTask

COLUMNS, TILE = 6, 128


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    script.add_target(parser, "shape")
    script.add_renderer(parser)
    script.add_protocol(parser)
    parser.add_argument("--steps", type=int, help="instead of those of the protocol")
    parser.add_argument("--elevations", type=float, nargs="+", metavar="DEGREES", help="likewise")
    parser.add_argument("--learning-rates", nargs="+", type=float, metavar="RATE", help="likewise")
    parser.add_argument(
        "--exponents", nargs="+", type=float, metavar="X", help="likewise: scales 10^X, all tried"
    )
    parser.add_argument(
        "--finer", nargs="*", type=float, metavar="X", help="likewise: added to the best exponent"
    )
    script.add_device(parser)
    script.add_output(parser, "shape")


def table(searches: Sequence[Search]) -> str:
    """All candidates, the best of each search marked."""
    lines = ["elevation  learning rate  log10 scale  mean hard IoU"]
    for search in searches:
        for fit in search.fits:
            mark = "  best" if fit is search.best else ""
            lines.append(
                f"{search.elevation:9g}  {fit.learning_rate:13.4f}  "
                f"{math.log10(fit.scale):11.2f}  {1 - fit.loss:13.4f}{mark}"
            )
    return "\n".join(lines)


@torch_on_one_thread()
def run(args: argparse.Namespace) -> None:
    """The experiment, and its files."""
    overrides = script.given(args, "steps", "elevations", "learning_rates")
    for name, value in script.given(args, "exponents", "finer").items():
        overrides |= {name: value, f"squared_{name}": value}
    script.device_of(args)
    instance = gendr.instance(f"{args.dist}/{args.tconorm}")
    task = ShapeTask.make(args.protocol, args.target, args.device, **overrides)
    out = script.output_folder(args)

    start = time.perf_counter()
    with script.progress_bar(instance.name) as show:
        searches = task.search(instance, show)
    outcome = task.outcome(instance, searches, time.perf_counter() - start)
    print(table(searches))
    print(f"score: {outcome.score:.4f} ({task.unit}), mean hard IoU {1 - outcome.score:.4f}")

    best = min(searches, key=lambda search: search.best.loss)
    best.best.mesh.save(out / "fit.obj")
    target, found = (
        task.silhouettes(mesh, best.elevation, TILE)[:: max(1, task.protocol.views // 12)]
        for mesh in (task.target, best.best.mesh)
    )
    sheet = overlays(target, found, COLUMNS)
    script.write_whole(out / "views.png", visual.picture(sheet))
    values = script.described(outcome, task)
    script.write_json(out / "fit.json", values)
    print(f"{out}: fit.obj, views.png, fit.json")


main = script.program(__file__, __doc__, add_options, run)


if __name__ == "__main__":
    sys.exit(main())
