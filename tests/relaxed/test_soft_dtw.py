"""Soft-DTW against all alignments, one by one; bands, divergence, barycentres."""

from functools import cache

import pytest
import torch
from torch.testing import assert_close

from gendr.relaxed import (
    dynamic_time_warping,
    soft_dtw,
    soft_dtw_alignment,
    soft_dtw_barycenter,
    warping_of_costs,
)
from support.graphs import assert_graph

D = torch.float64


@cache
def alignments(n, m):
    """All monotonic paths from (0, 0) to (n - 1, m - 1)."""
    if n == m == 1:
        return [[(0, 0)]]
    before = [(n - 1, m), (n, m - 1), (n - 1, m - 1)]
    return [[*p, (n - 1, m - 1)] for i, j in before if i and j for p in alignments(i, j)]


def brute(a, b, gamma, band=None):
    """The soft distance and the expected alignment, by their definitions."""
    n, m = len(a), len(b)
    costs = (a[:, None] - b).square()
    low, high = min(0, m - n), max(0, m - n)
    paths = [
        p for p in alignments(n, m)
        if band is None or all(low - band <= j - i <= high + band for i, j in p)
    ]  # fmt: skip
    totals = torch.stack([torch.stack([costs[i, j] for i, j in p]).sum() for p in paths])
    shares, expected = torch.softmax(-totals / gamma, 0), torch.zeros(n, m, dtype=D)
    for share, path in zip(shares, paths, strict=True):
        for i, j in path:
            expected[i, j] += share
    return -gamma * torch.logsumexp(-totals / gamma, 0), expected


