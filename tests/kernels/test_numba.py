"""What Numba compiles: mathematics, distributions and T-conorms; compilation, and its seams."""

import ast
import ctypes
import importlib
import importlib.metadata
import importlib.util
import re
import tokenize
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
from numba import njit

from gendr import distributions
from gendr.distributions import Gamma
from gendr.distributions import numba as of_distributions
from gendr.kernels.compat import numba as compat_numba
from gendr.kernels.compat import torch as compat_torch
from gendr.kernels.compat import triton as compat_triton
from gendr.kernels.functions import moved
from gendr.kernels.numba import compilation, mathematics
from gendr.kernels.numba.compilation import inner, kernel
from gendr.kernels.numba.prefetch import prefetch_row
from gendr.sorting import soft_sort
from gendr.tnorms import numba as of_tconorms
from support.cases import for_each
from support.distributions import EXAMPLES, points
from support.processes import run_python
from support.tconorms import ARCHIMEDEAN, PARAMETRIC


@for_each(library=[compat_numba, compat_torch, compat_triton])
def test_seams_stand_where_they_stood(library):
    """If one has moved: look at the new version, mend the file, and name the version in it."""
    name = library.__name__.rpartition(".")[2]
    if importlib.util.find_spec(name) is None:  # Triton, which has no wheels for some systems
        return
    version = ".".join(importlib.metadata.version(name).split(".")[:2])
    assert version in library.TRIED, f"{name} {version} was not tried: run all tests, add it"
    for module, place in library.SEAMS:
        found = importlib.import_module(module)
        for part in place.split("."):
            assert hasattr(found, part), f"{name} {version} has no {module}.{place}"
            found = getattr(found, part)


def test_a_loop_begins_where_the_file_that_it_is_ascribed_to_can_be_read(tmp_path):
    """Numba reads the source there; Python 3.13 does not look for the line that has the `def`."""
    file = tmp_path / "gamma.py"
    file.write_text('"""' + "words\n" * 1000 + '"""\n')
    code = moved(spread, "gamma", "Gamma_alpha", str(file)).__code__
    lines = file.read_text().splitlines(keepends=True)[code.co_firstlineno - 1 :]
    assert [*tokenize.generate_tokens(iter(lines).__next__)]


def test_kernels_fill_arrays_from_arrays_by_loops():
    """`a[:] = b[0:n]` takes two seconds to compile, see `gendr.kernels.numba.arrays`."""
    found = []
    for file in Path(compilation.__file__).parents[2].rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        for made in ast.walk(ast.parse(text)) if "numba" in text else ():
            if not isinstance(made, ast.FunctionDef):
                continue
            made_by = {x.id for d in made.decorator_list for x in ast.walk(d) if hasattr(x, "id")}
            if made_by & {"kernel", "inner", "register_jitable"}:
                found += [f"{file.name}: {ast.unparse(x)}" for x in ast.walk(made) if _copies(x)]
    assert not found
    planted = (
        "a[:] = b; a[0:n] += b; n, a[:, 1] = 0, b[i]; a[:], b = c",
        "a[:], n = -1, b; a[i] = b",
    )
    assert [{_copies(x) for x in ast.parse(text).body} for text in planted] == [{True}, {False}]


# What slices are filled with in kernels, beside literals; all are numbers.
NUMBERS = {
    "first[k]", "listed[0]", "math.inf", "mean", "n", "not identity", "np.float32(0.0)",
    "np.float32(1.0)", "outside", "shown[0]",
}  # fmt: skip


def _copies(node):
    """Whether a slice of an array may get an array; a sum such as `a[:] += 1` is one."""
    if isinstance(node, ast.AugAssign):
        return _is_slice(node.target)
    if not isinstance(node, ast.Assign):
        return False
    pairs = []
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs += zip(target.elts, node.value.elts, strict=True)
        else:
            pairs += [(each, node.value) for each in getattr(target, "elts", [target])]
    return any(_is_slice(target) and not _is_number(value) for target, value in pairs)


def _is_slice(target):
    return isinstance(target, ast.Subscript) and any(
        isinstance(x, ast.Slice) for x in ast.walk(target.slice)
    )


def _is_number(value):
    literal = value.operand if isinstance(value, ast.UnaryOp) else value
    return isinstance(literal, ast.Constant) or ast.unparse(value) in NUMBERS


def test_inner_functions_are_compiled_once_for_all_constants():
    @inner(cache=False)
    def within(x, k):
        return x + k

    @kernel(cache=False)
    def one(x):
        return within(x, 1) + within(x, 1) * within(x, 0)

    assert one(2.0) == 9
    assert len(within.overloads) == 1


