"""Monotonicity and errors against Table 3.1 and against exact tails."""

import functools
import itertools
import math

import mpmath as mp
import numpy as np
import pytest
import scipy.optimize
import torch

from gendr import distributions
from gendr.sorting import error_bound, is_monotonic
from support.distributions import exact_cdf, exact_pdf

PI = math.pi

SYMMETRIC = [
    name
    for name, distribution in distributions.standard_distributions().items()
    if distribution.is_symmetric
]
TRANSFORMS = {
    "plain": (lambda dist: dist, 1.0),
    "art(0.25)": (lambda dist: dist.art(0.25), 1 / 0.75),
    "art(0.5)": (lambda dist: dist.art(0.5), 2.0),
    "squared": (lambda dist: dist.squared(), 0.5),
}


# -- oracles: the CDFs of `support.distributions`, which are not from gendr


@functools.cache
def tail(name, t):
    """F(-t) for t > 0."""
    return float(exact_cdf(distributions.get(name), -t))


@functools.cache
def slope_of(name):
    """F'(0)."""
    return float(exact_pdf(distributions.get(name), 0.0))


@functools.cache
def tail_power(name):
    """F(-t) falls as t to the power of minus this; inf if it falls faster than all powers."""
    near, far = (exact_cdf(distributions.get(name), -t) for t in (1e12, 2e12))
    fall = float(mp.log(near / far, 2)) if far else math.inf
    return round(fall, 6) if fall < 100 else math.inf


# -- Table 3.1


def test_the_table_of_the_thesis():
    for text, monotonic, bound, digits in (
        ("logistic", False, 0.0696, 4),
        ("logistic.art(0.5)", False, 0.0302, 4),
        ("reciprocal", True, 1 / 4, 14),
        ("cauchy", True, 1 / PI**2, 14),
        ("optimal", True, 1 / 16, 14),
        ("heaviside", True, 0.0, 14),  # a hard swap
        ("cauchy.reversed.centred", True, 1 / PI**2, 14),
    ):
        assert is_monotonic(text) is monotonic
        assert error_bound(text) == pytest.approx(bound, abs=0.6 * 10**-digits)


# -- every distribution, every transform


def oracle(name, power):
    """sup of t^power F(-t) by SciPy, in log t around the best point of a coarse search."""

    def negative(log_t):
        return -math.exp(power * log_t) * tail(name, math.exp(log_t))

    coarse = np.linspace(math.log(1e-4), math.log(1e9), 100)
    best = coarse[np.argmin([*map(negative, coarse)])]
    found = scipy.optimize.minimize_scalar(
        negative, bounds=(best - 0.5, best + 0.5), method="bounded", options={"xatol": 1e-7}
    )
    return -found.fun, slope_of(name)


def test_bounds_against_scipy_and_monotonic_are_tails_no_lighter_than_1_over_x(drawn):
    for name, transform in drawn(itertools.product(SYMMETRIC, TRANSFORMS), 10):
        apply, power = TRANSFORMS[transform]
        dist = apply(distributions.get(name))
        # art makes tails heavier and squaring lighter: 1/x^2 falls too fast (Theorem 3.2).
        assert is_monotonic(dist) is (power >= tail_power(name)), dist
        if power > tail_power(name):  # sup of x^power F(-x)
            assert error_bound(dist) == error_bound(dist, 2.0) == math.inf
            continue
        expected, slope = oracle(name, power)
        # SciPy stops at 1e9, where the heaviest tails are 1e-9 short of their limit.
        assert error_bound(dist) == pytest.approx(slope**power * expected, rel=3e-9), dist
        assert error_bound(dist, 3.0) == pytest.approx(3**power * expected, rel=3e-9), dist


# -- CDFs of the user's


def mirrored(tail):
    """The symmetric CDF with F(-z) = tail(z) for z >= 0."""

    def cdf(z):
        # Not abs, whose slope at 0 is 0, as that of clamp is from torch 2.15 on.
        left, right = torch.where(z < 0, -z, 0.0), torch.where(z < 0, 0.0, z)
        return torch.where(z < 0, tail(left), 1 - tail(right))

    return cdf


def algebraic(power):
    """Tails of (1 + z)^-power; power 1 is reciprocal."""
    return mirrored(lambda z: 0.5 * (1 + z) ** -power)


def test_a_cdf_of_the_users():
    def dented(z):
        return 0.5 / (1 + z) * (1 - 0.01 * torch.exp(-(((z - 3) / 0.05) ** 2)))

    for cdf, monotonic, bound in (
        (mirrored(dented), False, 1 / 4),
        (torch.sigmoid, False, 0.069616135690268),
        (lambda z: 0.5 + torch.atan(z) / PI, True, 1 / PI**2),  # no digits in its tail
        (lambda z: torch.sigmoid(1e-20 * z), False, 0.069616135690268),
        (lambda z: torch.sigmoid(1e20 * z), False, 0.069616135690268),
        (algebraic(1.0), True, 1 / 4),
        (algebraic(1.2), False, None),
        (algebraic(0.8), True, math.inf),
    ):
        assert is_monotonic(cdf) is monotonic
        if bound is None:
            # d/dx x (1 + x)^-1.2 = 0 at x = 5; F'(0) = 0.6.
            bound = 0.6 * 0.5 * 5 * 6**-1.2
        assert error_bound(cdf) == pytest.approx(bound, rel=2e-6)


def test_what_is_refused():
    for function in (is_monotonic, error_bound):
        for text in ("gumbel_max", "logistic.shifted(0.1)", "cauchy.shifted(-2).squared"):
            with pytest.raises(ValueError, match=r"needs a symmetric distribution.* uniform, cub"):
                function(text)
    with pytest.raises(ValueError, match=r"for callable\(.*\) they differ by 0.0005"):
        is_monotonic(lambda z: torch.sigmoid(z + 1e-3))
    for scale, error in ((0.0, ValueError), ("1px", TypeError)):
        with pytest.raises(error, match="scale must be"):
            error_bound("cauchy", scale)


def test_without_a_slope_at_zero_a_scale_is_needed():
    flat = mirrored(lambda z: 0.5 / (1 + z**3))
    with pytest.raises(ValueError, match="has the slope 0 at 0; give a scale"):
        error_bound(flat)
    # x / 2 (1 + x^3) is largest at 2 x^3 = 1.
    assert error_bound(flat, 1.0) == pytest.approx(2 ** (-1 / 3) / 3, rel=1e-9)
