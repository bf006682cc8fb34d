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
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from PIL import Image
from tqdm import tqdm

import gendr
from gendr.cli.common import check_device, check_writable
from gendr.experiments.engine.tasks import PROTOCOLS
from gendr.experiments.studies.scene import overlays
from gendr.experiments.studies.shape import Search, ShapeTask
from gendr.rendering.backends.cpu import backend as cpu

AIRPLANE = Path(__file__).resolve().parents[1] / "assets" / "airplane.obj"
COLUMNS, TILE = 6, 128


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("target", nargs="?", type=Path, default=AIRPLANE, help="a mesh file")
    parser.add_argument("--dist", default="logistic", help="a distribution, see `gendr list`")
    parser.add_argument("--tconorm", default="probabilistic", help="a T-conorm")
    parser.add_argument("--protocol", default="laptop", choices=PROTOCOLS)
    parser.add_argument("--steps", type=int, help="instead of those of the protocol")
    parser.add_argument("--elevations", type=float, nargs="+", metavar="DEGREES", help="likewise")
    parser.add_argument("--learning-rates", nargs="+", type=float, metavar="RATE", help="likewise")
    parser.add_argument(
        "--exponents", nargs="+", type=float, metavar="X", help="likewise: scales 10^X, all tried"
    )
    parser.add_argument(
        "--finer", nargs="*", type=float, metavar="X", help="likewise: added to the best exponent"
    )
    parser.add_argument("--device", default="cpu", help="such as cpu or cuda")
    parser.add_argument("-o", "--output", default="shape", type=Path, metavar="FOLDER")
    return parser.parse_args(argv)


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


def run(args: argparse.Namespace) -> None:
    """The experiment, and its files."""
    names = ("steps", "elevations", "learning_rates")
    overrides = {n: value for n in names if (value := getattr(args, n)) is not None}
    for name in ("exponents", "finer"):
        if (value := getattr(args, name)) is not None:
            overrides |= {name: value, f"squared_{name}": value}
    check_device(args.device)
    instance = gendr.instance(f"{args.dist}/{args.tconorm}")
    task = ShapeTask.make(args.protocol, args.target, args.device, **overrides)
    out = check_writable(args.output)

    start = time.perf_counter()
    with tqdm(
        total=1.0, desc=instance.name, bar_format="{l_bar}{bar}| {elapsed}<{remaining}"
    ) as bar:
        searches = task.search(instance, lambda done: bar.update(done - bar.n))
    outcome = task.outcome(instance, searches, time.perf_counter() - start)
    print(table(searches))
    print(f"score: {outcome.score:.4f} ({task.unit}), mean hard IoU {1 - outcome.score:.4f}")

    best = min(searches, key=lambda search: search.best.loss)
    best.best.mesh.save(out / "fit.obj")
    target, found = (
        task.silhouettes(mesh, best.elevation, TILE)[:: max(1, task.protocol.views // 12)]
        for mesh in (task.target, best.best.mesh)
    )
    Image.fromarray(overlays(target, found, COLUMNS)).save(out / "views.png")
    values = {key: value for key, value in asdict(outcome).items() if key != "picture"}
    values["protocol"] = json.loads(task.protocol_json())
    (out / "fit.json").write_text(json.dumps(values, indent=1) + "\n")
    print(f"{out}: fit.obj, views.png, fit.json")


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; 2 for bad input, with one line that says what is wrong."""
    args = parse(argv)
    # Torch's tensors are small here, and its threads would wait for each other.
    cpu.set_num_threads(torch.get_num_threads())
    torch.set_num_threads(1)
    try:
        run(args)
    except (OSError, TypeError, ValueError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
