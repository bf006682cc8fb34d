"""Ready-made relaxed algorithms: one file each, with its mathematics and its torch code."""

from gendr.relaxed.algorithms.bubble_sort import BubbleSorted, bubble_sort
from gendr.relaxed.algorithms.dynamic_time_warping import (
    dynamic_time_warping,
    warping_of_costs,
)
from gendr.relaxed.algorithms.graph_path import GraphPath, edges_of_csr, shortest_path_graph
from gendr.relaxed.algorithms.levenshtein import levenshtein
from gendr.relaxed.algorithms.shortest_path import shortest_path
from gendr.relaxed.algorithms.silhouette import silhouette

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
