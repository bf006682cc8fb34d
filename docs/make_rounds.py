"""What the rounds of the study came to; fills its pages and docs/which-renderer.md.

    python docs/make_rounds.py

It reads the tables in docs/results/rounds, which `experiments/grid_rounds.py --tables` writes, and
docs/results/pose-widths.csv of `experiments/pose_widths.py`. Every comparison with its errors goes
to docs/results/claims.csv. The formulas are in `lab.report.inference`.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import csv
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lab.pages import fill, table
from lab.report.choice import Ranking, complete, of_family, rankings
from lab.report.claims import (
    SYMMETRIC,
    TAILS,
    Decided,
    claims,
    compare_conorms,
    compare_laws,
    decide,
)
from lab.report.details import is_twice
from lab.report.inference import Effect
from lab.report.qualities import Grid, draws_of
from lab.report.widths import Widths
from lab.report.words import UNITS
from lab.studies.rounds import BLOCKS, best_exponent, file_of, read_block, read_table

DOCS = Path(__file__).parent
TASKS = ("shape", "pose")
HEAD = (
    "task", "claim", "comparison", "value", "limit", "mixed_error", "mixed_freedom", "mixed_p",
    "own_error", "own_freedom", "own_p", "verdict",
)  # fmt: skip
# The symmetric laws that reach no further than exponentially.
ORDINARY = (*TAILS["finite"], *TAILS["exponential"])
LAWS = (
    *SYMMETRIC, "gumbel_min", "exponential.reversed", "gamma(shape=0.5).reversed", "exponential",
)  # fmt: skip
CONORMS = (
    "probabilistic", "yager(p=2)", "frank(p=2)", "einstein", "hamacher(p=0.5)", "dombi(p=1)",
    "yager(p=4)", "schweizer_sklar(p=-4)", "dombi(p=0.5)", "max",
)  # fmt: skip
CHOICES = (
    "logistic/probabilistic", "laplace/probabilistic", "laplace/hamacher(p=0.5)",
    "hyperbolic_secant/probabilistic", "gaussian/probabilistic", "uniform/yager(p=2)",
    "uniform/probabilistic", "logistic.squared/probabilistic",
)  # fmt: skip


def grid_of(task: str, folder: Path) -> Grid:
    """Round 1, which has all renderers."""
    names = [block.name for block in BLOCKS[task] if block.round == 1]
    grid = Grid.of_blocks(folder, names, task)
    if grid is None or not grid.is_whole:
        raise ValueError(f"round 1 of the task {task} is not whole in {folder}")
    return grid


def averages_of(task: str, folder: Path, laws: Sequence[str]) -> NDArray[np.float64]:
    """[scenes, laws, draws]: plain laws with the mean in place of a T-conorm, in round 1."""
    blocks = [block for block in BLOCKS[task] if block.round == 1]
    tables = [read_block(file_of(folder, block)) for block in blocks]
    columns: list[NDArray[np.float64]] = []
    for law in laws:
        scores = [each[f"{law}/average"] for each in tables]
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


def spreads(grid: Grid) -> tuple[float, float, float, float]:
    """Standard deviations of the means of ordinary plain laws and of T-conorms over them.

    Returns:
        Both, and the ends of the 95 % interval of the second over the first, if the members are
        draws from normal distributions.
    """
    from scipy.stats import f

    rows = [grid.laws.index(law) for law in ORDINARY]
    values = grid.quality[0][rows][:, grid.distinct]
    law, conorm = (float(values.mean(axis).std(ddof=1)) for axis in (1, 0))
    freedoms = values.shape[1] - 1, values.shape[0] - 1
    low, high = ((conorm / law) / math.sqrt(f.ppf(q, *freedoms)) for q in (0.975, 0.025))
    return law, conorm, low, high


def part_of(said: Sequence[Decided], task: str, claim: str, k: int = 0) -> Effect:
    """The effect of the mixed model of one part of a claim."""
    return next(
        d.claim.parts[k].pooled for d in said if (d.claim.task, d.claim.claim) == (task, claim)
    )


def findings(
    grids: dict[str, Grid], found: dict[str, list[Ranking]], said: Sequence[Decided], widths: Widths
) -> list[str]:
    """The five findings, each with its interval."""
    shape, pose = (found[task][0] for task in TASKS)
    model = shape.model
    first = shape.names[int(model.means.argmax())]
    best = Effect(float(model.shrunken.max()), model.shrunken_error, model.freedom)
    fixed, chosen = (widths.tails(x) for x in (widths.fixed, widths.chosen))
    law, conorm, low, high = spreads(grids["shape"])

    def of(claim: str, k: int = 0) -> str:
        return part_of(said, "shape", claim, k).text()

    return [
        f"1. **Shape: no best renderer can be named.** In round {shape.number}, on "
        f"{shape.held_out.shape[1]} objects, the best is among "
        f"{int(shape.candidates.sum())} of {len(shape.names)} renderers with 95 % confidence. The "
        f"first, `{first}`, has a {UNITS['shape']} of {model.means.max():.3f}, which is the "
        f"largest of {len(shape.names)}; shrunken it is {best.text(sign='')}.",
        "2. **Poses: a common scale ranks widths, not laws.** Exponential less linear tails, in "
        f"poses found: {fixed.text()} if all laws start at one scale, {chosen.text()} if the width "
        f"of each is chosen on other objects. Among the {len(pose.names)} renderers of round "
        f"{pose.number} no difference is found (F = {pose.model.ratio:.2f}, p = "
        f"{pose.model.p:.2f}).",
        "3. **Shape: a law must not be 0 outside a face.** `exponential.reversed` leads "
        f"`exponential` by {of('reversed laws better than their mirror images')}; the two "
        "gamma laws likewise.",
        "4. **Shape: exponential tails lead linear ones** by "
        f"{of('exponential tails better than linear ones')}, and finite supports by "
        f"{of('exponential tails better than finite supports')}, which is not decided.",
        "5. **Shape: the choice of T-conorm matters, and `max` is worse** than the usual ones by "
        f"{of('max worse than the usual T-conorms')} (plain laws). Between the seven laws without "
        f"heavy tails the standard deviation is {law:.3f}, between T-conorms {conorm:.3f}: a ratio "
        f"of {conorm / law:.1f} [{low:.1f}, {high:.1f}].",
    ]


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
    grids: dict[str, Grid], found: dict[str, list[Ranking]], said: Sequence[Decided], folder: Path
) -> list[tuple[str, str]]:
    """What a statistician asks, and the answers."""
    shape, pose = (found[task][0] for task in TASKS)
    parts = {t: [p for d in said if d.claim.task == t for p in d.claim.parts] for t in TASKS}
    own = [part.own.freedom for part in parts["shape"]]
    pooled = sorted({round(part.pooled.freedom) for part in parts["shape"] if not part.limit})
    tuned = shape.draws.mean() - shape.held_out.mean()
    limits = np.array(grids["shape"].limits)
    scales = np.log10(grids["shape"].scale[:, :, grids["shape"].distinct])
    at_end = int((np.abs(scales[..., None] - limits[:, None, None]) < 1e-6).any(-1).sum())
    largest, _ = rates_of(folder)
    return [
        (
            "multiplicity",
            f"{len(parts['shape'])} comparisons for shapes and {len(parts['pose'])} for poses, "
            "adjusted within the task by Benjamini and Hochberg; who may be the best by "
            "Gupta's subset selection.",
        ),
        (
            "reliability",
            f"Shape, round {shape.number}: {shape.model.reliability:.2f}; pose, round "
            f"{pose.number}: {pose.model.reliability:.2f}. Means are shrunken by it.",
        ),
        (
            "held-out tuning",
            "Rounds of shapes: scale and learning rate are chosen on the other objects; the "
            f"mean quality is {tuned:.3f} lower than when tuned on those scored, as laws and "
            "T-conorms are in round 1.",
        ),
        (
            "degrees of freedom",
            f"Mixed model: {', '.join(map(str, pooled))}. From a comparison alone (Welch, "
            f"Satterthwaite): {min(own):.0f} to {max(own):.0f}. “Yes” needs both.",
        ),
        (
            "selection",
            "Who comes into a round was chosen on the scenes of the round before.",
        ),
        (
            "ends of the search",
            f"Scale: {at_end} of {scales.size} best ones at an end. Learning rate: {largest} of "
            f"{len(shape.names)} are best at the largest, so that larger ones may be better.",
        ),
        (
            "what was sampled",
            "Shapes: four objects, two in round 1. Poses: two; widths: three. Other elevations of "
            "an object are not other objects.",
        ),
    ]


# ---------------------------------------------------------------------------------------------
# which one to use


def choices(found: list[Ranking], old: Grid) -> list[tuple[str, ...]]:
    """Well-known renderers: shrunken means of shapes in the later rounds, and their time."""
    rounds = sorted((one for one in found if one.number > 1), key=lambda one: one.number)
    unit = _seconds(old, "uniform/probabilistic")
    rows: list[tuple[str, ...]] = []
    for name in CHOICES:
        cells = [
            f"{one.model.shrunken[one.names.index(name)]:.3f}" if name in one.names else "—"
            for one in rounds
        ]
        rows.append((f"`{name}`", *cells, f"{_seconds(old, name) / unit:.1f}"))
    ends = [
        Effect(0, math.sqrt(2) * one.model.shrunken_error, one.model.freedom).interval()[1]
        for one in rounds
    ]
    rows.append(("a difference of two, ±", *(f"{end:.3f}" for end in ends), ""))
    return rows


def _seconds(old: Grid, name: str) -> float:
    dist, conorm = name.split("/")
    half, law = int(dist.endswith(".squared")), dist.removesuffix(".squared")
    return float(old.seconds[half, old.laws.index(law), old.conorms.index(conorm)])


def laws(grid: Grid, old: Grid) -> list[tuple[str, ...]]:
    """Plain laws less `logistic`, over all T-conorms, and their time."""
    seconds = np.median(old.seconds[0][:, old.distinct], axis=1)
    unit = seconds[old.laws.index("uniform")]
    rows: list[tuple[float, tuple[str, ...]]] = []
    for law in LAWS:
        part = compare_laws(grid, law, [(0, law)], [(0, "logistic")]).pooled
        said = "0" if law == "logistic" else part.text()
        time = seconds[old.laws.index(law)] / unit
        rows.append((part.value, (f"`{law}`", said, f"{time:.1f}")))
    return [row for _, row in sorted(rows, key=lambda row: -row[0])]


def tconorms(grid: Grid, old: Grid) -> list[tuple[str, ...]]:
    """T-conorms less `probabilistic`, over all plain laws, and their time."""
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
            grid, averages_of(task, args.tables, grid.laws), shares if task == "shape" else ()
        )
    ])  # fmt: skip
    widths = Widths.read(DOCS / "results" / "pose-widths.csv")
    write_claims(args.claims, said)
    page = DOCS / "study.md"
    fill(page, "findings", findings(grids, found, said, widths))
    fill(page, "widths", widths.rows())
    fill(page, "verdicts", table(("the thesis says", *TASKS), verdicts(said)))
    head = ("round", "F (p)", "reliability", "largest mean → shrunken", "may be the best")
    fill(page, "rounds-model", table(head, models(found)))
    answers = checklist(grids, found, said, args.tables)
    fill(page, "checklist", table(("question", "answer"), answers))
    head = ("round", "renderers", "scenes", "hours")
    fill(DOCS / "results" / "study.md", "rounds-state", table(head, state(args.tables)))
    page = DOCS / "which-renderer.md"
    numbers = sorted(one.number for one in found["shape"] if one.number > 1)
    head = ("renderer", *(f"shape, round {number}" for number in numbers), "time")
    fill(page, "choices", table(head, choices(found["shape"], old)))
    shape = grids["shape"]
    fill(page, "laws", table(("law", "less `logistic`", "time"), laws(shape, old)))
    head = ("T-conorm", "less `probabilistic`", "time")
    fill(page, "tconorms", table(head, tconorms(shape, old)))


if __name__ == "__main__":
    main()