def test_kernels_count_as_old_if_what_they_import_changes(tmp_path):
    files = {
        "kernels": "from gendr.low import (\n    add,\n)\nfrom gendr.room import other as name\n",
        "low": "from gendr.kernels import add\n", "room/__init__": "", "room/other": "",
        "aside": "",
    }  # fmt: skip
    places = {name: tmp_path / f"{name}.py" for name in files}
    places["room/other"].parent.mkdir()
    for name, text in files.items():
        places[name].write_text(text)

    def digest():
        compilation.sources.cache_clear()
        compilation._imported.cache_clear()
        return compilation.sources(str(places["kernels"]), tmp_path)

    before = digest()
    for name, place in places.items():
        place.write_text(files[name] + "# changed\n")
        assert (digest() == before) == (name == "aside"), name
        before = digest()
    stamps = [made(spread)._cache._cache_file._source_stamp for made in (kernel(), inner())]
    assert [stamp[1] for stamp in stamps] == 2 * [compilation.sources(__file__)]


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
    "exp_below": (
        -np.r_[0.0, np.random.default_rng(2).uniform(0, 87, 2000), spread(-30, 0)].astype("f"),
        mpmath.exp,
        {-np.inf: 0, -88: 0, -1e30: 0},
    ),
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
    """In a loop over the function, as in compiled distributions."""
    function, (x, oracle, limits) = getattr(mathematics, name), CASES[name]

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
    sizes = np.abs(np.array([float(e) for e in exact]), dtype=x.dtype)
    unit = np.spacing(np.maximum(sizes, np.finfo(x.dtype).tiny))
    assert (np.array(error) <= 2 * unit).all()
    assert evaluate(np.array([*limits.keys()], x.dtype)).tolist() == [*limits.values()]
    assert np.isnan(evaluate(np.array([np.nan], x.dtype))).all()
    if name == "expm1":
        assert np.signbit(evaluate(np.array([-0.0]))).all()


# -------------------------------------------------------------------------------------------------
# Distributions and T-conorms


def call(loop, number, *arrays, outputs=1, out=None):
    """A compiled loop over arrays by its address, as kernels call it; unwritten places stay NaN.

    Args:
        number: the shape of a distribution, or p of a family.
        out: arrays for the results, by default new ones.
    """
    single = arrays[0].dtype == np.float32
    out = [np.full_like(arrays[0], np.nan) for _ in range(outputs)] if out is None else out
    pointer = ctypes.POINTER(ctypes.c_float if single else ctypes.c_double)
    given, found = ([x.ctypes.data_as(pointer) for x in xs] for xs in (arrays, out))
    kinds = [*[pointer] * len(given), ctypes.c_int64, ctypes.c_double, *[pointer] * len(out)]
    function = loop.ctypes if single else ctypes.CFUNCTYPE(None, *kinds)(loop.address)
    function(*given, len(arrays[0]), number, *found)
    return out


# Beyond the class' examples, beside the branches of gamma.
SHAPED = [dist for dist in EXAMPLES if dist.shape_parameter is not None]
SHAPED += [Gamma(shape) for shape in (9.9, 10.1, 40.0)]
EDGES = (0.0, -0.0, 1, -1, 0.25, -0.25, 1e-4, 1e-31, 1e-300, 30, -30, 40, -40, 800, -800)
EDGES += (1e9, -1e9, 1e30, -1e30)


def run(dist, kind, z, outputs=1):
    found = call(
        of_distributions.loop(dist.name, kind), dist.shape_parameter or 0.0, z, outputs=outputs
    )
    return [*map(torch.from_numpy, found)]


