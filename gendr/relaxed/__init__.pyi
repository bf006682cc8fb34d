from gendr.relaxed.algorithms.bubble_sort import BubbleSorted as BubbleSorted
from gendr.relaxed.algorithms.bubble_sort import bubble_sort as bubble_sort
from gendr.relaxed.algorithms.dynamic_time_warping import (
    dynamic_time_warping as dynamic_time_warping,
)
from gendr.relaxed.algorithms.dynamic_time_warping import warping_of_costs as warping_of_costs
from gendr.relaxed.algorithms.graph_path import GraphPath as GraphPath
from gendr.relaxed.algorithms.graph_path import shortest_path_graph as shortest_path_graph
from gendr.relaxed.algorithms.levenshtein import levenshtein as levenshtein
from gendr.relaxed.algorithms.shortest_path import ShortestPath as ShortestPath
from gendr.relaxed.algorithms.shortest_path import shortest_path as shortest_path
from gendr.relaxed.algorithms.soft_dtw import soft_dtw as soft_dtw
from gendr.relaxed.algorithms.soft_dtw import soft_dtw_alignment as soft_dtw_alignment
from gendr.relaxed.algorithms.soft_dtw import soft_dtw_barycenter as soft_dtw_barycenter
from gendr.relaxed.choices import absolute as abs
from gendr.relaxed.choices import argmax as argmax
from gendr.relaxed.choices import argmin as argmin
from gendr.relaxed.choices import maximum as max
from gendr.relaxed.choices import minimum as min
from gendr.relaxed.choices import total as sum
from gendr.relaxed.comparisons import all_ as all
from gendr.relaxed.comparisons import and_ as and_
from gendr.relaxed.comparisons import any_ as any
from gendr.relaxed.comparisons import contains as contains
from gendr.relaxed.comparisons import equal as equal
from gendr.relaxed.comparisons import greater as greater
from gendr.relaxed.comparisons import greater_equal as greater_equal
from gendr.relaxed.comparisons import less as less
from gendr.relaxed.comparisons import less_equal as less_equal
from gendr.relaxed.comparisons import not_ as not_
from gendr.relaxed.comparisons import not_equal as not_equal
from gendr.relaxed.comparisons import or_ as or_
from gendr.relaxed.comparisons import truth as truth
from gendr.relaxed.execution import Joint as Joint
from gendr.relaxed.execution import Sampled as Sampled
from gendr.relaxed.flow import cond as cond
from gendr.relaxed.flow import while_loop as while_loop
from gendr.relaxed.indexing import full as full
from gendr.relaxed.indexing import index as index
from gendr.relaxed.indexing import write as write
from gendr.relaxed.indexing import zeros as zeros
from gendr.relaxed.program import Categories as Categories
from gendr.relaxed.program import Category as Category
from gendr.relaxed.program import Matrix as Matrix
from gendr.relaxed.program import Program as Program
from gendr.relaxed.program import Scalar as Scalar
from gendr.relaxed.program import Vector as Vector
from gendr.relaxed.program import Volume as Volume
from gendr.relaxed.program import array as array
from gendr.relaxed.program import dense as dense
from gendr.relaxed.program import relax as relax
from gendr.relaxed.settings import smooth as smooth
from gendr.relaxed.settings import smoothing as smoothing
from gendr.relaxed.syntax import RelaxError as RelaxError
from gendr.relaxed.values import Array as Array
from gendr.relaxed.values import Categorical as Categorical

# Checkers take `a as b` for the stub's own, so what is renamed is listed besides.
__all__ = ["abs", "all", "any", "max", "min", "sum"]
