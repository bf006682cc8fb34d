"""Values: the published forms, the axioms, identities between families, duality, dtypes."""

import itertools

import pytest
import torch
from mpmath import mp

from gendr import tnorms
from gendr.tnorms import Along, Segments, as_tconorm, tconorm, tnorm
from support.cases import for_each
from support.tconorms import (
    ARCHIMEDEAN,
    EVERY,
    ORACLES,
    PARAMETRIC,
    TCONORMS,
    folded,
    is_nilpotent,
)


def close(actual, expected, tolerance=1e-12):
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)


def uniform(*shape):
    return torch.rand(*shape, dtype=torch.float64)


def test_every_family_has_an_oracle():
    assert set(ORACLES) == set(tnorms.names()) - {"average"}
    assert {t.name for t in TCONORMS} == set(ORACLES)
    assert {t.name for t in PARAMETRIC} == {n for n, o in ORACLES.items() if o.generator}
    assert {*map(str, tnorms.benchmark_tconorms())} <= {*map(str, TCONORMS)}


@for_each(t=TCONORMS)
def test_reduce_is_the_fold_of_the_published_form(t):
    values = uniform(40, 5)
    values[:20] **= 4  # many small values, so that the nilpotent family is not always at 1
    values[20:25] = 1 - values[20:25] ** 8
    edges = torch.tensor(list(itertools.product((0.0, 0.3, 1.0), repeat=3)), dtype=torch.float64)
    values = torch.cat([values, torch.nn.functional.pad(edges, (0, 2))])
    with mp.workdps(60):
        expected = torch.tensor(
            [float(folded(t, row)) for row in values.tolist()], dtype=torch.float64
        )
    close(t.reduce(values), expected)
    close(t.reduce(values.T, dim=0), expected)
    a, b = values[:, 0], values[:, 1]
    close(t(a, b), t.reduce(values[:, :2]))
    assert bool((t(a, b) >= torch.maximum(a, b) - 1e-12).all())
    assert bool((t(a, b) <= 1).all())
    c = values[:, 2]
    close(t(t(a, b), c), t(a, t(b, c)))
    assert bool((t(torch.maximum(a, c), b) >= t(torch.minimum(a, c), b) - 1e-12).all())


# Families that sum up powers, with powers that no float64 holds.
STEEP = [tconorm(name, p=p) for name, p in (
    ("dombi", 200), ("yager", 200), ("aczel_alsina", 200), ("joe", 200), ("schweizer_sklar", -200)
)]  # fmt: skip


@for_each(t=STEEP)
def test_no_power_leaves_the_range(t):
    values = torch.tensor([[0.001, 0.02, 0.0199], [0.5, 0.97, 0.9701]], dtype=torch.float64)
    with mp.workdps(900):
        expected = [float(folded(t, row)) for row in values.tolist()]
    close(t.reduce(values), torch.tensor(expected, dtype=torch.float64))


@for_each(t=TCONORMS, rotating=2)
def test_both_ends_keep_their_digits(t):
    # Small totals relative to themselves; and S = 1 - A near A = 1.
    small = uniform(20, 3) * 10.0 ** torch.arange(-20, 0, dtype=torch.float64)[:, None]
    x = torch.linspace(0, 60, 20, dtype=torch.float64)[:, None] + torch.randn(20, 3).double()
    a, s = torch.sigmoid(x), torch.sigmoid(-x)
    A, S = t.aggregate(a, s, Along(-1))
    with mp.workdps(400):
        exact = [float(folded(t, row)) for row in small.tolist()]
        tops = [[1 / (1 + mp.exp(-v)) for v in row] for row in x.tolist()]
        complements = [float(1 - folded(t, row)) for row in tops]
    expected = torch.tensor([exact, complements], dtype=torch.float64)
    torch.testing.assert_close(t.reduce(small), expected[0], rtol=1e-11, atol=0)
    # The nilpotent family reaches 1 exactly, so near it S is only as fine as A.
    rtol, atol = (0, 1e-15) if is_nilpotent(t) else (1e-10, 1e-300)
    torch.testing.assert_close(S, expected[1], rtol=rtol, atol=atol)
    close(A + S, torch.ones_like(A), 1e-15)


def test_one_family_is_the_product():
    a, b = uniform(2, 100)
    for t in TCONORMS:
        if isinstance(t, tnorms.Parametric):
            assert not t.is_product  # some members are, but by formulas of their own
        else:
            assert t.is_product == torch.allclose(t(a, b), a + b - a * b), t
    assert tconorm("probabilistic").is_product


