"""Monotonicity and errors against Table 3.1, against exact tails, and against the swaps."""

import functools
import math

import mpmath as mp
import numpy as np
import pytest
import scipy.optimize
import torch

from gendr import distributions
from gendr.sorting.properties import error_bound, is_monotonic
from support.laws import exact_cdf, exact_pdf

PI = math.pi
F64 = torch.float64

SYMMETRIC = [name for name, law in distributions.laws().items() if law.is_symmetric]
ASYMMETRIC = [
    name
    for name, law in distributions.laws().items()
    if not law.is_symmetric and name != "heaviside"
]
TRANSFORMS = {
    "plain": (lambda dist: dist, 1.0),
    "art(0.25)": (lambda dist: dist.art(0.25), 1 / 0.75),
    "art(0.5)": (lambda dist: dist.art(0.5), 2.0),
    "squared": (lambda dist: dist.squared(), 0.5),
}


# -- oracles: the CDFs of `support.laws`, which are not from gendr


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


def test_tails_are_what_the_thesis_says():
    known = {"cauchy": 1, "reciprocal": 1, "optimal": 1, "student_t": 3}
    assert {name: tail_power(name) for name in known} == known
    assert all(tail_power(name) == math.inf for name in ("uniform", "laplace", "gaussian"))


# -- Table 3.1


def test_the_table_of_the_thesis():
    for text, monotonic, bound, digits in (
        ("logistic", False, 0.0696, 4),
        ("logistic.art(0.5)", False, 0.0302, 4),
        ("reciprocal", True, 1 / 4, 14),
        ("cauchy", True, 1 / PI**2, 14),
        ("optimal", True, 1 / 16, 14),
    ):
        assert is_monotonic(text) is monotonic
        assert error_bound(text) == pytest.approx(bound, abs=0.6 * 10**-digits)


def test_no_lipschitz_swap_beats_a_sixteenth():
    # x F(-x) >= x (1/2 - x) for x < 1/2, at most 1/16: the proof of Theorem 3.7.
    bounds = {name: error_bound(name) for name in SYMMETRIC}
    assert min(bounds.values()) >= 1 / 16 - 1e-12
    linear = [name for name in SYMMETRIC if tail_power(name) == 1]
    assert min(bounds[name] for name in linear) == bounds["optimal"]


# -- every law, every transform


def oracle(name, power):
    """sup of t^power F(-t) by SciPy, in log t around the best point of a coarse search."""

    def negative(log_t):
        return -math.exp(power * log_t) * tail(name, math.exp(log_t))

    coarse = np.linspace(math.log(1e-4), math.log(1e9), 300)
    best = coarse[np.argmin([*map(negative, coarse)])]
    found = scipy.optimize.minimize_scalar(
        negative, bounds=(best - 0.2, best + 0.2), method="bounded", options={"xatol": 1e-9}
    )
    return -found.fun, slope_of(name)


@pytest.mark.rotating(2)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", SYMMETRIC)
def test_bounds_against_scipy(name, transform):
    apply, power = TRANSFORMS[transform]
    dist = apply(distributions.get(name))
    if power > tail_power(name):  # sup of x^power F(-x)
        assert error_bound(dist) == math.inf
        assert error_bound(dist, 2.0) == math.inf
        return
    expected, slope = oracle(name, power)
    # SciPy stops at 1e9, where the heaviest tails are 1e-9 short of their limit.
    assert error_bound(dist) == pytest.approx(slope**power * expected, rel=3e-9)
    assert error_bound(dist, 1.0) == pytest.approx(expected, rel=3e-9)
    assert error_bound(dist, 3.0) == pytest.approx(3**power * expected, rel=3e-9)


def test_monotonic_are_those_whose_tails_fall_no_faster_than_1_over_x():
    for transform in TRANSFORMS:
        for name in SYMMETRIC:
            apply, power = TRANSFORMS[transform]
            # art makes tails heavier and squaring lighter: 1/x^2 falls too fast (Theorem 3.2).
            assert is_monotonic(apply(distributions.get(name))) is (power >= tail_power(name))


# -- the swaps themselves

PAIRS = 100_000


def pairs():
    """a and b with differences of all sizes from 1e-4 to 1e5, both signs."""
    rng = np.random.default_rng(3)
    difference = 10 ** rng.uniform(-4, 5, PAIRS) * rng.choice([-1, 1], PAIRS)
    a = rng.normal(size=PAIRS)
    return torch.tensor(a), torch.tensor(a + difference)


def swap(dist, a, b, scale):
    """(3.5) and (3.6) of the thesis."""
    keep, exchange = dist(b - a, scale), dist(a - b, scale)
    return a * keep + b * exchange, a * exchange + b * keep


def test_a_swap_rises_with_both_inputs_if_and_only_if_it_is_monotonic():
    for name in SYMMETRIC:
        a, b = (v.requires_grad_() for v in pairs())
        dist = distributions.get(name)
        slopes = [
            slope
            for output in swap(dist, a, b, 0.5)
            for slope in torch.autograd.grad(output.sum(), (a, b), retain_graph=True)
        ]
        steepest_fall = min(float(slope.min()) for slope in slopes)
        if is_monotonic(dist):
            assert steepest_fall >= -1e-12
        else:
            assert steepest_fall < -0.01


