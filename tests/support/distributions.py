"""Distributions as test cases, with independent CDFs in 120-digit arithmetic.

Needs mpmath. Importing this module sets the precision of mpmath to 120 digits.
"""

from __future__ import annotations

from typing import Any

import mpmath as mp
import torch
from torch import Tensor

from gendr import distributions
from gendr.distributions import Distribution, StandardDistribution

mp.mp.dps = 120

HALF: Any = mp.mpf(1) / 2

# Every distribution with the parameters that its class gives as examples.
EXAMPLES = [
    dist for cls in distributions.standard_distributions().values() for dist in cls.examples()
]
# All except the step, which has no density and no inverse.
SMOOTH = [dist for dist in EXAMPLES if dist.name != "heaviside"]


def forms(dist: Distribution) -> list[Distribution]:
    """A distribution under every kind of transform, alone and together."""
    return [
        dist,
        dist.reversed(),
        dist.centred(),
        dist.squared(),
        dist.shifted(0.3).reversed(),
        dist.reversed().centred().squared(),
        dist.art(0.25),
        dist.reversed().shifted(-0.2).art(0.5),
    ]


def _clip(z: Any) -> Any:
    return max(mp.mpf(0), min(mp.mpf(1), (1 + z) / 2))


# F(z) by its definition, without regard to cancellation; the second argument is the shape.
CDF: dict[str, Any] = {
    "heaviside": lambda z, _: mp.mpf(0) if z < 0 else mp.mpf(1),
    "uniform": lambda z, _: _clip(z),
    "cubic_hermite": lambda z, _: 3 * _clip(z) ** 2 - 2 * _clip(z) ** 3,
    "wigner_semicircle": lambda z, _: (
        _clip(z) if abs(z) >= 1 else HALF + z * mp.sqrt(1 - z * z) / mp.pi + mp.asin(z) / mp.pi
    ),
    "gaussian": lambda z, _: mp.erfc(-z / mp.sqrt(2)) / 2,
    "laplace": lambda z, _: mp.exp(z) / 2 if z <= 0 else 1 - mp.exp(-z) / 2,
    "logistic": lambda z, _: 1 / (1 + mp.exp(-z)),
    "hyperbolic_secant": lambda z, _: 2 / mp.pi * mp.atan(mp.exp(mp.pi * z / 2)),
    "cauchy": lambda z, _: mp.atan(z) / mp.pi + HALF,
    "reciprocal": lambda z, _: z / (2 + 2 * abs(z)) + HALF,
    "gumbel_max": lambda z, _: mp.exp(-mp.exp(-z)),
    "gumbel_min": lambda z, _: 1 - mp.exp(-mp.exp(z)),
    "exponential": lambda z, _: 1 - mp.exp(-z) if z > 0 else mp.mpf(0),
    "gamma": lambda z, a: mp.gammainc(a, 0, z, regularized=True) if z > 0 else mp.mpf(0),
    "student_t": lambda z, v: (
        mp.betainc(v / 2, HALF, 0, v / (v + z * z), regularized=True) / 2
        if z < 0
        else 1 - mp.betainc(v / 2, HALF, 0, v / (v + z * z), regularized=True) / 2
    ),
    "levy": lambda z, _: mp.erfc(mp.sqrt(1 / (2 * z))) if z > 0 else mp.mpf(0),
    "optimal": lambda z, _: (
        -1 / (16 * z) if z < -HALF / 2 else 1 - 1 / (16 * z) if z > HALF / 2 else z + HALF
    ),
    "power": lambda z, a: mp.mpf(0) if z <= 0 else z**a if z < 1 else mp.mpf(1),
}


def exact_cdf(dist: StandardDistribution, z: float | Tensor) -> Any:
    """F(z) of a distribution without transforms, as a number of mpmath."""
    shape = dist.shape_parameter
    return CDF[dist.name](mp.mpf(float(z)), None if shape is None else mp.mpf(float(shape)))


def exact_sf(dist: StandardDistribution, z: float | Tensor) -> Any:
    """1 - F(z), as a number of mpmath."""
    # With 120 digits, 20 digits are left of a tail of 1e-100.
    return 1 - exact_cdf(dist, z)


def exact_pdf(dist: StandardDistribution, z: float | Tensor) -> Any:
    """The slope of F at z, as a number of mpmath."""
    x, shape = mp.mpf(float(z)), dist.shape_parameter
    step = mp.mpf(10) ** -40 * (abs(x) if dist.name == "power" else 1)  # its bulk may be at 1e-300
    if dist.name == "gamma":  # numerical differentiation of its cdf is slow
        a = mp.mpf(float(shape or 0))
        return x ** (a - 1) * mp.exp(-x) / mp.gamma(a)
    return (CDF[dist.name](x + step, shape) - CDF[dist.name](x - step, shape)) / (2 * step)


def points(dist: Distribution, count: int = 24) -> Tensor:
    """Random float64 points in the bulk and the tails, inside the support, off the kinks."""
    generator = torch.Generator().manual_seed(7)
    draw = torch.randn(count, 2, generator=generator, dtype=torch.float64)
    low, high = dist.support
    if high < float("inf"):
        near_ends = 1 - 10.0 ** (-12 * torch.rand(count // 2, generator=generator).double())
        inner = torch.rand(count, generator=generator, dtype=torch.float64) * (high - low) + low
        return torch.cat([inner, near_ends * high, low + 1 - near_ends])
    scale = 1.0 if dist.shape_parameter is None else max(1.0, dist.shape_parameter**0.5)
    centre = 0.0 if dist.shape_parameter is None else dist.shape_parameter
    z = torch.cat([draw[:, 0] * scale, draw[:, 1] * 8 * scale]) + centre
    return (z.abs() if low == 0 else z) + 1e-3
