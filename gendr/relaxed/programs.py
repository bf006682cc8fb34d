"""Textbook algorithms as relaxed programs: to read, to change, and to compare the kernels with.

The functions of `gendr.relaxed` with the same names compute the same numbers, those with kernels
one or two orders faster.

Source: sections 2.3 (bubble sort), 2.4 (paths, by Bellman and Ford), 2.5 (silhouettes) and 2.6
(edit distance) of the thesis.
"""

from math import inf

from gendr.relaxed import (
    Categories,
    Matrix,
    Scalar,
    Vector,
    Volume,
    argmin,
    full,
    relax,
    zeros,
)

__all__ = [
    "bubble_sort",
    "decision_tree",
    "dynamic_time_warping",
    "levenshtein",
    "shortest_path",
    "silhouette",
]


@relax
def bubble_sort(x: Vector):
    """Sort by swapping neighbours until no swap is necessary.

    Args:
        x: [..., n].

    Returns:
        The values, ascending; the number of swaps; whether none was necessary.
    """
    swaps, ordered = 0, True
    last = len(x) - 1
    swapped = True
    while swapped:
        swapped = False
        for i in range(last):
            if x[i] > x[i + 1]:
                x[i], x[i + 1] = x[i + 1], x[i]
                swapped = True
                ordered = False
                swaps += 1
        last -= 1
    return x, swaps, ordered


@relax
def decision_tree(flower: Vector, thresholds: Vector):
    """The species of an iris, by the lengths and widths of its leaves.

    Args:
        flower: [..., 4], sepal length and width, petal length and width, in cm.
        thresholds: [..., 3], where to split: petal length, petal width, petal length; (2.5, 1.75,
            4.95) are those of a tree that was fitted by CART.

    Returns:
        A list of three [...], 1 for the species: setosa, versicolor, virginica.
    """
    length, width = flower[2], flower[3]
    if length < thresholds[0]:
        return [1.0, 0.0, 0.0]
    if width < thresholds[1]:
        if length < thresholds[2]:
            return [0.0, 1.0, 0.0]
        return [0.0, 0.0, 1.0]
    return [0.0, 0.0, 1.0]


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


@relax
def levenshtein(
    s: Categories,
    t: Categories,
    insertion: float = 1.0,
    deletion: float = 1.0,
    substitution: float = 1.0,
):
    """The cheapest way to edit s into t.

    Args:
        s: [..., n, letters], probabilities of letters; hard, any sequence.
        t: [..., m, letters].
        insertion: what it costs to insert a letter.
        deletion: to delete one.
        substitution: to replace one.

    Returns:
        The distance, and the table [..., n + 1, m + 1] of distances of all beginnings.
    """
    d = zeros(len(s) + 1, len(t) + 1)
    for i in range(len(s)):
        d[i + 1, 0] = d[i, 0] + deletion
    for j in range(len(t)):
        d[0, j + 1] = d[0, j] + insertion
    for i in range(len(s)):
        for j in range(len(t)):
            replaced = 0.0 if s[i] == t[j] else substitution
            d[i + 1, j + 1] = min(
                d[i, j + 1] + deletion, d[i + 1, j] + insertion, d[i, j] + replaced
            )
    return d[len(s), len(t)], d


@relax
def shortest_path(costs: Matrix, neighbourhood: int = 8, iterations: int | None = None):
    """The cheapest path from the first cell of a grid to the last.

    Args:
        costs: [..., H, W], what it costs to enter a cell.
        neighbourhood: 8, or 4 without diagonal steps.
        iterations: sweeps; by default as many as are always enough.

    Returns:
        [..., H, W], 1 for cells of the path. Writing at a soft place blends, so that the positions
        of the walk are joined by a + b - a b, whatever the T-norm.
    """
    height, width = costs.shape
    cells = [(i, j) for i in range(height) for j in range(width)]
    nodes = range(len(cells))
    near = [[v for v in nodes if touch(cells[u], cells[v], neighbourhood)] for u in nodes]
    sweeps = len(cells) - 1 if iterations is None else iterations

    distance = [0.0 if v == 0 else inf for v in nodes]
    came_from = [0 for _ in nodes]
    for _ in range(sweeps):
        before = distance.copy()
        for v in range(1, len(cells)):
            options = [before[u] if u in near[v] else inf for u in nodes]
            came_from[v] = argmin(options)
            best = options[came_from[v]]
            distance[v] = costs[cells[v]] + best if best < inf else inf

    path = zeros(len(cells))
    here = len(cells) - 1
    for _ in range(sweeps + 1):
        path[here] = 1.0
        here = came_from[here]
    return path.reshape(height, width)


def touch(a: tuple[int, int], b: tuple[int, int], neighbourhood: int):
    """Whether two cells are neighbours."""
    rows, columns = abs(a[0] - b[0]), abs(a[1] - b[1])
    apart = max(rows, columns) if neighbourhood == 8 else rows + columns
    return apart == 1


@relax
def silhouette(triangles: Volume, x: Scalar, y: Scalar):
    """Whether a pixel lies inside one of some triangles.

    Args:
        triangles: [..., F, 3, 2], corners in counterclockwise order.
        x: [...], where the centre of the pixel is; a grid of pixels is a batch.
        y: the same, upwards.

    Returns:
        1 inside, 0 outside.
    """
    image = 0.0
    for a, b, c in triangles:
        if beyond(a, b, x, y) > 0:
            if beyond(b, c, x, y) > 0:
                if beyond(c, a, x, y) > 0:
                    image = 1.0
    return image


def beyond(p: Vector, q: Vector, x: Scalar, y: Scalar):
    """The signed distance to the line from p to q, positive on its left."""
    dx, dy = q[0] - p[0], q[1] - p[1]
    return (dx * (y - p[1]) - dy * (x - p[0])) / (dx * dx + dy * dy) ** 0.5
