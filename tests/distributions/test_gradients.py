"""First and second derivatives: by differences where F is smooth, finite everywhere else."""

import mpmath as mp
import pytest
import torch

from gendr import distributions
from support.cases import for_each
from support.distributions import CDF, EXAMPLES, SMOOTH, forms

F64 = torch.float64
INF = float("inf")
# Differences need moderate shapes: of 0.05 the quantiles are 1e-20, of 100 the loops are long.
# Values and slopes at such shapes are compared with mpmath.
FORMS = [d for dist in SMOOTH if dist.shape_parameter in (None, 0.5, 2.0, 7.3) for d in forms(dist)]


def smooth_points(dist):
    """Four x well inside, away from kinks and from x = 0."""
    q = torch.tensor([0.07, 0.37, 0.61, 0.92], dtype=F64)
    return dist.icdf(q).clamp(-50, 50)


def rebuilt(dist, shape=None):
    """The distribution with a tensor for its shape; gradcheck perturbs its inputs in place."""
    return dist if shape is None else dist.with_shape(shape)


def shape_of(dist, dtype=F64):
    """A tuple with the shape as a tensor that requires grad; empty without a shape."""
    if dist.shape_parameter is None:
        return ()
    return (torch.tensor(dist.shape_parameter, dtype=dtype, requires_grad=True),)


@for_each(rotating=16, dist=FORMS)
def test_gradcheck(dist):
    x = smooth_points(dist).detach().requires_grad_()
    scale = torch.tensor(0.9, dtype=F64, requires_grad=True)

    def coverage(x, scale, *shape):
        return rebuilt(dist, *shape).coverage(x, scale)

    inputs = (x, scale, *shape_of(dist))
    assert torch.autograd.gradcheck(coverage, inputs)
    assert torch.autograd.gradgradcheck(coverage, inputs, atol=1e-4, rtol=1e-4, fast_mode=True)


@for_each(dist=FORMS)
def test_pdf_is_the_slope_of_cdf(dist):
    z = smooth_points(dist).requires_grad_()
    (slope,) = torch.autograd.grad(dist.cdf(z).sum(), z)
    (fall,) = torch.autograd.grad(dist.sf(z).sum(), z)
    assert torch.allclose(slope, dist.pdf(z), 1e-13, 0)
    assert torch.equal(fall, -slope)
    step = 1e-6 * z.detach().abs().clamp(min=1e-3)
    with torch.no_grad():
        quotient = (dist.cdf(z + step) - dist.cdf(z - step)) / (2 * step)
    assert torch.allclose(dist.pdf(z), quotient, 1e-5, 1e-6)


@for_each(rotating=8, dist=FORMS)
def test_inverses_are_differentiable(dist):
    q = torch.tensor([0.11, 0.34, 0.45, 0.71, 0.88], dtype=F64, requires_grad=True)
    for part in ("icdf", "isf"):
        assert torch.autograd.gradcheck(
            lambda q, *shape, part=part: getattr(rebuilt(dist, *shape), part)(q),
            (q, *shape_of(dist)),
            atol=1e-4,
            rtol=1e-4,
        )


def test_shift_is_differentiable():
    x = torch.tensor([-0.7, 0.2, 1.1], dtype=F64)
    shift = torch.tensor(0.3, dtype=F64, requires_grad=True)
    for name in ("logistic", "gumbel_max"):
        assert torch.autograd.gradcheck(
            lambda s, name=name: distributions.get(name).shifted(s).reversed().coverage(x, 0.5),
            (shift,),
        )


def test_the_centred_median_is_differentiable():
    shape = torch.tensor(2.5, dtype=F64, requires_grad=True)
    (slope,) = torch.autograd.grad(distributions.get("gamma", shape=shape).median(), shape)
    step = mp.mpf(10) ** -8

    def median(a):
        return mp.findroot(lambda z: mp.gammainc(a, 0, z, regularized=True) - 0.5, 2.2)

    above, below = median(2.5 + step), median(2.5 - step)
    assert slope.item() == pytest.approx(float((above - below) / (2 * step)), rel=1e-12)


@for_each(shape=[0.05, 0.5, 1.0, 2.0, 9.9, 10.1, 40.0, 100.0], name=["gamma", "student_t", "power"])
def test_slope_in_the_shape_equals_mpmath(shape, name):
    if name == "gamma":
        z = [1e-20, 1e-3, 0.3 * shape, 0.9 * shape, shape + 0.999, shape + 1.001, 2 * shape + 1]
        z += [3 * shape + 20, 3 * shape + 60]
    elif name == "power":
        z = [-1.0, 0.0, 1e-20, 1e-3, 0.3, 0.9, 1 - 1e-9, 1.0, 2.0]
    else:
        z = [-40.0, -2.7, -1.0, -0.3, 1e-3, 0.6, 1.9, 8.0]
    z = torch.tensor(z, dtype=F64)
    a = torch.full_like(z, shape).requires_grad_()
    dist = distributions.get(name, shape=a)
    (lower,) = torch.autograd.grad(dist.cdf(z).sum(), a)
    (upper,) = torch.autograd.grad(dist.sf(z).sum(), a)
    assert torch.equal(lower, -upper)
    step = mp.mpf(10) ** -30
    for got, at in zip(lower.tolist(), z.tolist(), strict=True):
        # From the smaller of the tails, so that 120 digits suffice.
        if name == "student_t":
            high, low = (CDF[name](-abs(mp.mpf(at)), shape + h) for h in (step, -step))
            high, low = (low, high) if at > 0 else (high, low)
        elif name == "power":
            high, low = (CDF[name](mp.mpf(at), shape + h) for h in (step, -step))
        elif at < shape:
            high, low = (mp.gammainc(shape + h, 0, at, regularized=True) for h in (step, -step))
        else:
            low, high = (mp.gammainc(shape + h, at, regularized=True) for h in (step, -step))
        want = (high - low) / (2 * step)
        # Relative, so to the far tail too.
        assert abs(got - want) <= 1e-11 * abs(want) + 1e-300


