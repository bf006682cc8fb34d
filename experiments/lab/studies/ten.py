"""Ten objects: every renderer tuned on objects that are not scored, then scored on ten others.

- *Shape*: on four objects, widths and learning rates are walked until the best pair has neighbours
  on all sides; that pair is scored on ten objects crossed with two elevations.
- *Pose*: the width at which the scale starts is chosen from six on two objects; that one, and one
  width for all, are scored on ten. The scale falls to a thousandth on the way.

A distribution's *width* is the distance between the places where an edge covers 1/4 and 3/4, in
NDC, so that distributions begin equally wide where their scales are not comparable; a squared
distribution's is that of the distance itself.
"""

from __future__ import annotations

import csv
import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from lab.engine.tasks import Better, Outcome, Progress, Trial, canonical_json
from lab.studies.objects import SCORED, TUNED, load
from lab.studies.pose import PoseProtocol, PoseTask
from lab.studies.rounds import PairsTask, Scores, cell_of, read_cell, scores_of
from lab.studies.scene import digest
from lab.studies.shape import Fit, ShapeProtocol, ShapeTask

if TYPE_CHECKING:
    from gendr.mesh import Mesh
    from gendr.rendering.instances import Instance

DISTRIBUTIONS = (
    "uniform", "cubic_hermite", "wigner_semicircle", "gaussian", "laplace", "logistic",
    "hyperbolic_secant", "cauchy", "reciprocal",
)  # fmt: skip
CONORMS = ("probabilistic", "yager(p=2)", "max")
# Distributions whose tails fade as 1 / distance take ten times as long, and have one T-conorm.
FAR = DISTRIBUTIONS[7:]
# Distributions crossed with three T-conorms, and what is recommended or published besides.
RENDERERS = (
    *(f"{dist}/{conorm}" for conorm in CONORMS for dist in DISTRIBUTIONS
      if conorm == CONORMS[0] or dist not in FAR),
    "logistic.squared/probabilistic", "exponential.reversed/probabilistic",
    "laplace/hamacher(p=0.5)",
)  # fmt: skip

# Widths are this, times powers of two; learning rates are powers of ten by quarters.
UNIT = 0.1
RATIO, DECADES = 2.0, 0.25
# The first widths and learning rates of the walk, as powers; how far it goes.
FIRST_WIDTHS, FIRST_RATES = (-3, -2, -1), (-6, -5, -4)
WIDTHS_LIMIT, RATES_LIMIT = (-8, 3), (-8, 2)
ELEVATIONS = (-30, 30)
POSE_WIDTHS = (0.025, 0.04, 0.065, 0.1, 0.16, 0.25)
POSE_TUNED = ("dog", "key")
# The scale at the end of a pose is this part of the first one.
FALL = 1e-3

_SHAPE = replace(
    ShapeProtocol.named("laptop"), steps=100, finer=(), squared_finer=(), learning_rates=(0.1,)
)
SHAPES = {"small": _SHAPE, "large": replace(_SHAPE, image_size=64)}
POSES = {"small": replace(PoseProtocol.named("laptop"), faces=160, pairs=64)}
HEAD = ("instance", "scene", "seconds", "version", "trials")


def width_of(instance: Instance) -> float:
    """The width of a renderer's distribution at the scale 1."""
    low, high = (float(instance.dist.icdf(q)) for q in (0.25, 0.75))
    return high - low


def scale_at(instance: Instance, width: float) -> float:
    """The scale at which a renderer has a width, NDC (NDC^2 for squared distributions)."""
    part = width / width_of(instance)
    return part**2 if instance.dist.is_squared else part


def width_at(name: str, scale: float) -> float:
    """The inverse of `scale_at`, of a renderer by its name."""
    import gendr

    instance = gendr.instance(name)
    return width_of(instance) * (math.sqrt(scale) if instance.dist.is_squared else scale)


# ---------------------------------------------------------------------------------------------
# shapes


