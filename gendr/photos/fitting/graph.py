"""The graph of a surface as sparse matrices of SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["adjacency", "factorised", "laplacian"]


def adjacency(edges: NDArray[Any], count: int, dtype: Any = np.float64) -> Any:
    """The sparse matrix [count, count] with a 1 for each of the edges [E, 2], both ways."""
    from scipy.sparse import coo_matrix

    ones = np.ones(len(edges), dtype)
    one_way = coo_matrix((ones, tuple(edges.T)), shape=(count, count))
    return (one_way + one_way.T).tocsr()


def laplacian(edges: NDArray[Any], count: int, dtype: Any = np.float64) -> Any:
    """The sparse L of a graph: x^T L x is the sum over edges [E, 2] of squared differences."""
    from scipy.sparse import diags

    near = adjacency(edges, count, dtype)
    return diags(np.asarray(near.sum(1)).ravel()) - near


def factorised(matrix: Any) -> Any:
    """The factors of a symmetric matrix, with a method `solve`."""
    from scipy.sparse.linalg import splu

    return splu(matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
