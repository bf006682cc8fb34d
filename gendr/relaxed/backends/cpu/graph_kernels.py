"""The compiled kernels of shortest paths through graphs, forward and backward.

Edges are sorted by the node in which they end, so that the candidates of a node are neighbours in
memory; the odds of all edges are computed in one loop or one call of the distribution. The backward
pass runs the sweeps again and keeps their distances. A unit of work is one set of costs, so that
any number of threads gives the same bits.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import math

import numpy as np

from gendr.kernels.numba.arrays import copy
from gendr.kernels.numba.calls import call_pdf, pointer
from gendr.kernels.numba.compilation import inner, kernel
from gendr.relaxed.backends.cpu.minimum import LARGE, Decision, odds_of, slope_of

_SAME = 4.5e-16  # sweeps that change no distance by more than this part of it change nothing
_GONE = 1e-20  # where less than this of the walk is, nothing is


@inner()
def _weigh(distance, cost, sources, starts, decision, ways, beyond, z, work, w, total, value):
    """Fill in weights w [E], totals and expected distances [V]; edges in order of their ends."""
    size, nodes = len(cost), len(starts) - 1
    for v in range(nodes):
        low = math.inf
        for e in range(starts[v], starts[v + 1]):
            ways[e] = distance[sources[e]] + cost[e]
            low = min(low, ways[e])
        for e in range(starts[v], starts[v + 1]):
            beyond[e] = ways[e] - low if ways[e] < math.inf else 0.0
    for e in range(size):
        z[e] = min(beyond[e] * decision.beta, LARGE)
    odds_of(z, size, decision.tails, decision.shape, work, w)
    for v in range(nodes):
        total[v] = 0.0
        for e in range(starts[v], starts[v + 1]):
            w[e] = w[e] if ways[e] < math.inf else 0.0
            total[v] += w[e]
        value[v] = math.inf
        if total[v] > 0.0:
            low, mean = 0.0, 0.0
            for e in range(starts[v], starts[v + 1]):
                w[e] /= total[v]
                mean += w[e] * beyond[e]
                low = ways[e] if beyond[e] == 0.0 and ways[e] < math.inf else low
            value[v] = low + mean


@inner()
def _walk(w, sources, starts, source, target, steps, position, by_node, by_edge):
    """Walk back; returns the number of positions. position [T + 2, V]; by_.. get 1 - the path."""
    nodes = len(starts) - 1
    position[0] = 0.0
    position[0, target] = 1.0
    by_node[:] = 1.0
    by_edge[:] = 1.0
    for t in range(steps + 1):
        here, there = position[t], position[t + 1]
        there[:] = 0.0
        there[source] = here[source]
        away = False
        for v in range(nodes):
            by_node[v] *= 1.0 - here[v]
            if v == source or here[v] == 0.0:
                continue
            away |= here[v] > _GONE
            for e in range(starts[v], starts[v + 1]):
                flow = here[v] * w[e]
                by_edge[e] *= 1.0 - flow
                there[sources[e]] += flow
        if not away:
            return t + 1
    return steps + 1


@inner()
def _sweeps(cost, sources, starts, source, decision, iterations, history, arrays, nodal):
    """Run the sweeps and return their number; history [T + 1, V] gets the distances."""
    value = nodal[1]
    history[0] = math.inf
    history[0, source] = 0.0
    for sweep in range(1, iterations + 1):
        before, after = history[sweep - 1], history[sweep]
        _weigh(before, cost, sources, starts, decision, arrays[0], arrays[1], arrays[2],
               arrays[3:5], arrays[5], nodal[0], value)  # fmt: skip
        copy(value, after)
        after[source] = 0.0
        same = True
        for v in range(len(after)):
            if after[v] != before[v]:
                same &= abs(after[v] - before[v]) <= _SAME * abs(after[v])
        if same:
            return sweep
    return iterations


@kernel()
def forward(
    costs, sources, starts, source, target, decision, iterations, by_node, by_edge, start, stop
):
    """Fill in by_node [B, V] and by_edge [B, E] for the costs start .. stop - 1."""
    decision = Decision(*decision)
    size, nodes = costs.shape[1], len(starts) - 1
    arrays, nodal = np.empty((6, size)), np.empty((2, nodes))
    history, position = np.empty((iterations + 1, nodes)), np.empty((iterations + 2, nodes))
    for b in range(start, stop):
        _sweeps(costs[b], sources, starts, source, decision, iterations, history, arrays, nodal)
        _walk(arrays[5], sources, starts, source, target, iterations, position, by_node[b],
              by_edge[b])  # fmt: skip
        for v in range(nodes):
            by_node[b, v] = 1.0 - by_node[b, v]
        for e in range(size):
            by_edge[b, e] = 1.0 - by_edge[b, e]


@kernel()
def backward(
    costs, sources, starts, source, target, decision, iterations, grad_node, grad_edge, by_costs,
    by_beta, start, stop,
):  # fmt: skip
    """Fill in the gradients by_costs [B, E] and by_beta [B] for the costs start .. stop - 1."""
    decision = Decision(*decision)
    size, nodes = costs.shape[1], len(starts) - 1
    arrays, nodal = np.empty((6, size)), np.empty((2, nodes))
    ways, beyond, z, work, w = arrays[0], arrays[1], arrays[2], arrays[3:5], arrays[5]
    total, value = nodal[0], nodal[1]
    history, position = np.empty((iterations + 1, nodes)), np.empty((iterations + 2, nodes))
    node_before, edge_before = np.empty((iterations + 1, nodes)), np.empty((iterations + 1, size))
    more, gw, pdf = np.empty((4, nodes)), np.empty(size), work[0]
    g, following, node_after, ahead = more[0], more[1], more[2], more[3]
    edge_after = np.empty(size)
    for b in range(start, stop):
        sweeps = _sweeps(
            costs[b], sources, starts, source, decision, iterations, history, arrays, nodal
        )
        steps = _walk(w, sources, starts, source, target, iterations, position, node_after,
                      edge_after)  # fmt: skip
        # The products of 1 - p over the positions before each.
        node_before[0] = 1.0
        edge_before[0] = 1.0
        for t in range(1, steps):
            here = position[t - 1]
            for v in range(nodes):
                node_before[t, v] = node_before[t - 1, v] * (1.0 - here[v])
                for e in range(starts[v], starts[v + 1]):
                    flow = here[v] * w[e] if v != source else 0.0
                    edge_before[t, e] = edge_before[t - 1, e] * (1.0 - flow)
        gw[:] = 0.0
        ahead[:] = 0.0
        node_after[:] = 1.0
        edge_after[:] = 1.0
        for t in range(steps - 1, -1, -1):
            here = position[t]
            for v in range(nodes):
                g[v] = grad_node[b, v] * node_before[t, v] * node_after[v]
                node_after[v] *= 1.0 - here[v]
                if v == source:
                    g[v] += ahead[v]
                    continue
                for e in range(starts[v], starts[v + 1]):
                    by_flow = grad_edge[b, e] * edge_before[t, e] * edge_after[e]
                    by_flow += ahead[sources[e]]
                    edge_after[e] *= 1.0 - here[v] * w[e]
                    g[v] += by_flow * w[e]
                    gw[e] += by_flow * here[v]
            copy(g, ahead)
        g[:] = 0.0
        by_costs[b] = 0.0
        by_beta[b] = 0.0
        for sweep in range(sweeps, 0, -1):
            _weigh(
                history[sweep - 1], costs[b], sources, starts, decision, ways, beyond, z, work, w,
                total, value,
            )  # fmt: skip
            if decision.density != 0:
                call_pdf(decision.density, pointer(z), size, decision.shape, pointer(pdf))
            following[:] = 0.0
            g[source] = 0.0
            for v in range(nodes):
                if total[v] == 0.0:
                    continue
                mean, expected = 0.0, 0.0
                for e in range(starts[v], starts[v + 1]):
                    mean += w[e] * gw[e]
                    expected += w[e] * beyond[e]
                moved, ties = 0.0, 0.0
                for e in range(starts[v], starts[v + 1]):
                    if not ways[e] < math.inf:
                        z[e] = 0.0
                        continue
                    slope = slope_of(w[e], total[v], pdf[e]) if decision.density != 0 else -w[e]
                    a = slope * (g[v] * (beyond[e] - expected) + gw[e] - mean)
                    by_beta[b] += a * beyond[e]
                    z[e] = g[v] * w[e] + decision.beta * a
                    moved += decision.beta * a
                    ties += 1.0 if beyond[e] == 0.0 else 0.0
                for e in range(starts[v], starts[v + 1]):
                    if beyond[e] == 0.0 and ways[e] < math.inf and decision.density != 0:
                        z[e] -= moved / ties
                    by_costs[b, e] += z[e]
                    following[sources[e]] += z[e]
            copy(following, g)
            gw[:] = 0.0
