"""The rounds of the study: their renderers, with held-out tuning, and a model of their means.

The last complete round of a task decides, on scenes that had no part in the choice of who is in it.
Distributions and T-conorms as such are compared in round 1, which has all renderers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lab.report.details import is_twice
from lab.report.inference import Crossed
from lab.report.qualities import draws_of
from lab.studies.rounds import (
    BLOCKS,
    SHARES,
    Block,
    Scores,
    best_exponent,
    file_of,
    qualities,
    read_block,
)

EVERY = 1242


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
        held_out: [renderers, scenes], the quality in each scene at the scale that is best on
            average over the other scenes; for poses, which are not tuned, that of `draws`.
    """

    task: str
    number: int
    names: list[str]
    draws: NDArray[np.float64]
    scales: NDArray[np.float64]
    held_out: NDArray[np.float64]

    @cached_property
    def model(self) -> Crossed:
        """The model of the renderers, tuned on other scenes than those that are scored."""
        values = self.draws if self.task == "pose" else self.held_out[..., None]
        return Crossed.of(values)

    @cached_property
    def candidates(self) -> NDArray[np.bool_]:
        """[renderers]: a set that holds the best one with 95 % confidence."""
        return self.model.may_be_best()

    def of(self, values: NDArray[np.float64]) -> dict[str, float]:
        """Some numbers, one for each renderer, by its name."""
        return dict(zip(self.names, values.tolist(), strict=True))


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
        others: list[list[float]] = []
        for name in names:
            scores = [table[name] for table in tables]
            best = best_exponent(task, scores)
            found.append(draws_of(task, scores, best))
            scales.append(10 ** best[0])
            others.append(held_out(task, scores))
        out.append(
            Ranking(task, number, names, np.array(found), np.array(scales), np.array(others))
        )
    return out


def held_out(task: str, blocks: Sequence[Scores]) -> list[float]:
    """The quality of one renderer in each of some blocks, tuned on the other ones."""
    found = qualities(task, blocks)
    out: list[float] = []
    for scene in range(len(blocks)):
        best = max(found, key=lambda key: math.fsum(np.delete(found[key], scene)))
        out.append(found[best][scene])
    return out
