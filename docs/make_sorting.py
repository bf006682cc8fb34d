r"""Make the table and the picture of sorting networks in docs/sorting.md.

    python docs/make_sorting.py

docs/results/sorting-tables.json has the trainings, joined by experiments/keep_results.py, of

    shared="--data data/mnist --network digits --steps 2000 --evaluate-every 500 --lists 500"
    python experiments/sorting_tables.py $shared --threads 1 -n 5 --runs 2 -o runs/n5
    python experiments/sorting_tables.py $shared --threads 1 -n 5 --rows reciprocal \
        --factors 0.0625 0.125 0.5 2 4 -o runs/n5-reciprocal
    python experiments/keep_results.py runs/n5 runs/n5-reciprocal \
        -o docs/results/sorting-tables.json

as far as they were run. To go on from them, with more seeds or other lengths:

    python experiments/sorting_tables.py $shared --threads 1 -n 5 3 7 --runs 3 -o runs/more \
        --known docs/results/sorting-tables.json
    python experiments/keep_results.py --add runs/more -o docs/results/sorting-tables.json
"""

from __future__ import annotations

import json
from collections.abc import Callable

from make_figures import DOCS, main, save_plot, write_block

from gendr.experiments.report.ranking import figure, readings, table


def figure_tables() -> None:
    """Sorting networks with different laws, at equal steps."""
    text = (DOCS / "results" / "sorting-tables.json").read_text(encoding="utf-8")
    results = list(json.loads(text)["trainings"].values())
    write_block("sorting.md", "sorting-tables", table(results))
    write_block("sorting.md", "sorting-readings", readings(results))
    save_plot(figure(results), "sorting_tables.png")


FIGURES: dict[str, Callable[[], None]] = {"tables": figure_tables}


if __name__ == "__main__":
    main(__doc__, FIGURES)