@dataclass(frozen=True, eq=False)
class TenShapes:
    """Score renderers by shapes; a trial's `seed` is the place of its scene in `scenes`."""

    name: ClassVar[str] = "shape"
    title: ClassVar[str] = "Shape optimisation, ten objects"
    better: ClassVar[Better] = "lower"
    unit: ClassVar[str] = "1 - mean hard IoU"

    protocol: ShapeProtocol
    make: Callable[[ShapeProtocol, Mesh], ShapeTask] = field(default=ShapeTask)
    widths: tuple[int, ...] = FIRST_WIDTHS  # one alone stays; for images that have no scale

    @staticmethod
    def scenes() -> list[tuple[str, int]]:
        """Objects and elevations: those that settings are chosen on, then those that are scored."""
        return [*((name, 30) for name in TUNED), *itertools.product(SCORED, ELEVATIONS)]

    @cached_property
    def tasks(self) -> list[ShapeTask]:
        """One task for each scene."""
        meshes = {name: bare(name) for name in (*TUNED, *SCORED)}
        return [
            self.make(replace(self.protocol, elevations=(float(at),)),
                      ShapeTask.placed(meshes[name], self.protocol))
            for name, at in self.scenes()
        ]  # fmt: skip

    def protocol_json(self) -> str:
        """See `Task`."""
        marks = "".join(digest(task.target) for task in self.tasks)
        return canonical_json("shape, ten objects", self.protocol, marks)

    def run(self, instance: Instance, seed: int = 0, progress: Progress | None = None) -> Outcome:
        """Tune and score one renderer; see `Task.run`."""
        begun = time.perf_counter()
        trials: list[Trial] = []

        def look(candidates: Iterable[tuple[int, int]]) -> dict[tuple[int, int], float]:
            wanted = list(candidates)
            sums = dict.fromkeys(wanted, 0.0)
            for number, task in enumerate(self.tasks[: len(TUNED)]):
                for rate, group in itertools.groupby(sorted(wanted, key=_rate), key=_rate):
                    keys = list(group)
                    scales = [scale_at(instance, UNIT * RATIO**width) for width, _ in keys]
                    for key, fit in zip(keys, _fits(task, instance, scales, rate), strict=True):
                        trials.append(Trial(fit.scale, fit.learning_rate, number, fit.loss))
                        sums[key] += fit.loss
            return sums

        width, rate = walk(look, self.widths)
        scale = scale_at(instance, UNIT * RATIO**width)
        scored: list[float] = []
        for number, task in enumerate(self.tasks[len(TUNED) :], len(TUNED)):
            (fit,) = _fits(task, instance, [scale], rate)
            trials.append(Trial(fit.scale, fit.learning_rate, number, fit.loss))
            scored.append(fit.loss)
            if progress is not None:
                progress(len(scored) / (len(self.tasks) - len(TUNED)))
        return Outcome(
            instance.name, math.fsum(scored) / len(scored), scale, 10 ** (DECADES * rate),
            time.perf_counter() - begun, tuple(trials),
        )  # fmt: skip


def _rate(key: tuple[int, int]) -> int:
    return key[1]


def bare(name: str) -> Mesh:
    """An object without colours."""
    mesh = load(name)
    return type(mesh)(mesh.vertices, mesh.faces)


def _fits(task: ShapeTask, instance: Instance, scales: list[float], rate: int) -> list[Fit]:
    """The fits of one scene with some scales, at a learning rate given as a power."""
    one = replace(task, protocol=replace(task.protocol, learning_rates=(10 ** (DECADES * rate),)))
    return one.try_scales(instance, task.protocol.elevations[0], scales)


def walk(
    look: Callable[[Iterable[tuple[int, int]]], Mapping[tuple[int, int], float]],
    widths: tuple[int, ...] = FIRST_WIDTHS,
    rates: tuple[int, ...] = FIRST_RATES,
) -> tuple[int, int]:
    """The best pair of a width and a rate, with tried neighbours on all four sides.

    Args:
        look: Tries pairs; the lower number is the better one.
        widths: The first ones; whole numbers that follow each other. One alone is the only one.
        rates: The first ones.

    Returns:
        The best pair; at `WIDTHS_LIMIT` and `RATES_LIMIT` a neighbour may be missing.
    """
    found = dict(look(itertools.product(widths, rates)))
    while True:
        best = min(found, key=lambda key: (found[key], key))
        around = [
            (best[0] + i, best[1] + j)
            for i, j in ((-1, 0), (1, 0), (0, -1), (0, 1))
            if j or len(widths) > 1
            if WIDTHS_LIMIT[0] <= best[0] + i <= WIDTHS_LIMIT[1]
            and RATES_LIMIT[0] <= best[1] + j <= RATES_LIMIT[1]
        ]
        missing = [key for key in around if key not in found]
        if not missing:
            return best
        found.update(look(missing))


