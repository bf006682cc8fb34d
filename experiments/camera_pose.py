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
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

import gendr
from gendr.kernels.threads import torch_on_one_thread
from gendr.photos import visual
from lab import script
from lab.studies.pose import Pairs, PoseTask, Recovery
from lab.studies.scene import overlays

COLUMNS, TILE = 8, 128


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    script.add_target(parser, "pose")
    script.add_renderer(parser)
    script.add_protocol(parser)
    parser.add_argument("--steps", type=int, help="instead of those of the protocol")
    parser.add_argument("--pairs", type=int, help="likewise")
    parser.add_argument("--faces", type=int, help="likewise: at most so many, 0 for all")
    parser.add_argument("--learning-rates", nargs="+", type=float, metavar="RATE", help="likewise")
    script.add_seed(parser)
    script.add_device(parser)
    script.add_output(parser, "pose")


def table(recoveries: Sequence[Recovery], within: float) -> str:
    """The fractions found with each learning rate."""
    angles = (within, 5.0, 10.0, 30.0)
    heads = "".join(f"{f'within {angle:g}':>12}" for angle in angles)
    lines = [f"learning rate{heads}  median error"]
    for recovery in recoveries:
        scores = "".join(f"{recovery.score(angle):12.3f}" for angle in angles)
        lines.append(f"{recovery.learning_rate:13g}{scores}  {recovery.error.median():12.2f}")
    return "\n".join(lines)


def poses_sheet(task: PoseTask, pairs: Pairs, recovery: Recovery) -> visual.Pixels:
    """Above the starts of some pairs, below what was found; over their references."""
    few = next(pairs.split(COLUMNS))
    reference = task.silhouettes(few, few.reference, TILE)
    others = [few.start, recovery.found[: len(few)]]
    rows = [overlays(reference, task.silhouettes(few, x, TILE), COLUMNS) for x in others]
    return np.concatenate(rows)


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
    script.write_whole(path, partial(figure.savefig, format="png", dpi=150))


@torch_on_one_thread()
def run(args: argparse.Namespace) -> None:
    """The experiment, and its files."""
    overrides = script.given(args, "steps", "pairs", "faces", "learning_rates")
    script.device_of(args)
    instance = gendr.instance(f"{args.dist}/{args.tconorm}")
    task = PoseTask.make(args.protocol, args.target, args.device, **overrides)
    pairs = Pairs.draw(task.target, task.protocol, args.seed)
    out = script.output_folder(args)

    start = time.perf_counter()
    with script.progress_bar(instance.name) as show:
        recoveries = task.search(instance, args.seed, show)
    outcome = task.outcome(instance, recoveries, args.seed, time.perf_counter() - start)
    print(table(recoveries, task.protocol.within))
    print(f"score: {outcome.score:.4f} ({task.unit})")

    best = task.best(recoveries)
    sheet = poses_sheet(task, pairs, best)
    script.write_whole(out / "poses.png", visual.picture(sheet))
    before = pairs.start.error()
    save_histogram(out / "errors.png", before, best, instance.name)
    values = script.described(outcome, task)
    values["start_degrees"] = before.tolist()
    values["error_degrees"] = {f"{r.learning_rate:g}": r.error.tolist() for r in recoveries}
    script.write_json(out / "poses.json", values)
    print(f"{out}: poses.png, errors.png, poses.json")


main = script.program(__file__, __doc__, add_options, run)


if __name__ == "__main__":
    sys.exit(main())
