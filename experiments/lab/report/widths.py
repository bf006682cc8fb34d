"""Poses by laws that start at several widths: what `experiments/pose_widths.py` came to."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lab.pages import table
from lab.report.claims import TAILS
from lab.report.inference import Crossed, Effect

# The scale at which all laws start in the rounds, NDC, and by chance the common width of the second
# column of the table, NDC between quartiles.
SAME_SCALE = SAME_WIDTH = 0.1


@dataclass(frozen=True, eq=False)
class Widths:
    """Poses of the symmetric laws that start at several widths.

    Attributes:
        laws: their names.
        fixed: [laws, objects, pairs], found at the one scale of the rounds.
        same: found at one width.
        chosen: found at the width that is best on the other objects.
        best: [laws], the width that is best on all objects, NDC between quartiles.
    """

    laws: list[str]
    fixed: NDArray[np.float64]
    same: NDArray[np.float64]
    chosen: NDArray[np.float64]
    best: list[float]

    @staticmethod
    def read(path: Path) -> Widths:
        """The table of `experiments/pose_widths.py`."""
        rows: dict[str, dict[str, dict[float, list[float]]]] = {}
        fixed: dict[tuple[str, str], float] = {}
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                number, _, count = row["found"].partition("x")
                hits = [float(bit) for bit in f"{int(number, 16):0{int(count)}b}"]
                width = float(row["width"])
                rows.setdefault(row["law"], {}).setdefault(row["object"], {})[width] = hits
                if float(row["scale"]) == SAME_SCALE:
                    fixed[row["law"], row["object"]] = width
        laws, chosen, best = list(rows), [], []
        for law in laws:
            objects = rows[law]
            widths = list(next(iter(objects.values())))
            means = np.array([[np.mean(found[w]) for w in widths] for found in objects.values()])
            best.append(widths[int(means.mean(0).argmax())])
            chosen.append([
                found[widths[int(np.delete(means, k, 0).mean(0).argmax())]]
                for k, found in enumerate(objects.values())
            ])  # fmt: skip
        return Widths(
            laws,
            np.array([[f[fixed[law, o]] for o, f in rows[law].items()] for law in laws]),
            np.array([[f[SAME_WIDTH] for f in rows[law].values()] for law in laws]),
            np.array(chosen),
            best,
        )

    def tails(self, found: NDArray[np.float64]) -> Effect:
        """Exponential tails less linear ones, by the mixed model."""
        weights = np.zeros(len(self.laws))
        for sign, tail in ((1, "exponential"), (-1, "linear")):
            for law in TAILS[tail]:
                weights[self.laws.index(law)] = sign / len(TAILS[tail])
        return Crossed.of(found).contrast(weights)

    def rows(self) -> list[str]:
        """A table: what is found at one scale, at one width, at chosen widths."""
        models = [Crossed.of(found) for found in (self.fixed, self.same, self.chosen)]
        rows = [
            (f"`{law}`", *(f"{model.means[k]:.3f}" for model in models), f"{self.best[k]:.2g}")
            for k, law in enumerate(self.laws)
        ]
        rows.append(("a difference of two, ±", *(
            f"{Effect(0, math.sqrt(2) * m.error, m.freedom).interval()[1]:.3f}" for m in models
        ), ""))  # fmt: skip
        rows.append(("p of no difference", *(f"{model.p:.2g}" for model in models), ""))
        return table(("law", "one scale", "one width", "chosen width", "best width"), rows)
