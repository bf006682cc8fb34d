"""The grid in rounds: all renderers cheaply, the better ones again where it decides.

A round consists of blocks. A block is one scene, an object with an elevation or a set of pairs of
poses, on which every renderer of the round is scored. After each block all its renderers can be
compared fairly, and from the second on with an error: scenes are a sample of what renderers are
used for, and the error of a mean is how much the scenes disagree.

- Round 1 scores all renderers, with few steps.
- Round 2 scores the better half of them on other scenes.
- Round 3 scores the best tenth on yet other scenes, with 100 steps and all learning rates of the
  thesis, or with more pairs of poses.

Halves and tenths are of the plain and of the squared renderers, each by itself. Those that come
into a round were chosen by the rounds before it, so that to be lucky helps to come in; the scores
of its own scenes, which had no part in the choice, are free of that.

For shapes, the scale is searched by a walk on a lattice: the starting point and its neighbours are
tried, and as long as the best is at an end, one more beyond it. So no best scale lies at an end of
what was tried, unless the walk meets `LIMITS`. The walk begins where the renderer was best in the
blocks before; in the first block, where an older grid had its best scale. No score of the older
grid counts. A renderer has one scale in all scenes of a round: the one that is best on average.
"""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, final

from lab.engine.store import Run, Store, write_csv
from lab.engine.tasks import Outcome, Progress, Trial, canonical_json
from lab.studies.pose import TILES, PoseProtocol, PoseTask
from lab.studies.scene import digest
from lab.studies.shape import ShapeProtocol, ShapeTask

if TYPE_CHECKING:
    from gendr.rendering.instances import Instance

# Decades between neighbouring scales of a plain renderer, by round; twice as many if it is squared,
# for its scale is that of a squared distance.
STEPS = {1: 0.5, 2: 0.25, 3: 0.25}
# The least and the greatest exponent of a plain renderer's scale, NDC; twice these if squared.
LIMITS = (-6.0, 2.0)
# The part of the plain and of the squared renderers that comes into each round.
SHARES = {1: 1.0, 2: 0.5, 3: 0.1}
# Scores are compared with so many digits, as the tables have them.
DIGITS = 4

# T-conorms that come first in a block: after these four, most claims have numbers.
FIRST = ("probabilistic", "yager(p=2)", "yager(p=4)", "max", "einstein", "dombi(p=0.5)")

Kind = Literal["shape", "pose"]
# The scores of one renderer in a block: by the exponents of scale and learning rate, one score for
# a shape, and one for each pair of poses.
Scores = dict[tuple[float, float], tuple[float, ...]]
# A row of the table of a block: instance, seconds, version and scores.
BlockRow = tuple[str, float, str, Scores]


@dataclass(frozen=True)
class Block:
    """One scene, on which every renderer of a round is scored.

    Attributes:
        task: The task.
        round: 1, 2 or 3.
        target: The name of a mesh: "chair" of the package, or one of the folder assets.
        number: The elevation of the cameras in degrees, or the seed of the pairs.
    """

    task: Kind
    round: int
    target: str
    number: int

    @property
    def name(self) -> str:
        """Such as "shape-1-airplane+30" or "pose-1-chair-seed1"."""
        scene = f"{self.number:+d}" if self.task == "shape" else f"-seed{self.number}"
        return f"{self.task}-{self.round}-{self.target}{scene}"

    def make(
        self, assets: Path, starts: Mapping[str, float], device: str = "cpu"
    ) -> WalkTask | PairsTask:
        """The task of this block.

        Args:
            assets: The folder with the meshes that are not in the package.
            starts: By the name of a renderer, the exponent of the scale at which its walk begins.
            device: The device to run on.
        """
        from gendr.mesh.examples import example_file, example_names

        packaged = self.target in example_names()
        path = example_file(self.target) if packaged else assets / f"{self.target}.obj"
        if self.task == "shape":
            p = replace(SHAPE[self.round], elevations=(float(self.number),))
            task = WalkTask.of(p, path, device)
            return replace(task, step=STEPS[self.round], starts=dict(starts))
        return PairsTask.of(POSE[self.round], path, device)


# The protocols of the rounds. What they share with the laptop protocol is said there.
_SHAPE = replace(ShapeProtocol.named("laptop"), finer=(), squared_finer=())
SHAPE = {
    1: replace(_SHAPE, views=4),
    2: _SHAPE,
    3: replace(_SHAPE, steps=100, learning_rates=ShapeProtocol().learning_rates),
}
_POSE = replace(PoseProtocol.named("laptop"), squared_scales=(1e-2, 1e-8))
POSE = {1: _POSE, 2: replace(_POSE, pairs=96), 3: replace(_POSE, pairs=192)}

