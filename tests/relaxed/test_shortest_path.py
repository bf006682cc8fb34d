"""Shortest paths: the hard limit against SciPy, kernels against torch, gradients, bad arguments."""

import itertools

import numpy as np
import pytest
import scipy.sparse
import torch
from scipy.sparse.csgraph import dijkstra

from gendr.relaxed import shortest_path
from gendr.relaxed.algorithms.shortest_path import STEPS

LAWS = ("logistic", "cauchy", "laplace", "uniform")


def costs(*shape, dtype=torch.float64, least=0.2):
    return (torch.rand(*shape, dtype=dtype) + least).requires_grad_()


def dijkstra_paths(maps, neighbours):
    """The cheapest paths through all maps at once, by SciPy, which knows no grids: 0 and 1."""
    height, width = maps.shape[1:]
    cell = np.arange(maps.size).reshape(maps.shape)
    sources, targets = [], []
    for row, column in STEPS[:neighbours]:
        rows = slice(max(0, row), height + min(0, row)), slice(max(0, -row), height - max(0, row))
        columns = (
            slice(max(0, column), width + min(0, column)),
            slice(max(0, -column), width - max(0, column)),
        )
        targets.append(cell[:, rows[0], columns[0]].ravel())
        sources.append(cell[:, rows[1], columns[1]].ravel())
    source, target = np.concatenate(sources), np.concatenate(targets)
    graph = scipy.sparse.csr_matrix(
        (maps.ravel()[target], (source, target)), shape=(maps.size, maps.size)
    )
    _, before, _ = dijkstra(graph, indices=cell[:, 0, 0], min_only=True, return_predecessors=True)
    path = np.zeros(maps.size)
    here = cell[:, -1, -1]
    while len(here):
        path[here] = 1
        here = before[here]
        here = here[here >= 0]
    return path.reshape(maps.shape)


def test_hard_paths_are_those_of_dijkstra(seed):
    for neighbours, (dist, steepness) in itertools.product(
        [4, 8], [("heaviside", 1.0), ("logistic", 1e9), ("cauchy", 1e12)]
    ):
        maps = np.random.default_rng(seed).uniform(0.1, 1.1, (1700, 6, 7))
        path = shortest_path(torch.from_numpy(maps), dist, steepness, neighbours)
        expected = torch.from_numpy(dijkstra_paths(maps, neighbours))
        assert torch.allclose(path, expected, atol=1e-6)


def test_paths_that_wind_are_found():
    # A corridor from side to side between walls: far more steps than rows and columns.
    maps = torch.full((9, 9), 1000.0, dtype=torch.float64)
    maps[::2] = 1.0
    maps[[1, 5], -1] = maps[[3, 7], 0] = 1.0
    path = shortest_path(maps, "heaviside", 1.0, 4)
    assert torch.equal(path, (maps == 1.0).double())
    expected = dijkstra_paths(maps.numpy()[None], 4)[0]
    assert torch.equal(path, torch.from_numpy(expected))


def test_kernel_is_the_reference():
    for dist, neighbours, iterations in itertools.product(
        [*LAWS, "student_t(shape=1.5)", "heaviside"], [4, 8], [None, 13]
    ):
        x = costs(3, 4, 6)
        beta = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
        g = torch.randn(3, 4, 6, dtype=torch.float64)
        found = []
        for backend in ("cpu", "reference"):
            path = shortest_path(x, dist, beta, neighbours, iterations, backend=backend)
            hard = dist == "heaviside"
            grads = () if hard else torch.autograd.grad(path, (x, beta), g)
            found.append((path.detach(), *grads))
        for ours, truth in zip(*found, strict=True):
            torch.testing.assert_close(ours, truth, rtol=1e-10, atol=1e-10)


def test_distances_of_all_sizes():
    """Paths that differ by a few scales, of up to 50,000: every way to find weights is taken."""
    for neighbours, middle, steepness in itertools.product(
        [4, 8], [1.0, -1.0], [5.0, 60.0, 400.0, 3000.0]
    ):
        x = (middle + costs(3, 4, 13).detach() * 3 / steepness).requires_grad_()
        beta = torch.tensor(steepness, dtype=torch.float64, requires_grad=True)
        g = torch.randn(3, 4, 13, dtype=torch.float64)
        found = []
        for backend in ("cpu", "reference"):
            path = shortest_path(x, "logistic", beta, neighbours, 18, backend=backend)
            found.append((path.detach(), *torch.autograd.grad(path, (x, beta), g)))
        assert (found[1][0] - found[1][0].round()).abs().max() > 0.01  # it is not hard
        for ours, truth, size in zip(*found, (1.0, steepness, 1.0), strict=True):
            assert (ours - truth).abs().max() <= 1e-10 * size


