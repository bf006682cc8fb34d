"""The decorator: it gives what the functional form gives, and keeps to Python's habits."""

# Programs that are odd on purpose.
# pyright: reportUnusedVariable=false, reportPossiblyUnboundVariable=false, reportUnusedExpression=false
# pyright: reportIncompatibleMethodOverride=false

import functools
import inspect
import itertools
import math
import statistics
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

import gendr
from gendr import relaxed
from gendr.relaxed import Categories, Category, Matrix, Scalar, Vector, smooth, zeros

X = torch.linspace(-2, 2, 9, dtype=torch.float64)


def sigmoid(x, scale=1.0):
    return torch.sigmoid(x / scale)


# -- decorated and functional forms


@gendr.relax
def everything(x, y, table):
    z = 0.0
    if x < y and not y == 1.0:
        z = x * y
        if z > 0.2 or x >= 0.9:
            z = z + 1
        elif x != y:
            z = -z
    k = 0
    while z <= 2 and k < 3:
        z += 0.5
        k += 1
    table[k] = max(z, x, y)
    w = abs(x) if 0 < x <= y else min(x, table[0])
    return z, w, table[z], table


def everything_by_hand(x, y, table):
    r = relaxed
    z = 0.0

    def first(z):
        z = x * y

        def inner(z):
            return r.cond(r.not_equal(x, y), lambda z: -z, None, z)

        p = r.or_(r.greater(z, 0.2), r.greater_equal(x, 0.9))
        return r.cond(p, lambda z: z + 1, inner, z)

    z = r.cond(r.and_(r.less(x, y), r.not_(r.equal(y, 1.0))), first, None, z)
    z, k = r.while_loop(
        lambda z, k: r.and_(r.less_equal(z, 2), r.less(k, 3)),
        lambda z, k: (z + 0.5, k + 1),
        (z, 0),
    )
    table = r.write(r.Array.dense(table, 1), r.max(z, x, y), k)
    p = r.and_(r.less(0, x), r.less_equal(x, y))
    w = r.cond(p, lambda: r.abs(x), lambda: r.min(x, r.index(table, 0)))
    return z, w, r.index(table, z), table.data


def test_the_decorated_form_is_the_functional_form():
    for dist, tnorm in itertools.product(
        ["logistic", "gaussian", "cauchy"], ["probabilistic", "hamacher(p=0.5)"]
    ):
        y = X.flip(0) + 0.3
        table = torch.arange(45, dtype=torch.float64).reshape(9, 5).cos()
        got = everything(X, y, table, scale=0.4, dist=dist, tconorm=tnorm)
        with relaxed.smoothing(scale=0.4, dist=dist, tconorm=tnorm):
            want = everything_by_hand(X, y, table)
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-14)


# -- nested decisions


@gendr.relax
def nested(a, b, c):
    if a > 0:
        if b > 0:
            z = 1.0 if c > 0 else 2.0
        else:
            z = 3.0
    elif b > 1:
        if c > 1:
            z = 4.0
        else:
            z = 5.0
    else:
        z = 6.0
    return z


def test_nested_blocks_are_exact():
    """The sum over all ways the six comparisons can end, each with its probability."""
    a, b, c = torch.randn(3, 7, dtype=torch.float64)
    p = [sigmoid(x, 0.7) for x in (a, b, c, b - 1, c - 1)]
    want = torch.zeros(7, dtype=torch.float64)
    for ends in itertools.product((True, False), repeat=5):
        parts = [q if end else 1 - q for q, end in zip(p, ends, strict=True)]
        a0, b0, c0, b1, c1 = ends
        if a0:
            z = (1 if c0 else 2) if b0 else 3
        else:
            z = (4 if c1 else 5) if b1 else 6
        want = want + math.prod(parts) * z
    torch.testing.assert_close(nested(a, b, c, scale=0.7), want)


@gendr.relax
def sequential(x):
    y = 1.0 if x > 0 else -1.0
    return 2.0 if y > 0 else 0.0


def test_sequential_blocks_are_merged():
    """Paths join behind a block: the second decision sees the expectation of the first."""
    p = sigmoid(X)
    torch.testing.assert_close(sequential(X), 2 * sigmoid(2 * p - 1))


