"""Ready-made relaxed algorithms: one file each, with its mathematics and its torch code."""

from gendr.relaxed.algorithms.bubble_sort import BubbleSorted, bubble_sort
from gendr.relaxed.algorithms.dynamic_time_warping import (
    dynamic_time_warping,
    warping_of_costs,
)
from gendr.relaxed.algorithms.levenshtein import levenshtein
from gendr.relaxed.algorithms.shortest_path import shortest_path

__all__ = [
    "BubbleSorted",
    "bubble_sort",
    "dynamic_time_warping",
    "levenshtein",
    "shortest_path",
    "warping_of_costs",
]
