"""Relaxed programs: any simple algorithm, made differentiable.

A plain Python function is decorated with `@gendr.relax`. Called, it runs relaxed: each decision is
taken under noise, and the result is the expectation in closed form, so that gradients pass through
the decisions. `program.hard(...)` runs the same function as plain Python.

    @gendr.relax
    def thermostat(temperature, target, steps=10):
        for _ in range(steps):
            if temperature < target:
                temperature = temperature + 1.0
            else:
                temperature = temperature - 0.5
        return temperature

    thermostat(torch.tensor([15.0, 21.0]), 20.0, scale=0.3)

**Values.** A floating tensor is relaxed, a plain number is exact: comparisons of plain numbers are
Python's own, so that counters cost nothing. A number of a program is a tensor [*batch]; an array
knows its own dimensions, so that one text serves one item and a batch of any shape. Arguments are
arrays if the text indexes them, or if their hint says so (`x: Vector`). Arrays are values: writing
to one makes a new one.

**Decisions** (thesis, chapter 2). `a < b` is F((b - a) / scale), F the CDF of any law; `a == b` the
density over its peak; and / or / not a T-norm, its dual T-conorm, 1 - p. `if` is the convex
combination of what its branches change: nested branches are exact, and paths are merged behind each
block. `while` is the expected state over the number of iterations. `max`, `min`, `argmax` and
`argmin` go by the softmax. An array is read and written at a real-valued place by a kernel, at a
categorical one by its probabilities. A decision may have a name, `smooth("edge", a < b)`, and then
a scale and a law of its own.

**Two forms.** The decorator rewrites the text of the function to calls of the functions below
(`program.source` shows them), which can be used by themselves, in a block of `smoothing`. What
cannot be relaxed is refused when the function is decorated, with its line and the reason.

| module | holds |
|---|---|
| `settings` | scale, law, T-norm; `smoothing`, `smooth` |
| `values` | arrays, categorical values, the blend of two states |
| `comparisons`, `choices`, `indexing`, `flow` | the functional form |
| `syntax`, `rewrite` | what is refused, what is live; the rewriting |
| `execution` | paths merged, kept apart, or sampled |
| `slopes` | long gradients: bounded, and named by their lines |
| `program` | the decorator, arguments and results, calls |
| `compiled` | a program through `torch.compile` |
| `programs` | textbook algorithms in this language |
| `algorithms`, `backends` | the same algorithms as kernels, one or two orders faster |

Source: Petersen, Learning with Differentiable Algorithms (thesis), chapter 2.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from gendr.relaxed.algorithms.bubble_sort import BubbleSorted, bubble_sort
from gendr.relaxed.algorithms.dynamic_time_warping import dynamic_time_warping, warping_of_costs
from gendr.relaxed.algorithms.graph_path import GraphPath, edges_of_csr, shortest_path_graph
from gendr.relaxed.algorithms.levenshtein import levenshtein
from gendr.relaxed.algorithms.shortest_path import ShortestPath, shortest_path
from gendr.relaxed.algorithms.silhouette import silhouette
from gendr.relaxed.algorithms.soft_dtw import (
    soft_dtw,
    soft_dtw_alignment,
    soft_dtw_barycenter,
)
from gendr.relaxed.choices import absolute as abs
from gendr.relaxed.choices import argmax, argmin
from gendr.relaxed.choices import maximum as max
from gendr.relaxed.choices import minimum as min
from gendr.relaxed.choices import total as sum
from gendr.relaxed.comparisons import all_ as all
from gendr.relaxed.comparisons import (
    and_,
    contains,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    not_,
    not_equal,
    or_,
    truth,
)
from gendr.relaxed.comparisons import any_ as any
from gendr.relaxed.execution import Joint, Sampled
from gendr.relaxed.flow import cond, while_loop
from gendr.relaxed.indexing import full, index, write, zeros
from gendr.relaxed.program import (
    Categories,
    Category,
    Matrix,
    Program,
    Scalar,
    Vector,
    Volume,
    array,
    dense,
    relax,
)
from gendr.relaxed.settings import smooth, smoothing
from gendr.relaxed.syntax import RelaxError
from gendr.relaxed.values import Array, Categorical

__all__ = [
    "Array",
    "BubbleSorted",
    "Categorical",
    "Categories",
    "Category",
    "GraphPath",
    "Joint",
    "Matrix",
    "Program",
    "RelaxError",
    "Sampled",
    "Scalar",
    "ShortestPath",
    "Vector",
    "Volume",
    "abs",
    "all",
    "and_",
    "any",
    "argmax",
    "argmin",
    "array",
    "bubble_sort",
    "cond",
    "contains",
    "dense",
    "dynamic_time_warping",
    "edges_of_csr",
    "equal",
    "full",
    "greater",
    "greater_equal",
    "index",
    "less",
    "less_equal",
    "levenshtein",
    "max",
    "min",
    "not_",
    "not_equal",
    "or_",
    "relax",
    "shortest_path",
    "shortest_path_graph",
    "silhouette",
    "smooth",
    "smoothing",
    "soft_dtw",
    "soft_dtw_alignment",
    "soft_dtw_barycenter",
    "sum",
    "truth",
    "warping_of_costs",
    "while_loop",
    "write",
    "zeros",
]


def __getattr__(name: str) -> _Any:
    """The programs are loaded when they are asked for, because they are made by this package."""
    if name != "programs":
        raise AttributeError(f"module 'gendr.relaxed' has no attribute {name!r}")
    return _import_module("gendr.relaxed.programs")
