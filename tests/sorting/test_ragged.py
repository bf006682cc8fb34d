"""Lists of different lengths: masked results are those of the lists without what is absent."""

import itertools

import pytest
import torch
from torch import nn

from gendr.distributions import standard_distributions
from gendr.sorting import (
    PermutationSort,
    SoftPermutation,
    SoftRank,
    SoftSort,
    SoftSorter,
    get,
    losses,
    names,
    permutation,
    soft_argquantile,
    soft_quantile,
    soft_rank,
    soft_sort,
)
from support.cases import for_each
from support.lists import MASK, assert_of_lists, poisoned

NETWORKS = ("bitonic", "odd_even", "odd_even_merge")
SYMMETRIC = sorted(
    name for name, dist in standard_distributions().items() if dist.is_symmetric is True
)
OTHERS = [
    get("neuralsort", steepness=0.7),
    get("softsort", steepness=0.7),
    get("softsort", steepness=0.7, power=2.0),
    get("softsort", steepness=0.7, power=1.5),
    get("sinkhorn", steepness=0.7),
    get("permutahedron", steepness=0.7),
    get("permutahedron", steepness=0.7, regularization="entropic"),
]
ALL = [get(name, steepness=1.3, dist=dist) for name in NETWORKS for dist in SYMMETRIC] + OTHERS


