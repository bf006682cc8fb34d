"""The loops that Numba compiles against the torch classes."""

import ctypes

import numpy as np
import pytest
import torch

from gendr import distributions
from gendr.distributions import Gamma
from gendr.distributions import numba as compiled
from support.cases import for_each
from support.laws import EXAMPLES, points

DOUBLES = ctypes.POINTER(ctypes.c_double)
# Beyond the class' examples, beside the branches of gamma.
SHAPED = [law for law in EXAMPLES if law.shape_parameter is not None]
SHAPED += [Gamma(shape) for shape in (9.9, 10.1, 40.0)]
EDGES = (0.0, -0.0, 1, -1, 0.25, -0.25, 1e-4, 1e-31, 1e-300, 30, -30, 40, -40, 800, -800)
EDGES += (1e9, -1e9, 1e30, -1e30)


def run(law, kind, z, outputs=1):
    """Call the loop on z; what it does not write stays NaN."""
    out = [np.full_like(z, np.nan) for _ in range(outputs)]
    arguments = [a.ctypes.data_as(DOUBLES) for a in (z, *out)]
    shape = law.shape_parameter or 0.0
    compiled.loop(law.name, kind).ctypes(arguments[0], z.size, shape, *arguments[1:])
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


@for_each(law=EXAMPLES, rotating=3)
def test_loops_equal_the_classes(law):
    z = inputs(law)
    cdf, sf = run(law, "tails", z.numpy(), 2)
    (pdf,) = run(law, "density", z.numpy())
    assert close(cdf, law.cdf(z))
    assert close(sf, law.sf(z))
    assert close(pdf, law.pdf(z))


@for_each(law=EXAMPLES, rotating=3)
def test_the_loop_over_both_gives_what_each_gives(law):
    z = inputs(law).numpy()
    out = [np.full_like(z, np.nan) for _ in range(3)]
    arguments = [a.ctypes.data_as(DOUBLES) for a in (z, *out)]
    address = compiled.loop(law.name, compiled.BOTH).address
    number = ctypes.c_double
    kinds = (DOUBLES, ctypes.c_int64, number, DOUBLES, DOUBLES, DOUBLES)
    call = ctypes.CFUNCTYPE(None, *kinds)(address)
    call(arguments[0], z.size, law.shape_parameter or 0.0, *arguments[1:])
    want = [*run(law, "tails", z, 2), *run(law, "density", z)]
    assert all(close(torch.from_numpy(a), b) for a, b in zip(out, want, strict=True))


@for_each(law=EXAMPLES)
def test_loops_take_infinities(law):
    z = np.array([-np.inf, np.inf])
    cdf, sf = run(law, "tails", z, 2)
    (pdf,) = run(law, "density", z)
    assert cdf.tolist() == [0, 1]
    assert sf.tolist() == [1, 0]
    assert pdf.tolist() == [0, 0]


@for_each(law=SHAPED)
def test_tensors_of_shapes_are_evaluated_one_by_one(law):
    """In any order, with the slope of the class, which is compared with mpmath."""
    z = inputs(law).clamp(max=1e9)
    shapes = law.shape_parameter * torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    shapes = shapes.repeat(len(z) // 3 + 1)[: len(z)]
    for kind, count in (("tails", 2), ("shape_slope", 1)):
        got = compiled.evaluated(type(law), kind, z, shapes)
        for shape in shapes[:3]:
            own = shapes == shape
            want = run(law.with_shape(shape.item()), kind, z[own].numpy(), count)
            assert all(torch.equal(a[own], b) for a, b in zip(got, want, strict=True))


def test_addresses_are_stable_and_complete():
    for name in distributions.names():
        assert compiled.tails_address(name) == compiled.tails_address(name) != 0
        assert compiled.density_address(name) not in (0, compiled.tails_address(name))
    assert compiled.loop("gamma", "shape_slope").address != 0
    with pytest.raises(ValueError, match="no law 'logstic'"):
        compiled.tails_address("logstic")
    with pytest.raises(ValueError, match="no body 'shape_slope'"):
        compiled.loop("logistic", "shape_slope")


@for_each(law=[law for law in EXAMPLES if compiled.has_single(law.name)], rotating=3)
def test_loops_of_float32_equal_the_classes(law):
    """To 1e-6; tails to 1e-5 of themselves, down to 1e-30."""
    floats = ctypes.POINTER(ctypes.c_float)
    z = inputs(law).float()
    z = torch.cat([z, torch.tensor([torch.inf, -torch.inf]), z.new_zeros(-(len(z) + 2) % 16)])
    for kind, wanted in (("tails", 2), (compiled.BOTH, 3)):
        out = [torch.full_like(z, torch.nan) for _ in range(wanted)]
        pointers = [ctypes.cast(a.data_ptr(), floats) for a in (z, *out)]
        compiled.single_loop(law.name, kind).ctypes(pointers[0], len(z), 0.0, *pointers[1:])
        exact = law.cdf(z.double()), law.sf(z.double()), law.pdf(z.double())
        for got, want in zip(out, exact, strict=False):
            assert (got - want).abs().max() <= 1e-6
            tail = (want > 1e-30) & (want < 0.5)
            assert ((got / want - 1).abs()[tail] <= 1e-5).all()


def test_laws_whose_text_has_branches_or_a_shape_have_no_loops_of_float32():
    assert {law.name for law in EXAMPLES if not compiled.has_single(law.name)} == {
        "gamma", "gaussian", "gumbel_max", "gumbel_min", "levy", "power", "student_t",
        "wigner_semicircle",
    }  # fmt: skip
