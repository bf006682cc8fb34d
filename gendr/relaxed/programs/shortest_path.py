"""The shortest path through a grid by Bellman and Ford, thesis section 2.4."""

from __future__ import annotations

from math import inf

from gendr.relaxed import Matrix, argmin, relax, zeros


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
