"""Losses and metrics of sorting, against SciPy, loops over definitions, and all permutations."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats
import torch
from torch.autograd import gradcheck, gradgradcheck

from gendr.distributions import get
from gendr.sorting.losses import (
    element_match,
    exact_match,
    hard_ranks,
    kendall,
    ndcg,
    ndcg_of_ranks,
    permutation_matrix,
    ranking_cross_entropy,
    regrouped,
    spearman,
)

F64 = torch.float64
# With and without ties, several batch dimensions, one element, no list at all.
SHAPES = [(7,), (3, 5), (2, 3, 6), (4, 1), (0, 4)]


def some_values(shape, ties=True):
    return torch.randint(0, 4, shape) if ties else torch.randn(shape, dtype=F64)


def some_p(*shape):
    """Rows that sum to 1, all entries positive."""
    return torch.randn(*shape, dtype=F64).softmax(-1)


def rows(*tensors):
    """The lists of tensors [..., n], as NumPy arrays, side by side."""
    return zip(*(t.detach().reshape(-1, t.shape[-1]).numpy() for t in tensors), strict=True)


# -- ranks and permutations ---------------------------------------------------------------------


def test_ranks_are_those_of_scipy():
    for shape in SHAPES:
        for ties, method in (("average", "average"), ("first", "ordinal")):
            values = some_values(shape)
            ranks = hard_ranks(values, ties)
            assert ranks.shape == values.shape
            assert ranks.dtype == torch.get_default_dtype()
            for mine, row in rows(ranks, values):
                np.testing.assert_array_equal(mine, scipy.stats.rankdata(row, method=method))


def test_permutation_matrix_sorts_and_keeps_the_order_of_ties():
    for shape in SHAPES:
        values = some_values(shape).to(F64)
        q = permutation_matrix(values)
        assert q.shape == (*shape, shape[-1])
        assert q.dtype == F64
        assert set(q.unique().tolist()) <= {0.0, 1.0}
        order = values.sort(dim=-1, stable=True)
        torch.testing.assert_close((q @ values[..., None])[..., 0], order.values, rtol=0, atol=0)
        torch.testing.assert_close(q.argmax(-1), order.indices, rtol=0, atol=0)
        # Ranks have the same permutation as values.
        assert torch.equal(permutation_matrix(hard_ranks(values)), q)


def test_permutation_matrix_of_ties_is_the_mean_over_their_orders():
    values = [2, 1, 2, 0, 2]
    sorts = [
        order
        for order in itertools.permutations(range(5))
        if all(values[i] <= values[j] for i, j in itertools.pairwise(order))
    ]
    mean = torch.zeros(5, 5)
    for order in sorts:
        mean[range(5), list(order)] += 1 / len(sorts)
    assert len(sorts) == 6
    torch.testing.assert_close(permutation_matrix(torch.tensor(values), "average"), mean)


def test_large_integers_do_not_become_ties():
    values = torch.tensor([2**24 + 1, 2**24])  # equal in float32
    assert hard_ranks(values).tolist() == [2, 1]
    assert permutation_matrix(values).tolist() == [[0, 1], [1, 0]]
    assert exact_match(torch.tensor([0.0, 1.0]), values) == 0


# -- matches ------------------------------------------------------------------------------------


def right_elements(scores, values):
    """Element i is right if every rank it may get among the scores is one that it may have."""
    n = len(values)

    def possible(x):
        orders = itertools.permutations(range(n))
        sorted_ones = [o for o in orders if all(x[a] <= x[b] for a, b in itertools.pairwise(o))]
        return [{o.index(i) for o in sorted_ones} for i in range(n)]

    return [a <= b for a, b in zip(possible(scores), possible(values), strict=True)]


def test_matches_by_trying_all_orders():
    for ties in (False, True):
        values = some_values((60, 4), ties)
        scores = torch.where(torch.rand(60, 1) < 0.4, values.to(F64), some_values((60, 4), ties))
        right = [right_elements(s, v) for s, v in rows(scores, values)]
        want = torch.tensor(right, dtype=F64)
        assert 0.1 < float(want.amin(-1).mean()) < 0.9
        torch.testing.assert_close(element_match(scores, values), want.mean(-1))
        torch.testing.assert_close(exact_match(scores, values), want.amin(-1))


def test_constant_scores_match_nothing_and_tied_values_everything():
    scores, values = torch.zeros(3, 5), torch.arange(15.0).reshape(3, 5)
    assert element_match(scores, values).tolist() == [0, 0, 0]
    assert exact_match(values, scores).tolist() == [1, 1, 1]
    assert exact_match(torch.zeros(2, 1), torch.ones(2, 1)).tolist() == [1, 1]
    assert exact_match(torch.zeros(0, 3), torch.ones(0, 3)).shape == (0,)


def test_regrouped_shuffles_pairs():
    scores = torch.randn(4, 6)
    generator = torch.Generator().manual_seed(3)
    new = regrouped(scores, 2 * scores, 5, generator)
    assert new[0].shape == new[1].shape == (4, 5)
    torch.testing.assert_close(new[1], 2 * new[0])
    drawn = new[0].flatten().tolist()
    assert len(set(drawn)) == 20
    assert set(drawn) <= set(scores.flatten().tolist())
    assert drawn != scores.flatten()[:20].tolist()
    again = regrouped(scores, scores, 5, torch.Generator().manual_seed(3))
    assert torch.equal(again[0], new[0])
    assert regrouped(scores, scores, 24)[0].shape == (1, 24)


# -- cross-entropy ------------------------------------------------------------------------------


def test_cross_entropy_by_loops():
    for shape in ((5,), (3, 4), (2, 3, 6), (4, 1)):
        for binary in (False, True):
            values = some_values(shape)
            p, q = some_p(*shape, shape[-1]), permutation_matrix(values)
            n, total = shape[-1], 0.0
            lists = list(zip(p.reshape(-1, n, n).numpy(), q.reshape(-1, n, n).numpy(), strict=True))
            for one_p, one_q in lists:
                for column in range(n):
                    for rank in range(n):
                        a, b = one_p[rank, column], one_q[rank, column]
                        if b:
                            total -= math.log(a)
                        elif binary:
                            total -= math.log(1 - a)
            got = ranking_cross_entropy(p, q, binary=binary)
            assert got.shape == ()
            assert float(got) == pytest.approx(total / len(lists) / n, rel=1e-13)
            each = ranking_cross_entropy(p, q, binary=binary, reduction="none")
            torch.testing.assert_close(each.mean(), got)
            leaf = p.clone().requires_grad_()
            for check in (gradcheck, gradgradcheck):
                assert check(
                    lambda p, q=q, b=binary: ranking_cross_entropy(p, q.double(), binary=b),
                    leaf,
                    fast_mode=True,
                )


# Below which the logarithm goes on as a line.
LEAST = 1e-12


def test_hard_matrices_have_finite_loss_and_gradient():
    for binary in (False, True):
        for dtype in (torch.float32, F64):
            values = torch.arange(4.0, dtype=dtype)
            q = permutation_matrix(values)
            wrong = q.flip(-1).requires_grad_()
            loss = ranking_cross_entropy(wrong, q, binary=binary)
            loss.backward()
            lost = 1 - math.log(LEAST)
            kept = 1 - math.log(torch.finfo(dtype).eps) if binary else 0.0
            assert float(loss.detach()) == pytest.approx(lost + kept, rel=1e-6)
            assert torch.isfinite(wrong.grad).all()
            # Also what has underflowed is pulled to where it should be.
            assert (wrong.grad[q == 1] == -1 / LEAST / 4).all()
            assert float(ranking_cross_entropy(q, q, binary=binary)) == 0
            over = q * (1 + torch.finfo(dtype).eps)  # rounding of a sum
            assert float(ranking_cross_entropy(over, q, binary=binary)) == pytest.approx(
                0, abs=1e-6
            )


def test_the_logarithm_goes_on_smoothly():
    q = torch.ones(1, 1, dtype=F64)

    def loss(x):
        x = torch.full((1, 1), x, dtype=F64, requires_grad=True)
        value = ranking_cross_entropy(x, q)
        (slope,) = torch.autograd.grad(value, x)
        return float(value.detach()), float(slope)

    below, at = loss(LEAST * (1 - 1e-9)), loss(LEAST)
    assert at[0] == pytest.approx(-math.log(LEAST), rel=1e-14)
    assert below[0] == pytest.approx(at[0], rel=1e-9)
    assert below[1] == pytest.approx(at[1], rel=1e-6)
    assert loss(-1e-9)[0] == loss(0.0)[0]  # rounding below 0 costs no more than 0


# -- rank correlations --------------------------------------------------------------------------


def test_spearman_of_hard_ranks_is_that_of_scipy():
    for shape in ((7,), (3, 5), (2, 3, 6)):
        for ties in (False, True):
            x, y = (some_values(shape, ties).double() for _ in range(2))
            x[..., 0], y[..., 0] = -1, 9  # no list is constant
            rho = spearman(hard_ranks(x), y)
            assert rho.shape == shape[:-1]
            for mine, a, b in zip(rho.flatten(), *zip(*rows(x, y), strict=True), strict=True):
                assert float(mine) == pytest.approx(
                    scipy.stats.spearmanr(a, b).statistic, abs=1e-12
                )


def test_kendall_by_loops():
    """Of a hard distribution it is that of statistics: tau a and b, with ties."""
    for dist in ("logistic", "cauchy", "gumbel_max", "heaviside"):
        x, y = torch.randn(4, 5, dtype=F64), some_values((4, 5))
        y[:, 0] = 9
        if dist == "heaviside":
            x = x.round()
            x[:, 0] = -9
            torch.testing.assert_close(kendall(x, y, "logistic", 1e9), kendall(x, y, dist))
            want = [scipy.stats.kendalltau(a, b).statistic for a, b in rows(x, y)]
            np.testing.assert_allclose(kendall(x, y, dist, 2.5, "b"), want, atol=1e-12)
        distribution = get(dist)
        taus = [kendall(x, y, dist, 2.5, variant) for variant in "ab"]
        for tau_a, tau_b, a, b in zip(*taus, *zip(*rows(x, y), strict=True), strict=True):
            pairs = [
                (float(distribution.cdf(d) - distribution.cdf(-d)), np.sign(int(b[i]) - int(b[j])))
                for i, j in itertools.combinations(range(5), 2)
                for d in [torch.tensor(2.5 * (a[i] - a[j]), dtype=F64)]
            ]
            product, soft, hard = (sum(part) for part in zip(
                *((s * t, s * s, t * t) for s, t in pairs), strict=True
            ))  # fmt: skip
            assert float(tau_a) == pytest.approx(product / 10, abs=1e-12)
            assert float(tau_b) == pytest.approx(product / math.sqrt(soft * hard), abs=1e-12)


def test_constant_lists_have_no_correlation_and_no_gradient():
    y = torch.arange(4.0)
    for x, values in ((torch.full((4,), 0.1), y), (y, torch.zeros(4)), (y[:1], y[:1])):
        for function in (
            spearman,
            lambda x, y: kendall(x, y, variant="a"),
            lambda x, y: kendall(x, y, variant="b"),
        ):
            leaf = x.clone().requires_grad_()
            value = function(leaf, values)
            value.backward()
            assert torch.isfinite(leaf.grad).all()
            assert float(value.detach()) == 0
    # Ranks that are equal but for rounding are equal.
    assert float(spearman(torch.tensor([2.5, 2.5000002, 2.5, 2.4999998]), y)) == 0


def test_correlation_gradients():
    y = some_values((2, 5))
    y[:, 0] = 9
    x = torch.randn(2, 5, dtype=F64, requires_grad=True)
    steepness = torch.tensor(1.5, dtype=F64, requires_grad=True)
    for check in (gradcheck, gradgradcheck):
        assert check(lambda x: spearman(x, y), x)
        for variant in "ab":
            assert check(lambda x, s, v=variant: kendall(x, y, "cauchy", s, v), (x, steepness))


# -- NDCG ---------------------------------------------------------------------------------------


def dcg(grades, k, gain):
    worth = (lambda g: 2.0**g - 1) if gain == "exponential" else float
    return sum(worth(g) / math.log2(1 + rank) for rank, g in enumerate(grades[:k], 1))


def test_hard_ndcg_by_loops():
    for gain in ("exponential", "linear"):
        for k in (None, 1, 3, 9):
            scores, grades = torch.randn(4, 3, 5, dtype=F64), some_values((4, 3, 5))
            grades[..., 0] = 1
            found = ndcg(permutation_matrix(-scores), grades, k, gain, descending=True)
            assert found.shape == (4, 3)
            for mine, s, g in zip(
                found.flatten(), *zip(*rows(scores, grades), strict=True), strict=True
            ):
                ordered = g[np.argsort(-s)].tolist()
                want = dcg(ordered, k, gain) / dcg(sorted(g.tolist(), reverse=True), k, gain)
                assert float(mine) == pytest.approx(want, rel=1e-12)
            if k is None:
                ranks = hard_ranks(-scores)
                torch.testing.assert_close(
                    ndcg_of_ranks(ranks, grades, gain, descending=True), found
                )


def test_ndcg_of_tied_scores_is_the_mean_over_their_orders():
    scores, grades = torch.tensor([1.0, 3.0, 1.0, 1.0]), torch.tensor([2, 0, 1, 0])
    found = ndcg(permutation_matrix(-scores.double(), "average"), grades, 3, descending=True)
    best = dcg([2, 1, 0, 0], 3, "exponential")
    each = [dcg([0, *x], 3, "exponential") / best for x in itertools.permutations([2, 1, 0])]
    assert float(found) == pytest.approx(np.mean(each), rel=1e-12)


def test_nothing_relevant_is_worth_nothing():
    p = some_p(2, 3, 3).requires_grad_()
    grades = torch.tensor([[0, 0, 0], [0, 0, 1]])
    found = ndcg(p, grades, descending=True)
    found.sum().backward()
    assert found[0].item() == 0 < found[1].item()
    assert (p.grad[0] == 0).all()
    assert float(ndcg_of_ranks(torch.ones(3), grades[0], descending=True)) == 0
    assert ndcg(torch.zeros(0, 3, 3), torch.zeros(0, 3), descending=True).shape == (0,)


def test_ndcg_gradients():
    grades = some_values((2, 4))
    grades[:, 0] = 2
    p, ranks = some_p(2, 4, 4).requires_grad_(), (1 + 3 * torch.rand(2, 4, dtype=F64))
    ranks.requires_grad_()
    for gain in ("exponential", "linear"):
        assert gradcheck(lambda p, gain=gain: ndcg(p, grades, 3, gain, descending=True), p)
        assert gradcheck(
            lambda r, gain=gain: ndcg_of_ranks(r, grades, gain, descending=True), ranks
        )
        assert gradgradcheck(
            lambda r, gain=gain: ndcg_of_ranks(r, grades, gain, descending=True), ranks
        )


# -- what is refused ----------------------------------------------------------------------------

X, P = torch.arange(3.0), torch.eye(3)
BAD = {
    "array": (lambda: hard_ranks(X.numpy()), TypeError, "values must be a torch.Tensor"),
    "complex": (lambda: hard_ranks(X.to(torch.complex64)), TypeError, "values must be real"),
    "number": (lambda: permutation_matrix(X[0]), ValueError, r"values must have shape \[..., n\]"),
    "empty": (lambda: permutation_matrix(X[:0]), ValueError, r"n >= 1, got \[0\]"),
    "nan": (lambda: exact_match(X * float("nan"), X), ValueError, "scores must be finite"),
    "nan values": (lambda: spearman(X, X / 0), ValueError, "values must be finite"),
    "ties": (lambda: hard_ranks(X, "min"), ValueError, "unknown ties 'min'"),
    "lengths": (lambda: element_match(X, X[:2]), ValueError, r"one shape, got \[3\] and \[2\]"),
    "few": (lambda: regrouped(X, X, 5), ValueError, "lists of 5 need as many predictions, got 3"),
    "size": (lambda: regrouped(X, X, 0), ValueError, "size must be >= 1"),
    "values": (lambda: ranking_cross_entropy(P, X), ValueError, "permutation_matrix"),
    "square": (lambda: ranking_cross_entropy(P[:2], P[:2]), ValueError, r"\[..., n, n\]"),
    "integers": (lambda: ranking_cross_entropy(P.long(), P), TypeError, "p must be float32"),
    "distribution": (lambda: kendall(X, X, "logistik"), ValueError, "logistik"),
    "steepness": (lambda: kendall(X, X, steepness=0.0), ValueError, "steepness must be > 0"),
    "variant": (lambda: kendall(X, X, variant="c"), ValueError, "unknown variant 'c'"),
    "grades": (lambda: ndcg(P, -X, descending=True), ValueError, "relevance must be >= 0, got -2"),
    "grades of": (
        lambda: ndcg(P, X[:2], descending=True),
        ValueError,
        r"relevance must have shape \[3\]",
    ),
    "gain": (lambda: ndcg(P, X, gain="log", descending=True), ValueError, "unknown gain 'log'"),
    "k": (lambda: ndcg(P, X, 0, descending=True), ValueError, "k must be >= 1"),
    "ranks": (lambda: ndcg_of_ranks(X, X, descending=True), ValueError, "ranks must be > 0, got 0"),
}


def test_bad_input_is_named_in_one_line():
    for name in BAD:
        call, kind, words = BAD[name]
        with pytest.raises(kind, match=words) as caught:
            call()
        assert "\n" not in str(caught.value)
