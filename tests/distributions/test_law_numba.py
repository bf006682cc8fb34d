"""The Numba twins against the torch classes."""

import ctypes

import numpy as np
import pytest
import torch

from gendr import distributions
from gendr.distributions import _numba as twins
from gendr.testing.laws import EXAMPLES, points

DOUBLES = ctypes.POINTER(ctypes.c_double)
EDGES = (0.0, -0.0, 1, -1, 0.25, -0.25, 1e-4, 1e-31, 1e-300, 30, -30, 40, -40, 800, -800)
EDGES += (1e9, -1e9, 1e30, -1e30)


def run(symbol, z, shape, outputs):
    """Call the twin on z; what it does not write stays NaN."""
    out = [np.full_like(z, np.nan) for _ in range(outputs)]
    arguments = [a.ctypes.data_as(DOUBLES) for a in (z, *out)]
    twins.compiled(symbol).ctypes(arguments[0], z.size, shape or 0.0, *arguments[1:])
    return [torch.from_numpy(a) for a in out]


def inputs(law):
    draw = torch.randn(500, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    spread = torch.cat([draw, 10 * draw, draw.abs() * (law.shape_parameter or 1)])
    z = torch.cat([points(law, 200), spread, torch.tensor(EDGES, dtype=torch.float64)])
    return z


def close(got, want):
    # Relative where it is tiny, so that the tails are compared too.
    return ((got - want).abs() <= 1e-13 * want.abs().clamp(min=1)).all() and (
        ((got - want).abs() <= 1e-11 * want.abs()) | (want.abs() < 1e-290)
    ).all()


@pytest.mark.parametrize("law", EXAMPLES, ids=str)
def test_twins_equal_the_classes(law):
    z = inputs(law)
    cdf, sf = run(f"{law.name}_cdf", z.numpy(), law.shape_parameter, 2)
    (pdf,) = run(f"{law.name}_pdf", z.numpy(), law.shape_parameter, 1)
    assert close(cdf, law.cdf(z))
    assert close(sf, law.sf(z))
    assert close(pdf, law.pdf(z))


@pytest.mark.parametrize("law", EXAMPLES, ids=str)
def test_twins_take_infinities(law):
    z = np.array([-np.inf, np.inf])
    cdf, sf = run(f"{law.name}_cdf", z, law.shape_parameter, 2)
    (pdf,) = run(f"{law.name}_pdf", z, law.shape_parameter, 1)
    assert cdf.tolist() == [0, 1]
    assert sf.tolist() == [1, 0]
    assert pdf.tolist() == [0, 0]


@pytest.mark.parametrize("shape", [0.05, 0.5, 1.0, 2.0, 9.9, 10.1, 40.0, 100.0])
def test_the_shape_slope_equals_the_class(shape):
    z = inputs(distributions.get("gamma", shape=shape)).clamp(max=1e9)
    (got,) = run("gamma_dshape", z.numpy(), shape, 1)
    shapes = torch.full_like(z, shape).requires_grad_()
    cdf = distributions.get("gamma", shape=shapes).cdf(z)
    (want,) = torch.autograd.grad(cdf.sum(), shapes)
    assert close(got, want)


def test_addresses_are_stable_and_complete():
    for name in distributions.names():
        assert twins.cdf_address(name) == twins.cdf_address(name) != 0
        assert twins.pdf_address(name) not in (0, twins.cdf_address(name))
    assert twins.dshape_address("gamma") != 0
    for wrong in ("logstic", "_gamma"):
        with pytest.raises(ValueError, match="no Numba twin"):
            twins.cdf_address(wrong)
