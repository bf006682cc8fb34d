"""Values of every distribution against mpmath and SciPy, transforms against their definition."""

import mpmath as mp
import pytest
import torch

from gendr import distributions
from support.cases import for_each
from support.distributions import EXAMPLES, SMOOTH, exact_cdf, exact_pdf, exact_sf, forms, points

F64 = torch.float64
INF = float("inf")


def exact(function, dist, z):
    return [function(dist, v) for v in z.tolist()]


def far(dist):
    """Points whose upper tail lies between about 1e-2 and 1e-70."""
    high = dist.support[1]
    if high < INF:
        return high - torch.logspace(-1, -9, 9, dtype=F64)
    if dist.name in ("cauchy", "reciprocal", "levy", "optimal"):
        return torch.logspace(2, 28, 9, dtype=F64)
    if dist.name == "gaussian":
        return torch.linspace(3, 18, 9, dtype=F64)
    if dist.name == "gumbel_min":
        return torch.linspace(1, 5, 9, dtype=F64)
    return torch.linspace(7, 120, 9, dtype=F64) + 2 * (dist.shape_parameter or 0)


def near_lower_end(dist):
    """Points whose lower tail is tiny."""
    low, _ = dist.support
    if low == 0:
        bulk = max(1, dist.shape_parameter or 1) if dist.support[1] == INF else 1
        return torch.logspace(-2.2, -0.5, 7, dtype=F64) * bulk
    if low > -INF:
        return low + torch.logspace(-1, -9, 9, dtype=F64)
    mirror = {"gumbel_min": "gumbel_max", "gumbel_max": "gumbel_min"}.get(dist.name, dist.name)
    return -far(distributions.get(mirror))


@for_each(dist=EXAMPLES)
def test_cdf_and_sf_equal_mpmath(dist):
    z = points(dist)
    for value, function in ((dist.cdf(z), exact_cdf), (dist.sf(z), exact_sf)):
        for got, want in zip(value.tolist(), exact(function, dist, z), strict=True):
            assert abs(got - want) <= 1e-13


@for_each(dist=SMOOTH)
def test_both_tails_keep_their_digits(dist):
    for part, function, z in (
        (dist.sf, exact_sf, far(dist)),
        (dist.cdf, exact_cdf, near_lower_end(dist)),
    ):
        for got, want in zip(part(z).tolist(), exact(function, dist, z), strict=True):
            assert abs(got - want) <= 1e-11 * want


@for_each(dist=SMOOTH)
def test_pdf_equals_mpmath(dist):
    z = points(dist)
    for got, want in zip(dist.pdf(z).tolist(), exact(exact_pdf, dist, z), strict=True):
        assert abs(got - want) <= 1e-12 * max(1, want)


@for_each(dist=SMOOTH)
def test_inverses_equal_the_exact_root(dist):
    # The error of a root is the error of F there over the slope, all of it in 120 digits.
    q = torch.tensor([1e-15, 1e-12, 1e-6, 1e-3, 0.2, 0.49, 0.5, 0.7, 0.99, 1 - 1e-9], dtype=F64)
    for inverse, function in ((dist.icdf, exact_cdf), (dist.isf, exact_sf)):
        for z, p in zip(inverse(q).tolist(), q.tolist(), strict=True):
            if dist.support[0] < z < dist.support[1] and z != 0:
                error = abs(function(dist, z) - mp.mpf(p)) / exact_pdf(dist, z)
                assert error <= 1e-12 * max(1, abs(z))


@for_each(dist=SMOOTH)
def test_symmetric_distributions_are_their_own_mirror_image(dist):
    z = points(dist)
    same = torch.equal(dist.reversed().cdf(z), dist.cdf(z))
    assert same == dist.is_symmetric
    if dist.is_symmetric:
        assert torch.equal(dist.reversed().sf(z), dist.sf(z))


@for_each(distribution=EXAMPLES)
def test_transforms_follow_their_definition(distribution):
    x = torch.linspace(-2, 2, 41, dtype=F64) + 0.011
    scale = torch.tensor([[0.3], [1.7]], dtype=F64)
    base, s = distribution.cdf, 0.4
    median = distribution.icdf(torch.tensor(0.5, dtype=F64))
    for dist, want in (
        (distribution, base(x / scale)),
        (distribution.reversed(), 1 - base(-x / scale)),
        (distribution.shifted(s), base(x / scale + s)),
        (distribution.centred(), base(x / scale + median)),
        (distribution.shifted(s).reversed(), 1 - base(-x / scale + s)),
        (distribution.squared(), base(x * x.abs() / scale)),
        (distribution.reversed().squared().shifted(s), 1 - base(-x * x.abs() / scale + s)),
        (distribution.art(0.25), base(x / x.abs() ** 0.25 / scale)),
        (distribution.reversed().art(0.25).shifted(s), 1 - base(-x / x.abs() ** 0.25 / scale + s)),
    ):
        a, complement = dist.coverage(x, scale)
        assert torch.allclose(a, want, 0, 1e-14), dist
        assert torch.allclose(complement, 1 - want, 0, 1e-14), dist
        assert torch.equal(dist(x, scale), a)
        assert torch.allclose(dist.cdf(x), dist(x, 1.0), 0, 0)


