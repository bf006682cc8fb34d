r"""Make the pictures and tables of docs/logic.md and docs/results/logic.md.

    python docs/make_logic.py                   # all
    python docs/make_logic.py gates tree        # some

The tables and the picture of layers show what is in docs/results/logic-*.json, the trainings of

    python experiments/logic_tables.py --tables monk-1 monk-2 adult breast-cancer --seed 10 \
        --threads 1 -o runs/logic_tables
    python experiments/logic_tables.py --tables monk-3 --seed 20 --threads 1 -o runs/monk-3
    python experiments/logic_tables.py --only-baselines --seed 10 --threads 1 -o runs/baselines
    python experiments/logic_images.py --threads 1 -o runs/logic_images

(docs/results/logic.md says what was otherwise); logic-baselines.json is
runs/baselines/baselines.json, the others are joined by

    python experiments/keep_results.py runs/logic_tables runs/monk-3 \
        -o docs/results/logic-tables.json
    python experiments/keep_results.py runs/logic_images -o docs/results/logic-mnist.json
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import json
from collections.abc import Callable
from statistics import mean, stdev
from typing import Any

import numpy as np
from make_figures import DOCS, main, save_plot, write_block

from gendr.logic import GATES
from lab.pages import table

PUBLISHED = {
    "monk-1": 100.0, "monk-2": 90.9, "monk-3": 97.7, "adult": 84.8, "breast-cancer": 76.1,
    "mnist-small": 97.69,
}  # fmt: skip
# Tables 6.2 and 6.3; its decision tree on MONK's problems is C4.5.
PUBLISHED_OTHERS = {
    ("monk-1", "decision tree"): 100.0, ("monk-2", "decision tree"): 70.4,
    ("monk-3", "decision tree"): 100.0, ("monk-1", "logistic regression"): 71.1,
    ("monk-2", "logistic regression"): 61.4, ("monk-3", "logistic regression"): 97.0,
    ("monk-1", "neural network"): 100.0, ("monk-2", "neural network"): 100.0,
    ("monk-3", "neural network"): 93.5, ("adult", "decision tree"): 79.5,
    ("adult", "logistic regression"): 84.8, ("adult", "neural network"): 84.9,
    ("breast-cancer", "decision tree"): 71.9, ("breast-cancer", "logistic regression"): 72.9,
    ("breast-cancer", "neural network"): 75.3,
}  # fmt: skip


def baselines() -> dict[str, list[dict[str, dict[str, float]]]]:
    """The results of the methods of scikit-learn: for each table, those of each run."""
    path = DOCS / "results" / "logic-baselines.json"
    return json.loads(path.read_text(encoding="utf-8"))


def results(name: str) -> dict[str, Any]:
    """Trainings by name, of a file of results."""
    path = DOCS / "results" / f"logic-{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))["trainings"]


def figure_gates() -> None:
    """All gates as functions of two probabilities."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 8, figsize=(9.5, 2.9))
    a, b = np.meshgrid(np.linspace(0, 1, 101), np.linspace(0, 1, 101))
    for gate, axis in zip(GATES, axes.flat, strict=True):
        one, ca, cb, cab = gate.coefficients
        values = one + ca * a + cb * b + cab * a * b
        axis.imshow(values, origin="lower", extent=(0, 1, 0, 1), cmap="Blues", vmin=0, vmax=1.25)
        if 0 < gate.id < 15:
            levels = np.arange(0.1, 1, 0.2)
            axis.contour(a, b, values, levels, colors="#16345c", linewidths=0.6)
        axis.set_title(f"{gate.id}: {gate.formula}", size=8)
        axis.set(xticks=[], yticks=[])
    axes[1, 0].set(xlabel="a", ylabel="b")
    figure.tight_layout()
    save_plot(figure, "logic_gates.png")


