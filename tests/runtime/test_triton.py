"""The functions that Triton lacks, interpreted, against SciPy and mpmath."""

import math

import mpmath as mp
import numpy as np
import pytest
import scipy.special
import torch

triton = pytest.importorskip("triton")

import triton.language as tl  # noqa: E402  # there is no triton on some systems

from gendr._runtime.triton import mathematics as functions  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BLOCK = 4096
ULP = 1.2e-7
LEAST = 2.0**-126

# 0, and both signs of all magnitudes; what a test takes of them is its range.
MAGNITUDES = np.concatenate([10.0 ** np.linspace(-30, 30, 800), np.linspace(0.01, 110, 1200)])
EVERY = np.concatenate([[0.0], MAGNITUDES, -MAGNITUDES]).astype(np.float32)


@triton.jit
def unary_kernel(x_ptr, y_ptr, n, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, FUNCTION(tl.load(x_ptr + i, mask=i < n, other=1.0)), mask=i < n)


@triton.jit
def binary_kernel(x_ptr, y_ptr, z_ptr, n, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=1.0)
    y = tl.load(y_ptr + i, mask=i < n, other=1.0)
    tl.store(z_ptr + i, FUNCTION(x, y), mask=i < n)


@triton.jit
def pair_kernel(x_ptr, y_ptr, a_ptr, b_ptr, n, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=1.0)
    y = tl.load(y_ptr + i, mask=i < n, other=1.0)
    a, b = FUNCTION(x, y)
    tl.store(a_ptr + i, a, mask=i < n)
    tl.store(b_ptr + i, b, mask=i < n)


def launch(kernel, function, *inputs, outputs=1):
    tensors = [torch.from_numpy(np.asarray(x, dtype=np.float32)).to(DEVICE) for x in inputs]
    out = [torch.full_like(tensors[0], math.nan) for _ in range(outputs)]
    n = tensors[0].numel()
    kernel[(triton.cdiv(n, BLOCK),)](*tensors, *out, n, FUNCTION=function, BLOCK=BLOCK)
    arrays = [o.double().cpu().numpy() for o in out]
    return arrays[0] if outputs == 1 else arrays


def exactly(function, *inputs):
    with mp.workdps(40):
        columns = [map(mp.mpf, np.asarray(x, dtype=np.float64).tolist()) for x in inputs]
        return np.array([float(function(*row)) for row in zip(*columns, strict=True)])


def assert_close(got, want, relative):
    # Below the least normal number float32 has fewer digits, or none: it counts as 0.
    np.testing.assert_allclose(got, want, rtol=relative, atol=LEAST)


# Name, range, the function in SciPy or NumPy, error in ulp.
UNARY = [
    ("log1p", (-0.99999, 1e30), np.log1p, 4),
    ("expm1", (-1e30, 88.0), np.expm1, 2),
    ("erfcx", (0.0, 1e30), scipy.special.erfcx, 6),
    ("atan", (0.0, 1.0), np.arctan, 2),
]


@pytest.mark.parametrize(("name", "ends", "oracle", "ulp"), UNARY, ids=[u[0] for u in UNARY])
def test_functions_of_one_argument(name, ends, oracle, ulp):
    x = EVERY[(EVERY >= ends[0]) & (EVERY <= ends[1])]
    fine = np.random.default_rng(5).uniform(max(ends[0], -3.0), min(ends[1], 3.0), 2000)
    x = np.concatenate([x, fine.astype(np.float32)])
    got = launch(unary_kernel, getattr(functions, name), x)
    assert_close(got, oracle(x.astype(np.float64)), ulp * ULP)


LIMITS = [
    ("log1p", math.inf, math.inf),
    ("expm1", -math.inf, -1.0),
    ("expm1", math.inf, math.inf),
    ("expm1", 89.0, math.inf),
    ("erfcx", math.inf, 0.0),
]


@pytest.mark.parametrize(("name", "x", "limit"), LIMITS)
def test_limits(name, x, limit):
    assert launch(unary_kernel, getattr(functions, name), [x]).tolist() == [limit]


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")  # of NumPy, interpreting
def test_log1p_of_minus_one():
    assert launch(unary_kernel, functions.log1p, [-1.0]).tolist() == [-math.inf]


@pytest.mark.parametrize("name", ["log1p", "expm1", "erfcx", "atan"])
def test_a_nan_stays_one(name):
    assert np.isnan(launch(unary_kernel, getattr(functions, name), [math.nan])).all()


@pytest.fixture
def sums():
    """Exponents x + rest, the rest beyond the digits of x, or as large as the docstring allows."""
    generator = np.random.default_rng(6)
    x = generator.uniform(-100, 58, 1000)
    rest = x * generator.uniform(-1, 1, 1000) * np.repeat([1e-8, 0.5], 500)
    ends = [0.0, -0.0, -104.0, -105.0, -1e30, -np.inf]
    return np.r_[x, ends].astype(np.float32), np.r_[rest, np.zeros(6)].astype(np.float32)


def test_exp_sum(sums):
    x, rest = sums
    got = launch(binary_kernel, functions.exp_sum, x, rest)
    want = exactly(lambda a, b: mp.exp(a + b), x, rest)
    small = np.abs(rest) < 1e-5
    assert_close(got[small], want[small], 2 * ULP)
    # What is left of x after the reduction is added to the rest with the rounding of the rest.
    assert_close(got, want, 2 * ULP + 2.0**-23 * np.abs(rest).max())


def test_exp_and_complement(sums):
    x, rest = sums
    below = x <= 0
    near = np.float32(-(10.0 ** np.linspace(-30, 2, 500)))
    x = np.concatenate([x[below], near])
    rest = np.concatenate([rest[below], np.zeros_like(near)]) * np.float32(1e-3)
    y, complement = launch(pair_kernel, functions.exp_and_complement, x, rest, outputs=2)
    assert_close(y, exactly(lambda a, b: mp.exp(a + b), x, rest), 3 * ULP)
    assert_close(complement, exactly(lambda a, b: -mp.expm1(a + b), x, rest), 2 * ULP)


def test_exp_parts_are_a_power_of_two_and_a_small_fraction(sums):
    s, p = launch(pair_kernel, functions.exp_parts, *sums, outputs=2)
    mantissa, _ = np.frexp(s[s > 0])
    assert set(mantissa) == {0.5}
    assert ((p >= -0.3) & (p <= 0.42)).all()


def test_power():
    generator = np.random.default_rng(8)
    x = 10.0 ** generator.uniform(-6, 6, 2000)
    p = generator.uniform(-5, 5, 2000)
    x, p = x.astype(np.float32), p.astype(np.float32)
    got = launch(binary_kernel, functions.power, x, p)
    want = exactly(mp.power, x, p)
    # 2 ulp each of log2 and exp2, and the rounding of the product between them.
    assert (np.abs(got / want - 1) <= ULP * (2 + 2.5 * np.abs(np.log(want)))).all()


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")  # of NumPy, interpreting
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_power_at_the_ends():
    x = [0.0, 0.0, 0.0, math.inf, math.inf, math.inf, 1.0]
    p = [2.0, 0.0, -2.0, 2.0, 0.0, -2.0, 300.0]
    got = launch(binary_kernel, functions.power, x, p)
    assert got.tolist() == [0, 1, math.inf, math.inf, 1, 0, 1]
