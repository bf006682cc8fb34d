"""What the blocks of the grid in rounds came to so far; fills docs/experiments.md.

    python docs/make_rounds.py

It reads the tables in docs/results/rounds, which `experiments/grid_rounds.py --tables` writes, and
says what they can say: claims are held against those T-conorms that the blocks of round 1 have with
all laws, and the best are those of the last round that is complete.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gendr.experiments.report.claims import (
    HALVES,
    Claim,
    claims,
    law_ahead,
    rank_correlation,
    together,
)
from gendr.experiments.report.details import TWICE, disagreement
from gendr.experiments.report.qualities import Grid
from gendr.experiments.report.summary import TOP_SHARE
from gendr.experiments.report.words import all_names, most, short, with_error
from gendr.experiments.studies.rounds import (
    BLOCKS,
    SHARES,
    Block,
    Scores,
    best_exponent,
    file_of,
    qualities,
    read_block,
    read_table,
)
from gendr.testing.pages import fill, table

DOCS = Path(__file__).parent
TASKS = ("shape", "pose")
EVERY = 1242
# What docs/which-renderer.md names, as far as round 1 had it first.
RECOMMENDED = (
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
# Differences from the best within so many of their errors are ties.
TIE = 2.0


def expected(block: Block) -> int:
    """How many renderers a block has when it is complete, not counting the means of round 1."""
    return 2 * math.ceil(SHARES[block.round] * EVERY / 2)


def of_family(block: Block, folder: Path) -> dict[str, Scores]:
    """The scores of a block so far, without those of the mean, which is no T-conorm."""
    path = file_of(folder, block)
    found = read_block(path) if path.exists() else {}
    return {name: scores for name, scores in found.items() if not name.endswith("/average")}


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


def complete(task: str, number: int, folder: Path) -> list[Block]:
    """The blocks of a round that have all their renderers."""
    return [
        block
        for block in BLOCKS[task]
        if block.round == number and len(of_family(block, folder)) >= expected(block)
    ]


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


def averages(
    task: str, folder: Path, scenes: Sequence[str], laws: Sequence[str]
) -> np.ndarray | None:
    """[scenes, laws]: the qualities of plain laws with the mean, None where they are not there."""
    blocks = [block for block in BLOCKS[task] if block.name in scenes]
    tables = [read_block(file_of(folder, block)) for block in blocks]
    names = [f"{law}/average" for law in laws]
    if not tables or any(name not in table for table in tables for name in names):
        return None
    columns: list[list[float]] = []
    for name in names:
        scores = [table[name] for table in tables]
        columns.append(qualities(task, scores)[best_exponent(task, scores)])
    return np.array(columns).T


def held(new: dict[str, Grid], folder: Path) -> list[Claim]:
    """The claims, held against the new grids."""
    out: list[Claim] = []
    for task, grid in new.items():
        average = averages(task, folder, grid.scenes, grid.laws)
        out += claims(grid, [] if average is None else average, rates(task, folder))
    return out + of_both(new)


def of_both(grids: dict[str, Grid]) -> list[Claim]:
    """What is said of shapes and poses together, if both have the same renderers."""
    if len(grids) < len(TASKS) or grids["shape"].conorms != grids["pose"].conorms:
        return []
    return together(grids["shape"], grids["pose"])[:1]


def rates(task: str, folder: Path) -> tuple[int, int] | None:
    """How many renderers of round 3 are best at the rate 10^-1.5, and how many there are."""
    blocks = complete(task, 3, folder)
    if task != "shape" or not blocks:
        return None
    tables = [of_family(block, folder) for block in blocks]
    best = [best_exponent(task, [table[name] for table in tables])[1] for name in tables[0]]
    return sum(rate == -1.5 for rate in best), len(best)


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
        seen = [*zip(grid.scenes, grid.by_scene, strict=True), ("laptop", same.quality)]
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
    """How the renderers that are recommended fare on the new scenes, beside the laptop grid."""
    if not new:
        return ["The grid in rounds has no complete T-conorms yet."]
    head, columns = ["renderer"], list[list[str]]()
    for task, grid in new.items():
        for name, one in (("new scenes", grid), ("laptop", old[task].with_conorms(grid.conorms))):
            error = f" ± {one.scene_error():.3f}" if len(one.scenes) > 1 else ""
            head.append(f"{task}, {name}{error} (place of {one.quality.size})")
            column: list[str] = []
            for law, conorm in RECOMMENDED:
                if conorm not in one.conorms:
                    column.append("—")
                    continue
                half, plain = int(law.endswith(".squared")), law.removesuffix(".squared")
                value = one.quality[half, one.laws.index(plain), one.conorms.index(conorm)]
                place = 1 + int((one.quality > value).sum())
                column.append(f"{value:.3f} ({place})")
            columns.append(column)
    names = [f"`{law}/{conorm}`" for law, conorm in RECOMMENDED]
    return table(head, list(zip(names, *columns, strict=True)))


def one_try(new: dict[str, Grid]) -> list[str]:
    """The two laws that are recommended for a single try, on the new scenes."""
    said: list[str] = []
    for task, grid in new.items():
        gain, wins = law_ahead(grid, "hyperbolic_secant", "logistic")
        said.append(f"{task} {gain} (ahead under {wins})")
    return [f"The same on the scenes of the grid in rounds: {'; '.join(said)}."]


def top(values: np.ndarray) -> int:
    """How many are the best tenth."""
    return round(TOP_SHARE * values.size)


def best(values: np.ndarray) -> np.ndarray:
    """The best tenth of a half; of equal ones the first."""
    order = np.argsort(-values, axis=None, kind="stable")[: top(values)]
    out = np.zeros(values.size, bool)
    out[order] = True
    return out.reshape(values.shape)


def leaders(task: str, folder: Path, count: int) -> tuple[int, list[tuple[str, ...]], str]:
    """The best of the last complete round with errors; those that tie with the first share it.

    Returns:
        The number of the round, 0 if none has two scenes yet; the rows; who ties with the first.
    """
    for number in (3, 2, 1):
        blocks = complete(task, number, folder)
        if len(blocks) < sum(b.round == number for b in BLOCKS[task]) or len(blocks) < 2:
            continue
        tables = [of_family(block, folder) for block in blocks]
        names = [name for name in tables[0] if name.split("/")[1] not in TWICE]
        found: list[list[float]] = []
        for name in names:
            scores = [table[name] for table in tables]
            found.append(qualities(task, scores)[best_exponent(task, scores)])
        values = np.array(found)  # [renderers, scenes]
        error = disagreement(values.T)
        means = values.mean(1)
        order = np.argsort(-means, kind="stable")
        tying = means >= means.max() - TIE * math.sqrt(2) * error
        ties = int(tying.sum())
        first = [names[k].split("/") for k in np.flatnonzero(tying)]
        laws, conorms = (most([f"`{each[part]}`" for each in first], 6) for part in (0, 1))
        who = (
            f"{ties} of these {len(names)} tie with the first, within {TIE:g} errors of the "
            f"difference. Of them: {laws}; {conorms}."
        )
        rows: list[tuple[str, ...]] = []
        for k in order[:count]:
            dist, conorm = names[k].split("/")
            tied = tying[k]
            scenes = ", ".join(f"{value:.3f}" for value in values[k])
            rows.append((
                f"1= (of {ties})" if tied and ties > 1 else str(1 + int((means > means[k]).sum())),
                short(dist), all_names(conorm), f"{means[k]:.3f} ± {error:.3f}", scenes,
            ))  # fmt: skip
        return number, rows, who
    return 0, [], ""


def main() -> None:
    """Read the tables, fill the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=Path, default=DOCS / "results" / "rounds")
    parser.add_argument("--page", type=Path, default=DOCS / "experiments.md")
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
    rows = verdicts(
        held(new, args.tables),
        [c for grid in beside.values() for c in claims(grid)] + of_both(beside),
        [c for grid in old.values() for c in claims(grid)] + together(old["shape"], old["pose"]),
    )
    head = ("claim", "task", "grid in rounds", "laptop grid, the same T-conorms",
            "right? rounds", "laptop, the same", "laptop, whole")  # fmt: skip
    if all(grid.is_whole for grid in new.values()):  # then the last two columns are the same
        head = (*head[:3], "laptop grid", head[4], "laptop")
        rows = [row[:-1] for row in rows]
    none = ["Fewer than two T-conorms are whole yet."]
    fill(args.page, "rounds-claims", table(head, rows) if rows else none)
    lines = [*covered(new), *agreement(new, old)] or none
    for task in TASKS:
        number, rows, who = leaders(task, args.tables, 8)
        if number:
            head = ("place", "distribution", "T-conorm", "quality", "by scene")
            lines += ["", f"The best of round {number}, {task}:", "", *table(head, rows), "", who]
    fill(args.page, "rounds-agreement", lines)
    if args.page == DOCS / "experiments.md":
        fill(DOCS / "which-renderer.md", "rounds-check", check(new, old))
        fill(DOCS / "which-renderer.md", "one-try-rounds", one_try(new))


if __name__ == "__main__":
    main()
