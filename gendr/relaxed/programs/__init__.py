"""Textbook algorithms as relaxed programs: to read, to change, and to compare the kernels with.

The functions of `gendr.relaxed` with the same names compute the same numbers, those with kernels
one or two orders faster.
"""

from gendr.relaxed.programs.bubble_sort import bubble_sort
from gendr.relaxed.programs.decision_tree import decision_tree
from gendr.relaxed.programs.dynamic_time_warping import dynamic_time_warping
from gendr.relaxed.programs.levenshtein import levenshtein
from gendr.relaxed.programs.shortest_path import shortest_path
from gendr.relaxed.programs.silhouette import silhouette

__all__ = [
    "bubble_sort",
    "decision_tree",
    "dynamic_time_warping",
    "levenshtein",
    "shortest_path",
    "silhouette",
]