def test_far_distances_are_as_exact():
    # Too far for split exponentials, so that the kernel computes differences.
    x = (1e5 * costs(2, 4, 4).detach()).requires_grad_()
    g = torch.randn(2, 4, 4, dtype=torch.float64)
    ours, truth = (shortest_path(x, steepness=0.2, backend=b) for b in ("cpu", "reference"))
    torch.testing.assert_close(ours, truth, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(
        torch.autograd.grad(ours, x, g), torch.autograd.grad(truth, x, g), rtol=1e-10, atol=1e-14
    )


def test_the_backward_pass_may_compute_again(monkeypatch):
    from gendr.relaxed.backends.cpu import backend

    x, g = costs(2, 4, 5), torch.randn(2, 4, 5, dtype=torch.float64)
    kept = torch.autograd.grad(shortest_path(x), x, g)
    monkeypatch.setattr(backend, "_ROOM", 0)
    assert torch.equal(torch.autograd.grad(shortest_path(x), x, g)[0], kept[0])


def test_the_walk_ends_at_the_start():
    """The published program walks on from the start, round and round."""
    path = shortest_path(costs(5, 6, 6), steepness=1.0)
    assert torch.allclose(path[:, 0, 0], torch.ones(5, dtype=torch.float64), atol=1e-12)
    assert torch.equal(path[:, -1, -1], torch.ones(5, dtype=torch.float64))
    assert 0 <= path.min() <= path.max() <= 1
    hard = shortest_path(costs(5, 6, 6), "heaviside")
    ends = hard[:, 0, 1] + hard[:, 1, 0] + hard[:, 1, 1]
    assert torch.equal(ends, torch.ones(5, dtype=torch.float64))


def test_mirrored_maps_have_mirrored_paths():
    x = costs(2, 5, 5).detach()
    for dist in LAWS:
        torch.testing.assert_close(
            shortest_path(x.mT, dist, 5.0).mT, shortest_path(x, dist, 5.0), rtol=0, atol=1e-12
        )


def test_the_cost_of_the_start_does_not_count():
    x = costs(2, 4, 4)
    (grad,) = torch.autograd.grad(shortest_path(x)[:, 2, 2].sum(), x)
    assert torch.equal(grad[:, 0, 0], torch.zeros(2, dtype=torch.float64))
    assert (grad.flatten(1)[:, 1:].abs().amax(1) > 0).all()


def test_any_batch_shape_and_dtype():
    for backend in ("cpu", "reference"):
        x = costs(2, 3, 4, 5)
        whole = shortest_path(x, backend=backend)
        alone = shortest_path(x[1, 2], backend=backend)
        torch.testing.assert_close(whole[1, 2], alone, rtol=0, atol=1e-12)
        short = shortest_path(x.float(), backend=backend)
        assert short.dtype == torch.float32
        torch.testing.assert_close(short.double(), whole, rtol=0, atol=1e-4)
        assert shortest_path(x[:0], backend=backend).shape == (0, 3, 4, 5)
        empty = costs(0, 4, 4)
        (grad,) = torch.autograd.grad(shortest_path(empty, backend=backend).sum(), empty)
        assert grad.shape == (0, 4, 4)


def test_small_grids():
    for shape in [(1, 5), (4, 1), (2, 2)]:
        x = costs(2, *shape)
        g = torch.randn(2, *shape, dtype=torch.float64)
        ours, truth = (shortest_path(x, steepness=2.0, backend=b) for b in ("cpu", "reference"))
        torch.testing.assert_close(ours, truth)
        torch.testing.assert_close(
            torch.autograd.grad(ours, x, g),
            torch.autograd.grad(truth, x, g),
            atol=1e-12,
            rtol=1e-10,
        )
        if 1 in shape:
            assert torch.equal(shortest_path(x, "heaviside"), torch.ones_like(x))


def test_a_single_cell_is_its_path():
    for backend in ("cpu", "reference"):
        assert shortest_path(torch.tensor([[[3.0]]]), backend=backend).tolist() == [[[1.0]]]


def test_other_tconorms_join_the_positions():
    x = costs(2, 4, 4)
    probabilistic = shortest_path(x, steepness=2.0)
    einstein = shortest_path(x, steepness=2.0, tconorm="einstein")
    largest = shortest_path(x, steepness=2.0, tconorm="max")
    assert (largest <= probabilistic + 1e-12).all()
    assert (probabilistic <= einstein + 1e-12).all()
    assert (einstein - largest).abs().max() > 1e-3


BAD = [
    ({"costs": np.ones((3, 3))}, TypeError, "costs must be a torch.Tensor"),
    ({"costs": torch.ones(3, 3, dtype=torch.int64)}, TypeError, "float32 or float64"),
    ({"costs": torch.ones(3)}, ValueError, r"\[\.\.\., H, W\]"),
    ({"costs": torch.ones(2, 0, 3)}, ValueError, r"\[2, 0, 3\]"),
    ({"costs": torch.full((3, 3), torch.nan)}, ValueError, "must be finite"),
    ({"neighbourhood": 6}, ValueError, "4 or 8, got 6"),
    ({"iterations": 1}, ValueError, "at least 2 to cross a grid of 3 x 3"),
    ({"iterations": 3, "neighbourhood": 4}, ValueError, "at least 4"),
    ({"iterations": 2.0}, TypeError, "iterations must be an int"),
    ({"steepness": 0.0}, ValueError, "steepness must be > 0"),
    ({"steepness": torch.ones(2)}, TypeError, "single floating number"),
    ({"dist": "gumbel_max"}, ValueError, "symmetric"),
    ({"dist": "logistik"}, ValueError, "logistic"),
    ({"backend": "gpu"}, ValueError, "backend"),
    ({"tconorm": "maximum"}, ValueError, "max"),
]


def test_bad_arguments():
    for options, kind, said in BAD:
        with pytest.raises(kind, match=said):
            shortest_path(**{"costs": torch.ones(3, 3), **options})
