"""Hold the grid over all 1242 renderers against what the thesis found; fills docs/experiments.md.

    python docs/make_findings.py                                  # of docs/results/grid-laptop.csv
    python docs/make_findings.py --csv my.csv --page my-notes.md  # of a grid of your own

The table is what `experiments/grid_benchmark.py --export csv` writes. Everything is said in
quality, larger is better: the mean hard IoU for shapes, the fraction of poses found for poses.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gendr import distributions
from gendr.experiments.report.summary import TOP_SHARE, label
from gendr.testing.pages import fill, table
from gendr.tnorms import tconorm

DOCS = Path(__file__).parent
FINITE = ("uniform", "cubic_hermite", "wigner_semicircle")
EXPONENTIAL = ("gaussian", "laplace", "logistic", "hyperbolic_secant")
LINEAR = ("cauchy", "reciprocal")
# The law whose tail points outwards beside its mirror image, whose tail points inwards.
MIRRORED = (
    ("gumbel_min", "gumbel_max"),
    ("exponential.reversed", "exponential"),
    ("gamma(shape=0.5).reversed", "gamma(shape=0.5)"),
    ("gamma(shape=2.0).reversed", "gamma(shape=2.0)"),
)
EXTREME = (
    *("yager(p=4)", "aczel_alsina(p=2)", "aczel_alsina(p=4)", "dombi(p=2)", "dombi(p=4)"),
    *("schweizer_sklar(p=-2)", "schweizer_sklar(p=-4)"),
)


@dataclass(frozen=True)
class Grid:
    """The qualities of one task.

    Attributes:
        task: "shape" or "pose".
        quality: (distribution without squaring, squared, T-conorm) -> quality.
    """

    task: str
    quality: dict[tuple[str, bool, str], float]

    @classmethod
    def read(cls, path: Path, task: str) -> Grid:
        """The rows of one task."""
        quality: dict[tuple[str, bool, str], float] = {}
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                if row["task"] == task:
                    score = float(row["score"])
                    key = row["dist"], row["squared"] == "True", canonical(row["tconorm"])
                    quality[key] = 1 - score if task == "shape" else score
        return cls(task, quality)

    def of(
        self,
        dists: Sequence[str] | None = None,
        squared: bool | None = None,
        conorms: Sequence[str] | None = None,
    ) -> list[float]:
        """All qualities of some members."""
        return [
            value
            for (dist, is_squared, conorm), value in self.quality.items()
            if (dists is None or dist in dists)
            and (squared is None or is_squared == squared)
            and (conorms is None or conorm in conorms)
        ]

    def names(self, axis: int) -> list[str]:
        """The members along an axis of the keys, each once."""
        return list(dict.fromkeys(str(key[axis]) for key in self.quality))

    def top(self) -> list[tuple[str, bool, str]]:
        """The best tenth."""
        ordered = sorted(self.quality, key=lambda key: -self.quality[key])
        return ordered[: round(TOP_SHARE * len(ordered))]


def qualities(task: str, path: Path) -> list[float]:
    """The scores in a table of `experiments/best_again.py`."""
    with path.open(newline="") as file:
        scores = [float(row["score"]) for row in csv.DictReader(file)]
    return [1 - score for score in scores] if task == "shape" else scores


def best(values: Iterable[float]) -> float:
    """The largest, 0 of none."""
    return max(values, default=0.0)


def middle(values: Iterable[float]) -> float:
    """The median, 0 of none."""
    values = list(values)
    return statistics.median(values) if values else 0.0


def ordered_by(names: Iterable[str], value: dict[str, float]) -> list[str]:
    """Names, best first."""
    return sorted(names, key=lambda name: -value[name])


def findings(grid: Grid, average: Sequence[float] = ()) -> list[tuple[str, str]]:
    """Question and answer, one pair for each finding of the thesis.

    Args:
        grid: of one task.
        average: qualities of renderers with the mean in place of a T-conorm.
    """
    dists, conorms = grid.names(0), grid.names(2)
    out: list[tuple[str, str]] = []

    gain = {d: best(grid.of([d], False)) - best(grid.of([d], True)) for d in dists}
    plain = [d for d in dists if gain[d] > 0]
    others = ordered_by((d for d in dists if gain[d] <= 0), {d: -gain[d] for d in dists})
    text = ", ".join(f"{name(d)} {-gain[d]:+.3f}" for d in others[:8])
    out.append(
        (
            "plain better than squared, but for linear tails",
            f"plain is better for {len(plain)} of {len(dists)} (best over T-conorms, "
            f"median gain {middle(gain.values()):+.3f}); squared for: {text or 'none'}",
        )
    )

    tails = {"finite": FINITE, "exponential": EXPONENTIAL, "linear": LINEAR, "levy": ("levy",)}
    parts = [
        f"{kind} {best(grid.of(laws)):.3f} (median {middle(grid.of(laws)):.3f})"
        for kind, laws in tails.items()
    ]
    by_best = {d: best(grid.of([d])) for d in dists}
    last = ordered_by(dists, by_best)[-4:]
    worst = ", ".join(f"{name(d)} {by_best[d]:.3f}" for d in reversed(last))
    out.append(
        (
            "exponential decay better than linear, Levy worst",
            f"best by tail: {'; '.join(parts)}. The four worst distributions: {worst}",
        )
    )

    pairs = [
        f"{name(good)} {by_best[good]:.3f} against {name(poor)} {by_best[poor]:.3f}"
        for good, poor in MIRRORED
    ]
    out.append(
        ("gumbel_min and reversed laws competitive, their mirror images poor", "; ".join(pairs))
    )

    first = ordered_by(dists, by_best)[:6]
    rank = 1 + ordered_by(dists, by_best).index("gamma(shape=0.5).reversed")
    text = ", ".join(f"{name(d)} {by_best[d]:.3f}" for d in first)
    in_top = [key[0] for key in grid.top()]
    often = ordered_by(dists, {d: float(in_top.count(d)) for d in dists})[:5]
    counts = ", ".join(f"{name(d)} {in_top.count(d)}" for d in often)
    out.append(
        (
            "gamma(0.5) reversed best overall",
            f"number {rank} of {len(dists)} by its best member; the first: {text}. "
            f"In the best tenth ({len(in_top)}), plain and squared: {counts}",
        )
    )

    value = {c: middle(grid.of(None, None, [c])) for c in conorms}
    top = {c: best(grid.of(None, None, [c])) for c in conorms}
    counted = [key[2] for key in grid.top()]
    places = ordered_by(conorms, top)
    for question, members in (
        ("max poor", ["max"]),
        ("yager 2 and dombi 0.5 best", ["yager(p=2)", "dombi(p=0.5)"]),
    ):
        text = "; ".join(
            f"{name(c, conorm=True)} best {top[c]:.3f} (number {1 + places.index(c)} of "
            f"{len(conorms)}), median {value[c]:.3f}, {counted.count(c)} in the best tenth"
            for c in map(canonical, members)
        )
        out.append((question, text))
    if average:
        text = f"best {best(average):.3f}, median {middle(average):.3f} over {len(average)} laws"
        out.append(("average poor", text))
    extreme = [c for c in map(canonical, EXTREME) if c in conorms]
    share = sum(counted.count(c) for c in extreme)
    medians = ", ".join(f"{name(c, conorm=True)} {value[c]:.3f}" for c in extreme)
    out.append(
        (
            "extreme members poor",
            f"{len(extreme)} of {len(conorms)} T-conorms hold {share} of {len(counted)} places in "
            f"the best tenth. Medians: {medians}; of all others "
            f"{middle(value[c] for c in conorms if c not in extreme):.3f}",
        )
    )
    leaders = ordered_by(conorms, {c: float(counted.count(c)) for c in conorms})[:5]
    text = ", ".join(f"{name(c, conorm=True)} {counted.count(c)}" for c in leaders)
    out.append((f"the T-conorms of the best tenth ({len(counted)})", text))
    return out


def canonical(text: str) -> str:
    """The text of a T-conorm as it prints itself."""
    return str(tconorm(text))


def name(text: str, *, conorm: bool = False) -> str:
    """As figures write it."""
    return label(tconorm(text) if conorm else distributions.get(text))


def leaders(grid: Grid, count: int) -> list[tuple[str, str, str]]:
    """The best renderers: distribution, T-conorm, quality."""
    ordered = sorted(grid.quality, key=lambda key: -grid.quality[key])[:count]
    return [
        (
            name(dist) + (" squared" if squared else ""),
            name(conorm, conorm=True),
            f"{grid.quality[dist, squared, conorm]:.3f}",
        )
        for dist, squared, conorm in ordered
    ]


def longer(results: Path) -> list[str]:
    """What the best renderers reach with 100 steps, and a pose run at the size of the paper."""
    with (results / "shape-100-steps.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    scores = [1 - float(row["score"]) for row in rows]
    grid = [1 - float(row["grid_score"]) for row in rows]
    poses = json.loads((results / "pose-paper.json").read_text())
    protocol = poses["protocol"]
    ((rate, errors),) = poses["error_degrees"].items()
    found = {angle: sum(e <= angle for e in errors) / len(errors) for angle in (1, 3, 10)}
    paper = json.loads((results / "shape-paper.json").read_text())
    by_view: dict[int, float] = {}
    for trial in paper["trials"]:
        by_view[trial["seed"]] = max(by_view.get(trial["seed"], 0.0), 1 - trial["score"])
    tried = len(paper["trials"]) // len(by_view)
    now, then = (f"{min(x):.3f} to {max(x):.3f}" for x in (scores, grid))
    return [
        f"- Shape: the best {len(rows)} of the grid, again with {rows[0]['steps']} steps instead "
        f"of 30: mean hard IoU {now} (in the grid {then}); `experiments/best_again.py`.",
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
    losses = [entry["loss"] for entry in run["history"] if "loss" in entry]
    return [
        f"`--smoke`, n = {n}, {run['settings']['method']}, {run['seconds'] / 60:.0f} minutes on "
        f"{run['threads']} threads of a busy machine, {run['step']} steps of "
        f"{run['settings']['batch']} lists: the loss fell from {losses[0]:.2f} to "
        f"{losses[-1]:.2f}, and of the test's lists of five {test['em5']:.1%} came out exactly "
        f"right (by chance {1 / math.factorial(5):.2%}), of their elements {test['ew']:.1%}."
    ]


def main() -> None:
    """Read the table, fill the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csv", type=Path, default=DOCS / "results" / "grid-laptop.csv")
    parser.add_argument("--page", type=Path, default=DOCS / "experiments.md")
    parser.add_argument("--best", type=int, default=8, help="rows of the tables of the best")
    args = parser.parse_args()
    for task, unit in (("shape", "mean hard IoU"), ("pose", "fraction of poses found")):
        grid = Grid.read(args.csv, task)
        if not grid.quality:
            continue
        again = args.csv.parent / f"{task}-average.csv"
        average = qualities(task, again) if again.exists() else []
        fill(args.page, f"findings-{task}", table(("thesis", task), findings(grid, average)))
        head = ("distribution", "T-conorm", unit)
        fill(args.page, f"best-{task}", table(head, leaders(grid, args.best)))
    if args.page == DOCS / "experiments.md":
        fill(args.page, "longer", longer(DOCS / "results"))
        smoke = mnist(DOCS / "results" / "mnist-smoke.json")
        fill(DOCS / "sorting.md", "sorting-mnist", smoke)


if __name__ == "__main__":
    main()
