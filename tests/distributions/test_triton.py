"""The functions for Triton, interpreted, against the torch classes in float64."""

import math

import mpmath as mp
import numpy as np
import pytest
import torch

from gendr import distributions
from gendr.distributions import Gamma
from support.cases import for_each
from support.laws import EXAMPLES, points

triton = pytest.importorskip("triton")

import triton.language as tl  # noqa: E402  # there is no triton on some systems

from gendr.distributions import triton as compiled  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ROWS, COLUMNS = 256, 16
LARGEST = torch.finfo(torch.float32).max
EDGES = (0.0, 1, 0.25, 0.5, 1e-4, 1e-20, 1e-31, 30, 40, 90, 800, 1e9, 1e30, LARGEST)
# Beyond the class' examples: where the general form begins and ends, and beside its branches.
SHAPES = (0.3, 0.999, 1.5, 9.9, 10.1, 40.0, 1000.0, 10_000.0)
LAWS = [*EXAMPLES, *map(Gamma, SHAPES)]
SHAPED = [law for law in LAWS if law.shape_parameter is not None]

# Relative where the value is above 1e-30, absolute everywhere.
RELATIVE, ABSOLUTE, SMALLEST = 1e-5, 2e-6, 1e-30


@triton.jit
def tails_kernel(z_ptr, cdf_ptr, sf_ptr, n, shape, constant, BODY: tl.constexpr, ROWS: tl.constexpr,
                 COLUMNS: tl.constexpr):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    i = rows[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    cdf, sf = BODY(tl.load(z_ptr + i, mask=i < n, other=0.0), shape, constant)
    tl.store(cdf_ptr + i, cdf, mask=i < n)
    tl.store(sf_ptr + i, sf, mask=i < n)


@triton.jit
def pdf_kernel(z_ptr, pdf_ptr, n, shape, constant, BODY: tl.constexpr, ROWS: tl.constexpr,
               COLUMNS: tl.constexpr):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    i = rows[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    pdf = BODY(tl.load(z_ptr + i, mask=i < n, other=0.0), shape, constant)
    tl.store(pdf_ptr + i, pdf, mask=i < n)


@triton.jit
def dshape_kernel(z_ptr, slope_ptr, n, shape, constant, psi, BODY: tl.constexpr, ROWS: tl.constexpr,
                  COLUMNS: tl.constexpr):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    i = rows[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    slope = BODY(tl.load(z_ptr + i, mask=i < n, other=0.0), shape, constant, psi)
    tl.store(slope_ptr + i, slope, mask=i < n)


def launch(kernel, z, outputs, scalars, function):
    """Run the kernel on z; what it does not write stays NaN. Returns float64 on the CPU."""
    z = z.to(DEVICE)
    out = [torch.full_like(z, math.nan) for _ in range(outputs)]
    grid = (triton.cdiv(z.numel(), ROWS * COLUMNS),)
    with np.errstate(all="ignore"):  # as the backends: NumPy computes both sides of a `where`
        kernel[grid](z, *out, z.numel(), *scalars, BODY=function, ROWS=ROWS, COLUMNS=COLUMNS)
    return [o.cpu().double() for o in out]


def scalars(law):
    if law.shape_parameter is None:
        return 0.0, 0.0, 0.0
    shape = torch.tensor(law.shape_parameter, dtype=torch.float64)
    return tuple(x.item() for x in compiled.parameters(law.name, shape))


def tails(law, z):
    return launch(tails_kernel, z, 2, scalars(law)[:2], compiled.function(law.name, "tails"))


def pdf(law, z):
    return launch(pdf_kernel, z, 1, scalars(law)[:2], compiled.function(law.name, "density"))[0]


def shape_slope(law, z):
    return launch(dshape_kernel, z, 1, scalars(law), compiled.function(law.name, "shape_slope"))[0]


def exact(law):
    """The class, with the shape rounded as the kernels see it."""
    return law if law.shape_parameter is None else law.with_shape(scalars(law)[0])


def inputs(law):
    """Bulk, tails, the grid of pixel centres and edges, both signs, float32, an odd number."""
    centre = law.shape_parameter or 0.0
    spread = max(1.0, centre**0.5)
    draw = torch.randn(600, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    grid = (2 * torch.arange(64, dtype=torch.float64) + 1) / 64 - 1
    edges = torch.tensor(EDGES, dtype=torch.float64)
    magnitudes = 10.0 ** torch.linspace(-20, 12, 300, dtype=torch.float64)
    near = torch.cat([draw, 5 * draw, grid, grid / 100, torch.linspace(-14, 14, 500)])
    z = torch.cat([points(law, 200), near, near * spread + centre, edges, magnitudes])
    return torch.cat([z, -z]).float()[:-1]


def assert_close(got, want, relative=RELATIVE):
    error = (got - want).abs()
    assert bool((error <= ABSOLUTE * want.abs().clamp(min=1)).all()), error.max()
    excess = torch.where(want.abs() > SMALLEST, error / want.abs(), 0.0)
    assert excess.max() <= relative


@for_each(law=LAWS, rotating=5)
def test_the_functions_equal_the_class(law):
    z = inputs(law).sort().values
    cdf, sf = tails(law, z)
    assert_close(cdf, exact(law).cdf(z.double()))
    assert_close(sf, exact(law).sf(z.double()))
    torch.testing.assert_close(cdf + sf, torch.ones_like(cdf), rtol=0, atol=2e-7)
    # Falls no further than its relative error allows.
    assert bool((cdf.diff() >= -RELATIVE * cdf[1:]).all())
    assert bool((sf.diff() <= RELATIVE * sf[:-1]).all())
    assert bool(((cdf >= 0) & (cdf <= 1) & (sf >= 0) & (sf <= 1)).all())
    density = pdf(law, z)
    assert_close(density, exact(law).pdf(z.double()))
    assert bool((density.isfinite() & (density >= 0)).all())


# Laws whose exponent is rounded before an exp that amplifies it, unless its low digits go along:
# without them the errors are 4e-6.
@for_each(
    "name, ends, relative",
    [
        ("gaussian", (-11.6, 0), 1e-6),  # 2 ulp of exp_sum, 6 of erfcx, products
        ("gumbel_max", (-4.2, 0), 3e-6),
        ("gumbel_min", (0, 4.2), 3e-6),
    ],
)
def test_tails_amplify_no_rounding(name, ends, relative):
    law = distributions.get(name)
    z = torch.linspace(*ends, 3000)
    cdf, sf = tails(law, z)
    assert_close(cdf, law.cdf(z.double()), relative)
    assert_close(sf, law.sf(z.double()), relative)


@for_each(rotating=3, law=SHAPED)
def test_the_shape_slope_equals_the_class(law):
    z = inputs(law)
    shapes = torch.full_like(z, scalars(law)[0], dtype=torch.float64).requires_grad_()
    (want,) = torch.autograd.grad(law.with_shape(shapes).cdf(z.double()).sum(), shapes)
    assert_close(shape_slope(law, z), want)


@for_each(rotating=5, law=LAWS)
def test_infinities_reach_the_limits_and_a_nan_spares_the_others(law):
    z = torch.tensor([-math.inf, -LARGEST, LARGEST, math.inf, math.nan, 0.7, 3.0])
    cdf, sf = tails(law, z)
    assert cdf[:2].tolist() == pytest.approx([0, 0], abs=1e-19)
    assert sf[2:4].tolist() == pytest.approx([0, 0], abs=1e-19)
    assert (cdf[0], cdf[3], sf[0], sf[3]) == (0, 1, 1, 0)
    assert cdf.isnan().tolist() == sf.isnan().tolist() == [i == 4 for i in range(7)]
    assert_close(cdf[5:], exact(law).cdf(z[5:].double()))
    assert pdf(law, z[:4]).tolist() == [0, 0, 0, 0]
    if law in SHAPED:
        assert shape_slope(law, z[:4]).tolist() == pytest.approx([0, 0, 0, 0], abs=1e-17)


def test_parameters_of_shapes():
    """By mpmath; the exponent of the density of powers is positive."""
    shapes = torch.tensor([1e-3, 0.5, 2.0, 0.5, 300.0, 1e6], dtype=torch.float64)
    rounded, constant, psi = compiled.parameters("gamma", shapes)
    assert rounded.tolist() == shapes.float().tolist()
    for a, c, s in zip(map(mp.mpf, rounded.tolist()), constant, psi, strict=True):
        assert c.item() == pytest.approx(float(a * mp.log(a) - a - mp.loggamma(a)), abs=1e-8)
        assert s.item() == pytest.approx(float(mp.digamma(a) - mp.log(a)), rel=1e-7)
    rounded, constant, _ = compiled.parameters("power", shapes)
    assert constant.tolist() == [a if a < 1 else a - 1 for a in rounded.tolist()]
    rounded, constant, psi = compiled.parameters("student_t", shapes)
    for nu, c, s in zip(map(mp.mpf, rounded.tolist()), constant, psi, strict=True):
        assert c.item() == pytest.approx(float(-mp.log(mp.beta(nu / 2, 0.5))), rel=1e-9, abs=1e-12)
        slope = (mp.digamma((nu + 1) / 2) - mp.digamma(nu / 2)) / 2 - 1 / (2 * nu)
        assert s.item() == pytest.approx(float(slope), rel=1e-9, abs=1e-12)