@gendr.relax
def late(x, y):
    if x > 0:
        if y > 0:
            z = 1.0
            return z
        z = 2.0
    else:
        z = 3.0
    return z + y


def test_what_follows_an_early_return_belongs_to_the_other_branches():
    y = X.flip(0) * 2
    p, q = sigmoid(X), sigmoid(y)
    want = p * (q + (1 - q) * (2 + y)) + (1 - p) * (3 + y)
    torch.testing.assert_close(late(X, y), want)


# -- only what changes is blended


@gendr.relax
def leaves_alone(x, note):
    temporary = 1.0
    if x > 0:
        temporary = "text"
        changed = x
        note = note
    else:
        temporary = 3  # noqa: F841
        changed = -x
    return changed, note


def test_dead_and_equal_variables_are_not_blended():
    changed, note = leaves_alone(X, {"a": "b"})
    p = sigmoid(X)
    torch.testing.assert_close(changed, p * X - (1 - p) * X)
    assert note == {"a": "b"}
    assert "temporary = relaxed.cond" not in leaves_alone.source


@gendr.relax
def set_in_a_loop(x, n):
    for i in range(n):
        last = x + i
    if x > 0:
        last = 0.0
    return last


def test_a_variable_that_a_loop_may_set():
    torch.testing.assert_close(set_in_a_loop(X, 3), (1 - sigmoid(X)) * (X + 2))
    with pytest.raises(UnboundLocalError, match="last has no value"):
        set_in_a_loop(X, 0)


# -- plain Python


@gendr.relax
def with_everything_plain(n, words=("a", "b"), *, start=0):
    total = start
    for i, word in enumerate(words):
        if word == "b" and i > 0:
            total += n // 2
        elif word is None:
            total = -1
    squares = [v * v for v in range(n) if v % 2 == 0]
    pairs = {"sum": sum(squares), "some": any(v > 3 for v in squares)}
    return total + pairs["sum"], pairs["some"], 0 < n <= 5, 3 in squares, n if n else None


def test_plain_numbers_run_as_in_python():
    want = with_everything_plain.function(5)
    assert with_everything_plain(5) == want == (22, True, True, False, 5)
    assert with_everything_plain.hard(5, start=1)[0] == 23
    assert with_everything_plain(5, ("a",), start=torch.tensor(1.5))[0].item() == 21.5


def make(offset):
    def scaled(x, factor=2.0):
        return x * factor + offset if x > offset else offset

    return gendr.relax(scaled), lambda v: v


def test_closures_and_defaults():
    program, _ = make(0.5)
    p = sigmoid(X - 0.5)
    torch.testing.assert_close(program(X), p * (X * 2 + 0.5) + (1 - p) * 0.5)
    torch.testing.assert_close(program(X, factor=0.0), torch.full_like(X, 0.5))
    threshold = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    program, _ = make(threshold)
    program(X).sum().backward()
    assert threshold.grad.isfinite()


def test_a_closure_is_seen_as_it_is_at_the_call():
    limit = 0.0

    @gendr.relax
    def above(x):
        return x > limit

    first = above(X)
    limit = 1.0
    torch.testing.assert_close(first, sigmoid(X))
    torch.testing.assert_close(above(X), sigmoid(X - 1))


@gendr.relax
def inner_functions(x):
    def step(v, size=0.5):
        if v > size:
            return v - size
        return v

    double = lambda v: 2 * v if v < 1 else v  # noqa: E731
    return step(double(x)), step(x, 0.1)


def test_functions_inside_are_relaxed():
    p = sigmoid(1 - X)
    v = p * 2 * X + (1 - p) * X
    q = sigmoid(v - 0.5)
    got, other = inner_functions(X)
    torch.testing.assert_close(got, q * (v - 0.5) + (1 - q) * v)
    q = sigmoid(X - 0.1)
    torch.testing.assert_close(other, q * (X - 0.1) + (1 - q) * X)


def helper(x, low):
    if x < low:
        return low
    return x


@gendr.relax
def uses_a_helper(x):
    return helper(x, 0.0) + math.exp(math.sqrt(abs(low_part(x)))) + torch.exp(x) + x.cos()


@gendr.relax
def low_part(x):
    return min(x, 0.0)


