"""The programs of `gendr.relaxed.programs`: equal to the kernels of the same names, right hard."""

import itertools
import math
from math import inf

import pytest
import torch

from gendr import distributions, relaxed
from gendr.relaxed import programs

DISTRIBUTIONS = ["logistic", "cauchy"]
CLOSE = {"rtol": 0, "atol": 1e-10}


def numbers(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def same(program, kernel, *inputs):
    """Values and gradients of the two."""
    for a, b in zip(program, kernel, strict=True):
        torch.testing.assert_close(a, b, **CLOSE)
        weights = torch.rand_like(a)
        slopes = [
            torch.autograd.grad((weights * x).sum(), inputs, retain_graph=True) for x in (a, b)
        ]
        for one, other in zip(*slopes, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


def test_bubble_sort():
    for dist in DISTRIBUTIONS:
        x = numbers(3, 5)
        program = programs.bubble_sort(x, scale=0.2, dist=dist, tolerance=0)
        same(program, relaxed.bubble_sort(x, dist, 5.0), x)
        values, swaps, ordered = programs.bubble_sort.hard(x)
        torch.testing.assert_close(values, x.detach().sort().values)
        pairs = [sum(a > b for a, b in itertools.combinations(row, 2)) for row in x.tolist()]
        assert swaps.tolist() == pairs
        assert ordered.tolist() == [float(n == 0) for n in pairs]


def test_levenshtein():
    for dist in DISTRIBUTIONS:
        s, t = numbers(2, 4, 3), numbers(2, 3, 3, seed=1)
        got, table = programs.levenshtein(s, t, 1.5, 0.5, 2.0, scale=0.2, dist=dist)
        costs = {"insertion": 1.5, "deletion": 0.5, "substitution": 2.0}
        same([got], [relaxed.levenshtein(s, t, dist=dist, steepness=5.0, **costs)], s, t)
        assert table.shape == (2, 5, 4)
        torch.testing.assert_close(table[:, -1, -1], got)
        assert programs.levenshtein.hard("kitten", "sitting")[0] == 3
        assert programs.levenshtein.hard("", "abc", insertion=2)[0] == 6


def test_dynamic_time_warping():
    for dist in DISTRIBUTIONS:
        a, b = numbers(2, 4), numbers(2, 5, seed=1)
        got, _ = programs.dynamic_time_warping(a, b, scale=0.2, dist=dist)
        same([got], [relaxed.dynamic_time_warping(a, b, dist=dist, steepness=5.0)], a, b)
        assert programs.dynamic_time_warping.hard([1.0, 2.0, 2.0, 4.0], [1.0, 2.0, 5.0])[0] == 1.0


@pytest.mark.rotating(4, group="long")
def test_shortest_path():
    for dist, neighbourhood in itertools.product(
        [*DISTRIBUTIONS, "uniform", "student_t(shape=1.5)"], [4, 8]
    ):
        costs = numbers(2, 3, 3)
        got = programs.shortest_path(costs, neighbourhood, scale=0.2, dist=dist)
        same([got], [relaxed.shortest_path(costs, dist, 5.0, neighbourhood)], costs)


def test_shortest_path_hard():
    for neighbourhood in [4, 8]:
        costs = numbers(2, 3, 3)
        hard = programs.shortest_path.hard(costs, neighbourhood)
        torch.testing.assert_close(
            hard, relaxed.shortest_path(costs, "heaviside", 1.0, neighbourhood)
        )


@relaxed.relax
def joined_path(costs: relaxed.Matrix):
    """The textbook's path, but with positions of the walk joined by `any`: the T-norm counts."""
    cells = [(i, j) for i in range(2) for j in range(3)]
    nodes = range(6)
    distance = [0.0 if v == 0 else inf for v in nodes]
    came_from = [0 for _ in nodes]
    for _ in range(5):
        before = distance.copy()
        for v in range(1, 6):
            options = [before[u] if math.dist(cells[u], cells[v]) == 1 else inf for u in nodes]
            came_from[v] = relaxed.argmin(options)
            best = options[came_from[v]]
            distance[v] = costs[cells[v]] + best if best < inf else inf
    walk = relaxed.zeros(6, 6)
    here = 5
    for t in range(6):
        walk[t, here] = 1.0
        here = came_from[here]
    return relaxed.array([any(walk[:, v]) for v in nodes]).reshape(2, 3)


def test_shortest_path_of_t_norms():
    for tnorm in ["probabilistic", "einstein", "yager(p=2)", "max"]:
        costs = numbers(2, 2, 3)
        kernel = relaxed.shortest_path(costs, "cauchy", 5.0, 4, 5, tconorm=tnorm)
        same([joined_path(costs, scale=0.2, dist="cauchy", tconorm=tnorm)], [kernel], costs)
        # Writing at a soft place blends, whatever the T-norm, so that the program is that of one.
        plain = relaxed.shortest_path(costs, "cauchy", 5.0, 4, 5)
        same(
            [programs.shortest_path(costs, 4, 5, scale=0.2, dist="cauchy", tconorm=tnorm)],
            [plain],
            costs,
        )


def test_silhouette():
    """The product over the edges, and its complement over the triangles, by distances to lines."""
    axis = (torch.arange(6, dtype=torch.float64) * 2 + 1) / 6 - 1
    y, x = torch.meshgrid(axis.flip(0), axis, indexing="ij")
    for name in DISTRIBUTIONS:
        triangles = numbers(2, 1, 1, 3, 3, 2, seed=2) - 0.5
        got = programs.silhouette(triangles, x, y, scale=0.2, dist=name)
        edge = triangles.roll(-1, -2) - triangles
        beside = torch.stack([x, y], -1)[..., None, None, :] - triangles
        cross = edge[..., 0] * beside[..., 1] - edge[..., 1] * beside[..., 0]
        heights = cross / edge.norm(dim=-1)
        inside = distributions.get(name)(heights, 0.2).prod(-1)
        same([got], [1 - (1 - inside).prod(-1)], triangles)


def test_decision_tree():
    flowers = torch.tensor(
        [[5, 3.4, 1.5, 0.2], [6, 2.9, 4.5, 1.5], [6, 3, 5.1, 1.6], [7, 3, 6, 2.0]]
    )
    thresholds = torch.tensor([2.5, 1.75, 4.95], requires_grad=True)
    got = torch.stack(programs.decision_tree(flowers, thresholds, scale=0.05), -1)
    want = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]])
    torch.testing.assert_close(got, want, rtol=0, atol=0.06)
    torch.testing.assert_close(got.sum(-1), torch.ones(4))
    torch.testing.assert_close(
        torch.stack(programs.decision_tree.hard(flowers, thresholds), -1), want
    )
    got[1, 2].backward()
    assert (thresholds.grad[1:] != 0).all()