def inputs(dist):
    draw = torch.randn(500, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    spread = torch.cat([draw, 10 * draw, draw.abs() * (dist.shape_parameter or 1)])
    z = torch.cat([points(dist, 200), spread, torch.tensor(EDGES, dtype=torch.float64)])
    return z


def close(got, want):
    # Relative where it is tiny, so that the tails are compared too.
    return ((got - want).abs() <= 1e-13 * want.abs().clamp(min=1)).all() and (
        ((got - want).abs() <= 1e-11 * want.abs()) | (want.abs() < 1e-290)
    ).all()


@for_each(dist=EXAMPLES, rotating=3)
def test_loops_of_distributions_equal_the_classes(dist):
    z = inputs(dist)
    cdf, sf = run(dist, "tails", z.numpy(), 2)
    (pdf,) = run(dist, "density", z.numpy())
    assert close(cdf, dist.cdf(z))
    assert close(sf, dist.sf(z))
    assert close(pdf, dist.pdf(z))
    assert all(map(close, run(dist, of_distributions.BOTH, z.numpy(), 3), (cdf, sf, pdf)))


@for_each(dist=EXAMPLES, rotating=3)
def test_loops_take_infinities(dist):
    z = np.array([-np.inf, np.inf])
    cdf, sf = run(dist, "tails", z, 2)
    (pdf,) = run(dist, "density", z)
    assert cdf.tolist() == [0, 1]
    assert sf.tolist() == [1, 0]
    assert pdf.tolist() == [0, 0]


@for_each(dist=SHAPED)
def test_tensors_of_shapes_are_evaluated_one_by_one(dist):
    """In any order, with the slope of the class, which is compared with mpmath."""
    z = inputs(dist).clamp(max=1e9)
    shapes = dist.shape_parameter * torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    shapes = shapes.repeat(len(z) // 3 + 1)[: len(z)]
    for kind, count in (("tails", 2), ("shape_slope", 1)):
        got = of_distributions.evaluated(type(dist), kind, z, shapes)
        for shape in shapes[:3]:
            own = shapes == shape
            want = run(dist.with_shape(shape.item()), kind, z[own].numpy(), count)
            assert all(torch.equal(a[own], b) for a, b in zip(got, want, strict=True))


def test_addresses_are_stable_and_complete():
    for name in distributions.names():
        assert of_distributions.tails_address(name) == of_distributions.tails_address(name) != 0
        assert of_distributions.density_address(name) not in (
            0,
            of_distributions.tails_address(name),
        )
    assert of_distributions.loop("gamma", "shape_slope").address != 0
    with pytest.raises(ValueError, match="no distribution 'logstic'"):
        of_distributions.tails_address("logstic")
    with pytest.raises(ValueError, match="no kernel function 'shape_slope'"):
        of_distributions.loop("logistic", "shape_slope")


@for_each(dist=[dist for dist in EXAMPLES if of_distributions.has_single(dist.name)], rotating=3)
def test_loops_of_distributions_in_float32_equal_the_classes(dist):
    """To 1e-6; tails to 1e-5 of themselves, down to 1e-30."""
    z = inputs(dist).float()
    z = torch.cat([z, torch.tensor([torch.inf, -torch.inf]), z.new_zeros(-(len(z) + 2) % 16)])
    exact = dist.cdf(z.double()), dist.sf(z.double()), dist.pdf(z.double())
    for kind, wanted in (("tails", 2), (of_distributions.BOTH, 3)):
        found = call(of_distributions.single_loop(dist.name, kind), 0.0, z.numpy(), outputs=wanted)
        for got, want in zip(map(torch.from_numpy, found), exact, strict=False):
            assert (got - want).abs().max() <= 1e-6
            tail = (want > 1e-30) & (want < 0.5)
            assert ((got / want - 1).abs()[tail] <= 1e-5).all()


def test_distributions_whose_text_has_branches_or_a_shape_have_no_loops_of_float32():
    assert {dist.name for dist in EXAMPLES if not of_distributions.has_single(dist.name)} == {
        "gamma", "gaussian", "gumbel_max", "gumbel_min", "levy", "power", "student_t",
        "wigner_semicircle",
    }  # fmt: skip


def number(t):
    return t.value if t in PARAMETRIC else 0.0


def members():
    rng = np.random.default_rng(0)
    x = 6 * rng.standard_normal(999)
    y = x + 4 * rng.random(999)  # the total exceeds each member
    return [1 / (1 + np.exp(-v)) for v in (x, -x, y, -y)]


@for_each(t=ARCHIMEDEAN, rotating=3)
def test_loops_of_tconorms_equal_the_classes(t):
    arrays = members()
    tensors = [torch.from_numpy(x) for x in arrays]
    generator = call(of_tconorms.loop(t.name, "generator"), number(t), *arrays[:2])[0]
    np.testing.assert_allclose(generator, t.generator(*tensors[:2]), rtol=1e-13, atol=0)
    weight = call(of_tconorms.loop(t.name, "weight"), number(t), *arrays)[0]
    np.testing.assert_allclose(weight, t.weight(*tensors), rtol=1e-13, atol=1e-290)
    if t in PARAMETRIC:
        weight_p = call(of_tconorms.loop(t.name, "weight_p"), number(t), *arrays)[0]
        # Beside p = 1 the formula of Frank cancels, in the class and in the function.
        atol = 1e-13 / min(1, abs(t.value - 1)) if t.name == "frank" else 1e-13
        np.testing.assert_allclose(weight_p, t.weight_p(*tensors), rtol=1e-13, atol=atol)


@for_each(t=ARCHIMEDEAN, rotating=3)
def test_guards(t):
    ends = np.array([0, 5e-324, 1e-300, 1e-20, 0.5, 1])
    a = np.concatenate([ends, 1 - ends])
    s = np.concatenate([1 - ends, ends])
    generator = call(of_tconorms.loop(t.name, "generator"), number(t), a, s)[0]
    assert (generator[a == 0] == 0).all()
    assert np.isinf(generator[s == 0]).all()
    assert (generator >= 0).all()
    i, j = map(np.ravel, np.meshgrid(np.arange(len(a)), np.arange(len(a))))
    arrays = a[i], s[i], a[j], s[j]
    closed = np.min(arrays, axis=0) == 0
    for kind in ("weight", "weight_p") if t in PARAMETRIC else ("weight",):
        (w,) = call(of_tconorms.loop(t.name, kind), number(t), *arrays)
        assert np.isfinite(w).all()
        assert (w[closed] == 0).all()


def test_average_takes_the_share_as_its_parameter():
    arrays = members()
    assert (call(of_tconorms.loop("average", "generator"), 0.25, *arrays[:2])[0] == arrays[0]).all()
    assert (call(of_tconorms.loop("average", "weight"), 0.25, *arrays)[0] == 0.25).all()
    zero = [np.zeros(1), np.ones(1), np.ones(1) / 2, np.ones(1) / 2]
    assert call(of_tconorms.loop("average", "weight"), 0.25, *zero)[0] == 0


def test_what_has_no_function_says_so():
    with pytest.raises(ValueError, match="the T-conorm max has no kernel function 'generator'"):
        of_tconorms.loop("max", "generator")
    with pytest.raises(ValueError, match="einstein has no kernel function 'weight_p'"):
        of_tconorms.loop("einstein", "weight_p")
    with pytest.raises(ValueError, match="no T-conorm 'yagr'; there are aczel_alsina, "):
        of_tconorms.loop("yagr", "weight")


@for_each(t=ARCHIMEDEAN, rotating=3)
def test_the_compiled_inverse_equals_the_class(t):
    """From nothing to saturation, and of the total in place."""
    ends = [0, 5e-324, 1e-300, 1e-20, 1 - 1e-16, 1, 1 + 1e-15, 1e20, 1e308, np.inf]
    a, s = members()[:2]
    total = np.concatenate([call(of_tconorms.loop(t.name, "generator"), number(t), a, s)[0], ends])
    A, S = np.full(len(total), np.nan), total.copy()
    call(of_tconorms.loop(t.name, "inverse"), number(t), S, out=(A, S))
    want = t.inverse(torch.from_numpy(total))
    end = abs(total - 1) < 2e-16  # 1 - x of an x that is 1 or its neighbour, as the root rounds
    for got, exact in zip((A, S), (x.numpy() for x in want), strict=True):
        np.testing.assert_allclose(got[~end], exact[~end], rtol=1e-13, atol=1e-300)
        np.testing.assert_allclose(got[end], exact[end], rtol=0, atol=2e-16)
    assert (A[total == 0] == 0).all()
    assert (S[np.isinf(total)] == 0).all()


@for_each(t=[t for t in ARCHIMEDEAN if abs(number(t)) <= 4], rotating=3)
def test_loops_of_tconorms_in_float32_equal_the_classes(t):
    """To 2e-5 of themselves: a power costs digits, and ends where float32 does."""
    arrays = [np.resize(x, 1008).astype(np.float32) for x in members()]
    a, s, A, S = (torch.from_numpy(x.astype(np.float64)) for x in arrays)
    total = t.generator(a, s).clamp(max=3e38)
    sums = total.numpy().astype(np.float32)
    for kind, given, exact in (
        ("generator", arrays[:2], [total]),
        ("weight", arrays, [t.weight(a, s, A, S)]),
        ("inverse", [sums], t.inverse(torch.from_numpy(sums.astype(np.float64)))),
    ):
        loop = of_tconorms.single_loop(t.name, kind)
        out = call(loop, number(t), *given, outputs=len(exact))
        for got, want in zip(out, exact, strict=True):
            np.testing.assert_allclose(got, want.numpy(), rtol=2e-5, atol=1e-9)


# -------------------------------------------------------------------------------------------------
# Compilation


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


@pytest.mark.graphs
def test_dynamo_stays_out_of_the_compiler_of_kernels():
    """It took the frames of Numba one by one, which ended in a RecursionError."""
    from torch._dynamo.convert_frame import input_codes

    soft_sort(torch.rand(3), backend="cpu")  # where kernels are compiled from here on

    def double(x, y):
        for i in range(len(x)):
            y[i] = 2 * x[i]

    theirs, ours = njit(double), kernel(cache=False)(double)

    def function(x):
        torch._dynamo.graph_break()
        y, z = torch.empty_like(x), torch.empty_like(x)
        theirs(x.numpy(), y.numpy())
        ours(x.numpy(), z.numpy())
        return y + z

    x = torch.rand(3)
    assert torch.equal(torch.compile(function, backend="eager")(x), 4 * x)
    codes = [code() for code in input_codes.seen if code() is not None]
    assert any(code.co_filename == __file__ for code in codes)
    assert not [
        code.co_filename
        for code in codes
        if re.search(r"llvmlite|numba/core|compat/numba|_common/names", code.co_filename)
    ]
