"""Losses of rankings against loops over the formulas, in the right direction, with masks."""

import math
from copy import copy
from functools import partial

import pytest
import torch
from torch.autograd import gradcheck

from gendr.sorting import (
    ApproxNDCG,
    KendallLoss,
    LambdaLoss,
    ListMLE,
    ListNet,
    MAPLoss,
    MRRLoss,
    NDCGLoss,
    OrdinalLoss,
    RankNet,
    SpearmanLoss,
    losses,
    metrics,
)
from support.cases import for_each
from support.graphs import assert_graph

SHARP = {"steepness": 1e4}
KINDS = {
    "ndcg": NDCGLoss(steepness=1.0),
    "ndcg, k": NDCGLoss("odd_even", k=2, gain="linear"),
    "ndcg of ranks": NDCGLoss("permutahedron", steepness=0.5),
    "map": MAPLoss(threshold=1.0, steepness=1.0),
    "spearman": SpearmanLoss("sinkhorn", steepness=1.0),
    "kendall": KendallLoss(steepness=1.0, variant="b"),
    "mle": ListMLE(),
    "mle, k": ListMLE(k=2),
    "lambda": LambdaLoss(),
    "lambda, k": LambdaLoss(k=2, mu=0.0, sigma=2.0),
    "mrr": MRRLoss(threshold=1.0, steepness=1.0),
    "net": ListNet(),
    "pairs": RankNet(2.0),
    "approx": ApproxNDCG(steepness=2.0),
    "approx, cauchy": ApproxNDCG("cauchy", 2.0, "linear"),
}


