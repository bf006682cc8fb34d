r"""Make the tables and the picture of docs/results/sorting.md.

    python docs/make_sorting.py

docs/results/sorting-tables.json has the trainings, joined by experiments/keep_results.py, of

    shared="--data data/mnist --network digits --steps 2000 --evaluate-every 500 --lists 500"
    python experiments/sorting_tables.py $shared --threads 1 -n 5 --runs 5 -o runs/n5
    python experiments/sorting_tables.py $shared --threads 1 -n 5 --rows reciprocal \
        --factors 0.0625 0.125 0.5 2 4 --runs 2 -o runs/n5-reciprocal
    python experiments/sorting_tables.py $shared --threads 1 -n 3 7 --runs 5 -o runs/n3-n7
    shared="--data data/mnist --network digits --steps 10000 --evaluate-every 1000 --lists 500"
    python experiments/sorting_tables.py $shared --threads 1 -n 5 --runs 2 -o runs/longer
    python experiments/keep_results.py runs/n5 runs/n5-reciprocal runs/n3-n7 runs/longer \
        -o docs/results/sorting-tables.json

as far as they were run. To go on from them, with more seeds or other lengths:

    python experiments/sorting_tables.py $shared --threads 1 -n 3 5 7 --runs 10 -o runs/more \
        --known docs/results/sorting-tables.json
    python experiments/keep_results.py --add runs/more -o docs/results/sorting-tables.json

docs/results/learning-to-rank.json joins results.json, without what was chosen, of

    python experiments/learning_to_rank.py --data data/learning_to_rank --threads 1 --losses NAME

for the losses that were run.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import json
from collections.abc import Callable

import learning_to_rank
import torch
from make_figures import DOCS, main, save_plot, write_block

from gendr.sorting import soft_sort
from lab.pages import table as table_of
from lab.report.ranking import figure, readings, table

# The rows of Table 3.2: what it calls them, our method and its settings.
OPERATORS = (
    ("NeuralSort", "neuralsort", {}),
    ("SoftSort", "softsort", {}),
    ("SinkhornSort", "sinkhorn", {}),
    ("FastSort", "permutahedron", {}),
    ("sorting network, logistic", "odd_even", {"dist": "logistic"}),
    ("with art", "odd_even", {"dist": "logistic", "art": 0.25}),
    ("reciprocal", "odd_even", {"dist": "reciprocal"}),
    ("cauchy", "odd_even", {"dist": "cauchy"}),
    ("optimal", "odd_even", {"dist": "optimal"}),
)


def figure_operators() -> None:
    """Table 3.2: the smaller of x and 0 by each method, at steepness 1."""
    near = torch.linspace(-5, 5, 10_001, dtype=torch.float64)
    far = torch.tensor([1e2, 1e4], dtype=torch.float64)

    def soft_minimum(x: torch.Tensor, method: str, settings: dict) -> torch.Tensor:
        pairs = torch.stack([x, torch.zeros_like(x)], -1)
        return soft_sort(pairs, method, steepness=1.0, **settings)[..., 0]

    rows = []
    for name, method, settings in OPERATORS:
        values = soft_minimum(near, method, settings)
        error = soft_minimum(far, method, settings)  # of 0
        # Sinkhorn's iterations end at a tolerance.
        rises = bool((values.diff() > -1e-7).all())
        largest = float((values - near.clamp(max=0)).abs().max().maximum(error.abs().max()))
        bounded = float(error[1].abs()) < 2 * float(error[0].abs()) + 1e-3
        rows.append([name, "yes" if rises else "no", f"{largest:.3f}" if bounded else "unbounded"])
    head = ["of x and 0", "monotonic", "largest error at steepness 1"]
    write_block("results/sorting.md", "sorting-operators", table_of(head, rows))


def figure_tables() -> None:
    """Sorting networks with different distributions, at equal steps."""
    text = (DOCS / "results" / "sorting-tables.json").read_text(encoding="utf-8")
    results = list(json.loads(text)["trainings"].values())
    write_block("results/sorting.md", "sorting-tables", table(results))
    write_block("results/sorting.md", "sorting-readings", readings(results))
    save_plot(figure(results), "sorting_tables.png")


def figure_learning_to_rank() -> None:
    """Losses of rankings on the queries of LightGBM's example."""
    text = (DOCS / "results" / "learning-to-rank.json").read_text(encoding="utf-8")
    found = json.loads(text)
    settings, queries = found["settings"], found["queries"]
    runs = len(next(iter(found["results"].values())))
    caption = (
        f"Test metrics in percent, means ± standard deviations of {runs} seeds: perceptrons of "
        f"{settings['width']} hidden units, {settings['steps']} steps of {settings['batch']} "
        f"queries; {queries['training']} queries to train, {queries['validation']} to choose the "
        f"step and the steepness, {queries['test']} to test. For MAP, grades of 2 and more are "
        "relevant."
    )
    lines = [*learning_to_rank.rows(found["results"]), "", caption]
    write_block("results/sorting.md", "sorting-learning-to-rank", lines)


FIGURES: dict[str, Callable[[], None]] = {
    "operators": figure_operators,
    "tables": figure_tables,
    "learning_to_rank": figure_learning_to_rank,
}


if __name__ == "__main__":
    main(__doc__, FIGURES)
