"""What the rounds of the study came to; fills its pages and docs/which-renderer.md.

    python docs/make_rounds.py

It reads the tables in docs/results/rounds, which `experiments/grid_rounds.py --tables` writes, and
those of `experiments/ten_objects.py` in docs/results/ten-objects. Every comparison of the rounds
with its errors goes to docs/results/claims.csv. The formulas are in `lab.report.inference`.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lab.pages import fill, table
from lab.report.choice import Ranking, complete, of_family, rankings
from lab.report.claims import (
    TAILS,
    Decided,
    claims,
    compare_conorms,
    compare_distributions,
    decide,
)
from lab.report.details import is_twice
from lab.report.inference import Effect
from lab.report.qualities import Grid, draws_of
from lab.report.ten import (
    Contrast,
    TenObjects,
    at_sizes,
    by_distribution,
    contrasts,
    every_contrast,
    published,
    read_seconds,
)
from lab.studies.rounds import BLOCKS, best_exponent, file_of, read_block, read_table
from lab.studies.ten import DISTRIBUTIONS, POSE_WIDTHS

DOCS = Path(__file__).parent
TASKS = ("shape", "pose")
HEAD = (
    "task", "claim", "comparison", "value", "limit", "mixed_error", "mixed_freedom", "mixed_p",
    "own_error", "own_freedom", "own_p", "verdict",
)  # fmt: skip
SHOWN = (
    *DISTRIBUTIONS, "gumbel_min", "exponential.reversed", "gamma(shape=0.5).reversed",
    "exponential",
)  # fmt: skip
CONORMS = (
    "probabilistic", "yager(p=2)", "frank(p=2)", "einstein", "hamacher(p=0.5)", "dombi(p=1)",
    "yager(p=4)", "schweizer_sklar(p=-4)", "dombi(p=0.5)", "max",
)  # fmt: skip
CHOICES = (
    "logistic/probabilistic", "laplace/probabilistic", "laplace/hamacher(p=0.5)",
    "hyperbolic_secant/probabilistic", "gaussian/probabilistic", "uniform/yager(p=2)",
    "uniform/probabilistic", "logistic.squared/probabilistic", "cauchy/probabilistic",
)  # fmt: skip


def grid_of(task: str, folder: Path) -> Grid:
    """Round 1, which has all renderers."""
    names = [block.name for block in BLOCKS[task] if block.round == 1]
    grid = Grid.of_blocks(folder, names, task)
    if grid is None or not grid.is_whole:
        raise ValueError(f"round 1 of the task {task} is not whole in {folder}")
    return grid


def averages_of(task: str, folder: Path, dists: Sequence[str]) -> NDArray[np.float64]:
    """[scenes, distributions, draws]: plain ones, the mean in place of a T-conorm, round 1."""
    blocks = [block for block in BLOCKS[task] if block.round == 1]
    tables = [read_block(file_of(folder, block)) for block in blocks]
    columns: list[NDArray[np.float64]] = []
    for dist in dists:
        scores = [each[f"{dist}/average"] for each in tables]
        columns.append(np.array(draws_of(task, scores, best_exponent(task, scores))))
    return np.stack(columns, 1)


def rates_of(folder: Path) -> tuple[int, list[float]]:
    """Learning rates of round 3 of shapes.

    Returns:
        How many renderers are best at the largest one, on the mean over scenes; for each scene the
        share that is best at 10^-1.5.
    """
    tables = [of_family(block, folder) for block in complete("shape", 3, folder)]
    names = [name for name in tables[0] if not is_twice(name)]
    best = [best_exponent("shape", [each[name] for each in tables])[1] for name in names]
    shares = [
        float(np.mean([best_exponent("shape", [each[name]])[1] == -1.5 for name in names]))
        for each in tables
    ]
    return best.count(max(best)), shares


# ---------------------------------------------------------------------------------------------
# the tables of the study


def state(folder: Path) -> list[tuple[str, ...]]:
    """A row for each round: how many renderers, on what, and how long it took."""
    rows: list[tuple[str, ...]] = []
    for task in TASKS:
        for number in sorted({block.round for block in BLOCKS[task]}):
            blocks = [block for block in BLOCKS[task] if block.round == number]
            seconds = [row[1] for b in blocks for row in read_table(file_of(folder, b))]
            unit = "elevation {}°" if task == "shape" else "seed {}"
            scenes = "; ".join(f"{b.target}, {unit.format(b.number)}" for b in blocks)
            rows.append((
                f"{task} {number}", str(len(of_family(blocks[0], folder))),
                scenes.replace("-", "−"), f"{sum(seconds) / 3600:.1f}",
            ))  # fmt: skip
    return rows


def models(found: dict[str, list[Ranking]]) -> list[tuple[str, ...]]:
    """A row for each round: whether renderers differ, and what the largest mean is worth."""
    rows: list[tuple[str, ...]] = []
    for task, rounds in found.items():
        for one in sorted(rounds, key=lambda one: one.number):
            model = one.model
            p = "< 0.0001" if model.p < 1e-4 else f"{model.p:.2f}"
            rows.append((
                f"{task} {one.number}", f"{model.ratio:.1f} ({p})", f"{model.reliability:.2f}",
                f"{model.means.max():.3f} → {model.shrunken.max():.3f}",
                f"{int(one.candidates.sum())} of {len(one.names)}",
            ))  # fmt: skip
    return rows


def part_of(said: Sequence[Decided], task: str, claim: str, k: int = 0) -> Effect:
    """The effect of the mixed model of one part of a claim."""
    return next(
        d.claim.parts[k].pooled for d in said if (d.claim.task, d.claim.claim) == (task, claim)
    )


def findings(
    said: Sequence[Decided], ten: dict[str, TenObjects], found: dict[str, list[Contrast]]
) -> list[str]:
    """The five findings, each with its interval."""

    def of(task: str, name: str) -> str:
        one = next(c for c in found[task] if c.name == name)
        open_ = ", not decided" if one.p >= 0.05 else ""
        return f"{one.effect.text()} (adjusted p {_p(one.p)}{open_})"

    shape, pose = ten["shape"], ten["pose"]
    mirrored = part_of(
        said, "shape", "reversed distributions better than their mirror images"
    ).text()
    one_width = pose.less(_plain("exponential"), _plain("linear"), same=True).text()
    return [
        f"1. **Shape: no best renderer can be named.** The best is among "
        f"{len(shape.candidates())} of {len(shape.names)} with 95 % confidence, from "
        f"{min(map(shape.mean, shape.candidates())):.3f} to "
        f"{max(map(shape.mean, shape.candidates())):.3f} mean hard IoU.",
        "2. **Shape: most distributions differ by little.** Exponential tails less linear ones: "
        f"{of('shape', 'exponential − linear tails')}; less finite supports: "
        f"{of('shape', 'exponential tails − finite supports')}.",
        "3. **Shape: `max` is worse than `probabilistic`** by "
        f"{of('shape', 'max − probabilistic')}; for poses the difference is "
        f"{of('pose', 'max − probabilistic')}. `yager(p=2)` less `probabilistic`: "
        f"{of('shape', 'yager 2 − probabilistic')} and {of('pose', 'yager 2 − probabilistic')}.",
        "4. **Poses rank widths, not distributions.** Exponential less linear tails, in poses "
        "found: "
        f"{one_width} at one width, {of('pose', 'exponential − linear tails')} at widths chosen "
        "on other objects.",
        "5. **Shape: a distribution must not be 0 outside a face.** `exponential.reversed` leads "
        f"`exponential` by {mirrored}, on two objects of round 1; the two gamma "
        "distributions likewise.",
    ]


def _plain(tails: str) -> list[str]:
    return [f"{dist}/probabilistic" for dist in TAILS[tails]]


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.2g}"


def verdicts(said: Sequence[Decided]) -> list[tuple[str, ...]]:
    """A row for each claim, with the verdicts of both tasks."""
    rows: dict[str, dict[str, str]] = {}
    for each in said:
        rows.setdefault(each.claim.claim, {})[each.claim.task] = each.verdict
    return [(claim, *(by_task.get(task, "—") for task in TASKS)) for claim, by_task in rows.items()]


def write_claims(path: Path, said: Sequence[Decided]) -> None:
    """Every comparison with both errors."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEAD)
        for each in said:
            for part, mixed, own in zip(each.claim.parts, each.pooled, each.own, strict=True):
                writer.writerow([
                    each.claim.task, each.claim.claim, part.text, f"{part.pooled.value:.5f}",
                    f"{part.limit:g}", f"{part.pooled.error:.5f}", f"{part.pooled.freedom:.1f}",
                    f"{mixed:.3g}", f"{part.own.error:.5f}", f"{part.own.freedom:.1f}",
                    f"{own:.3g}", each.verdict,
                ])  # fmt: skip


