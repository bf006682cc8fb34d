"""The relaxed sorting networks: the reference against the papers, the kernels against it."""

import math

import numpy as np
import pytest
import torch

from gendr import distributions
from gendr.sorting import Network, bitonic, get, odd_even, odd_even_merge
from support import relative_l2
from support.cases import for_each
from support.distributions import exact_cdf

METHODS = {"bitonic": bitonic, "odd_even": odd_even, "odd_even_merge": odd_even_merge}
SYMMETRIC = tuple(
    name
    for name, dist in distributions.standard_distributions().items()
    if dist.is_symmetric is True
)
DISTRIBUTIONS = (*SYMMETRIC, "heaviside")
TOLERANCE = {torch.float64: (1e-12, 1e-11), torch.float32: (1e-6, 1e-5)}  # relative L2


def keys(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype).requires_grad_()


def scrambled(n, layers):
    """A network of random comparators, which need not sort: some wires rest, some point up."""
    rng = np.random.default_rng(n)
    found = []
    for _ in range(layers):
        wires = rng.permutation(n)[: 2 * rng.integers(1, n // 2 + 1)].tolist()
        found.append(tuple(zip(wires[::2], wires[1::2], strict=True)))
    return Network(n, tuple(found))


# ---------------------------------------------------------------------------------------------
# The reference against the papers
# ---------------------------------------------------------------------------------------------

PAPER = {
    "logistic": lambda x: 1 / (1 + math.exp(-x)),  # (3.21)
    "cauchy": lambda x: math.atan(x) / math.pi + 0.5,  # (3.23)
    "reciprocal": lambda x: 0.5 * x / (1 + abs(x)) + 0.5,  # (3.22), whose beta is half ours
    # (3.24), whose beta is ours; it prints - 1 / (16 beta x) as the first case
    "optimal": lambda x: -1 / (16 * x) if x < -0.25 else 1 - 1 / (16 * x) if x > 0.25 else x + 0.5,
}


def published(name):
    """A CDF as a paper prints it, else as `support.distributions` defines it."""
    dist = distributions.get(name)
    return PAPER.get(name, lambda x: float(exact_cdf(dist, x)))


def paper_matrix(x, layers, cdf, beta, art):
    """P by (3.9) to (3.11) for one row of keys, with the differences of (3.13)."""
    n = len(x)
    p = np.eye(n)
    for layer in layers:
        step = np.eye(n)
        for i, j in layer:
            difference = x[j] - x[i]
            phi = difference / (abs(difference) ** art + 1e-300)
            alpha = cdf(phi * beta)
            step[i, i] = step[j, j] = alpha
            step[i, j] = step[j, i] = 1 - alpha
        p, x = step @ p, step @ x
    return p, x


def test_reference_is_the_formula_of_the_papers():
    for method in METHODS:
        for name in SYMMETRIC:
            for n, art in ((1, 0.0), (3, 0.25), (6, 0.0)):
                x = keys(1, n).detach()
                sort = get(method, steepness=3.0, dist=name, art=art, backend="reference")
                for row, p, values in zip(x, sort.permutation(x), sort.values(x), strict=True):
                    layers = METHODS[method](n).layers
                    want, sorted_row = paper_matrix(row.numpy(), layers, published(name), 3.0, art)
                    np.testing.assert_allclose(p, want, rtol=0, atol=1e-13)
                    np.testing.assert_allclose(values, sorted_row, rtol=0, atol=1e-13)


# ---------------------------------------------------------------------------------------------
# The kernels against the reference
# ---------------------------------------------------------------------------------------------


def compare(network, batch, dist, dtype, x=None, width=None):
    """Values, matrix or payload, and their gradients, against the float64 reference."""
    x = keys(batch, network.n, dtype=dtype) if x is None else x
    inputs = [x, torch.tensor(4.0, dtype=dtype, requires_grad=True)]
    if width is not None:
        inputs.append(keys(batch, network.n, width, dtype=dtype))
    weights, results = [], []
    for backend, kind in (("reference", torch.float64), ("cpu", dtype)):
        keyed, steepness, *payload = given = [v.detach().to(kind).requires_grad_() for v in inputs]
        sort = get("network", network=network, steepness=steepness, dist=dist, backend=backend)
        moved = sort.carried(keyed, *payload) if payload else sort.permutation(keyed)
        out = sort.values(keyed), moved
        weights = weights or [torch.randn_like(v) for v in out]
        loss = sum((v * w.to(v)).sum() for v, w in zip(out, weights, strict=True))
        grads = torch.autograd.grad(loss, given, materialize_grads=True)
        results.append(([v.detach() for v in out], grads))
    (want, want_grads), (got, got_grads) = results
    value_limit, grad_limit = TOLERANCE[dtype]
    for a, b in zip(got, want, strict=True):
        assert a.dtype == dtype
        assert relative_l2(a, b) <= value_limit
    size = torch.stack([g.norm() for g in want_grads]).max()
    for a, b in zip(got_grads, want_grads, strict=True):
        assert a.dtype == dtype
        assert (a - b).norm() <= grad_limit * (b.norm() + 1e-3 * size)
    return results


@pytest.mark.rotating(4, group="sorting")
def test_kernels_equal_the_reference_for_every_distribution():
    for dtype in TOLERANCE:
        for name in DISTRIBUTIONS:
            distribution = distributions.get(name)
            for dist in (distribution, distribution.art(0.25), distribution.squared()):
                compare(bitonic(8), 17, dist, dtype)
                compare(odd_even(5), 3, dist, dtype)


@for_each(dtype=TOLERANCE, n=[1, 2, 3, 31, 32, 33, 65, 130], rotating=8)
def test_kernels_equal_the_reference_for_every_size(n, dtype):
    dist = distributions.get("cauchy")
    generators = [*METHODS.values(), *([lambda n: scrambled(n, 9)] if n > 1 else [])]
    for generator in generators if n < 33 else {generators[0], generators[-1]}:
        for batch in (9,) if n > 33 else (1, 7, 8, 20):
            compare(generator(n), batch, dist, dtype)


def test_kernels_carry_payloads_as_the_reference_does():
    for dtype in TOLERANCE:
        for width in (0, 1, 3, 32, 45, 64):
            dist = distributions.get("logistic").art(0.25)
            compare(scrambled(11, 6), 9, dist, dtype, width=width)
            compare(bitonic(6), 1, dist, dtype, width=width)


def test_kernels_equal_the_reference_at_ties():
    for name in DISTRIBUTIONS:
        rows = [[1.0, 1, 1], [2, 1, 2], [0, 0, -1], [3, 3, 3]]
        x = torch.tensor(rows, dtype=torch.float64, requires_grad=True)
        dist = distributions.get(name)
        compare(odd_even(3), 4, dist, torch.float64, x)
        # Under a power, what rounding leaves of a tie in a second layer is magnified.
        x = x.detach()[:, :2].requires_grad_()
        for powered in (dist.art(0.25), dist.squared()):
            (_, grads), _ = compare(odd_even(2), 4, powered, torch.float64, x)
            assert torch.isfinite(grads[0]).all()


@pytest.mark.usefixtures("nan_in_new_tensors")
def test_buffers_may_hold_anything():
    """What torch hands out is filled with NaN, what Numba does was full of NaN before."""
    assert torch.empty(1).isnan()
    for network, batch in ((bitonic(40), 9), (scrambled(70, 3), 2)):
        x = keys(batch, network.n)
        dist = distributions.get("cauchy")
        nan = torch.full_like(x, math.nan).requires_grad_()
        p = get("network", network=network, dist=dist, backend="cpu").permutation(nan)
        p.backward(torch.full_like(p, math.nan))
        compare(network, batch, dist, torch.float64, x)


# ---------------------------------------------------------------------------------------------
# Derivatives
# ---------------------------------------------------------------------------------------------


def test_a_callable_is_evaluated_in_torch_and_gives_gradients():
    sharpness = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    x = keys(3, 6)
    own = get(steepness=1.5, dist=lambda z: torch.sigmoid(z * sharpness)).permutation(x)
    steepness = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    known = get(steepness=steepness, dist="logistic").permutation(x)
    torch.testing.assert_close(own, known)
    weights = torch.randn_like(own)
    (a,) = torch.autograd.grad((own * weights).sum(), sharpness)
    (b,) = torch.autograd.grad((known * weights).sum(), steepness)
    torch.testing.assert_close(a, 1.5 * b)


# ---------------------------------------------------------------------------------------------
# What the papers promise
# ---------------------------------------------------------------------------------------------


def test_values_and_payloads_are_those_of_the_matrix():
    for method in METHODS:
        x, payload = keys(2, 3, 9).detach(), keys(3, 9, 4).detach()
        sort = get(method, steepness=3.0, dist="logistic", art=0.25)
        p = sort.permutation(x)
        assert p.shape == (2, 3, 9, 9)
        torch.testing.assert_close(sort.values(x), (p @ x[..., None])[..., 0])
        torch.testing.assert_close(sort.carried(x, payload), p @ payload)  # broadcasts
        many = keys(2, 3, 9, 1).detach()
        torch.testing.assert_close(sort.carried(x[0, 0], many), p[0, 0] @ many)


def test_hard_limit_is_torch_sort():
    for method in METHODS:
        for dist, steepness in (("heaviside", 1.0), ("uniform", 1e8)):
            for n in (1, 2, 3, 22, 64, 130):
                x = keys(3, n).detach()
                sort = get(method, steepness=steepness, dist=dist)
                values, order = x.sort(-1)
                assert torch.equal(sort.values(x), values)
                p = sort.permutation(x)
                assert torch.equal(p, torch.nn.functional.one_hot(order, n).double())
                assert torch.equal(sort.ranks(x).long(), order.argsort(-1) + 1)


def test_small_probabilities_have_all_their_digits_in_float32():
    x = torch.linspace(-1, 1, 6)[torch.randperm(6)]
    sort = get("odd_even", steepness=40.0, dist="logistic")
    want = sort.permutation(x.double())
    assert want.min() < 1e-25
    got = sort.permutation(x)
    torch.testing.assert_close(got.double(), want, rtol=2e-4, atol=0)


# ---------------------------------------------------------------------------------------------
# Shapes and sizes
# ---------------------------------------------------------------------------------------------


def test_any_batch_shape():
    for name in ("reference", "cpu"):
        for shape in ((6,), (2, 3, 6), (0, 6), (2, 0, 3, 6), (1,), (4, 1), (0, 1)):
            x = torch.randn(shape, requires_grad=True)
            sort = get(backend=name)
            p, values, ranks = sort.permutation(x), sort.values(x), sort.ranks(x)
            assert p.shape == (*shape, shape[-1])
            assert values.shape == ranks.shape == shape
            assert sort.carried(x, x[..., None]).shape == (*shape, 1)
            (p.sum() + (values * ranks).sum()).backward()
            assert x.grad.shape == shape
            for index in np.ndindex(shape[:-1]):
                torch.testing.assert_close(p[index], sort.permutation(x[index]))


# ---------------------------------------------------------------------------------------------
# Settings
# ---------------------------------------------------------------------------------------------


def test_a_network_of_the_users_own():
    network = Network(3, (((0, 1),), ((1, 2),), ((0, 1),)), "bubble")
    sort = get("network", dist="heaviside", network=network)
    x = torch.randn(5, 3)
    assert torch.equal(sort.values(x), x.sort(-1).values)
    with pytest.raises(ValueError, match="the network bubble sorts 3 values, got 4"):
        sort.values(torch.randn(4))
    with pytest.raises(TypeError, match="network must be a Network, got str"):
        get("network", network="bitonic")
    with pytest.raises(TypeError, match="network must be a Network, got NoneType"):
        get("network")


def test_settings_are_checked():
    shifted = distributions.get("logistic").shifted(torch.tensor(0.0, requires_grad=True))
    for settings, error, message in (
        ({"dist": "gumbel_max"}, ValueError, "symmetric .* got gumbel_max; .* cauchy"),
        ({"dist": "levy.centred"}, ValueError, "symmetric"),
        ({"dist": "logistic.shifted(0.5)"}, ValueError, "symmetric"),
        ({"dist": shifted}, ValueError, "symmetric"),
        ({"steepness": 0.0}, ValueError, "steepness must be > 0"),
        ({"dist": "cauchi"}, ValueError, "unknown distribution 'cauchi'.*cauchy"),
        ({"dist": 3}, TypeError, "a distribution must be a name"),
        ({"art": 1.0}, ValueError, "art must lie in"),
        ({"art": "0.25"}, TypeError, "art must be a number, got str"),
        ({"art": 0.25, "dist": "logistic.art(0.5)"}, ValueError, "uses art already"),
        ({"art": 0.25, "dist": "logistic.squared"}, ValueError, "is squared"),
        ({"backend": "cuda"}, ValueError, "unknown backend 'cuda'"),
    ):
        with pytest.raises(error, match=message):
            get("odd_even", **settings)
