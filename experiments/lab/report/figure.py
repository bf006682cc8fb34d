"""The heat maps of a run as a figure for papers, in the layout of Figure 5.4 of the thesis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lab.report.summary import HeatMap, Summary, group_starts, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

# In inches: the side of a cell, the longest bar, the space between parts of the figure, and the
# room for the names of T-conorms and of distributions, the title and the colour bar.
CELL, BAR, SPACE = 0.15, 0.4, 0.05
NAMES, FEET, TITLE, RAMP = 1.35, 1.75, 0.35, 0.85
HATCH, DIVERGED, BARS = "#c3c9d0", "#d9dde2", "#7d8894"


def heat_map_figure(summary: Summary) -> Figure:
    """The heat maps of plain and squared distributions, histograms of the best 10 %, a colour bar.

    Args:
        summary: A run with at least one score.

    Raises:
        ValueError: There is no score, or Matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.colors import Normalize
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError("figures need Matplotlib: pip install matplotlib") from None
    if summary.limits is None:
        raise ValueError(f"run {summary.run.id} has no score, so there is nothing to draw")
    wide, tall = CELL * len(summary.columns), CELL * len(summary.rows)
    each = wide + SPACE + BAR + 5 * SPACE
    width, height = NAMES + 2 * each + RAMP, FEET + tall + SPACE + BAR + TITLE
    most = [max(1, *(int(m.top.sum(axis).max()) for m in summary.maps)) for axis in (0, 1)]
    norm = Normalize(min(summary.limits), max(summary.limits))
    with mpl.rc_context({"font.size": 7.5, "hatch.linewidth": 0.5}):
        figure = Figure((width, height))

        def axes(x: float, y: float, w: float, h: float) -> Axes:
            return figure.add_axes((x / width, y / height, w / width, h / height))

        for heat_map, left in zip(summary.maps, (NAMES, NAMES + each), strict=True):
            body = axes(left, FEET, wide, tall)
            _draw_map(body, summary, heat_map, norm)
            if heat_map.squared:  # the plain map beside it has these names
                body.set_yticklabels([])
            _draw_columns(axes(left, FEET + tall + SPACE, wide, BAR), heat_map, most[0])
            _draw_rows(axes(left + wide + SPACE, FEET, BAR, tall), heat_map, most[1])
        _draw_ramp(axes(width - RAMP, FEET, 0.12, tall), summary, norm)
    return figure


def _colours(summary: Summary) -> str:
    """The colour map whose bright end is the best score."""
    return "viridis_r" if summary.better == "lower" else "viridis"


def _draw_map(axes: Axes, summary: Summary, heat_map: HeatMap, norm: Normalize) -> None:
    from matplotlib.patches import Rectangle

    axes.set_facecolor("white")
    axes.patch.set(hatch="/////", edgecolor=HATCH)  # shows through where nothing has been run
    axes.imshow(heat_map.scores, cmap=_colours(summary), norm=norm, aspect="auto")
    for row, column in np.argwhere(np.isnan(heat_map.scores) & (heat_map.places >= 0)):
        axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, color=DIVERGED))
        axes.text(column, row, "×", ha="center", va="center_baseline")
    for members, line in ((summary.columns, axes.axvline), (summary.rows, axes.axhline)):
        for place in np.flatnonzero(group_starts(members)):
            line(place - 0.5, color="white", linewidth=2)
    axes.set_xticks(range(len(summary.columns)), map(label, summary.columns), rotation=90)
    axes.set_yticks(range(len(summary.rows)), map(label, summary.rows))
    axes.tick_params(length=0, pad=2)
    axes.spines[:].set_visible(False)


def _draw_columns(axes: Axes, heat_map: HeatMap, most: int) -> None:
    counts = heat_map.top.sum(0)
    axes.bar(range(len(counts)), counts, width=0.86, color=BARS)
    axes.set(xlim=(-0.5, len(counts) - 0.5), ylim=(0, most))
    axes.set_axis_off()
    form = "F(d·|d|/τ)" if heat_map.squared else "F(d/τ)"
    name = "squared" if heat_map.squared else "plain"
    axes.set_title(f"{name}, {form}; bars count the best {heat_map.top.sum()}", loc="left", pad=6)


def _draw_rows(axes: Axes, heat_map: HeatMap, most: int) -> None:
    counts = heat_map.top.sum(1)
    axes.barh(range(len(counts)), counts, height=0.86, color=BARS)
    axes.set(ylim=(len(counts) - 0.5, -0.5), xlim=(0, most))
    axes.set_axis_off()


def _draw_ramp(axes: Axes, summary: Summary, norm: Normalize) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colorbar import Colorbar

    assert summary.limits is not None  # for the type checker
    clipped = summary.limits[1] != summary.worst
    extend = ("max" if summary.better == "lower" else "min") if clipped else "neither"
    bar = Colorbar(axes, ScalarMappable(norm, _colours(summary)), extend=extend, extendfrac=0.03)
    bar.outline.set_visible(False)
    bar.set_label(f"{summary.unit} ({summary.better} is better)")