def checklist(
    grids: dict[str, Grid], said: Sequence[Decided], ten: dict[str, TenObjects], folder: Path
) -> list[tuple[str, str]]:
    """What a statistician asks, and the answers."""
    shape, pose = (ten[task] for task in TASKS)
    parts = {t: [p for d in said if d.claim.task == t for p in d.claim.parts] for t in TASKS}
    own = [part.own.freedom for part in parts["shape"]]
    pooled = sorted({round(part.pooled.freedom) for part in parts["shape"] if not part.limit})
    limits = np.array(grids["shape"].limits)
    scales = np.log10(grids["shape"].scale[:, :, grids["shape"].distinct])
    at_end = int((np.abs(scales[..., None] - limits[:, None, None]) < 1e-6).any(-1).sum())
    largest, _ = rates_of(folder)
    compared = contrasts(shape, pose)
    ends = [
        w
        for w in pose.widths
        if any(math.isclose(w, e, rel_tol=1e-6) for e in (POSE_WIDTHS[0], POSE_WIDTHS[-1]))
    ]
    return [
        (
            "multiplicity",
            f"Ten objects: {len(compared['shape'])} and {len(compared['pose'])} comparisons; round "
            f"1: {len(parts['shape'])} and {len(parts['pose'])}; each adjusted within the task by "
            "Benjamini and Hochberg. Who may be the best: Gupta's subset selection.",
        ),
        (
            "reliability",
            f"Ten objects: shape {shape.model.reliability:.2f}, pose "
            f"{pose.model.reliability:.2f}: the part of the variance of means that is not error.",
        ),
        (
            "held-out tuning",
            "Ten objects: width and learning rate are chosen on objects that are not scored. "
            "Round 1: on those scored.",
        ),
        (
            "degrees of freedom",
            f"Ten objects: 9 for each comparison. Round 1, mixed model: "
            f"{', '.join(map(str, pooled))}; from a comparison alone (Welch, Satterthwaite): "
            f"{min(own):.0f} to {max(own):.0f}, and “yes” needs both.",
        ),
        (
            "selection",
            "Ten objects: the renderers were named before. Rounds: who comes into one was chosen "
            "on the scenes of the round before.",
        ),
        (
            "ends of the search",
            "Ten objects: width and rate of a shape have tried neighbours on all sides; of "
            f"{len(pose.names)} widths for poses {len(ends)} lie at an end. Round 1: {at_end} of "
            f"{scales.size} scales at an end; round 3: {largest} learning rates at the largest.",
        ),
        (
            "what was sampled",
            "Ten objects, for shapes crossed with two elevations; round 1: two. Others of other "
            "kinds may differ.",
        ),
    ]


