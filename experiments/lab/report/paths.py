"""The table and the picture of trainings with shortest paths.

Both are made of what `describe` says of the results, with an "example" each, as the script writes
them to results.json.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import mean, stdev
from textwrap import wrap
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch

from lab.data.warcraft import TerrainMaps
from lab.pages import published
from lab.pages import table as markdown
from lab.report.curves import curve
from lab.studies.shortest_path import METHODS, PathTraining, is_path, scored

# Exact match in %, by method and number of samples: thesis, Tables 2.2, 7.4 and 7.5.
PUBLISHED: dict[tuple[str, int | None], str] = {
    (method, int(samples) if samples else None): value
    for method, values in published("paths").items()
    for samples, value in values.items()
}
COLUMNS = 6  # of the maps in a picture
RIGHT, WRONG, TRUE = "#1f6fc2", "#d03020", "#f59b00"


def example(training: PathTraining, count: int) -> dict[str, Any]:
    """What the network makes of the first test maps, as plain values: outputs and paths."""
    outputs = training.outputs(training.test[:count])
    return {
        "outputs": [[[round(x, 3) for x in row] for row in one] for one in outputs.tolist()],
        "paths": training.predicted(outputs).tolist(),
    }


class _Kind(NamedTuple):
    """What trainings have in common of which the mean is taken."""

    method: str
    samples: int | None
    steps: int

    @property
    def label(self) -> str:
        samples = "" if self.samples is None else f" ({self.samples} samples)"
        return METHODS[self.method].label + samples


_Groups: TypeAlias = dict[_Kind, list[dict[str, Any]]]


def _groups(found: Iterable[dict[str, Any]]) -> _Groups:
    """The trainings by method, number of samples and of steps, in the order of the methods."""
    groups: _Groups = {}
    for one in found:
        name, samples = one["settings"]["method"], one["settings"]["samples"]
        kind = _Kind(name, samples if METHODS[name].is_sampled else None, one["step"])
        groups.setdefault(kind, []).append(one)
    order = list(METHODS)
    kinds = sorted(groups, key=lambda kind: (order.index(kind[0]), kind[1] or 0, kind[2]))
    return {kind: groups[kind] for kind in kinds}


def _mean(values: list[float | None], digits: int, factor: float = 1.0) -> str:
    """The mean over runs, with the standard deviation of a run if there are several."""
    known = [factor * value for value in values if value is not None]
    if not known:
        return "none"
    spread = f" ± {stdev(known):.{digits}f}" if len(known) > 1 else ""
    return f"{mean(known):.{digits}f}{spread}"


def table(found: Iterable[dict[str, Any]]) -> list[str]:
    """The lines of the table: scores on the test maps beside the published ones."""
    rows: list[list[str]] = []
    for kind, runs in _groups(found).items():
        tests = [run["test"] for run in runs]
        rows.append([
            METHODS[kind.method].label,
            "" if kind.samples is None else str(kind.samples),
            str(len(runs)),
            str(kind.steps),
            _mean([run["seconds"] / 60 for run in runs], 1).partition(" ")[0],
            _mean([test["optimal"] for test in tests], 1, 100),
            _mean([test["exact"] for test in tests], 1, 100),
            _mean([test["cost_ratio"] for test in tests], 3),
            PUBLISHED.get(kind[:2], ""),
        ])  # fmt: skip
    head = ["method", "samples", "runs", "steps", "min a run", "optimal %", "exact %"]
    return markdown([*head, "cost ratio", "thesis %"], rows, 1)


# ---------------------------------------------------------------------------------------------
# picture


def figure(found: Iterable[dict[str, Any]], maps: TerrainMaps) -> Any:
    """The optimal paths over the steps, and for each map the costs and paths of each method.

    Args:
        found: the trainings; of each method the first one is shown.
        maps: the test maps of their examples, on the CPU.
    """
    from matplotlib.figure import Figure

    groups = _groups(found)
    rows = -(-(len(groups) + 2) // COLUMNS)
    height = 2.15 * rows * len(maps)
    whole: Any = Figure((12, 3.6 + height + 0.45 * len(maps)), layout="constrained")
    parts = whole.subfigures(
        1 + len(maps), 1, height_ratios=[3.6, *[height / len(maps) + 0.45] * len(maps)]
    )
    _draw_history(parts[0], groups)
    for place, part in enumerate(parts[1:]):
        part.suptitle(
            f"Test map {place + 1}. Dark: high cost (ResNet18: no part of the path). Orange "
            "outline: true path. Dots: predicted path, red off the true one.",
            fontsize=10,
        )
        _draw_map(part.subplots(rows, COLUMNS, squeeze=False).ravel(), groups, maps, place)
    return whole


def _draw_history(part: Any, groups: _Groups) -> None:
    """The mean over runs of the optimal paths on validation maps."""
    part.suptitle(
        "Predicted paths on validation maps that cost no more than the cheapest, mean of all runs",
        fontsize=10,
    )
    ax = part.subplots()
    for i, (kind, runs) in enumerate(groups.items()):
        style = "--" if METHODS[kind.method].is_baseline else "-"
        histories = [run["history"] for run in runs]
        curve(ax, histories, "optimal", color=f"C{i % 10}", label=kind.label, linestyle=style)
    ax.set(xlabel="steps", ylabel="optimal, %", ylim=(-2, 102))
    ax.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)


def _draw_map(
    panels: Any,
    groups: _Groups,
    maps: TerrainMaps,
    place: int,
) -> None:
    """One map, its true costs, and what each method makes of it."""
    size = maps.paths.shape[-2:]
    extent = (-0.5, size[1] - 0.5, size[0] - 0.5, -0.5)
    true = maps.paths[place].numpy()
    for ax in panels:
        ax.set_axis_off()
    panels[0].imshow(maps.images[place].movedim(0, -1).numpy(), extent=extent)
    panels[0].set_title("input", fontsize=8)
    panels[1].imshow(maps.costs[place].numpy(), cmap="Greys", extent=extent)
    panels[1].set_title("true costs, not given", fontsize=8)
    for ax, (kind, runs) in zip(panels[2:], groups.items(), strict=False):
        shown = runs[0]["example"]
        output, path = np.array(shown["outputs"][place]), np.array(shown["paths"][place])
        if METHODS[kind.method].is_baseline:  # what it takes for the path is light
            output = 1 / (1 + np.exp(np.clip(output, -50, 50)))
        ax.imshow(output, cmap="Greys", extent=extent)
        for colour, cells in ((RIGHT, path & true), (WRONG, path & ~true & 1)):
            ys, xs = np.nonzero(cells)
            ax.plot(xs, ys, "o", color=colour, markersize=4.5, markeredgewidth=0)
        score = scored(torch.from_numpy(path[None]).byte(), maps[place : place + 1])
        if not is_path(path[None])[0]:
            verdict = "no path"
        elif score.optimal:
            verdict = "cheapest"
        else:
            verdict = f"{100 * ((score.cost_ratio or 1) - 1):.0f} % dearer"
        title = "\n".join([*wrap(kind.label, 26), verdict])
        ax.set_title(title, fontsize=8, color="black" if score.optimal else WRONG)
    for ax in panels[: 2 + len(groups)]:
        _outline(ax, true)


def _outline(ax: Any, cells: Any) -> None:
    """Lines around a set of cells."""
    padded = np.pad(cells, 1)
    for y, x in np.argwhere(cells):
        for dy, dx in ((0, 1), (0, -1), (1, 0), (-1, 0)):
            if not padded[1 + y + dy, 1 + x + dx]:
                xs = [x + dx / 2] * 2 if dx else [x - 0.5, x + 0.5]
                ys = [y + dy / 2] * 2 if dy else [y - 0.5, y + 0.5]
                ax.plot(xs, ys, color="white", linewidth=3.2, solid_capstyle="projecting")
                ax.plot(xs, ys, color=TRUE, linewidth=1.8, solid_capstyle="projecting")
