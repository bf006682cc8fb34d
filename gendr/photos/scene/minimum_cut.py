"""The minimum cut of a graph in which every node has at most four neighbours, such as tetrahedra.

The method of Boykov and Kolmogorov grows two trees, from the source and from the sink, until they
meet; the path between them is saturated, which breaks edges of the trees; their orphans look for
new parents. It is quick where most paths are short, as those between tetrahedra before and behind a
surface are. Capacities are integers: the flow is exact, and the same on every machine.

Source: Boykov & Kolmogorov, An Experimental Comparison of Min-Cut/Max-Flow Algorithms for Energy
Minimization in Vision, PAMI 26 (2004), section 3.2; ages and distances of trees as in Kolmogorov's
thesis (2003), section 2.3.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false, reportIndexIssue=false

from __future__ import annotations

import numpy as np

from gendr.kernels.numba.compilation import inner, kernel

__all__ = ["minimum_cut"]

FREE, SOURCE, SINK = 0, 1, 2
_NONE, _TERMINAL, _ORPHAN = -1, -2, -3
_FAR = 1 << 30


def minimum_cut(
    beside: np.ndarray, twin: np.ndarray, capacity: np.ndarray, terminal: np.ndarray
) -> tuple[np.ndarray, int]:
    """Which nodes stay with the source when the cheapest edges are cut.

    Args:
        beside: [N, 4] int32, the neighbours of a node; -1 where there is none.
        twin: [N, 4] int32, the edge back: 4 × neighbour + its place there.
        capacity: [N, 4] int32 >= 0, of the edge to each neighbour; becomes what is left of it.
        terminal: [N] int64, the capacity from the source less that to the sink.

    Returns:
        [N] bool, True on the side of the source; nodes that neither reaches are False.
        The flow, beside what goes from the source to the sink through a single node.
    """
    n = len(beside)
    tree = np.zeros(n, np.int8)
    flow = _cut(
        beside.reshape(-1), twin.reshape(-1), capacity.reshape(-1), terminal.copy(), tree,
        np.full(n, _NONE, np.int32), np.zeros(n, np.int32), np.zeros(n, np.int32),
        np.full(n, _NONE, np.int32), np.empty(n, np.int32),
    )  # fmt: skip
    return tree == SOURCE, int(flow)


@inner()
def _origin(p, parent, beside, stamp, distance, time):
    """How far a node is from the terminal of its tree; `_FAR` if an orphan is on the way.

    What is found is kept in `stamp` and `distance` for this `time`.
    """
    q, steps = p, 0
    while True:
        if stamp[q] == time:
            steps += distance[q]
            break
        edge = parent[q]
        steps += 1
        if edge == _TERMINAL:
            stamp[q], distance[q] = time, 1
            break
        if edge < 0:  # an orphan, or a node that has left
            return _FAR
        q = beside[edge]
    q, left = p, steps
    while stamp[q] != time:
        stamp[q], distance[q] = time, left
        left -= 1
        q = beside[parent[q]]
    return steps


@inner()
def _activate(p, queue, next_active):
    """Put a node at the end of the list of active ones, unless it is in it.

    `queue` holds the first and the last; next_active is the next one, the node itself at the end.
    """
    if next_active[p] != _NONE:
        return
    if queue[1] < 0:
        queue[0] = p
    else:
        next_active[queue[1]] = p
    queue[1] = p
    next_active[p] = p


@inner()
def _towards(edge, side, twin):
    """The edge by which flow runs if `edge` leads from a node to its parent in a tree."""
    return twin[edge] if side == SOURCE else edge


@inner()
def _least(q, side, beside, twin, capacity, terminal, parent):
    """The least capacity from a node to the terminal of its tree."""
    least = np.int64(1) << 62
    while parent[q] != _TERMINAL:
        least = min(least, np.int64(capacity[_towards(parent[q], side, twin)]))
        q = beside[parent[q]]
    return min(least, abs(terminal[q]))


@inner()
def _saturate(q, side, flow, beside, twin, capacity, terminal, parent, orphans, count):
    """Send flow from a node to its terminal, or back; returns how many orphans there are."""
    while True:
        edge = parent[q]
        if edge == _TERMINAL:
            terminal[q] -= flow if side == SOURCE else -flow
            left = abs(terminal[q])
        else:
            used = _towards(edge, side, twin)
            capacity[used] -= flow
            capacity[twin[used]] += flow
            left = np.int64(capacity[used])
        if left == 0:
            parent[q] = _ORPHAN
            orphans[count] = q
            count += 1
        if edge == _TERMINAL:
            return count
        q = beside[edge]


@kernel()
def _cut(
    beside, twin, capacity, terminal, tree, parent, stamp, distance, next_active, orphans
):  # fmt: skip
    queue = np.full(2, -1, np.int64)
    for p in range(len(tree)):
        if terminal[p] != 0:
            tree[p] = SOURCE if terminal[p] > 0 else SINK
            parent[p], distance[p] = _TERMINAL, 1
            _activate(p, queue, next_active)
    flow, time, current = np.int64(0), 0, -1
    while True:
        if current < 0 or tree[current] == FREE:
            current = -1
            while queue[0] >= 0 and current < 0:
                p = queue[0]
                queue[0] = -1 if next_active[p] == p else next_active[p]
                if queue[0] < 0:
                    queue[1] = -1
                next_active[p] = _NONE
                if tree[p] != FREE:
                    current = p
            if current < 0:
                return flow
        # Growth: until the tree of `current` meets the other one.
        p, bridge = current, -1
        side = tree[p]
        for edge in range(4 * p, 4 * p + 4):
            q = beside[edge]
            if q < 0 or capacity[_towards(twin[edge], side, twin)] == 0:
                continue
            if tree[q] == FREE:
                tree[q], parent[q] = side, twin[edge]
                stamp[q], distance[q] = stamp[p], distance[p] + 1
                _activate(q, queue, next_active)
            elif tree[q] != side:
                bridge = edge if side == SOURCE else twin[edge]
                break
            elif stamp[q] <= stamp[p] and distance[q] > distance[p] + 1 and parent[q] >= 0:
                parent[q] = twin[edge]
                stamp[q], distance[q] = stamp[p], distance[p] + 1
        time += 1
        if bridge < 0:
            current = -1
            continue
        # Augmentation: the least capacity of the path, from the source to the sink.
        start, end = beside[twin[bridge]], beside[bridge]
        least = min(
            np.int64(capacity[bridge]),
            _least(start, SOURCE, beside, twin, capacity, terminal, parent),
            _least(end, SINK, beside, twin, capacity, terminal, parent),
        )
        flow += least
        capacity[bridge] -= least
        capacity[twin[bridge]] += least
        count = _saturate(
            start, SOURCE, least, beside, twin, capacity, terminal, parent, orphans, 0
        )
        count = _saturate(
            end, SINK, least, beside, twin, capacity, terminal, parent, orphans, count
        )
        # Adoption: orphans look for a parent that is connected to their terminal.
        while count > 0:
            count -= 1
            p = orphans[count]
            side = tree[p]
            best, found = _FAR, _NONE
            for edge in range(4 * p, 4 * p + 4):
                q = beside[edge]
                if q < 0 or tree[q] != side or capacity[_towards(edge, side, twin)] == 0:
                    continue
                steps = _origin(q, parent, beside, stamp, distance, time)
                if steps < best:
                    best, found = steps, edge
            if found >= 0:
                parent[p] = found
                stamp[p], distance[p] = time, best + 1
                continue
            for edge in range(4 * p, 4 * p + 4):
                q = beside[edge]
                if q < 0 or tree[q] != side:
                    continue
                if capacity[_towards(edge, side, twin)] > 0:
                    _activate(q, queue, next_active)
                if parent[q] == twin[edge]:
                    parent[q] = _ORPHAN
                    orphans[count] = q
                    count += 1
            tree[p], parent[p] = FREE, _NONE
