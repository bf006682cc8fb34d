"""Ready-made algorithms: hard limits by other code, kernels beside torch, batches, refusals."""

import itertools

import numpy as np
import pytest
import scipy.sparse
import torch
from scipy.sparse.csgraph import dijkstra
from torch.nn.functional import one_hot

from gendr.relaxed import (
    bubble_sort,
    dynamic_time_warping,
    levenshtein,
    shortest_path,
    shortest_path_graph,
    warping_of_costs,
)

STEPS = [(-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]
# A diamond with a shortcut, a way back, a loop, and a node that leads nowhere.
EDGES = torch.tensor(
    [[0, 1], [0, 2], [1, 3], [2, 3], [1, 2], [3, 4], [2, 4], [4, 0], [3, 3], [1, 5], [0, 1]]
)
DISTRIBUTIONS = ("logistic", "cauchy", "laplace", "student_t(shape=1.5)")
PRICES = {"deletion": 0.7, "insertion": 1.1, "substitution": 1.3}


def leaf(*shape):
    return torch.randn(*shape, dtype=torch.float64).requires_grad_()


def costs(*shape):
    return (torch.rand(*shape, dtype=torch.float64) + 0.2).requires_grad_()


def strings(*shape):
    return leaf(*shape).detach().softmax(-1).requires_grad_()


def graph(x, *args, **options):
    return shortest_path_graph(EDGES, x, 0, 4, *args, **options)


def parts(result):
    return [result] if isinstance(result, torch.Tensor) else list(result)


def assert_kernel_is_the_reference(run, *inputs, atol=1e-10, **options):
    """Values and gradients of an algorithm by kernels and by torch."""
    leaves = [x for x in (*inputs, *options.values()) if getattr(x, "requires_grad", False)]
    results = [parts(run(*inputs, **options, backend=name)) for name in ("cpu", "reference")]
    found = [[x.detach() for x in result] for result in results]
    if options.get("dist") != "heaviside":
        weights = [torch.randn_like(x) for x in results[0]]
        for values, result in zip(found, results, strict=True):
            pairs = [(x, w) for x, w in zip(result, weights, strict=True) if x.requires_grad]
            outputs, grads = zip(*pairs, strict=True)
            values += torch.autograd.grad(outputs, leaves, grads, materialize_grads=True)
    for ours, truth in zip(*found, strict=True):
        torch.testing.assert_close(ours, truth, rtol=1e-10, atol=atol)
    return found[1][0]


def number(value):
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


# -- what holds for all

ALGORITHMS = {  # from a batch to inputs
    shortest_path: lambda *batch: [costs(*batch, 4, 5)],
    graph: lambda *batch: [costs(*batch, 11)],
    bubble_sort: lambda *batch: [leaf(*batch, 5)],
    levenshtein: lambda *batch: [strings(*batch, 5, 4), strings(*batch, 6, 4)],
    dynamic_time_warping: lambda *batch: [leaf(*batch, 5), leaf(*batch, 6)],
}


def test_any_batch_shape_and_dtype():
    for (run, make), name in itertools.product(ALGORITHMS.items(), ("cpu", "reference")):
        inputs = make(2, 3)
        whole = parts(run(*inputs, backend=name))
        alone = parts(run(*(x[1, 2] for x in inputs), backend=name))
        short = parts(run(*(x.float() for x in inputs), backend=name))
        empty = parts(run(*(x[:0] for x in inputs), backend=name))
        for result, one, narrow, none in zip(whole, alone, short, empty, strict=True):
            torch.testing.assert_close(result[1, 2], one, rtol=0, atol=1e-12)
            assert narrow.dtype == torch.float32
            torch.testing.assert_close(narrow.double(), result, rtol=1e-4, atol=1e-4)
            assert none.shape == (0, *result.shape[1:])
        if empty[0].requires_grad:
            assert torch.autograd.grad(empty[0].sum(), inputs[0])[0].shape == inputs[0].shape


@pytest.mark.rotating(4, group="long")
def test_kernels_are_the_reference():
    """Over all options; `tests/kernels/test_operators.py` has what all operators do."""
    both = assert_kernel_is_the_reference
    for dist in (*DISTRIBUTIONS, "uniform", "heaviside"):
        common = {"dist": dist, "steepness": number(3.0)}
        for neighbours, iterations in itertools.product((4, 8), (None, 13)):
            both(shortest_path, costs(3, 4, 6), neighbourhood=neighbours, iterations=iterations,
                 **common)  # fmt: skip
        for iterations in (None, 4):
            both(graph, costs(4, 11), iterations=iterations, **common)
        for shape in ((1, 3), (3, 2), (40, 7)):
            both(bubble_sort, leaf(*shape), **common)
    for dist, minimum in [
        *((distribution, "expected") for distribution in DISTRIBUTIONS),
        ("logistic", "log_sum_exp"),
    ]:
        common = {"dist": dist, "minimum": minimum, "steepness": number(3.0)}
        prices = {name: number(price) for name, price in PRICES.items()}
        lengths = torch.tensor([11, 5, 0, 3, 0]), torch.tensor([9, 2, 4, 0, 0])
        both(levenshtein, strings(5, 11, 4), strings(5, 9, 4), lengths=lengths, **prices, **common)
        lengths = torch.tensor([13, 5, 1, 1]), torch.tensor([10, 2, 10, 1])
        both(dynamic_time_warping, leaf(4, 13, 2), leaf(4, 10, 2), features=True, lengths=lengths,
             **common)  # fmt: skip


def test_ties_have_the_gradient_of_torch():
    for dist in DISTRIBUTIONS:
        same = one_hot(torch.randint(2, (4, 6)), 2).double().requires_grad_()
        assert_kernel_is_the_reference(levenshtein, same, same.detach().roll(1, -2), dist=dist)
        ones = torch.ones(1, 11, dtype=torch.float64, requires_grad=True)
        assert_kernel_is_the_reference(graph, ones, dist=dist, steepness=2.0)


# What is wrong for every algorithm.
BAD = [
    ({"steepness": 0.0}, ValueError, "steepness must be > 0"),
    ({"steepness": torch.ones(2)}, TypeError, "single floating number"),
    ({"dist": "gumbel_max"}, ValueError, "symmetric"),
    ({"dist": "logistik"}, ValueError, "logistic"),
    ({"backend": "gpu"}, ValueError, "backend"),
]
BAD_OF = {
    shortest_path: [
        ({"costs": torch.ones(3, 3, dtype=torch.int64)}, TypeError, "float32 or float64"),
        ({"costs": torch.ones(3)}, ValueError, r"\[\.\.\., H, W\]"),
        ({"costs": torch.ones(2, 0, 3)}, ValueError, r"\[2, 0, 3\]"),
        ({"neighbourhood": 6}, ValueError, "4 or 8, got 6"),
        ({"iterations": 1}, ValueError, "at least 2 to cross a grid of 3 x 3"),
        ({"iterations": 3, "neighbourhood": 4}, ValueError, "at least 4"),
        ({"iterations": 2.0}, TypeError, "iterations must be an int"),
        ({"tconorm": "maximum"}, ValueError, "max"),
    ],
    shortest_path_graph: [
        ({"edges": EDGES.double()}, TypeError, "integers"),
        ({"edges": EDGES[:, :1]}, ValueError, r"\[E, 2\]"),
        ({"costs": torch.ones(3)}, ValueError, "E = 11"),
        ({"nodes": 5}, ValueError, "edges must index"),
        ({"target": 9, "nodes": 6}, ValueError, "target must be one of the nodes 0 .. 5"),
        ({"source": 5}, ValueError, "no way from node 5"),
        ({"iterations": 1}, ValueError, "at least 2"),
    ],
    bubble_sort: [
        ({"x": torch.tensor(1.0)}, ValueError, r"\[\.\.\., n\]"),
        ({"x": torch.ones(2, 0)}, ValueError, "n >= 1"),
    ],
    levenshtein: [
        ({"s": torch.ones(3, 2, dtype=torch.float64)}, TypeError, "dtype of s"),
        ({"s": torch.ones(3, 3)}, ValueError, "same alphabet"),
        (
            {"s": torch.ones(2, 3, 2), "t": torch.ones(3, 3, 2)},
            ValueError,
            "s and t must broadcast",
        ),
        ({"deletion": -1.0}, ValueError, "deletion must be >= 0"),
        ({"insertion": "1"}, TypeError, "insertion must be a number"),
        ({"substitution": torch.ones(2)}, TypeError, "substitution"),
        ({"minimum": "hard"}, ValueError, "expected"),
        ({"minimum": "log_sum_exp", "dist": "cauchy"}, ValueError, "logistic"),
        ({"lengths": torch.tensor(2)}, TypeError, "two tensors"),
        ({"lengths": (torch.tensor(2), torch.tensor(9))}, ValueError, "second.*0 .. 4"),
        ({"lengths": (torch.tensor(2.0), torch.tensor(1))}, TypeError, "integers"),
        ({"lengths": (torch.tensor([2, 2]), torch.tensor(1))}, ValueError, "shape of the batch"),
    ],
    dynamic_time_warping: [
        ({"a": torch.ones(3, dtype=torch.float64)}, TypeError, "dtype of a"),
        ({"a": torch.ones(0)}, ValueError, "at least one step"),
        ({"a": torch.tensor(1.0)}, ValueError, r"\[\.\.\., n\]"),
        ({"features": True}, ValueError, r"\[\.\.\., n, c\]"),
        ({"a": torch.ones(2, 3), "b": torch.ones(3, 3)}, ValueError, "a and b must broadcast"),
        ({"cost": "cosine"}, ValueError, "euclidean"),
        ({"minimum": "log_sum_exp", "dist": "laplace"}, ValueError, "logistic"),
        ({"lengths": (torch.tensor(2), torch.tensor(0))}, ValueError, "at least 1"),
    ],
}
GOOD = {
    shortest_path: {"costs": torch.ones(3, 3)},
    shortest_path_graph: {"costs": torch.ones(11), "edges": EDGES, "source": 0, "target": 4},
    bubble_sort: {"x": torch.ones(3)},
    levenshtein: {"s": torch.ones(3, 2), "t": torch.ones(4, 2)},
    dynamic_time_warping: {"a": torch.ones(3), "b": torch.ones(4)},
}


def test_bad_arguments():
    for function, good in GOOD.items():
        name, tensor = next(iter(good.items()))
        cases = [
            ({name: tensor.tolist()}, TypeError, f"{name} must be a torch.Tensor"),
            ({name: tensor * torch.nan}, ValueError, "finite"),
            *BAD,
            *BAD_OF[function],
        ]
        for changes, error, said in cases:
            with pytest.raises(error, match=said):
                function(**{**good, **changes})


# -- shortest paths


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
    return torch.from_numpy(path.reshape(maps.shape))


def test_hard_paths_are_those_of_dijkstra(seed):
    for neighbours, (dist, steepness) in itertools.product(
        [4, 8], [("heaviside", 1.0), ("logistic", 1e9), ("cauchy", 1e12)]
    ):
        maps = np.random.default_rng(seed).uniform(0.1, 1.1, (500, 6, 7))
        path = shortest_path(torch.from_numpy(maps), dist, steepness, neighbours)
        torch.testing.assert_close(path, dijkstra_paths(maps, neighbours), rtol=0, atol=1e-6)
    # A corridor from side to side between walls: far more steps than rows and columns.
    walls = torch.full((9, 9), 1000.0, dtype=torch.float64)
    walls[::2] = 1.0
    walls[[1, 5], -1] = walls[[3, 7], 0] = 1.0
    assert torch.equal(shortest_path(walls, "heaviside", 1.0, 4), (walls == 1.0).double())


def test_paths_of_all_sizes_and_distances():
    """Distances of up to 50,000 scales: every way to find weights is taken."""
    for neighbours, middle, steepness in itertools.product(
        [4, 8], [1.0, -1.0], [5.0, 60.0, 400.0, 3000.0]
    ):
        x = (middle + costs(3, 4, 13).detach() * 3 / steepness).requires_grad_()
        path = assert_kernel_is_the_reference(
            shortest_path, x, steepness=number(steepness), neighbourhood=neighbours, iterations=18,
            atol=1e-10 * steepness,
        )  # fmt: skip
        assert (path - path.round()).abs().max() > 0.01  # it is not hard
    far = (1e5 * costs(2, 4, 4).detach()).requires_grad_()
    assert_kernel_is_the_reference(shortest_path, far, steepness=0.2)
    for shape in [(1, 5), (4, 1), (2, 2)]:
        x = costs(2, *shape)
        assert_kernel_is_the_reference(shortest_path, x, steepness=2.0)
        if 1 in shape:
            assert torch.equal(shortest_path(x, "heaviside"), torch.ones_like(x))
    for name in ("cpu", "reference"):
        assert shortest_path(torch.tensor([[[3.0]]]), backend=name).tolist() == [[[1.0]]]


def test_the_backward_pass_may_compute_again(monkeypatch):
    x, g = costs(2, 4, 5), torch.randn(2, 4, 5, dtype=torch.float64)
    saved = torch.autograd.grad(shortest_path(x, "cauchy"), x, g)
    monkeypatch.setattr("gendr.relaxed.backends.cpu.backend._MEMORY", 0)
    assert torch.equal(torch.autograd.grad(shortest_path(x, "cauchy"), x, g)[0], saved[0])


def test_walks_end_at_the_start():
    """The published program walks on from the start, round and round."""
    x = costs(5, 6, 6)
    path = shortest_path(x, steepness=1.0)
    ones = torch.ones(5, dtype=torch.float64)
    torch.testing.assert_close(path[:, 0, 0], ones, rtol=0, atol=1e-12)
    assert torch.equal(path[:, -1, -1], ones)
    assert 0 <= path.min() <= path.max() <= 1
    hard = shortest_path(costs(5, 6, 6), "heaviside")
    assert torch.equal(hard[:, 0, 1] + hard[:, 1, 0] + hard[:, 1, 1], ones)
    nodes, edges = graph(costs(5, 11), steepness=1.0, iterations=200)
    torch.testing.assert_close(nodes[:, 0], ones, rtol=0, atol=1e-12)
    assert torch.equal(edges[:, 7], 0 * ones)  # it ends in the source
    (grad,) = torch.autograd.grad(path[:, 2, 2].sum(), x)
    assert torch.equal(grad[:, 0, 0], 0 * ones)  # the cost of the start does not count
    assert (grad.flatten(1)[:, 1:].abs().amax(1) > 0).all()


def test_other_tconorms_join_the_positions():
    x = costs(2, 4, 4)
    largest, probabilistic, einstein = (
        shortest_path(x, steepness=2.0, tconorm=name)
        for name in ("max", "probabilistic", "einstein")
    )
    assert (largest <= probabilistic + 1e-12).all()
    assert (probabilistic <= einstein + 1e-12).all()
    assert (einstein - largest).abs().max() > 1e-3


def test_hard_paths_through_graphs_are_those_of_dijkstra(seed):
    rng = np.random.default_rng(seed)
    ring = np.stack([np.arange(12), np.roll(np.arange(12), -1)], 1)
    for _ in range(10):
        edges = np.unique(np.concatenate([ring, rng.integers(0, 12, (30, 2))]), axis=0)
        price = rng.uniform(0.1, 1.1, (30, len(edges)))
        given = torch.from_numpy(edges), torch.from_numpy(price), 0, 7
        hard = shortest_path_graph(*given, "heaviside")
        torch.testing.assert_close(
            shortest_path_graph(*given, "logistic", 1e10), hard, rtol=0, atol=1e-6
        )
        for row, nodes, taken in zip(price, hard.nodes, hard.edges, strict=True):
            matrix = scipy.sparse.csr_matrix((row, edges.T), shape=(12, 12))
            distance, before = dijkstra(matrix, indices=0, return_predecessors=True)
            here, expected = 7, np.zeros(12)
            while here >= 0:
                expected[here] = 1
                here = before[here]
            np.testing.assert_allclose(nodes.numpy(), expected, atol=1e-6)
            assert abs((taken.numpy() * row).sum() - distance[7]) < 1e-6


def test_a_grid_is_a_graph():
    maps = costs(3, 4, 5)
    cell = torch.arange(20).reshape(4, 5)
    edges = torch.tensor(
        [
            (cell[i, j], cell[i + r, j + c])
            for i, j in itertools.product(range(4), range(5))
            for r, c in STEPS
            if 0 <= i + r < 4 and 0 <= j + c < 5
        ]
    )
    for dist in ("logistic", "cauchy"):
        path = shortest_path_graph(edges, maps.flatten(1)[:, edges[:, 1]], 0, 19, dist, 3.0, 12)
        grid = shortest_path(maps, dist, 3.0, iterations=12)
        torch.testing.assert_close(path.nodes.reshape(3, 4, 5), grid, rtol=0, atol=1e-12)


def test_a_path_from_a_node_to_itself():
    one = shortest_path_graph(EDGES, costs(2, 11), 2, 2)
    assert torch.equal(one.nodes, torch.eye(6, dtype=torch.float64)[2].expand(2, 6))


# -- sorting


def test_hard_results_are_those_of_sorting(seed):
    generator = torch.Generator().manual_seed(seed)
    for (dist, steepness), n in itertools.product(
        [("heaviside", 1.0), ("logistic", 1e9)], [1, 2, 6]
    ):
        x = torch.randn(3000, n, dtype=torch.float64, generator=generator)
        wrong = (x[:, :, None] > x[:, None, :]).triu(1).sum((-2, -1)).double()
        values, swaps, ordered = bubble_sort(x, dist, steepness)
        torch.testing.assert_close(values, x.sort(-1).values, rtol=0, atol=1e-5)
        torch.testing.assert_close(swaps, wrong, rtol=0, atol=1e-5)
        torch.testing.assert_close(ordered, (wrong == 0).double(), rtol=0, atol=1e-5)
    for name in ("cpu", "reference"):
        ties = bubble_sort(torch.tensor([2.0, 1.0, 1.0, 2.0]), "heaviside", backend=name)
        assert [x.tolist() for x in ties] == [[1.0, 1.0, 2.0, 2.0], 2.0, 0.0]


# -- alignments


def wagner_fischer(s, t, deletion=1.0, insertion=1.0, substitution=1.0):
    """The edit distance of two lists of symbols, row by row."""
    row = [j * insertion for j in range(len(t) + 1)]
    for i, symbol in enumerate(s, 1):
        corner, row[0] = row[0], i * deletion
        for j, other in enumerate(t, 1):
            price = corner + (substitution if symbol != other else 0.0)
            corner, row[j] = row[j], min(row[j] + deletion, row[j - 1] + insertion, price)
    return row[-1]


def test_hard_edit_distances_are_those_of_the_textbook(seed):
    rng = np.random.default_rng(seed)
    s, t = rng.integers(0, 3, (1000, 7)), rng.integers(0, 3, (1000, 6))
    n, m = rng.integers(0, 8, 1000), rng.integers(0, 7, 1000)
    words = torch.from_numpy(s), torch.from_numpy(t)
    letters, lengths = (
        [one_hot(x, 3).double() for x in words],
        (torch.from_numpy(n), torch.from_numpy(m)),
    )
    for prices in ({}, PRICES):
        expected = torch.tensor(
            [wagner_fischer(s[i, : n[i]], t[i, : m[i]], **prices) for i in range(1000)]
        ).double()
        for given, dist, steepness in [
            (letters, "heaviside", 1.0), (letters, "logistic", 1e4), (words, "heaviside", 1.0),
        ]:  # fmt: skip
            found = levenshtein(*given, dist=dist, steepness=steepness, lengths=lengths, **prices)
            torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-5)


