"""The mask sums to k, is right to the last digits, and is differentiated as the solution it is."""

import itertools

import mpmath as mp
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from gendr.distributions import get
from gendr.topk import SoftTopKMask, soft_topk_mask
from support.cases import for_each
from support.distributions import exact_cdf
from support.lists import MASK, assert_of_lists, poisoned

ORACLE = [
    "laplace", "logistic", "gaussian", "cauchy", "reciprocal", "uniform", "cubic_hermite",
    "hyperbolic_secant", "gumbel_max", "exponential", "gamma(shape=2.0)", "levy", "student_t",
]  # fmt: skip
FORMS = [
    "gumbel_max.reversed", "exponential.reversed.centred", "wigner_semicircle.shifted(0.3)",
    "laplace.shifted(0.3).reversed", "logistic.squared", "gaussian.art(0.25)",
    "exponential.centred.squared",
]  # fmt: skip
SMOOTH = [
    "laplace",
    "logistic",
    "cauchy",
    "levy.reversed",
    "logistic.squared",
    "gaussian.art(0.25)",
]


WAYS = ("auto", "reference")


def values(n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, dtype=torch.float64, generator=generator)


def by_bisection(dist, x, k, scale):
    """The mask in 30 digits."""
    with mp.workdps(30):
        x, scale = [mp.mpf(v) for v in x.tolist()], mp.mpf(scale)
        low, high = min(x) - 1000 * scale, max(x) + 1000 * scale
        b = low
        for _ in range(80):
            b = (low + high) / 2
            inside = mp.fsum(exact_cdf(dist, (v - b) / scale) for v in x)
            low, high = (b, high) if inside > k else (low, b)
        return [float(exact_cdf(dist, (v - b) / scale)) for v in x]


@for_each(name=ORACLE, rotating=2)
def test_it_is_that_of_a_bisection_in_many_digits(name):
    dist, x = get(name), 3 * values(9)
    k, scale = (2, 0.5) if len(name) % 2 else (6.5, 2.0)
    expected = torch.tensor(by_bisection(dist, x, k, scale), dtype=torch.float64)
    for way in WAYS:
        p = soft_topk_mask(x, k, dist, scale, backend=way)
        torch.testing.assert_close(p, expected, rtol=1e-10, atol=1e-300)


@for_each(name=["logistic.squared", "exponential.centred.squared", "gaussian.art(0.25)"], way=WAYS)
def test_scales_are_those_of_the_distribution(name, way):
    """Also where x does not meet them as x / scale."""
    dist, x, scale = get(name), 3 * values(9), torch.tensor(0.4, dtype=torch.float64)
    low, high = x.min() - 99, x.max() + 99
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if dist(x - middle, scale).sum() > 4 else (low, middle)
    p = soft_topk_mask(x, 4, dist, scale, backend=way)
    torch.testing.assert_close(p, dist(x - low, scale), rtol=0, atol=1e-9)


@for_each(name=[*ORACLE, *FORMS], way=WAYS, rotating=3)
def test_the_sum_is_k(name, way):
    """The values have clusters, ties and gaps; scales go from the hard to the flat limit."""
    x = torch.cat([values(40), values(40, 1) * 1e-3 + 5, torch.full((20,), -7.0)])
    k = torch.tensor([1e-3, 0.5, 1, 39.5, 40, 60, 99.5], dtype=torch.float64)[:, None]
    scale = torch.tensor([1e-3, 0.1, 1.0, 50.0], dtype=torch.float64)
    for dtype, tolerance in ((torch.float32, 1e-6), (torch.float64, 1e-9)):
        p = soft_topk_mask(x.to(dtype).expand(7, 4, 100), k, name, scale, backend=way)
        assert p.shape == (7, 4, 100)
        assert p.dtype == dtype
        assert ((p >= 0) & (p <= 1)).all()
        assert ((p.double().sum(-1) - k).abs() / k).max() < tolerance
        ordered = p.gather(-1, x.argsort().expand_as(p))
        assert (ordered.diff(dim=-1) >= 0).all()