# ---------------------------------------------------------------------------------------------
# poses


@dataclass(frozen=True, eq=False)
class TenPoses:
    """Score renderers by poses; a trial's `seed` is its pair, counted through all scenes."""

    name: ClassVar[str] = "pose"
    title: ClassVar[str] = "Camera pose, ten objects"
    better: ClassVar[Better] = "higher"
    unit: ClassVar[str] = "fraction of poses found"

    protocol: PoseProtocol

    @staticmethod
    def scenes() -> list[tuple[str, int]]:
        """Objects and seeds of their pairs: those that widths are chosen on, then the scored."""
        return [(name, number) for number, name in enumerate((*POSE_TUNED, *SCORED))]

    @cached_property
    def tasks(self) -> list[PairsTask]:
        """One task for each scene."""
        return [
            PairsTask(self.protocol, PoseTask.placed(bare(name), self.protocol))
            for name, _ in self.scenes()
        ]

    def protocol_json(self) -> str:
        """See `Task`."""
        marks = "".join(digest(task.target) for task in self.tasks)
        return canonical_json("pose, ten objects", self.protocol, marks)

    def run(self, instance: Instance, seed: int = 0, progress: Progress | None = None) -> Outcome:
        """Tune and score one renderer; see `Task.run`."""
        begun, p = time.perf_counter(), self.protocol
        trials: list[Trial] = []

        def found(number: int, width: float) -> float:
            scale = scale_at(instance, width)
            fall = FALL**2 if instance.dist.is_squared else FALL
            ends = (scale, scale * fall)
            one = replace(self.tasks[number], protocol=replace(p, scales=ends, squared_scales=ends))
            (recovery,) = one.search(instance, number)
            hits = (recovery.error <= p.within).tolist()
            first = number * p.pairs
            trials.extend(
                Trial(scale, recovery.learning_rate, first + k, float(hit))
                for k, hit in enumerate(hits)
            )
            if progress is not None:
                progress(len(trials) / p.pairs / (2 * len(POSE_WIDTHS) + 2 * len(SCORED)))
            return sum(hits) / len(hits)

        tuned = {
            width: sum(found(number, width) for number in range(len(POSE_TUNED)))
            for width in POSE_WIDTHS
        }
        best = max(tuned, key=lambda width: (tuned[width], -width))
        scores = [
            [found(number, width) for number in range(len(POSE_TUNED), len(self.tasks))]
            for width in dict.fromkeys((best, UNIT))
        ]
        return Outcome(
            instance.name, math.fsum(scores[0]) / len(scores[0]), scale_at(instance, best),
            p.learning_rates[0], time.perf_counter() - begun, tuple(trials),
        )  # fmt: skip


# ---------------------------------------------------------------------------------------------
# tables


def rows_of(task: TenShapes | TenPoses, outcome: Outcome, version: str) -> list[tuple[str, ...]]:
    """The rows of one renderer, one for each scene; see `HEAD`.

    The column "trials" has `s/r:score` for the exponents of a scale and a learning rate; for poses
    the score has the pairs as bits of a hexadecimal number, the first one the highest.
    """
    draws = task.protocol.pairs if isinstance(task, TenPoses) else 1
    rows: list[tuple[str, ...]] = []
    for place, (target, number) in enumerate(task.scenes()):
        scores = scores_of(t for t in outcome.trials if t.seed // draws == place)
        name = f"{target}{number:+d}" if isinstance(task, TenShapes) else target
        rows.append((outcome.instance, name, f"{outcome.seconds:.1f}", version, cell_of(scores)))
    return rows


def read_table(path: Path) -> dict[str, dict[str, Scores]]:
    """The scores of a table by renderer and scene.

    Raises:
        ValueError: If it is no such table.
    """
    found: dict[str, dict[str, Scores]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != HEAD:
            raise ValueError(f"{path} is no table of ten objects: its columns must be {HEAD}")
        for row in reader:
            found.setdefault(row["instance"], {})[row["scene"]] = read_cell(row["trials"])
    return found
