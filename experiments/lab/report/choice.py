"""Which renderers to take, from the grid in rounds: who ties with the first, by task and for both.

The last complete round of a task decides, on scenes that had no part in the choice of who is in it.
Laws and T-conorms as such are compared in round 1, which has all renderers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lab.report.claims import mean
from lab.report.details import disagreement, is_twice, means_of
from lab.report.qualities import Grid, draws_of
from lab.studies.rounds import (
    BLOCKS,
    SHARES,
    Block,
    Scores,
    best_exponent,
    file_of,
    read_block,
)

EVERY = 1242
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


def complete(task: str, number: int, folder: Path) -> list[Block]:
    """The blocks of a round that have all their renderers."""
    return [
        block
        for block in BLOCKS[task]
        if block.round == number and len(of_family(block, folder)) >= expected(block)
    ]


@dataclass(frozen=True, eq=False)
class Ranking:
    """The renderers of a round that is complete; one function under two names is there once.

    Attributes:
        task: "shape" or "pose".
        number: of the round.
        names: of the renderers.
        draws: [renderers, scenes, draws], qualities at the scale that is best on average: one for a
            scene, or for each pair of poses whether it was found.
        scales: [renderers], those scales; for poses those of the first step.
    """

    task: str
    number: int
    names: list[str]
    draws: NDArray[np.float64]
    scales: NDArray[np.float64]

    @cached_property
    def by_scene(self) -> NDArray[np.float64]:
        """[renderers, scenes]: the qualities."""
        return self.draws.mean(2)

    @cached_property
    def error(self) -> float:
        """The standard error of a mean over the scenes beside another one."""
        return disagreement(self.by_scene.T)

    @property
    def means(self) -> NDArray[np.float64]:
        """[renderers]: the means over the scenes."""
        return means_of(self.by_scene, 1)

    @property
    def behind(self) -> NDArray[np.float64]:
        """[renderers]: by how many errors of the difference each is behind the first."""
        return (self.means.max() - self.means) / (math.sqrt(2) * self.error)

    @property
    def tying(self) -> NDArray[np.bool_]:
        """[renderers]: whether each ties with the first, which ties with itself."""
        return self.behind <= TIE

    def of(self, values: NDArray[np.float64]) -> dict[str, float]:
        """Some numbers, one for each renderer, by its name."""
        return dict(zip(self.names, values.tolist(), strict=True))

    def often(self, part: int, least: int) -> list[tuple[str, int]]:
        """What those that tie with the first have most often, with its number.

        Equally many are all kept, but what comes once is left out if two come more often.

        Args:
            part: 0 for distributions, 1 for T-conorms.
            least: how many, if there are so many.
        """
        tying = [self.names[k].split("/")[part] for k in np.flatnonzero(self.tying)]
        counts = Counter(tying).most_common()
        limit = counts[min(least, len(counts)) - 1][1]
        if limit == 1 and len(counts) > 1 and counts[1][1] > 1:
            limit = 2
        return [(name, count) for name, count in counts if count >= limit]


def rankings(task: str, folder: Path) -> list[Ranking]:
    """The rounds of a task that are complete and have two scenes, the last one first."""
    out: list[Ranking] = []
    for number in sorted(SHARES, reverse=True):
        blocks = complete(task, number, folder)
        if len(blocks) < sum(b.round == number for b in BLOCKS[task]) or len(blocks) < 2:
            continue
        tables = [of_family(block, folder) for block in blocks]
        names = [name for name in tables[0] if not is_twice(name)]
        found: list[list[tuple[float, ...]]] = []
        scales: list[float] = []
        for name in names:
            scores = [table[name] for table in tables]
            best = best_exponent(task, scores)
            found.append(draws_of(task, scores, best))
            scales.append(10 ** best[0])
        out.append(Ranking(task, number, names, np.array(found), np.array(scales)))
    return out


def differences(one: Ranking, better: Sequence[str], worse: Sequence[str]) -> NDArray[np.float64]:
    """[scenes, T-conorms, draws]: one group of distributions less another one.

    For those T-conorms with which all members of both groups are in the round.
    """
    place = {name: k for k, name in enumerate(one.names)}
    conorms = dict.fromkeys(name.split("/")[1] for name in one.names)
    rows = [
        one.draws[[place[f"{x}/{c}"] for x in better]].mean(0)
        - one.draws[[place[f"{x}/{c}"] for x in worse]].mean(0)
        for c in conorms
        if all(f"{x}/{c}" in place for x in (*better, *worse))
    ]
    return np.stack(rows, 1) if rows else np.empty((*one.draws.shape[1:2], 0, one.draws.shape[2]))


def standings(grids: Mapping[str, Grid], axis: int, count: int) -> list[tuple[str, ...]]:
    """Distributions, plain and squared (axis 0), or T-conorms (axis 1), of both tasks.

    Each is compared with the first of its task, partner by partner. They are ordered by the sum of
    the places of their means in the two tasks.

    Args:
        grids: Of round 1, by task.
        axis: What the rows are.
        count: How many rows.

    Returns:
        Rows: name; for each task the mean and its place, how far behind the first with the error of
        that difference, and how many of its renderers are in the best tenth of their halves.
    """
    columns: list[list[tuple[str, str, str]]] = []
    places: list[list[int]] = []
    names: list[str] = []
    for grid in grids.values():
        # [scenes, members, partners, draws], and in the best tenth [members, partners]
        values = [grid.draws[:, half][:, :, grid.distinct] for half in (0, 1)]
        tenth = [grid.best_tenth(half) for half in (0, 1)]
        if axis == 0:
            names = [law + square for square in ("", ".squared") for law in grid.laws]
            members, top = np.concatenate(values, 1), np.concatenate(tenth, 0)
        else:
            names = [grid.conorms[j] for j in grid.distinct]
            members = np.concatenate(values, 1).swapaxes(1, 2)
            top = np.concatenate(tenth, 0).T
        means = means_of(members, (0, 2, 3))
        best = int(means.argmax())
        places.append([1 + int((means > value).sum()) for value in means])
        columns.append([
            (
                f"{means[k]:.3f} ({places[-1][k]})",
                "first" if k == best else _behind(members[:, k] - members[:, best]),
                str(int(top[k].sum())),
            )
            for k in range(len(names))
        ])  # fmt: skip
    order = sorted(range(len(names)), key=lambda k: (sum(p[k] for p in places), places[0][k]))
    return [
        (f"`{names[k]}`", *(cell for column in columns for cell in column[k]))
        for k in order[:count]
    ]


def _behind(difference: NDArray[np.float64]) -> str:
    part = mean("", difference)
    return f"{part}".strip() + ("" if part.sign else ", a tie")


def shared(shape: Ranking, pose: Ranking) -> Sequence[str]:
    """The renderers in the last rounds of both tasks, the less far behind in its worse task first.

    Far is counted in errors of the difference from the first.
    """
    left, right = shape.of(shape.behind), pose.of(pose.behind)
    both = [name for name in shape.names if name in right]
    return sorted(both, key=lambda name: (max(left[name], right[name]), name))