def test_tails_keep_their_digits():
    x = torch.tensor([0.0, 1.0, 30.0], dtype=torch.float64)
    for name in ("laplace", "logistic", "gumbel_max.reversed", "gaussian"):
        p, dist = soft_topk_mask(x, 1, name, 1.0), get(name)
        assert 0 < p[0] < p[1] < 1e-5
        torch.testing.assert_close(p[0], dist.cdf(dist.icdf(p[1]) - 1), rtol=1e-9, atol=0.0)
    # Far from the threshold the Laplace distribution falls by e for each scale.
    p = soft_topk_mask(torch.tensor([0.0, 1.0, 2.0, 400.0], dtype=torch.float64), 1, scale=1.0)
    torch.testing.assert_close(p[1] / p[0], torch.tensor(torch.e, dtype=torch.float64))
    assert 0 < p[0] < 1e-80


def test_the_hard_limit_is_topk():
    x = values(60).reshape(3, 20)
    hard = torch.zeros_like(x).scatter(-1, x.topk(7).indices, 1.0)
    assert torch.equal(soft_topk_mask(x, 7, "heaviside"), hard)
    torch.testing.assert_close(soft_topk_mask(x, 7, "logistic", 1e-4), hard)
    ties = torch.tensor([2.0, 1.0, 1.0, 1.0, 0.0])
    apart = torch.tensor([0.0, 0.0, 9.0], dtype=torch.float64, requires_grad=True)
    for way in WAYS:
        for dist, scale in (("heaviside", 1.0), ("laplace", 1e-3)):
            p = soft_topk_mask(ties, 2.5, dist, scale, backend=way)
            torch.testing.assert_close(p, torch.tensor([1.0, 0.5, 0.5, 0.5, 0.0]))
        p = soft_topk_mask(apart, 1, "uniform", 0.5, backend=way)  # no gradient between clusters
        assert p.tolist() == [0.0, 0.0, 1.0]
        assert torch.autograd.grad(p[2], apart)[0].tolist() == [0.0, 0.0, 0.0]


@for_each(name=[*SMOOTH, "uniform", "cubic_hermite", "exponential"], way=WAYS, rotating=4)
def test_gradients(name, way):
    x = (2 * values(12)).reshape(2, 6).requires_grad_()
    k = torch.tensor([1.5, 4.0], dtype=torch.float64, requires_grad=True)
    scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)

    def mask(x, k, scale):
        return soft_topk_mask(x, k, name, scale, backend=way)

    assert gradcheck(mask, (x, k, scale), fast_mode=True)
    if name in SMOOTH:  # others have kinks
        assert gradgradcheck(mask, (x, k, scale), atol=1e-4, fast_mode=True)


@pytest.mark.rotating(4, group="sorting")
def test_gradients_to_what_is_inside_a_distribution():
    x = values(6).requires_grad_()
    shape = torch.tensor(2.5, dtype=torch.float64, requires_grad=True)
    for form in ("reversed", "centred"):
        assert gradcheck(
            lambda x, a, form=form: soft_topk_mask(
                x, 2, getattr(get("gamma", shape=a), form)(), 0.5
            ),
            (x, shape),
        )
    shift = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    (moved,) = torch.autograd.grad(
        soft_topk_mask(x, 2, get("logistic").shifted(shift), 0.5)[0], shift
    )
    assert moved.abs() < 1e-14  # the threshold moves along
    slope = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)

    def of_users(x, slope):
        return soft_topk_mask(x, 2, lambda z: torch.sigmoid(slope * z), 0.5)

    torch.testing.assert_close(of_users(x, slope), soft_topk_mask(x, 2, "logistic", 0.5 / slope))
    assert gradcheck(of_users, (x, slope))
    assert gradgradcheck(of_users, (x, slope))