# By task and round, in the order in which they are done. The targets: a jagged one, one of boxes,
# one that is smooth, and one with a thin stem.
_SCENES: dict[tuple[Kind, int], str] = {
    ("shape", 1): "chair -30, airplane 30",
    ("shape", 2): "teapot 0, lamp 30, airplane -30, chair 30",
    ("shape", 3): "airplane 0, chair 60, teapot 30, lamp -30",
    ("pose", 1): "teapot 0, chair 1",
    ("pose", 2): "teapot 2, chair 3",
    ("pose", 3): "teapot 4, chair 5",
}
_EVERY = [
    Block(task, number, target, int(of))
    for (task, number), scenes in _SCENES.items()
    for target, of in map(str.split, scenes.split(", "))
]
BLOCKS = {kind: tuple(b for b in _EVERY if b.task == kind) for kind in ("shape", "pose")}

# Of whose scenes the reports have pictures: in each round the same object.
PICTURED = {"shape": "airplane", "pose": "teapot"}


def pictured(task: str, number: int) -> Block:
    """The block of a round that a report has pictures of."""
    return next(b for b in BLOCKS[task] if (b.round, b.target) == (number, PICTURED[task]))


# ---------------------------------------------------------------------------------------------
# the tasks of blocks


@final
@dataclass(frozen=True, eq=False)
class WalkTask(ShapeTask):
    """A shape task at one elevation whose scale is searched by a walk; nothing is drawn at random.

    Attributes:
        step: Decades between neighbouring scales of a plain renderer.
        starts: By the name of a renderer, the exponent at which the walk begins.
    """

    step: float = 0.5
    starts: Mapping[str, float] = field(default_factory=dict)

    def protocol_json(self) -> str:
        """See `Task`; for the scales of a grid stand the step and the ends of the walk."""
        p = self.protocol
        walk = replace(p, exponents=(self.step, *LIMITS), squared_exponents=(2 * self.step,))
        return canonical_json("shape by a walk", walk, digest(self.target))

    def drawn(self, instance: Instance, at: tuple[float, float], seed: int = 0) -> bytes:
        """A small PNG of what a renderer fits, at the exponents of a scale and a learning rate."""
        task = replace(self, protocol=replace(self.protocol, learning_rates=(10 ** at[1],)))
        (fit,) = task.try_scales(instance, self.protocol.elevations[0], [10 ** at[0]])
        return task.picture(fit.mesh)

    def run(self, instance: Instance, seed: int = 0, progress: Progress | None = None) -> Outcome:
        """Score one renderer; see `Task.run`."""
        begun = time.perf_counter()
        (elevation,) = self.protocol.elevations
        unit = 2 if instance.dist.is_squared else 1

        def look(exponents: Sequence[float]) -> list[Trial]:
            fits = self.try_scales(instance, elevation, [10**x for x in exponents])
            return [Trial(fit.scale, fit.learning_rate, 0, fit.loss) for fit in fits]

        limits = LIMITS[0] * unit, LIMITS[1] * unit
        trials = walk(look, self.starts[instance.name], self.step * unit, limits)
        if progress is not None:
            progress(1.0)
        best = min(trials, key=lambda trial: trial.score)
        return Outcome(
            instance.name, best.score, best.scale, best.learning_rate,
            time.perf_counter() - begun, tuple(trials),
        )  # fmt: skip


def walk(
    look: Callable[[Sequence[float]], Sequence[Trial]],
    start: float,
    step: float,
    limits: tuple[float, float],
) -> list[Trial]:
    """Try scales until the best of them has a neighbour on both sides.

    Args:
        look: Tries scales, given by their exponents.
        start: The exponent at which the walk begins; it moves to the nearest point of the lattice.
        step: Between the exponents of the lattice, of which 0 is one.
        limits: The least and the greatest exponent.

    Returns:
        All trials. The lower score is the better one.
    """
    low, high = (round(limit / step) for limit in limits)
    middle = min(max(round(start / step), low), high)
    wanted = [k for k in (middle - 1, middle, middle + 1) if low <= k <= high]
    trials: list[Trial] = []
    found: dict[int, float] = {}
    while wanted:
        for trial in look([k * step for k in wanted]):
            trials.append(trial)
            k = round(math.log10(trial.scale) / step)
            found[k] = min(found.get(k, math.inf), trial.score)
        best = min(found, key=lambda k: found[k])
        wanted = [k for k in (best - 1, best + 1) if k not in found and low <= k <= high]
    return trials


