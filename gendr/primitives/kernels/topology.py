"""Which triangles share edges, by two passes of counting: linear in their number."""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gendr.kernels.numba.compilation import inner, kernel

__all__ = ["crossings", "linked"]


def linked(tri: Tensor) -> Tensor:
    """See `TopologyHash.uses`."""
    with torch.inference_mode(False):  # `cached` keeps nothing with tensors of that mode
        uses = torch.empty(3 * len(tri), dtype=torch.int32, device="cpu")
    if len(tri):
        link(tri.numpy(), int(tri.max()) + 1, uses.numpy())
    return uses


def crossings(tri: Tensor, uses: Tensor) -> Tensor:
    """What lies on both sides of every edge, [E, 2] int32: a half-edge, and what is beyond it.

    That is u + 1 for the triangle u, -1 - u if it turns the other way round, and 0 where there is
    none, or more than one.
    """
    found = torch.empty(3 * len(tri), 2, dtype=torch.int32, device="cpu")
    count = cross_over(tri.numpy(), uses.numpy(), found.numpy())
    return found[:count].clone()


@kernel()
def cross_over(tri, uses, found):
    """Write what lies on both sides of edges; returns how many there are."""
    count = 0
    for h in range(len(uses)):
        use = np.int64(uses[h])
        if use < h:  # around an edge they rise once at least
            continue
        beyond = 0
        if use != h and uses[use] == h:
            beyond = use // 3 + 1
            if tri[use // 3, (use + 1) % 3] == tri[h // 3, (h + 1) % 3]:
                beyond = -beyond
        found[count, 0], found[count, 1] = h, beyond
        count += 1
    return count


@kernel()
def link(tri, vertices, uses):
    """Link the half-edges of each edge in a circle."""
    count = 3 * len(tri)
    order, sorted_by_high = np.empty(count, np.int32), np.empty(count, np.int32)
    for turn in range(2):  # by the higher vertex, then stably by the lower one
        places = np.zeros(vertices + 1, np.int32)
        for h in range(count):
            places[end(tri, h, turn == 0) + 1] += 1
        for v in range(vertices):
            places[v + 1] += places[v]
        for k in range(count):
            h = k if turn == 0 else sorted_by_high[k]
            v = end(tri, h, turn == 0)
            if turn == 0:
                sorted_by_high[places[v]] = h
            else:
                order[places[v]] = h
            places[v] += 1
    start = 0
    while start < count:
        h = order[start]
        low, high = end(tri, h, False), end(tri, h, True)
        stop = start + 1
        while (
            stop < count
            and low != high
            and end(tri, order[stop], False) == low
            and end(tri, order[stop], True) == high
        ):
            stop += 1
        for k in range(start, stop):
            uses[order[k]] = order[k + 1] if k + 1 < stop else h
        start = stop


@inner()
def end(tri, h, higher):
    """The lower or the higher vertex of a half-edge."""
    t, k = h // 3, h % 3
    a, b = tri[t, (k + 1) % 3], tri[t, (k + 2) % 3]
    return max(a, b) if higher else min(a, b)