def test_any_batch_shape_and_dtype():
    x = values(2 * 3 * 5).reshape(2, 3, 5)
    k = torch.tensor([1.0, 2.0, 4.5])
    p = soft_topk_mask(x, k)
    for i in range(2):
        for j in range(3):
            torch.testing.assert_close(p[i, j], soft_topk_mask(x[i, j], k[j].item()))
        # Columns, as sums with keepdim=True are, belong to the rows too.
        columns = soft_topk_mask(x[i], k[:, None], scale=torch.full((3, 1), 0.1, dtype=x.dtype))
        assert torch.equal(columns, p[i])
    assert soft_topk_mask(x, k[:2, None, None]).shape == (2, 3, 5)
    assert soft_topk_mask(x.bfloat16(), 2).dtype == torch.bfloat16
    assert soft_topk_mask(torch.arange(6), 2).dtype == torch.float32
    assert soft_topk_mask(x[:0], 2).shape == (0, 3, 5)


def test_bad_input():
    for args, error, message in (
        ((torch.zeros(5), -1), ValueError, "k must be >= 0, got -1"),
        ((torch.zeros(5), 5.5), ValueError, "k must be >= 0 and <= 5, got 5.5"),
        ((torch.zeros(5), torch.tensor([1.0, 7])), ValueError, "k must be >= 0 and <= 5, got val"),
        ((torch.zeros(5), "2"), TypeError, "k must be a number, got str"),
        ((torch.zeros(5), 2, "laplace", 0.0), ValueError, "scale must be > 0, got 0.0"),
        ((torch.zeros(5), 2, "laplacian"), ValueError, "laplace"),
        ((torch.tensor([1.0, torch.nan]), 1), ValueError, "x must be finite"),
        ((torch.zeros(2, 5), torch.ones(3)), ValueError, r"k must broadcast to the batch .* \[2\]"),
        ((torch.zeros(5), torch.ones(4, 1)), ValueError, r"\[\], or be a column .* got \[4, 1\]"),
        ((torch.zeros(1, 5), torch.ones(4, 1)), ValueError, r"expand x"),
        ((torch.zeros(5), 2, "laplace", torch.ones(3)), ValueError, "scale must broadcast"),
        (([1.0, 2.0], 1), TypeError, "x must be a torch.Tensor"),
    ):
        with pytest.raises(error, match=message):
            soft_topk_mask(*args)
    with pytest.raises(TypeError, match="no setting 'temper'; it has"):
        soft_topk_mask(torch.zeros(5), 2, temper=3.0)
    with pytest.raises(ValueError, match=r"k must be whole for a hard mask, got 1\.5"):
        soft_topk_mask(torch.zeros(5), 1.5, hard=True)


