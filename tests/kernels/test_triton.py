"""The functions that Triton lacks, interpreted, against SciPy and mpmath."""

import math

import mpmath as mp
import numpy as np
import pytest
import scipy.special
import torch

triton = pytest.importorskip("triton")

import triton.language as tl  # noqa: E402  # there is no triton on some systems

from gendr.kernels.triton import mathematics as functions  # noqa: E402
from support.cases import for_each  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BLOCK = 4096
ULP = 1.2e-7
LEAST = 2.0**-126

# 0, and both signs of all magnitudes; what a test takes of them is its range.
MAGNITUDES = np.concatenate([10.0 ** np.linspace(-30, 30, 800), np.linspace(0.01, 110, 1200)])
EVERY = np.concatenate([[0.0], MAGNITUDES, -MAGNITUDES]).astype(np.float32)


@triton.jit
def kernel(
    x_ptr, y_ptr, a_ptr, b_ptr, n,
    FUNCTION: tl.constexpr, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A function of x, or of x and y, with one result or two."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=1.0)
    if INPUTS == 1:
        tl.store(a_ptr + i, FUNCTION(x), mask=i < n)
    else:
        y = tl.load(y_ptr + i, mask=i < n, other=1.0)
        if OUTPUTS == 1:
            tl.store(a_ptr + i, FUNCTION(x, y), mask=i < n)
        else:
            a, b = FUNCTION(x, y)
            tl.store(a_ptr + i, a, mask=i < n)
            tl.store(b_ptr + i, b, mask=i < n)


def launch(name, *inputs, outputs=1):
    tensors = [torch.from_numpy(np.asarray(x, dtype=np.float32)).to(DEVICE) for x in inputs]
    out = [torch.full_like(tensors[0], math.nan) for _ in range(2)]
    n = tensors[0].numel()
    kernel[(triton.cdiv(n, BLOCK),)](
        tensors[0], tensors[-1], *out, n,
        FUNCTION=getattr(functions, name), INPUTS=len(inputs), OUTPUTS=outputs, BLOCK=BLOCK,
    )  # fmt: skip
    arrays = [o.double().cpu().numpy() for o in out]
    return arrays[0] if outputs == 1 else arrays


def exactly(function, *inputs):
    with mp.workdps(40):
        columns = [map(mp.mpf, np.asarray(x, dtype=np.float64).tolist()) for x in inputs]
        return np.array([float(function(*row)) for row in zip(*columns, strict=True)])


def assert_close(got, want, relative):
    # Below the least normal number float32 has fewer digits, or none: it counts as 0.
    np.testing.assert_allclose(got, want, rtol=relative, atol=LEAST)


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
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")  # of NumPy, interpreting
def test_functions_of_one_argument(name, ends, oracle, ulp, limits):
    """Their error in ulp in a range, their limits, and that a NaN stays one."""
    x = EVERY[(EVERY >= ends[0]) & (EVERY <= ends[1])]
    fine = np.random.default_rng(5).uniform(max(ends[0], -3.0), min(ends[1], 3.0), 2000)
    x = np.concatenate([x, fine.astype(np.float32)])
    assert_close(launch(name, x), oracle(x.astype(np.float64)), ulp * ULP)
    assert launch(name, [*limits, math.nan]).tolist()[:-1] == [*limits.values()]
    assert np.isnan(launch(name, [*limits, math.nan])[-1])


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
    got = launch("exp_sum", x, rest)
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
    y, complement = launch("exp_and_complement", x, rest, outputs=2)
    assert_close(y, exactly(lambda a, b: mp.exp(a + b), x, rest), 3 * ULP)
    assert_close(complement, exactly(lambda a, b: -mp.expm1(a + b), x, rest), 2 * ULP)


def test_exp_parts_are_a_power_of_two_and_a_small_fraction(sums):
    s, p = launch("exp_parts", *sums, outputs=2)
    mantissa, _ = np.frexp(s[s > 0])
    assert set(mantissa) == {0.5}
    assert ((p >= -0.3) & (p <= 0.42)).all()


def test_power():
    generator = np.random.default_rng(8)
    x = 10.0 ** generator.uniform(-6, 6, 2000)
    p = generator.uniform(-5, 5, 2000)
    x, p = x.astype(np.float32), p.astype(np.float32)
    got = launch("power", x, p)
    want = exactly(mp.power, x, p)
    # 2 ulp each of log2 and exp2, and the rounding of the product between them.
    assert (np.abs(got / want - 1) <= ULP * (2 + 2.5 * np.abs(np.log(want)))).all()


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")  # of NumPy, interpreting
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_power_at_the_ends():
    x, p = [0.0, 0.0, 0.0, INF, INF, INF, 1.0], [2.0, 0.0, -2.0, 2.0, 0.0, -2.0, 300.0]
    assert launch("power", x, p).tolist() == [0, 1, INF, INF, 1, 0, 1]
