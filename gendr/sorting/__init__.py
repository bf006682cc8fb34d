"""Differentiable sorting and ranking: networks, NeuralSort, SoftSort, Sinkhorn, permutahedron.

>>> from gendr.sorting import soft_rank, soft_sort
>>> soft_sort(x, "odd_even", dist="cauchy", steepness=20.0)
"""

from gendr._common.names import lazily

__getattr__, __dir__, __all__ = lazily(globals())
