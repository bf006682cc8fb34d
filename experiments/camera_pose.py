"""Find camera poses from silhouettes with one renderer of the family.

    python experiments/camera_pose.py assets/teapot.obj --tconorm "yager(p=2)"
    python experiments/camera_pose.py model.obj --dist uniform --protocol paper --pairs 60

Prints how many poses were found and writes, to the folder -o,

    poses.png   for some pairs, reference and start (above), reference and what was found (below)
    errors.png  histogram of the angles to the references, before and after
    poses.json  the protocol, the score, all angles

Source: thesis, section 5.4.2.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from tqdm import tqdm

import gendr
from gendr.cli.common import check_device, check_writable
from gendr.experiments.engine.tasks import PROTOCOLS
from gendr.experiments.studies.pose import Pairs, PoseTask, Recovery
from gendr.experiments.studies.scene import overlays
from gendr.rendering.backends.cpu import backend as cpu

TEAPOT = Path(__file__).resolve().parents[1] / "assets" / "teapot.obj"
COLUMNS, TILE = 8, 128


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("target", nargs="?", type=Path, default=TEAPOT, help="a mesh file")
    parser.add_argument("--dist", default="logistic", help="a distribution, see `gendr list`")
    parser.add_argument("--tconorm", default="probabilistic", help="a T-conorm")
    parser.add_argument("--protocol", default="laptop", choices=PROTOCOLS)
    parser.add_argument("--steps", type=int, help="instead of those of the protocol")
    parser.add_argument("--pairs", type=int, help="likewise")
    parser.add_argument("--faces", type=int, help="likewise: at most so many, 0 for all")
    parser.add_argument("--learning-rates", nargs="+", type=float, metavar="RATE", help="likewise")
    parser.add_argument("--seed", type=int, default=0, help="of the pairs")
    parser.add_argument("--device", default="cpu", help="such as cpu or cuda")
    parser.add_argument("-o", "--output", default="pose", type=Path, metavar="FOLDER")
    return parser.parse_args(argv)


def table(recoveries: Sequence[Recovery], within: float) -> str:
    """The fractions found with each learning rate."""
    angles = (within, 5.0, 10.0, 30.0)
    heads = "".join(f"{f'within {angle:g}':>12}" for angle in angles)
    lines = [f"learning rate{heads}  median error"]
    for recovery in recoveries:
        scores = "".join(f"{recovery.score(angle):12.3f}" for angle in angles)
        lines.append(f"{recovery.learning_rate:13g}{scores}  {recovery.error.median():12.2f}")
    return "\n".join(lines)


def poses_sheet(task: PoseTask, pairs: Pairs, recovery: Recovery) -> Image.Image:
    """Above the starts of some pairs, below what was found; over their references."""
    few = next(pairs.split(COLUMNS))
    reference = task.silhouettes(few, few.reference, TILE)
    others = [few.start, recovery.found[: len(few)]]
    rows = [overlays(reference, task.silhouettes(few, x, TILE), COLUMNS) for x in others]
    return Image.fromarray(np.concatenate(rows))


def save_histogram(path: Path, start: torch.Tensor, recovery: Recovery, title: str) -> None:
    """Angles [B] before and after."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(title=title, xlabel="angle to the reference / degrees")
    axes.set_ylabel("poses")
    bins = np.arange(0, 181, 3)
    axes.hist(start.numpy(), bins, alpha=0.5, color="tab:blue", label="start")
    axes.hist(recovery.error.cpu().numpy(), bins, alpha=0.7, color="tab:orange", label="found")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def run(args: argparse.Namespace) -> None:
    """The experiment, and its files."""
    names = ("steps", "pairs", "faces", "learning_rates")
    overrides = {n: value for n in names if (value := getattr(args, n)) is not None}
    check_device(args.device)
    instance = gendr.instance(f"{args.dist}/{args.tconorm}")
    task = PoseTask.make(args.protocol, args.target, args.device, **overrides)
    pairs = Pairs.draw(task.target, task.protocol, args.seed)
    out = check_writable(args.output)

    start = time.perf_counter()
    with tqdm(
        total=1.0, desc=instance.name, bar_format="{l_bar}{bar}| {elapsed}<{remaining}"
    ) as bar:
        recoveries = task.search(instance, args.seed, lambda done: bar.update(done - bar.n))
    outcome = task.outcome(instance, recoveries, args.seed, time.perf_counter() - start)
    print(table(recoveries, task.protocol.within))
    print(f"score: {outcome.score:.4f} ({task.unit})")

    best = task.best(recoveries)
    poses_sheet(task, pairs, best).save(out / "poses.png")
    before = pairs.start.error()
    save_histogram(out / "errors.png", before, best, instance.name)
    values = {key: value for key, value in asdict(outcome).items() if key != "picture"}
    values["protocol"] = json.loads(task.protocol_json())
    values["start_degrees"] = before.tolist()
    values["error_degrees"] = {f"{r.learning_rate:g}": r.error.tolist() for r in recoveries}
    (out / "poses.json").write_text(json.dumps(values, indent=1) + "\n")
    print(f"{out}: poses.png, errors.png, poses.json")


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
