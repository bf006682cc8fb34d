"""What Triton compiles, interpreted, against mpmath and torch: mathematics, distributions,
T-conorms.
"""

import math
import random
from functools import partial

import mpmath as mp
import numpy as np
import pytest
import scipy.special
import torch

triton = pytest.importorskip("triton", reason="Triton has no wheels for this platform")

import triton.language as tl  # noqa: E402  # there is no triton on some systems

from gendr import distributions  # noqa: E402
from gendr.distributions import Gamma  # noqa: E402
from gendr.distributions import triton as of_distributions  # noqa: E402
from gendr.kernels.triton import mathematics  # noqa: E402
from gendr.tnorms import Frank  # noqa: E402
from gendr.tnorms import triton as of_tconorms  # noqa: E402
from support.arithmetic import pessimistic_arithmetic  # noqa: E402
from support.cases import for_each  # noqa: E402
from support.distributions import EXAMPLES, points  # noqa: E402
from support.tconorms import ARCHIMEDEAN, ORACLES, PARAMETRIC, is_nilpotent  # noqa: E402
from support.triton import DEVICE, INTERPRETED  # noqa: E402

ROWS, COLUMNS = 256, 16
LARGEST = torch.finfo(torch.float32).max
TINY = 2.0**-126  # the least normal float32


