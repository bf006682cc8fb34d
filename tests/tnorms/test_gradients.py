"""Gradients: exact inside, true one-sided ones on the edges, the renderer's rules, never NaN."""

import itertools

import pytest
import torch
from mpmath import mp
from torch.autograd import gradcheck, gradgradcheck

from gendr.distributions import get
from gendr.tnorms import Along, Segments, Yager, tconorm
from support.cases import for_each
from support.tconorms import ARCHIMEDEAN, EVERY, PARAMETRIC, TCONORMS, folded, is_nilpotent

ROW = Along(-1)


def leaf(*values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def coverage(x):
    return torch.sigmoid(x), torch.sigmoid(-x)


def inside(*shape):
    """Values whose total stays below 1 for the nilpotent family as well."""
    return (0.02 + 0.2 * torch.rand(*shape, dtype=torch.float64)).requires_grad_()


def mild(t):
    """Whether finite differences of the usual step can follow the curvature."""
    return abs(getattr(t, "p", None) or 1) >= 0.5 or t.name == "hamacher"


@for_each(rotating=10, t=[t for t in EVERY if mild(t)])
def test_gradcheck(t):
    values = inside(3, 3)
    x = torch.logit(values.detach()).requires_grad_()
    p = (torch.tensor(t.value, dtype=torch.float64, requires_grad=True),) if t in PARAMETRIC else ()

    def with_p(p):
        return t.with_p(*p) if p else t

    assert gradcheck(lambda v, *p: with_p(p).reduce(v), (values, *p))
    assert gradgradcheck(lambda v, *p: with_p(p).reduce(v), (values, *p))
    assert gradcheck(lambda v: t.dual.reduce(1 - v), values)
    assert gradcheck(lambda x, *p: with_p(p).aggregate(*coverage(x), ROW), (x, *p))
    assert gradgradcheck(lambda x: t.aggregate(*coverage(x), ROW), x)


@for_each(t=PARAMETRIC)
def test_slope_in_the_parameter(t):
    values = inside(6).detach()
    p = torch.tensor(t.value, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(t.with_p(p).reduce(values), p)
    with mp.workdps(60):
        expected = mp.diff(lambda p: _fold_at(t, p, values.tolist()), mp.mpf(t.value), h=1e-20)
    torch.testing.assert_close(slope.item(), float(expected), rtol=1e-9, atol=1e-12)


def _fold_at(t, p, values):
    """The published fold at a parameter of mpmath's precision."""

    class Member:
        name = t.name

    Member.p = p
    return folded(Member, values)


def one_sided(t, point, i, h):
    """The derivative of the published form in coordinate i, towards the inside."""
    step = -h if point[i] == 1 else h
    moved = [mp.mpf(v) for v in point]
    moved[i] += step
    return (folded(t, moved) - folded(t, point)) / step


EDGES = [
    *itertools.product((0.0, 0.3, 1.0), repeat=2),
    *((1.0, 0.3, 0.2), (0.0, 0.0, 0.4), (1.0, 1.0, 0.3), (0.0, 0.0, 0.0), (1.0, 0.0, 0.0)),
    *((1.0, 0.9, 0.9), (0.0, 0.3, 0.2), (1.0, 1.0, 1.0)),
]


@for_each(rotating=12, t=TCONORMS, point=EDGES)
def test_true_derivatives_on_the_edges(t, point):
    if t.name == "max" and point == (0.3, 0.3):
        return  # no derivative at a tie; tested by itself
    values = leaf(*point)
    (slopes,) = torch.autograd.grad(t.reduce(values), values)
    (dual,) = torch.autograd.grad(t.dual.reduce(1 - values), values)
    assert bool(torch.isfinite(slopes).all())
    torch.testing.assert_close(-dual, slopes, rtol=1e-12, atol=1e-12)
    # The slope at 1 of Aczel-Alsina converges with the logarithm of the step, that at 0 of others
    # with its power |p|.
    slow = t.name == "aczel_alsina" or abs(getattr(t, "p", None) or 1) < 0.1
    digits = 900 if slow else 200
    with mp.workdps(digits + 100):
        h = mp.mpf(10) ** -digits
        limits = [one_sided(t, point, i, h) for i in range(len(point))]
    expected = [0.0 if abs(limit) > 1e6 else float(limit) for limit in limits]
    torch.testing.assert_close(slopes.tolist(), expected, rtol=0, atol=5e-3)


def test_ties_of_the_maximum_share():
    t = tconorm("max")
    values = leaf(0.3, 0.7, 0.7, 0.1)
    (slopes,) = torch.autograd.grad(t.reduce(values), values)
    assert slopes.tolist() == [0, 0.5, 0.5, 0]
    # Where a rounds to the same number, s still tells who is ahead.
    x = leaf(30.0, 40.0, 40.0, 39.0).detach().float().requires_grad_()
    a, s = coverage(x)
    a.retain_grad()
    t.aggregate(a, s, ROW)[0].backward()
    assert a.grad.tolist() == [0, 0.5, 0.5, 0]
    values = leaf(0.25, 0.25)
    A, S = t.aggregate(values, 1 - values, ROW)
    (slopes,) = torch.autograd.grad(A - 2 * S, values, create_graph=True)
    assert slopes.tolist() == [1.5, 1.5]


@for_each(t=ARCHIMEDEAN)
def test_slopes_keep_their_digits_in_the_tails(t):
    # With respect to x, as the renderer sees them; relative to themselves.
    for point in ((-40.0, -38.0), (-30.0, 2.0), (12.0, 14.0), (33.0, 36.0), (-1.0, 36.0)):
        a, s = coverage(leaf(*point))
        S = t.aggregate(a, s, ROW)[1]
        if is_nilpotent(t) and S == 0:
            continue
        slopes = torch.autograd.grad(-S, a)[0] * a * s  # torch's own slope of sigmoid cancels
        with mp.workdps(300):
            h = mp.mpf(10) ** -100
            base = [1 / (1 + mp.exp(-mp.mpf(v))) for v in point]
            for i in range(2):
                moved = list(base)
                moved[i] = 1 / (1 + mp.exp(-mp.mpf(point[i]) - h))
                expected = float((folded(t, moved) - folded(t, base)) / h)
                torch.testing.assert_close(slopes[i].item(), expected, rtol=1e-9, atol=1e-300)


@for_each(dtype=[torch.float32, torch.float64], t=EVERY)
def test_renderer_rules(t, dtype):
    saturated = t.kind != "mean"
    a = torch.tensor([[0, 0.03, 0.02], [0, 0.3, 1], [0, 0, 0], [1, 1, 0]], dtype=dtype)
    s = 1 - a
    a.requires_grad_()
    A, S = t.aggregate(a, s, ROW)
    (slopes,) = torch.autograd.grad((A - S).sum(), a)
    assert bool((slopes[a == 0] == 0).all())
    if saturated:
        assert A[[1, 3]].tolist() == [1, 1]
        assert S[[1, 3]].tolist() == [0, 0]
        assert bool((slopes[[1, 3]] == 0).all())
    assert (A[2].item(), S[2].item()) == (0, 1)
    assert bool((slopes[0, 1:] >= 0).all())
    assert bool((slopes[0] > 0).any())


@for_each(t=EVERY)
def test_s_decides_about_saturation(t):
    a = torch.tensor([0.25, 1.0], dtype=torch.float64)
    A, S = t.aggregate(a, torch.tensor([0.75, 1e-40], dtype=torch.float64), ROW)
    assert t.kind == "mean" or (A == 1 and (S == 0) == (is_nilpotent(t) or S < 1e-300))
    A, S = t.aggregate(a * 0.9, torch.tensor([0.775, 0.0], dtype=torch.float64), ROW)
    assert t.kind == "mean" or (A == 1 and S == 0)


TINY = (0, 5e-324, 1e-308, 1e-300, 1e-150, 1e-45, 1e-38, 1e-20, 1e-8, 0.1, 0.5)


@for_each(rotating=2, dtype=[torch.float32, torch.float64], t=EVERY)
def test_never_nan(t, dtype):
    tiny = torch.tensor(TINY, dtype=torch.float64).to(dtype)
    ends = torch.cat([tiny, 1 - tiny]), torch.cat([1 - tiny, tiny])
    pairs = torch.cartesian_prod(*[torch.arange(len(ends[0]))] * 2)
    a, s = (end[pairs] for end in ends)
    p = torch.tensor(t.value, dtype=dtype, requires_grad=True) if t in PARAMETRIC else None
    t = t if p is None else t.with_p(p)
    for a_, s_ in ((a, s), (a[::3].repeat(1, 40), s[::3].repeat(1, 40))):
        a_ = a_.clone().requires_grad_()
        inputs = [a_] if p is None else [a_, p]
        A, S = t.aggregate(a_, s_, ROW)
        grads = torch.autograd.grad((A - S).sum(), inputs)
        direct = t.reduce(a_)
        grads += torch.autograd.grad(direct.sum(), inputs)
        for value in (A, S, direct, *grads):
            assert bool(torch.isfinite(value).all())
        for value in (A, S, direct):
            assert bool(((value >= 0) & (value <= 1)).all())


@for_each("dtype, reach", [(torch.float32, 120), (torch.float64, 760)], t=EVERY)
def test_second_derivatives_are_finite(t, dtype, reach):
    x = torch.cartesian_prod(*[torch.linspace(-reach, reach, 21, dtype=dtype)] * 2).requires_grad_()
    A, S = t.aggregate(*get("logistic").coverage(x), ROW)
    (first,) = torch.autograd.grad((A - S).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert bool((torch.isfinite(first) & torch.isfinite(second)).all())


@for_each(t=EVERY)
def test_float32_agrees_with_float64(t):
    x = 6 * torch.randn(50, 30)
    x[:10] -= 14

    def run(x):
        x = x.detach().requires_grad_()
        A, S = t.aggregate(*coverage(x), ROW)
        return A, S, torch.autograd.grad(A.sum(), x)[0]

    for single, double in zip(run(x), run(x.double()), strict=True):
        error = (single.double() - double).norm() / double.norm().clamp(min=1e-300)
        assert error < 2e-5 or double.norm() < 1e-6
    torch.testing.assert_close(run(x)[0].double(), run(x.double())[0], rtol=0, atol=2e-6)


@for_each(t=EVERY)
def test_segments_agree_with_rows(t):
    x = torch.randn(6, 4, dtype=torch.float64) - 2
    weights = torch.randn(6, dtype=torch.float64)

    def run(group, x):
        x = x.clone().requires_grad_()
        A, S = t.aggregate(*coverage(x), group)
        (g,) = torch.autograd.grad(((A - 2 * S) * weights).sum(), x, create_graph=True)
        again = torch.autograd.grad(g.square().sum(), x)[0] if g.requires_grad else g
        return A, S, g.reshape(6, 4), again.reshape(6, 4)

    order = torch.randperm(24)
    flat = Segments(torch.arange(6).repeat_interleave(4)[order], 6)
    back = torch.argsort(order)
    rows, cut = run(ROW, x), run(flat, x.flatten()[order])
    for i, (one, other) in enumerate(zip(rows, cut, strict=True)):
        other = other if i < 2 else other.flatten()[back].reshape(6, 4)
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


def test_a_changed_parameter_is_noticed():
    p = torch.tensor(2.0, requires_grad=True)
    total = Yager(p).reduce(torch.tensor([0.1, 0.2], requires_grad=True))
    with torch.no_grad():
        p.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


@for_each(name=["yager", "frank", "aczel_alsina"])
def test_a_float32_parameter_serves_float64_values(name):
    p = torch.tensor(2.0, requires_grad=True)
    values = inside(5)
    total = tconorm(name, p).reduce(values)
    total.backward()
    assert (total.dtype, p.grad.dtype) == (torch.float64, torch.float32)
    torch.testing.assert_close(total, tconorm(name, 2.0).reduce(values))