@pytest.mark.rotating(3)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", SYMMETRIC)
def test_the_error_of_a_swap_reaches_its_bound_within_a_percent(name, transform):
    dist = TRANSFORMS[transform][0](distributions.get(name))
    scale = 0.5
    a, b = pairs()
    smaller, larger = swap(dist, a, b, scale)
    error = torch.maximum(
        (smaller - torch.minimum(a, b)).abs(), (larger - torch.maximum(a, b)).abs()
    )
    bound = error_bound(dist, scale)
    if bound == math.inf:
        # It grows with the difference, without an end.
        difference = (a - b).abs()
        assert error[difference > 1e4].max() > 2 * error[difference < 1e3].max()
    else:
        assert 0.99 * bound <= float(error.max()) <= bound * (1 + 1e-9) + 1e-10


def test_without_a_scale_the_bound_counts_in_units_of_one_over_the_slope():
    for slope in (0.3, 1.0, 7.0):
        for name in SYMMETRIC:
            dist = distributions.get(name)
            scale = slope_of(name) / slope  # F'(0) / scale = slope
            assert error_bound(dist) / slope == pytest.approx(error_bound(dist, scale), rel=1e-12)


# -- the hard swap, CDFs of the user's


def test_a_hard_swap_has_no_error():
    assert is_monotonic("heaviside")
    assert error_bound("heaviside") == 0.0
    assert error_bound("heaviside", 2.0) == 0.0


def mirrored(tail):
    """The symmetric CDF with F(-z) = tail(z) for z >= 0."""

    def cdf(z):
        # clamp and not abs, whose slope at 0 is 0.
        return torch.where(z < 0, tail((-z).clamp(min=0)), 1 - tail(z.clamp(min=0)))

    return cdf


def algebraic(power):
    """Tails of (1 + z)^-power; power 1 is reciprocal."""
    return mirrored(lambda z: 0.5 * (1 + z) ** -power)


def test_a_cdf_of_the_users():
    for cdf, monotonic, bound in (
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


def test_a_local_fall_is_seen():
    def dented(z):
        return 0.5 / (1 + z) * (1 - 0.01 * torch.exp(-(((z - 3) / 0.05) ** 2)))

    assert is_monotonic(algebraic(1.0))
    assert not is_monotonic(mirrored(dented))
    assert error_bound(mirrored(dented)) == pytest.approx(1 / 4, rel=2e-6)


def test_a_slow_fall_is_seen():
    def tail(z, power):
        far = z.clamp(min=0.25)
        return torch.where(z < 0.25, 0.5 - z, 0.0625 / far * (4 * far) ** -power)

    assert is_monotonic(mirrored(lambda z: tail(z, 0)))
    assert not is_monotonic(mirrored(lambda z: tail(z, 1e-7)))


def test_a_step_in_a_cdf_is_seen():
    steps = mirrored(lambda z: torch.where(z < 1, 0.25, 0.25 / (1 + z)))
    assert not is_monotonic(steps)
    assert error_bound(steps, 1.0) == pytest.approx(0.25, rel=1e-5)


def test_without_a_slope_at_zero_a_scale_is_needed():
    flat = mirrored(lambda z: 0.5 / (1 + z**3))
    with pytest.raises(ValueError, match="has the slope 0 at 0; give a scale"):
        error_bound(flat)
    # x / 2 (1 + x^3) is largest at 2 x^3 = 1.
    assert error_bound(flat, 1.0) == pytest.approx(2 ** (-1 / 3) / 3, rel=1e-9)


# -- refusals


def test_what_is_not_symmetric_is_refused():
    for function in (is_monotonic, error_bound):
        for text in (
            *ASYMMETRIC,
            "logistic.shifted(0.1)",
            "gamma.centred",
            "cauchy.shifted(-2).squared",
        ):
            with pytest.raises(
                ValueError, match=r"needs a symmetric distribution.* uniform, cubic"
            ):
                function(text)


def test_a_cdf_that_is_not_symmetric_is_refused():
    with pytest.raises(ValueError, match=r"for callable\(.*\) they differ by 0.0005"):
        is_monotonic(lambda z: torch.sigmoid(z + 1e-3))


def test_transforms_that_change_nothing_do_no_harm():
    assert error_bound(distributions.get("cauchy").reversed().centred()) == error_bound("cauchy")


def test_parameters_of_a_cdf_that_train_do_no_harm():
    beta = torch.tensor(3.0, dtype=F64, requires_grad=True)
    bound = error_bound(lambda z: torch.sigmoid(beta * z), 1.0)
    assert 3 * bound == pytest.approx(error_bound("logistic", 1.0), rel=1e-9)


def test_the_scale_is_checked():
    for scale, error in ((0.0, ValueError), (-1.0, ValueError), ("1px", TypeError)):
        with pytest.raises(error, match="scale must be"):
            error_bound("cauchy", scale)