EXTREME = (0.0, -0.0, 1.0, -1.0, 0.25, -0.25, 5.0, -5.0, 30.0, -30.0, 88.0, -88.0, 104.0, -104.0)
EXTREME += (709.0, -709.0, 746.0, -746.0, 1e-3, 1e-4, 1e-8, -1e-8, 1e-18, 1e-19, 1e-30, -1e-30)
EXTREME += (1e-37, 1e-38, 1e-45, -1e-45, 1e9, -1e9, 1e30, -1e30, INF, -INF)


def extremes(dtype):
    eps = torch.finfo(dtype).eps
    ends = [1 - eps, 1 + eps, -1 - eps, -1 + eps, torch.finfo(dtype).tiny, torch.finfo(dtype).max]
    return torch.tensor([*EXTREME, *ends], dtype=dtype)


@for_each(rotating=8, distribution=EXAMPLES, dtype=[torch.float32, torch.float64])
def test_values_and_gradients_are_finite_everywhere(distribution, dtype):
    for form in forms(distribution):
        for size in (1e-8, 1e-2, 1.0, 1e3):
            shape = shape_of(form, dtype)
            dist = rebuilt(form, *shape)
            x = extremes(dtype).requires_grad_()
            scale = torch.tensor(size, dtype=dtype, requires_grad=True)
            a, s = dist.coverage(x, scale)
            assert ((a >= 0) & (a <= 1) & (s >= 0) & (s <= 1)).all(), form
            first = torch.autograd.grad(
                a.sum() - 2 * s.sum(), (x, scale, *shape), create_graph=True
            )
            assert all(g.isfinite().all() for g in first), form
            # Near x = 0 the second slope of art grows without bound, as it must.
            if not form.art_exponent:
                second = torch.autograd.grad(first[0].sum(), x)
                assert second[0].isfinite().all(), form


@for_each(rotating=4, distribution=EXAMPLES, dtype=[torch.float32, torch.float64])
def test_the_ends_of_the_range_give_finite_values_and_gradients(distribution, dtype):
    largest, tiny = torch.finfo(dtype).max, torch.finfo(dtype).tiny
    ends = [largest, largest / 2, 2 * largest**0.5, 1.0, tiny, tiny / 8, 0.0]
    x = torch.tensor([*ends, *(-end for end in ends)], dtype=dtype, requires_grad=True)
    for dist in forms(distribution):
        assert dist.pdf(x).isfinite().all(), dist
        for size in (tiny, 1.0, largest):
            scale = torch.tensor(size, dtype=dtype, requires_grad=True)
            for given in (size, scale):
                a = dist(x, given)
                assert ((a >= 0) & (a <= 1)).all(), dist
                inputs = (x, scale) if given is scale else (x,)
                weights = torch.linspace(-1, 1, len(x), dtype=dtype)
                assert all(g.isfinite().all() for g in torch.autograd.grad(a, inputs, weights)), (
                    dist
                )


@for_each(dtype=[torch.float32, torch.float64])
def test_a_scale_that_the_dtype_cannot_hold_is_a_hard_step(dtype):
    x = torch.tensor([-1.0, 0.0, 1.0], dtype=dtype)
    for scale in (1e-310, torch.tensor(1e-310, dtype=F64)):
        dist = distributions.get("logistic")
        assert dist(x, scale).tolist() == [0.0, 0.5, 1.0]


def test_an_infinite_pdf_counts_as_zero():
    z = torch.zeros(1, dtype=F64, requires_grad=True)
    for name in ("gamma", "power"):
        dist = distributions.get(name, shape=0.5)
        assert dist.pdf(z) == 0
        (slope,) = torch.autograd.grad(dist.cdf(z), z)
        assert slope == 0
    x = torch.zeros(1, dtype=F64, requires_grad=True)
    (slope,) = torch.autograd.grad(distributions.get("logistic").art(0.25)(x, 0.1), x)
    assert slope == 0


def test_a_hessian_exists_where_the_pdf_is_constant():
    x = torch.tensor([0.1, 3.0], dtype=F64, requires_grad=True)
    for name in ("uniform", "heaviside"):
        (slope,) = torch.autograd.grad(distributions.get(name).cdf(x).sum(), x, create_graph=True)
        (bend,) = torch.autograd.grad(slope.sum(), x)
        assert (bend == 0).all()