def figure_tree() -> None:
    """A tree of depth 2 at one position: what it reads, and where its output goes."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import Circle, ConnectionPatch, Rectangle

    ink, out = "#16345c", "#c43e28"
    image = np.zeros((9, 9))
    image[1:8, 5] = image[1, 2:6] = image[4, 3:6] = image[7, 2:6] = 1  # a digit
    top, left = 3, 3  # of the window
    leaves = [(0, 1), (1, 0), (1, 2), (2, 2)]
    bits = [image[top + row, left + column] for row, column in leaves]
    names, tables = ["⊕", "∧", "∧"], [GATES[k].table for k in (6, 1, 1)]

    def apply(which: int, a: Any, b: Any) -> Any:
        return np.array(tables[which])[(2 * a + b).astype(int)]

    def tree(values: list[Any]) -> list[Any]:
        first, second = apply(0, *values[:2]), apply(1, *values[2:])
        return [first, second, apply(2, first, second)]

    channel = tree([image[row : row + 7, column : column + 7] for row, column in leaves])[2]
    found = tree([np.array(bit) for bit in bits])

    figure, (before, middle, after) = plt.subplots(1, 3, figsize=(9.5, 3.1), width_ratios=(9, 9, 7))
    for axis, values in ((before, image), (after, channel)):
        axis.pcolormesh(values, cmap="Blues", vmin=0, vmax=1.6, edgecolors="white", linewidth=1)
        axis.set(aspect="equal", xlim=(-0.1, len(values) + 0.1), ylim=(len(values) + 0.1, -0.1))
        axis.axis("off")
        axis.add_patch(Rectangle((0, 0), len(values), len(values), fill=False, ec="#9aa7b8", lw=1))
    before.add_patch(Rectangle((left, top), 3, 3, fill=False, ec=out, lw=2))
    after.add_patch(Rectangle((left, top), 1, 1, fill=False, ec=out, lw=2))
    before.set_title("image and window", size=9)
    middle.set_title("tree: the same at every position", size=9)
    after.set_title("output channel", size=9)

    middle.set(xlim=(0, 9), ylim=(9, 0), aspect="equal")
    middle.axis("off")
    heights = [1.2, 3.4, 5.6, 7.8]
    places = [(4.2, 2.3), (4.2, 6.7), (7.4, 4.5)]
    lines = [((0.6, heights[k]), places[k // 2]) for k in range(4)]
    lines += [(places[0], places[2]), (places[1], places[2])]
    for start, end in lines:
        middle.plot(*zip(start, end, strict=True), color=ink, lw=1.2, zorder=1)
    for (x, y), name, bit in zip(places, names, found, strict=True):
        middle.add_patch(Circle((x, y), 0.85, fc="white", ec=ink, lw=1.5, zorder=2))
        middle.text(x, y, name, ha="center", va="center", size=13, color=ink)
        middle.text(x + 0.2, y + 1.35, str(int(bit)), ha="center", size=8, color=out)
    for k, (row, column) in enumerate(leaves):
        middle.text(0.6, heights[k] - 0.3, str(int(bits[k])), ha="center", size=8, color=out)
        before.plot(left + column + 0.5, top + row + 0.5, "o", color=out, ms=5)
        figure.add_artist(
            ConnectionPatch(
                (left + column + 0.5, top + row + 0.5), (0.6, heights[k]), "data", "data",
                axesA=before, axesB=middle, color=out, lw=0.8, alpha=0.7,
            )
        )  # fmt: skip
    figure.add_artist(
        ConnectionPatch(
            (8.25, 4.5), (left, top + 0.5), "data", "data", axesA=middle, axesB=after, color=out,
            lw=0.8, alpha=0.7,
        )
    )  # fmt: skip
    figure.tight_layout()
    save_plot(figure, "logic_tree.png")


def figure_layers() -> None:
    """How many gates of each kind the layers have, and the accuracy while it trains."""
    import matplotlib.pyplot as plt

    (run,) = results("mnist").values()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.2), width_ratios=(2.2, 1))
    layers = run["layers"]
    wide = 0.84 / len(layers)
    for k, layer in enumerate(layers):
        counts = np.array([layer.get(gate.name, 0) for gate in GATES])
        places = np.arange(16) - 0.42 + (k + 0.5) * wide
        colour = plt.get_cmap("Blues")(0.3 + 0.7 * k / (len(layers) - 1))
        left.bar(places, 100 * counts / counts.sum(), wide, color=colour, label=f"layer {k + 1}")
    left.set_xticks(range(16), [gate.formula for gate in GATES], rotation=60, fontsize=8)
    left.set(ylabel="% of the layer's gates")
    left.legend(frameon=False, fontsize=8)
    rows = [row for row in run["history"] if "accuracy" in row]
    steps = [row["step"] / 1000 for row in rows]
    right.plot(steps, [100 * row["accuracy"] for row in rows], color="#16345c")
    right.set(xlabel="thousand steps", ylabel="% of validation images", ylim=(90, 98.5))
    figure.tight_layout()
    save_plot(figure, "logic_layers.png")


def block_tables() -> None:
    """Accuracy and size of all circuits."""
    runs = {**results("tables"), **results("mnist")}
    others = baselines()
    groups: dict[str, list[dict[str, Any]]] = {}
    for name, run in runs.items():
        groups.setdefault(name.rpartition("-seed")[0], []).append(run)
    lines, short = [], []
    for name, group in groups.items():
        found = [100 * run["accuracy"] for run in group]
        spread = f" ± {stdev(found):.1f}" if len(found) > 1 else ""
        digits = 2 if name.startswith("mnist") else 1
        gates, first = group[0]["gates"], len(lines)
        lines.append(
            [
                name, "logic gate network", f"{mean(found):.{digits}f}%{spread}",
                f"{PUBLISHED[name]:.{digits}f}%",
                str(len(group)), f"{gates:,}", f"{gates // 2:,} B",
                f"{mean(run['circuit']['gates'] for run in group):,.0f}",
                f"{1e9 * mean(run['row_seconds'] for run in group):,.1f} ns",
            ]
        )  # fmt: skip
        beside = {}
        for method in others.get(name, [{}])[0]:
            rows = [each[method] for each in others[name]]
            found = [100 * row["accuracy"] for row in rows]
            beside[method] = mean(found)
            size = mean(row["parameters"] for row in rows)
            published = PUBLISHED_OTHERS.get((name, method))
            lines.append(
                [
                    name, method, f"{mean(found):.1f}% ± {stdev(found):.1f}",
                    f"{published:.1f}%" if published else "", str(len(rows)), f"{size:,.0f}",
                    f"{4 * size:,.0f} B", "",
                    f"{1e9 * mean(row['row_seconds'] for row in rows):,.0f} ns",
                ]
            )  # fmt: skip
        best = max(beside, key=beside.__getitem__, default=None)
        gates = mean(run["circuit"]["gates"] for run in group)
        other = "" if best is None else f"{beside[best]:.1f}%, {best}"
        short.append([name, *lines[first][2:4], other, f"{gates:,.0f}"])
    head = ["table", "method", "accuracy", "thesis", "runs", "parameters", "space",
            "gates, simplified", "time per row, one thread"]  # fmt: skip
    write_block("results/logic.md", "logic-tables", table(head, lines))
    head = ["data", "circuit", "thesis", "best other", "gates"]
    write_block("logic.md", "logic-summary", table(head, short))


FIGURES: dict[str, Callable[[], None]] = {
    "gates": figure_gates,
    "tree": figure_tree,
    "layers": figure_layers,
    "tables": block_tables,
}


if __name__ == "__main__":
    main(__doc__, FIGURES)
