"""No construct's gradient differs from the derivative of the value that it returns.

The oracles are central differences of the value, in float64, at scales from hard to soft.
"""

import math

import pytest
import torch

import gendr
from gendr import relaxed
from gendr.relaxed import Array, Categorical, smooth, smoothing
from support.cases import for_each

SCALES = [0.02, 0.1, 0.5, 2.0, 20.0]
DISTRIBUTIONS = ["logistic", "gaussian", "cauchy", "laplace"]


def numbers(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def index(x):
    return relaxed.index(x[1:], 1.3 + x[0])


def index_two(x):
    return relaxed.index(x.reshape(2, 3), 0.4 + x[0], 1.2 + x[1])


def write(x):
    return relaxed.write(x, x[1] ** 2, 2.2 + x[0])


def write_a_row(x):
    row = Array.dense(x[:3], 1)
    return relaxed.write(Array.dense(x.reshape(2, 3), 2), row, 0.3 + x[0]).data


def write_a_choice(x):
    return relaxed.write(x, x[0], relaxed.argmax(x))


def read_a_choice(x):
    return relaxed.index(x, relaxed.argmin(x))


def pointers(x):
    """Four reads, each at the place that the one before found."""
    place = 1.3 + 0.1 * x[0]
    for _ in range(4):
        place = relaxed.index(x * 0.3 + torch.arange(6.0), place)
    return place


def branch(x):
    return relaxed.cond(relaxed.less(x[0], x[1]), lambda v: v * x[2], lambda v: v - x[3], x[4])


def loop(x):
    with smoothing(max_iterations=5, tolerance=0.0):
        return relaxed.while_loop(
            lambda v, k: relaxed.greater(v, x[1]),
            lambda v, k: (v * 0.7 - 0.1, k + x[0]),
            (x[2], x[3]),
        )


def logic(x):
    p, q = relaxed.less(x[0], x[1]), relaxed.greater_equal(x[2], 0.1)
    return relaxed.or_(relaxed.and_(p, relaxed.not_(q)), relaxed.equal(x[3], x[4]))


CONSTRUCTS = {
    "less": lambda x: relaxed.less(x[0], x[1]),
    "greater_equal": lambda x: relaxed.greater_equal(x[0], 0.3),
    "equal": lambda x: relaxed.equal(x[0], x[1]),
    "not_equal": lambda x: relaxed.not_equal(x[0], x[1]),
    "contains": lambda x: relaxed.contains([x[0], x[1], 0.2], x[2]),
    "arrays": lambda x: relaxed.all(relaxed.less(Array.dense(x, 1), 0.3)),
    "logic": logic,
    "max": lambda x: relaxed.max(x[0], x[1]),
    "min of many": lambda x: relaxed.min(x),
    "argmax": lambda x: relaxed.argmax(x).probabilities,
    "equal classes": lambda x: relaxed.equal(relaxed.argmax(x), Categorical(x.softmax(-1))),
    "abs": lambda x: relaxed.abs(x[0]),
    "index": index,
    "index in two dimensions": index_two,
    "write": write,
    "write a row": write_a_row,
    "write at a choice": write_a_choice,
    "read at a choice": read_a_choice,
    "a chain of reads": pointers,
    "cond": branch,
    "while_loop": loop,
}


def slope_and_difference(function, x, seed=7):
    """A derivative in a random direction by autograd, and by differences of the value."""
    direction = numbers(*x.shape, seed=seed)

    def value(x):
        result = function(x)
        parts = result if isinstance(result, tuple) else (result,)
        return sum((numbers(part.numel(), seed=3) * part.flatten()).sum() for part in parts)

    x = x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(value(x), x)
    step = 1e-6
    with torch.no_grad():
        slope = (value(x + step * direction) - value(x - step * direction)) / (2 * step)
    return float(grad @ direction), float(slope)


@for_each(rotating=3, name=CONSTRUCTS, dist=DISTRIBUTIONS)
def test_gradients_are_derivatives(name, dist):
    """Those of the scale, too."""

    def run(given):
        with smoothing(scale=given[6], dist=dist):
            return CONSTRUCTS[name](given[:6])

    for scale in SCALES:
        given = torch.cat([numbers(6), torch.tensor([scale], dtype=torch.float64)])
        got, want = slope_and_difference(run, given)
        assert got == pytest.approx(want, rel=2e-5, abs=2e-7), scale


def test_a_place_in_a_constant_array_has_no_slope():
    for height in (5.0, 1000.0):
        for dist in DISTRIBUTIONS:
            x = torch.full((6,), height, dtype=torch.float64)
            i = torch.tensor([0.0, 0.3, 2.5, 4.9], dtype=torch.float64, requires_grad=True)
            with smoothing(scale=0.1, dist=dist):
                (slope,) = torch.autograd.grad(relaxed.index(x, i).sum(), i)
            assert slope.abs().max() < 1e-10 * height
            with smoothing(scale=0.1, dist=dist, normaliser="constant"):
                (slope,) = torch.autograd.grad(relaxed.index(x, i).sum(), i)
            assert slope.abs().max() > 0.1 * height


# -- long gradients


@gendr.relax
def bounce(height, restitution):
    """As on the page."""
    speed = 0.0
    for _ in range(40):
        speed = speed - 0.5
        height = height + 0.05 * speed
        if smooth("contact", height < 0.0):
            height = -height
            speed = -restitution * speed
    return height


def test_a_clip_bounds_what_a_decision_passes_back():
    x = numbers(5).requires_grad_()
    with smoothing(scale=1e-3, clip=2.0):
        p = relaxed.less(x, 0.0)
        (slope,) = torch.autograd.grad(p.sum(), x)
    assert slope.abs().max() <= 2.0
    with smoothing(scale=1e-3, clip={"a": 2.0, "default": math.inf}):
        near = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        (bounded,) = torch.autograd.grad(relaxed.less(near, 0.0, name="a"), near)
        (free,) = torch.autograd.grad(relaxed.less(near, 0.0), near)
    assert (bounded.item(), free.item()) == pytest.approx((-2.0, -250.0))
    for given in (0.0, -1.0):
        with pytest.raises(ValueError, match="clip must be > 0"), smoothing(clip=given):
            pass


def test_the_line_whose_slope_explodes_is_named():
    height = torch.tensor([0.7, 1.0, 1.3], requires_grad=True)
    found = bounce.slopes(height, 0.8, scale=1e-3)
    assert len(found) == 1
    with open(__file__, encoding="utf-8") as file:
        text = file.read().splitlines()
    assert text[found[0].line - 1].strip() == found[0].text
    assert found[0].text == 'if smooth("contact", height < 0.0):'
    assert found[0].decisions == 40
    assert 100 < found[0].slope <= 250 * (1 + 1e-5)
    assert found[0].gradient > 1e6
    assert found[0].text in str(found)

    def steepest(**more):
        y = bounce(height, 0.8, scale=1e-3, **more)
        return float(torch.autograd.grad(y.sum(), height)[0].abs().max())

    assert steepest() > 1e6
    assert steepest(clip={"contact": 1.0}) < 10
    with pytest.raises(ValueError, match="unknown decision in clip"):
        bounce(height, 0.8, clip={"contakt": 1.0, "default": 2.0})
    with pytest.raises(ValueError, match="does not depend on a tensor that requires a gradient"):
        bounce.slopes(height.detach(), 0.8)
