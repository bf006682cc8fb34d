"""Sinkhorn sort, against the paper's iterations in NumPy, conditions of optimality, assignment."""

import warnings

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp
from scipy.stats import rankdata

from gendr.sorting import get
from support.cases import for_each


def keys(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def difficult(n):
    """Batches [B, n] in which plain iterations crawl or a careless Newton step diverges."""
    g = keys(4, n)
    yield g
    yield torch.tan(3.1415 * (torch.rand(4, n, dtype=torch.float64) - 0.5))
    yield (2 * g).round()
    yield torch.zeros(1, n, dtype=torch.float64)
    half = n // 2
    yield torch.cat([0.01 * g[:, :half], 1 + 0.01 * g[:, half:]], -1)
    yield torch.cat([0.001 * g[:, :half], 1 + 100 * g[:, half:].abs()], -1)
    yield torch.cat([0.01 * g[:, 1:], torch.full((4, 1), 5.0, dtype=torch.float64)], -1)
    yield torch.exp(3 * g)


def sinkhorn(steepness, **settings):
    return get("sinkhorn", steepness=steepness, **settings)


def dense_sinkhorn(x, epsilon, sweeps):
    """Cuturi et al. for one vector in [0, 1]: n times the plan [anchor, input], in log domain."""
    n = len(x)
    anchors = np.arange(n) / (n - 1)
    cost = (x[:, None] - anchors) ** 2
    alpha, beta, log_mass = np.zeros(n), np.zeros(n), -np.log(n)
    for _ in range(sweeps):
        alpha = epsilon * (log_mass - logsumexp((beta - cost) / epsilon, axis=1))
        beta = epsilon * (log_mass - logsumexp((alpha[:, None] - cost) / epsilon, axis=0))
    return n * np.exp((alpha[:, None] + beta - cost) / epsilon).T


@for_each("n, epsilon", [(3, 0.2), (6, 0.1), (9, 0.05)])
def test_the_plan_is_that_of_the_paper(n, epsilon):
    x = keys(n, seed=n)
    squashed = torch.sigmoid((x - x.mean()) / x.std())
    sort = sinkhorn(1 / (epsilon * (n - 1)), tolerance=1e-12)
    want = dense_sinkhorn(squashed.numpy(), epsilon, 3000)
    np.testing.assert_allclose(sort.permutation(squashed), want, atol=1e-9)
    np.testing.assert_allclose(
        sort.carried(squashed, x[:, None])[:, 0], want @ x.numpy(), atol=1e-9
    )
    np.testing.assert_allclose(sort.ranks(squashed), np.arange(1, n + 1) @ want, atol=1e-8)


def test_the_plan_is_doubly_stochastic_and_optimal():
    for steepness in (1e-3, 1.0, 10.0, 1e4):
        for n in (2, 5, 40):
            for x in difficult(n):
                p = sinkhorn(steepness, iterations=12).permutation(x)
                assert p.min() >= 0
                assert (p.sum(-1) - 1).abs().max() < 1e-12
                assert (p.sum(-2) - 1).abs().max() <= 1e-8
                # Optimal plans are exp(2 steepness x_i j) times factors of rows and columns: these
                # cancel in odds ratios of neighbouring ranks, and of neighbours in sorted order.
                order = x.argsort(-1)
                sorted_p = p.gather(-1, order[:, None].expand_as(p))
                known = (sorted_p > 1e-20).double()
                odds = sorted_p.clamp(min=1e-20).log().diff(dim=-1).diff(dim=-2)
                known = (
                    known[:, 1:, 1:] * known[:, :-1, 1:] * known[:, 1:, :-1] * known[:, :-1, :-1]
                )
                want = 2 * steepness * x.gather(-1, order).diff(dim=-1)[:, None]
                assert ((odds - want) * known).abs().max() < 1e-7


def test_the_hard_limit_is_the_assignment():
    for n in (1, 2, 7, 40):
        x = 10 * keys(n, seed=2)
        p = sinkhorn(1e6).permutation(x)
        ranks = np.arange(1, n + 1)
        rows, columns = linear_sum_assignment((x.numpy() - ranks[:, None]) ** 2)
        want = np.zeros((n, n))
        want[rows, columns] = 1
        np.testing.assert_allclose(p, want, atol=1e-8)
        torch.testing.assert_close(sinkhorn(1e6).values(x), x.sort()[0])


def test_equal_values_have_equal_columns_and_share_their_mean_rank():
    x = torch.randint(-2, 3, (4, 9)).double()
    for scale in (1.0, 1e30):
        p = sinkhorn(1e4).permutation(x * scale)
        same = x[:, None] == x[..., None]
        gaps = (p[:, :, None] - p[..., None]).abs().amax(1)
        assert (gaps * same).max() < 1e-9
        ranks = sinkhorn(1e4).ranks(x * scale)
        np.testing.assert_allclose(ranks, rankdata(x.numpy(), axis=-1), atol=1e-7)


def test_shifts_change_nothing_and_scales_trade_with_the_steepness():
    x = torch.randint(0, 64, (3, 8)).double() / 16
    p = sinkhorn(2.0).permutation(x)
    torch.testing.assert_close(sinkhorn(2.0).permutation(x + 2.0**40), p, rtol=0, atol=1e-12)
    torch.testing.assert_close(sinkhorn(0.5).permutation(4 * x), p, rtol=0, atol=1e-12)
    slopes = []
    for offset in (0.0, 2.0**40):
        s = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
        slopes += torch.autograd.grad(sinkhorn(s).ranks(x + offset)[:, 0].sum(), s)
    torch.testing.assert_close(slopes[0], slopes[1], rtol=1e-9, atol=0)


@for_each(
    "n, steepness",
    [(2, 1.0), (6, 0.2), (6, 8.0)],
    face=["permutation", "values", "ranks"],
    rotating=3,
)
def test_first_and_second_derivatives(n, steepness, face):
    x = keys(1, n, seed=1).requires_grad_()
    s = torch.tensor(steepness, dtype=torch.float64, requires_grad=True)

    def call(x, s):
        return getattr(sinkhorn(s, tolerance=1e-12), face)(x)

    assert torch.autograd.gradcheck(call, (x, s), fast_mode=True)
    assert torch.autograd.gradgradcheck(call, (x, s), atol=1e-5, fast_mode=True)


def test_a_warning_says_how_far_off_it_stopped():
    x = keys(2, 16)
    sort = sinkhorn(10.0, iterations=1)
    with pytest.warns(RuntimeWarning, match=r"stopped after 1 iterations") as caught:
        p = sort.permutation(x)
    off = (p.sum(-2) - 1).abs().max().item()
    assert f"about {off:.0e} off 1" in str(caught[0].message)
    assert off > sort.tolerance
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sinkhorn(10.0, iterations=1, tolerance=0.5).permutation(x)


def test_settings_are_checked():
    for settings, message in (
        ({"iterations": 0}, "iterations must be >= 1"),
        ({"tolerance": 0.0}, "tolerance must be > 0"),
        ({"steepness": -1.0}, "steepness must be > 0"),
    ):
        with pytest.raises(ValueError, match=message):
            get("sinkhorn", **settings)
