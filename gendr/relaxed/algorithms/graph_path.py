"""The shortest path through any graph: relaxed Bellman-Ford over a list of edges.

Edges e = (u, v) with costs c(e), directed. With in(v) the edges that end in v,

    d(v) = 0 at the source, else inf                    # T sweeps, all nodes at once:
    w = arg min weights over d(u) + c(e), e in in(v)
    d(v) = sum_e w(e) (d(u) + c(e));   d(source) = 0
    p = 1 at the target, else 0                         # then T + 1 positions of a walk back:
    nodes(v) = nodes(v) or p(v);   edges(e) = edges(e) or p(v) w(e)
    p(u) = sum_e p(v) w(e)

The weights are those of `minimum`, and "or" is a + b - a b. The walk stays at the source. A grid
with costs of cells is the graph whose edges cost what the cell costs in which they end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from gendr._common.checks import (
    check_count,
    check_device,
    check_finite,
    check_float,
    check_index,
    check_integer,
    shape_text,
)
from gendr._common.tracing import in_single, is_traced
from gendr._common.words import worded
from gendr.distributions import Distribution
from gendr.distributions.decisions import Number, check_steepness
from gendr.distributions.registry import DistributionLike
from gendr.kernels.operator import Operator
from gendr.relaxed.algorithms.minimum import odds_of
from gendr.relaxed.algorithms.shortest_path import GONE
from gendr.relaxed.backends.choice import computed, shaped
from gendr.relaxed.backends.distributions import KernelDistribution, check_distribution, for_kernels


class GraphPath(NamedTuple):
    """The result of `shortest_path_graph`.

    Attributes:
        nodes: [..., V] in [0, 1], which nodes the path visits.
        edges: [..., E] in [0, 1], which edges it takes.
    """

    nodes: Tensor
    edges: Tensor


@dataclass(frozen=True, eq=False)
class GraphTask:
    """What is asked about costs of the edges of a graph, sorted by the node in which they end.

    Attributes:
        dist: checked by `check_distribution`.
        kernel_dist: the same for kernels, None if there can be none.
        sources: [E] int64, the node in which an edge begins.
        targets: [E] int64, the node in which it ends.
        starts: [V + 1] int64, where the edges of a node begin.
        nodes: V.
        source: the first node of the path.
        target: its last node.
        iterations: T.
    """

    dist: Distribution
    kernel_dist: KernelDistribution | None
    sources: Tensor
    targets: Tensor
    starts: Tensor
    nodes: int
    source: int
    target: int
    iterations: int


@worded()
@in_single
def shortest_path_graph(
    edges: Tensor,
    costs: Tensor,
    source: int,
    target: int,
    dist: DistributionLike = "logistic",
    steepness: Number = 10.0,
    iterations: int | None = None,
    *,
    nodes: int | None = None,
    check: bool = True,
    backend: str = "auto",
) -> GraphPath:
    """The cheapest path from one node of a directed graph to another, as soft indicators.

    >>> path = shortest_path_graph(edges, costs, 0, 5)      # edges [E, 2], costs [..., E]

    Args:
        edges: [E, 2] integers, (from, to). An edge that can be taken both ways is two edges.
        costs: [..., E], of the edges; they should be positive. Around a cycle of negative costs no
            path is the cheapest, and the result is what `iterations` sweeps give.
        source: the first node.
        target: the last node.
        dist: the distribution of the comparisons, symmetric; "heaviside" gives the hard path.
        steepness: 1 / scale of the distribution; a number, or a tensor of one, through which
            gradients flow.
        iterations: sweeps, and steps of the walk back; by default V - 1, which is always enough.
            Loops end as soon as nothing changes any more.
        nodes: V, by default one more than the largest number among the edges.
        check: look for NaN and inf.
        backend: "auto", "cpu" or "reference".

    Raises:
        TypeError: tensors or settings of the wrong type.
        ValueError: a bad shape, NaN or inf, a node that there is not, no way from source to target
            within the iterations, or a distribution that is not symmetric.
    """
    edges, costs = check_integer("edges", edges), check_float("costs", costs)
    check_device("edges", edges, "costs", costs)
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise ValueError(f"edges must have shape [E, 2], got {shape_text(edges.shape)}")
    if costs.ndim == 0 or costs.shape[-1] != len(edges):
        raise ValueError(
            f"costs must have shape [..., E] with E = {len(edges)}, got {shape_text(costs.shape)}"
        )
    if check:
        check_finite("costs", costs)
    dist, steepness = check_distribution(dist), check_steepness(steepness)
    least = 1 + max(source, target, int(edges.max()) if len(edges) else 0)
    nodes = least if nodes is None else check_count("nodes", nodes)
    check_index("edges", edges, nodes, "nodes")
    for name, node in (("source", source), ("target", target)):
        check_count(name, node, least=0)
        if node >= nodes:
            raise ValueError(f"{name} must be one of the nodes 0 .. {nodes - 1}, got {node}")
    iterations = nodes - 1 if iterations is None else check_count("iterations", iterations, least=0)
    order = torch.argsort(edges[:, 1], stable=True)
    task = task_of(dist, edges[order], nodes, source, target, iterations)
    batch = costs.shape[:-1]
    flat = shaped(costs, (math.prod(batch), costs.shape[-1]))[:, order]
    by_node, by_edge = computed(_SHORTEST_PATH_GRAPH, backend, task, flat, steepness=steepness)
    by_edge = by_edge[:, torch.argsort(order)]
    return GraphPath(shaped(by_node, (*batch, nodes)), shaped(by_edge, costs.shape))


def task_of(
    dist: Distribution, edges: Tensor, nodes: int, source: int, target: int, iterations: int
) -> GraphTask:
    """The task for edges sorted by their ends, if the target can be reached in so many steps."""
    sources, targets = edges.unbind(1)
    reached = torch.zeros(nodes, dtype=torch.bool, device=edges.device)
    reached[source] = True
    steps = 0
    while not bool(reached[target]):
        before = int(reached.sum())
        following = reached.clone()
        following[targets[reached[sources]]] = True
        reached = following
        if int(reached.sum()) == before:
            raise ValueError(f"there is no way from node {source} to node {target}")
        steps += 1
    if iterations < steps:
        raise ValueError(
            f"iterations must be at least {steps} to come from node {source} to node {target}, "
            f"got {iterations}"
        )
    starts = torch.zeros(nodes + 1, dtype=torch.int64, device=edges.device)
    starts[1:] = torch.bincount(targets, minlength=nodes).cumsum(0)
    return GraphTask(
        dist, for_kernels(dist), sources.contiguous(), targets.contiguous(), starts, nodes, source,
        target, iterations,
    )  # fmt: skip


def _reference(task: GraphTask, costs: Tensor, steepness: Number) -> tuple[Tensor, Tensor]:
    """Nodes [B, V] and edges [B, E] of costs [B, E]."""
    sources, targets, size = task.sources, task.targets, (costs.shape[0], task.nodes)
    start = torch.arange(task.nodes, device=costs.device) == task.source
    distance = torch.where(start, 0.0, torch.inf).to(costs).expand(size)
    weights = torch.zeros_like(costs)
    for _ in range(task.iterations):
        before = distance
        ways = before[:, sources] + costs
        weights, expected = _weigh(ways, targets, size, task.dist, steepness)
        distance = torch.where(start, 0.0, expected)
        same = (distance - before).abs() <= 2 * torch.finfo(costs.dtype).eps * distance.abs()
        if not is_traced() and bool((same | (distance == before)).all()):
            break
    weights = torch.where(targets == task.source, 0.0, weights)
    position = costs.new_zeros(size)
    position[:, task.target] = 1.0
    by_node, by_edge = torch.zeros_like(position), torch.zeros_like(costs)
    for _ in range(task.iterations + 1):
        flow = position[:, targets] * weights
        by_node = by_node + position - by_node * position
        by_edge = by_edge + flow - by_edge * flow
        away = torch.where(start, 0.0, position).sum(1)
        stayed = torch.where(start, position, 0.0)
        position = stayed.index_add(1, sources, flow)
        if not is_traced() and bool((away < GONE).all()):
            break
    return by_node, by_edge


_SHORTEST_PATH_GRAPH = Operator("relaxed.shortest_path_graph", reference=_reference)


def _weigh(
    ways: Tensor, targets: Tensor, size: tuple[int, int], dist: Distribution, steepness: Number
) -> tuple[Tensor, Tensor]:
    """`weigh` and `minimum` over the edges into each node: weights [B, E], values [B, V]."""
    index = targets.expand_as(ways)
    reached = ways < torch.inf
    low = ways.new_full(size, torch.inf).scatter_reduce(1, index, ways, "amin")
    low = torch.where(low < torch.inf, low, 0.0)
    beyond = torch.where(reached, ways, low[:, targets]) - low[:, targets]
    odds = torch.where(reached, odds_of(beyond, dist, steepness), 0.0)
    total = ways.new_zeros(size).index_add(1, targets, odds)
    known = total > 0
    weights = odds / torch.where(known, total, 1.0)[:, targets]
    value = low + ways.new_zeros(size).index_add(1, targets, weights * beyond)
    return weights, torch.where(known, value, torch.inf)