def test_average_is_the_mean_and_no_tconorm():
    values = uniform(7, 4)
    t = tconorm("average")
    close(t.reduce(values), values.mean(-1))
    close(t.dual.reduce(values), values.mean(-1))
    assert t.kind == "mean"


@for_each(
    "one, other, tolerance",
    [
        ("hamacher(1)", "probabilistic", 1e-12),
        ("hamacher(2)", "einstein", 1e-12),
        ("aczel_alsina(1)", "probabilistic", 1e-12),
        ("schweizer_sklar(-1)", "dombi(1)", 1e-12),
        (f"frank({1 - 1e-7})", "probabilistic", 1e-7),
        (f"frank({1 + 1e-7})", "probabilistic", 1e-7),
    ],
)
def test_families_meet(one, other, tolerance):
    values = uniform(200, 4)
    close(as_tconorm(one).reduce(values), as_tconorm(other).reduce(values), tolerance)


@for_each(t=TCONORMS)
def test_tnorm_is_the_dual(t):
    a, b = uniform(2, 300)
    close(t.dual(a, b), 1 - t(1 - a, 1 - b))
    close(t.dual.reduce(torch.stack([a, b]), dim=0), t.dual(a, b))
    assert t.dual.dual is t
    assert t.dual.name == t.name
    close(t.dual(a, torch.ones_like(a)), a)


def test_a_tnorm_keeps_the_digits_of_small_numbers():
    small = torch.tensor([1e-20, 1e-30], dtype=torch.float64)
    assert tnorm("probabilistic").reduce(small).item() == pytest.approx(1e-50, rel=1e-12)


@for_each(t=EVERY)
def test_shapes_dtypes_and_numbers(t):
    assert t(torch.rand(3, 1), torch.rand(4)).shape == (3, 4)
    assert t.reduce(torch.rand(2, 3, 4), dim=1).shape == (2, 4)
    assert t(0.25, torch.rand(2, dtype=torch.float64)).dtype == torch.float64
    assert t(torch.rand(2).half(), 0.5).dtype == torch.float16
    assert t(1, 0).dtype == torch.get_default_dtype()
    assert float(t(0.0, 0.0)) == 0
    assert float(t(1.0, 1.0)) == 1
    alone = uniform(9, 1)
    close(t.reduce(alone), alone[:, 0])
    close(t.dual.reduce(alone), alone[:, 0])


@for_each(t=EVERY)
def test_empty_groups(t):
    none = torch.zeros(3, 0)
    A, S = t.aggregate(none, none, Along(-1))
    assert A.tolist() == [0, 0, 0]
    assert S.tolist() == [1, 1, 1]
    group = Segments(torch.tensor([1, 1]), 3)
    A, S = t.aggregate(torch.tensor([0.25, 0.5]), torch.tensor([0.75, 0.5]), group)
    assert A[[0, 2]].tolist() == [0, 0]
    assert S[[0, 2]].tolist() == [1, 1]
    assert float(t.reduce(torch.zeros(0))) == 0
    assert float(t.dual.reduce(torch.zeros(0))) == 1


@for_each(t=ARCHIMEDEAN)
def test_inverse_undoes_the_generator(t):
    x = torch.linspace(-30, 30, 100, dtype=torch.float64)
    if t.p is not None and abs(t.p) > 4:
        x = x / 10  # the plain sum has the range of float64 only; the fold has no such limit
    a, s = torch.sigmoid(x), torch.sigmoid(-x)
    A, S = t.inverse(t.generator(a, s))
    nilpotent = is_nilpotent(t)
    rtol = 1e-11 * max(1, 1 / abs(t.p or 1))
    torch.testing.assert_close(A, a, rtol=rtol, atol=0)
    torch.testing.assert_close(S, s, rtol=0 if nilpotent else rtol, atol=1e-15 if nilpotent else 0)
    ends = torch.tensor([0.0, torch.inf], dtype=torch.float64)
    A, S = t.inverse(ends)
    assert A.tolist() == [0, 1]
    assert S.tolist() == [1, 0]


@for_each(t=TCONORMS)
def test_nan_is_never_a_number(t):
    lost, a = torch.tensor(torch.nan, dtype=torch.float64), uniform(3)
    for norm in (t, t.dual):
        assert norm(lost, a).isnan().all()
        assert norm(a, lost).isnan().all()
    values = torch.stack([a, torch.stack([a[0], lost, a[2]])])
    assert t.reduce(values, -1).isnan().tolist() == [False, True]
