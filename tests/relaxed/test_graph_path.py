"""Paths through graphs: SciPy, the grid as a graph, kernels against torch, gradients, errors."""

import itertools

import numpy as np
import pytest
import scipy.sparse
import torch
from scipy.sparse.csgraph import dijkstra

from gendr.relaxed import edges_of_csr, shortest_path, shortest_path_graph
from gendr.relaxed.algorithms.shortest_path import STEPS

# A diamond with a shortcut, a way back, a loop, and a node that leads nowhere.
EDGES = torch.tensor(
    [[0, 1], [0, 2], [1, 3], [2, 3], [1, 2], [3, 4], [2, 4], [4, 0], [3, 3], [1, 5], [0, 1]]
)


def costs(*batch):
    return (torch.rand(*batch, len(EDGES), dtype=torch.float64) + 0.1).requires_grad_()


def test_hard_paths_are_those_of_dijkstra(seed):
    for dist, steepness in [("heaviside", 1.0), ("logistic", 1e10)]:
        rng = np.random.default_rng(seed)
        for _ in range(20):
            ring = np.stack([np.arange(12), np.roll(np.arange(12), -1)], 1)
            edges = np.unique(np.concatenate([ring, rng.integers(0, 12, (30, 2))]), axis=0)
            price = rng.uniform(0.1, 1.1, (50, len(edges)))
            path = shortest_path_graph(
                torch.from_numpy(edges), torch.from_numpy(price), 0, 7, dist, steepness
            )
            for row, nodes, taken in zip(price, path.nodes, path.edges, strict=True):
                graph = scipy.sparse.csr_matrix((row, edges.T), shape=(12, 12))
                distance, before = dijkstra(graph, indices=0, return_predecessors=True)
                here, expected = 7, np.zeros(12)
                while here >= 0:
                    expected[here] = 1
                    here = before[here]
                torch.testing.assert_close(nodes, torch.from_numpy(expected), rtol=0, atol=1e-6)
                assert abs((taken.numpy() * row).sum() - distance[7]) < 1e-6


def test_a_grid_is_a_graph():
    maps = torch.rand(3, 4, 5, dtype=torch.float64) + 0.2
    cell = np.arange(20).reshape(4, 5)
    edges = torch.tensor(
        [
            (cell[i, j], cell[i + r, j + c])
            for i in range(4)
            for j in range(5)
            for r, c in STEPS
            if 0 <= i + r < 4 and 0 <= j + c < 5
        ]
    )
    for dist in ("logistic", "cauchy"):
        path = shortest_path_graph(edges, maps.flatten(1)[:, edges[:, 1]], 0, 19, dist, 3.0, 12)
        grid = shortest_path(maps, dist, 3.0, iterations=12)
        torch.testing.assert_close(path.nodes.reshape(3, 4, 5), grid, rtol=0, atol=1e-12)


def test_kernel_is_the_reference():
    for dist, iterations in itertools.product(
        ["logistic", "cauchy", "laplace", "heaviside"], [None, 4]
    ):
        x = costs(4)
        beta = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
        given = torch.randn(4, 6, dtype=torch.float64), torch.randn(4, 11, dtype=torch.float64)
        found = []
        for backend in ("cpu", "reference"):
            path = shortest_path_graph(EDGES, x, 0, 4, dist, beta, iterations, backend=backend)
            hard = dist == "heaviside"
            found.append((*path, *(() if hard else torch.autograd.grad(path, (x, beta), given))))
        for ours, truth in zip(*found, strict=True):
            torch.testing.assert_close(ours, truth, rtol=1e-10, atol=1e-10)


def test_ties_have_the_gradient_of_torch():
    x = torch.ones(1, len(EDGES), dtype=torch.float64, requires_grad=True)
    for dist in ("logistic", "cauchy"):
        grads = [
            torch.autograd.grad(
                shortest_path_graph(EDGES, x, 0, 4, dist, 2.0, backend=backend).edges[0, 6], x
            )[0]
            for backend in ("cpu", "reference")
        ]
        assert grads[0].abs().max() > 1e-2
        torch.testing.assert_close(*grads, rtol=1e-10, atol=1e-10)


def test_the_walk_ends_at_the_source():
    path = shortest_path_graph(EDGES, costs(3), 0, 4, steepness=1.0, iterations=200)
    ones = torch.ones(3, dtype=torch.float64)
    torch.testing.assert_close(path.nodes[:, 0], ones, rtol=0, atol=1e-12)
    assert torch.equal(path.edges[:, 7], 0 * ones)  # it ends in the source


def test_csr_is_a_list_of_edges():
    starts, targets = torch.tensor([0, 2, 2, 3]), torch.tensor([1, 2, 0])
    assert edges_of_csr(starts, targets).tolist() == [[0, 1], [0, 2], [2, 0]]
    for wrong in (torch.tensor([0, 2, 1, 3]), torch.tensor([0, 2, 2, 4]), torch.tensor([1, 2, 3])):
        with pytest.raises(ValueError, match="starts must rise from 0"):
            edges_of_csr(wrong, targets)


def test_any_batch_shape_and_dtype():
    x = costs(2, 3)
    whole = shortest_path_graph(EDGES, x, 0, 4)
    assert (whole.nodes.shape, whole.edges.shape) == ((2, 3, 6), (2, 3, 11))
    alone = shortest_path_graph(EDGES, x[1, 2], 0, 4)
    torch.testing.assert_close(whole.edges[1, 2], alone.edges, rtol=0, atol=1e-13)
    short = shortest_path_graph(EDGES, x.float(), 0, 4)
    torch.testing.assert_close(short.nodes.double(), whole.nodes, rtol=0, atol=1e-4)
    one = shortest_path_graph(EDGES, x, 2, 2)
    assert torch.equal(one.nodes, torch.eye(6, dtype=torch.float64)[2].expand(2, 3, 6))


BAD = [
    ({"edges": EDGES.double()}, TypeError, "integers"),
    ({"edges": EDGES[:, :1]}, ValueError, r"\[E, 2\]"),
    ({"costs": torch.ones(3)}, ValueError, "E = 11"),
    ({"costs": torch.full((11,), torch.inf)}, ValueError, "finite"),
    ({"nodes": 5}, ValueError, "edges must index"),
    ({"target": 9, "nodes": 6}, ValueError, "target must be one of the nodes 0 .. 5"),
    ({"source": 5}, ValueError, "no way from node 5"),
    ({"iterations": 1}, ValueError, "at least 2"),
    ({"dist": "levy"}, ValueError, "symmetric"),
]


def test_bad_arguments():
    for options, kind, said in BAD:
        given = {"edges": EDGES, "costs": torch.ones(11), "source": 0, "target": 4}
        with pytest.raises(kind, match=said):
            shortest_path_graph(**{**given, **options})