def test_helpers_and_programs_are_called():
    p = sigmoid(-X)
    low = p * X
    size = low * (2 * sigmoid(low) - 1)
    want = (1 - p) * X + size.sqrt().exp() + X.exp() + X.cos()
    torch.testing.assert_close(uses_a_helper(X), want)
    hard = [
        max(v, 0) + math.exp(math.sqrt(-min(v, 0))) + math.exp(v) + math.cos(v) for v in X.tolist()
    ]
    torch.testing.assert_close(
        uses_a_helper(X, scale=1e-9), torch.tensor(hard, dtype=torch.float64)
    )


@gendr.relax
def softened(x):
    return helper(x, 0.0) + low_part(x, scale=3.0)


def test_a_called_program_may_have_its_own_scale():
    p = sigmoid(-X, 0.1)
    want = (1 - p) * X + sigmoid(-X, 3.0) * X
    torch.testing.assert_close(softened(X, scale=0.1), want)

    hard = [max(v, 0.0) + min(v, 0.0) for v in X.tolist()]
    assert softened.hard(X).tolist() == hard  # a hard run has no use for the scale
    assert [softened.hard(v) for v in X.tolist()] == hard


def test_functions_of_installed_packages_run_as_they_are(tmp_path, monkeypatch):
    """Except for those of the package of the program itself."""
    for name in ("theirs", "ours"):
        package = tmp_path / "site-packages" / name
        package.mkdir(parents=True)
        # What cannot be relaxed, and what is wrong unless it is.
        (package / "__init__.py").write_text(
            "def guarded(x):\n    try:\n        return x + 1\n    finally:\n        pass\n\n\n"
            "def sign(x):\n    return 1.0 if x > 0 else -1.0\n"
        )
    (tmp_path / "site-packages" / "ours" / "programs.py").write_text(
        "import gendr, ours\n\n\n@gendr.relax\ndef program(x):\n    return ours.sign(x)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    import theirs  # pyright: ignore[reportMissingImports]
    from ours.programs import program  # pyright: ignore[reportMissingImports]

    @gendr.relax
    def outer(x):
        return theirs.guarded(x) + statistics.mean([1.0, 3.0])

    torch.testing.assert_close(outer(X), X + 3)
    torch.testing.assert_close(program(X), 2 * sigmoid(X) - 1)


@gendr.relax(scale=0.3, dist="cauchy")
def with_own_defaults(x):
    return x > 0


def test_the_decorator_sets_defaults():
    dist = gendr.distributions.get("cauchy")
    torch.testing.assert_close(with_own_defaults(X), dist(X, 0.3))
    torch.testing.assert_close(with_own_defaults(X, scale=2.0), dist(X, 2.0))
    torch.testing.assert_close(with_own_defaults(X, dist="logistic"), sigmoid(X, 0.3))
    with pytest.raises(ValueError, match="scale must be > 0"):
        gendr.relax(scale=-1.0)(helper)


@gendr.relax
def chained(x, calls):
    return 0.0 < x + 0.25 <= helper(x, 0.5) < 2.0


def test_chained_comparisons_evaluate_each_part_once():
    p = sigmoid(0.5 - X)
    h = p * 0.5 + (1 - p) * X
    want = sigmoid(X + 0.25) * sigmoid(h - X - 0.25) * sigmoid(2 - h)
    torch.testing.assert_close(chained(X, []), want)
    assert chained.source.count("helper") == 1


@gendr.relax
def in_place(x, i):
    x[i] += 1.0
    x[i] *= 2.0
    first, *rest = x
    x[0], x[-1] = x[-1], first
    y = x
    y[1] = 0.0
    return x, y, rest


def test_assignments_to_cells():
    x = torch.rand(4, 3, dtype=torch.float64)
    new, other, rest = in_place(x, 2)
    want = torch.stack([(x[:, 2] + 1) * 2, x[:, 1], x[:, 0]], -1)
    torch.testing.assert_close(new, want)
    torch.testing.assert_close(other, want * torch.tensor([1, 0, 1]))  # arrays are values
    torch.testing.assert_close(torch.stack(rest, -1), torch.stack([x[:, 1], want[:, 0]], -1))
    torch.testing.assert_close(counted_once(x), x + torch.tensor([0, 1, 0]))
    assert counted_once.source.count("floor") == 1


@gendr.relax
def counted_once(x):
    x[math.floor(1.5)] += 1.0
    return x


@gendr.relax
def fibonacci(n):
    a, b, k = 0.0, 1.0, 0
    while k < n:
        a, b = b, a + b
        k += 1
    return a


def test_what_only_the_next_iteration_reads():
    n = torch.tensor([0.5, 5.5])
    assert fibonacci(n, dist="heaviside").tolist() == fibonacci.hard(n).tolist() == [1.0, 8.0]


@gendr.relax
def on_a_list(x, i):
    cells = [0.0] * 3
    rows = [[1.0, 2.0], [3.0, 4.0]]
    cells[i] = x
    rows[1][0] = x
    return cells, rows, cells[i], rows[1][i]


def test_lists_are_arrays_where_it_matters():
    cells, rows, back, corner = on_a_list(X, torch.tensor(1.0, dtype=torch.float64), scale=1e-3)
    torch.testing.assert_close(cells, torch.nn.functional.pad(X[:, None], (1, 1)))
    assert rows.shape == (9, 2, 2)
    torch.testing.assert_close(back, X)
    torch.testing.assert_close(corner, torch.full_like(X, 4.0))


# -- arguments and results


@gendr.relax
def many_kinds(a, v: Vector, m: Matrix, c: Category, w: Categories):
    return a + v[0] + m[0, 1] + m[1][0], v, c, w[1] == c, [a], {"k": 1}


def test_arguments_of_every_kind_over_a_batch():
    shapes = [(4, 1), (3, 2), (2, 2), (3, 5), (4, 3, 2, 5)]
    a, v, m, c, w = (torch.rand(*s, dtype=torch.float64) for s in shapes)
    total, same, classes, equal, listed, dictionary = many_kinds(a, v, m, c, w)
    torch.testing.assert_close(total, a + v[:, 0] + m[0, 1] + m[1, 0])
    assert same.shape == (4, 3, 2)
    assert classes.shape == (4, 3, 5)
    cosine = torch.nn.functional.cosine_similarity(w[..., 1, :], c, dim=-1)
    torch.testing.assert_close(equal, cosine)
    assert listed[0].shape == dictionary["k"].shape == (4, 3)
    assert many_kinds.forms == dict(
        a="Scalar", v="Vector", m="Matrix", c="Category", w="Categories"
    )
    assert repr(many_kinds).startswith("<relaxed program many_kinds(a: Scalar, v: Vector")


@gendr.relax
def forms_by_use(a, b, c, d, e: Scalar, f: "Matrix"):
    rows, columns = d.shape
    for _ in b:
        a = a + len(c) + rows + columns + f[0][0]
    return a + e


def test_the_form_of_an_argument_is_read_off_its_use():
    assert list(forms_by_use.forms.values()) == [
        "Scalar", "Vector", "Vector", "Matrix", "Scalar", "Matrix",
    ]  # fmt: skip


def test_arguments_are_checked():
    v, m = torch.rand(3), torch.rand(2, 2)
    good = (torch.tensor(1.0), v, m, torch.rand(5), torch.rand(2, 5))
    for place, value, error, reason in [
        (1, torch.tensor(1.0), ValueError, r"v is a Vector: it must have at least 1 dimensions"),
        (0, torch.tensor(math.nan), ValueError, "a must be finite"),
        (0, torch.tensor(1j), TypeError, "a must be real"),
        (2, torch.rand(7, 2, 2), None, None),
    ]:
        given = [*good[:place], value, *good[place + 1 :]]
        if error:
            with pytest.raises(error, match=reason):
                many_kinds(*given)
    with pytest.raises(ValueError, match="batches that do not fit"):
        many_kinds(torch.rand(4), torch.rand(5, 3), m, *good[3:])
    with pytest.raises(TypeError, match="missing a required argument"):
        many_kinds(1.0)


def test_every_number_of_a_result_covers_the_batch():
    @gendr.relax
    def constant(x):
        return 1.0, zeros(2), len(x)

    one, two, three = constant(torch.rand(4, 2, 3))
    assert (one.shape, two.shape, three.shape) == ((4, 2), (4, 2, 2), (4, 2))
    assert three.dtype == torch.float32


def test_lists_and_numpy_arrays_are_arguments():
    @gendr.relax
    def smallest(x):
        k = 0
        for i in range(1, len(x)):
            if x[i] < x[k]:
                k = i
        return x[k]

    assert smallest([3.0, 1.0, 2.0]) == 1.0
    assert smallest(np.array([3.0, 1.0, 2.0]), scale=1e-3).item() == pytest.approx(1.0)
    assert smallest.hard(np.array([3.0, 1.0, 2.0])) == 1.0
    cells = [torch.tensor([3.0, 1.0]), 2.0, torch.tensor([2.5, 9.0])]
    torch.testing.assert_close(smallest(cells, scale=1e-3), torch.tensor([2.0, 1.0]))
    torch.testing.assert_close(smallest.hard(cells), torch.tensor([2.0, 1.0]))


def test_the_dtype_stays():
    for dtype in [torch.float32, torch.float64]:
        x = torch.rand(3, 4, dtype=dtype)
        for result in everything(x[:, 0], x[:, 1], x):
            assert result.dtype == dtype


def test_the_arguments_stay_as_they_are():
    @gendr.relax
    def clear(x):
        for i in range(len(x)):
            x[i] = 0.0
        return x

    x, cells = torch.ones(3), [1.0, 2.0]
    clear(x), clear.hard(x), clear(cells), clear.hard(cells)
    assert x.tolist() == [1.0] * 3
    assert cells == [1.0, 2.0]


# -- named decisions


@gendr.relax
def clipped(x, low, high):
    if smooth("floor", x < low):
        return low
    return high if smooth("ceiling", x > high) else x


def test_decisions_with_names_have_their_own_scale_and_distribution():
    assert clipped.decisions == ("floor", "ceiling")
    dist = gendr.distributions.get("cauchy")
    got = clipped(
        X,
        -1.0,
        1.0,
        scale={"floor": 0.2, "default": 0.7},
        dist={"ceiling": "cauchy", "default": "logistic"},
    )
    p, q = sigmoid(-1 - X, 0.2), dist(X - 1, 0.7)
    torch.testing.assert_close(got, -p + (1 - p) * (q + (1 - q) * X))
    assert clipped.hard(3.0, 0.0, 1.0) == 1.0
    with pytest.raises(ValueError, match="unknown decision in scale 'flor'"):
        clipped(X, 0.0, 1.0, scale={"flor": 0.2, "default": 1.0})
    with pytest.raises(ValueError, match="no entry for the decision 'ceiling'"):
        clipped(X, 0.0, 1.0, scale={"floor": 0.2})


@gendr.relax
def picked(x: Vector, i):
    return x[smooth("place", i)]


def test_an_index_with_a_name_has_its_own_scale():
    x, i = torch.tensor([1.0, 5.0, 2.0, 9.0], dtype=torch.float64), torch.tensor(1.4).double()
    assert picked.decisions == ("place",)
    for scale, want in ((0.5, 3.760), ({"place": 0.5}, 3.760), ({"place": 2.0}, 4.176)):
        assert picked(x, i, scale=scale).item() == pytest.approx(want, abs=1e-3)


def test_scales_are_learnable_one_by_one():
    floor = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
    ceiling = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)

    def run(x, a, b):
        return clipped(x, -1.0, 1.0, scale={"floor": a, "ceiling": b})

    x = X.clone().requires_grad_()
    assert torch.autograd.gradcheck(run, (x, floor, ceiling))
    assert torch.autograd.grad(run(X, floor, ceiling).sum(), floor)[0].abs() > 1e-3


