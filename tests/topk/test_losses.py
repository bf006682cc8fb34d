"""The top-k cross-entropy against its formulas, its options, and the losses beside it."""

from itertools import combinations

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.nn import CrossEntropyLoss
from torch.nn.functional import cross_entropy

from gendr.relaxed import shortest_path
from gendr.topk import (
    SmoothTopKSVM,
    TopKCrossEntropy,
    names,
    soft_topk,
    soft_topk_mask,
    topk_accuracy,
)
from support.cases import for_each
from support.graphs import assert_graph
from support.lists import assert_of_lists, poisoned

PRESENT = torch.tensor(
    [[1, 1, 1, 1, 1, 1], [0, 1, 0, 1, 1, 0], [0, 0, 1, 0, 0, 0], [1, 1, 0, 1, 1, 0]]
).bool()
P_K = [0.3, 0.1, 0.0, 0.2, 0.4]
METHODS = [name for name in names() if name != "permutahedron"]


def scores(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(*shape, dtype=torch.float64, generator=generator)


def labels(rows, n, seed=1):
    return torch.randint(n, (rows,), generator=torch.Generator().manual_seed(seed))


def by_formula(logits, y, p_k, method, m, top1, **options):
    """(4.3) and (4.4) of the thesis, row by row; the truth enters first, the others ascending."""
    losses = []
    for row, truth in zip(logits, y.tolist(), strict=True):
        top = row.topk(m).indices.tolist()
        if truth not in top:
            top[-1] = truth
        top = [truth, *(c for c in reversed(top) if c != truth)]
        attribution = soft_topk(row[top], len(p_k), method, **options).attribution
        places = attribution[:, top.index(truth)]
        first = 2 if top1 == "softmax" else 1
        found = sum(p_k[k - 1] * places[:k].sum() for k in range(first, len(p_k) + 1))
        loss = -found.log()
        if top1 == "softmax":
            loss = -p_k[0] * row.log_softmax(-1)[truth] + (1 - p_k[0]) * loss
        losses.append(loss)
    return torch.stack(losses)


def test_it_is_the_formula_of_the_thesis():
    for method in METHODS:
        for top1 in ("softmax", "network"):
            logits, y = scores(12, 40).requires_grad_(), labels(12, 40)
            soft = (
                0.2 if method in ("neuralsort", "sinkhorn") else 0.9
            )  # all p are then above 1e-12
            want = by_formula(logits, y, P_K, method, 8, top1, steepness=soft)
            exact = 1e-6 if method == "sinkhorn" else 1e-10  # that of its iterations
            for dtype, tolerance in ((torch.float64, exact), (torch.float32, 2e-4)):
                loss = TopKCrossEntropy(P_K, method, 8, top1, steepness=soft, reduction="none")
                found = loss(logits.to(dtype), y)
                assert found.dtype == dtype
                torch.testing.assert_close(found.double(), want, rtol=tolerance, atol=tolerance)
                grads = [
                    torch.autograd.grad(x.sum(), logits, retain_graph=True)[0]
                    for x in (found, want)
                ]
                torch.testing.assert_close(*grads, rtol=tolerance, atol=tolerance)


def test_kernel_and_plain_torch_agree():
    """Rows that fill no group, many equal scores, as many classes as candidates, class weights."""
    networks, dists = ("splitter", "bitonic", "pairwise"), ("logistic", "cauchy")
    sorts = ("neuralsort", {}), ("softsort", {}), ("softsort", {"power": 2.0})
    for method, own in (*((n, {"dist": dist}) for n in networks for dist in dists), *sorts):
        for rows, n, m in ((1, 7, 7), (13, 300, 16), (300, 40, 5)):
            logits, y = scores(rows, n), labels(rows, n)
            logits[0] = logits[0].round()
            logits = (logits - logits.detach().mean()).requires_grad_()
            options = {**own, "reduction": "none", "weight": torch.rand(n) + 0.5}
            fused = TopKCrossEntropy([0.5, 0, 0.5], method, m, steepness=1.1, **options)
            plain = TopKCrossEntropy(
                [0.5, 0, 0.5], method, m, steepness=1.1, backend="reference", **options
            )
            losses = [loss(logits, y) for loss in (fused, plain)]
            # Which of equal scores are candidates is open.
            torch.testing.assert_close(losses[0][1:], losses[1][1:])
            grads = [torch.autograd.grad(x[1:].sum(), logits)[0] for x in losses]
            torch.testing.assert_close(*grads)
            assert losses[0].isfinite().all()


def test_the_loss_has_no_jumps():
    """Neither where the true class passes others, nor where others do."""
    others = torch.arange(9, dtype=torch.float64)
    moved = torch.linspace(-2, 10, 601, dtype=torch.float64)[:, None]
    fixed = torch.full_like(moved, 4.6)
    loss = TopKCrossEntropy(P_K, "splitter", m=6, top1="network", reduction="none", steepness=0.7)
    for columns in ((moved, fixed), (fixed, moved)):
        rows = torch.cat([others.expand(len(moved), -1), *columns], -1)
        values = loss(rows, torch.full((len(moved),), 9))
        assert values.diff().abs().max() < 0.02
        assert values.max() - values.min() > 0.05


def test_candidates_are_the_largest_in_every_order():
    """The search of the kernel: sorted, constant, with ties at the bound, and with few classes."""
    loss = TopKCrossEntropy([0, 0, 1.0], m=6, top1="network", reduction="none", steepness=50.0)
    for n in (6, 7, 16, 17, 95, 97, 1000):
        ramp = torch.arange(n, dtype=torch.float64)
        for row in (ramp, -ramp, ramp % 4, ramp * 0, ramp[torch.randperm(n)], -(ramp % 50)):
            largest = row.max() + 5
            for truth in (0, n // 2, n - 1):
                raised = row.clone()
                raised[truth] = largest
                # Among the three largest in any choice of the candidates.
                assert loss(raised[None], torch.tensor([truth])) < 0.1
                raised[truth] = row.min() - 5
                assert loss(raised[None], torch.tensor([truth])) > 2


@for_each(method=METHODS)
def test_gradients(method):
    logits, y = scores(2, 6).requires_grad_(), torch.tensor([1, 4])
    steepness = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)

    def loss(x, s=0.7):
        return TopKCrossEntropy([0.5, 0.2, 0.3], method, 4, steepness=s)(x, y)

    assert gradcheck(loss, (logits, steepness), fast_mode=True)
    assert gradgradcheck(loss, (logits,), atol=1e-4, fast_mode=True)
    half = logits.detach().bfloat16().requires_grad_()
    torch.testing.assert_close(loss(half), loss(half.float()))
    assert torch.autograd.grad(loss(half), half)[0].dtype == torch.bfloat16


def test_with_k_of_1_it_is_the_cross_entropy():
    logits, y = scores(9, 12), labels(9, 12)
    y[3] = -100
    weight = torch.rand(12, dtype=torch.float64)
    several = torch.rand(9, 12, dtype=torch.float64).softmax(-1)
    for options in (
        {}, {"reduction": "sum"}, {"reduction": "none"}, {"label_smoothing": 0.2},
        {"weight": weight}, {"weight": weight, "label_smoothing": 0.2},
    ):  # fmt: skip
        ours, theirs = TopKCrossEntropy([1.0], **options), CrossEntropyLoss(**options)
        torch.testing.assert_close(ours(logits, y), theirs(logits, y))
        torch.testing.assert_close(ours(logits, several), theirs(logits, several))
        # All of P_K on 1, but a network that could do more.
        more = TopKCrossEntropy([0.5, 0.5], **options)
        one = torch.tensor([1.0, 0.0], dtype=torch.float64).expand(9, 2)
        torch.testing.assert_close(more(logits, y, p_k=one), theirs(logits, y))


def test_p_k_of_every_row_and_of_every_class():
    logits, y = scores(6, 9), labels(6, 9)
    table = torch.rand(9, 3, dtype=torch.float64).softmax(-1)
    for backend in ("auto", "reference"):
        options = {"m": 9, "reduction": "none", "backend": backend}
        one_by_one = [
            TopKCrossEntropy(table[c], **options)(row[None], c[None])
            for row, c in zip(logits, y, strict=True)
        ]
        by_class = TopKCrossEntropy(table, **options)(logits, y)
        by_row = TopKCrossEntropy([1.0], **options)(logits, y, p_k=table[y])
        torch.testing.assert_close(by_class, torch.cat(one_by_one))
        torch.testing.assert_close(by_row, by_class)


def test_several_true_labels():
    logits, y = scores(7, 12), labels(7, 12)
    loss = TopKCrossEntropy(P_K, m=8, reduction="none", steepness=0.8)
    one = torch.zeros(7, 12, dtype=torch.bool).scatter(-1, y[:, None], True)
    torch.testing.assert_close(loss(logits, one), loss(logits, y))
    torch.testing.assert_close(loss(logits, one.double()), loss(logits, y))
    # With all classes ranked, two labels are the mean of each alone, if no wires are in play.
    loss = TopKCrossEntropy(P_K, "softsort", m=None, reduction="none", steepness=0.8)
    other = (y + 3) % 12
    both = one.scatter(-1, other[:, None], True)
    mean = (loss(logits, y) + loss(logits, other)) / 2
    torch.testing.assert_close(loss(logits, both), mean)
    assert loss(logits, torch.zeros_like(one)).tolist() == [0.0] * 7
    with pytest.raises(ValueError, match="m must be at least the number of true labels, 9, got 5"):
        TopKCrossEntropy(P_K, m=5)(logits, torch.arange(12).expand(7, 12) < 9)


@pytest.mark.graphs
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch itself, about Function
@pytest.mark.every
def test_it_and_the_mask_are_one_graph():
    logits, y = scores(4, 9).float().requires_grad_(), labels(4, 9)
    y[1] = -100
    loss = TopKCrossEntropy([0.5, 0, 0.5], m=8, check=False)
    for function in (
        lambda x: loss(x, y),
        lambda x: soft_topk_mask(x, 3, "logistic", 0.5, check=False),
    ):
        assert_graph(function, logits, backend="eager", fullgraph=True)


def test_ignored_rows_and_weights():
    logits, y = scores(6, 9), labels(6, 9)
    y[2] = y[4] = -1
    weight = torch.rand(9, dtype=torch.float64)
    for backend in ("auto", "reference"):
        options = {"weight": weight, "ignore_index": -1, "backend": backend, "m": 9}
        none = TopKCrossEntropy(P_K, reduction="none", **options)(logits, y)
        assert none[2] == none[4] == 0
        kept = y != -1
        plain = TopKCrossEntropy(P_K, reduction="none", m=9)(logits[kept], y[kept])
        torch.testing.assert_close(none[kept], plain * weight[y[kept]])
        mean = TopKCrossEntropy(P_K, **options)(logits, y)
        torch.testing.assert_close(mean, none.sum() / weight[y[kept]].sum())
        # The gradient of an ignored row is 0, whatever its scores.
        leaf = logits.clone().requires_grad_()
        TopKCrossEntropy(P_K, **options)(leaf, y).backward()
        assert (leaf.grad[~kept] == 0).all()
        assert (leaf.grad[kept] != 0).any()


def test_shapes_are_those_of_the_cross_entropy():
    logits, y = scores(4, 7, 3, 2), torch.randint(7, (4, 3, 2))
    loss = TopKCrossEntropy(P_K, m=6, reduction="none")
    found = loss(logits, y)
    assert found.shape == cross_entropy(logits, y, reduction="none").shape == (4, 3, 2)
    one = loss(logits[2, :, 1, 0], y[2, 1, 0])
    assert one.shape == ()
    torch.testing.assert_close(one, found[2, 1, 0])
    p_k = torch.tensor(P_K).expand(4, 3, 2, 5)
    torch.testing.assert_close(loss(logits, y, p_k=p_k), found, rtol=1e-6, atol=1e-6)


def test_far_scores_are_finite():
    """Where the truth is hopeless, the logarithm goes on as its tangent."""
    for method in METHODS:
        if method == "sinkhorn":
            continue
        logits = torch.tensor([[1e4, 0.0, -1e4, 3.0]], requires_grad=True)
        for y in (0, 2):
            loss = (
                TopKCrossEntropy([0, 1.0], method, dist="logistic")
                if method in METHODS[:5]
                else (TopKCrossEntropy([0, 1.0], method))
            )
            value = loss(logits, torch.tensor([y]))
            (grad,) = torch.autograd.grad(value, logits)
            assert value.isfinite()
            assert grad.isfinite().all()


def test_bad_options():
    for options, message in (
        ({"reduction": "avg"}, "unknown reduction 'avg'"),
        ({"label_smoothing": 1.0}, r"label_smoothing must lie in \[0, 1\)"),
        ({"weight": -torch.ones(3)}, "weight must be numbers >= 0"),
        ({"dist": "levy"}, "a comparator needs a symmetric distribution"),
        ({"p_k": [0.5, 0.4]}, r"p_k must hold probabilities .* sum to 1, got \[0.5, 0.4\]"),
        ({"p_k": [1.5, -0.5]}, "p_k must hold probabilities"),
        ({"p_k": []}, "p_k must be probabilities"),
        ({"m": 4}, "m must be at least K = 5 of p_k, got 4"),
        ({"method": "permutahedron"}, "'permutahedron' gives values only"),
        ({"method": "quick"}, "unknown method 'quick'"),
        ({"top1": "sigmoid"}, "unknown top1 'sigmoid'"),
    ):
        with pytest.raises(ValueError, match=message):
            TopKCrossEntropy(**{"p_k": P_K} | options)


def test_bad_input():
    for options in ({}, {"backend": "reference"}):
        loss = TopKCrossEntropy(P_K, **options)
        x, y = torch.randn(3, 8), torch.tensor([0, 1, 7])
        nan = x.clone()
        nan[1, 2] = torch.nan
        cases = [
            (
                (x, torch.tensor([0, 1, 8])),
                ValueError,
                "target must index the 8 classes .* index 8",
            ),
            ((x, torch.tensor([0, -1, 3])), ValueError, "the index -1"),
            ((nan, y), ValueError, "logits must be finite"),
            ((x, y[:2]), ValueError, r"target must have shape \[3\] for logits of shape \[3, 8\]"),
            ((x, y.float()), ValueError, r"target must have shape \[3, 8\]"),
            ((x.long(), y), TypeError, "logits must be floating"),
            ((x[:, :4], y.clamp(max=3)), ValueError, "p_k has k up to 5, but there are only 4"),
            ((x, y, torch.ones(3, 2)), ValueError, "p_k must hold probabilities"),
            ((x, y, torch.ones(2, 1)), ValueError, r"p_k must have shape \[3\] \+ \[K\]"),
            ((x, 3), TypeError, "target must be a torch.Tensor"),
        ]
        for args, error, message in cases:
            with pytest.raises(error, match=message):
                loss(*args)


# -- the smooth SVM


def test_svm_is_the_sum_over_all_sets():
    logits, y = scores(4, 7), labels(4, 7)
    for k, tau in ((1, 1.0), (2, 0.5), (3, 1.0), (5, 2.0)):
        with_truth, all_sets = [], []
        for row, truth in zip(logits, y.tolist(), strict=True):
            sets = [*combinations(range(7), k)]
            means = torch.stack([row[[*a]].mean() for a in sets])
            has = torch.tensor([truth in a for a in sets])
            all_sets.append(((means + (~has).double()) / tau).logsumexp(0))
            with_truth.append((means[has] / tau).logsumexp(0))
        want = tau * (torch.stack(all_sets) - torch.stack(with_truth))
        found = SmoothTopKSVM(k, tau, reduction="none")(logits, y)
        torch.testing.assert_close(found, want)


def test_svm_gradients_and_extremes():
    logits, y = scores(2, 6).requires_grad_(), torch.tensor([0, 3])
    loss = SmoothTopKSVM(2, 0.7)
    assert gradcheck(lambda x: loss(x, y), (logits,))
    assert gradgradcheck(lambda x: loss(x, y), (logits,), atol=1e-4)
    far = (1e4 * scores(3, 50)).float().requires_grad_()
    value = SmoothTopKSVM(5, 0.1)(far, labels(3, 50))
    (grad,) = torch.autograd.grad(value, far)
    assert value.isfinite()
    assert grad.isfinite().all()
    with pytest.raises(ValueError, match="k must be below the number of classes, 6, got 6"):
        SmoothTopKSVM(6)(logits, y)
    with pytest.raises(ValueError, match="the index 6"):
        SmoothTopKSVM(2)(logits, y + 3)


def test_svm_of_the_classes_that_are_present():
    logits, y = poisoned(scores(4, 6), PRESENT), torch.tensor([5, 3, 2, 0])

    def alone(x, row):
        if len(x) <= 2:  # the true class is among the first two whatever the scores are
            return 0 * x.sum()
        return SmoothTopKSVM(2, 0.7)(x, PRESENT[row, : y[row]].sum())

    found = SmoothTopKSVM(2, 0.7, reduction="none")(logits, y, PRESENT)
    assert_of_lists(found, alone, logits, dims="", mask=PRESENT)
    with pytest.raises(ValueError, match="target must be present"):
        SmoothTopKSVM(2)(scores(4, 6), y, PRESENT.roll(1, 1))


# -- accuracy


def test_accuracy():
    logits, y = scores(50, 9), labels(50, 9)
    want = [
        sum(t in row.topk(k).indices.tolist() for row, t in zip(logits, y.tolist(), strict=True))
        for k in (1, 3, 5)
    ]
    assert (topk_accuracy(logits, y, (1, 3, 5)) * 50).tolist() == pytest.approx(want)
    assert topk_accuracy(torch.zeros(4, 3), torch.zeros(4).long(), (1, 2, 3)).tolist() == [0, 0, 1]
    assert topk_accuracy(logits.reshape(5, 10, 9), y.reshape(5, 10)).shape == (2,)
    for args, message in (
        ((logits, y + 9), "target must index the 9 classes"),
        ((logits, y[:3]), "must fit"),
        ((logits, y, (0,)), "k must be >= 1"),
    ):
        with pytest.raises(ValueError, match=message):
            topk_accuracy(*args)


# -- torch.compile


@for_each(
    method=["splitter", "neuralsort"],
    top1=["softmax", "network"],
    smoothing=[0.0, 0.1],
    dense=[0, 1],
)
def test_absent_classes_change_nothing(method, top1, smoothing, dense):
    """Losses and gradients are those of the classes that are present alone."""
    y, logits = torch.tensor([5, 3, 2, 0]), poisoned(scores(4, 6), PRESENT)
    options = {"top1": top1, "label_smoothing": smoothing, "m": 5, "reduction": "none"}
    p_k = torch.tensor([0.4, 0.1, 0.0, 0.5], dtype=torch.float64)
    target = torch.nn.functional.one_hot(y, 6).bool() if dense else y
    found = TopKCrossEntropy(p_k, method, **options)(logits, target, mask=PRESENT)

    def alone(x, row):
        n, here = len(x), PRESENT[row]
        folded = p_k if n >= 4 else torch.cat([p_k[: n - 1], p_k[n - 1 :].sum()[None]])
        label = target[row, here] if dense else here[: y[row]].sum()
        # A P_K for the row, as a single softmax would otherwise be a loss of its own.
        return TopKCrossEntropy(folded, method, **options)(x[None], label[None], folded[None])[0]

    assert_of_lists(found, alone, logits, dims="", mask=PRESENT)


def test_masks_of_the_top_k_cross_entropy():
    logits, mask = scores(3, 4), torch.tensor([True, True, True, False])
    loss = TopKCrossEntropy([0.5, 0.5], m=3, ignore_index=-1)
    y = torch.tensor([0, -1, 2])
    each = [loss(logits[i : i + 1, :3], y[i : i + 1]) for i in (0, 2)]
    torch.testing.assert_close(loss(logits, y, mask=mask), (each[0] + each[1]) / 2)
    by_class = torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [1.0, 0.0]])
    found = TopKCrossEntropy(by_class, m=3)(logits, torch.tensor([0, 1, 2]), mask=mask)
    want = TopKCrossEntropy(by_class[:3], m=3)(logits[:, :3], torch.tensor([0, 1, 2]))
    torch.testing.assert_close(found, want)
    accuracy = topk_accuracy(logits.masked_fill(~mask, torch.nan), y.abs(), (1, 2), mask)
    torch.testing.assert_close(accuracy, topk_accuracy(logits[:, :3], y.abs(), (1, 2)))
    with pytest.raises(ValueError, match="target must be present, got true classes where mask is"):
        loss(logits, torch.tensor([0, 1, 3]), mask=mask)
    with pytest.raises(ValueError, match="weight and mask exclude each other"):
        TopKCrossEntropy([1.0], weight=torch.ones(4))(logits, y.abs(), mask=mask)


@pytest.mark.rotating(7, group="graphs")
@pytest.mark.graphs
@pytest.mark.filterwarnings("ignore:.*torch.jit")  # deprecated
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")  # sizes are constants of a trace
def test_a_trace_takes_other_logits():
    """There sizes are tensors, of which counts are checked."""
    for options in ({}, {"method": "bitonic"}, {"m": None, "method": "odd_even"}):
        loss = TopKCrossEntropy([0.5, 0.5], **options)
        traced = torch.jit.trace(loss, (torch.randn(3, 12), torch.arange(3)), check_trace=False)
        logits, labels = torch.randn(5, 12), torch.randint(12, (5,))
        torch.testing.assert_close(traced(logits, labels), loss(logits, labels))
    traced = torch.jit.trace(shortest_path, torch.rand(2, 5, 6) + 0.1, check_trace=False)
    costs = torch.rand(3, 5, 6) + 0.1
    torch.testing.assert_close(traced(costs), shortest_path(costs))
