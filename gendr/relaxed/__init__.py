"""Relaxed programs: algorithms whose decisions are soft, so that they have gradients."""

from gendr.relaxed.algorithms import (
    BubbleSorted,
    bubble_sort,
    dynamic_time_warping,
    levenshtein,
    shortest_path,
    warping_of_costs,
)

__all__ = [
    "BubbleSorted",
    "bubble_sort",
    "dynamic_time_warping",
    "levenshtein",
    "shortest_path",
    "warping_of_costs",
]
