"""What `experiments/ten_objects.py` came to: means, contrasts by object, and their tables.

Each contrast is taken object by object, so that its error is how much ten objects disagree, with
nine degrees of freedom, and assumes nothing of other contrasts. Who may be the best, and shrunken
means, are by the mixed model (`lab.report.inference.Crossed`).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gendr.jobs.defaults import SHAPE
from lab.pages import table
from lab.report.claims import TAILS
from lab.report.inference import Crossed, Effect, benjamini_hochberg
from lab.studies.objects import SCORED
from lab.studies.peers import PEERS
from lab.studies.rounds import Scores
from lab.studies.ten import (
    CONORMS,
    DISTRIBUTIONS,
    ELEVATIONS,
    FAR,
    POSE_TUNED,
    UNIT,
    read_table,
    width_at,
)

Array = NDArray[np.float64]
# What a fit of shapes takes where nothing is named, beside which others stand.
DEFAULT = "/".join(SHAPE)


@dataclass(frozen=True)
class Contrast:
    """The mean of some renderers less that of others, with its error over objects."""

    name: str
    effect: Effect
    p: float  # adjusted


@dataclass(frozen=True, eq=False)
class TenObjects:
    """The scores of one task on ten objects.

    Attributes:
        task: "shape" or "pose".
        names: of the renderers.
        values: [renderers, objects, draws]: qualities at the chosen settings; draws are elevations
            or pairs of poses.
        same: the same with one width for all; empty for shapes.
        widths: [renderers], the chosen ones, NDC.
        rates: [renderers], the chosen exponents of learning rates.
    """

    task: str
    names: list[str]
    values: Array
    same: Array
    widths: list[float]
    rates: list[float]

    @staticmethod
    def read(path: Path, task: str) -> TenObjects:
        """A table of `experiments/ten_objects.py`, in the order of `RENDERERS`."""
        found = read_table(path)
        values, same, widths, rates = [], [], [], []
        for name, scenes in found.items():
            best, rows = _chosen(task, scenes)
            values.append(rows)
            width = width_at(PEERS[name][1] if name in PEERS else name, 10 ** best[0])
            widths.append(width)
            rates.append(best[1])
            if task == "pose":
                key = min(scenes[SCORED[0]], key=lambda k: abs(width_at(name, 10 ** k[0]) - UNIT))
                same.append([list(scenes[o][key]) for o in SCORED])
        return TenObjects(task, list(found), np.array(values), np.array(same), widths, rates)

    @cached_property
    def model(self) -> Crossed:
        """The mixed model of all renderers."""
        return Crossed.of(self.values)

    @property
    def by_object(self) -> Array:
        """[renderers, objects]."""
        return self.values.mean(2)

    def mean(self, name: str) -> float:
        """The mean of one renderer."""
        return float(self.by_object[self.names.index(name)].mean())

    def less(self, plus: Sequence[str], minus: Sequence[str], *, same: bool = False) -> Effect:
        """The mean of some renderers less that of others, object by object.

        Args:
            plus: Their names.
            minus: Those of the others.
            same: At one width for all, not at chosen ones.
        """
        found = (self.same if same else self.values).mean(2)
        a, b = (found[[self.names.index(n) for n in group]].mean(0) for group in (plus, minus))
        away = a - b
        error = float(away.std(ddof=1)) / math.sqrt(len(away))
        return Effect(float(away.mean()), error, len(away) - 1)

    def candidates(self) -> list[str]:
        """The renderers among which the best one is with 95 % confidence."""
        chosen = self.model.may_be_best()
        return [name for name, may in zip(self.names, chosen, strict=True) if may]

    def half(self) -> float:
        """How far two renderers must be apart for p < 0.05, by the mixed model."""
        m = self.model
        return Effect(0, math.sqrt(2) * m.error, m.freedom).interval()[1]


def _chosen(
    task: str, scenes: Mapping[str, Scores]
) -> tuple[tuple[float, float], list[list[float]]]:
    """The settings chosen on the objects that are not scored, and what they came to on the ten."""
    if task == "shape":
        (best,) = scenes[f"{SCORED[0]}{ELEVATIONS[0]:+d}"]
        rows = [[1 - scenes[f"{o}{at:+d}"][best][0] for at in ELEVATIONS] for o in SCORED]
        return best, rows
    tuned = [scenes[name] for name in POSE_TUNED]
    best = max(tuned[0], key=lambda key: (sum(sum(t[key]) for t in tuned), -key[0]))
    return best, [list(scenes[o][best]) for o in SCORED]


NEAR = [dist for dist in DISTRIBUTIONS if dist not in FAR]


def _of(dists: Sequence[str], conorms: Sequence[str] = CONORMS) -> list[str]:
    return [f"{dist}/{conorm}" for dist in dists for conorm in conorms]


def contrasts(shape: TenObjects, pose: TenObjects) -> dict[str, list[Contrast]]:
    """The comparisons of both tasks, adjusted within each by Benjamini and Hochberg."""
    plan: list[tuple[str, list[str], list[str]]] = [
        ("exponential tails − finite supports", _of(TAILS["exponential"]), _of(TAILS["finite"])),
        (
            "exponential − linear tails",
            _of(TAILS["exponential"], CONORMS[:1]),
            _of(TAILS["linear"], CONORMS[:1]),
        ),
        ("yager 2 − probabilistic", _of(NEAR, ["yager(p=2)"]), _of(NEAR, ["probabilistic"])),
        ("max − probabilistic", _of(NEAR, ["max"]), _of(NEAR, ["probabilistic"])),
        *(
            (f"{one} − {other}", [one], [other])
            for one, other in (
                ("uniform/probabilistic", DEFAULT),
                ("uniform/yager(p=2)", DEFAULT),
                ("laplace/probabilistic", DEFAULT),
                ("gaussian/probabilistic", DEFAULT),
                ("logistic.squared/probabilistic", DEFAULT),
                ("exponential.reversed/probabilistic", DEFAULT),
                ("laplace/hamacher(p=0.5)", DEFAULT),
                ("antialiased edges", DEFAULT),
                ("DEODR", DEFAULT),
                ("NMR", DEFAULT),
                ("PyTorch3D's blending", "logistic.squared/probabilistic"),
            )
        ),
    ]
    out: dict[str, list[Contrast]] = {}
    for task in (shape, pose):
        mine = [
            (name, task.less(plus, minus))
            for name, plus, minus in plan
            if {*plus, *minus} <= set(task.names)
        ]
        adjusted = benjamini_hochberg([effect.p() for _, effect in mine])
        out[task.task] = [
            Contrast(name, effect, float(p))
            for (name, effect), p in zip(mine, adjusted, strict=True)
        ]
    return out


# ---------------------------------------------------------------------------------------------
# tables


def by_distribution(task: TenObjects) -> list[str]:
    """A table of distributions by T-conorms; for poses, the first column has one width for all."""
    rows: list[tuple[str, ...]] = []
    for dist in DISTRIBUTIONS:
        names = _of([dist])
        cells = [f"{task.mean(name):.3f}" if name in task.names else "—" for name in names]
        widths = [f"{task.widths[task.names.index(name)]:.3g}" for name in names[:1]]
        if task.task == "pose":
            cells.insert(0, f"{task.same[task.names.index(names[0])].mean():.3f}")
        rows.append((f"`{dist}`", *cells, *widths))
    ends = [f"{task.half():.3f}"] * len(CONORMS)
    if task.task == "pose":
        one = Crossed.of(task.same)
        ends.insert(0, f"{Effect(0, math.sqrt(2) * one.error, one.freedom).interval()[1]:.3f}")
    rows.append(("a difference of two, ±", *ends, ""))
    heads = [f"`{conorm}`" for conorm in CONORMS]
    if task.task == "pose":
        heads.insert(0, "one width")
    return table(("distribution", *heads, "width"), rows)


def every_contrast(found: Mapping[str, list[Contrast]]) -> list[str]:
    """A table of all contrasts: value, interval, adjusted p."""
    rows = [
        (task, contrast.name, contrast.effect.text(), f"{contrast.p:.2g}")
        for task, several in found.items()
        for contrast in several
    ]
    return table(("task", "comparison", "value [95 %]", "adjusted p"), rows)


def at_sizes(small: TenObjects, large: TenObjects) -> list[str]:
    """A table of the renderers that were scored in larger images too."""
    rows = [
        (
            f"`{name}`", f"{small.mean(name):.3f}", f"{large.mean(name):.3f}",
            "0" if name == DEFAULT else large.less([name], [DEFAULT]).text(),
        )
        for name in large.names
    ]  # fmt: skip
    return table(("renderer", "32²", "64²", "64², less the default"), rows)


def published(shape: TenObjects, seconds: Mapping[str, float]) -> list[str]:
    """A table of renderers as published, and of other ways to draw, beside the default of fits."""
    told = {
        DEFAULT: "the default of `gendr fit`",
        "uniform/yager(p=2)": "`uniform/yager(p=2)`",
        "logistic.squared/probabilistic": "SoftRas' instance",
        "exponential.reversed/probabilistic": "DIB-R's",
        "PyTorch3D's blending": "PyTorch3D's blending, 10 nearest faces",
        "NMR": "Neural Mesh Renderer: hard values, uniform slopes",
        "antialiased edges": "antialiased edges, `gendr.primitives`",
        "DEODR": "DEODR, its package",
    }
    rows: list[tuple[str, ...]] = []
    for name, text in told.items():
        if name in shape.names:
            said = "0" if name == DEFAULT else shape.less([name], [DEFAULT]).text()
            rows.append((
                text, f"{shape.mean(name):.3f}", said,
                f"{1000 * seconds[name]:.0f}" if name in seconds else "—",
            ))  # fmt: skip
    return table(("images", "mean IoU", "less the default", "ms a step"), rows)


def read_seconds(path: Path) -> dict[str, float]:
    """Seconds of processor time of a step by renderer."""
    if not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return {row["instance"]: float(row["seconds"]) for row in csv.DictReader(file)}
