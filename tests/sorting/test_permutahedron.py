"""Fast soft sort and rank, against optimality conditions, SciPy and the hard results."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import isotonic_regression
from scipy.stats import rankdata

from gendr.sorting import get, soft_rank, soft_sort
from support.cases import for_each

REGULARIZATIONS = ["l2", "entropic"]
FACES = ["values", "ranks"]


def projection(steepness, regularization="l2"):
    return get("permutahedron", steepness=steepness, regularization=regularization)


def keys(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def vertices(w):
    return np.array(list(itertools.permutations(w)))


def is_in_hull(point, w):
    """Whether w majorises the point: its k largest sum to at most those of w, for every k."""
    ours, limits = np.cumsum(np.sort(point)[::-1]), np.cumsum(np.sort(w)[::-1])
    slack = 1e-9 * np.abs(w).sum()
    return (ours <= limits + slack).all() and abs(ours[-1] - limits[-1]) < slack


def parts(regularization, face, x, steepness):
    """The problem by the paper: (result -> point of the hull, z, w), the point nearest to z."""
    n = len(x)
    rho = np.arange(1.0, n + 1)
    if face == "ranks":
        return (lambda ranks: ranks), steepness * x, rho
    if regularization == "l2":
        return (lambda values: values), steepness * rho, x
    return (lambda values: np.exp(-values)), -steepness * rho, np.exp(-x)


def slope(regularization, point, z):
    """The slope of |point - z|^2 / 2, or of KL(point, exp(z)), in the point."""
    return point - z if regularization == "l2" else np.log(point) - z


def test_the_result_is_the_nearest_point():
    for steepness in (0.05, 0.4, 1.5, 6.0):
        for face in FACES:
            for regularization in REGULARIZATIONS:
                x = keys(8, 6)
                results = getattr(projection(steepness, regularization), face)(x).numpy()
                for row, result in zip(x.numpy(), results, strict=True):
                    to_point, z, w = parts(regularization, face, row, steepness)
                    point = to_point(result)
                    assert is_in_hull(point, w)
                    # No direction into the hull leads down.
                    descent = (vertices(w) - point) @ slope(regularization, point, z)
                    assert descent.min() > -1e-9 * np.abs(w).max()


def test_l2_is_isotonic_regression():
    for steepness in (0.01, 0.3, 3.0, 50.0):
        n = 200
        x = keys(n)
        rho = np.arange(1.0, n + 1)
        order = np.argsort(x.numpy())
        z = steepness * x.numpy()[order]
        ranks = np.empty(n)
        ranks[order] = z - isotonic_regression(z - rho).x
        np.testing.assert_allclose(projection(steepness).ranks(x), ranks, atol=1e-10)
        s, w = 0.01 * steepness * rho, x.numpy()[order]
        values = projection(0.01 * steepness).values(x)
        np.testing.assert_allclose(values, s - isotonic_regression(s - w).x, atol=1e-10)


@for_each(steepness=[0.3, 2.0], face=FACES, regularization=REGULARIZATIONS)
def test_first_and_second_derivatives(regularization, face, steepness):
    x = (2 * keys(2, 7, seed=5)).requires_grad_()
    s = torch.tensor(steepness, dtype=torch.float64, requires_grad=True)

    def call(x, s):
        return getattr(projection(s, regularization), face)(x)

    assert torch.autograd.gradcheck(call, (x, s), fast_mode=True)
    assert torch.autograd.gradgradcheck(call, (x, s), fast_mode=True)


def test_compiled_gradients_equal_those_in_torch():
    for shape in ((3, 50), (300, 257)):
        for dtype in (torch.float32, torch.float64):
            for face in FACES:
                for regularization in REGULARIZATIONS:
                    x = keys(*shape, dtype=dtype).requires_grad_()
                    weights = keys(*shape, dtype=dtype, seed=1)
                    result = getattr(projection(0.5, regularization), face)(x)
                    (fast,) = torch.autograd.grad(result, x, weights, retain_graph=True)
                    (differentiable,) = torch.autograd.grad(result, x, weights, create_graph=True)
                    tolerance = 1e-12 if dtype == torch.float64 else 2e-4
                    assert fast.abs().max() > 0.1
                    torch.testing.assert_close(
                        fast, differentiable.detach(), atol=tolerance, rtol=tolerance
                    )
                    alone = getattr(projection(0.5, regularization), face)(x[-1])
                    assert torch.equal(alone, result[-1])


@for_each(regularization=REGULARIZATIONS, face=FACES)
def test_keys_that_are_far_apart_are_in_the_blocks_of_the_compiled_kernels(regularization, face):
    for n, steepness in itertools.product((2, 5, 13), (0.05, 1.5, 1e3)):
        for scale in (1.0, 1e3, 1e20):
            x = (scale * keys(20, n)).requires_grad_()
            kernels = get("permutahedron", steepness=steepness, regularization=regularization)
            definition = replace(kernels, backend="reference")
            (fast, want) = (getattr(sort, face)(x) for sort in (kernels, definition))
            torch.testing.assert_close(fast, want, atol=1e-9 * scale, rtol=1e-9)
            grads = (torch.autograd.grad(y, x, keys(20, n, seed=1))[0] for y in (fast, want))
            torch.testing.assert_close(*grads, atol=1e-9 * max(1, steepness), rtol=1e-9)


def test_the_hard_limit_is_exact():
    for n in (1, 2, 3, 31, 1024):
        for regularization in REGULARIZATIONS:
            x = torch.stack([torch.randperm(n), torch.randperm(n)]).double().requires_grad_()
            x_values = 0.1 * x  # gaps below the steepness
            ranks = projection(1.01, regularization).ranks(x)
            assert torch.equal(ranks.detach(), x.detach() + 1)
            assert torch.autograd.grad(ranks, x, keys(2, n))[0].abs().max() == 0
            sort = projection(0.11, regularization)
            weights = torch.arange(n, dtype=torch.float64)
            values = sort.values(x_values)
            assert torch.equal(values.detach(), x_values.detach().sort(-1)[0])
            assert torch.equal(
                torch.autograd.grad((values * weights).sum(), x_values)[0], x.detach()
            )


@for_each(backend=["cpu", "reference"])
def test_at_a_kink_the_gradient_is_that_of_the_larger_block(backend):
    x = torch.tensor([1.0, 2.0, 9.0], dtype=torch.float64, requires_grad=True)
    ranks = soft_rank(x, "permutahedron", steepness=1.0, backend=backend)
    assert ranks.tolist() == [1.0, 2.0, 3.0]
    assert torch.autograd.grad(ranks[0], x)[0].tolist() == [0.5, -0.5, 0.0]


def test_equal_values_share_their_mean_rank():
    for dtype in (torch.float32, torch.float64):
        for regularization in REGULARIZATIONS:
            x = torch.randint(-3, 4, (5, 12)).to(dtype)
            want = rankdata(x.numpy(), axis=-1)
            for scale in (1.0, 1e30):
                ranks = projection(1e3, regularization).ranks(x * scale)
                np.testing.assert_allclose(
                    ranks, want, rtol=1e-6 if dtype == torch.float32 else 1e-14
                )


def test_float32_of_a_thousand_values_is_right_to_its_last_digits():
    for face in FACES:
        for regularization in REGULARIZATIONS:
            for steepness in (1e-3, 0.1, 10.0):
                x = keys(4, 1024, dtype=torch.float32)
                x.requires_grad_()
                exact = x.detach().double().requires_grad_()
                weights = keys(4, 1024, dtype=torch.float32, seed=1)
                sort = projection(steepness, regularization)
                single, double = (getattr(sort, face)(a) for a in (x, exact))
                assert single.dtype == torch.float32
                assert double.dtype == torch.float64
                torch.testing.assert_close(single.double(), double, rtol=1e-7, atol=1e-6)
                (single,) = torch.autograd.grad(single, x, weights)
                (double,) = torch.autograd.grad(double, exact, weights.double())
                torch.testing.assert_close(
                    single.double(), double, rtol=1e-5, atol=1e-5 * steepness
                )


def test_lists_alone_and_together_are_alike():
    for n in (30, 700):  # sorted by NumPy where there are many short ones, or by their digits
        x = keys(6, n, dtype=torch.float32)
        x[:, 5:9] = torch.tensor([0.5, -0.0, 0.0, 0.5])
        for face in FACES:
            together = getattr(projection(0.3), face)(x)
            for row, alone in zip(x, together, strict=True):
                assert torch.equal(getattr(projection(0.3), face)(row), alone)
            exact = getattr(projection(0.3), face)(x.double())
            torch.testing.assert_close(together.double(), exact, rtol=1e-6, atol=1e-6)


def test_ranks_do_not_see_shifts_and_follow_permutations():
    for regularization in REGULARIZATIONS:
        x = torch.randint(0, 64, (2, 20)).double() / 16
        sort = projection(0.7, regularization)
        order = torch.randperm(20)
        # A multiple of a power of two: the sum is exact.
        torch.testing.assert_close(sort.ranks(x + 2.0**44), sort.ranks(x), rtol=0, atol=1e-12)
        torch.testing.assert_close(sort.ranks(x[:, order]), sort.ranks(x)[:, order])
        torch.testing.assert_close(sort.values(x[:, order]), sort.values(x))


def test_settings_are_checked():
    with pytest.raises(ValueError, match="unknown regularization 'kl'; allowed: entropic, l2"):
        projection(1.0, "kl")
    with pytest.raises(ValueError, match="steepness must be > 0"):
        projection(0.0)


def test_views_that_negate_and_tensors_that_outlived_a_transform():
    """No memory of theirs holds their values: kernels that take addresses would miss them."""
    pairs = torch.view_as_complex(torch.randn(1, 2)).conj()
    kept = []
    torch.func.functionalize(lambda y: kept.append(y * 1) or y.sum())(torch.randn(4))
    for x in (pairs.imag, kept[0]):
        same = torch.from_numpy(x.resolve_neg().numpy().copy())
        for soft in (soft_sort, soft_rank):
            assert torch.equal(soft(x, "permutahedron"), soft(same, "permutahedron"))
            given = same.clone().requires_grad_()
            result = soft(given, "permutahedron")
            [expected] = torch.autograd.grad(result, given, same, retain_graph=True)
            [found] = torch.autograd.grad(result, given, x)
            assert torch.equal(found, expected)