def numbers(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


@for_each(method=ALL, descending=[False, True], rotating=12)
def test_every_method_and_distribution_sorts_as_if_nothing_was_absent(method, descending):
    x, payload = poisoned(numbers(6, 6)), numbers(6, 6, 2, seed=1)
    sorter = SoftSorter(method, descending=descending)
    out = sorter(x, payload, MASK)
    assert_of_lists(out.values, lambda a, _: sorter(a).values, x, dims="r")
    assert_of_lists(out.ranks, lambda a, _: sorter(a).ranks, x, dims="n")
    if isinstance(method, PermutationSort):
        assert_of_lists(out.permutation, lambda a, _: sorter(a).permutation, x, dims="rn")
        assert_of_lists(
            out.payload, lambda a, row: sorter(a, payload[row, MASK[row]]).payload, x, dims="rc"
        )


def test_hard_results_of_lists():
    x = poisoned(numbers(6, 6))
    for descending, method in itertools.product((False, True), ("odd_even", "permutahedron")):
        out = SoftSorter(method, hard=True, descending=descending)(x, mask=MASK)
        for row, here in enumerate(MASK):
            hard = x.detach()[row, here].sort(descending=descending)
            m = int(here.sum())
            assert torch.equal(out.values[row, :m], hard.values)
            assert (out.values[row, m:] == 0).all()
            assert torch.equal(out.indices[row, :m], here.nonzero()[:, 0][hard.indices])
            assert (out.indices[row, m:] == -1).all()
            ranks = torch.arange(1.0, m + 1, dtype=torch.float64)
            assert torch.equal(out.ranks[row, here][hard.indices], ranks)
            assert (out.ranks[row, ~here] == 0).all()


def test_second_derivatives_of_lists():
    x = numbers(6, 6).masked_fill(~MASK, 7.0).requires_grad_()
    for method in (get("odd_even", steepness=1.0), OTHERS[-2]):
        assert torch.autograd.gradgradcheck(
            lambda x, method=method: soft_rank(x, method, mask=MASK), x, fast_mode=True, atol=1e-4
        )


def test_a_mask_of_all_changes_no_bit():
    x = numbers(3, 7).float()
    for mask in (torch.ones(3, 7, dtype=torch.bool), torch.ones(7, dtype=torch.bool)):
        assert torch.equal(soft_sort(x, mask=mask), soft_sort(x))
        assert torch.equal(soft_rank(x, mask=mask), soft_rank(x))


def test_nothing_present_at_all():
    x = torch.full((2, 4), torch.nan, requires_grad=True)
    none = torch.zeros(4, dtype=torch.bool)
    for name in [name for name in names() if name != "network"]:
        out = SoftSorter(name)(x, mask=none)
        (gradient,) = torch.autograd.grad(out.values.sum() + out.ranks.sum(), x)
        assert out.values.tolist() == out.ranks.tolist() == gradient.tolist() == [[0.0] * 4] * 2
        assert out.indices.tolist() == [[-1] * 4] * 2


def test_minus_infinity_as_absent():
    x = torch.tensor([3.0, -torch.inf, 1.0], requires_grad=True)
    ranks = soft_rank(x, mask=x != -torch.inf, steepness=100.0)
    torch.testing.assert_close(ranks, torch.tensor([2.0, 0.0, 1.0]), rtol=0, atol=1e-2)
    assert torch.autograd.grad(ranks[0], x)[0].isfinite().all()
    with pytest.raises(ValueError, match=r"for -inf as absent give mask=x != -torch\.inf"):
        soft_rank(x)


def test_any_dimension():
    x, mask = numbers(2, 5, 3), torch.rand(2, 5, 3) > 0.3
    moved = x.movedim(1, -1)
    for options in ({}, {"mask": mask}):
        there = {"mask": mask.movedim(1, -1)} if options else {}
        for function in (soft_sort, soft_rank):
            found = function(x, dim=1, **options)
            assert torch.equal(found, function(moved, **there).movedim(-1, 1))
            assert torch.equal(found, function(x, dim=-2, **options))
        assert torch.equal(permutation(x, dim=1, **options), permutation(moved, **there))
        assert torch.equal(
            SoftSorter(dim=1)(x, mask=options.get("mask")).indices,
            SoftSorter()(moved, mask=there.get("mask")).indices.movedim(-1, 1),
        )
    values, carried = soft_sort(x, dim=1, payload=numbers(2, 3, 5, 4))
    assert values.shape == (2, 5, 3)
    assert carried.shape == (2, 3, 5, 4)


def test_quantiles_are_those_of_torch():
    x = numbers(4, 3, 7)
    for q in (0.0, 0.3, 0.5, 1.0, torch.tensor([0.1, 0.9], dtype=x.dtype)):
        for dim, keepdim in ((-1, False), (1, True), (0, False)):
            want = x.quantile(torch.as_tensor(q, dtype=x.dtype), dim, keepdim)
            assert torch.equal(soft_quantile(x, q, dim=dim, keepdim=keepdim, hard=True), want)
            near = soft_quantile(x, q, "odd_even", dim=dim, keepdim=keepdim, steepness=1e6)
            torch.testing.assert_close(near, want, rtol=0, atol=1e-3)
    q = torch.tensor([0.0, 0.31, 0.5, 0.75], dtype=x.dtype)
    for how, dim, keepdim in itertools.product(
        ("linear", "lower", "higher", "midpoint", "nearest"), (None, 0, -2), (False, True)
    ):
        found = soft_quantile(x, q, dim=dim, keepdim=keepdim, interpolation=how, hard=True)
        want = x.quantile(q, dim, keepdim, interpolation=how)
        torch.testing.assert_close(found, want, rtol=1e-14, atol=0)
    assert torch.equal(soft_quantile(x, interpolation="lower", hard=True), x.median(-1).values)
    x = poisoned(numbers(6, 6))
    q = torch.tensor([0.2, 0.5], dtype=x.dtype)
    found = soft_quantile(x, q, mask=MASK, hard=True)
    for row, here in enumerate(MASK):
        want = x[row, here].detach().quantile(q) if here.any() else torch.zeros_like(q)
        torch.testing.assert_close(found[:, row].detach(), want)
    assert torch.autograd.grad(found.sum(), x)[0].isfinite().all()
    with pytest.raises(ValueError, match=r"q must be in \[0, 1\]"):
        soft_quantile(x, 1.5, mask=MASK)
    with pytest.raises(ValueError, match="unknown interpolation"):
        soft_quantile(x, 0.5, interpolation="cubic")


def test_quantiles_of_long_lists_by_softsort_are_rows_of_the_matrix():
    """Which are computed alone: also of equal values, by a learnt steepness, with all options."""
    x = numbers(3, 40)
    x[0, :20] = x[0, 20:]
    steepness = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    for leaf in (x, steepness):
        leaf.requires_grad_()
    for options in ({}, {"power": 2.0}, {"standardize": True}):
        options = {"steepness": steepness, **options}
        p = permutation(x, "softsort", **options)
        for q, low, part in ((0.5, 19, 0.5), (0.0, 0, 0.0), (1.0, 38, 1.0), (0.51, 19, 0.89)):
            want = (1 - part) * p[:, low] + part * p[:, low + 1]
            found = soft_argquantile(x, q, "softsort", **options)
            value = soft_quantile(x, q, "softsort", **options)
            torch.testing.assert_close(found, want)
            torch.testing.assert_close(value, (want * x).sum(-1))
            slopes = [
                torch.autograd.grad(v.square().sum(), (x, steepness), retain_graph=True)
                for v in (value, (want * x).sum(-1))
            ]
            torch.testing.assert_close(*slopes)
    both = torch.tensor([0.5, 0.51], dtype=torch.float64)
    found = soft_quantile(x, both, "softsort", steepness=2.0)
    each = [soft_quantile(x, q.item(), "softsort", steepness=2.0) for q in both]
    torch.testing.assert_close(found, torch.stack(each))
    assert soft_quantile(x[:0], 0.5, "softsort").shape == (0,)


@for_each(method=["odd_even", "softsort", "neuralsort", "sinkhorn"])
def test_where_quantiles_stand_are_rows_of_the_matrix(method):
    x, q = numbers(3, 7), torch.tensor([0.5, 0.1], dtype=torch.float64)
    p = permutation(x, method, steepness=2.0)
    found = soft_argquantile(x, q, method, steepness=2.0)
    torch.testing.assert_close(found[0], p[:, 3])  # the argmedian
    torch.testing.assert_close(found[1], 0.4 * p[:, 0] + 0.6 * p[:, 1])
    values = soft_quantile(x, q, method, steepness=2.0)
    torch.testing.assert_close((found * x).sum(-1), values)
    hard = soft_argquantile(x, q, method, hard=True)
    torch.testing.assert_close((hard * x).sum(-1), x.quantile(q, -1))
    assert ((hard > 0).sum(-1) == torch.tensor([[1], [2]])).all()
    kept = soft_argquantile(x.mT, 0.5, method, dim=0, keepdim=True, steepness=2.0)
    torch.testing.assert_close(kept, found[:1])
    flat = soft_argquantile(x, 0.5, method, dim=None, keepdim=True)
    assert flat.shape == (1, 1, 21)
    leaf = x.clone().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: soft_argquantile(x, q, method, steepness=2.0), leaf, fast_mode=True, atol=1e-4
    )
    none = soft_argquantile(leaf, q[:0], method)
    assert none.shape == (0, 3, 7)
    assert not torch.autograd.grad(none.sum(), leaf)[0].any()
    x = poisoned(numbers(6, 6))
    exact = get(method, **({"tolerance": 1e-13} if method == "sinkhorn" else {}))
    masked = soft_argquantile(x, 0.5, exact, mask=MASK)
    assert_of_lists(masked, lambda a, _: soft_argquantile(a, 0.5, exact), x, dims="n")
    with pytest.raises(ValueError, match="no permutation matrix, which weights of ranks needs"):
        soft_argquantile(x, 0.5, "permutahedron", mask=MASK)


