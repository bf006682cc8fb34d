r"""Make the table and the picture of docs/optim.md from docs/results/newton-sorting.json.

    python docs/make_optim.py

That file has the trainings, joined by experiments/keep_results.py, of

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
"""

from __future__ import annotations

import json

from make_figures import DOCS, main, save_plot, write_block

from gendr.experiments.report.newton import entry, figure, table


def figure_newton() -> None:
    """Newton losses beside plain ones: sorting four-digit numbers."""
    text = (DOCS / "results" / "newton-sorting.json").read_text(encoding="utf-8")
    entries = [entry("sorting", one) for one in json.loads(text)["trainings"].values()]
    write_block("optim.md", "newton-sorting", table("sorting", entries))
    save_plot(figure(entries), "newton_sorting.png")


def figure_paths() -> None:
    """Newton losses beside plain ones: what terrain costs, from paths."""
    text = (DOCS / "results" / "newton-paths.json").read_text(encoding="utf-8")
    lines: list[str] = []
    for title, trainings in json.loads(text)["trainings"].items():
        *rows, blank, caption = table("paths", [entry("paths", one) for one in trainings.values()])
        lines += [f"With {title}:", "", *rows, blank]
    write_block("optim.md", "newton-paths", [*lines, caption])


if __name__ == "__main__":
    main(__doc__, {"newton": figure_newton, "paths": figure_paths})