def lists(*shape, seed=0):
    """Scores without ties, and grades 0 .. 3."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(*shape, dtype=torch.float64, generator=generator)
    return scores, torch.randint(4, shape, generator=generator)


@for_each(kind=KINDS, rotating=4)
def test_every_loss_falls_along_its_gradient_towards_the_true_order(kind):
    """The direction: better scores cost less, and a step downhill improves the hard NDCG."""
    loss, (scores, grades) = KINDS[kind], lists(8, 5)
    right, wrong = loss(grades.double(), grades), loss(-grades.double(), grades)
    assert right < wrong
    x = scores.clone().requires_grad_()
    for _ in range(30):
        (gradient,) = torch.autograd.grad(loss(x, grades), x)
        x = (x - 16 * gradient).detach().requires_grad_()

    def hard(x):
        matrix = losses.permutation_matrix(x.detach())
        return losses.ndcg(matrix, grades, descending=False).mean()

    assert hard(x) > hard(scores) + 0.03


@for_each(kind=KINDS)
def test_masks_and_reductions(kind):
    loss, (scores, grades) = KINDS[kind], lists(4, 5)
    mask = torch.tensor([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 1, 0, 1, 1]]).bool()
    x = scores.masked_fill(~mask, torch.nan).requires_grad_()
    loss.reduction = "none"
    try:
        each = loss(x, grades.double().masked_fill(~mask, -torch.inf), mask)
        want = [loss(x[i, here], grades[i, here]) if here.any() else x.new_zeros(())
                for i, here in enumerate(mask)]  # fmt: skip
        torch.testing.assert_close(each, torch.stack(want))
        got, wanted = (torch.autograd.grad(y.sum(), x)[0] for y in (each, torch.stack(want)))
        torch.testing.assert_close(got, wanted)
        assert (got[~mask] == 0).all()
        queries = torch.tensor([7, -2, 0, 3])[:, None].expand_as(mask)
        mixed = torch.randperm(20)
        parts = [y.flatten()[mixed] for y in (x, grades, mask, queries)]
        flat = loss(*parts[:2], mask=parts[2], indexes=parts[3])
        torch.testing.assert_close(flat, each[[1, 2, 3, 0]])
        here = parts[2]
        flat = loss(parts[0][here], parts[1][here], indexes=parts[3][here])
        torch.testing.assert_close(flat, each[[2, 3, 0]])
        loss.reduction = "sum"
        torch.testing.assert_close(loss(x, grades, mask), each.sum())
        loss.reduction = "mean"
        torch.testing.assert_close(loss(x, grades, mask), each.sum() / 3)
        torch.testing.assert_close(loss(scores, grades), loss(scores, grades, mask | True))
    finally:
        loss.reduction = "mean"


@for_each(kind=[kind for kind in KINDS if kind not in ("ndcg of ranks", "spearman")])
def test_gradients(kind):
    scores, grades = lists(3, 5)
    mask = torch.tensor([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]]).bool()
    for m in (None, mask):
        loss = lambda x, m=m: KINDS[kind](x, grades, m)  # noqa: E731
        assert gradcheck(loss, scores.requires_grad_(), fast_mode=True)
    sure = torch.func.grad(lambda x: KINDS[kind](x, grades))(scores.detach())
    torch.testing.assert_close(sure, torch.autograd.grad(KINDS[kind](scores, grades), scores)[0])


def test_correlations_of_close_scores_keep_their_digits():
    """They have no scale, but differences of float32 ranks and tails would have few digits."""
    scores, grades = lists(20, 7)
    for loss in (SpearmanLoss(), SpearmanLoss("permutahedron"), KendallLoss(variant="b")):
        x = (1e-7 * scores).float().requires_grad_()
        wide = x.detach().double().requires_grad_()
        found, want = loss(x, grades), loss(wide, grades)
        torch.testing.assert_close(found.double(), want, rtol=0, atol=1e-6)
        slope, right = (torch.autograd.grad(*pair)[0] for pair in ((found, x), (want, wide)))
        assert (slope - right).abs().max() < 1e-5 * right.abs().max()


@pytest.mark.rotating(7, group="graphs")
@pytest.mark.graphs
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the compiler itself
@for_each(kind=[kind for kind in KINDS if kind not in ("ndcg, k", "ndcg of ranks")], rotating=13)
def test_masks_stay_in_graphs(kind):
    """But for those of networks, at which graphs break."""
    loss, (scores, grades) = KINDS[kind], lists(4, 5)
    mask = torch.tensor([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 1, 0, 1, 1]]).bool()
    x = scores.masked_fill(~mask, torch.nan)
    cases = [
        (x[rows].requires_grad_(), grades[rows], mask[rows])
        for rows in (slice(4), slice(1, 3))  # of another number too
    ]
    assert_graph(loss, *cases, fullgraph=True, backend="eager", dynamic=True)


@pytest.mark.rotating(7, group="graphs")
@pytest.mark.graphs
def test_graphs_break_at_queries_and_networks():
    scores, grades = lists(3, 6)
    queries = torch.tensor([0, 1, 1, 0, 0, 2]).expand(3, 6)
    for loss, more in (
        (ListNet(), {"indexes": queries}),
        (KINDS["ndcg, k"], {"mask": queries > 0}),
    ):
        assert_graph(partial(loss, **more), (scores, grades), backend="eager")


def test_hard_ones_are_the_metrics():
    """Which `test_metrics.py` compares with loops."""
    scores, grades = lists(6, 7)
    hard, relevant = {"reduction": "none", **SHARP}, {"threshold": 1.0}
    for loss, want in (
        (NDCGLoss("softsort", k=3, **hard), metrics.ndcg(scores, grades, 3)),
        (NDCGLoss("softsort", **hard), metrics.ndcg(scores, grades)),
        (ApproxNDCG(**hard), metrics.ndcg(scores, grades)),
        (MAPLoss("softsort", **relevant, **hard),
         metrics.average_precision(scores, grades, **relevant)),
        (MRRLoss("softsort", **relevant, **hard),
         metrics.reciprocal_rank(scores, grades, **relevant)),
    ):  # fmt: skip
        torch.testing.assert_close(1 - loss(scores, grades), want)
    distinct = torch.arange(7).expand(6, 7)
    rho = SpearmanLoss("permutahedron", steepness=1e4)(scores, distinct)
    ranks = scores.argsort(-1).argsort(-1)
    formula = 6 * (ranks - distinct).square().sum(-1) / (7 * 48)
    torch.testing.assert_close(rho, formula.double().mean())


def test_list_mle_by_a_loop():
    scores, grades = lists(5, 6)
    each = ListMLE(reduction="none")(scores, grades)
    first = ListMLE(k=2, reduction="none")(scores, grades)
    for row in range(5):
        s, g = scores[row].tolist(), grades[row].tolist()
        order = sorted(range(6), key=lambda i: (-g[i], -s[i]))
        parts = [
            math.log(sum(math.exp(s[j]) for j in order[r:])) - s[i] for r, i in enumerate(order)
        ]
        assert float(each[row]) == pytest.approx(sum(parts))
        assert float(first[row]) == pytest.approx(sum(parts[:2]))
    shuffled = torch.randperm(6)
    torch.testing.assert_close(
        ListMLE(reduction="none")(scores[:, shuffled], grades[:, shuffled]), each
    )


def test_pairs_tops_and_ranks_by_loops():
    scores, grades = lists(4, 6)
    found = [f(scores, grades) for f in (
        RankNet(1.5, reduction="none"), ListNet(reduction="none"),
        ApproxNDCG(steepness=3.0, reduction="none"),
    )]  # fmt: skip
    for row in range(4):
        s, g = scores[row].tolist(), grades[row].tolist()
        pairs = [(i, j) for i in range(6) for j in range(6) if g[i] > g[j]]
        costs = [math.log(1 + math.exp(-1.5 * (s[i] - s[j]))) for i, j in pairs]
        assert float(found[0][row]) == pytest.approx(sum(costs) / len(pairs))
        p, q = ([math.exp(v) / sum(map(math.exp, x)) for v in x] for x in (g, s))
        cross = -sum(a * math.log(b) for a, b in zip(p, q, strict=True))
        assert float(found[1][row]) == pytest.approx(cross)
        ranks = [0.5 + sum(1 / (1 + math.exp(3 * (a - b))) for b in s) for a in s]
        dcg = sum((2**v - 1) / math.log2(1 + r) for v, r in zip(g, ranks, strict=True))
        best = sum((2**v - 1) / math.log2(2 + r) for r, v in enumerate(sorted(g, reverse=True)))
        assert float(found[2][row]) == pytest.approx(1 - dcg / best)
    assert RankNet()(scores, torch.ones(4, 6)) == 0


def test_levels_of_grades():
    logits = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    grades = torch.tensor([[0, 1, 2, 3, 1], [3, 3, 0, 0, 2]])
    loss = OrdinalLoss(reduction="none")
    want = torch.zeros(2, dtype=torch.float64)
    for row in range(2):
        for i in range(5):
            for k in range(3):
                p = 1 / (1 + math.exp(-logits[row, i, k].item()))
                want[row] -= math.log(p if grades[row, i] > k else 1 - p) / 5
    torch.testing.assert_close(loss(logits, grades), want)
    assert gradcheck(loss, (logits, grades))
    mask = torch.tensor([[1, 1, 0, 0, 1], [0, 0, 0, 0, 0]]).bool()
    poisoned = logits.detach().masked_fill(~mask[..., None], torch.nan)
    found = loss(poisoned, grades.masked_fill(~mask, -7), mask)
    torch.testing.assert_close(found[0], loss(logits[0, mask[0]], grades[0, mask[0]]))
    assert found[1] == 0
    flat = loss(logits.flatten(0, 1), grades.flatten(), indexes=torch.arange(10) // 5)
    torch.testing.assert_close(flat, want)
    for given, said in (
        (grades + 1, "in 0 .. 3"), (grades / 2, "whole numbers in 0 .. 3"), (logits, "n, K]"),
        (grades[:, :4], r"\[2, 5, 3\] and \[2, 4\]"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=said):
            loss(logits, given)


@for_each(loss=[ListNet(), OrdinalLoss()], reduction=["none", "mean", "sum"])
def test_kernels_of_losses_find_what_operators_do(loss, reduction):
    (scores, grades), present = lists(3, 4, 7), torch.rand(3, 4, 7) < 0.6
    present[1, 2] = False
    loss, scores = copy(loss), scores.float()
    loss.reduction = reduction
    if isinstance(loss, OrdinalLoss):
        scores = scores[..., None] * torch.arange(1, 4)
    for mask, times in ((None, 1), (present, 1), (present, 1500)):  # many are shared by threads
        mask, x, y = (None if t is None else torch.cat([t] * times) for t in (mask, scores, grades))
        absent = torch.zeros(()).bool() if mask is None else ~mask
        absent = absent if scores.ndim == 3 else absent[..., None]
        x = x.masked_fill(absent, torch.inf).requires_grad_()
        results = loss(x, y, mask), loss(x, y.int(), mask)  # no kernel takes int32
        torch.testing.assert_close(*results)
        torch.testing.assert_close(*(torch.autograd.grad(y.sum(), x)[0] for y in results))
    large = torch.tensor([3e38, -3e38])
    large = large if isinstance(loss, ListNet) else large[:, None].expand(2, 3)
    assert loss(large, torch.tensor([0, 3])) == torch.inf  # beyond float32
    scores[0, 0, 0] = torch.nan
    with pytest.raises(ValueError, match="scores must be finite, got"):
        loss(scores, grades)


def test_scores_further_apart_than_numbers_go_have_a_gradient():
    """The loss is beyond float64, its gradient is not, and what is absent has none."""
    x = torch.tensor([1e308, 0.0, -1e308, 0.0], dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([True, False, True, True])
    loss = ListNet()(x, torch.tensor([1, 0, 2, 3]), mask)
    assert loss == torch.inf
    (gradient,) = torch.autograd.grad(loss, x)
    wanted = torch.tensor([1.0, -torch.inf, 2, 3], dtype=torch.float64).softmax(0)
    torch.testing.assert_close(gradient, torch.tensor([1.0, 0, 0, 0]).double() - wanted)


def test_lambda_loss_by_a_loop():
    scores, grades = lists(4, 6)
    for k, mu, sigma in ((None, 10.0, 1.0), (2, 0.0, 1.5), (3, 2.0, 1.0)):
        each = LambdaLoss(k, mu, sigma, reduction="none")(scores, grades)
        for row in range(4):
            s, g = scores[row].tolist(), (2.0 ** grades[row] - 1).tolist()
            rank = {i: r + 1 for r, i in enumerate(sorted(range(6), key=lambda i: -s[i]))}
            best = sum(v / math.log2(r + 2) for r, v in enumerate(sorted(g, reverse=True)[:k]))
            total = 0.0
            for i in range(6):
                for j in range(6):
                    if g[i] > g[j] and (k is None or min(rank[i], rank[j]) <= k):
                        d = abs(rank[i] - rank[j])
                        rho = abs(1 / math.log2(1 + rank[i]) - 1 / math.log2(1 + rank[j]))
                        delta = abs(1 / math.log2(1 + d) - 1 / math.log2(2 + d))
                        cost = math.log2(1 + math.exp(-sigma * (s[i] - s[j])))
                        total += (rho + mu * delta) * (g[i] - g[j]) / best * cost
            assert float(each[row]) == pytest.approx(total)


def test_lists_with_nothing_to_order_have_no_gradient():
    for name, loss in KINDS.items():
        x = torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64, requires_grad=True)
        value = loss(x, torch.zeros(3))
        assert value.isfinite()
        (gradient,) = torch.autograd.grad(value + 0 * x.sum(), x)
        if "mle" not in name and name != "net":
            torch.testing.assert_close(gradient, torch.zeros_like(x), rtol=0, atol=1e-12)


def test_bad_arguments():
    x = torch.zeros(2, 3)
    for call, error, message in (
        (lambda: NDCGLoss("permutahedron", k=2), ValueError, "no permutation matrix, which k = 2"),
        (lambda: NDCGLoss(gain="log"), ValueError, "unknown gain"),
        (lambda: NDCGLoss(temperature=0.1), TypeError, "steepness = 1 / temperature"),
        (lambda: ListMLE(k=0), ValueError, "k must be >= 1"),
        (lambda: LambdaLoss(mu=-1.0), ValueError, "mu must be >= 0"),
        (lambda: KendallLoss(variant="c"), ValueError, "unknown variant"),
        (lambda: SpearmanLoss(reduction="avg"), ValueError, "unknown reduction"),
        (lambda: ListMLE()(x, x[0]), ValueError, "scores and target must have one shape"),
        (lambda: LambdaLoss()(x, x - 1), ValueError, "relevance must be >= 0"),
        (lambda: ListMLE()(x, x[0], torch.ones(3).bool()), ValueError, "must have one shape"),
    ):
        with pytest.raises(error, match=message):
            call()