@final
@dataclass(frozen=True, eq=False)
class PairsTask(PoseTask):
    """A pose task that records every pair: 1 if its pose was found, else 0."""

    def protocol_json(self) -> str:
        """See `Task`."""
        return canonical_json("pose by pairs", self.protocol, digest(self.target))

    def drawn(self, instance: Instance, at: tuple[float, float], seed: int = 0) -> bytes:
        """A small PNG of the first poses that a renderer finds, over those that it looked for."""
        task = replace(self, protocol=replace(self.protocol, learning_rates=(10 ** at[1],)))
        (recovery,) = task.search(instance, seed, first=TILES**2)
        return task.picture(recovery, seed)

    def run(self, instance: Instance, seed: int = 0, progress: Progress | None = None) -> Outcome:
        """Score one renderer; the trials are the pairs, whose numbers stand as their seeds."""
        begun, p = time.perf_counter(), self.protocol
        recovery = self.best(self.search(instance, seed, progress))
        scale, rate = p.scales_of(instance)[0], recovery.learning_rate
        hits = (recovery.error <= p.within).tolist()
        trials = tuple(Trial(scale, rate, k, float(hit)) for k, hit in enumerate(hits))
        seconds = time.perf_counter() - begun
        return Outcome(instance.name, recovery.score(p.within), scale, rate, seconds, trials)


# ---------------------------------------------------------------------------------------------
# what blocks came to


def _exponent(value: float) -> float:
    return round(math.log10(value), DIGITS)


def scores_of(trials: Iterable[Trial]) -> Scores:
    """The trials of one renderer in one block by their exponents."""
    found: dict[tuple[float, float], list[float]] = {}
    for trial in trials:
        key = _exponent(trial.scale), _exponent(trial.learning_rate)
        found.setdefault(key, []).append(round(trial.score, DIGITS))
    return {key: tuple(scores) for key, scores in found.items()}


def qualities(task: str, blocks: Sequence[Scores]) -> dict[tuple[float, float], list[float]]:
    """The quality of one renderer in each of some blocks, larger is better.

    Args:
        task: "shape", where quality is the mean hard IoU, or "pose", the fraction of poses found.
        blocks: Its scores in each of them.

    Returns:
        By the exponents of scale and learning rate, as far as all blocks have tried them.
    """
    shared = [key for key in blocks[0] if all(key in block for block in blocks)]
    sign, shift = (-1.0, 1.0) if task == "shape" else (1.0, 0.0)
    return {
        key: [shift + sign * math.fsum(block[key]) / len(block[key]) for block in blocks]
        for key in shared
    }


def best_exponent(task: str, blocks: Sequence[Scores]) -> tuple[float, float]:
    """The exponents of scale and learning rate that are best on average over blocks."""
    found = qualities(task, blocks)
    return max(found, key=lambda key: math.fsum(found[key]))


def quality(task: str, blocks: Sequence[Scores]) -> float:
    """The mean over blocks at the best scale for all of them."""
    return max(math.fsum(values) / len(values) for values in qualities(task, blocks).values())


def chosen_for(
    block: Block, done: Mapping[str, Mapping[str, Scores]], names: Sequence[str]
) -> list[str]:
    """The renderers of a block: the best part of those in the round before, in each half.

    Args:
        block: The block.
        done: By the name of a block and that of a renderer, its scores.
        names: All renderers of the study.

    Raises:
        ValueError: If the round before is not complete.
    """
    if block.round == 1:
        return list(names)
    before = [b for b in BLOCKS[block.task] if b.round == block.round - 1]
    missing = [b.name for b in before if b.name not in done]
    if missing:
        raise ValueError(f"{block.name} comes after {', '.join(missing)}, which is not there")
    # Of the round before, all blocks have the same renderers.
    common = [n for n in names if all(n in done[b.name] for b in before)]
    out: list[str] = []
    for squared in (False, True):
        half = [n for n in common if _is_squared(n) == squared]
        places = {n: quality(block.task, [done[b.name][n] for b in before]) for n in half}
        count = sum(_is_squared(n) == squared for n in names)
        best = sorted(half, key=lambda n: (-places[n], n))
        out += best[: math.ceil(SHARES[block.round] * count)]
    return out


def place_of_tconorm(name: str) -> int:
    """The place of a renderer's T-conorm in the order in which a block is done."""
    from gendr.tnorms import benchmark_tconorms

    order = [*FIRST, *(str(conorm) for conorm in benchmark_tconorms())]
    conorm = name.partition("/")[2]
    return order.index(conorm) if conorm in order else len(order)


def means() -> list[str]:
    """The plain distributions with the mean in place of a T-conorm, which round 1 has besides."""
    from gendr.distributions import benchmark_distributions

    return [f"{dist}/average" for dist in benchmark_distributions()]