@triton.jit
def kernel(
    a, b, c, d, p, x, y, n,
    FUNCTION: tl.constexpr, INPUTS: tl.constexpr, NUMBERS: tl.constexpr, OUTPUTS: tl.constexpr,
    BY_ROW: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A function of 1, 2 or 4 blocks and some numbers, the first of which may be one a row."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    i = row * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    u = tl.load(a + i, mask=i < n, other=1.0)
    number = tl.load(p + row, mask=row * COLUMNS < n, other=1.0) if BY_ROW else tl.load(p)
    if INPUTS == 1:
        if NUMBERS == 0:
            found = FUNCTION(u)
        elif NUMBERS == 1:
            found = FUNCTION(u, number)
        elif NUMBERS == 2:
            found = FUNCTION(u, number, tl.load(p + 1))
        else:
            found = FUNCTION(u, number, tl.load(p + 1), tl.load(p + 2))
    else:
        v = tl.load(b + i, mask=i < n, other=1.0)
        if NUMBERS == 0:
            found = FUNCTION(u, v)
        elif INPUTS == 2:
            found = FUNCTION(u, v, number)
        else:
            w, z = tl.load(c + i, mask=i < n, other=1.0), tl.load(d + i, mask=i < n, other=1.0)
            found = FUNCTION(u, v, w, z, number)
    if OUTPUTS == 1:
        tl.store(x + i, found, mask=i < n)
    else:
        tl.store(x + i, found[0], mask=i < n)
        tl.store(y + i, found[1], mask=i < n)


def launch(function, *arrays, numbers=(), outputs=1, rows=None, columns=COLUMNS):
    """Outputs in float64 for arrays of float32; what the kernel does not write stays NaN.

    Numbers are those of all elements; with as many as rows, one for each of these.
    """
    inputs = [torch.as_tensor(x, dtype=torch.float32, device=DEVICE) for x in arrays]
    out = [torch.full_like(inputs[0], math.nan) for _ in range(2)]
    n, by_row = inputs[0].numel(), len(numbers) == rows
    rows = rows or min(ROWS, triton.next_power_of_2(triton.cdiv(n, columns)))
    given = torch.tensor([*numbers, 0.0], dtype=torch.float32, device=DEVICE)
    with np.errstate(all="ignore"):  # as the backends: NumPy computes both sides of a `where`
        kernel[(triton.cdiv(n, rows * columns),)](
            *(inputs * 4)[:4], given, *out, n, FUNCTION=function, INPUTS=len(inputs),
            NUMBERS=1 if by_row else len(numbers), OUTPUTS=outputs, BY_ROW=by_row, ROWS=rows,
            COLUMNS=columns,
        )  # fmt: skip
    found = [o.double().cpu() for o in out[:outputs]]
    return found if outputs > 1 else found[0]


# -------------------------------------------------------------------------------------------------
# Functions that Triton lacks

ULP = 1.2e-7
# 0, and both signs of all magnitudes; what a test takes of them is its range.
MAGNITUDES = np.concatenate([10.0 ** np.linspace(-30, 30, 800), np.linspace(0.01, 110, 1200)])
EVERY = np.concatenate([[0.0], MAGNITUDES, -MAGNITUDES]).astype(np.float32)


def evaluated(name, *inputs):
    return launch(getattr(mathematics, name), *map(np.float32, inputs)).numpy()


INF = math.inf


@for_each(
    "name, ends, oracle, ulp, limits",
    [
        ("log1p", (-0.99999, 1e30), np.log1p, 4, {INF: INF, -1.0: -INF}),
        ("expm1", (-1e30, 88.0), np.expm1, 2, {-INF: -1.0, INF: INF, 89.0: INF}),
        ("erfcx", (0.0, 1e30), scipy.special.erfcx, 6, {INF: 0.0}),
        ("atan", (0.0, 1.0), np.arctan, 2, {}),
    ],
)
def test_functions_of_one_argument(name, ends, oracle, ulp, limits):
    """Their error in ulp in a range, their limits, and that a NaN stays one."""
    x = EVERY[(EVERY >= ends[0]) & (EVERY <= ends[1])]
    fine = np.random.default_rng(5).uniform(max(ends[0], -3.0), min(ends[1], 3.0), 2000)
    x = np.concatenate([x, fine.astype(np.float32)])
    # Below the least normal number float32 has fewer digits, or none: it counts as 0.
    want = oracle(x.astype(np.float64))
    np.testing.assert_allclose(evaluated(name, x), want, rtol=ulp * ULP, atol=TINY)
    assert evaluated(name, [*limits, math.nan]).tolist()[:-1] == [*limits.values()]
    assert np.isnan(evaluated(name, [*limits, math.nan])[-1])


def test_power_at_the_ends():
    x, p = [0.0, 0.0, 0.0, INF, INF, INF, 1.0], [2.0, 0.0, -2.0, 2.0, 0.0, -2.0, 300.0]
    assert evaluated("power", x, p).tolist() == [0, 1, INF, INF, 1, 0, 1]


# -------------------------------------------------------------------------------------------------
# Distributions: values to the ends of float32

EDGES = (0.0, 1, 0.25, 0.5, 1e-4, 1e-20, 1e-31, 30, 40, 90, 800, 1e9, 1e30, LARGEST)
# Beyond the class' examples: where the general form begins and ends, and beside its branches.
SHAPES = (0.3, 0.999, 1.5, 9.9, 10.1, 40.0, 1000.0, 10_000.0)
DISTRIBUTIONS = [*EXAMPLES, *map(Gamma, SHAPES)]
SHAPED = [dist for dist in DISTRIBUTIONS if dist.shape_parameter is not None]

# Relative where the value is above 1e-30, absolute everywhere.
RELATIVE, ABSOLUTE, SMALLEST = 1e-5, 2e-6, 1e-30


def scalars(dist):
    if dist.shape_parameter is None:
        return 0.0, 0.0, 0.0
    shape = torch.tensor(dist.shape_parameter, dtype=torch.float64)
    return tuple(x.item() for x in of_distributions.parameters(dist.name, shape))


def tails(dist, z):
    return launch(
        of_distributions.function(dist.name, "tails"), z, numbers=scalars(dist)[:2], outputs=2
    )


def pdf(dist, z):
    return launch(of_distributions.function(dist.name, "density"), z, numbers=scalars(dist)[:2])


def shape_slope(dist, z):
    return launch(of_distributions.function(dist.name, "shape_slope"), z, numbers=scalars(dist))


def exact(dist):
    """The class, with the shape rounded as the kernels see it."""
    return dist if dist.shape_parameter is None else dist.with_shape(scalars(dist)[0])


def inputs(dist):
    """Bulk, tails, the grid of pixel centres and edges, both signs, float32, an odd number."""
    centre = dist.shape_parameter or 0.0
    spread = max(1.0, centre**0.5)
    draw = torch.randn(600, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    grid = (2 * torch.arange(64, dtype=torch.float64) + 1) / 64 - 1
    edges = torch.tensor(EDGES, dtype=torch.float64)
    magnitudes = 10.0 ** torch.linspace(-20, 12, 300, dtype=torch.float64)
    near = torch.cat([draw, 5 * draw, grid, grid / 100, torch.linspace(-14, 14, 500)])
    z = torch.cat([points(dist, 200), near, near * spread + centre, edges, magnitudes])
    return torch.cat([z, -z]).float()[:-1]


def assert_close(got, want, relative=RELATIVE):
    error = (got - want).abs()
    assert bool((error <= ABSOLUTE * want.abs().clamp(min=1)).all()), error.max()
    excess = torch.where(want.abs() > SMALLEST, error / want.abs(), 0.0)
    assert excess.max() <= relative


@for_each(dist=DISTRIBUTIONS, rotating=5)
def test_distributions_equal_the_class(dist):
    z = inputs(dist).sort().values
    cdf, sf = tails(dist, z)
    assert_close(cdf, exact(dist).cdf(z.double()))
    assert_close(sf, exact(dist).sf(z.double()))
    torch.testing.assert_close(cdf + sf, torch.ones_like(cdf), rtol=0, atol=2e-7)
    # Falls no further than its relative error allows.
    assert bool((cdf.diff() >= -RELATIVE * cdf[1:]).all())
    assert bool((sf.diff() <= RELATIVE * sf[:-1]).all())
    assert bool(((cdf >= 0) & (cdf <= 1) & (sf >= 0) & (sf <= 1)).all())
    density = pdf(dist, z)
    assert_close(density, exact(dist).pdf(z.double()))
    assert bool((density.isfinite() & (density >= 0)).all())


# Distributions whose exponent is rounded before an exp that amplifies it, unless its low digits go
# along: without them the errors are 4e-6.
@for_each(
    "name, ends, relative",
    [
        ("gaussian", (-11.6, 0), 1e-6),  # 2 ulp of exp_sum, 6 of erfcx, products
        ("gumbel_max", (-4.2, 0), 3e-6),
        ("gumbel_min", (0, 4.2), 3e-6),
    ],
)
def test_tails_amplify_no_rounding(name, ends, relative):
    dist = distributions.get(name)
    z = torch.linspace(*ends, 3000)
    cdf, sf = tails(dist, z)
    assert_close(cdf, dist.cdf(z.double()), relative)
    assert_close(sf, dist.sf(z.double()), relative)


@for_each(rotating=3, dist=SHAPED)
def test_the_shape_slope_equals_the_class(dist):
    z = inputs(dist)
    shapes = torch.full_like(z, scalars(dist)[0], dtype=torch.float64).requires_grad_()
    (want,) = torch.autograd.grad(dist.with_shape(shapes).cdf(z.double()).sum(), shapes)
    assert_close(shape_slope(dist, z), want)


@for_each(rotating=5, dist=DISTRIBUTIONS)
def test_infinities_reach_the_limits_and_a_nan_spares_the_others(dist):
    z = torch.tensor([-math.inf, -LARGEST, LARGEST, math.inf, math.nan, 0.7, 3.0])
    cdf, sf = tails(dist, z)
    assert cdf[:2].tolist() == pytest.approx([0, 0], abs=1e-19)
    assert sf[2:4].tolist() == pytest.approx([0, 0], abs=1e-19)
    assert (cdf[0], cdf[3], sf[0], sf[3]) == (0, 1, 1, 0)
    assert cdf.isnan().tolist() == sf.isnan().tolist() == [i == 4 for i in range(7)]
    assert_close(cdf[5:], exact(dist).cdf(z[5:].double()))
    assert pdf(dist, z[:4]).tolist() == [0, 0, 0, 0]
    if dist in SHAPED:
        assert shape_slope(dist, z[:4]).tolist() == pytest.approx([0, 0, 0, 0], abs=1e-17)


def test_parameters_of_shapes():
    """By mpmath; the exponent of the density of powers is positive."""
    shapes = torch.tensor([1e-3, 0.5, 2.0, 0.5, 300.0, 1e6], dtype=torch.float64)
    rounded, constant, psi = of_distributions.parameters("gamma", shapes)
    assert rounded.tolist() == shapes.float().tolist()
    for a, c, s in zip(map(mp.mpf, rounded.tolist()), constant, psi, strict=True):
        assert c.item() == pytest.approx(float(a * mp.log(a) - a - mp.loggamma(a)), abs=1e-8)
        assert s.item() == pytest.approx(float(mp.digamma(a) - mp.log(a)), rel=1e-7)
    rounded, constant, _ = of_distributions.parameters("power", shapes)
    assert constant.tolist() == [a if a < 1 else a - 1 for a in rounded.tolist()]
    rounded, constant, psi = of_distributions.parameters("student_t", shapes)
    for nu, c, s in zip(map(mp.mpf, rounded.tolist()), constant, psi, strict=True):
        assert c.item() == pytest.approx(float(-mp.log(mp.beta(nu / 2, 0.5))), rel=1e-9, abs=1e-12)
        slope = (mp.digamma((nu + 1) / 2) - mp.digamma(nu / 2)) / 2 - 1 / (2 * nu)
        assert s.item() == pytest.approx(float(slope), rel=1e-9, abs=1e-12)


# -------------------------------------------------------------------------------------------------
# T-conorms: values to the ends of float32, edges

EPS = 2.0**-24


def single(t):
    """The same family at the float32 number that the kernel gets as p."""
    return t.with_p(float(np.float32(t.value))) if t in PARAMETRIC else t


def number(t):
    return getattr(t, "value", 0.0)


def exact_weight_p(t, a, s, A, S):
    """(dg/dp)(a) / g'(A) from numerical derivatives; the class cancels for small a or small s.

    The generator of Dombi's family is the one that stays 1 at A as p changes, that of Schweizer and
    Sklar's is over |p|.
    """
    g, p = ORACLES[t.name].generator, mp.mpf(t.value)

    def exact(a, s):
        return mp.mpf(a) if a < s else 1 - mp.mpf(s)

    with mp.workdps(400 if t.name == "joe" else 120):  # Joe's 1 - s^p needs p digits for one of s
        weights = []
        for each in zip(a.tolist(), s.tolist(), A.tolist(), S.tolist(), strict=True):
            member, total = exact(*each[:2]), exact(*each[2:])
            slope_of_p = mp.diff(partial(g, member), p)
            if t.name == "dombi":
                slope_of_p -= g(member, p) / g(total, p) * mp.diff(partial(g, total), p)
            if t.name == "schweizer_sklar":
                slope_of_p -= g(member, p) / p
            weights.append(float(slope_of_p / mp.diff(lambda x: g(x, p), total)))
        return torch.tensor(weights, dtype=torch.float64)


def coverage(count, least, seed=0):
    """(a, s), s = 1 - a in float64, the smaller one log-uniform in [least, 1/2] and of float32."""
    rng = np.random.default_rng(seed)
    small = torch.from_numpy(0.5 * (2 * least) ** rng.random(count)).float().double()
    low = torch.from_numpy(rng.random(count) < 0.5)
    return torch.where(low, small, 1 - small), torch.where(low, 1 - small, small)


def pairs(count, least):
    """(a, s, A, S), each total at least its member."""
    a, s = coverage(count, least)
    b, r = coverage(count, least, seed=1)
    swap = (a > b) | (s < r)
    a, s, b, r = (torch.where(swap, *x) for x in ((b, a), (r, s), (a, b), (s, r)))
    return a, s, b, r


def tolerance(t, least):
    """The relative error allowed: a power x^p costs |p log x| units of the last place.

    That is at most 88 for a float32 number; in a product of two the larger may be beyond. Frank's
    generator is a logarithm, of 1/s and of p, whose exponential has as many units as it is large.
    """
    power = abs(t.value) if t in PARAMETRIC and ORACLES[t.name].power else 0
    size = (1 + power) * -np.log(least)
    size += abs(np.log(t.value)) if t.name == "frank" else 0
    return EPS * (16 + 4 * min(size, 128))


def inverse_tolerance(t, least):
    """The tolerance of an inverse, which takes t^(1/p), or exp(-u) with u up to L = -log(least).

    That is wrong by L times the relative error of u. In units of the last place on a GPU: a power
    2.5 log(u) + 2, log1p 4, a hazard 3, a division 2, a product 1/2; 2 are for the rest.
    """
    size = -np.log(least)
    units = {"aczel_alsina": 2.5 * np.log(size) + 4, "schweizer_sklar": 6.5, "joe": 5}
    power = tolerance(t, least) * max(1, 1 / abs(t.p or 1))
    return max(power, 2 * EPS * size * units.get(t.name, 0))


def close(actual, expected, rtol, atol=0.0):
    """Equal in relative terms; what is no normal float32 may overflow or vanish.

    So may what is no normal number when it is halved, as log1p does first.
    """
    huge = expected > 1e38
    assert bool((actual[huge] > 9e37).all())
    torch.testing.assert_close(actual[~huge], expected[~huge], rtol=rtol, atol=atol + 2 * TINY)


@for_each(least=[1e-3, 1e-30], t=ARCHIMEDEAN, rotating=5)
def test_tconorms_equal_the_class(t, least):
    t = single(t)
    a, s = coverage(300, least)
    g = launch(of_tconorms.function(t.name, "generator"), a, s, numbers=[number(t)])
    close(g, t.generator(a, s), tolerance(t, least))
    sums = t.generator(a, s).float().double()
    sums = sums[(sums > TINY) & (sums < torch.inf)]
    A, S = launch(of_tconorms.function(t.name, "inverse"), sums, numbers=[number(t)], outputs=2)
    expected = t.inverse(sums)
    rtol = inverse_tolerance(t, least)
    close(A, expected[0], rtol)
    # The class takes 1 - A there, at its own precision.
    close(S, expected[1], rtol, atol=1e-15 if is_nilpotent(t) else 0)
    arrays = pairs(1000, least)
    w = launch(of_tconorms.function(t.name, "weight"), *arrays, numbers=[number(t)])
    close(w, t.weight(*arrays), tolerance(t, least))


@for_each(rotating=12, least=[1e-3, 1e-30], t=PARAMETRIC)
def test_weight_p_is_the_derivative(t, least):
    t = single(t)
    arrays = pairs(60, least)
    w = launch(of_tconorms.function(t.name, "weight_p"), *arrays, numbers=[number(t)])
    # A product that vanishes would have been multiplied by log(x) / p, of which |log(x)| <= 88.
    close(
        w,
        exact_weight_p(t, *arrays),
        tolerance(t, least),
        atol=88 * TINY * max(1, 1 / abs(t.value)),
    )


@pytest.mark.skipif(not INTERPRETED, reason="a GPU has its own arithmetic")
def test_a_sample_holds_in_the_arithmetic_of_a_gpu(seed):
    """All of these tests do with --pessimistic."""
    drawn = random.Random(seed).sample(ARCHIMEDEAN, 2)
    with pessimistic_arithmetic(seed):
        for t in drawn:
            test_tconorms_equal_the_class.__wrapped__(t, 1e-30)
            test_edges_of_the_generator_and_its_inverse.__wrapped__(t)


def ends():
    """(a, s) of float32 down to its least number, at both ends."""
    small = torch.tensor([0, 1e-45, 1e-38, 1e-30, 1e-20, 1e-8, 1e-3, 0.3, 0.5]).double()
    return torch.cat([small, 1 - small]), torch.cat([1 - small, small])


# For p = 49 log(1/p) / log(p) rounds beyond -1.
@for_each(t=[*ARCHIMEDEAN, Frank(49)], rotating=4)
def test_edges_of_the_generator_and_its_inverse(t):
    a, s = ends()
    g = launch(of_tconorms.function(t.name, "generator"), a, s, numbers=[number(t)])
    assert bool((g >= 0).all())  # and none is NaN
    assert bool((g[a == 0] == 0).all())
    assert bool((g[s == 0] == torch.inf).all())
    sums = torch.cat([g, torch.linspace(0, 60, 900), torch.tensor([1e38, torch.inf, 0.0])])
    A, S = launch(of_tconorms.function(t.name, "inverse"), sums, numbers=[number(t)], outputs=2)
    assert bool(((A >= 0) & (A <= 1) & (S >= 0) & (S <= 1)).all())
    assert A[-2:].tolist() == [1, 0]
    assert S[-2:].tolist() == [0, 1]


def every_weight(t):
    found = [of_tconorms.function(t.name, "weight")]
    return [*found, of_tconorms.function(t.name, "weight_p")] if t in PARAMETRIC else found


@for_each(t=ARCHIMEDEAN)
def test_edges_of_the_weights(t):
    a, s = ends()
    i, j = (x.ravel() for x in torch.meshgrid(*[torch.arange(len(a))] * 2, indexing="ij"))
    arrays = a[i], s[i], a[j], s[j]
    closed = torch.stack(arrays).amin(0) <= 0
    for function in every_weight(t):
        w = launch(function, *arrays, numbers=[number(t)])
        assert bool(torch.isfinite(w).all())
        assert bool((w[closed] == 0).all())


@for_each(t={t.name: t for t in ARCHIMEDEAN}.values())
def test_p_may_be_a_block(t):
    rows, columns = 4, 32
    arrays = pairs(rows * columns, 1e-3)
    p = [number(t) * factor for factor in (0.5, 1.0, 1.5, 2.5)]
    for function in every_weight(t):
        got = launch(function, *arrays, numbers=p, rows=rows, columns=columns)
        lines = [x.reshape(rows, columns) for x in arrays]
        expected = [
            launch(function, *(x[k] for x in lines), numbers=[p[k]], columns=columns)
            for k in range(rows)
        ]
        close(got, torch.cat(expected), 1e-6)


def test_average_takes_the_share_as_its_parameter():
    """Saturated or not, the mean passes its gradient on."""
    sums = torch.tensor([0.0, 1.0, 4.0])
    A, S = launch(of_tconorms.function("average", "inverse"), sums, numbers=[0.25], outputs=2)
    assert A.tolist() == [0, 0.25, 1]
    assert S.tolist() == [1, 1, 1]
