"""Hold the grid over all 1242 renderers against what the thesis found; fills docs/experiments.md.

    python docs/make_findings.py                                  # of docs/results/grid-laptop.csv
    python docs/make_findings.py --csv my.csv --page my-notes.md  # of a grid of your own

The table is what `experiments/grid_benchmark.py --export csv` writes. Everything is said in
quality, larger is better: the mean hard IoU for shapes, the fraction of poses found for poses.
Plain and squared distributions are counted apart, as in the thesis.
How claims are decided is said in `lab.report.claims`.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import csv
import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lab.pages import fill, table
from lab.report.claims import (
    HALVES,
    TAILS,
    Claim,
    claims,
    rank_correlation,
    together,
)
from lab.report.details import TWICE, is_twice
from lab.report.qualities import Grid, averages
from lab.report.words import UNITS, all_names, most, short, with_error
from lab.studies.pose import PoseProtocol
from lab.studies.ranking import DIST
from lab.studies.shape import ShapeProtocol

DOCS = Path(__file__).parent
# Table 3.7 of the thesis: lists of five four-digit numbers in exactly the right order, percent.
PUBLISHED = {"logistic": 77.2, "reciprocal": 85.0, "cauchy": 84.9, "optimal": 85.0}


# ---------------------------------------------------------------------------------------------
# the numbers behind the claims


def behind(grid: Grid) -> list[tuple[str, ...]]:
    """Two rows, plain and squared: medians by tail, and who holds the best tenth."""
    rows: list[tuple[str, ...]] = []
    for half in (0, 1):
        medians = []
        for names in TAILS.values():
            values = grid.quality[half][[grid.laws.index(name) for name in names]]
            values = values[:, grid.distinct]
            medians.append(f"{np.median(values):.3f}")
        top, names = grid.best_tenth(half), [grid.conorms[j] for j in grid.distinct]
        laws = most([short(grid.laws[i]) for i, _ in np.argwhere(top)], 4)
        conorms = most([short(names[j], conorm=True) for _, j in np.argwhere(top)], 4)
        rows.append((f"{grid.task}, {HALVES[half]}", *medians, str(top.sum()), laws, conorms))
    return rows


def details(shape: Grid, pose: Grid) -> list[str]:
    """Numbers that the claims leave open."""
    out: list[str] = []
    for grid in (shape, pose):
        wins: dict[str, list[str]] = {}
        for name in TAILS["Levy, all four"]:
            against = [
                int((grid.law(0, name).mean((0, 2)) > grid.law(0, other).mean((0, 2))).sum())
                for other in TAILS["linear"]
            ]
            wins[name] = [f"{count}" for count in against]
        number = grid.law(0, "levy").shape[1]
        text = "; ".join(f"{short(name)} {' and '.join(counts)}" for name, counts in wins.items())
        out.append(
            f"- **Levy, {grid.task}**: of {number} different T-conorms, under so many better than "
            f"cauchy and than reciprocal, plain: {text}."
        )
    for grid in (shape, pose):
        held = [
            " + ".join(
                str(int(grid.best_tenth(half)[grid.laws.index(name)].sum())) for name in names
            )
            for half in (0, 1)
            for names in (TAILS["finite"], TAILS["exponential"])
        ]
        out.append(
            f"- **Finite supports, {grid.task}**: places in the best tenth, plain, "
            f"{held[0]} of the three; {held[1]} of the four exponential tails. Squared: {held[2]}; "
            f"{held[3]}."
        )
    for grid in (shape, pose):
        best = grid.quality.max(2)
        counts = [int(x.sum()) for x in (best[0] > best[1], best[0] < best[1], best[0] == best[1])]
        out.append(
            f"- **Squaring, {grid.task}**: by its best T-conorm, {counts[0]} laws do better plain, "
            f"{counts[1]} squared, {counts[2]} equally well."
        )
    place = shape.conorms.index("dombi(p=0.5)")
    for grid in (shape, pose):
        text = ", ".join(
            f"{name} {1 + int((values[grid.distinct] > values[place]).sum())}"
            for name in (*TAILS["finite"], *TAILS["exponential"])
            for values in [grid.quality[0, grid.laws.index(name)]]
        )
        out.append(f"- **dombi 0.5, {grid.task}**: its place among the T-conorms, plain: {text}.")
    ratio = (
        shape.scale[0, shape.laws.index("gumbel_max")]
        / (shape.scale[0, shape.laws.index("gumbel_min")])
    )
    out.append(
        f"- **gumbel_max, shape**: its best scale is {np.median(ratio):.1f} times that of "
        "gumbel_min, the median over the T-conorms."
    )
    (least, greatest), found = shape.limits[0], np.log10(shape.scale[0][:, shape.distinct])
    high, low = (found >= greatest - 1e-6), (found <= least + 1e-6)
    who = most([short(shape.laws[i]) for i, _ in np.argwhere(high | low)], 4)
    out.append(
        f"- **The ends of the range, shape, plain**: {int(high.sum())} best scales at the upper "
        f"end, {int(low.sum())} at the lower one; {who}."
    )
    return out


def leaders(grid: Grid, count: int, pairs: int) -> list[tuple[str, ...]]:
    """The best renderers: place, distribution, T-conorm, quality. Ties have one place.

    Args:
        grid: Of one task.
        count: How many.
        pairs: Poses that a quality is a fraction of; 0 for shapes, whose error is not known.
    """
    ordered = sorted(
        (-value, half, i, j)
        for (half, i, j), value in np.ndenumerate(grid.quality)
        if grid.conorms[j] not in TWICE
    )
    rows: list[tuple[str, ...]] = []
    values = [-each[0] for each in ordered]
    for value, (_, half, i, j) in zip(values[:count], ordered, strict=False):
        error = f" ± {math.sqrt(value * (1 - value) / pairs):.3f}" if pairs else ""
        tied = values.count(value) > 1
        rows.append((
            f"{1 + values.index(value)}{'=' if tied else ''}",
            short(grid.laws[i]) + (" squared" if half else ""), all_names(grid.conorms[j]),
            f"{value:.3f}{error}",
        ))  # fmt: skip
    return rows


def uncertainty(results: Path, shape: Grid, pose: Grid) -> list[str]:
    """What is known of the error of a single score, and how long the grid takes."""
    with (results / "shape-100-steps.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if not is_twice(row["instance"])]
    now, then = (np.array([1 - float(row[key]) for row in rows]) for key in ("score", "grid_score"))
    correlation = rank_correlation(then[:, None], now[:, None])
    paper = json.loads((results / "shape-paper.json").read_text())
    views = list(best_by_view(paper).values())
    pairs = PoseProtocol.named("laptop").pairs
    return [
        "- **Shape**: the grid has one object at one elevation, so the error of a score is not "
        f"known. At the paper's size {paper['instance']} reaches {min(views):.3f} to "
        f"{max(views):.3f} at {len(views)} elevations, a standard deviation of "
        f"{statistics.stdev(views):.3f}.",
        f"- **The winners**: run again with {rows[0]['steps']} steps, the {len(rows)} best "
        "different renderers of the grid do not keep their order: rank correlation "
        f"{with_error(*correlation)}. Part of that may be the steps, and part is that the best of "
        "1242 uncertain scores are the luckier ones.",
        f"- **Pose**: a fraction q of {pairs} pairs has the error √(q (1 − q) / {pairs}), at most "
        f"{0.5 / math.sqrt(pairs):.3f}. All renderers have the same pairs, so that differences "
        "between renderers are more certain than that.",
        f"- **Time**: the renderers of the grid took {shape.seconds.sum() / 3600:.1f} hours for "
        f"shapes and {pose.seconds.sum() / 3600:.1f} for poses, added up.",
    ]


def best_by_view(paper: dict[str, list[dict[str, float]]]) -> dict[float, float]:
    """Quality by elevation, of a run at the paper's size."""
    out: dict[float, float] = {}
    for trial in paper["trials"]:
        out[trial["seed"]] = max(out.get(trial["seed"], 0.0), 1 - trial["score"])
    return out