def test_a_scale_per_item_of_the_batch():
    x, y = torch.randn(2, 2, 3, dtype=torch.float64)
    table, scale = torch.randn(2, 3, 5, dtype=torch.float64), torch.rand(2, 3).double() + 0.1
    got = everything(x, y, table, scale=scale, tolerance=0)
    for k in itertools.product(range(2), range(3)):
        one = everything(x[k], y[k], table[k], scale=scale[k].item(), tolerance=0)
        for a, b in zip(got, one, strict=True):
            torch.testing.assert_close(a[k], b)


# -- batches, errors, habits


def test_programs_keep_name_and_docstring():
    @functools.wraps(helper)
    def documented(x):
        return x

    @gendr.relax
    def own(x):
        """What it does."""
        return x > 0

    assert (own.__name__, own.__doc__) == ("own", "What it does.")
    assert "What it does." in own.source
    assert list(inspect.signature(own).parameters) == ["x"]
    with pytest.raises(TypeError, match="below other decorators"):
        gendr.relax(documented)


class Pair(NamedTuple):
    place: object
    speed: object


TABLE = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)


@gendr.relax
def odds_and_ends(x):
    state = Pair(0.0, 1.0)
    backwards = x[::-1]
    if backwards[0] > 0:
        state = Pair(backwards[0], state.speed)
    table = relaxed.array(TABLE)
    total = 0.0
    for value in table:
        total += value * TABLE[1]
    x[::2] = 0.0
    return state, backwards, x, total, x[1:]


