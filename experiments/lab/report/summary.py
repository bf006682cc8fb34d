"""The runs of a results file, ranked and laid out as in Figures 5.4 and 5.5 of the thesis.

Distributions are columns and T-conorms are rows, in the order of the benchmark; the plain and the
squared distributions make one heat map each.
"""

from __future__ import annotations

import csv
import math
import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gendr import distributions, tnorms
from gendr._common.checks import check_choice
from gendr.distributions import Distribution
from gendr.rendering.instances import Instance, instance
from gendr.tnorms import TConorm
from lab.engine.store import COLUMNS, Failure, Result, Run, Store
from lab.engine.tasks import Better
from lab.report.details import Detail, Found, curve_of, pose_error
from lab.report.rounds import read_rounds
from lab.studies.registry import TASKS

# The histograms beside a heat map count the best this-large share of its scores (Figure 5.4).
TOP_SHARE = 0.1
# The worst scores, this share of all, get one colour, so that failures do not use up the scale.
CLIPPED_SHARE = 0.05

NUMBERS = ("score", "scale", "learning_rate", "seconds")
_Member = TypeVar("_Member", Distribution, TConorm)


@dataclass(frozen=True)
class Entry:
    """One renderer of a run.

    Attributes:
        instance: The renderer.
        result: Its result.
        row: The row of its T-conorm.
        column: The column of its distribution (without squaring).
        rank: 1 + the number of better scores in the run; None if its score is NaN.
        detail: What is known beside its result.
    """

    instance: Instance
    result: Result
    row: int
    column: int
    rank: int | None
    detail: Detail


@dataclass(frozen=True, eq=False)
class HeatMap:
    """The plain or the squared half of a run, arrays [T-conorms, distributions].

    Attributes:
        squared: Whether it is the half of the squared distributions.
        places: int64, the index of a renderer in `Summary.entries`; -1 if it has not been run.
        scores: float64, NaN where a renderer has not been run or diverged.
        top: bool, whether a renderer is among the best 10 % of this half, as far as it has been
            run; all that tie with the last of them are included.
    """

    squared: bool
    places: NDArray[np.int64]
    scores: NDArray[np.float64]
    top: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Summary:
    """A run, ranked.

    Attributes:
        run: The run.
        title: The title of its task.
        unit: The unit of the scores.
        better: Whether lower or higher scores are better.
        failures: The instances that were given up.
        entries: The renderers, best first, NaN last.
        rows: The T-conorms: those of the benchmark, then others by name.
        columns: The distributions, none of them squared: those of the benchmark, then others.
        maps: The plain and the squared heat map.
        limits: The scores at the bright and at the dark end of the colours; None without scores.
    """

    run: Run
    title: str
    unit: str
    better: Better
    failures: tuple[Failure, ...]
    entries: tuple[Entry, ...]
    rows: tuple[TConorm, ...]
    columns: tuple[Distribution, ...]
    maps: tuple[HeatMap, HeatMap]
    limits: tuple[float, float] | None

    @property
    def worst(self) -> float:
        """The worst score that is a number; NaN if there is none."""
        return next((e.result.score for e in reversed(self.entries) if e.rank), math.nan)

    @property
    def total(self) -> int:
        """How many renderers the two heat maps have room for."""
        return 2 * len(self.rows) * len(self.columns)


def load_summaries(path: str | Path, ids: Collection[int] = ()) -> list[Summary]:
    """The runs of a results file that have results.

    Args:
        path: The results file; or a table that `engine.store.export` made of it (.csv), which has
            no pictures, protocols and failures; or a folder with the tables of a grid in rounds.
        ids: The ids of the runs to load; by default all.

    Raises:
        ValueError: If the file cannot be read (see `Store`) or is damaged, has no such run or no
            results, or holds a task or an instance that this version does not know.
    """
    if Path(path).is_dir():
        found = read_rounds(Path(path))
    elif Path(path).suffix.lower() == ".csv":
        found = _read_table(Path(path))
    else:
        try:
            with Store(path) as store:
                found = {run.id: _read_run(store, run) for run in store.runs()}
        except sqlite3.Error as error:
            raise ValueError(f"cannot read {path} ({error})") from None
    runs = [each[0] for each in found.values()]
    if missing := set(ids) - found.keys():
        listed = ", ".join(map(str, found)) or "none"
        raise ValueError(f"{path} has no run {min(missing)}; its runs: {listed}")
    wanted = [found[run.id] for run in runs if not ids or run.id in ids]
    summaries = [summarise(*each) for each in wanted if each[1]]
    if not summaries:
        raise ValueError(f"{path} holds no results yet; experiments/grid_benchmark.py makes some")
    return summaries


def _read_run(store: Store, run: Run) -> Found:
    """A run of a results file."""
    results = store.results(run)
    task = TASKS.get(run.task)
    lower = task is None or task.better == "lower"
    details: dict[str, Detail] = {}
    for result in results:
        # For poses, the scale is that of a schedule: there is no curve.
        trials = store.trials(run, result.instance) if run.task == "shape" else []
        details[result.instance] = Detail(pose_error(run, result.score), curve_of(trials, lower))
    return run, results, store.failures(run), details


