"""The numbers of docs/experiments.md: what the protocols are, and what longer runs came to.

    python docs/make_findings.py

It also fills the short run of docs/results/sorting.md. What the grids came to is in
docs/make_rounds.py.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path

from lab.pages import fill, table
from lab.report.details import is_twice
from lab.report.qualities import Grid
from lab.studies.pose import PoseProtocol
from lab.studies.ranking import DIST
from lab.studies.shape import ShapeProtocol

DOCS = Path(__file__).parent
# Table 3.7 of the thesis: lists of five four-digit numbers in exactly the right order, percent.
PUBLISHED = {"logistic": 77.2, "reciprocal": 85.0, "cauchy": 84.9, "optimal": 85.0}


def best_by_view(paper: dict[str, list[dict[str, float]]]) -> dict[float, float]:
    """Quality by elevation, of a run at the paper's size."""
    out: dict[float, float] = {}
    for trial in paper["trials"]:
        out[trial["seed"]] = max(out.get(trial["seed"], 0.0), 1 - trial["score"])
    return out


def protocol() -> list[str]:
    """The settings of the thesis beside ours."""
    paper, small = ShapeProtocol.named("paper"), ShapeProtocol.named("laptop")
    pose, poses = PoseProtocol.named("paper"), PoseProtocol.named("laptop")

    def powers(values: Sequence[float]) -> str:
        return ", ".join(f"10^{math.log10(value):g}" for value in values)

    def searched(p: ShapeProtocol) -> str:
        step = sorted({abs(b - a) for a, b in zip(p.exponents, p.exponents[1:], strict=False)})[0]
        ends = f"10^{p.exponents[0]:g} to 10^{p.exponents[-1]:g} by 10^{step:g}"
        return f"{ends}, {len(p.finer)} finer"

    def scales(p: PoseProtocol) -> str:
        return f"10^{math.log10(p.scales[0]):g} to 10^{math.log10(p.scales[1]):g}"

    least, greatest = small.squared_exponents[-1], small.squared_exponents[0]
    return table(
        ("", "thesis", "`paper`", "`laptop`"),
        [
            ("**shape**: image", "not said", f"{paper.image_size}²", f"{small.image_size}²"),
            ("views × elevations", "24 × 5", f"{paper.views} × {len(paper.elevations)}",
             f"{small.views} × {len(small.elevations)}"),
            ("vertices of the sphere", "not said", *(str(10 * 4**p.subdivisions + 2)
                                                     for p in (paper, small))),
            ("steps", "100", str(paper.steps), str(small.steps)),
            ("Adam's β", "0.5, 0.95", *(f"{p.betas[0]:g}, {p.betas[1]:g}" for p in (paper, small))),
            ("learning rates", "10^-1.25, 10^-1.5, 10^-1.75", powers(paper.learning_rates),
             powers(small.learning_rates)),
            ("scales", "81, 10^0 to 10^-8", searched(paper), searched(small)),
            ("scales, squared", "the same", "the same", f"10^{greatest:g} to 10^{least:g}"),
            ("**pose**: image", "not said", f"{pose.image_size}²", f"{poses.image_size}²"),
            ("pairs", "600", str(pose.pairs), str(poses.pairs)),
            ("faces of the teapot", "not said", "all", f"at most {poses.faces}"),
            ("steps", "1000", str(pose.steps), str(poses.steps)),
            ("learning rate", "0.1 or 0.3", ", ".join(f"{r:g}" for r in pose.learning_rates),
             ", ".join(f"{r:g}" for r in poses.learning_rates)),
            ("learning rate falls to", "not said", *(f"{p.final_rate:g}" for p in (pose, poses))),
            ("scale", "10^-1 to 10^-7", scales(pose), scales(poses)),
        ],
    )  # fmt: skip


def longer(results: Path) -> list[str]:
    """How long the laptop grid takes, its best with 100 steps, and runs at the paper's size."""
    grids = [Grid.read(results / "grid-laptop.csv", task) for task in ("shape", "pose")]
    hours = [f"{grid.seconds.sum() / 3600:.1f}" for grid in grids if grid is not None]
    with (results / "shape-100-steps.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    different = [row for row in rows if not is_twice(row["instance"])]
    scores = [1 - float(row["score"]) for row in rows]
    grid = [1 - float(row["grid_score"]) for row in rows]
    poses = json.loads((results / "pose-paper.json").read_text())
    protocol = poses["protocol"]
    (errors,) = poses["error_degrees"].values()
    found = {angle: sum(e <= angle for e in errors) / len(errors) for angle in (1, 3)}
    paper = json.loads((results / "shape-paper.json").read_text())
    by_view = best_by_view(paper)
    now, then = (f"{min(x):.3f} to {max(x):.3f}" for x in (scores, grid))
    return [
        f"- All 1242 by the laptop protocol: {' and '.join(hours)} hours of one core for shapes "
        "and for poses.",
        f"- Shape, {rows[0]['steps']} steps instead of 30, the {len(different)} best of the laptop "
        f"grid: mean hard IoU {now} (in the grid {then}).",
        f"- Shape, the paper's views, size and steps, `{paper['instance']}`: "
        f"{1 - paper['score']:.3f}; by elevation {min(by_view.values()):.3f} to "
        f"{max(by_view.values()):.3f}, tuned on each.",
        f"- Pose, {protocol['steps']} steps at {protocol['image_size']}², `{poses['instance']}`, "
        f"{len(errors)} pairs: {found[3]:.1%} within 3°, {found[1]:.1%} within 1°.",
    ]


def mnist(path: Path) -> list[str]:
    """What a short run of `experiments/sorting_mnist.py` came to."""
    run = json.loads(path.read_text())
    n, test = run["settings"]["n"], run["test"]
    dist = run["settings"]["dist"] or DIST
    losses = [entry["loss"] for entry in run["history"] if "loss" in entry]
    return [
        f"`--smoke`, n = {n}, {run['settings']['method']}, {run['seconds'] / 60:.0f} minutes on "
        f"{run['threads']} threads of a busy machine, {run['step']} steps of "
        f"{run['settings']['batch']} lists: the loss fell from {losses[0]:.2f} to "
        f"{losses[-1]:.2f}, and of the test's lists of five {test['em5']:.1%} came out exactly "
        f"right (by chance {1 / math.factorial(5):.2%}), of their elements {test['ew']:.1%}. "
        f"Published, {dist} after up to 200,000 steps: {PUBLISHED[dist]:.1f}% of the lists (Table "
        "3.7)."
    ]


def main() -> None:
    """Fill the pages."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    results = DOCS / "results"
    fill(results / "study.md", "protocol", protocol())
    fill(DOCS / "experiments.md", "longer", longer(results))
    fill(results / "sorting.md", "sorting-mnist", mnist(results / "mnist-smoke.json"))


if __name__ == "__main__":
    main()
