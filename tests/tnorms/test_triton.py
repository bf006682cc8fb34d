"""Triton functions against the classes in float64: values to the ends of float32, edges."""

import random
from functools import partial

import numpy as np
import pytest
import torch
from mpmath import mp

from support.cases import for_each
from support.tconorms import ARCHIMEDEAN, ORACLES, PARAMETRIC, is_nilpotent

triton = pytest.importorskip("triton", reason="Triton has no wheels for this platform")

import triton.language as tl  # noqa: E402  (after the skip)

from gendr.tnorms import Frank  # noqa: E402
from gendr.tnorms import triton as functions  # noqa: E402
from support.arithmetic import pessimistic_arithmetic  # noqa: E402

DEVICE = "cpu" if triton.knobs.runtime.interpret else "cuda"
BLOCK = 1024
EPS = 2.0**-24
TINY = 2.0**-126  # the least normal float32


@triton.jit
def generator_kernel(a, s, p, out, n, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    g = FUNCTION(tl.load(a + i, inside), tl.load(s + i, inside), tl.load(p))
    tl.store(out + i, g, inside)


@triton.jit
def inverse_kernel(t, p, total, rest, n, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    A, S = FUNCTION(tl.load(t + i, inside), tl.load(p))
    tl.store(total + i, A, inside)
    tl.store(rest + i, S, inside)


@triton.jit
def weight_kernel(a, s, A, S, p, out, n, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    member = tl.load(a + i, inside), tl.load(s + i, inside)
    total = tl.load(A + i, inside), tl.load(S + i, inside)
    tl.store(out + i, FUNCTION(member[0], member[1], total[0], total[1], tl.load(p)), inside)


def launch(kernel, function, *arrays, p, outputs=1):
    """The outputs of one function, in float64, on arrays of float32 numbers."""
    inputs = [torch.as_tensor(x, dtype=torch.float32, device=DEVICE) for x in arrays]
    out = [torch.full_like(inputs[0], torch.nan) for _ in range(outputs)]
    n = len(inputs[0])
    p = torch.tensor([p], dtype=torch.float32, device=DEVICE)
    with np.errstate(all="ignore"):  # infinities are meant; the interpreter computes in NumPy
        kernel[(triton.cdiv(n, BLOCK),)](*inputs, p, *out, n, FUNCTION=function, BLOCK=BLOCK)
    out = [x.double().cpu() for x in out]
    return out if outputs > 1 else out[0]


def single(t):
    """The same family at the float32 number that the kernel gets as p."""
    return t.with_p(float(np.float32(t.value))) if t in PARAMETRIC else t


def number(t):
    return getattr(t, "value", 0.0)


def exact_weight_p(t, a, s, A, S):
    """(dg/dp)(a) / g'(A) from numerical derivatives; the class cancels for small a or small s.

    The generator of Dombi's family is the one that stays 1 at A as p changes.
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
            weights.append(float(slope_of_p / mp.diff(lambda x: g(x, p), total)))
        return torch.tensor(weights, dtype=torch.float64)


def coverage(count, least, seed=0):
    """(a, s), s = 1 - a in float64, the smaller one log-uniform in [least, 1/2] and of float32."""
    rng = np.random.default_rng(seed)
    small = torch.from_numpy(0.5 * (2 * least) ** rng.random(count)).float().double()
    low = torch.from_numpy(rng.random(count) < 0.5)
    return torch.where(low, small, 1 - small), torch.where(low, 1 - small, small)


def members(count, least):
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
def test_the_functions_equal_the_class(t, least):
    t = single(t)
    a, s = coverage(300, least)
    g = launch(generator_kernel, functions.function(t.name, "generator"), a, s, p=number(t))
    close(g, t.generator(a, s), tolerance(t, least))
    sums = t.generator(a, s).float().double()
    sums = sums[(sums > TINY) & (sums < torch.inf)]
    A, S = launch(
        inverse_kernel, functions.function(t.name, "inverse"), sums, p=number(t), outputs=2
    )
    expected = t.inverse(sums)
    rtol = inverse_tolerance(t, least)
    close(A, expected[0], rtol)
    # The class takes 1 - A there, at its own precision.
    close(S, expected[1], rtol, atol=1e-15 if is_nilpotent(t) else 0)
    arrays = members(1000, least)
    w = launch(weight_kernel, functions.function(t.name, "weight"), *arrays, p=number(t))
    close(w, t.weight(*arrays), tolerance(t, least))


@for_each(rotating=12, least=[1e-3, 1e-30], t=PARAMETRIC)
def test_weight_p_is_the_derivative(t, least):
    t = single(t)
    arrays = members(60, least)
    w = launch(weight_kernel, functions.function(t.name, "weight_p"), *arrays, p=number(t))
    # A product that vanishes would have been multiplied by log(x) / p, of which |log(x)| <= 88.
    close(
        w,
        exact_weight_p(t, *arrays),
        tolerance(t, least),
        atol=88 * TINY * max(1, 1 / abs(t.value)),
    )


@pytest.mark.skipif(DEVICE != "cpu", reason="a GPU has its own arithmetic")
def test_a_sample_holds_in_the_arithmetic_of_a_gpu(seed):
    """All of these tests do with --pessimistic."""
    drawn = random.Random(seed).sample(ARCHIMEDEAN, 2)
    with pessimistic_arithmetic(seed):
        for t in drawn:
            test_the_functions_equal_the_class.__wrapped__(t, 1e-30)
            test_edges_of_the_generator_and_its_inverse.__wrapped__(t)


def ends():
    """(a, s) of float32 down to its least number, at both ends."""
    small = torch.tensor([0, 1e-45, 1e-38, 1e-30, 1e-20, 1e-8, 1e-3, 0.3, 0.5]).double()
    return torch.cat([small, 1 - small]), torch.cat([1 - small, small])


# For p = 49 log(1/p) / log(p) rounds beyond -1.
@for_each(t=[*ARCHIMEDEAN, Frank(49)], rotating=4)
def test_edges_of_the_generator_and_its_inverse(t):
    a, s = ends()
    g = launch(generator_kernel, functions.function(t.name, "generator"), a, s, p=number(t))
    assert bool((g >= 0).all())  # and none is NaN
    assert bool((g[a == 0] == 0).all())
    assert bool((g[s == 0] == torch.inf).all())
    sums = torch.cat([g, torch.linspace(0, 60, 900), torch.tensor([1e38, torch.inf, 0.0])])
    A, S = launch(
        inverse_kernel, functions.function(t.name, "inverse"), sums, p=number(t), outputs=2
    )
    assert bool(((A >= 0) & (A <= 1) & (S >= 0) & (S <= 1)).all())
    assert A[-2:].tolist() == [1, 0]
    assert S[-2:].tolist() == [0, 1]


def every_weight(t):
    found = [functions.function(t.name, "weight")]
    return [*found, functions.function(t.name, "weight_p")] if t in PARAMETRIC else found


@for_each(t=ARCHIMEDEAN)
def test_edges_of_the_weights(t):
    a, s = ends()
    i, j = (x.ravel() for x in torch.meshgrid(*[torch.arange(len(a))] * 2, indexing="ij"))
    arrays = a[i], s[i], a[j], s[j]
    closed = torch.stack(arrays).amin(0) <= 0
    for function in every_weight(t):
        w = launch(weight_kernel, function, *arrays, p=number(t))
        assert bool(torch.isfinite(w).all())
        assert bool((w[closed] == 0).all())


@triton.jit
def rows_kernel(
    a, s, A, S, p, out, FUNCTION: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    row = tl.arange(0, ROWS)[:, None]
    i = row * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    total = tl.load(A + i), tl.load(S + i)
    w = FUNCTION(tl.load(a + i), tl.load(s + i), total[0], total[1], tl.load(p + row))
    tl.store(out + i, w)


@for_each(t={t.name: t for t in ARCHIMEDEAN}.values())
def test_p_may_be_a_block(t):
    rows, columns = 4, 32
    arrays = [x.float().to(DEVICE) for x in members(rows * columns, 1e-3)]
    p = number(t) * torch.tensor([0.5, 1.0, 1.5, 2.5], device=DEVICE)
    for function in every_weight(t):
        out = torch.full_like(arrays[0], torch.nan)
        rows_kernel[(1,)](*arrays, p, out, FUNCTION=function, ROWS=rows, COLUMNS=columns)
        lines = [x.reshape(rows, columns) for x in arrays]
        expected = [
            launch(weight_kernel, function, *(x[k] for x in lines), p=p[k]) for k in range(rows)
        ]
        close(out.double().cpu(), torch.cat(expected), 1e-6)


def test_average_takes_the_share_as_its_parameter():
    """Saturated or not, the mean passes its gradient on."""
    sums = torch.tensor([0.0, 1.0, 4.0])
    A, S = launch(inverse_kernel, functions.function("average", "inverse"), sums, p=0.25, outputs=2)
    assert A.tolist() == [0, 0.25, 1]
    assert S.tolist() == [1, 1, 1]