def _read_table(path: Path) -> dict[int, Found]:
    """The runs of an exported table by their ids."""
    found: dict[int, Found] = {}
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if missing := {*COLUMNS} - set(reader.fieldnames or ()):
            raise ValueError(f"{path} is no table of results: it has no column {min(missing)!r}")
        try:
            for row in reader:
                number, version = int(row["run"]), row["version"]
                run = Run(
                    number, row["task"], "{}", int(row["seed"]), version, "", row["protocol"]
                )  # fmt: skip
                _, results, _, details = found.setdefault(number, (run, [], [], {}))
                score, scale, rate, seconds = (float(row[name]) for name in NUMBERS)
                where = score, scale, rate, seconds
                results.append(Result(number, row["instance"], *where, version, None, ""))
                details[row["instance"]] = Detail(pose_error(run, score))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}, line {reader.line_num}: {error}") from None
    return found


def summarise(
    run: Run,
    results: Sequence[Result],
    failures: Sequence[Failure] = (),
    details: Mapping[str, Detail] | None = None,
) -> Summary:
    """Rank the results of a run and lay them out.

    Args:
        run: The run.
        results: Its results, in any order.
        failures: Its failures.
        details: What else is known, by the name of the renderer.

    Raises:
        ValueError: If this version does not know the name of the task or of an instance.
    """
    task = TASKS[check_choice("task", run.task, TASKS)]
    sign = 1 if task.better == "lower" else -1
    # NaN counts as inf, so that what diverged comes last; ties are ordered by name.
    ordered = sorted(results, key=lambda r: (_or_inf(sign * r.score), r.instance))
    found = [instance(result.instance) for result in ordered]
    plain = [_without_square(each.dist) for each in found]
    rows = _benchmark_first(tnorms.benchmark_tconorms(), [each.tconorm for each in found])
    columns = _benchmark_first(distributions.benchmark_distributions(), plain)
    row_of = {str(tconorm): i for i, tconorm in enumerate(rows)}
    column_of = {str(dist): j for j, dist in enumerate(columns)}
    entries = tuple(
        Entry(
            member,
            result,
            row_of[str(member.tconorm)],
            column_of[str(dist)],
            rank,
            (details or {}).get(result.instance, Detail()),
        )
        for member, dist, result, rank in zip(found, plain, ordered, _ranks(ordered), strict=True)
    )
    size = len(rows), len(columns)
    return Summary(
        run=run,
        title=task.title,
        unit=task.unit,
        better=task.better,
        failures=tuple(failures),
        entries=entries,
        rows=rows,
        columns=columns,
        maps=(
            _heat_map(entries, size, task.better, squared=False),
            _heat_map(entries, size, task.better, squared=True),
        ),
        limits=_limits(np.array([result.score for result in ordered]), task.better),
    )


def _or_inf(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _without_square(dist: Distribution) -> Distribution:
    return distributions.get(str(dist).removesuffix(".squared")) if dist.is_squared else dist


def _benchmark_first(benchmark: Sequence[_Member], found: Sequence[_Member]) -> tuple[_Member, ...]:
    """The members of the benchmark in its order, then all others by name, each once."""
    others = {str(member): member for member in found}
    for member in benchmark:
        others.pop(str(member), None)
    return (*benchmark, *(others[name] for name in sorted(others)))


def _ranks(ordered: Sequence[Result]) -> list[int | None]:
    """1 + the number of better scores, for results in order, best first."""
    ranks: list[int | None] = []
    for place, result in enumerate(ordered):
        tied = place > 0 and result.score == ordered[place - 1].score
        ranks.append(None if math.isnan(result.score) else ranks[-1] if tied else place + 1)
    return ranks


def _heat_map(
    entries: Sequence[Entry], size: tuple[int, int], better: Better, *, squared: bool
) -> HeatMap:
    places = np.full(size, -1)
    for place, entry in enumerate(entries):
        if entry.instance.dist.is_squared == squared:
            places[entry.row, entry.column] = place
    scores = np.array([*(entry.result.score for entry in entries), math.nan])[places]
    return HeatMap(squared, places, scores, _top(scores, int((places >= 0).sum()), better))


def _top(scores: NDArray[np.float64], count: int, better: Better) -> NDArray[np.bool_]:
    """A mask of the best 10 % of `count` scores, including ties with the last of them."""
    cost = scores if better == "lower" else -scores
    ordered = np.sort(cost[~np.isnan(cost)])
    if not len(ordered):
        return np.zeros(scores.shape, bool)
    last = min(max(1, round(TOP_SHARE * count)), len(ordered)) - 1
    return cost <= ordered[last]  # False for NaN


def _limits(scores: NDArray[np.float64], better: Better) -> tuple[float, float] | None:
    """The best score, and the one beyond which a score is among the worst 5 %."""
    scores = scores[~np.isnan(scores)]
    if not len(scores):
        return None
    if better == "lower":
        return float(scores.min()), float(np.quantile(scores, 1 - CLIPPED_SHARE))
    return float(scores.max()), float(np.quantile(scores, CLIPPED_SHARE))


# ---------------------------------------------------------------------------------------------
# how rows and columns are shown


def label(member: Distribution | TConorm) -> str:
    """A short name: "gamma 0.5 reversed" of gamma(shape=0.5).reversed, "yager 2" of yager(p=2)."""
    words = re.sub(r"\.(?=[a-z])", " ", str(member))
    return re.sub(r"\((?:\w+=)?([^)]+)\)", lambda m: f" {float(m[1]):g}", words).replace("-", "−")


def group_starts(members: Sequence[Distribution] | Sequence[TConorm]) -> list[bool]:
    """Whether a group of several members begins or ends before each: there is a gap."""
    names = [str(m.base) if isinstance(m, Distribution) else m.name for m in members]
    several = {name for name, count in Counter(names).items() if count > 1}
    return [False] + [
        here != before and bool({here, before} & several) for before, here in pairwise(names)
    ]