def test_slices_named_tuples_and_tables_from_outside():
    x = torch.rand(4, 3, dtype=torch.float64)
    state, backwards, zeroed, total, rest = odds_and_ends(x)
    torch.testing.assert_close(state.place, sigmoid(x[:, 2]) * x[:, 2])
    assert state.speed.tolist() == [1.0] * 4
    torch.testing.assert_close(backwards, x.flip(-1))
    torch.testing.assert_close(zeroed, x * torch.tensor([0, 1, 0]))
    torch.testing.assert_close(rest, zeroed[:, 1:])
    assert total.tolist() == [14.0] * 4


class Clip(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.limit = torch.nn.Parameter(torch.tensor(0.5, dtype=torch.float64))
        self.net = torch.nn.Linear(1, 1, dtype=torch.float64)

    def clip(self, x):
        if x < self.limit:
            return self.limit
        return x

    @gendr.relax
    def forward(self, x):
        return self.clip(x) if x > 0 else self.net(x[..., None])[..., 0]


def test_methods_and_networks_inside():
    model = Clip()
    p, q = sigmoid(X), sigmoid(0.5 - X)
    net = model.net(X[:, None])[:, 0]
    want = p * (q * 0.5 + (1 - q) * X) + (1 - p) * net
    torch.testing.assert_close(model(X), want)
    model(X).sum().backward()
    assert model.limit.grad.abs() > 0
    assert Clip.forward.hard(model, 0.2).item() == 0.5


def test_a_recursion_without_end_says_so():
    @gendr.relax
    def onwards(x):
        if x > 0:
            return onwards(x + 1)
        return x

    with pytest.raises(RecursionError, match="by max_iterations, or use `while`"):
        onwards(torch.tensor(4.0))


def helper_with_noise(x):
    return x if x > 0 else -x


def test_settings_of_inner_calls_reach_programs_only():
    """Hard, a function of the user's is called without them."""

    @gendr.relax
    def outer(x):
        return helper_with_noise(x, scale=0.1) + sequential(x, scale=0.2, dist="cauchy")

    assert outer.hard(-2.0) == 2.0
    assert outer.hard(X).tolist() == [abs(x) + (2.0 if x > 0 else 0.0) for x in X.tolist()]
    with relaxed.smoothing(scale=0.1):
        want = X * (2 * sigmoid(X, 0.1) - 1)
    torch.testing.assert_close(outer(X), want + sequential(X, scale=0.2, dist="cauchy"))


def test_foreign_functions_run_as_they_are(tmp_path):
    """Also those of a Python that is reached by a link; what they say comes with the reason."""

    @gendr.relax
    def mean(x):
        return statistics.mean([x, 2.0, 3.0])

    assert mean.hard(1.0) == 2.0
    with pytest.raises(TypeError, match=r"statistics.mean is of another package, .* got a relaxed"):
        mean(torch.tensor(1.0))
    link = tmp_path / "python"
    link.symlink_to(Path(statistics.__file__).parent)
    spec = spec_from_file_location("linked", link / "statistics.py")
    linked = module_from_spec(spec)
    spec.loader.exec_module(linked)

    @gendr.relax
    def again(x):
        return linked.mean([x, 2.0, 3.0])

    with pytest.raises(TypeError, match=r"linked.mean is of another package"):
        again(torch.tensor(1.0))


def test_bits_and_hard_choices_say_what_to_write():
    @gendr.relax
    def bits(x, n, kind):
        if kind == "and":
            return 1.0 if (x > 0) & (x < 1) else 0.0
        if kind == "or":
            return 1.0 if (x > 0) | (x < 1) else 0.0
        if kind == "not":
            return 1.0 if ~(x > 0) else 0.0
        if kind == "where":
            return torch.where(x > 0, x, 0.0)
        if kind == "logical_and":
            return 1.0 if torch.logical_and(x > 0, x < 1) else 0.0
        if kind == "logical_not":
            return 1.0 if torch.logical_not(x > 0) else 0.0
        return torch.where(n > 2, x, 0.0) + (5 & 4 | 1) + ~3

    x, n = torch.tensor(0.5), torch.tensor(3)
    for kind, word in [
        ("and", "`and`"), ("or", "`or`"), ("not", "`not`"), ("where", "a if c"),
        ("logical_and", "`and`"), ("logical_not", "`not`"),
    ]:  # fmt: skip
        with pytest.raises(TypeError, match=word):
            bits(x, n, kind)
    assert gendr.relax(lambda_free)(x, n > 2).item() == 0.5 + 5 - 4


def lambda_free(x, flag):
    return torch.where(torch.logical_not(~flag), x, 0.0) + (5 & 4 | 1) + ~3


def test_whole_numbers_of_a_list_are_places():
    @gendr.relax
    def picked(x, places):
        return x[places[1]]

    @gendr.relax
    def changed(x, counts):
        counts[0] = counts[0] / 2
        return x[0] * counts[0]

    x = torch.tensor([1.0, 2.0, 3.0])
    assert picked.hard(x, [0, 2]) == 3.0
    assert changed.hard(x, [1, 2]) == 0.5


def test_a_result_without_a_value():
    @gendr.relax
    def forgets(x, flag):
        if flag:
            y = x
        return y

    assert forgets(torch.tensor(2.0), True).item() == 2.0
    with pytest.raises(UnboundLocalError, match="y has no value, but is returned"):
        forgets(torch.tensor(2.0), False)


@gendr.relax
def fills_a_dict(x):
    found = {"count": 0, "sum": 0.0}
    if x > 0:
        found["count"] += 1
        found["sum"] = x
    return found


def test_a_dict_is_blended_entry_by_entry():
    found = fills_a_dict(X)
    torch.testing.assert_close(found["count"], sigmoid(X))
    torch.testing.assert_close(found["sum"], sigmoid(X) * X)
    assert fills_a_dict.hard(2.0) == {"count": 1, "sum": 2.0}


@gendr.relax
def steps_and_halvings(x):
    steps, swapped = 0, True
    while steps < 5:
        steps += 1
    while swapped:
        x = x / 2
        swapped = x > 1
        steps += 1
    return steps


def test_the_bound_is_one_of_relaxed_loops():
    x = torch.tensor([3.0, 100.0])
    assert steps_and_halvings(x, scale=1e-3, max_iterations=3).tolist() == [7.0, 8.0]
    assert steps_and_halvings(x, scale=1e-3).tolist() == [7.0, 12.0]


def test_an_empty_batch():
    assert steps_and_halvings(torch.zeros(0, 2)).shape == (0, 2)
    assert everything(torch.zeros(0), torch.zeros(0), torch.zeros(0, 5))[3].shape == (0, 5)
    with pytest.raises(ValueError, match="the batch is empty"):
        steps_and_halvings.hard(torch.zeros(0))


@gendr.relax
def turned(x, y):
    return (y if x > 0 else -y), clipped(x, -1.0, 1.0)


def test_batches_with_fewer_dimensions_broadcast_from_the_right():
    x, y = X[:3], torch.rand(4, 3, dtype=torch.float64)
    got, clip = turned(x, y)
    torch.testing.assert_close(got, (2 * sigmoid(x) - 1) * y)
    assert clip.shape == (4, 3)


def test_names_of_decisions_in_called_programs():
    assert turned.decisions == ()
    got = turned(X, 0.0, scale={"floor": 0.1, "ceiling": 0.3, "default": 1.0})[1]
    torch.testing.assert_close(got, clipped(X, -1.0, 1.0, scale={"floor": 0.1, "ceiling": 0.3}))