def test_edit_distances_of_soft_and_empty_strings():
    s = torch.tensor([[0.5, 0.5], [1.0, 0.0]], dtype=torch.float64)
    # Equal, although the first symbol is not sharp; the cosine of the two is 0.5 / sqrt(0.5).
    assert levenshtein(s, s, dist="heaviside") < 1e-12
    assert abs(levenshtein(s[:1], s[1:], dist="heaviside").item() - 1 + 0.5**0.5) < 1e-12
    s, t = strings(3, 1, 5, 4), strings(4, 6, 4)
    for name in ("cpu", "reference"):
        lengths = torch.tensor([5, 3, 1])[:, None], torch.tensor([6, 6, 2, 0])
        mixed = levenshtein(s, t, lengths=lengths, backend=name)
        alone = levenshtein(s[1, 0, :3], t[2, :2], backend=name)
        torch.testing.assert_close(mixed[1, 2], alone, rtol=0, atol=1e-13)
        nothing = levenshtein(s[..., :0, :], t, insertion=2.0, backend=name)
        assert torch.equal(nothing, torch.full((3, 4), 12.0, dtype=torch.float64))
    hard = levenshtein(s, t, dist="heaviside")
    assert (levenshtein(s, t, minimum="log_sum_exp") <= hard).all()
    assert (levenshtein(s, t) >= hard).all()


