"""Losses of rankings against loops over the formulas, in the right direction, with masks."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from gendr.sorting import (
    KendallLoss,
    LambdaLoss,
    ListMLE,
    MAPLoss,
    NDCGLoss,
    SpearmanLoss,
    losses,
)
from support.cases import for_each

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
}


def lists(*shape, seed=0):
    """Scores without ties, and grades 0 .. 3."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(*shape, dtype=torch.float64, generator=generator)
    return scores, torch.randint(4, shape, generator=generator)


@for_each(kind=KINDS)
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
        loss.reduction = "sum"
        torch.testing.assert_close(loss(x, grades, mask), each.sum())
        loss.reduction = "mean"
        torch.testing.assert_close(loss(x, grades, mask), each.sum() / 3)
        torch.testing.assert_close(loss(scores, grades), loss(scores, grades, mask | True))
    finally:
        loss.reduction = "mean"


@for_each(kind=["ndcg", "map", "kendall", "mle", "mle, k", "lambda", "lambda, k"])
def test_gradients(kind):
    scores, grades = lists(3, 5)
    assert gradcheck(lambda x: KINDS[kind](x, grades), scores.requires_grad_(), fast_mode=True)


def test_hard_ones_are_the_metrics():
    scores, grades = lists(6, 7)
    ideal = 2.0**grades - 1
    for row, (s, g) in enumerate(zip(scores, ideal, strict=True)):
        order = s.argsort(descending=True).tolist()
        best = sorted(g.tolist(), reverse=True)
        for k in (3, 7):
            dcg = sum(g[i].item() / math.log2(r + 2) for r, i in enumerate(order[:k]))
            top = sum(v / math.log2(r + 2) for r, v in enumerate(best[:k]))
            found = NDCGLoss("softsort", k=k, **SHARP)(scores[row], grades[row])
            assert float(found) == pytest.approx(1 - dcg / top, abs=1e-9)
        hits, precisions = 0, []
        for r, i in enumerate(order):
            if grades[row, i] > 1:
                hits += 1
                precisions.append(hits / (r + 1))
        found = MAPLoss("softsort", threshold=1.0, **SHARP)(scores[row], grades[row])
        assert float(found) == pytest.approx(1 - sum(precisions) / len(precisions), abs=1e-9)
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
        if "mle" not in name:
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