# ---------------------------------------------------------------------------------------------
# which one to use


def choices(ten: dict[str, TenObjects], seconds: Mapping[str, float]) -> list[tuple[str, ...]]:
    """Well-known renderers on ten objects, and the time of a step."""
    unit = seconds.get("uniform/probabilistic", math.nan)
    rows = [
        (
            f"`{name}`",
            *(f"{one.mean(name):.3f}" if name in one.names else "—" for one in ten.values()),
            f"{seconds.get(name, math.nan) / unit:.1f}",
        )
        for name in CHOICES
    ]
    rows.append(("a difference of two, ±", *(f"{one.half():.3f}" for one in ten.values()), ""))
    return rows


def distributions(grid: Grid, old: Grid) -> list[tuple[str, ...]]:
    """Plain distributions less `logistic`, over all T-conorms, and their time."""
    seconds = np.median(old.seconds[0][:, old.distinct], axis=1)
    unit = seconds[old.dists.index("uniform")]
    rows: list[tuple[float, tuple[str, ...]]] = []
    for dist in SHOWN:
        part = compare_distributions(grid, dist, [(0, dist)], [(0, "logistic")]).pooled
        said = "0" if dist == "logistic" else part.text()
        time = seconds[old.dists.index(dist)] / unit
        rows.append((part.value, (f"`{dist}`", said, f"{time:.1f}")))
    return [row for _, row in sorted(rows, key=lambda row: -row[0])]


