"""Drawings of sorting networks, in the manner of thesis Figures 3.1 and 3.2; needs Matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gendr.sorting.networks import Comparator, Layer, Network

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Values: TypeAlias = "Sequence[float] | NDArray[Any] | Tensor"

# Lengths along the wires, in units of the distance between two wires.
BESIDE = 0.36  # between comparators of one layer that would touch in one column
GAP = 0.8  # between layers
GAP_WITH_VALUES = 1.3
UNIT = 0.42  # inches
WIRE, COMPARATOR, SHADE = "#8a94a0", "#1f4e79", "#f1f3f6"


def draw(network: Network, values: Values | None = None, ax: Axes | None = None) -> Axes:
    """Draw a network: wires run from left to right, comparators join two of them.

    The dot of a comparator gets the smaller value, the arrowhead the larger. Shaded columns are
    the layers, numbered below; wires are numbered on the left, ranks, from 1, on the right. Of a
    selection network the right side shows where the largest leave, from 1, the largest.

    Args:
        network: any network; beyond some 32 wires it becomes hard to read.
        values: n numbers to send through it; they are written on the wires before, between and
            after the layers.
        ax: where to draw; without it, a new figure of a fitting size (`.figure` of the result).

    Returns:
        The axes.

    Raises:
        ImportError: Matplotlib is not installed.
        ValueError: `values` are not n numbers.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "drawing a network needs Matplotlib: pip install '.[docs]' in the repository"
        ) from error
    states = None if values is None else [*network.states(_checked(values, network.n))]
    gap = GAP if states is None else GAP_WITH_VALUES
    spans: list[tuple[float, float]] = []  # of the layers
    gaps = [gap / 2]  # the middle of the wires before, between and after them
    end = gap
    columns = [columns_of(layer) for layer in network.layers]
    for places in columns:
        spans.append((end, end + BESIDE * max(places)))
        end = spans[-1][1] + gap
        gaps.append(end - gap / 2)
    if ax is None:
        figure = Figure((UNIT * (end + 2.2), UNIT * (network.n + 1.4)), layout="constrained")
        ax = figure.add_subplot()

    ax.hlines(range(network.n), 0, end, color=WIRE, linewidth=1, zorder=1)
    for layer, places, (start, stop) in zip(network.layers, columns, spans, strict=True):
        ax.axvspan(start - BESIDE / 2, stop + BESIDE / 2, color=SHADE, linewidth=0, zorder=0)
        for comparator, place in zip(layer, places, strict=True):
            _draw_comparator(ax, comparator, start + BESIDE * place)
    middles = [(start + stop) / 2 for start, stop in spans]
    ax.set_xticks(middles, [str(k + 1) for k in range(network.depth)])
    ax.set_yticks(range(network.n), [str(i) for i in range(network.n)])
    ax.set(xlim=(0, end), ylim=(network.n - 0.4, -0.6), xlabel="layer", ylabel="wire")
    ranks = ax.secondary_yaxis("right")
    places = range(1, len(network.outputs) + 1)
    places = places if network.sorts else reversed(places)
    ranks.set_yticks(network.outputs, [str(place) for place in places])
    ranks.set_ylabel("rank" if network.sorts else "of the largest")
    for axis in (ax, ranks):
        axis.tick_params(length=0)
        for spine in axis.spines.values():
            spine.set_visible(False)
    if states is not None:
        for where, state in zip(gaps, states, strict=True):
            for wire, value in enumerate(state):
                ax.text(where, wire - 0.06, f"{value:.3g}", ha="center", va="bottom", fontsize=7)
    return ax


def _checked(values: Values, n: int) -> NDArray[Any]:
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.shape != (n,) or array.dtype.kind not in "iuf":
        raise ValueError(
            f"values must be {n} numbers, one for each wire, "
            f"got {array.dtype} of shape {list(array.shape)}"
        )
    return array


def columns_of(layer: Layer) -> list[int]:
    """For each comparator the first column of its layer in which it touches no other."""
    order = sorted(range(len(layer)), key=lambda k: (min(layer[k]), max(layer[k])))
    ends: list[int] = []  # the lowest wire that each column reaches so far
    places = [0] * len(layer)
    for k in order:
        top = min(layer[k])
        free = [column for column, end in enumerate(ends) if end < top]
        places[k] = free[0] if free else len(ends)
        ends[places[k] : places[k] + 1] = [max(layer[k])]
    return places


def _draw_comparator(ax: Axes, comparator: Comparator, x: float) -> None:
    low, high = comparator
    down = 1 if high > low else -1
    ax.plot([x, x], [low, high - 0.12 * down], color=COMPARATOR, linewidth=1.3, zorder=2)
    ax.plot(x, low, "o", color=COMPARATOR, markersize=4.5, zorder=3)
    # The axis points down; the tip of the marker lies on the wire.
    marker = "v" if down > 0 else "^"
    ax.plot(x, high - 0.1 * down, marker, color=COMPARATOR, markersize=5.5, zorder=3)
