r"""Make the pictures of docs/topk.md and the tables of docs/results/topk.md.

    python docs/make_topk.py                 # all, seconds
    python docs/make_topk.py p_k             # some

Every number in them is computed by `gendr.topk`, but for those of the trainings in
docs/results/topk-silhouettes.json, which are

    python experiments/topk_classification.py --meshes shapes --size 16 --model perceptron \
        --runs 5 --steps 1500 --evaluate-every 50 --threads 1 -o runs/topk --losses softmax svm \
        splitter:0,0,0,0,1 splitter:.5,0,0,0,.5 splitter:.25,0,0,0,.75 splitter:.1,0,0,0,.9 \
        splitter:.2,.2,.2,.2,.2 neuralsort:.2,.2,.2,.2,.2@.25 softsort:.2,.2,.2,.2,.2

joined by

    python experiments/keep_results.py runs/topk --no-history -o docs/results/topk-silhouettes.json
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import json
from collections.abc import Callable
from typing import Any

import torch
from make_figures import DOCS, main, save_plot, write_block
from make_relaxed import BLUE, GREY, RED, plots

from gendr.sorting import draw
from gendr.topk import TopKCrossEntropy, network
from lab.pages import table

# P_K, as labels and numbers; the last four are rows of the paper's tables.
ROWS = {
    "[1]": ([1.0], GREY),
    "[.5, 0, 0, 0, .5]": ([0.5, 0, 0, 0, 0.5], BLUE),
    "[.2, .2, .2, .2, .2]": ([0.2] * 5, "#3f9f7f"),
    "[0, 0, 0, 0, 1]": ([0, 0, 0, 0, 1.0], RED),
}
# Scores of the classes that are wrong.
OTHERS = torch.arange(11, dtype=torch.float64) * 2


def figure_p_k() -> None:
    """The loss and its slope, as the score of the true class passes those of eleven others."""
    figure, (left, right) = plots(1, 2, (9.5, 3.4), sharex=True)
    truth = torch.linspace(-1, 23, 481, dtype=torch.float64)
    labels = torch.full((len(truth),), 11)
    for axis in (left, right):
        for place, score in enumerate(reversed(OTHERS.tolist()), 1):
            axis.axvline(score, color="0.9", lw=0.8, zorder=0)
            if place in (1, 5):
                below = f"{place}. place"
                axis.text(score - 1, 1.02, below, size=7, color="0.4", ha="center",
                          transform=axis.get_xaxis_transform())  # fmt: skip
    for name, (p_k, colour) in ROWS.items():
        scores = truth.clone().requires_grad_()
        loss = TopKCrossEntropy(p_k, m=12, dist="logistic", steepness=1.0, reduction="none")
        values = loss(torch.cat([OTHERS.expand(len(truth), -1), scores[:, None]], -1), labels)
        (slope,) = torch.autograd.grad(values.sum(), scores)
        left.plot(truth, values.detach(), color=colour, label=name)
        right.plot(truth, -slope, color=colour)
    left.set_title("loss", size=10, pad=14)
    right.set_title("how hard it pulls the true class upwards", size=10, pad=14)
    left.legend(frameon=False, fontsize=8, title="$P_K$", title_fontsize=8)
    left.set_ylim(-0.5, 22)
    for axis in (left, right):
        axis.set_xlabel("score of the true class")
    figure.tight_layout()
    save_plot(figure, "topk-loss.png")


def figure_network() -> None:
    """The splitter selection network of the paper's Figure 5."""
    axes = draw(network("splitter", 16, 5))
    save_plot(axes.figure, "topk-network.png")


def table_depths() -> None:
    """Layers of splitter networks, and of all others but `odd_even`, which are equally deep."""
    counts = range(1, 9)
    rows = [
        [f"{n:,}", f"`{name}`{beside}", *(str(network(name, n, k).depth) for k in counts)]
        for n in (16, 1024, 10450)
        for name, beside in (("splitter", ""), ("pairwise", ", `odd_even_merge`, `bitonic`"))
    ]
    write_block("results/topk.md", "topk-depths", table(["n", "network", *map(str, counts)], rows))


def table_silhouettes() -> None:
    """What `experiments/topk_classification.py` found on silhouettes, if it is there."""
    path = DOCS / "results" / "topk-silhouettes.json"
    if not path.exists():
        return
    runs: dict[str, Any] = json.loads(path.read_text())["trainings"]
    by_loss: dict[str, list[list[float]]] = {}
    for name, run in runs.items():
        by_loss.setdefault(name.rpartition("-seed")[0], []).append(run["test"])
    first = next(iter(runs.values()))
    softmax = 100 * torch.tensor(by_loss["softmax"], dtype=torch.float64)
    rows: list[list[str]] = []
    for name, tests in by_loss.items():
        loss, _, p_k = name.partition("-")
        p_k = p_k.partition("@")[0].replace(",", ", ")
        percent = 100 * torch.tensor(tests, dtype=torch.float64)
        more = (percent - softmax)[:, 4]
        error = more.std() / len(more) ** 0.5
        spread = zip(percent.mean(0).tolist(), percent.std(0).tolist(), strict=True)
        cells = [f"{mean:.2f} ± {deviation:.2f}" for mean, deviation in spread]
        beside = "" if loss == "softmax" else f"{more.mean():+.2f} ± {error:.2f}"
        rows.append([f"`{loss}`", f"[{p_k}]" if p_k else "", *cells, beside])
    head = ["loss", "P_K", *(f"top {k}" for k in range(1, 6)), "top 5, more than softmax"]
    lines = [
        *table(head, rows), "",
        f"Test accuracy in percent, mean ± standard deviation of {len(softmax)} seeds, and the "
        "mean difference from the softmax with the same seed ± its standard error; "
        f"{first['step']:,} steps of {first['settings']['batch']}.",
    ]  # fmt: skip
    write_block("results/topk.md", "topk-silhouettes", lines)


FIGURES: dict[str, Callable[[], None]] = {
    "p_k": figure_p_k,
    "network": figure_network,
    "depths": table_depths,
    "silhouettes": table_silhouettes,
}


if __name__ == "__main__":
    main(__doc__, FIGURES)
