"""The functional form: each construct against its formula, its gradient, and its hard limit."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from gendr import distributions, relaxed, tnorms
from gendr.relaxed import Array, Categorical, smoothing
from support.cases import for_each

SYMMETRIC = ["logistic", "gaussian", "cauchy", "laplace", "student_t(shape=3)"]


def numbers(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


# -- comparisons


def test_order_is_the_cdf_of_the_difference():
    for dist in ["logistic", "gumbel_max", "levy", "cauchy.squared", "uniform"]:
        a, b = numbers(6), numbers(6, seed=1)
        distribution = distributions.get(dist)
        with smoothing(scale=0.3, dist=dist):
            for op, d in [
                (relaxed.less, b - a),
                (relaxed.less_equal, b - a),
                (relaxed.greater, a - b),
                (relaxed.greater_equal, a - b),
            ]:
                torch.testing.assert_close(op(a, b), distribution(d, 0.3))


def test_equality_is_the_density_over_its_peak():
    for dist in [*SYMMETRIC, "wigner_semicircle", "gumbel_max"]:
        distribution = distributions.get(dist)
        z = torch.linspace(-3, 3, 7, dtype=torch.float64)
        with smoothing(scale=0.5, dist=dist):
            got = relaxed.equal(z * 0.5, 0.0)
            torch.testing.assert_close(got, distribution.pdf(z) / distribution.pdf(0.0))
            torch.testing.assert_close(relaxed.not_equal(z * 0.5, 0.0), 1 - got)


def test_logistic_equality_is_sech_squared_and_finite_far_away():
    z = torch.tensor([0.0, 1.0, -4.0, 1e4, -1e300], dtype=torch.float64, requires_grad=True)
    got = relaxed.equal(z, 0.0)
    want = [1 / math.cosh(x / 2) ** 2 if abs(x) < 700 else 0.0 for x in z.tolist()]
    torch.testing.assert_close(got, torch.tensor(want, dtype=torch.float64))
    (slope,) = torch.autograd.grad(got.sum(), z)
    assert slope.isfinite().all()


def test_equality_needs_a_peak_at_zero():
    for dist in ["levy", "gamma(shape=2)", "logistic.squared", "logistic.art(0.3)"]:
        with smoothing(dist=dist), pytest.raises(ValueError, match="peaks at 0"):
            relaxed.equal(torch.tensor(1.0), 0.0)


def test_plain_values_are_compared_as_python_does():
    assert relaxed.less(1, 2) is True
    assert relaxed.equal("a", "a") is True
    assert relaxed.contains([1, 2], 3) is False
    assert relaxed.equal(torch.tensor(1.0), "a") is False
    whole = relaxed.greater(torch.tensor([1, 2, 3]), 2)
    assert whole.tolist() == [0.0, 0.0, 1.0]


def test_infinity_is_beyond_every_relaxed_number():
    x = torch.tensor(1.0)
    assert relaxed.less(x, math.inf) is True
    assert relaxed.greater(x, math.inf) is False
    assert relaxed.less(-math.inf, x) is True
    assert relaxed.equal(x, math.inf) is False


def test_heaviside_decides_as_python_does():
    a = torch.tensor([1.0, 2.0, 3.0])
    with smoothing(dist="heaviside"):
        for op, want in [
            (relaxed.less, [1, 0, 0]),
            (relaxed.less_equal, [1, 1, 0]),
            (relaxed.greater, [0, 0, 1]),
            (relaxed.greater_equal, [0, 1, 1]),
            (relaxed.equal, [0, 1, 0]),
            (relaxed.not_equal, [1, 0, 1]),
        ]:
            assert op(a, 2.0).tolist() == want


def test_classes_are_compared_by_cosine():
    a = torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64, requires_grad=True)
    got = relaxed.equal(Categorical(a), Categorical(b))
    torch.testing.assert_close(got, torch.nn.functional.cosine_similarity(a, b, dim=0))
    assert relaxed.equal(Categorical(a), Categorical(a)).item() == pytest.approx(1)
    assert relaxed.equal(Categorical(b), 2).item() == pytest.approx(0.5 / 0.38**0.5)
    assert gradcheck(lambda a, b: relaxed.equal(Categorical(a), Categorical(b)), (a, b))


# -- logic


def test_logic_is_a_tnorm_and_its_dual():
    for name in ["probabilistic", "einstein", "yager(p=2)", "hamacher(p=0.5)", "max"]:
        p, q = torch.rand(2, 5, dtype=torch.float64)
        with smoothing(tconorm=name):
            torch.testing.assert_close(relaxed.and_(p, q), tnorms.tnorm(name)(p, q))
            torch.testing.assert_close(relaxed.or_(p, q), tnorms.tconorm(name)(p, q))
            torch.testing.assert_close(
                relaxed.not_(relaxed.and_(p, q)), relaxed.or_(relaxed.not_(p), relaxed.not_(q))
            )
            torch.testing.assert_close(
                relaxed.all([p, True, q]), tnorms.tnorm(name).reduce(torch.stack([p, q]), 0)
            )
            torch.testing.assert_close(
                relaxed.any([p, False, q]), tnorms.tconorm(name).reduce(torch.stack([p, q]), 0)
            )


def test_logic_stops_where_python_does():
    p = torch.tensor(0.3)

    def never():
        raise AssertionError("evaluated")

    assert relaxed.and_(False, never) is False
    assert relaxed.or_(True, never) is True
    assert relaxed.and_(True, lambda: p) is p
    assert relaxed.and_(p, lambda: False) is False
    assert relaxed.or_(p, lambda: True) is True
    assert relaxed.and_(p, lambda: True) is p
    assert relaxed.or_(0, lambda: "default") == "default"


def test_a_condition_is_a_probability():
    assert relaxed.truth(torch.tensor(0.3)) == pytest.approx(0.3)
    assert relaxed.truth([]) is False
    with pytest.raises(
        ValueError, match=r"probability in \[0, 1\], got a relaxed number in \[3, 3\]"
    ):
        relaxed.truth(torch.tensor(3.0))
    with pytest.raises(TypeError, match="no condition"):
        relaxed.cond(Array.of([torch.tensor(0.5)]), lambda: 1, lambda: 2)


# -- branches


def test_a_branch_is_a_convex_combination():
    p, x, y = torch.rand(3, 4, dtype=torch.float64)
    got = relaxed.cond(p, lambda x, y: (x * 2, y), None, x, y)
    torch.testing.assert_close(got[0], p * x * 2 + (1 - p) * x)
    assert got[1] is y  # what a branch leaves alone is not blended


def test_every_kind_of_value_is_blended():
    for kind in ["number", "tensor", "array", "categorical", "nested"]:
        p = torch.tensor([0.25, 0.5], dtype=torch.float64)
        t = torch.tensor([1.0, 3.0], dtype=torch.float64)
        yes, no, want = {
            "number": (4, 2.0, [2.5, 3.0]),
            "tensor": (t, 2.0, [1.75, 2.5]),
            "array": (Array.of([t, 1.0]), Array.of([0, 1.0]), [[0.25, 1.0], [1.5, 1.0]]),
            "categorical": (2, Categorical.certain(0, 3), [[0.75, 0, 0.25], [0.5, 0, 0.5]]),
            "nested": ({"a": (1, [t])}, {"a": (1, [0])}, [0.25, 1.5]),
        }[kind]
        for a, b, q in [(yes, no, p), (no, yes, 1 - p)]:
            got = relaxed.cond(q, lambda a=a: a, lambda b=b: b)
            got = got["a"][1][0] if kind == "nested" else got
            got = got if isinstance(got, torch.Tensor) else relaxed.dense(got)
            torch.testing.assert_close(got, torch.tensor(want, dtype=torch.float64))


def test_blends_are_exact_at_the_ends():
    for yes, no in [(1e30, 1.0), (0, 7), (0.1, 0.7)]:
        for a, b in itertools.product(
            *((v, torch.tensor(v * 1.0, dtype=torch.float64)) for v in (yes, no))
        ):
            for q, want in [(1.0, yes), (0.0, no)]:
                p = torch.tensor(q, dtype=torch.float64)
                assert float(relaxed.cond(p, lambda a=a: a, lambda b=b: b)) == want


@for_each(plain=[True, False])
def test_infinity_is_left_out_where_its_probability_is_zero(plain):
    x = 1.0 if plain else torch.tensor(1.0)
    for q, want in [(0.0, 1.0), (0.5, math.inf), (1.0, math.inf)]:
        assert float(relaxed.cond(torch.tensor(q), lambda: math.inf, lambda: x)) == want
        assert float(relaxed.cond(torch.tensor(1 - q), lambda: x, lambda: math.inf)) == want


def test_what_cannot_be_blended_says_so():
    p = torch.tensor(0.5)
    with pytest.raises(TypeError, match=r"one branch has str 'a', the other str 'b'"):
        relaxed.cond(p, lambda: "a", lambda: "b")
    with pytest.raises(ValueError, match="shape of a result may not depend"):
        relaxed.cond(p, lambda: [p], lambda: [p, p])
    with pytest.raises(ValueError, match=r"shape \[2\], the other an array of shape \[3\]"):
        relaxed.cond(p, lambda: relaxed.zeros(2), lambda: relaxed.zeros(3))
    assert relaxed.cond(p, lambda: "a", lambda: "a") == "a"


# -- loops


def test_a_loop_is_the_expectation_over_its_length():
    """Thesis (2.12): sum over i of the product of conditions before, times the stop, times s_i."""
    x = torch.tensor([3.0, 5.5], dtype=torch.float64)
    with smoothing(scale=0.8):
        (got,) = relaxed.while_loop(lambda s: relaxed.greater(s, 1.0), lambda s: (s / 2,), (x,))
    want, alive, state = torch.zeros_like(x), torch.ones_like(x), x
    for _ in range(60):
        p = torch.sigmoid((state - 1) / 0.8)
        want = want + alive * (1 - p) * state
        alive, state = alive * p, state / 2
    torch.testing.assert_close(got, want)


def test_a_loop_stops_at_its_bound_with_the_rest_in_the_last_state():
    p = torch.tensor(0.5, dtype=torch.float64)
    with smoothing(max_iterations=3):
        (got,) = relaxed.while_loop(lambda s: p, lambda s: (s + 1,), (0,))
    assert got.item() == pytest.approx(0.5 * 0 + 0.25 * 1 + 0.125 * 2 + 0.125 * 3)
    with pytest.raises(RuntimeError, match="still goes on with a probability of 1 after 1000"):
        relaxed.while_loop(lambda s: torch.tensor(1.0), lambda s: (s,), (p,))


def test_a_plain_loop_is_pythons_and_a_certain_start_costs_no_blend():
    runs = []

    def body(k, x):
        runs.append(k)
        return k + 1, x * 2

    k, x = relaxed.while_loop(lambda k, x: k < 5, body, (0, torch.tensor(1.0)))
    assert (k, x.item(), runs) == (5, 32.0, [0, 1, 2, 3, 4])


# -- choices


def test_extremes_are_softmax_weighted():
    for n in [2, 4]:
        x = numbers(3, n)
        with smoothing(scale=0.4):
            w = torch.softmax(x / 0.4, -1)
            torch.testing.assert_close(relaxed.max(x), (w * x).sum(-1))
            torch.testing.assert_close(relaxed.max(*x.unbind(-1)), (w * x).sum(-1))
            torch.testing.assert_close(relaxed.argmax(x).probabilities, w)
            w = torch.softmax(-x / 0.4, -1)
            torch.testing.assert_close(relaxed.min(Array.dense(x, 1)), (w * x).sum(-1))
            torch.testing.assert_close(relaxed.argmin(list(x.unbind(-1))).probabilities, w)


def test_the_larger_of_two_is_that_of_the_comparison():
    for dist in SYMMETRIC:
        a, b = numbers(5), numbers(5, seed=3)
        with smoothing(scale=0.6, dist=dist):
            p = relaxed.greater(a, b)
            torch.testing.assert_close(relaxed.argmax([a, b]).probabilities[..., 0], p)
            torch.testing.assert_close(relaxed.max(a, b), p * a + (1 - p) * b)
            torch.testing.assert_close(relaxed.min(a, b), p * b + (1 - p) * a)
            assert gradcheck(lambda a, b: relaxed.max(a, b, 0.5), (a, b))


def test_infinity_has_no_part_in_a_minimum():
    x = torch.tensor([2.0], requires_grad=True)
    assert relaxed.min(math.inf, x) is x
    assert relaxed.min(-math.inf, x) == -math.inf
    assert relaxed.min(math.inf, math.inf) == math.inf
    assert relaxed.min(math.inf, x, x + 0.0).item() == 2.0
    choice = relaxed.argmin([math.inf, x, x])
    assert choice.weights.cells[0] == 0.0
    assert relaxed.index([math.inf, x, 4.0], choice).item() == 3.0


def test_choices_among_plain_numbers_are_plain():
    assert relaxed.max(1, 3, 2) == 3
    assert relaxed.argmax([1, 3, 2]) == 1
    assert relaxed.argmin(np.array([4.0, 1.0])) == 1
    assert relaxed.abs(-2) == 2
    assert relaxed.sum([1, 2]) == 3
    with pytest.raises(ValueError, match="of nothing"):
        relaxed.argmax([])


def test_choices_need_a_symmetric_distribution():
    with smoothing(dist="gumbel_max"), pytest.raises(ValueError, match="symmetric"):
        relaxed.max(torch.tensor(1.0), 2.0)


def test_heaviside_chooses_the_extreme_and_the_first_of_ties():
    x = torch.tensor([[1.0, 3.0, 2.0], [2.0, 2.0, 0.0]])
    with smoothing(dist="heaviside"):
        assert relaxed.argmax(x).probabilities.tolist() == [[0, 1, 0], [1, 0, 0]]
        assert relaxed.max(x).tolist() == [3.0, 2.0]


def test_absolute_value_is_its_branch():
    x = numbers(5)
    with smoothing(scale=0.5):
        p = relaxed.greater(x, 0.0)
        torch.testing.assert_close(relaxed.abs(x), p * x - (1 - p) * x)
        torch.testing.assert_close(relaxed.abs(Array.dense(x, 1)).data, relaxed.abs(x))


# -- indexing


def test_a_real_place_is_a_normalised_convolution():
    for dist in ["logistic", "gaussian", "cauchy"]:
        x, i = numbers(5), torch.tensor([0.3, 2.0, 3.9], dtype=torch.float64)
        distribution = distributions.get(dist)
        g = distribution.pdf((torch.arange(5) - i[:, None]) / 0.7)
        with smoothing(scale=0.7, dist=dist):
            torch.testing.assert_close(relaxed.index(x, i), (g * x).sum(-1) / g.sum(-1))


def test_the_published_backward_pass_takes_the_sum_for_a_constant():
    for dist in ["logistic", "gaussian"]:
        x, i = numbers(5), torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
        distribution = distributions.get(dist)
        with smoothing(scale=0.7, dist=dist, normaliser="constant"):
            (slope,) = torch.autograd.grad(relaxed.index(x, i), i)
        g = distribution.pdf((torch.arange(5) - i) / 0.7)
        (want,) = torch.autograd.grad((g * x).sum() / g.sum().detach(), i)
        torch.testing.assert_close(slope, want)


def test_a_real_place_in_two_dimensions_is_a_product():
    x = numbers(2, 3, 4)
    i, j = torch.tensor([0.4, 1.6], dtype=torch.float64), torch.tensor(2.2, dtype=torch.float64)
    with smoothing(scale=0.5):
        rows = [relaxed.index(x[:, k], j) for k in range(3)]
        want = relaxed.index(torch.stack(rows, -1), i)
        torch.testing.assert_close(relaxed.index(x, i, j), want)
        torch.testing.assert_close(relaxed.index(x, i, 2), relaxed.index(x[..., 2], i))
        torch.testing.assert_close(relaxed.index(x, 1, j), relaxed.index(x[:, 1], j))
        row = relaxed.index(Array.dense(x, 2), i)
        torch.testing.assert_close(row.data[:, 1], relaxed.index(x[..., 1], i))


def test_writing_blends_each_cell_with_its_coefficient():
    x = numbers(2, 3, 4)
    i, v = torch.tensor([0.4, 1.6], dtype=torch.float64), numbers(2, seed=5)
    with smoothing(scale=0.5):
        eye = torch.eye(3, dtype=torch.float64)
        w = torch.stack([relaxed.index(eye[k], i) for k in range(3)], -1)
        want = w[..., None] * v[:, None, None] + (1 - w[..., None]) * x
        torch.testing.assert_close(relaxed.write(x, v, i, slice(None).start or 0), _at(x, v, w))
        got = relaxed.write(Array.dense(x, 2), v, i)
        torch.testing.assert_close(got.data, want)
        row = Array.dense(numbers(4, seed=6), 1)
        got = relaxed.write(Array.dense(x, 2), row, i)
        torch.testing.assert_close(got.data, torch.lerp(x, row.data.expand(2, 3, 4), w[..., None]))


def _at(x, v, w):
    new = x.clone()
    new[..., 0] = w * v[:, None] + (1 - w) * x[..., 0]
    return new


def test_a_categorical_place_counts_by_probability():
    x, p = numbers(3), torch.tensor([[0.2, 0.3, 0.5]], dtype=torch.float64)
    choice = Categorical(p)
    torch.testing.assert_close(relaxed.index(x, choice), p @ x)
    torch.testing.assert_close(relaxed.write(x, 1.0, choice), p + (1 - p) * x)
    mixed = relaxed.index([Categorical.certain(1, 4), 2, Categorical.certain(1, 4)], choice)
    assert mixed.probabilities.tolist() == [[0.0, 0.7, 0.3, 0.0]]
    assert choice.expected().item() == pytest.approx(1.3)
    with pytest.raises(IndexError, match="categorical value of 3 classes is no place among 4"):
        relaxed.index(numbers(4), choice)
    with pytest.raises(TypeError, match="no order"):
        _ = choice + 1


def test_a_small_scale_reads_the_nearest_cell():
    for scale, dist in itertools.product(
        [1e-3, 1e-12, 1e-25], ["logistic", "gaussian", "heaviside"]
    ):
        x = torch.tensor([5.0, 6.0, 7.0, 8.0])
        i = torch.tensor([0.2, 1.7, 3.0, 9.0, -4.0])
        with smoothing(scale=scale, dist=dist):
            assert relaxed.index(x, i).tolist() == [5.0, 7.0, 8.0, 8.0, 5.0]


def test_plain_places_are_exact_and_checked():
    x = Array.of([[1, 2, 3], [4, 5, 6]])
    assert relaxed.index(x, 1, -1) == 6
    assert relaxed.index(x, 0).cells == [1, 2, 3]
    assert relaxed.dense(relaxed.index(x, slice(None), 1)).tolist() == [2, 5]
    y = relaxed.write(x, 9, 0, 0)
    assert (x.cells[0], y.cells[0]) == (1, 9)
    assert relaxed.write(x, [7, 8, 9], 1).cells[3:] == [7, 8, 9]
    assert relaxed.write(x, [7, 8], slice(None), 2).cells == [1, 2, 7, 4, 5, 8]
    assert relaxed.index({"a": 3}, "a") == 3
    batch = relaxed.index(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1, 0]))
    assert batch.tolist() == [2.0, 3.0]
    for call, error in [
        (lambda: relaxed.index(x, 2, 0), "index 2 is outside of an array of shape"),
        (lambda: relaxed.index(x, 0, 0, 0), "at most 2 indices, got 3"),
        (lambda: relaxed.write(x, 1, 5, 0), "index 5 is outside"),
        (lambda: relaxed.index(x, 7, torch.tensor(0.5)), "index 7 is outside"),
    ]:
        with pytest.raises(IndexError, match=error):
            call()
    with pytest.raises(ValueError, match="does not fit a part of shape"):
        relaxed.write(x, Array.of([1, 2]), 0)
    with pytest.raises(TypeError, match="slice cannot begin or end at a relaxed number"):
        relaxed.index(x, slice(0, torch.tensor(1.0)))
    with pytest.raises(TypeError, match="no cells to index"):
        relaxed.index(torch.tensor(1.0), 0)


def test_arrays_compute_as_a_whole():
    a = torch.rand(2, 3, dtype=torch.float64)
    s = torch.rand(2, dtype=torch.float64)
    x = Array.dense(a, 1)
    torch.testing.assert_close((2 * x - s / (1 + x)).data, 2 * a - s[:, None] / (1 + a))
    torch.testing.assert_close((-x).sum(), -a.sum(-1))
    torch.testing.assert_close(relaxed.less(x, s).data, torch.sigmoid(s[:, None] - a))
    torch.testing.assert_close(
        relaxed.all(relaxed.less(x, s)), torch.sigmoid(s[:, None] - a).prod(-1)
    )
    matrix = Array.dense(torch.rand(2, 4, 3, dtype=torch.float64), 2)
    torch.testing.assert_close((matrix + x).data, matrix.data + a[:, None])
    assert relaxed.dense(x + relaxed.array([1, 2, 3])).shape == (2, 3)
    with pytest.raises(TypeError, match="arrays are values"):
        x[0] = 1.0


def test_settings_are_checked():
    for given, error in [
        (dict(scale=0), r"scale must be > 0"),
        (dict(scale=torch.tensor([1.0, -1.0])), r"scale must be > 0, got a tensor with minimum -1"),
        (dict(scale={"a": -1.0}), r"scale\['a'\] must be > 0"),
        (dict(dist="logistik"), "unknown distribution"),
        (dict(tconorm="yage(p=2)"), "unknown T-conorm"),
        (dict(tolerance=2.0), "tolerance must be < 1"),
        (dict(max_iterations=-1), "max_iterations must be >= 0"),
    ]:
        with pytest.raises(ValueError, match=error), smoothing(**given):
            pass
    with smoothing(scale={"a": 1.0}), pytest.raises(ValueError, match="no entry for a decision"):
        relaxed.less(torch.tensor(1.0), 2.0)
