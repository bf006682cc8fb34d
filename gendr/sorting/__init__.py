"""Differentiable sorting and ranking: networks, NeuralSort, SoftSort, Sinkhorn, permutahedron.

>>> from gendr.sorting import soft_rank, soft_sort
>>> soft_sort(x, "odd_even", dist="cauchy", steepness=20.0)
"""

from gendr.sorting import losses
from gendr.sorting.api import (
    SoftPermutation,
    SoftQuantile,
    SoftRank,
    SoftSort,
    SoftSorter,
    Sorted,
    get,
    names,
    permutation,
    soft_quantile,
    soft_rank,
    soft_sort,
)
from gendr.sorting.base import PermutationSort, Sort
from gendr.sorting.networks import Network, bitonic, network, odd_even, odd_even_merge
from gendr.sorting.plot import draw
from gendr.sorting.properties import error_bound, is_monotonic
from gendr.sorting.ranking import (
    KendallLoss,
    LambdaLoss,
    ListMLE,
    MAPLoss,
    NDCGLoss,
    RankingLoss,
    SpearmanLoss,
)

__all__ = [
    "KendallLoss",
    "LambdaLoss",
    "ListMLE",
    "MAPLoss",
    "NDCGLoss",
    "Network",
    "PermutationSort",
    "RankingLoss",
    "SoftPermutation",
    "SoftQuantile",
    "SoftRank",
    "SoftSort",
    "SoftSorter",
    "Sort",
    "Sorted",
    "SpearmanLoss",
    "bitonic",
    "draw",
    "error_bound",
    "get",
    "is_monotonic",
    "losses",
    "names",
    "network",
    "odd_even",
    "odd_even_merge",
    "permutation",
    "soft_quantile",
    "soft_rank",
    "soft_sort",
]
