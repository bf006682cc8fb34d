"""How the pages write renderers and numbers: names, counts of names, correlations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gendr import distributions
from gendr.tnorms import tconorm
from lab.report.details import TWICE
from lab.report.summary import label

# What quality is in each task.
UNITS = {"shape": "mean hard IoU", "pose": "fraction of poses found"}


def short(text: str, *, conorm: bool = False) -> str:
    """A distribution or T-conorm as figures write it."""
    return label(tconorm(text) if conorm else distributions.get(text))


def all_names(conorm: str) -> str:
    """A T-conorm as figures write it, with its other name if it has two."""
    same = [name for name, other in TWICE.items() if other == conorm]
    return " = ".join(short(name, conorm=True) for name in (conorm, *same))


def most(names: Sequence[str], count: int) -> str:
    """The names that come most often, at least `count` of them, with their numbers.

    Those that come as often as the last of them are there too.
    """
    counts = Counter(names).most_common()
    least = counts[min(count, len(counts)) - 1][1]
    return ", ".join(f"{name} {times}" for name, times in counts if times >= least)


def with_error(value: float, error: float) -> str:
    """A number and its error, with two digits and a minus sign that is as long as a plus sign."""
    return f"{value:.2f} ± {error:.2f}".replace("-", "−")
