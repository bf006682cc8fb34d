"""The distance of two time series under the best alignment."""

from math import inf

from gendr.relaxed import Vector, full, relax


@relax
def dynamic_time_warping(a: Vector, b: Vector):
    """The sum of squared differences along the best alignment.

    Args:
        a: [..., n].
        b: [..., m].

    Returns:
        The distance, and the table [..., n, m] of distances of all beginnings.
    """
    n, m = len(a), len(b)
    d = full(n + 1, m + 1, value=inf)
    d[0, 0] = 0.0
    for i in range(n):
        for j in range(m):
            cost = (a[i] - b[j]) ** 2
            d[i + 1, j + 1] = cost + min(d[i, j + 1], d[i + 1, j], d[i, j])
    return d[n, m], d[1:, 1:]
