"""The tables of a grid in rounds as runs of a report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np

from lab.engine.store import Result, Run
from lab.engine.tasks import Trial
from lab.report.details import Detail, Found, curve_of, disagreement, is_twice
from lab.report.pictures import pictures_of, read_pictures
from lab.studies.registry import TASKS
from lab.studies.rounds import BLOCKS, BlockRow, file_of, qualities, read_table


def read_rounds(folder: Path) -> dict[int, Found]:
    """A grid in rounds as runs: each round of each task, as far as its tables go.

    A score is the mean over the scenes that have the renderer and all the others of the run, its
    error that of the disagreement of the scenes; see `disagreement`. A round some of whose scenes
    have just begun gives two runs: the complete scenes with all renderers, and all scenes with the
    renderers that they share. Pictures are those that `experiments/grid_pictures.py` has put beside
    the tables.

    Raises:
        ValueError: if the folder holds no tables of a grid in rounds.
    """
    found: dict[int, Found] = {}
    for task, blocks in BLOCKS.items():
        for number in sorted({block.round for block in blocks}):
            mine = [b for b in blocks if b.round == number and file_of(folder, b).exists()]
            tables = {b.name: {r[0]: r for r in read_table(file_of(folder, b))} for b in mine}
            pictures = read_pictures(pictures_of(folder, task, number))
            for scenes in _runs({name: set(table) for name, table in tables.items()}):
                chosen = [tables[name] for name in scenes]
                names = sorted(set.intersection(*map(set, chosen)))
                run = Run(
                    len(found) + 1, task, "{}", 0, chosen[0][names[0]][2], "",
                    f"round {number}, {' and '.join(scenes)}",
                )  # fmt: skip
                run, results, failures, details = _pooled(run, chosen, names)
                results = [replace(x, picture=pictures.get(x.instance)) for x in results]
                found[run.id] = run, results, failures, details
    if not found:
        raise ValueError(f"the folder {folder} has no tables of a grid in rounds")
    return found


def _runs(tables: Mapping[str, set[str]]) -> list[list[str]]:
    """Which scenes of a round make a run, from the renderers that each of them has."""
    scenes, runs = list(tables), list[list[str]]()
    while scenes:
        shared = len(set.intersection(*(tables[scene] for scene in scenes)))
        if shared:
            runs.append(list(scenes))
        if 2 * shared >= len(tables[scenes[0]]):
            break
        # A scene that has just begun would hide most of what the others have.
        scenes.pop()
    return runs[::-1]


def _pooled(run: Run, tables: Sequence[Mapping[str, BlockRow]], names: Sequence[str]) -> Found:
    """Tables as one run, at the scale that is best on average for each renderer."""
    lower = TASKS[run.task].better == "lower"
    results: list[Result] = []
    details: dict[str, Detail] = {}
    values: list[list[float]] = []
    for name in names:
        rows = [table[name] for table in tables]
        by_scale = qualities(run.task, [row[3] for row in rows])
        best = max(by_scale, key=lambda key, found=by_scale: math.fsum(found[key]))
        values.append(by_scale[best])
        curve = curve_of(
            (
                Trial(10**scale, 10**rate, 0, (1 - fmean(each)) if lower else fmean(each))
                for (scale, rate), each in by_scale.items()
            ),
            lower,
        )
        details[name] = Detail(curve=curve if run.task == "shape" else ())
        score = (1 - fmean(values[-1])) if lower else fmean(values[-1])
        seconds = sum(row[1] for row in rows)
        where = 10 ** best[0], 10 ** best[1]
        results.append(Result(run.id, name, score, *where, seconds, run.version, None, ""))
    if len(tables) > 1 and len(names) > 1:
        # As on the pages: one function under two names counts once, and the mean is no T-conorm.
        once = [not is_twice(name) and not name.endswith("/average") for name in names]
        error = disagreement(np.array(values)[once].T)
        details = {name: replace(detail, error=error) for name, detail in details.items()}
    return run, results, [], details