@for_each(name=[*ORACLE, *FORMS], way=WAYS, rotating=3)
def test_absent_values_change_nothing(name, way):
    x = poisoned(values(36).reshape(6, 6))
    k = torch.tensor([2.5, 1.0, 2.0, 0.25, 3.0, 1.5], dtype=torch.float64, requires_grad=True)
    p = soft_topk_mask(x, k, name, 0.4, mask=MASK, backend=way)

    def alone(x, row):
        return soft_topk_mask(x, k[row], name, 0.4, backend=way)

    assert_of_lists(p, alone, x, dims="n")
    by_x, by_k = torch.autograd.grad(p[:, 1].sum(), (x, k))
    for row in (0, 1, 5):
        slope = torch.autograd.grad(alone(x.detach()[row, MASK[row]], row)[int(MASK[row, 0])], k)[0]
        torch.testing.assert_close(by_k[row], slope[row])
    # Nothing to choose from: one value has k, and where k is all that there are, each has 1.
    torch.testing.assert_close(p[3, 4], k[3])
    assert p[4].tolist() == [1.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    assert (by_x[2:5] == 0).all()
    assert by_k[[2, 4]].tolist() == [0.0, 0.0]


@pytest.mark.rotating(4, group="sorting")
def test_nothing_and_all():
    """As `torch.topk`: k = 0 selects nothing, k = n all; n = 1 has a gradient by k alone."""
    for way in WAYS:
        for name, hard in itertools.product((*ORACLE, "heaviside"), (False, True)):
            x = values(12).reshape(3, 4).requires_grad_()
            for k in (0, 4):
                p = soft_topk_mask(x, k, name, hard=hard, backend=way)
                assert p.tolist() == [[k / 4] * 4] * 3
            k = torch.tensor([0.0, 2.0, 4.0], dtype=torch.float64, requires_grad=True)
            p = soft_topk_mask(x, k, name, hard=hard, backend=way)
            assert p[0].tolist() == [0.0] * 4
            assert p[2].tolist() == [1.0] * 4
            torch.testing.assert_close(p[1], soft_topk_mask(x[1], 2, name, hard=hard, backend=way))
            if p.requires_grad and not hard:
                by_x, by_k = torch.autograd.grad(p[:, 0].sum(), (x, k))
                assert by_x[[0, 2]].eq(0).all()
                assert by_k[[0, 2]].eq(0).all()
    x = torch.zeros(2, 1, requires_grad=True)
    p = soft_topk_mask(x, 0.25)
    assert p.tolist() == [[0.25]] * 2
    assert torch.autograd.grad(p.sum(), x)[0].eq(0).all()  # a step of a training does not fail
    assert soft_topk_mask(torch.zeros(2, 0), 0).shape == (2, 0)


def test_a_hard_mask_is_topk_with_soft_gradients():
    x = values(18).reshape(3, 6).requires_grad_()
    k = torch.tensor([1, 2, 5])
    hard, soft = (soft_topk_mask(x, k, scale=0.5, hard=hard) for hard in (True, False))
    for row in range(3):
        want = torch.zeros(6, dtype=x.dtype).index_fill(0, x[row].topk(int(k[row])).indices, 1.0)
        assert torch.equal(hard[row], want)
    weights = values(18, 1).reshape(3, 6)
    a, b = (torch.autograd.grad((p * weights).sum(), x)[0] for p in (hard, soft))
    assert torch.equal(a, b)
    ties = torch.tensor([1.0, 2.0, 1.0, 1.0])
    assert soft_topk_mask(ties, 2, hard=True).tolist() == [1.0, 1.0, 0.0, 0.0]
    mask = torch.tensor([False, False, True, True])
    assert soft_topk_mask(ties, 1, hard=True, mask=mask).tolist() == [0.0, 0.0, 1.0, 0.0]
    assert soft_topk_mask(ties, 3, hard=True, mask=mask).tolist() == [0.0, 0.0, 1.0, 1.0]


def test_a_dimension_of_its_own():
    x, mask = values(30).reshape(2, 5, 3), torch.rand(2, 5, 3) > 0.3
    k = torch.tensor([1.0, 2.0, 3.0])
    for options, there in (({}, {}), ({"mask": mask}, {"mask": mask.movedim(1, -1)})):
        want = soft_topk_mask(x.movedim(1, -1), k, **there).movedim(-1, 1)
        assert torch.equal(soft_topk_mask(x, k, dim=1, **options), want)
        assert torch.equal(soft_topk_mask(x, k.expand(2, 1, 3), dim=-2, **options), want)


def test_sampled_subsets_have_the_probabilities_of_draws_without_replacement():
    logits = torch.tensor([0.0, 1.0, 0.3, -1.0])
    weights, n, samples = logits.double().exp().tolist(), 4, 5000
    expected = torch.zeros(n, dtype=torch.float64)
    for i in range(n):
        for j in range(n):
            if i != j:
                p = weights[i] / sum(weights) * weights[j] / (sum(weights) - weights[i])
                expected[i] += p
                expected[j] += p
    torch.manual_seed(0)
    x = logits.expand(samples, n).clone().requires_grad_()
    drawn = soft_topk_mask(x, 2, hard=True, noise=1.0)
    assert set(drawn.unique().tolist()) == {0.0, 1.0}
    torch.testing.assert_close(drawn.double().mean(0), expected, rtol=0, atol=0.03)
    assert torch.autograd.grad(drawn[:, 0].sum(), x)[0].abs().sum() > 0
    module = SoftTopKMask(2, hard=True, noise=1.0, learnable=True)
    assert set(module(x)[:, 1].unique().tolist()) == {0.0, 1.0}
    assert torch.equal(module.eval()(x[0]), soft_topk_mask(x[0], 2, hard=True))
    torch.nn.Sequential(torch.nn.Linear(4, 6), module)(x[:3])[:, 0].sum().backward()
    assert module.log_scale.grad.isfinite()