# ---------------------------------------------------------------------------------------------
# one renderer of the field


def soft_rasterizer(shape: Grid, pose: Grid) -> list[str]:
    """Where Soft Rasterizer stands among all."""
    place = 1, shape.laws.index("logistic"), shape.conorms.index("probabilistic")
    said = [
        f"{grid.quality[place]:.3f} (place {1 + int((different > grid.quality[place]).sum())} "
        f"of {different.size}) for {grid.task}s"
        for grid in (shape, pose)
        for different in [grid.quality[..., grid.distinct]]
    ]
    return [
        f"Soft Rasterizer in the laptop grid, `logistic.squared/probabilistic`: "
        f"{' and '.join(said)}."
    ]


# ---------------------------------------------------------------------------------------------
# the protocol


def protocol() -> list[str]:
    """The settings of the thesis beside ours."""
    paper, small = ShapeProtocol.named("paper"), ShapeProtocol.named("laptop")
    pose, poses = PoseProtocol.named("paper"), PoseProtocol.named("laptop")

    def powers(values: Sequence[float]) -> str:
        return ", ".join(f"10^{math.log10(value):g}" for value in values)

    def searched(p: ShapeProtocol) -> str:
        steps = sorted({abs(b - a) for a, b in zip(p.exponents, p.exponents[1:], strict=False)})
        return (
            f"10^{p.exponents[0]:g} to 10^{p.exponents[-1]:g} in steps of 10^{steps[0]:g}, then "
            f"{len(p.finer)} around the best"
        )

    def falls(p: PoseProtocol) -> str:
        return f"to {p.final_rate:g} of itself"

    return table(
        ("", "thesis", "`--protocol paper`", "`--protocol laptop`"),
        [
            ("**shape**: image", "not said", f"{paper.image_size}²", f"{small.image_size}²"),
            ("views × elevations", "24 × 5", f"{paper.views} × {len(paper.elevations)}",
             f"{small.views} × {len(small.elevations)}"),
            ("sphere", "not said", *(f"{10 * 4**p.subdivisions + 2} vertices"
                                     for p in (paper, small))),
            ("steps", "100", str(paper.steps), str(small.steps)),
            ("Adam's β", "0.5, 0.95", *(f"{p.betas[0]:g}, {p.betas[1]:g}" for p in (paper, small))),
            ("learning rates", "10^-1.25, 10^-1.5, 10^-1.75", powers(paper.learning_rates),
             powers(small.learning_rates)),
            ("scales", "81, 10^0 to 10^-8, with every rate", searched(paper), searched(small)),
            ("scales, squared", "the same", "the same",
             f"10^{small.squared_exponents[0]:g} to 10^{small.squared_exponents[-1]:g}, "
             "twice the steps"),
            ("**pose**: image", "not said", f"{pose.image_size}²", f"{poses.image_size}²"),
            ("pairs", "600", str(pose.pairs), str(poses.pairs)),
            ("faces of the teapot", "not said", "all", f"at most {poses.faces}"),
            ("steps", "1000", str(pose.steps), str(poses.steps)),
            ("learning rate", "0.1 or 0.3", ", ".join(f"{r:g}" for r in pose.learning_rates),
             ", ".join(f"{r:g}" for r in poses.learning_rates)),
            ("it falls", "not said", falls(pose), falls(poses)),
            ("scale", "10^-1 to 10^-7", *(f"10^{math.log10(p.scales[0]):g} to "
                                          f"10^{math.log10(p.scales[1]):g}"
                                          for p in (pose, poses))),
            ("scale, squared", "not said", "the same numbers, in squared units",
             "the same numbers, in squared units"),
            ("unknowns", "not said; in its code direction, distance, viewing angle",
             *["direction, apparent size, viewing angle"] * 2),
            ("what is scored", "not said", *[
                f"the look most like the reference of every {p.look} steps" for p in (pose, poses)
            ]),
        ],
    )  # fmt: skip


