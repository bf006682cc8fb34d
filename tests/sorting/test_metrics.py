"""Metrics of rankings against scikit-learn, SciPy, and the mean of loops over orders of ties."""

import math
from itertools import pairwise, permutations

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.metrics import average_precision_score, ndcg_score

from gendr.sorting import metrics
from support.cases import for_each

BY_RANK = ("ndcg", "precision", "recall", "average_precision", "reciprocal_rank")
ALL = (*BY_RANK, "spearman", "kendall")


def lists(*shape, ties=False, seed=0):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(*shape, dtype=torch.float64, generator=generator)
    scores = scores.round() if ties else scores
    return scores, torch.randint(4, shape, generator=generator)


def of_order(name, grades, k):
    """A metric of targets in this order."""
    n, hits = len(grades), [g > 1 for g in grades]
    if name == "ndcg":
        dcg = lambda order: sum((2**g - 1) / math.log2(2 + i) for i, g in enumerate(order[:k]))  # noqa: E731
        best = dcg(sorted(grades, reverse=True))
        return dcg(grades) / best if best else 0.0
    if name == "precision":
        return sum(hits[:k]) / (k or n)
    if name == "recall":
        return sum(hits[:k]) / max(1, sum(hits))
    if name == "average_precision":
        parts = [sum(hits[: i + 1]) / (i + 1) for i in range(n)[:k] if hits[i]]
        return sum(parts) / max(1, min(sum(hits), k or n))
    return next((1 / (i + 1) for i in range(n)[:k] if hits[i]), 0.0)


@for_each(name=BY_RANK, k=[None, 1, 3, 9])
def test_they_are_the_mean_over_all_orders_of_ties(name, k):
    scores, grades = lists(12, 5, ties=True)
    scores[0], grades[1], grades[2] = 0.0, 0, 3
    more = {} if name == "ndcg" else {"threshold": 1.0}
    found = getattr(metrics, name)(scores, grades, k, **more)
    for s, g, got in zip(scores.tolist(), grades.tolist(), found.tolist(), strict=True):
        orders = [o for o in permutations(range(5)) if all(s[a] >= s[b] for a, b in pairwise(o))]
        want = sum(of_order(name, [g[i] for i in order], k) for order in orders) / len(orders)
        assert got == pytest.approx(want, abs=1e-12)


def test_other_packages():
    scores, grades = lists(8, 9, ties=True)
    for k in (None, 4):
        want = [ndcg_score(g[None], s[None], k=k) for s, g in zip(scores, grades, strict=True)]
        found = metrics.ndcg(scores, grades, k, gain="linear")
        torch.testing.assert_close(found, torch.tensor(want, dtype=torch.float64))
    distinct, _ = lists(8, 9)
    found = metrics.average_precision(distinct, grades, threshold=1.0)
    want = [average_precision_score(g > 1, s) for s, g in zip(distinct, grades, strict=True)]
    torch.testing.assert_close(found, torch.tensor(want, dtype=torch.float64))
    for n in (5, 9, 40, 333):
        scores, grades = lists(3, n, ties=n > 9)
        for name, theirs in (("kendall", stats.kendalltau), ("spearman", stats.spearmanr)):
            pairs = zip(scores.tolist(), grades.tolist(), strict=True)
            want = torch.tensor([theirs(*pair)[0] for pair in pairs], dtype=torch.float64)
            torch.testing.assert_close(getattr(metrics, name)(scores, grades), want)
    assert metrics.kendall(torch.zeros(3), torch.arange(3)).item() == 0
    s, g = lists(30)
    pairs = [((s[i] - s[j]) * (g[i] - g[j])).sign() for i in range(30) for j in range(i)]
    assert metrics.kendall(s, g, "a").item() == pytest.approx(sum(pairs).item() / 435)


@for_each(masked=[False, True], n=[1, 7, 700])
def test_a_kernel_finds_spearman_of_floats_as_operators_that_of_grades(masked, n):
    scores, grades = lists(5, n, ties=True)
    scores[:, 0] = 9.0
    mask = torch.rand(5, n, generator=torch.Generator().manual_seed(1)) < 0.6 if masked else None
    if mask is not None:
        mask[:, 0] = True
    want = metrics.spearman(scores, grades, mask=mask)
    for dtype in (torch.float32, torch.float64):
        x = scores.to(dtype)
        x[:, 0] = torch.finfo(dtype).max  # equal to what stands for absent ones
        found = metrics.spearman(x, grades.to(dtype), mask=mask)
        torch.testing.assert_close(found, want.to(dtype))


@for_each(n=[50, 599, 601, 5000])  # from 600 on, keys of float32 are sorted by their digits
def test_keys_that_differ_in_all_their_digits(n):
    x = np.random.default_rng(n).standard_normal((2, n)).astype(np.float32)
    x[1] *= np.float32(1e-40)
    target = torch.arange(n, dtype=torch.float32).expand(2, n)
    want = [stats.spearmanr(row, np.arange(n)).statistic for row in x]
    np.testing.assert_allclose(metrics.spearman(torch.from_numpy(x), target), want, atol=1e-6)


@for_each(name=ALL)
def test_masks_and_queries_are_lists_of_their_own(name):
    metric, (scores, grades) = getattr(metrics, name), lists(5, 7, ties=True)
    mask = torch.rand(5, 7, generator=torch.Generator().manual_seed(1)) < 0.6
    mask[2], mask[3] = False, True
    want = torch.stack([
        metric(s[m], g[m]) if m.any() else torch.zeros((), dtype=torch.float64)
        for s, g, m in zip(scores, grades, mask, strict=True)
    ])  # fmt: skip
    absent = scores.masked_fill(~mask, torch.nan), grades.masked_fill(~mask, -7)
    torch.testing.assert_close(metric(*absent, mask=mask), want)
    queries = torch.arange(5)[:, None].expand(5, 7) * 10 - 3
    mixed = torch.randperm(35, generator=torch.Generator().manual_seed(2))
    flat = [x.flatten()[mixed] for x in (scores, grades, queries, mask)]
    s, g, q, m = flat
    here = mask.any(-1)
    torch.testing.assert_close(metric(s[m], g[m], indexes=q[m]), want[here])
    torch.testing.assert_close(metric(s, g, indexes=q, mask=m), want)
    assert metric(scores.float(), grades).dtype == torch.float32
    assert metric(scores.half(), grades.bool()).dtype == torch.float16
    alone = torch.func.vmap(lambda s, g, m: metric(s, g, mask=m))(scores, grades, mask)
    torch.testing.assert_close(alone, want)
    assert metric(scores[:0], grades[:0]).shape == (0,)


def test_bad_input_is_refused():
    scores, grades = lists(4, 5)
    for call, error, said in (
        (lambda: metrics.ndcg(scores, grades - 9), ValueError, "relevance must be >= 0"),
        (lambda: metrics.recall(scores, grades, 0), ValueError, "k must be >= 1"),
        (lambda: metrics.kendall(scores, grades, "c"), ValueError, "unknown variant"),
        (lambda: metrics.spearman(scores * torch.nan, grades), ValueError, "scores must be finite"),
        (lambda: metrics.precision(scores, grades[:, :4]), ValueError, "one shape"),
        (lambda: metrics.ndcg(scores, grades, indexes=grades[0]), ValueError, "indexes must have"),
        (lambda: metrics.ndcg(scores, grades, indexes=scores), TypeError, "indexes must hold int"),
    ):
        with pytest.raises(error, match=said):
            call()
