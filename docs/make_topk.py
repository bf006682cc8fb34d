"""Make the pictures of docs/topk.md.

    python docs/make_topk.py                 # all, seconds
    python docs/make_topk.py p_k             # some

Every number in them is computed by `gendr.topk`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from make_figures import save_plot
from make_relaxed import BLUE, GREY, RED, plots

from gendr.sorting import draw
from gendr.topk import TopKCrossEntropy, network

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
        loss = TopKCrossEntropy(p_k, m=12, dist="logistic", steepness=2.0, reduction="none")
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
    save_plot(figure, "topk-loss.png")


def figure_network() -> None:
    """The splitter selection network of the paper's Figure 5."""
    axes = draw(network("splitter", 16, 5))
    save_plot(axes.figure, "topk-network.png")


FIGURES: dict[str, Callable[[], None]] = {"p_k": figure_p_k, "network": figure_network}


def main() -> None:
    """Make what the command line names, or everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FIGURES))
    names = parser.parse_args().names
    if unknown := set(names) - set(FIGURES):
        parser.error(f"unknown figure {unknown.pop()!r}; there are {', '.join(FIGURES)}")
    for name in names or FIGURES:
        FIGURES[name]()


if __name__ == "__main__":
    main()
