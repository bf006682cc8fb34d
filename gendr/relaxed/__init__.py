"""Relaxed programs: algorithms whose decisions are soft, so that they have gradients."""

from gendr.relaxed.algorithms import (
    BubbleSorted,
    GraphPath,
    bubble_sort,
    dynamic_time_warping,
    edges_of_csr,
    levenshtein,
    shortest_path,
    shortest_path_graph,
    silhouette,
    warping_of_costs,
)

__all__ = [
    "BubbleSorted",
    "GraphPath",
    "bubble_sort",
    "dynamic_time_warping",
    "edges_of_csr",
    "levenshtein",
    "shortest_path",
    "shortest_path_graph",
    "silhouette",
    "warping_of_costs",
]