def test_hard_warping_is_that_of_the_textbook(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(1000, 7)), rng.normal(size=(1000, 5))
    n, m = rng.integers(1, 8, 1000), rng.integers(1, 6, 1000)
    for cost, function in [("squared", np.square), ("absolute", np.abs)]:
        d = np.full((1000, 8, 6), np.inf)
        d[:, 0, 0] = 0
        for i, j in itertools.product(range(1, 8), range(1, 6)):
            ways = np.stack([d[:, i - 1, j], d[:, i, j - 1], d[:, i - 1, j - 1]])
            d[:, i, j] = function(a[:, i - 1] - b[:, j - 1]) + ways.min(0)
        expected = torch.from_numpy(d[np.arange(1000), n, m])
        for dist, steepness in (("heaviside", 1.0), ("logistic", 1e9)):
            found = dynamic_time_warping(
                torch.from_numpy(a), torch.from_numpy(b), cost=cost, dist=dist, steepness=steepness,
                lengths=(torch.from_numpy(n), torch.from_numpy(m)),
            )  # fmt: skip
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-8)


def test_what_lies_beyond_lengths_may_be_nan():
    a, b = torch.randn(2, 5, dtype=torch.float64), torch.randn(2, 4, dtype=torch.float64)
    lengths = torch.tensor([3, 5]), torch.tensor([4, 2])
    alone = [
        dynamic_time_warping(a[i, :n], b[i, :m])
        for i, (n, m) in enumerate(zip(*lengths, strict=True))
    ]
    a[0, 3:], b[1, 2:] = torch.nan, torch.nan
    together = dynamic_time_warping(a.requires_grad_(), b, lengths=lengths)
    torch.testing.assert_close(together, torch.stack(alone))
    (slope,) = torch.autograd.grad(together.sum(), a)
    assert slope.isfinite().all()
    assert not slope[0, 3:].any()


def test_gradients_of_warping():
    table = costs(3, 6, 5)  # the gradient of costs is the alignment
    (soft,) = torch.autograd.grad(warping_of_costs(table, minimum="log_sum_exp").sum(), table)
    torch.testing.assert_close(soft[:, [0, -1], [0, -1]], torch.ones(3, 2, dtype=torch.float64))
    assert soft.min() >= 0
    steep = warping_of_costs(table, steepness=1e9)
    (hard,) = torch.autograd.grad(steep.sum(), table)
    assert set(hard.round(decimals=6).flatten().tolist()) == {0.0, 1.0}
    torch.testing.assert_close((hard * table).sum((1, 2)), steep, rtol=0, atol=1e-9)
    a = leaf(3, 4, 2)  # equal steps have a finite gradient
    value = dynamic_time_warping(a, a.detach(), features=True, cost="euclidean")
    assert torch.autograd.grad(value.sum(), a)[0].isfinite().all()
    assert dynamic_time_warping(a, a, features=True, dist="heaviside").eq(0).all()