@for_each(distribution=SMOOTH, rotating=3)
def test_transforms_invert(distribution):
    q = torch.tensor([1e-6, 0.01, 0.3, 0.5, 0.8, 0.999], dtype=F64)
    for dist in forms(distribution):
        x, y = dist.icdf(q), dist.isf(q)
        # A shift costs some last digits of x, which matter where F is steep.
        slack = 4e-16 * abs(dist.total_shift()) / (1e-3 if dist.is_squared else 1)
        for part, at, sign in ((dist.cdf, x, 1), (dist.sf, y, -1)):
            around = sign * (4e-16 * at.abs() + slack)
            assert (part(at - around) <= q + 1e-12).all()
            assert (part(at + around) >= q - 1e-12).all()
        assert dist.icdf(torch.tensor([-0.1, 1.1])).isnan().all()
        low, high = dist.support
        ends = torch.tensor([0.0, 1.0], dtype=F64)
        assert torch.allclose(dist.icdf(ends), torch.tensor([low, high], dtype=F64), 0, 1e-15)
        assert torch.allclose(dist.isf(ends), torch.tensor([high, low], dtype=F64), 0, 1e-15)


def test_reversed_quantile_keeps_tiny_probabilities():
    # -isf of the original; through icdf(1 - q) it would be infinite.
    q = torch.tensor(1e-200, dtype=F64)
    got = distributions.get("exponential").reversed().icdf(q)
    assert got.item() == pytest.approx(-200 * 2.302585092994046, rel=1e-14)


@for_each(dist=EXAMPLES)
def test_float32_is_close_to_float64(dist):
    z = points(dist).float()
    for part in (dist.cdf, dist.sf):
        assert part(z).dtype == torch.float32
        assert (part(z).double() - part(z.double())).abs().max() <= 3e-7


def test_types_and_shapes():
    logistic = distributions.get("logistic")
    assert logistic.cdf(torch.tensor([0, 1])).dtype == torch.get_default_dtype()
    assert logistic.cdf(0.0).item() == 0.5
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.tensor([0.5], dtype=dtype)
        for value in (logistic.cdf(x), logistic.pdf(x), logistic.icdf(x), *logistic.coverage(x)):
            assert value.dtype == dtype
    assert logistic(torch.zeros(3, 1), torch.ones(4)).shape == (3, 4)
    assert logistic.cdf(torch.zeros(0, 2)).shape == (0, 2)
    shapes = torch.tensor([[0.5], [2.0]], dtype=F64)
    z = torch.rand(5, dtype=F64)
    batch = distributions.get("gamma", shape=shapes).centred()(z, 0.3)
    for row, shape in zip(batch, shapes, strict=True):
        one = distributions.get("gamma", shape=shape.item()).centred()(z, 0.3)
        assert torch.allclose(row, one, 0, 1e-14)
    with pytest.raises(TypeError, match="real"):
        logistic.cdf(torch.zeros(2, dtype=torch.complex64))


@for_each(distribution=EXAMPLES)
def test_nan_stays_nan(distribution):
    nan = torch.tensor(float("nan"))
    for dist in forms(distribution):
        assert dist.cdf(nan).isnan()
        assert dist.sf(nan).isnan()


@for_each(distribution=EXAMPLES, cutoff=[0.0, 1e-6, 1e-2], rotating=3)
def test_nothing_beyond_the_radius_is_kept(distribution, cutoff):
    scale = torch.tensor([1e-3, 0.2], dtype=F64)
    steps = torch.tensor([[1.0 + 1e-9], [1.001], [2.0], [100.0]], dtype=F64)
    for dist in forms(distribution):
        radius = dist.radius(scale, cutoff)
        assert radius.shape == scale.shape
        reach = torch.where(radius.isfinite(), radius, 1e30)
        outside = dist(-reach * steps - 1e-100, scale) <= cutoff
        assert outside[:, radius.isfinite()].all(), dist
        if cutoff == 0:
            assert radius.isinf().all() == (dist.support[0] == -INF), dist
        else:  # and it is not larger than it has to be: 1e-4 inside, pixels are kept
            kept = dist(-reach * (1 - 1e-4), scale) > cutoff
            assert (kept | (radius == 0)).all(), dist


def test_radius_of_unbounded_and_bounded_tails():
    get = distributions.get
    assert get("logistic").radius(0.1, 0.0) == INF
    assert get("uniform").radius(0.1, 0.0).item() == pytest.approx(0.1, rel=2e-5)
    assert get("uniform").squared().radius(0.01, 0.0).item() == pytest.approx(0.1, rel=2e-5)
    assert get("uniform").art(0.5).radius(0.1, 0.0).item() == pytest.approx(0.01, rel=3e-5)
    assert get("exponential").radius(0.1, 1e-6) == 0
    assert get("exponential").reversed().radius(0.1, 0.0) == INF
    assert get("uniform").shifted(3.0).radius(0.1, 0.0).item() == pytest.approx(0.4, rel=2e-5)
    assert get("uniform").shifted(-3.0).radius(0.1, 0.0) == 0
    shape = torch.tensor(2.0, requires_grad=True)
    assert not get("gamma", shape=shape).centred().radius(0.1, 1e-6).requires_grad