def tconorms(grid: Grid, old: Grid) -> list[tuple[str, ...]]:
    """T-conorms less `probabilistic`, over all plain distributions, and their time."""
    seconds = dict(zip(old.conorms, np.median(old.seconds[0], axis=0), strict=True))
    rows: list[tuple[float, tuple[str, ...]]] = []
    for name in CONORMS:
        part = compare_conorms(grid, name, 0, [name], ["probabilistic"]).pooled
        said = "0" if name == "probabilistic" else part.text()
        time = seconds[name] / seconds["probabilistic"]
        rows.append((part.value, (f"`{name}`", said, f"{time:.1f}")))
    return [row for _, row in sorted(rows, key=lambda row: -row[0])]


def main() -> None:
    """Read the tables, fill the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=Path, default=DOCS / "results" / "rounds")
    parser.add_argument("--claims", type=Path, default=DOCS / "results" / "claims.csv")
    args = parser.parse_args()
    old = Grid.read(DOCS / "results" / "grid-laptop.csv", "shape")
    assert old is not None  # for the type checker
    grids = {task: grid_of(task, args.tables) for task in TASKS}
    found = {task: rankings(task, args.tables) for task in TASKS}
    _, shares = rates_of(args.tables)
    said = decide([
        claim
        for task, grid in grids.items()
        for claim in claims(
            grid, averages_of(task, args.tables, grid.dists), shares if task == "shape" else ()
        )
    ])  # fmt: skip
    tables = DOCS / "results" / "ten-objects"
    ten = {task: TenObjects.read(tables / f"{task}.csv", task) for task in TASKS}
    compared = contrasts(ten["shape"], ten["pose"])
    write_claims(args.claims, said)
    page = DOCS / "study.md"
    fill(page, "findings", findings(said, ten, compared))
    for task in TASKS:
        fill(page, f"ten-{task}", by_distribution(ten[task]))
    fill(page, "peers", published(ten["shape"], read_seconds(tables / "seconds.csv")))
    fill(DOCS / "results" / "study.md", "contrasts", every_contrast(compared))
    large = TenObjects.read(tables / "shape-64.csv", "shape")
    fill(DOCS / "results" / "study.md", "sizes", at_sizes(ten["shape"], large))
    fill(page, "verdicts", table(("the thesis says", *TASKS), verdicts(said)))
    head = ("round", "F (p)", "reliability", "largest mean → shrunken", "may be the best")
    fill(DOCS / "results" / "study.md", "rounds-model", table(head, models(found)))
    answers = checklist(grids, said, ten, args.tables)
    fill(page, "checklist", table(("question", "answer"), answers))
    head = ("round", "renderers", "scenes", "hours")
    fill(DOCS / "results" / "study.md", "rounds-state", table(head, state(args.tables)))
    page = DOCS / "which-renderer.md"
    head = ("renderer", "shape, IoU", "poses found", "time")
    fill(page, "choices", table(head, choices(ten, read_seconds(tables / "seconds.csv"))))
    shape = grids["shape"]
    fill(
        page,
        "distributions",
        table(("distribution", "less `logistic`", "time"), distributions(shape, old)),
    )
    head = ("T-conorm", "less `probabilistic`", "time")
    fill(page, "tconorms", table(head, tconorms(shape, old)))


if __name__ == "__main__":
    main()