def longer(results: Path) -> list[str]:
    """What the best renderers reach with 100 steps, and a pose run at the size of the paper."""
    with (results / "shape-100-steps.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    different = [row for row in rows if not is_twice(row["instance"])]
    scores = [1 - float(row["score"]) for row in rows]
    grid = [1 - float(row["grid_score"]) for row in rows]
    poses = json.loads((results / "pose-paper.json").read_text())
    protocol = poses["protocol"]
    ((rate, errors),) = poses["error_degrees"].items()
    found = {angle: sum(e <= angle for e in errors) / len(errors) for angle in (1, 3, 10)}
    paper = json.loads((results / "shape-paper.json").read_text())
    by_view = best_by_view(paper)
    tried = len(paper["trials"]) // len(by_view)
    now, then = (f"{min(x):.3f} to {max(x):.3f}" for x in (scores, grid))
    return [
        f"- Shape: the best {len(rows)} of the grid ({len(different)} different ones), again with "
        f"{rows[0]['steps']} steps instead of 30: mean hard IoU {now} (in the grid {then}); "
        "`experiments/best_again.py`.",
        f"- Shape: {paper['instance']} at the views, size and steps of the paper, {tried} scales "
        f"and learning rates for each of {len(by_view)} elevations: mean hard IoU "
        f"{1 - paper['score']:.3f} ({min(by_view.values()):.3f} to {max(by_view.values()):.3f}); "
        f"`experiments/shape_optimization.py --protocol paper`.",
        f"- Pose: {poses['instance']}, {len(errors)} pairs of the teapot on at most "
        f"{protocol['faces']} faces, {protocol['steps']} steps at {protocol['image_size']}², "
        f"learning rate {rate}: {found[3]:.1%} within 3°, {found[1]:.1%} within 1°, "
        f"{found[10]:.1%} within 10°; `experiments/camera_pose.py --protocol paper`.",
    ]


def mnist(path: Path) -> list[str]:
    """What a short run of `experiments/sorting_mnist.py` came to."""
    run = json.loads(path.read_text())
    n, test = run["settings"]["n"], run["test"]
    law = run["settings"]["dist"] or DIST
    losses = [entry["loss"] for entry in run["history"] if "loss" in entry]
    return [
        f"`--smoke`, n = {n}, {run['settings']['method']}, {run['seconds'] / 60:.0f} minutes on "
        f"{run['threads']} threads of a busy machine, {run['step']} steps of "
        f"{run['settings']['batch']} lists: the loss fell from {losses[0]:.2f} to "
        f"{losses[-1]:.2f}, and of the test's lists of five {test['em5']:.1%} came out exactly "
        f"right (by chance {1 / math.factorial(5):.2%}), of their elements {test['ew']:.1%}. "
        f"Published, {law} after up to 200,000 steps: {PUBLISHED[law]:.1f}% of the lists (Table "
        "3.7)."
    ]


def main() -> None:
    """Read the table, fill the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csv", type=Path, default=DOCS / "results" / "grid-laptop.csv")
    parser.add_argument("--page", type=Path, default=DOCS / "experiments.md")
    parser.add_argument("--best", type=int, default=8, help="rows of the tables of the best")
    args = parser.parse_args()
    grids = {task: Grid.read(args.csv, task) for task in ("shape", "pose")}
    found: list[Claim] = []
    numbers: list[tuple[str, ...]] = []
    for task, grid in grids.items():
        if grid is None:
            continue
        average = averages(args.csv.parent / f"{task}-average.csv", task)
        found += claims(grid, average)
        numbers += behind(grid)
        pairs = PoseProtocol.named("laptop").pairs if task == "pose" else 0
        head = ("place", "distribution", "T-conorm", UNITS[task])
        fill(args.page, f"best-{task}", table(head, leaders(grid, args.best, pairs)))
    shape, pose = grids["shape"], grids["pose"]
    if shape and pose:
        found += together(shape, pose)
        fill(args.page, "details", details(shape, pose))
        fill(args.page, "uncertainty", uncertainty(DOCS / "results", shape, pose))
    head = ("claim", "published", "task", "our number", "right?")
    fill(args.page, "claims", table(head, [claim.row() for claim in found]))
    head = ("", *TAILS, "best tenth", "its distributions", "its T-conorms")
    fill(args.page, "behind", table(head, numbers))
    if args.page == DOCS / "experiments.md" and shape and pose:
        page = DOCS / "which-renderer.md"
        fill(page, "soft-rasterizer", soft_rasterizer(shape, pose))
        fill(args.page, "protocol", protocol())
        fill(args.page, "longer", longer(DOCS / "results"))
        smoke = mnist(DOCS / "results" / "mnist-smoke.json")
        fill(DOCS / "sorting.md", "sorting-mnist", smoke)


if __name__ == "__main__":
    main()
