"""All renderers of the family on one task, as arrays: from an exported table, or from blocks.

Everything is said in quality, larger is better: the mean hard IoU for shapes, the fraction of poses
found for poses.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gendr import distributions, tnorms
from gendr.tnorms import tconorm
from lab.report.details import TWICE, disagreement, means_of
from lab.report.summary import TOP_SHARE
from lab.studies.pose import PoseProtocol
from lab.studies.rounds import (
    BLOCKS,
    LIMITS,
    Scores,
    best_exponent,
    file_of,
    qualities,
    read_table,
)
from lab.studies.shape import ShapeProtocol

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Grid:
    """The qualities of one task.

    Attributes:
        task: "shape" or "pose".
        dists: the 27 distributions without squaring, by name.
        conorms: the 23 T-conorms, by name, or some of them.
        scenes: the names of what the renderers were scored on.
        draws: [scenes, 2, distributions, conorms, draws], plain and squared: one quality for a
            scene, or for each pair of poses whether it was found, where a table says so.
        scale: [2, distributions, conorms], the best scales; for poses those of the first step.
        rates: the learning rates that were best, each once.
        seconds: [2, distributions, conorms], that each took.
        pairs: poses that a quality is a fraction of, all scenes together; 0 for shapes.
        limits: for shapes the least and greatest exponent of a scale that could be best, plain and
            squared.
    """

    task: str
    dists: list[str]
    conorms: list[str]
    scenes: list[str]
    draws: Array
    scale: Array
    rates: list[float]
    seconds: Array
    pairs: int = 0
    limits: tuple[tuple[float, float], ...] = ()

    @classmethod
    def read(cls, path: Path, task: str) -> Grid | None:
        """The rows of one task in an exported table, None if there are none.

        Raises:
            ValueError: if a renderer is missing.
        """
        with path.open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["task"] == task]
        if not rows:
            return None
        dists = list(dict.fromkeys(row["dist"] for row in rows))
        conorms = list(dict.fromkeys(canonical(row["tconorm"]) for row in rows))
        quality = np.full((2, len(dists), len(conorms)), np.nan)
        scale, seconds = quality.copy(), quality.copy()
        for row in rows:
            place = (
                int(row["squared"] == "True"),
                dists.index(row["dist"]),
                conorms.index(canonical(row["tconorm"])),
            )
            score = float(row["score"])
            quality[place] = 1 - score if task == "shape" else score
            scale[place] = float(row["scale"])
            seconds[place] = float(row["seconds"])
        if np.isnan(quality).any():
            raise ValueError(f"{path} has not all renderers of the task {task}")
        rates = sorted({float(row["learning_rate"]) for row in rows})
        shape, pose = ShapeProtocol.named("laptop"), PoseProtocol.named("laptop")
        limits = tuple((min(e), max(e)) for e in (shape.exponents, shape.squared_exponents))
        return cls(
            task, dists, conorms, [path.stem], quality[None, ..., None], scale, rates, seconds,
            pose.pairs if task == "pose" else 0, limits if task == "shape" else (),
        )  # fmt: skip

    @classmethod
    def of_blocks(cls, folder: Path, names: Sequence[str], task: str) -> Grid | None:
        """Some blocks of one task together, for the T-conorms that all have with all distributions.

        Each renderer has the scale and the learning rate that are best on average over the blocks.

        Args:
            folder: of the tables of the blocks.
            names: of the blocks.
            task: "shape" or "pose".

        Returns:
            None if a table is missing, or no T-conorm is whole.
        """
        blocks = [block for block in BLOCKS[task] if block.name in names]
        paths = [file_of(folder, block) for block in blocks]
        if len(blocks) < len(names) or not names or not all(path.exists() for path in paths):
            return None
        tables = [{row[0]: (row[1], row[3]) for row in read_table(path)} for path in paths]
        plain = [str(d) for d in distributions.benchmark_distributions()]
        dists = [d + square for square in ("", ".squared") for d in plain]
        conorms = [
            conorm
            for conorm in map(str, tnorms.benchmark_tconorms())
            if all(f"{dist}/{conorm}" in table for table in tables for dist in dists)
        ]
        if not conorms:
            return None
        some = next(iter(tables[0][f"{plain[0]}/{conorms[0]}"][1].values()))
        count = len(some) if task == "pose" else 1
        draws = np.empty((len(blocks), 2, len(plain), len(conorms), count))
        scale, seconds = np.empty((2, *draws.shape[1:-1]))
        rates: set[float] = set()
        for place in np.ndindex(*draws.shape[1:-1]):
            half, i, j = place
            rows = [table[f"{dists[half * len(plain) + i]}/{conorms[j]}"] for table in tables]
            scores = [row[1] for row in rows]
            best = best_exponent(task, scores)
            draws[(slice(None), *place)] = draws_of(task, scores, best)
            scale[place], seconds[place] = 10 ** best[0], sum(row[0] for row in rows)
            rates.add(10 ** best[1])
        pairs = count * len(blocks) if task == "pose" else 0
        return cls(
            task, plain, conorms, [block.name for block in blocks], draws, scale, sorted(rates),
            seconds, pairs, (LIMITS, (2 * LIMITS[0], 2 * LIMITS[1])) if task == "shape" else (),
        )  # fmt: skip

    @property
    def is_whole(self) -> bool:
        """Whether it has all T-conorms of the benchmark."""
        return len(self.conorms) == len(tnorms.benchmark_tconorms())

    def with_conorms(self, names: Sequence[str]) -> Grid:
        """The same task with some of its T-conorms only."""
        columns = [self.conorms.index(canonical(name)) for name in names]
        return replace(
            self, conorms=[self.conorms[j] for j in columns],
            draws=self.draws[..., columns, :], scale=self.scale[..., columns],
            seconds=self.seconds[..., columns],
        )  # fmt: skip

    @cached_property
    def by_scene(self) -> Array:
        """[scenes, 2, distributions, conorms]: the mean over the draws."""
        return self.draws.mean(-1)

    @cached_property
    def quality(self) -> Array:
        """[2, distributions, conorms]: the mean over the scenes."""
        return means_of(self.by_scene)

    def dist(self, half: int, *names: str) -> Array:
        """[scenes, T-conorms, draws]: means over distributions, for those that are T-conorms."""
        rows = [self.dists.index(name) for name in names]
        return self.draws[:, half][:, rows][:, :, self.distinct].mean(1)

    def conorm(self, half: int, *names: str) -> Array:
        """[scenes, distributions, draws]: the mean over some T-conorms."""
        columns = [self.conorms.index(canonical(name)) for name in names]
        return self.draws[:, half][:, :, columns].mean(2)

    @property
    def distinct(self) -> list[int]:
        """The places of the T-conorms, without the second name of one function."""
        return [j for j, conorm in enumerate(self.conorms) if conorm not in TWICE]

    def best_tenth(self, half: int) -> NDArray[np.bool_]:
        """[distributions, distinct T-conorms]: the best tenth of a half, with ties of the last."""
        values = self.quality[half][:, self.distinct]
        last = np.sort(values, axis=None)[-round(TOP_SHARE * values.size)]
        return values >= last

    def scene_error(self) -> float:
        """The standard error of a quality beside another one, pooled over all renderers.

        It is how much the scenes disagree on the differences between renderers. What makes a scene
        easy or hard for all alike is not in it.

        Raises:
            ValueError: if there is only one scene.
        """
        count = len(self.scenes)
        if count < 2:
            raise ValueError("one scene alone does not say how much scenes disagree")
        return disagreement(self.by_scene.reshape(count, -1))


def draws_of(
    task: str, blocks: Sequence[Scores], best: tuple[float, float]
) -> list[tuple[float, ...]]:
    """What one renderer came to in each of some blocks with a candidate: for poses each pair.

    Args:
        task: "shape" or "pose".
        blocks: Its scores in each of them.
        best: The exponents of the candidate's scale and learning rate.
    """
    if task == "pose":
        return [scores[best] for scores in blocks]
    return [(quality,) for quality in qualities(task, blocks)[best]]


def canonical(text: str) -> str:
    """The text of a T-conorm as it prints itself."""
    return str(tconorm(text))