def test_softness_free_of_scale():
    x, huge = numbers(4, 5), torch.tensor([3e38, -3e38, 1e38])
    mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True, correction=0)
    for method in (*OTHERS, get("bitonic", dist="logistic.squared"), get("odd_even")):
        for options in ({}, {"descending": True}):
            free = {**options, "standardize": True}
            torch.testing.assert_close(
                soft_rank(x, method, **free), soft_rank((x - mean) / std, method, **options)
            )
            want = soft_sort((x - mean) / std, method, **options) * std + mean
            torch.testing.assert_close(soft_sort(x, method, **free), want)
            torch.testing.assert_close(soft_sort(9 * x - 4, method, **free), 9 * want - 4)
        masked = soft_rank(poisoned(numbers(6, 6)), method, mask=MASK, standardize=True)
        row = numbers(6, 6)[1, MASK[1]]
        torch.testing.assert_close(masked[1, MASK[1]], soft_rank(row, method, standardize=True))
    for function in (soft_rank, soft_sort):
        call = lambda x, f=function: f(x, "softsort", steepness=2.0, standardize=True)  # noqa: E731
        assert torch.autograd.gradcheck(call, x.clone().requires_grad_())
        assert function(huge, standardize=True).isfinite().all()
        equal = torch.ones(3, requires_grad=True)
        assert (
            torch.autograd.grad(function(equal, standardize=True).sum(), equal)[0].isfinite().all()
        )
    assert torch.equal(soft_quantile(x, hard=True, standardize=True), x.median(-1).values)


