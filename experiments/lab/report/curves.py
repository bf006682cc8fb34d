"""Means of several trainings with their standard errors: as numbers, and as curves over steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any


def spread(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and its standard error; nan for a single value."""
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return mean(values), error


def panels_of(count: int) -> tuple[Any, list[Any]]:
    """A figure, and the axes of so many panels, at most three side by side."""
    from matplotlib.figure import Figure

    across = min(3, count)
    down = -(-count // across)
    whole: Any = Figure((4.2 * across, 3.4 * down), layout="constrained")
    axes = list(whole.subplots(down, across, squeeze=False).ravel())
    for ax in axes[count:]:
        ax.set_axis_off()
    return whole, axes[:count]


def curve(
    ax: Any, histories: Sequence[Sequence[Mapping[str, Any]]], metric: str, **style: Any
) -> None:
    """Draw the mean of a metric over the steps, in per cent, with a band of standard errors.

    Args:
        ax: what is drawn on.
        histories: of trainings with the same evaluations, as far as each got.
        metric: its name in their rows; rows without it do not count.
        **style: "color" and "label" of the curve.
    """
    rows = [[row for row in history if metric in row] for history in histories]
    steps = [row["step"] for row in min(rows, key=len)]
    points = [spread([100 * row[k][metric] for row in rows]) for k in range(len(steps))]
    ax.plot(steps, [p[0] for p in points], marker="o", markersize=2.5, **style)
    if len(rows) > 1:
        low, high = ([p[0] + side * p[1] for p in points] for side in (-1, 1))
        ax.fill_between(steps, low, high, color=style["color"], alpha=0.2, linewidth=0)
