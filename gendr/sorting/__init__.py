"""Differentiable sorting and ranking: networks, NeuralSort, SoftSort, Sinkhorn, permutahedron.

>>> from gendr.sorting import soft_rank, soft_sort
>>> soft_sort(x, "odd_even", dist="cauchy", steepness=20.0)
"""

from gendr.sorting import losses, metrics
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
    soft_argquantile,
    soft_quantile,
    soft_rank,
    soft_sort,
)
from gendr.sorting.base import PermutationSort, Sort
from gendr.sorting.networks import Network, bitonic, network, odd_even, odd_even_merge
from gendr.sorting.plot import draw
from gendr.sorting.properties import error_bound, is_monotonic
from gendr.sorting.ranking import (
    ApproxNDCG,
    KendallLoss,
    LambdaLoss,
    ListMLE,
    ListNet,
    MAPLoss,
    MRRLoss,
    NDCGLoss,
    OrdinalLoss,
    RankingLoss,
    RankNet,
    SpearmanLoss,
)

__all__ = [
    "ApproxNDCG",
    "KendallLoss",
    "LambdaLoss",
    "ListMLE",
    "ListNet",
    "MAPLoss",
    "MRRLoss",
    "NDCGLoss",
    "Network",
    "OrdinalLoss",
    "PermutationSort",
    "RankNet",
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
    "metrics",
    "names",
    "network",
    "odd_even",
    "odd_even_merge",
    "permutation",
    "soft_argquantile",
    "soft_quantile",
    "soft_rank",
    "soft_sort",
]
