r"""Make the pictures of docs/relaxed.md, and two tables of docs/results/relaxed.md.

    python docs/make_relaxed.py                 # all, some minutes
    python docs/make_relaxed.py sort tables     # some

Every number in the pictures is computed by the programs of `gendr.relaxed`. The table and the
picture of terrain are those of the trainings in docs/results/shortest-path.json, which are those of

    shared="--batch 24 --maps 200 --precision bfloat16 --threads 1"
    python experiments/shortest_path.py $shared --steps 120 --evaluate-every 20 -o runs/paths-120 \
        --methods bellman_ford black_box fenchel_young finite_differences perturbed smoothing \
        smoothing_loss straight_through
    python experiments/shortest_path.py $shared --steps 300 --evaluate-every 30 -o runs/paths-300 \
        --methods bellman_ford resnet

with the seeds 1 and 2 of bellman_ford besides, joined by

    python experiments/keep_results.py runs/paths-120 runs/paths-300 --first-examples \
        -o docs/results/shortest-path.json

(the numbers of that file were rounded by hand before there was this script).
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import json
from collections.abc import Callable
from typing import Any

import torch
from make_figures import DOCS, main, save_plot, write_block
from torch import Tensor

import gendr
from gendr import relaxed, sorting
from gendr.relaxed import Vector, programs, smoothing, soft_dtw_alignment
from gendr.transport import sinkhorn, sinkhorn_barycenter
from lab.data import cheapest_paths
from lab.pages import table
from lab.report import paths
from lab.studies import hard_programs
from lab.studies.shortest_path import generated_splits, scored

BLUE, RED, GREY = "#16345c", "#c43e28", "0.55"
SCALES = ("#16345c", "#3f7fbf", "#9cc3e6")  # from small to large


def plots(rows: int, columns: int, size: tuple[float, float], **more: Any) -> tuple[Any, Any]:
    """A figure and its axes."""
    import matplotlib.pyplot as plt

    return plt.subplots(rows, columns, figsize=size, **more)


# -- functions of tensors


def figure_soft() -> None:
    """Functions of `gendr.soft`, hard and at three scales, and by three distributions."""
    x = torch.linspace(-2, 2, 801, dtype=torch.float64)
    shown = {
        "sign(x)": lambda *how: gendr.soft.sign(x, *how),
        "abs(x)": lambda *how: gendr.soft.abs(x, *how),
        "relu(x)": lambda *how: gendr.soft.relu(x, *how),
        "clamp(x, -1, 1)": lambda *how: gendr.soft.clamp(x, -1, 1, *how),
        "round(x)": lambda *how: gendr.soft.round(x, *how),
        "equal(x, 0)": lambda *how: gendr.soft.equal(x, 0.0, *how),
    }
    figure, axes = plots(2, len(shown), (13, 4), sharex=True, sharey="col")
    for column, (name, function) in enumerate(shown.items()):
        axes[0, column].set_title(name, size=10)
        for scale, colour in zip((0.05, 0.2, 0.5), SCALES, strict=True):
            axes[0, column].plot(x, function(scale), color=colour, label=f"scale {scale}")
        for dist, colour in (("logistic", BLUE), ("cauchy", RED), ("uniform", GREY)):
            axes[1, column].plot(x, function(0.2, dist), color=colour, label=dist)
    for row in axes:
        row[0].legend(frameon=False, fontsize=7, loc="lower right")
    figure.tight_layout()
    save_plot(figure, "soft_functions.png")


def figure_quantiles() -> None:
    """A median as one value moves, where it stands, and ranks of that list."""
    figure, (left, middle, right) = plots(1, 3, (11, 3))
    rest = torch.tensor([0.0, 0.3, 1.0, 1.4], dtype=torch.float64)
    moved = torch.linspace(-0.6, 2, 521, dtype=torch.float64)
    x = torch.cat([rest.expand(len(moved), 4), moved[:, None]], -1)
    left.plot(moved, x.median(-1).values, color=RED, lw=1.2, label="hard")
    for steepness, colour in zip((50.0, 10.0, 4.0), SCALES, strict=True):
        options: dict[str, Any] = {"method": "softsort", "steepness": steepness}
        label = f"steepness {steepness:g}"
        left.plot(moved, sorting.soft_quantile(x, **options), color=colour, label=label)
        middle.plot(moved, sorting.soft_argquantile(x, **options)[:, -1], color=colour)
        right.plot(moved, sorting.soft_rank(x, **options)[:, -1], color=colour)
    left.legend(frameon=False, fontsize=7)
    titles = ("median of 0, 0.3, 1, 1.4 and x", "how much x is it", "rank of x")
    for axis, title in zip((left, middle, right), titles, strict=True):
        axis.set_title(title, size=10)
        axis.set_xlabel("x")
    figure.tight_layout()
    save_plot(figure, "soft_quantiles.png")


def figure_alignments() -> None:
    """Expected alignments of two series, and plans between their values."""
    figure, axes = plots(2, 4, (11, 5))
    t = torch.linspace(0, 1, 40, dtype=torch.float64)
    a, b = (6.3 * t).sin(), (6.3 * t[:32] ** 2 / t[31] ** 2).sin()
    for (left, *rest), title in zip(axes, ("two series", "their values"), strict=True):
        for series, colour in ((a, BLUE), (b, RED)):
            left.plot(series if title == "two series" else series.sort().values, color=colour)
        left.set_title(title, size=10)
        for axis, width in zip(rest, (0.01, 0.1, 1.0), strict=True):
            if title == "two series":
                shown, name = soft_dtw_alignment(a, b, width), "γ"
            else:
                costs = (a.sort().values[:, None] - b.sort().values).square()
                shown, name = sinkhorn(costs, epsilon=width).plan, "ε"
            axis.imshow(shown / shown.max(), cmap="Greys", vmin=0, vmax=1, aspect="auto")
            axis.set_title(f"{name} = {width:g}", size=10)
    figure.tight_layout()
    save_plot(figure, "alignments.png")


def figure_barycentres() -> None:
    """Between a ring and two squares: barycentres of five weights, and their mean below."""
    place = torch.linspace(-1, 1, 20, dtype=torch.float64)
    points = torch.cartesian_prod(place, place)
    radius = points.norm(dim=-1)
    corners = (points.abs() - 0.55).abs().amax(-1) < 0.25
    shapes = torch.stack([(radius > 0.45) & (radius < 0.75), corners & (points.prod(-1) > 0)])
    a = shapes.double() + 1e-6
    a = a / a.sum(-1, keepdim=True)
    costs = torch.cdist(points, points).square()
    figure, axes = plots(2, 5, (10, 4.2))
    for column, share in enumerate((0.0, 0.25, 0.5, 0.75, 1.0)):
        weights = torch.tensor([1 - share, share], dtype=torch.float64)
        between = sinkhorn_barycenter(costs, a, weights, 0.005)
        for axis, shown in zip(axes[:, column], (between, weights @ a), strict=True):
            axis.imshow(shown.reshape(20, 20), cmap="Greys")
            axis.set(xticks=[], yticks=[])
        axes[0, column].set_title(f"{1 - share:g} and {share:g}", size=10)
    axes[0, 0].set_ylabel("barycentre")
    axes[1, 0].set_ylabel("mean")
    figure.tight_layout()
    save_plot(figure, "barycentres.png")


def figure_ranking() -> None:
    """Losses of three scores, of which that of the best entry moves."""
    figure, axis = plots(1, 1, (7, 3.4))
    moved = torch.linspace(-3, 3, 601, dtype=torch.float64)
    scores = torch.stack([moved, 0 * moved - 1, 0 * moved + 1], -1)
    grades = torch.tensor([2, 0, 1]).expand(len(moved), 3)
    losses: dict[str, sorting.RankingLoss] = {
        "NDCGLoss": sorting.NDCGLoss(steepness=1.0, reduction="none"),
        "ApproxNDCG": sorting.ApproxNDCG(steepness=3.0, reduction="none"),
        "MAPLoss": sorting.MAPLoss(threshold=1.0, steepness=1.0, reduction="none"),
        "MRRLoss": sorting.MRRLoss("softsort", threshold=1.0, steepness=3.0, reduction="none"),
        "KendallLoss": sorting.KendallLoss(steepness=3.0, reduction="none"),
        "ListNet": sorting.ListNet(reduction="none"),
        "ListMLE": sorting.ListMLE(reduction="none"),
        "RankNet": sorting.RankNet(reduction="none"),
    }
    for name, loss in losses.items():
        value = loss(scores, grades)
        value = value - value.amin()
        axis.plot(moved, value / value.amax(), label=name, lw=1.2)
    axis.legend(frameon=False, fontsize=7, ncols=2)
    axis.set_xlabel("score of the entry of grade 2; others at -1 and 1, of grades 0 and 1")
    axis.set_ylabel("loss, from its least to its largest")
    figure.tight_layout()
    save_plot(figure, "ranking_losses.png")


# -- what a decision is


def figure_decisions() -> None:
    """A comparison, an equality, and a place in an array."""
    figure, (left, middle, right) = plots(1, 3, (9.5, 2.7))
    x = torch.linspace(-3, 3, 601)
    left.plot(x, (x < 0).float(), color=RED, lw=1.2, label="hard")
    middle.plot(x, torch.zeros_like(x), color=RED, lw=1.2)
    middle.plot([0, 0], [0, 1], color=RED, lw=1.2)
    for scale, colour in zip((0.1, 0.3, 1.0), SCALES, strict=True):
        with smoothing(scale=scale):
            left.plot(x, relaxed.less(x, 0.0), color=colour, label=f"scale {scale:g}")
            middle.plot(x, relaxed.equal(x, 0.0), color=colour)
    left.set_title("x < 0", size=10)
    left.legend(frameon=False, fontsize=8)
    middle.set_title("x == 0", size=10)
    cells = torch.tensor([1.0, 3.0, 2.0, 4.0, 0.5])
    place = torch.linspace(-0.5, 4.5, 501)
    nearest = cells[place.round().clamp(0, 4).long()]
    right.plot(place, nearest, color=RED, lw=1.2)
    for scale, colour in zip((0.1, 0.3, 1.0), SCALES, strict=True):
        with smoothing(scale=scale):
            right.plot(place, relaxed.index(cells, place), color=colour)
    right.plot(range(5), cells, "o", color="black", ms=4)
    right.set_title("v[x], cells v as dots", size=10)
    for axis in (left, middle):
        axis.set(xlabel="x", ylim=(-0.05, 1.05))
    right.set(xlabel="x")
    figure.tight_layout()
    save_plot(figure, "relaxed_decisions.png")


# -- bubble sort


@gendr.relax
def traced_sort(x: Vector):
    """One pass after the other, with what the cells hold after each comparison."""
    trace = [x]
    for last in range(len(x) - 1, 0, -1):
        for i in range(last):
            if x[i] > x[i + 1]:
                x[i], x[i + 1] = x[i + 1], x[i]
            trace = [*trace, x]
    return trace


def figure_sort() -> None:
    """What five cells hold after each comparison."""
    import matplotlib.pyplot as plt

    x = torch.tensor([4.0, 2.0, 5.0, 1.0, 3.0])
    figure, axes = plots(1, 3, (9.5, 2.9), sharey=True)
    colours = plt.get_cmap("viridis")(torch.linspace(0, 0.9, 5).numpy())
    for axis, scale in zip(axes, (1e-6, 0.5, 1.2), strict=True):
        trace = torch.stack(traced_sort(x, scale=scale))
        for cell in range(5):
            axis.plot(trace[:, cell], color=colours[cell], drawstyle="steps-post", lw=1.6)
        _, swaps, _ = programs.bubble_sort(x, scale=scale)
        axis.set_title("hard" if scale < 1e-3 else f"scale {scale:g}", size=10)
        axis.set(xlabel=f"comparisons; {swaps:.2f} swaps in all")
        for end in (4, 7, 9):  # of passes
            axis.axvline(end, color="0.85", lw=0.8, zorder=0)
        if axis is axes[-1]:
            for cell in range(5):
                axis.text(10.2, trace[-1, cell], f"x[{cell}]", color=colours[cell], size=8)
        axis.set_xlim(0, 11.4 if axis is axes[-1] else 10)
    axes[0].set_ylabel("value of a cell")
    figure.tight_layout()
    save_plot(figure, "relaxed_sort.png")


# -- tables


def word(text: str) -> Tensor:
    """Letters as sure choices among 26."""
    places = torch.tensor([ord(letter) - ord("a") for letter in text])
    return torch.nn.functional.one_hot(places, 26).double()


def figure_tables() -> None:
    """Edit distance and time warping: the filled tables."""
    figure, axes = plots(2, 3, (9.5, 6.6))
    s, t = "kitten", "sitting"
    for axis, scale in zip(axes[0], (1e-6, 0.3, 0.8), strict=True):
        _, table = programs.levenshtein(word(s), word(t), scale=scale)
        axis.imshow(table, cmap="Blues", vmin=0, vmax=9)
        for i in range(len(s) + 1):
            for j in range(len(t) + 1):
                value = table[i, j].item()
                text = f"{value:.0f}" if scale < 1e-3 else f"{value:.1f}"
                dark = value > 5.5
                axis.text(j, i, text, ha="center", va="center", size=7.5,
                          color="white" if dark else "black")  # fmt: skip
        axis.set_xticks(range(len(t) + 1), ["", *t])
        axis.set_yticks(range(len(s) + 1), ["", *s])
        axis.tick_params(length=0)
        name = "hard" if scale < 1e-3 else f"scale {scale:g}"
        axis.set_title(f"edit distance, {name}: {table[-1, -1].item():.2f}", size=10)
    time = torch.linspace(0, 1, 40, dtype=torch.float64)
    a = torch.sin(6.5 * time)
    b = torch.sin(6.5 * time**1.8)
    for axis, scale in zip(axes[1], (1e-6, 0.1, 1.0), strict=True):
        value, parts = aligned(a, b, scale)
        axis.imshow(parts, cmap="Blues", vmin=0, vmax=1, origin="lower")
        axis.plot(range(40), 48 + 5 * a, color=RED, lw=1.2, clip_on=False)
        axis.plot(48 + 5 * b, range(40), color=RED, lw=1.2, clip_on=False)
        axis.set(xlim=(-0.5, 54), ylim=(-0.5, 54), xticks=[], yticks=[])
        for side in axis.spines.values():
            side.set_visible(False)
        name = "hard" if scale < 1e-3 else f"scale {scale:g}"
        axis.set_title(f"time warping, {name}: {value:.2f}", size=10)
        axis.set_xlabel("alignment: gradient with respect to each cost", size=8, color="0.3")
    figure.tight_layout()
    save_plot(figure, "relaxed_tables.png")


def aligned(a: Tensor, b: Tensor, scale: float) -> tuple[float, Tensor]:
    """The distance of two series, and how much each pair of their points counts in it."""
    costs = (a[:, None] - b).square().requires_grad_()
    distance = relaxed.warping_of_costs(costs, steepness=1 / scale)
    (parts,) = torch.autograd.grad(distance, costs)
    return distance.item(), parts.T.clamp(0, 1)


# -- paths


def figure_paths() -> None:
    """A grid of costs, and the path at three scales."""
    generator = torch.Generator().manual_seed(4)
    noise = torch.rand(1, 1, 5, 5, generator=generator)
    costs = torch.nn.functional.interpolate(noise, size=(10, 10), mode="bicubic")[0, 0]
    costs = (costs - costs.min()) / (costs.max() - costs.min()) * 4 + 0.4
    figure, axes = plots(1, 4, (9.5, 2.8))
    axes[0].imshow(costs, cmap="YlOrBr")
    axes[0].set_title("costs", size=10)
    axes[0].set_xlabel(f"light {costs.min():.1f}, dark {costs.max():.1f}", size=9)
    for axis, scale in zip(axes[1:], (1e-6, 0.2, 0.8), strict=True):
        path = programs.shortest_path(costs.double(), iterations=20, scale=scale)
        axis.imshow(path, cmap="Blues", vmin=0, vmax=1)
        axis.set_title(named("path", scale), size=10)
        axis.set_xlabel("white 0, blue 1", size=9)
    for axis in axes:
        axis.set(xticks=[], yticks=[])
        axis.plot(0, 0, "o", color=RED, ms=5)
        axis.plot(9, 9, "s", color=RED, ms=5)
    figure.tight_layout()
    save_plot(figure, "relaxed_paths.png")


# -- regions


def figure_regions() -> None:
    """Triangles by three edges, and the regions of a decision tree."""
    figure, axes = plots(2, 3, (9.5, 5.6))
    triangles = torch.tensor(
        [
            [[-0.8, -0.7], [0.1, -0.6], [-0.5, 0.6]],
            [[0.2, -0.5], [0.9, 0.1], [0.1, 0.7]],
            [[-0.3, 0.1], [0.5, -0.8], [0.6, -0.4]],
        ]
    )
    axis_of = (torch.arange(96) * 2 + 1) / 96 - 1
    y, x = torch.meshgrid(axis_of.flip(0), axis_of, indexing="ij")
    for axis, scale in zip(axes[0], (1e-6, 0.02, 0.1), strict=True):
        image = programs.silhouette(triangles, x, y, scale=scale)
        axis.imshow(image, cmap="Blues", vmin=0, vmax=1, extent=(-1, 1, -1, 1))
        axis.set_title(named("silhouette", scale), size=10)
        axis.set(xticks=[], yticks=[])
    length, width = torch.meshgrid(
        torch.linspace(0.5, 7, 130), torch.linspace(0, 2.7, 110), indexing="xy"
    )
    sepal = torch.zeros_like(length)
    flowers = torch.stack([sepal, sepal, length, width], -1)
    thresholds = torch.tensor([2.5, 1.75, 4.95])
    for axis, scale in zip(axes[1], (1e-6, 0.1, 0.4), strict=True):
        _, versicolor, _ = programs.decision_tree(flowers, thresholds, scale=scale)
        axis.imshow(
            versicolor, cmap="Blues", vmin=0, vmax=1, origin="lower",
            extent=(0.5, 7, 0, 2.7), aspect="auto",
        )  # fmt: skip
        axis.set_title(named("P(versicolor)", scale), size=10)
        axis.set_xlabel("petal length, cm")
        for text, place in (("setosa", 1.5), ("versicolor", 3.7), ("virginica", 6)):
            colour = "white" if text == "versicolor" else "black"
            axis.text(place, 0.8, text, ha="center", size=9, color=colour)
    axes[1, 0].set_ylabel("petal width, cm")
    figure.tight_layout()
    save_plot(figure, "relaxed_regions.png")


def named(what: str, scale: float) -> str:
    """The title of a panel."""
    return f"{what}, {'hard' if scale < 1e-3 else f'scale {scale:g}'}"


# -- terrain


def figure_terrain() -> None:
    """The table and the picture of the trainings with shortest paths."""
    text = (DOCS / "results" / "shortest-path.json").read_text(encoding="utf-8")
    values = json.loads(text)
    found = values["trainings"].values()
    # The picture has the shortest trainings of each method.
    steps: dict[str, list[int]] = {}
    for one in found:
        steps.setdefault(one["settings"]["method"], []).append(one["step"])
    shown = [one for one in found if one["step"] == min(steps[one["settings"]["method"]])]
    batch = next(iter(found))["settings"]["batch"]
    data = generated_splits(1)
    # True costs, with so little noise that it decides between equal paths only.
    noise = 1e-6 * torch.rand(data.test.costs.shape, generator=torch.Generator().manual_seed(0))
    known = torch.from_numpy(cheapest_paths(data.test.costs.double() + noise))
    caption = (
        f"Batches of {batch} maps, 10,000 generated maps to train, 1,000 others to test, "
        f"{values['threads']} thread of a busy CPU; mean ± standard deviation of a run. True "
        "costs, with ties broken at random, would have "
        f"{100 * scored(known, data.test).exact:.1f} % exact."
    )
    write_block("results/relaxed.md", "shortest-path", [caption, "", *paths.table(found)])
    save_plot(paths.figure(shown, data.test[:1]), "relaxed_terrain.png", None)


# -- learnt from hard data

LEARNING = {"steps": 80, "batch": 16}


def figure_learnt() -> None:
    """The table of the numbers that are learnt from hard programs."""
    torch.set_num_threads(1)  # the tensors are small
    rows: list[list[str]] = []
    for task in hard_programs.TASKS.values():
        for execution in ("merged", relaxed.Joint(8), relaxed.Sampled(16)):
            found = hard_programs.learn(task, execution, **LEARNING)
            numbers = [", ".join(f"{x:.3g}" for x in xs) for xs in (task.true, found.numbers)]
            name = execution if isinstance(execution, str) else repr(execution)
            errors = [f"{found.before:.3f}", f"{found.error:.3f}"]
            rows.append([task.name, task.what, name.replace("=", " = "), *numbers, *errors])
    caption = "{steps} steps of batches of {batch}, one seed.".format(**LEARNING)
    head = ["program", "learnt", "execution", "true", "found", "error, start", "error, end"]
    write_block("results/relaxed.md", "learnt", [caption, "", *table(head, rows, 3)])


FIGURES: dict[str, Callable[[], None]] = {
    "soft": figure_soft,
    "quantiles": figure_quantiles,
    "alignments": figure_alignments,
    "barycentres": figure_barycentres,
    "ranking": figure_ranking,
    "decisions": figure_decisions,
    "sort": figure_sort,
    "tables": figure_tables,
    "paths": figure_paths,
    "regions": figure_regions,
    "terrain": figure_terrain,
    "learnt": figure_learnt,
}


if __name__ == "__main__":
    main(__doc__, FIGURES)
