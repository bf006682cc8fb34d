"""Spherical harmonics: SciPy's complex ones as the oracle, and the order of published splats."""

import math

import numpy as np
import pytest
import torch

from gendr.photos.splatting import colors_of
from support.cases import for_each

F64 = torch.float64


def directions(count=50, seed=0):
    d = torch.randn(count, 3, dtype=F64, generator=torch.Generator().manual_seed(seed))
    return d / d.norm(dim=1, keepdim=True)


def basis(d, degree):
    """The harmonics [N, K] of directions, one after the other, from the colours that each gives."""
    count = (degree + 1) ** 2
    each = 0.5 * torch.eye(count, dtype=F64)[:, None, :, None].expand(-1, len(d), -1, 3)
    return torch.stack([2 * colors_of(h.contiguous(), d)[:, 0] - 1 for h in each], 1)


def complex_harmonic(degree, order, theta, phi):
    """Y_l^m with the Condon-Shortley phase, order >= 0, by the Legendre function of SciPy."""
    from scipy.special import lpmv

    size = math.factorial(degree - order) / math.factorial(degree + order)
    factor = math.sqrt((2 * degree + 1) / (4 * math.pi) * size)
    return factor * lpmv(order, degree, np.cos(theta)) * np.exp(1j * order * phi)


def test_they_are_the_real_harmonics_in_the_published_order():
    d = directions()
    x, y, z = d.numpy().T
    theta, phi = np.arccos(z), np.arctan2(y, x)
    want = []
    for degree in range(4):
        for order in range(-degree, degree + 1):
            value = complex_harmonic(degree, abs(order), theta, phi)
            part = value.imag if order < 0 else value.real
            want.append(part if order == 0 else math.sqrt(2) * part)
    np.testing.assert_allclose(basis(d, 3).numpy(), np.stack(want, 1), atol=1e-13)
    for degree in range(4):  # a lower degree is the beginning of a higher one
        assert torch.equal(basis(d, degree), basis(d, 3)[:, : (degree + 1) ** 2])


def test_the_signs_are_those_of_published_splats():
    """Three numbers of the tables of 3D Gaussian Splatting, as they stand there."""
    x = torch.tensor([[1.0, 0.0, 0.0]], dtype=F64)
    row = basis(x, 3)[0]
    assert row[0] == pytest.approx(0.28209479177387814)
    assert row[3] == pytest.approx(-0.4886025119029199)
    assert row[8] == pytest.approx(0.5462742152960396)
    assert row[15] == pytest.approx(-0.5900435899266435)


@for_each(count=[1, 4, 9, 16], rotating=2)
def test_colors_are_differentiable_in_both(count):
    source = torch.Generator().manual_seed(count)
    h = (0.2 * torch.randn(6, count, 3, dtype=F64, generator=source)).requires_grad_()
    d = torch.stack([directions(6, 1), directions(6, 2)]).requires_grad_()
    assert colors_of(h, d).shape == (2, 6, 3)
    assert torch.autograd.gradcheck(colors_of, (h, d))


def test_colors():
    grey = torch.zeros(2, 4, 3)
    d = directions(2).float()
    assert torch.equal(colors_of(grey, d), torch.full((2, 3), 0.5))
    grey[:, 0] = -9
    assert torch.equal(colors_of(grey, d), torch.zeros(2, 3))


@for_each(
    case=[
        (torch.zeros(2, 5, 3), torch.zeros(2, 3), "1, 4, 9 or 16 harmonics, got 5"),
        (torch.zeros(2, 4, 3), torch.zeros(3, 3), r"directions must have shape .*N = 2"),
        (torch.zeros(2, 4), torch.zeros(2, 3), r"harmonics must have shape \[N, K, 3\]"),
    ]
)
def test_refusals(case):
    h, d, words = case
    with pytest.raises(ValueError, match=words):
        colors_of(h, d)
