"""The vectorised functions of compiled laws and generators, against mpmath."""

import mpmath
import numpy as np
import pytest
from numba import njit

from gendr.kernels.numba import mathematics as functions
from gendr.kernels.numba.compilation import inner, kernel
from gendr.kernels.numba.prefetch import prefetch_row
from support.cases import for_each
from support.processes import Python, run_python

LARGEST = np.finfo(float).max
SMALLEST = np.finfo(float).tiny


def spread(low, high):
    """Numbers of all sizes between two powers of 10."""
    return 10 ** np.random.default_rng(0).uniform(low, high, 400)


NEAR_0 = np.r_[0.0, 5e-324, SMALLEST, spread(-300, 0)]
SIGNED = np.r_[NEAR_0, -NEAR_0, np.random.default_rng(1).uniform(-708, 709.7, 400)]
POSITIVE = np.r_[NEAR_0, spread(-1, 2), spread(0, 308), LARGEST]
CASES = {
    "exp": (SIGNED, mpmath.exp, {np.inf: np.inf, -np.inf: 0, 710: np.inf, -709: 0, -1e300: 0}),
    "expm1": (SIGNED, mpmath.expm1, {np.inf: np.inf, -np.inf: -1, 710: np.inf, -1e300: -1}),
    "log1p": (POSITIVE, mpmath.log1p, {np.inf: np.inf}),
    "arccot": (
        np.r_[POSITIVE, np.tan(np.pi / 8) * (1 + 1e-9 * np.arange(-2, 3))],
        lambda x: mpmath.acot(x) if x > 0 else mpmath.pi / 2,
        {np.inf: 0},
    ),
}


@pytest.mark.rotating(3, group="compilation")
@for_each(name=CASES)
def test_two_units_in_the_last_place_limits_and_nan(name):
    """In a loop over the function, as in compiled laws."""
    function, (x, oracle, limits) = getattr(functions, name), CASES[name]

    @njit
    def loop(x, out):
        for i in range(len(x)):
            out[i] = function(x[i])

    def evaluate(x):
        out = np.full_like(x, np.nan)
        loop(x, out)
        return out

    with mpmath.workdps(40):
        exact = [oracle(mpmath.mpf(float(v))) for v in x]
        error = [
            abs(float(mpmath.mpf(float(g)) - e)) for g, e in zip(evaluate(x), exact, strict=True)
        ]
    unit = np.spacing(np.maximum(np.abs(np.array([float(e) for e in exact])), SMALLEST))
    assert (np.array(error) <= 2 * unit).all()
    assert evaluate(np.array([*limits.keys()], float)).tolist() == [*limits.values()]
    assert np.isnan(evaluate(np.array([np.nan]))).all()
    if name == "expm1":
        assert np.signbit(evaluate(np.array([-0.0]))).all()


@pytest.mark.rotating(4, group="long")
def test_prefetched_rows_stay_as_they_are():
    @njit
    def sums(x, order, out):
        for k in range(len(order)):
            prefetch_row(x, order[min(k + 2, len(order) - 1)])
            out[k] = x[order[k]].sum()
        prefetch_row(x, len(x) + 1000)

    for dtype, columns in ((np.float32, 1), (np.float64, 100), (np.float32, 5000)):
        x = np.random.default_rng(0).uniform(size=(50, columns)).astype(dtype)
        before, out = x.copy(), np.empty(50, dtype)
        order = np.random.default_rng(1).permutation(50)
        sums(x, order, out)
        assert np.array_equal(x, before)
        assert np.allclose(out, x[order].sum(1))
    assert all("call void @llvm.prefetch" in text for text in sums.inspect_llvm().values())


OLD = """
from typing import NamedTuple
import pytest
from numba import njit
from gendr.kernels.numba.compilation import ensure_cache

ensure_cache()

class {name}(NamedTuple):
    x: float

@njit(cache=True)
def doubled(record):
    return 2 * record.x

print(doubled({name}(3.0)))
"""


@pytest.mark.rotating(3, group="compilation")
def test_a_cache_that_names_a_class_that_is_gone_counts_as_empty(tmp_path):
    for name in ("Before", "After"):
        (tmp_path / "kernels_of_a_test.py").write_text(OLD.format(name=name))
        code = "import sys; sys.path.insert(0, sys.argv[1]); import kernels_of_a_test"
        assert run_python(code, tmp_path, check=True).stdout == "6.0\n"


def test_what_only_kernels_call_is_refused_from_python():
    @inner(cache=False)
    def half(x):
        return x / 2

    @kernel()
    def quarter(x):
        return half(half(x))

    for _ in range(2):  # also once it is compiled
        with pytest.raises(TypeError, match="half is called by compiled functions only"):
            half(1.0)
        assert quarter(1.0) == 0.25


RUN = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import kernels_of_a_test as kernels
from support.compiling import no_kernel_twice
with no_kernel_twice(Path(sys.argv[1]) / "locks"):
    assert getattr(kernels, sys.argv[2])(1) == 4.0
print(sum(sum(x.stats.cache_misses.values()) for x in (kernels.one, kernels.two, kernels.within)))
"""
KERNELS = """
from gendr.kernels.numba.compilation import ensure_cache, inner, kernel

ensure_cache()

@inner()
def within(x, times):
    for _ in range(times):
        x += 1.0
    return x

@kernel()
def one(x):
    return within(x, 1) + within(x, 1) * within(x, 0)

@kernel()
def two(x):
    return within(x, 3)
"""


@pytest.mark.rotating(3, group="compilation")
def test_a_kernel_is_compiled_once_by_processes_of_the_tests_for_all_constants(tmp_path):
    (tmp_path / "kernels_of_a_test.py").write_text(KERNELS)
    runs = [Python(RUN, tmp_path, "one") for _ in range(2)]
    assert [run.wait() for run in runs] == [0, 0], runs[0].output()
    assert sum(int(run.output()[0]) for run in runs) == 2
    assert run_python(RUN, tmp_path, "two", check=True).stdout == "1\n"  # the inner one is there