@for_each(method=[*OTHERS, *(get(name, dist=dist) for name, dist in (
    ("bitonic", "cauchy"), ("odd_even", "logistic.squared"), ("odd_even", "gaussian"),
))])  # fmt: skip
def test_a_steepness_for_each_row(method):
    x = numbers(6, 6).requires_grad_()
    each = torch.tensor([0.3, 0.7, 1.0, 1.5, 2.0, 0.2], dtype=torch.float64, requires_grad=True)
    functions = [soft_sort, soft_rank]
    if isinstance(method, PermutationSort):
        functions += [permutation, soft_argquantile]
    for function in functions:
        found = function(x, method=method, steepness=each)
        want = [function(row, method=method, steepness=s) for row, s in zip(x, each, strict=True)]
        want = torch.stack(want)
        torch.testing.assert_close(found, want, rtol=1e-7, atol=1e-9)
        weights = torch.randn_like(found)
        slopes = [torch.autograd.grad((y * weights).sum(), (x, each)) for y in (found, want)]
        for one, other in zip(*slopes, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)
    masked = soft_rank(poisoned(x.detach()), method, mask=MASK, steepness=each)
    alone = soft_rank(x[5, MASK[5]], method, steepness=each[5])
    torch.testing.assert_close(masked[5, MASK[5]], alone)
    with pytest.raises(ValueError, match=r"one for each row, \[6\], got \[6, 1\]"):
        soft_rank(x, method, steepness=each[:, None])


def test_modules_stand_in_sequences():
    x = numbers(4, 5).float()
    for module, function in (
        (SoftSort, soft_sort), (SoftRank, soft_rank), (SoftPermutation, permutation)
    ):  # fmt: skip
        chain = nn.Sequential(nn.Identity(), module("odd_even", steepness=2.0, descending=True))
        want = function(x, "odd_even", steepness=2.0, descending=True)
        assert torch.equal(chain(x), want)
        assert torch.equal(chain[1](x, mask=torch.ones(5, dtype=torch.bool)), want)
    ranker = nn.Sequential(nn.Linear(5, 5), SoftRank(learnable=True), nn.Linear(5, 1))
    ranker(x).sum().backward()
    assert ranker[1].log_steepness.grad.abs() > 0


def test_a_result_unpacks_in_one_way():
    x, payload = numbers(3, 6), numbers(3, 6, 2)
    out = SoftSorter()(x, payload)
    for pair in (soft_sort(x, payload=payload), out):
        values, carried = pair
        assert torch.equal(values, soft_sort(x))
        assert torch.equal(carried, out.payload)
        assert (len(pair), pair[0] is values) == (2, True)
    values, matrix = SoftSorter()(x)
    assert torch.equal(matrix, permutation(x))


