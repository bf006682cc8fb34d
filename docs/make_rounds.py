"""What the blocks of the grid in rounds came to so far; fills docs/study.md.

    python docs/make_rounds.py

It reads the tables in docs/results/rounds, which `experiments/grid_rounds.py --tables` writes, and
says what they can say: claims are held against those T-conorms that the blocks of round 1 have with
all laws, and the best are those of the last round that is complete.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lab.pages import fill, table
from lab.report.choice import (
    TIE,
    Ranking,
    complete,
    differences,
    expected,
    of_family,
    rankings,
    shared,
    standings,
)
from lab.report.claims import (
    HALVES,
    TAILS,
    Claim,
    Part,
    claims,
    mean,
    rank_correlation,
    together,
)
from lab.report.details import is_twice, means_of
from lab.report.qualities import Grid, averages, draws_of
from lab.report.summary import TOP_SHARE
from lab.report.words import UNITS, all_names, short, with_error
from lab.studies.rounds import (
    BLOCKS,
    best_exponent,
    file_of,
    read_block,
    read_table,
)

DOCS = Path(__file__).parent
TASKS = ("shape", "pose")
# A mean over fewer T-conorms than these says little.
FEW = 4
NAMES = {"shape": "a mesh from silhouettes", "pose": "a pose"}
# What docs/which-renderer.md names for a single try.
ONE_TRY = tuple(
    f"{law}/probabilistic"
    for law in ("laplace", "hyperbolic_secant", "gaussian", "logistic", "uniform")
)
WELL_KNOWN = (
    ("logistic", "probabilistic"),
    ("logistic.squared", "probabilistic"),  # Soft Rasterizer
    ("hyperbolic_secant", "probabilistic"),
    ("uniform", "probabilistic"),
    ("gaussian", "probabilistic"),
    ("laplace", "probabilistic"),
    ("gamma(shape=0.5).reversed", "probabilistic"),
    ("hyperbolic_secant", "yager(p=2)"),
    ("cubic_hermite", "yager(p=2)"),
    ("uniform", "yager(p=2)"),
)


def state(folder: Path) -> list[tuple[str, ...]]:
    """A row for each block: what it is, how far it is, how long it took."""
    rows: list[tuple[str, ...]] = []
    for task in TASKS:
        total = 0.0
        for block in BLOCKS[task]:
            done, path = len(of_family(block, folder)), file_of(folder, block)
            hours = sum(row[1] for row in read_table(path)) / 3600 if path.exists() else 0.0
            scene = f"elevation {block.number}°" if task == "shape" else f"seed {block.number}"
            rows.append((
                task, str(block.round), f"{block.target}, {scene}".replace("-", "−"),
                f"{done} of {expected(block)}", f"{hours:.2f}" if done else "",
            ))  # fmt: skip
            total += hours
        rows.append((f"**{task}**", "", "sum", "", f"**{total:.2f}**"))
    return rows


def grid_of(task: str, folder: Path) -> Grid | None:
    """Round 1 as far as it goes: the T-conorms that all its blocks have with all laws.

    If there are not at least two, those of the blocks but the last, and so on.
    """
    blocks = [block.name for block in BLOCKS[task] if block.round == 1]
    for count in range(len(blocks), 0, -1):
        grid = Grid.of_blocks(folder, blocks[:count], task)
        if grid and len(grid.conorms) > 1:
            return grid
    return None


def averages_of_blocks(
    task: str, folder: Path, scenes: Sequence[str], laws: Sequence[str]
) -> np.ndarray | None:
    """[scenes, laws, draws]: plain laws with the mean, None where they are not there."""
    blocks = [block for block in BLOCKS[task] if block.name in scenes]
    tables = [read_block(file_of(folder, block)) for block in blocks]
    names = [f"{law}/average" for law in laws]
    if not tables or any(name not in table for table in tables for name in names):
        return None
    columns: list[np.ndarray] = []
    for name in names:
        scores = [table[name] for table in tables]
        columns.append(np.array(draws_of(task, scores, best_exponent(task, scores))))
    return np.stack(columns, 1)


def held(new: dict[str, Grid], folder: Path) -> list[Claim]:
    """The claims, held against the new grids."""
    out: list[Claim] = []
    for task, grid in new.items():
        average = averages_of_blocks(task, folder, grid.scenes, grid.laws)
        found = rates(task, folder).get("")
        out += claims(grid, average, (found[-1.5], found.total()) if found else None)
    return out + of_both(new)


def of_both(grids: dict[str, Grid]) -> list[Claim]:
    """What is said of shapes and poses together, if both have the same renderers."""
    if len(grids) < len(TASKS) or grids["shape"].conorms != grids["pose"].conorms:
        return []
    return together(grids["shape"], grids["pose"])[:1]


def rates(task: str, folder: Path) -> dict[str, Counter[float]]:
    """How often each learning rate of round 3, as an exponent, is the best one of a renderer.

    Returns:
        On the mean over the complete scenes, as "", then on each of them. Empty if there is none.
    """
    blocks = complete(task, 3, folder)
    if task != "shape" or not blocks:
        return {}
    tables = {block.name: of_family(block, folder) for block in blocks}
    groups = {"": list(tables.values()), **{name: [table] for name, table in tables.items()}}
    names = [name for name in groups[""][0] if not is_twice(name)]
    return {
        scene: Counter(best_exponent(task, [table[name] for table in chosen])[1] for name in names)
        for scene, chosen in groups.items()
    }


def rates_in_words(task: str, folder: Path) -> list[str]:
    """A line on the learning rates of round 3, if any scene of it is complete."""
    found = rates(task, folder)
    if not found:
        return []
    every = sorted({rate for counts in found.values() for rate in counts}, reverse=True)
    heads = " | ".join(f"10^{rate:g}" for rate in every).replace("-", "−")

    def said(counts: Counter[float]) -> str:
        return " | ".join(str(counts[rate]) for rate in every)

    scenes = ", ".join(f"`{name}` {said(counts)}" for name, counts in found.items() if name)
    return [
        f"- **{task}**, round 3, renderers by their best learning rate, {heads}: on the mean over "
        f"its scenes {said(found[''])}; {scenes}."
    ]


def verdicts(
    new: Sequence[Claim], same: Sequence[Claim], old: Sequence[Claim]
) -> list[tuple[str, ...]]:
    """The claims with their numbers in the new grid and in the laptop grid, and the verdicts.

    Args:
        new: In the new grid.
        same: In the laptop grid with the T-conorms of the new one.
        old: In the whole laptop grid.
    """
    beside, whole = ({(c.claim, c.task): c for c in each} for each in (same, old))
    rows: list[tuple[str, ...]] = []
    for claim in new:
        key = claim.claim, claim.task
        numbers = [
            "; ".join(map(str, each.parts)) if each and each.parts else "no number yet"
            for each in (claim, beside.get(key))
        ]
        here, there, then = (
            each.verdict if each and each.parts else "—"
            for each in (claim, beside.get(key), whole.get(key))
        )
        shown = f"**{here}**" if here != "—" and here != there else here
        rows.append((claim.claim, claim.task, *numbers, shown, there, then))
    return rows


def covered(new: dict[str, Grid]) -> list[str]:
    """What the new grids have."""
    return [
        f"- **{task}**: all {2 * len(grid.laws)} distributions with {_conorms(grid)} on "
        + " and ".join(f"`{scene}`" for scene in grid.scenes)
        + "."
        for task, grid in new.items()
    ]


def _conorms(grid: Grid) -> str:
    if grid.is_whole:
        return f"all {len(grid.conorms)} T-conorms"
    names = ", ".join(short(name, conorm=True) for name in grid.conorms)
    return f"{len(grid.conorms)} of 23 T-conorms ({names})"


def agreement(new: dict[str, Grid], old: dict[str, Grid]) -> list[str]:
    """How much scenes agree on the renderers."""
    lines: list[str] = []
    for task, grid in new.items():
        same = old[task].with_conorms(grid.conorms)
        seen = [
            (name, values[..., grid.distinct])  # one function counts once
            for name, values in (*zip(grid.scenes, grid.by_scene, strict=True),
                                 ("laptop", same.quality))
        ]  # fmt: skip
        for k, (name, values) in enumerate(seen):
            for other, others in seen[k + 1 :]:
                if values.shape[-1] < 2:
                    continue
                found = [rank_correlation(values[half], others[half]) for half in (0, 1)]
                text = ", ".join(
                    f"{half} {with_error(*each)}" for half, each in zip(HALVES, found, strict=True)
                )
                both = sum(int((best(values[half]) & best(others[half])).sum()) for half in (0, 1))
                lines.append(
                    f"- **{task}**, `{name}` against `{other}`: rank correlation {text}; of the "
                    f"best tenth of each half, {both} of {2 * top(values[0])} are the same (by "
                    f"chance {2 * TOP_SHARE * top(values[0]):.0f})."
                )
        if len(grid.scenes) > 1:
            lines.append(
                f"- **{task}**: one renderer's mean over {len(grid.scenes)} scenes has the "
                f"standard error {grid.scene_error():.3f} beside another one's, pooled over all."
            )
    return lines


def check(new: dict[str, Grid], old: dict[str, Grid]) -> list[str]:
    """How well-known renderers fare in round 1, which has all, beside the laptop grid."""
    if not new:
        return ["The grid in rounds has no complete T-conorms yet."]
    head, columns = ["renderer"], list[list[str]]()
    for task, grid in new.items():
        for name, one in (("round 1", grid), ("laptop", old[task].with_conorms(grid.conorms))):
            different = one.quality[..., one.distinct]
            error = f" ± {one.scene_error():.3f}" if len(one.scenes) > 1 else ""
            head.append(f"{task}, {name}{error} (place of {different.size})")
            column: list[str] = []
            for law, conorm in WELL_KNOWN:
                if conorm not in one.conorms:
                    column.append("—")
                    continue
                value = quality_of(one, f"{law}/{conorm}")
                column.append(f"{value:.3f} ({1 + int((different > value).sum())})")
            columns.append(column)
    names = [f"`{law}/{conorm}`" for law, conorm in WELL_KNOWN]
    return table(head, list(zip(names, *columns, strict=True)))


def quality_of(grid: Grid, name: str) -> float:
    """The quality of one renderer in a grid."""
    dist, conorm = name.split("/")
    half, law = int(dist.endswith(".squared")), dist.removesuffix(".squared")
    return float(grid.quality[half, grid.laws.index(law), grid.conorms.index(conorm)])


# ---------------------------------------------------------------------------------------------
# which one to use


def tries(found: dict[str, list[Ranking]]) -> list[str]:
    """The renderers that may be taken for a single try, in each round after the first.

    Those first that are in the last rounds of both tasks, the less behind in its worse one first.
    """

    def far(name: str, last: int) -> float:
        behind = (rounds[last].of(rounds[last].behind) for rounds in found.values())
        return max(each.get(name, math.inf) for each in behind)

    names = sorted(ONE_TRY, key=lambda name: (far(name, 0), far(name, 1)))
    rounds = [one for each in found.values() for one in reversed(each) if one.number > 1]
    rows: list[tuple[str, ...]] = []
    for name in names:
        cells: list[str] = []
        for one in rounds:
            if name not in one.names:
                cells.append("not in it")
                continue
            value, behind = one.of(one.means)[name], one.of(one.behind)[name]
            place = 1 + int((one.means > value).sum())
            said = "a tie" if behind <= TIE else f"{behind:.2f} errors behind"
            cells.append(f"{value:.3f} (place {place}), {said}")
        rows.append((f"`{name}`", *cells))
    heads = (f"{x.task}, round {x.number} ± {x.error:.3f} (of {len(x.names)})" for x in rounds)
    return table(("renderer", *heads), rows)


def one_try(new: dict[str, Grid]) -> list[str]:
    """Two well-known laws, T-conorm by T-conorm, in round 1."""
    said: list[str] = []
    for task, grid in new.items():
        gain = grid.law(0, "hyperbolic_secant") - grid.law(0, "logistic")
        wins = int((means_of(gain, (0, 2)) > 0).sum())
        number = str(mean("", gain)).strip()
        said.append(f"{task} {number} (ahead under {wins} of {gain.shape[1]})")
    return [
        "`hyperbolic_secant` less `logistic`, plain, in round 1 of the grid in rounds, the mean "
        f"over the T-conorms and its error: {'; '.join(said)}."
    ]


def both_tasks(shape: Ranking, pose: Ranking, old: dict[str, Grid], count: int) -> list[str]:
    """The renderers that are in the last rounds of both tasks and least behind in the worse one."""
    names = shared(shape, pose)
    tie = [n for n in names if max(shape.of(shape.behind)[n], pose.of(pose.behind)[n]) <= TIE]
    rows: list[tuple[str, ...]] = []
    for name in names[:count]:
        laptop = [
            "—" if task == "pose" and ".squared/" in name else f"{quality_of(grid, name):.3f}"
            for task, grid in old.items()
        ]
        rows.append((
            f"`{name}`",
            *(f"{one.of(one.means)[name]:.3f} ({one.of(one.behind)[name]:.1f})"
              for one in (shape, pose)),
            f"{shape.of(shape.scales)[name]:.2g}", *laptop,
        ))  # fmt: skip
    head = (
        "renderer",
        *(f"{one.task}, round {one.number} ± {one.error:.3f} (behind)" for one in (shape, pose)),
        "best scale, shape", "laptop: shape", "pose",
    )  # fmt: skip
    parts = [listed(Counter(n.split("/")[k] for n in tie).most_common()) for k in (0, 1)]
    who = f"{len(names)} renderers are in both of these rounds, and {len(tie)} of them tie with "
    said = [who + "the first in both tasks" + (f": {'; '.join(parts)}." if tie else ".")]
    return [*table(head, rows), "", *said]


def places_of(grid: Grid, name: str, part: int) -> str:
    """How often a distribution (part 0) or a T-conorm (part 1) is in the best tenth of a grid.

    The squared half of a grid of poses with one schedule for both halves does not count.
    """
    fair = (0, 1) if grid.task == "shape" else (0,)
    if part == 1:
        column = [grid.conorms[j] for j in grid.distinct].index(name)
        return str(sum(int(grid.best_tenth(half)[:, column].sum()) for half in fair))
    half, law = int(name.endswith(".squared")), name.removesuffix(".squared")
    return str(int(grid.best_tenth(half)[grid.laws.index(law)].sum())) if half in fair else "—"


def by_task(found: dict[str, Ranking], old: dict[str, Grid]) -> list[str]:
    """For each task, what those have most often that tie with its first."""
    rows: list[tuple[str, ...]] = []
    for task, one in found.items():
        laws, joined = (
            [f"`{name}` {count} ({places_of(old[task], name, part)})"
             for name, count in one.often(part, least)]
            for part, least in ((0, 4), (1, 3))
        )  # fmt: skip
        rows.append((
            NAMES[task], ", ".join(laws), ", ".join(joined),
            f"the {int(one.tying.sum())} of {len(one.names)} that tie with the first of round "
            f"{one.number}, {one.by_scene.shape[1]} scenes",
        ))  # fmt: skip
    return table(("task", "law", "T-conorm", "counted over"), rows)


def members(new: dict[str, Grid], old: dict[str, Grid], axis: int, count: int) -> list[str]:
    """Distributions (axis 0) or T-conorms (axis 1) of round 1, with the time of the laptop grid."""
    time, grid = old["shape"].seconds, old["shape"]
    if axis == 0:
        medians = np.median(time[..., grid.distinct], axis=2)
        names = [law + square for square in ("", ".squared") for law in grid.laws]
        seconds = dict(zip(names, medians.ravel(), strict=True))
    else:
        seconds = dict(zip(grid.conorms, np.median(time[0], axis=0), strict=True))
    unit = seconds["uniform" if axis == 0 else "probabilistic"]
    rows = [
        (*row, f"{seconds[row[0].strip('`')] / unit:.1f}") for row in standings(new, axis, count)
    ]
    head = ["", *(word for task in new for word in (f"{task}: mean (place)", "behind the first",
                                                    "in the best tenth")), "time"]  # fmt: skip
    return table(head, rows)


# ---------------------------------------------------------------------------------------------
# what was found, in a few sentences


def differs(part: Part, other: str) -> str:
    """How a number stands beside 0, in words."""
    if not part.sign:
        return f"within two errors of {other} ({part.value:+.3f} ± {part.error:.3f})".replace(
            "(-", "(−"
        )
    word = "above" if part.sign > 0 else "below"
    return f"{abs(part.value):.3f} ± {part.error:.3f} {word} {other}"


def summary(
    new: dict[str, Grid], old: dict[str, Grid], found: dict[str, list[Ranking]], said: list[Claim]
) -> list[str]:
    """The findings, each with its numbers."""
    parts = {(c.claim.split(":")[0], c.task): c.parts for c in said}
    lines: list[str] = []
    for task, (last, *_) in found.items():
        first = last.names[int(last.means.argmax())].split("/")
        name = f"{short(first[0])} with {short(first[1], conorm=True)}"
        lines.append(
            f"- **{task.capitalize()}: no single winner.** On the {last.by_scene.shape[1]} scenes "
            f"of round {last.number}, {name} comes first, {UNITS[task]} "
            f"{last.means.max():.3f} ± {last.error:.3f}, and {int(last.tying.sum())} of "
            f"{len(last.names)} renderers tie with it, most often with {listed(last.often(0, 3))}, "
            f"and with {listed(last.often(1, 3))}."
        )
    spreads = [
        [float(np.std(v, ddof=1)) for v in (every.mean(1), every.mean(0))]
        for grid in new.values()
        for every in [np.concatenate(grid.quality[..., grid.distinct])]
    ]
    more = "The law matters more than the T-conorm" if all(a > b for a, b in spreads) else "Spread"
    numbers = "; ".join(
        f"{task} {law:.3f} and {conorm:.3f}"
        for task, (law, conorm) in zip(new, spreads, strict=True)
    )
    lines.append(
        f"- **{more}**: standard deviation of the means of the 54 distributions, and of the 22 "
        f"T-conorms: {numbers}."
    )

    def both(claim: str, other: str, k: int = 0) -> str:
        return ", ".join(f"{differs(parts[claim, task][k], other)} in {task}" for task in new)

    tails = both("exponential tails better than linear ones", "linear ones")
    finite = both("finite supports not very good", "finite supports")
    lines.append(f"- **Tails.** Exponential tails are {tails}; they are {finite}.")
    mirrored = both(
        "gumbel_min and the reversed laws better than their mirror images", "gamma 0.5", 2
    )
    lines.append(
        "- **One-sided laws must reach outwards.** gamma 0.5 reversed, whose faces grow, is "
        f"{mirrored}, whose faces shrink."
    )
    plain = "plain typically better than squared, but for cauchy and reciprocal"
    counts = " and ".join(f"{parts[plain, task][0].value:.0f} in {task}" for task in new)
    gain = ", ".join(differs(parts[plain, task][1], "plain") + f" in {task}" for task in new)
    lines.append(
        f"- **Squaring.** Of the 25 distributions without a linear tail, plain is ahead of squared "
        f"for {counts}; cauchy squared is {gain}."
    )
    poor = both("max poor", "max")
    usual = both("average poor", "the mean")
    lines.append(f"- **T-conorms.** The usual ones are {poor}, and {usual}.")
    verdicts = Counter(claim.verdict for claim in said if claim.parts)
    lines.append(
        f"- **The thesis.** Of {sum(verdicts.values())} claims, by round 1, "
        + ", ".join(f"{verdicts[word]} {word}" for word in ("yes", "partly", "no"))
        + "; [one by one](#beside-the-thesis)."
    )
    places: list[str] = []
    chair = {task: [k for k, x in enumerate(g.scenes) if "chair" in x] for task, g in new.items()}
    for task, grid in new.items():
        best = old[task].quality[..., old[task].distinct]
        half, i, j = (int(k) for k in np.unravel_index(int(best.argmax()), best.shape))
        values = means_of(grid.by_scene[chair[task]])[..., grid.distinct]
        place = 1 + int((values > values[half, i, j]).sum())
        places.append(f"{place} of {values.size} in {task}")
    errors = " and ".join(f"{grid.scene_error():.3f} in {task}" for task, grid in new.items())
    lines.append(
        "- **How sure.** A renderer's mean over the two scenes of round 1 has the standard error "
        f"{errors}; the first of the laptop grid has on the chair, which that grid has not seen, "
        f"the place {' and '.join(places)}. Trust what holds over many renderers, not single ones."
    )
    return lines


def later(found: dict[str, list[Ranking]]) -> list[str]:
    """Tails in the rounds after the first, under the T-conorms that all laws concerned have."""
    lines: list[str] = []
    for task, rounds in found.items():
        for one in sorted(rounds, key=lambda one: one.number):
            for other in ("finite", "linear"):
                names = TAILS["exponential"], TAILS[other]
                values = differences(one, *names)
                if one.number > 1 and values.shape[1] >= FEW:
                    lines.append(
                        f"- **{task}**, round {one.number}: exponential less {other}, plain, under "
                        f"the {values.shape[1]} T-conorms whose {sum(map(len, names))} laws are "
                        f"all in it: {str(mean('', values)).strip()}."
                    )
    return lines


def top(values: np.ndarray) -> int:
    """How many are the best tenth."""
    return round(TOP_SHARE * values.size)


def best(values: np.ndarray) -> np.ndarray:
    """The best tenth of a half; of equal ones the first."""
    order = np.argsort(-values, axis=None, kind="stable")[: top(values)]
    out = np.zeros(values.size, bool)
    out[order] = True
    return out.reshape(values.shape)


def leaders(found: Ranking, count: int) -> tuple[list[tuple[str, ...]], str]:
    """The best of a round with errors; those that tie with the first share its place.

    Returns:
        The rows; who ties with the first.
    """
    means, tying = found.means, found.tying
    ties = int(tying.sum())
    laws, conorms = (listed(found.often(part, 6)) for part in (0, 1))
    who = (
        f"{ties} of these {len(tying)} tie with the first, within {TIE:g} errors of the "
        f"difference. Of them: {laws}; {conorms}."
    )
    rows: list[tuple[str, ...]] = []
    for k in np.argsort(-means, kind="stable")[:count]:
        dist, conorm = found.names[k].split("/")
        scenes = ", ".join(f"{value:.3f}" for value in found.by_scene[k])
        place = f"1= (of {ties})" if tying[k] and ties > 1 else f"{1 + (means > means[k]).sum()}"
        quality = f"{means[k]:.3f} ± {found.error:.3f}"
        rows.append((place, short(dist), all_names(conorm), quality, scenes))
    return rows, who


def listed(counts: Sequence[tuple[str, int]]) -> str:
    """Names with their numbers."""
    return ", ".join(f"`{name}` {count}" for name, count in counts)


def main() -> None:
    """Read the tables, fill the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=Path, default=DOCS / "results" / "rounds")
    parser.add_argument("--page", type=Path, default=DOCS / "study.md")
    args = parser.parse_args()
    old: dict[str, Grid] = {}
    for task in TASKS:
        grid = Grid.read(DOCS / "results" / "grid-laptop.csv", task)
        assert grid is not None  # for the type checker
        old[task] = grid
    new = {task: grid for task in TASKS if (grid := grid_of(task, args.tables)) is not None}
    head = ("task", "round", "scene", "renderers", "hours")
    fill(args.page, "rounds-state", table(head, state(args.tables)))
    beside = {task: old[task].with_conorms(grid.conorms) for task, grid in new.items()}
    means = {task: averages(DOCS / "results" / f"{task}-average.csv", task) for task in TASKS}
    decided = held(new, args.tables)
    rows = verdicts(
        decided,
        [c for task, grid in beside.items() for c in claims(grid, means[task])] + of_both(beside),
        [c for task, grid in old.items() for c in claims(grid, means[task])]
        + together(old["shape"], old["pose"]),
    )
    head = ("claim", "task", "grid in rounds", "laptop grid, the same T-conorms",
            "right? rounds", "laptop, the same", "laptop, whole")  # fmt: skip
    if all(grid.is_whole for grid in new.values()):  # then the last two columns are the same
        head = (*head[:3], "laptop grid", head[4], "laptop")
        rows = [row[:-1] for row in rows]
    none = ["Fewer than two T-conorms are whole yet."]
    fill(args.page, "rounds-claims", table(head, rows) if rows else none)
    found = {task: rounds for task in TASKS if (rounds := rankings(task, args.tables))}
    lines = [*covered(new), *agreement(new, old), *later(found)]
    lines = [*lines, *(line for task in new for line in rates_in_words(task, args.tables))] or none
    for task, (last, *_) in found.items():
        rows, who = leaders(last, 8)
        head = ("place", "distribution", "T-conorm", "quality", "by scene")
        lines += ["", f"The best of round {last.number}, {task}:", "", *table(head, rows), "", who]
    fill(args.page, "rounds-agreement", lines)
    whole = len(new) == len(found) == len(TASKS) and all(grid.is_whole for grid in new.values())
    if args.page == DOCS / "study.md" and whole:
        last = {task: rounds[0] for task, rounds in found.items()}
        fill(args.page, "summary", summary(new, old, found, decided))
        page = DOCS / "which-renderer.md"
        fill(page, "rounds-check", check(new, old))
        fill(page, "one-try", tries(found))
        fill(page, "one-try-rounds", one_try(new))
        fill(page, "by-task", by_task(last, old))
        fill(page, "both-tasks", both_tasks(last["shape"], last["pose"], old, 10))
        fill(page, "laws-by-task", members(new, old, 0, 14))
        fill(page, "tconorms-by-task", members(new, old, 1, 12))


if __name__ == "__main__":
    main()