def pair(n, m, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(n, dtype=D, generator=g), torch.randn(m, dtype=D, generator=g)


def test_it_is_the_soft_minimum_over_all_alignments():
    for n, m in ((1, 1), (1, 4), (4, 4), (5, 3)):
        a, b = pair(n, m)
        for gamma in (0.01, 0.5, 20.0):
            for band in (None, 0, 1):
                for backend in ("auto", "reference"):
                    value, expected = brute(a, b, gamma, band)
                    assert_close(soft_dtw(a, b, gamma, band=band, backend=backend), value)
                    found = soft_dtw_alignment(a, b, gamma, band=band, backend=backend)
                    assert_close(found, expected, rtol=1e-7, atol=1e-9)


def test_sums_have_the_range_of_their_logarithms():
    """Of 500 steps, where products of 128 exponentials would overflow, and vanish."""
    a, b = pair(250, 260)
    costs = (a[:, None] - b).square()
    for gamma in (1e-18, 1e-3, 1e6):
        value = torch.full((251, 261), torch.inf, dtype=D)
        value[0, 0] = 0
        for k in range(2, 511):
            i = torch.arange(max(1, k - 260), min(250, k - 1) + 1)
            j = k - i
            ways = torch.stack([value[i - 1, j], value[i, j - 1], value[i - 1, j - 1]])
            least = ways.amin(0)
            rest = (-(ways - least) / gamma).exp().sum(0).log()
            value[i, j] = costs[i - 1, j - 1] + least - gamma * rest
        assert_close(soft_dtw(a, b, gamma), value[-1, -1], rtol=1e-12, atol=1e-12)
    far = lambda x, y: torch.where(torch.eye(9, dtype=torch.bool), 1.0, torch.inf)  # noqa: E731
    assert soft_dtw(a[:9], b[:9], 0.5, cost=far).item() == 9
    never = lambda x, y: torch.full((9, 9), torch.inf)  # noqa: E731
    assert soft_dtw(a[:9], b[:9], 0.5, cost=never).item() == torch.inf


def test_gamma_zero_is_the_cheapest_path():
    a, b = pair(5, 4)
    costs = (a[:, None] - b).square()
    least = min(sum(costs[i, j] for i, j in p) for p in alignments(5, 4))
    assert_close(soft_dtw(a, b, 0.0), least)
    path = soft_dtw_alignment(a, b, 0.0)
    assert {*path.flatten().tolist()} == {0.0, 1.0}
    assert_close((path * costs).sum(), least)
    same = torch.zeros(2, dtype=D)  # of equal ways, the mean
    assert_close(soft_dtw_alignment(same, same, 0.0).sum(0) * 3, torch.tensor([4.0, 4.0], dtype=D))


def test_pairs_features_and_costs_of_ones_own():
    g = torch.Generator().manual_seed(0)
    a, b = torch.randn(3, 5, 2, dtype=D, generator=g), torch.randn(4, 6, 2, dtype=D, generator=g)
    every = soft_dtw(a[:, None], b[None], 0.5, features=True)
    assert every.shape == (3, 4)
    assert_close(every[1, 2], soft_dtw(a[1], b[2], 0.5, features=True))

    def mine(x, y):
        return (x[..., :, None, :] - y[..., None, :, :]).square().sum(-1)

    assert_close(soft_dtw(a[:, None], b[None], 0.5, features=True, cost=mine), every)
    lengths = torch.tensor([5, 3, 4]), torch.tensor([6, 2, 6])
    ragged = soft_dtw(a, b[:3], 0.5, features=True, lengths=lengths, normalize=True)
    assert_close(ragged[1], soft_dtw(a[1, :3], b[1, :2], 0.5, features=True, normalize=True))


def test_what_lies_beyond_a_length_is_never_read():
    """Of one sequence against several, with NaN there, as tslearn fills up."""
    (a, _), b = pair(5, 4), torch.randn(3, 6, dtype=D)
    a[4], b[1, 2:] = torch.nan, torch.nan
    lengths = torch.tensor(4).expand(3), torch.tensor([6, 2, 5])
    for sequence in (a, b):
        sequence.requires_grad_()
    for settings in ({}, {"normalize": True}):
        found = soft_dtw(a, b, 0.5, lengths=lengths, **settings)
        assert_close(found[1], soft_dtw(a[:4], b[1, :2], 0.5, **settings))
        for slope in torch.autograd.grad(found.sum(), (a, b)):
            assert slope.isfinite().all()
    with pytest.raises(ValueError, match="shape of the batch"):
        soft_dtw(a, b, lengths=(torch.ones(2, dtype=torch.long), lengths[1]))


def test_the_divergence_is_zero_where_both_are_one():
    a, b = pair(6, 5)
    assert soft_dtw(a, a, 1.0) < 0
    assert_close(soft_dtw(a, a, 1.0, normalize=True), torch.zeros((), dtype=D))
    assert soft_dtw(a, b, 1.0, normalize=True) > 0


def test_gradients():
    a, b = (x.requires_grad_() for x in pair(4, 5))
    for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        assert check(lambda a, b: soft_dtw(a, b, 0.7, band=1), (a, b))
    assert torch.autograd.gradcheck(lambda a, b: soft_dtw_alignment(a, b, 0.7), (a, b))
    assert torch.autograd.gradcheck(lambda a, b: soft_dtw(a, b, 0.7, normalize=True), (a, b))


@pytest.mark.rotating(7, group="graphs")
@pytest.mark.graphs
def test_the_alignment_is_one_graph():
    a, b = (x.requires_grad_() for x in pair(3, 4))
    assert_graph(soft_dtw_alignment, (a, b, 0.7), fullgraph=True, backend="aot_eager")


def test_a_barycentre_is_better_than_its_sequences():
    g = torch.Generator().manual_seed(0)
    given = [torch.randn(n, dtype=D, generator=g).cumsum(0) for n in (20, 20, 17)]
    weights = torch.tensor([1.0, 2.0, 1.0])

    def loss(z):
        each = torch.stack([soft_dtw(z, x, 0.5) / len(x) for x in given])
        return (weights.double() * each).sum() / weights.sum()

    z = soft_dtw_barycenter(given, weights.tolist(), 0.5)
    assert all(loss(z) < loss(x) for x in given)
    z.requires_grad_()
    (slope,) = torch.autograd.grad(loss(z), z)
    assert slope.abs().max() < 1e-3
    stack = torch.stack(given[:2])
    assert_close(soft_dtw_barycenter(stack), soft_dtw_barycenter(given[:2]))
    with torch.inference_mode():
        again = soft_dtw_barycenter([x.clone() for x in given], weights.tolist(), 0.5)
        path = soft_dtw_alignment(given[0].clone(), given[1], 0.5)
    assert_close(again, z.detach())
    assert_close(path, soft_dtw_alignment(given[0], given[1], 0.5))
    assert soft_dtw_barycenter(stack.bfloat16()).dtype == torch.bfloat16


def test_half_precision_and_nan():
    a, b = (x.to(torch.float16) for x in pair(5, 4))
    assert soft_dtw(a, b, 1.0, normalize=True).dtype == torch.float16
    assert soft_dtw_alignment(a, b, 1.0).dtype == torch.float16
    lost = torch.stack([a.float(), a.float() * torch.nan])
    assert soft_dtw(lost, b.float(), check=False).isnan().tolist() == [False, True]


REFUSED = [
    (lambda a, b: soft_dtw(a, b, -1.0), "gamma must be >= 0"),
    (lambda a, b: soft_dtw(a, b, band=-1), "band must be >= 0"),
    (lambda a, b: soft_dtw(a, b, cost=lambda x, y: x), "cost must return"),
    (lambda a, b: soft_dtw(a, b, band=1, lengths=(torch.tensor(1), torch.tensor(1))), "together"),
    (lambda a, b: soft_dtw(a * torch.nan, b), "a "),
    # Sums of costs that overflow: one distance was inf, the other NaN.
    (lambda a, b: soft_dtw(a.float() * 1e30, b.float()), "sums of costs must be finite"),
    (lambda a, b: dynamic_time_warping(a.float() * 1e30, b.float()), "give them in float64"),
    (lambda a, b: warping_of_costs(a[:, None].float() * 1e38), "sums of costs must be finite"),
    (lambda a, b: soft_dtw_barycenter([]), "at least one"),
    (lambda a, b: soft_dtw_barycenter([a, b * torch.nan]), "sequence must be finite"),
    (lambda a, b: soft_dtw_barycenter([a, b], init=b * torch.nan), "init must be finite"),
    (lambda a, b: soft_dtw_barycenter([a[0], b]), r"must have shape \[n\], got \[\]"),
    (lambda a, b: soft_dtw_barycenter([a[:, None], b]), r"must have shape \[n\], got \[4, 1\]"),
    (lambda a, b: soft_dtw_barycenter([a[None], b[None]], features=True), "with c = 4"),
    (lambda a, b: soft_dtw(a[None], a[None], cost="cityblock", features=True), "unknown cost"),
    (lambda a, b: soft_dtw_barycenter([a, b], torch.tensor([1.0, -1.0])), "weights must be 2"),
]


def test_bad_input_is_refused():
    for call, said in REFUSED:
        with pytest.raises(ValueError, match=said):
            call(*pair(4, 3))
