r"""Make the tables and the picture of Newton losses from docs/results/newton-*.json.

The tables go to docs/results/newton.md, their summary and the picture to docs/optim.md.

    python docs/make_optim.py

docs/results/newton-sorting.json has the trainings, joined by experiments/keep_results.py, of

    python experiments/newton_losses.py sorting --data data/mnist --threads 1 --runs 5 \
        --methods neuralsort softsort odd_even/logistic --variants regular hessian fisher \
        --network digits --batch 50 --steps 1400 --evaluate-every 140 --lists 300 \
        --test-lists 5000

and docs/results/newton-paths.json has those of

    python experiments/newton_losses.py paths --methods bellman_ford fenchel_young --runs 5 \
        --variants regular hessian fisher --steps 120 --batch 24 --evaluate-every 60 --maps 200 \
        --precision bfloat16 --threads 1

as far as they were run, and of the same with --tikhonov 100 for bellman_ford with fisher and
--tikhonov 10 for fenchel_young with hessian, in two sets:

    python experiments/keep_results.py -o docs/results/newton-paths.json \
        --set "the default damping" runs/paths \
        --set "the damping chosen" runs/paths/*-regular-* runs/fisher-100 runs/hessian-10

and a third set of

    shared="--steps 120 --batch 24 --evaluate-every 60 --maps 200 --precision bfloat16 --threads 1"
    python experiments/newton_losses.py paths $shared --methods smoothing_loss --runs 5 \
        --variants regular -o runs/smoothing
    python experiments/newton_losses.py paths $shared --methods resgro --runs 5 -o runs/resgro
    python experiments/keep_results.py --add -o docs/results/newton-paths.json \
        --set "hard paths, their loss smoothed or the best of 10 samples taken" runs/smoothing \
        runs/resgro

docs/results/newton-classification.json has those of

    shared="--data data/mnist --threads 1 --evaluate-every 550"
    python experiments/newton_losses.py classification $shared --models M1 M2 M4 M5 --runs 3 \
        -o runs/epoch
    for rate in 0.3 0.5; do
        python experiments/newton_losses.py classification $shared --models M1 M2 M5 --runs 3 \
            --optimizers sgd --variants regular --rate $rate -o runs/rate-$rate
    done
    python experiments/newton_losses.py classification $shared --models M3 --runs 3 \
        --optimizers sgd --variants regular fisher -o runs/m3
    python experiments/keep_results.py -o docs/results/newton-classification.json \
        --set "a learning rate of 0.1 for SGD and of 0.001 for Adam" runs/epoch runs/m3 \
        --set "SGD at 0.3 for the plain loss, at 0.1 for Newton losses" runs/rate-0.3 \
        runs/epoch/M[125]-sgd-[hf]* \
        --set "SGD at 0.5 for the plain loss, at 0.1 for Newton losses" runs/rate-0.5 \
        runs/epoch/M[125]-sgd-[hf]*

docs/results/newton-directions.json is from

    python experiments/newton_directions.py --data data/mnist --threads 1 \
        -o docs/results/newton-directions.json
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import json
from collections.abc import Callable

from make_figures import DOCS, main, save_plot, write_block

from lab.pages import table as table_of
from lab.report.newton import entry, figure, summary, table

# The page of all tables.
PAGE = "results/newton.md"


def figure_newton() -> None:
    """Newton losses beside plain ones: sorting four-digit numbers."""
    text = (DOCS / "results" / "newton-sorting.json").read_text(encoding="utf-8")
    entries = [entry("sorting", one) for one in json.loads(text)["trainings"].values()]
    write_block(PAGE, "newton-sorting", table("sorting", entries))
    save_plot(figure(entries), "newton_sorting.png")


def block_of(task: str) -> None:
    """A table for each set of a file, under its name."""
    text = (DOCS / "results" / f"newton-{task}.json").read_text(encoding="utf-8")
    lines: list[str] = []
    caption = ""
    for title, trainings in json.loads(text)["trainings"].items():
        *rows, blank, caption = table(task, [entry(task, one) for one in trainings.values()])
        lines += [f"With {title}:", "", *rows, blank]
    write_block(PAGE, f"newton-{task}", [*lines, caption])


def figure_paths() -> None:
    """Newton losses and RESGRO beside plain losses: what terrain costs, from paths."""
    block_of("paths")


def figure_classification() -> None:
    """Newton losses beside plain ones: digits."""
    block_of("classification")


def figure_summary() -> None:
    """What Newton losses gain, for phones: the scores of plain losses, and the differences."""
    rows: list[list[str]] = []
    for task, chosen, words in (
        ("sorting", None, "sort"),
        ("paths", "the damping chosen", "paths"),
        ("classification", "SGD at 0.3 for the plain loss, at 0.1 for Newton losses", "MNIST"),
        ("classification", "a learning rate of 0.1 for SGD and of 0.001 for Adam", "MNIST"),
    ):
        text = (DOCS / "results" / f"newton-{task}.json").read_text(encoding="utf-8")
        trainings = json.loads(text)["trainings"]
        entries = [
            entry(task, one) for one in (trainings[chosen] if chosen else trainings).values()
        ]
        if words == "MNIST":  # SGD at a rate that was chosen for the plain loss, and Adam
            optimiser = "sgd" if chosen and chosen.startswith("SGD") else "adam"
            entries = [each for each in entries if each.case.endswith(optimiser)]
        rows += [[f"{words}: {case}", *cells] for case, *cells in summary(entries)]
    head = ["task", "plain loss, %", "Hessian", "Fisher"]
    write_block("optim.md", "newton-summary", table_of(head, rows, 1))


def figure_directions() -> None:
    """Newton steps beside gradients: their directions and lengths, and errors of Hessians."""
    text = (DOCS / "results" / "newton-directions.json").read_text(encoding="utf-8")
    rows = [
        [
            one["method"], str(one["step"]),
            f"{one['hessian_cosine']:.3f}", f"{one['hessian_length']:.4f}",
            f"{one['fisher_cosine']:.3f}", f"{one['fisher_length']:.4f}",
            f"{one['autograd']:.0e}", f"{one['differences']:.0e}",
        ]
        for one in json.loads(text)["rows"]
    ]  # fmt: skip
    head = ["method", "after steps", "Hessian: cosine", "length", "Fisher: cosine", "length"]
    head += ["autograd off", "differences off"]
    write_block(PAGE, "newton-directions", table_of(head, rows))


FIGURES: dict[str, Callable[[], None]] = {
    "summary": figure_summary,
    "directions": figure_directions,
    "newton": figure_newton,
    "paths": figure_paths,
    "classification": figure_classification,
}


if __name__ == "__main__":
    main(__doc__, FIGURES)