def test_losses_of_lists():
    """Each is that of every list alone, and takes anything where nothing is present."""
    scores, values = poisoned(numbers(6, 6)), poisoned(numbers(6, 6, seed=1)).detach()
    grades = poisoned(torch.randint(4, (6, 6)).double()).detach()
    p = permutation(scores, "softsort", mask=MASK, steepness=1.0)
    q = losses.permutation_matrix(values, mask=MASK)
    ranks = soft_rank(scores, "softsort", mask=MASK, steepness=1.0)
    down = {"descending": False}
    cases = (
        (losses.spearman(ranks, values, MASK), lambda s, r, p, v, g: losses.spearman(r, v)),
        (
            losses.kendall(scores, values, mask=MASK, variant="b"),
            lambda s, r, p, v, g: losses.kendall(s, v, variant="b"),
        ),
        (
            losses.ndcg(p, grades, 2, mask=MASK, **down),
            lambda s, r, p, v, g: losses.ndcg(p, g, 2, **down),
        ),
        (
            losses.ndcg_of_ranks(ranks, grades, mask=MASK, **down),
            lambda s, r, p, v, g: losses.ndcg_of_ranks(r, g, **down),
        ),
        *(
            (
                losses.ranking_cross_entropy(p, q, reduction="none", mask=MASK, binary=binary),
                lambda s, r, p, v, g, binary=binary: losses.ranking_cross_entropy(
                    p, losses.permutation_matrix(v), binary=binary
                ),
            )
            for binary in (False, True)
        ),
    )
    for masked, alone in cases:
        assert masked.shape == (6,)

        def of_list(a, row, alone=alone):
            here = MASK[row]
            p, r = (f(a, "softsort", steepness=1.0) for f in (permutation, soft_rank))
            return alone(a, r, p, values[row, here], grades[row, here])

        assert_of_lists(masked, of_list, scores, dims="")
    for metric in (losses.exact_match, losses.element_match):
        found = metric(scores, values, MASK)
        for row, here in enumerate(MASK):
            want = metric(scores[row, here], values[row, here]) if here.any() else 0.0
            assert found[row] == want
    mean = losses.ranking_cross_entropy(p, q, mask=MASK)
    each = losses.ranking_cross_entropy(p, q, mask=MASK, reduction="none")
    torch.testing.assert_close(mean, each.sum() / 5)  # one list has no entries
    torch.testing.assert_close(
        losses.ranking_cross_entropy(p, q, mask=MASK, reduction="sum"), each.sum()
    )
    flat = losses.regrouped(scores, values, 2, mask=MASK)[0]
    assert flat.shape == (int(MASK.sum()) // 2, 2)
    assert flat.isfinite().all()
    for ties in ("first", "average"):
        found = losses.hard_ranks(grades, ties, MASK)
        for row, here in enumerate(MASK):
            if here.any():
                assert torch.equal(found[row, here], losses.hard_ranks(grades[row, here], ties))


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        (torch.ones(2, 3), TypeError, "mask must be bool, True where an entry is present, got flo"),
        ([True], TypeError, r"mask must be a torch\.Tensor, got list"),
        (
            torch.ones(2, 4, dtype=torch.bool),
            ValueError,
            r"mask must have the shape of x, \[2, 3\]",
        ),
    ],
)
def test_bad_masks(mask, error, message):
    with pytest.raises(error, match=message):
        soft_sort(torch.zeros(2, 3), mask=mask)


def test_what_is_wrong_is_named_where_it_stands():
    x = torch.tensor([[0.0, 1.0], [torch.nan, torch.nan]])
    mask = torch.tensor([[True, False], [False, True]])
    with pytest.raises(ValueError, match=r"x must be finite, got 1 .* at index \[1, 1\]"):
        soft_sort(x, mask=mask)
    with pytest.raises(ValueError, match=r"values must be finite, got 1 .* at index \[1, 1\]"):
        losses.spearman(torch.zeros(2, 2), x, mask)
    with pytest.raises(ValueError, match=r"payload must broadcast to \[\*\[2, 2\], c\]"):
        soft_sort(torch.zeros(2, 2), mask=mask, payload=torch.zeros(5, 2, 2, 1))
    for dim in (2, -3):
        with pytest.raises(ValueError, match="dim must be"):
            soft_sort(torch.zeros(2, 2), dim=dim)


def test_the_direction_of_ndcg_must_be_said():
    scores = torch.tensor([0.1, 2.0, 1.0], dtype=torch.float64)
    grades = torch.tensor([0, 2, 1])
    for argument, metric in (
        (permutation(scores, "softsort", steepness=1e3), losses.ndcg),
        (soft_rank(scores, "softsort", steepness=1e3), losses.ndcg_of_ranks),
    ):
        with pytest.raises(TypeError, match="'descending'"):
            metric(argument, grades)
        torch.testing.assert_close(float(metric(argument, grades, descending=False)), 1.0)
        assert metric(argument, grades, descending=True) < 0.8
