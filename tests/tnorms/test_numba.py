"""The compiled functions against the classes, and their guards."""

import ctypes

import numpy as np
import pytest
import torch

from gendr.tnorms import numba as functions
from support.cases import for_each
from support.tconorms import ARCHIMEDEAN, PARAMETRIC

DOUBLES = ctypes.POINTER(ctypes.c_double)


def call(address, *arrays, p):
    arrays = [np.ascontiguousarray(x, dtype=np.float64) for x in arrays]
    out = np.full(len(arrays[0]), np.nan)
    kinds = [*[DOUBLES] * len(arrays), ctypes.c_int64, ctypes.c_double, DOUBLES]
    pointers = [x.ctypes.data_as(DOUBLES) for x in (*arrays, out)]
    ctypes.CFUNCTYPE(None, *kinds)(address)(*pointers[:-1], len(out), p, pointers[-1])
    return out


def number(t):
    return t.value if t in PARAMETRIC else 0.0


def members():
    rng = np.random.default_rng(0)
    x = 6 * rng.standard_normal(999)
    y = x + 4 * rng.random(999)  # the total exceeds each member
    return [1 / (1 + np.exp(-v)) for v in (x, -x, y, -y)]


@for_each(t=ARCHIMEDEAN)
def test_compiled_functions_equal_the_classes(t):
    arrays = members()
    tensors = [torch.from_numpy(x) for x in arrays]
    generator = call(functions.loop(t.name, "generator").address, *arrays[:2], p=number(t))
    np.testing.assert_allclose(generator, t.generator(*tensors[:2]), rtol=1e-13, atol=0)
    weight = call(functions.loop(t.name, "weight").address, *arrays, p=number(t))
    np.testing.assert_allclose(weight, t.weight(*tensors), rtol=1e-13, atol=1e-290)
    if t in PARAMETRIC:
        weight_p = call(functions.loop(t.name, "weight_p").address, *arrays, p=number(t))
        # Beside p = 1 the formula of Frank cancels, in the class and in the function.
        atol = 1e-13 / min(1, abs(t.value - 1)) if t.name == "frank" else 1e-13
        np.testing.assert_allclose(weight_p, t.weight_p(*tensors), rtol=1e-13, atol=atol)


@for_each(t=ARCHIMEDEAN)
def test_guards(t):
    ends = np.array([0, 5e-324, 1e-300, 1e-20, 0.5, 1])
    a = np.concatenate([ends, 1 - ends])
    s = np.concatenate([1 - ends, ends])
    generator = call(functions.loop(t.name, "generator").address, a, s, p=number(t))
    assert (generator[a == 0] == 0).all()
    assert np.isinf(generator[s == 0]).all()
    assert (generator >= 0).all()
    i, j = map(np.ravel, np.meshgrid(np.arange(len(a)), np.arange(len(a))))
    arrays = a[i], s[i], a[j], s[j]
    closed = np.min(arrays, axis=0) == 0
    addresses = [functions.loop(t.name, "weight").address]
    addresses += [functions.loop(t.name, "weight_p").address] if t in PARAMETRIC else []
    for address in addresses:
        w = call(address, *arrays, p=number(t))
        assert np.isfinite(w).all()
        assert (w[closed] == 0).all()


def test_average_takes_the_share_as_its_parameter():
    arrays = members()
    assert (
        call(functions.loop("average", "generator").address, *arrays[:2], p=0.25) == arrays[0]
    ).all()
    assert (call(functions.loop("average", "weight").address, *arrays, p=0.25) == 0.25).all()
    zero = [np.zeros(1), np.ones(1), np.ones(1) / 2, np.ones(1) / 2]
    assert call(functions.loop("average", "weight").address, *zero, p=0.25) == 0


def test_what_has_no_function_says_so():
    with pytest.raises(ValueError, match="the T-conorm max has no body 'generator'"):
        functions.loop("max", "generator")
    with pytest.raises(ValueError, match="einstein has no body 'weight_p'"):
        functions.loop("einstein", "weight_p")
    with pytest.raises(ValueError, match="no T-conorm 'yagr'; there are aczel_alsina, "):
        functions.loop("yagr", "weight")


@for_each(t=ARCHIMEDEAN)
def test_the_compiled_inverse_equals_the_class(t):
    """From nothing to saturation, and of the total in place."""
    ends = [0, 5e-324, 1e-300, 1e-20, 1 - 1e-16, 1, 1 + 1e-15, 1e20, 1e308, np.inf]
    a, s = members()[:2]
    total = np.concatenate(
        [call(functions.loop(t.name, "generator").address, a, s, p=number(t)), ends]
    )
    A, S = np.full(len(total), np.nan), total.copy()
    kinds = [DOUBLES, ctypes.c_int64, ctypes.c_double, DOUBLES, DOUBLES]
    loop = ctypes.CFUNCTYPE(None, *kinds)(functions.loop(t.name, "inverse").address)
    pointers = [x.ctypes.data_as(DOUBLES) for x in (S, A, S)]
    loop(pointers[0], len(total), number(t), *pointers[1:])
    want = t.inverse(torch.from_numpy(total))
    end = abs(total - 1) < 2e-16  # 1 - x of an x that is 1 or its neighbour, as the root rounds
    for got, exact in zip((A, S), (x.numpy() for x in want), strict=True):
        np.testing.assert_allclose(got[~end], exact[~end], rtol=1e-13, atol=1e-300)
        np.testing.assert_allclose(got[end], exact[end], rtol=0, atol=2e-16)
    assert (A[total == 0] == 0).all()
    assert (S[np.isinf(total)] == 0).all()


@for_each(t=[t for t in ARCHIMEDEAN if abs(number(t)) <= 4])
def test_loops_of_float32_equal_the_classes(t):
    """To 2e-5 of themselves: a power costs digits, and ends where float32 does."""
    floats = ctypes.POINTER(ctypes.c_float)
    arrays = [np.resize(x, 1008).astype(np.float32) for x in members()]
    a, s, A, S = (torch.from_numpy(x.astype(np.float64)) for x in arrays)
    total = t.generator(a, s).clamp(max=3e38)
    sums = total.numpy().astype(np.float32)
    for kind, given, exact in (
        ("generator", arrays[:2], [total]),
        ("weight", arrays, [t.weight(a, s, A, S)]),
        ("inverse", [sums], t.inverse(torch.from_numpy(sums.astype(np.float64)))),
    ):
        out = [np.full(1008, np.nan, np.float32) for _ in exact]
        into, outputs = ([x.ctypes.data_as(floats) for x in xs] for xs in (given, out))
        functions.single_loop(t.name, kind).ctypes(*into, 1008, number(t), *outputs)
        for got, want in zip(out, exact, strict=True):
            np.testing.assert_allclose(got, want.numpy(), rtol=2e-5, atol=1e-9)