def _is_squared(name: str) -> bool:
    return name.partition("/")[0].endswith(".squared")


def starts_for(
    block: Block,
    done: Mapping[str, Mapping[str, Scores]],
    names: Iterable[str],
    older: Mapping[str, float],
) -> dict[str, float]:
    """Where the walks of a block begin, as exponents of scales; nothing for poses.

    Args:
        block: The block.
        done: As in `chosen_for`.
        names: The renderers of the block.
        older: Their best scales in an older grid, for those that no block before has.
    """
    if block.task == "pose":
        return {}
    order = BLOCKS[block.task]
    before = [b.name for b in order[: order.index(block)] if b.name in done]
    starts: dict[str, float] = {}
    for name in names:
        rounds = [done[b][name] for b in before if name in done[b]]
        if rounds and (found := qualities(block.task, rounds)):
            starts[name] = max(found, key=lambda key: math.fsum(found[key]))[0]
        else:
            starts[name] = math.log10(older[name]) if name in older else -1.5
    return starts


# ---------------------------------------------------------------------------------------------
# blocks as tables


HEAD = ("instance", "seconds", "version", "trials")


def file_of(folder: Path, block: Block) -> Path:
    """The table of a block."""
    return folder / f"{block.name}.csv"


def write_block(path: Path, store: Store, run: Run) -> int:
    """Write a block as a table, one row for each renderer; returns how many there are.

    The column "trials" has `s/r:score` for every scale 10^s and learning rate 10^r that was tried;
    for poses the score is a hexadecimal number whose bits are the pairs, the first one the highest:
    1 if it was found.
    """
    results = sorted(store.results(run, pictures=False), key=lambda result: result.instance)
    rows: list[tuple[str, ...]] = [HEAD]
    for result in results:
        found = scores_of(store.trials(run, result.instance))
        rows.append((result.instance, f"{result.seconds:.2f}", result.version, cell_of(found)))
    write_csv(path, rows)
    return len(results)


def cell_of(scores: Scores) -> str:
    """The scores of a renderer in the column "trials"; see `write_block`."""
    return " ".join(f"{s:g}/{r:g}:{_shown(several)}" for (s, r), several in scores.items())


def read_cell(text: str) -> Scores:
    """The inverse of `cell_of`."""
    scores: Scores = {}
    for trial in text.split():
        exponents, _, score = trial.partition(":")
        scale, _, rate = exponents.partition("/")
        scores[float(scale), float(rate)] = _read_scores(score)
    return scores


def _shown(scores: Sequence[float]) -> str:
    if len(scores) == 1:
        return f"{scores[0]:.{DIGITS}f}"
    bits = "".join(str(int(score)) for score in scores)
    return f"{int(bits, 2):0{math.ceil(len(bits) / 4)}x}x{len(bits)}"


def _read_scores(text: str) -> tuple[float, ...]:
    number, mark, count = text.partition("x")
    if not mark:
        return (float(number),)
    return tuple(float(bit) for bit in f"{int(number, 16):0{int(count)}b}")


def read_table(path: Path) -> list[BlockRow]:
    """The rows of a table that `write_block` wrote: instance, seconds, version and scores.

    Raises:
        ValueError: If it is no such table.
    """
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != HEAD:
            raise ValueError(f"{path} is no table of a block: its columns must be {HEAD}")
        rows: list[BlockRow] = []
        for row in reader:
            try:
                scores = read_cell(row["trials"])
                rows.append((row["instance"], float(row["seconds"]), row["version"], scores))
            except (TypeError, ValueError) as error:
                raise ValueError(f"{path}, line {reader.line_num}: {error}") from None
    return rows


def read_block(path: Path) -> dict[str, Scores]:
    """The scores of a table by the name of the renderer."""
    return {instance: scores for instance, _, _, scores in read_table(path)}


def restore(store: Store, run: Run, path: Path) -> int:
    """Put the rows of a table into a results file; returns how many were new there."""
    new = 0
    for instance, seconds, version, scores in read_table(path):
        trials = tuple(
            Trial(10**scale, 10**rate, number, score)
            for (scale, rate), several in scores.items()
            for number, score in enumerate(several)
        )
        key = best_exponent(run.task, [scores])
        mean = math.fsum(scores[key]) / len(scores[key])
        outcome = Outcome(instance, mean, 10 ** key[0], 10 ** key[1], seconds, trials)
        new += store.record(run, outcome, version)
    return new


def results_as_scores(store: Store, run: Run) -> dict[str, Scores]:
    """The scores of a run by the name of the renderer."""
    results = store.results(run, pictures=False)
    return {r.instance: scores_of(store.trials(run, r.instance)) for r in results}
