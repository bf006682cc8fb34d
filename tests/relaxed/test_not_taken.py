"""What a branch that is not taken computes does not count: not its NaN, nor its slopes."""

import math

import pytest
import torch

import gendr
from gendr import relaxed
from support.cases import for_each


@gendr.relax
def log_or(x):
    if x > 0.0:
        y = torch.log(x)
    else:
        y = -10.0
    return y


@gendr.relax
def root(x):
    return x**0.5 if x >= 0.0 else 0.0


@gendr.relax
def entropy(x):
    if x > 0.0:
        return x * math.log(x)
    return 0.0


@gendr.relax
def exponential(x):
    if x < 80.0:
        return torch.exp(x)
    return 1e35


@gendr.relax
def large_log(x):
    if x > 0.0 and torch.log(x) > 1.0:
        return 1.0
    return 0.0


@gendr.relax
def halvings(x):
    n = 0.0
    while x > 1.0:
        x = torch.sqrt(x - 1.0)
        n = n + 1.0
    return n


PROGRAMS = {
    "log": (log_or, [-1.0, 4.0], [-10.0, math.log(4.0)], [0.0, 0.25]),
    "root": (root, [-1.0, 4.0], [0.0, 2.0], [0.0, 0.25]),
    "entropy": (entropy, [-1.0, math.e], [0.0, math.e], [0.0, 2.0]),
    "exponential": (exponential, [200.0, 1.0], [1e35, math.e], [0.0, math.e]),
    "and": (large_log, [-1.0, 4.0], [0.0, 1.0], None),
    "while": (halvings, [-3.0, 1.5, 3.0], [0.0, 1.0, 2.0], None),
}
WAYS = [
    {"dist": "heaviside"},
    {"dist": "uniform", "scale": 0.01},
    {"scale": 0.01, "execution": "sampled"},
    {"scale": 0.01, "execution": "joint"},
]


@for_each(name=PROGRAMS, options=WAYS)
def test_values_and_slopes_are_those_of_the_branch_that_is_taken(name, options):
    program, x, want, slope = PROGRAMS[name]
    leaf = torch.tensor(x, requires_grad=True)
    y = program(leaf, **options)
    torch.testing.assert_close(y.detach(), torch.tensor(want), rtol=1e-4, atol=1e-4)
    if y.requires_grad:
        (grad,) = torch.autograd.grad(y.sum(), leaf)
        assert bool(grad.isfinite().all())
        if slope is not None:
            torch.testing.assert_close(grad, torch.tensor(slope), rtol=1e-4, atol=1e-4)


def test_the_functional_form():
    x = torch.tensor([-1.0, 4.0], requires_grad=True)
    with relaxed.smoothing(dist="heaviside"):
        y = relaxed.cond(relaxed.greater(x, 0.0), torch.sqrt, torch.zeros_like, x)
        (grad,) = torch.autograd.grad(y.sum(), x)
        cells = torch.tensor([[1.0, math.inf], [math.nan, 2.0]])
        read = relaxed.index(cells, torch.tensor([0.0, 1.0]))
    assert y.tolist() == [0.0, 2.0]
    assert grad.tolist() == [0.0, 0.25]
    assert read.tolist() == [1.0, 2.0]


@for_each(x=[torch.tensor(-2.0), -2.0])
def test_single_numbers_run_hard(x):
    assert float(log_or.hard(x)) == -10.0
    assert float(log_or(torch.tensor(-2.0), dist="heaviside")) == -10.0


@gendr.relax
def inverse(x):
    if x <= 0.0:
        return 0.0
    return 1.0 / x


@gendr.relax
def inverse_or(x):
    return 1.0 / x if not (x <= 0.0 or x > 5.0) else 0.0


@gendr.relax
def inverse_and(x):
    y = 0.0
    if x > 0.0 and x < 5.0:
        y = 1.0 / x
    return y


@gendr.relax
def root_above(x):
    return torch.sqrt(x) if x > 0.0 else 0.0


@gendr.relax
def slope_of_log(x):
    return 3.0 * x if x <= 0.0 else torch.log(x)


@gendr.relax
def pole(x):
    return 1.0 / x if x >= 0.0 else 2.0


# At x = 0 and 2: the value of the hard program, its slope, and its second derivative.
TIES = {
    "return": (inverse, [0.0, 0.5], [0.0, -0.25], [0.0, 0.25]),
    "or": (inverse_or, [0.0, 0.5], [0.0, -0.25], [0.0, 0.25]),
    "and": (inverse_and, [0.0, 0.5], [0.0, -0.25], [0.0, 0.25]),
    "slope": (slope_of_log, [0.0, math.log(2)], [3.0, 0.5], [0.0, -0.25]),
    "finite": (root_above, [0.0, math.sqrt(2)], [0.0, 0.125**0.5], None),
}
TIED = [*WAYS, {"scale": 0.01}, {"scale": 0.01, "dist": "gaussian"}]


@for_each(name=TIES, options=TIED)
def test_at_a_tie_what_the_hard_program_does_not_take_counts_only_if_finite(name, options):
    program, want, slope, curve = TIES[name]
    x = torch.tensor([0.0, 2.0], dtype=torch.float64, requires_grad=True)
    y = program(x, **options)
    (grad,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    exact = {"check_dtype": False, "rtol": 1e-6, "atol": 1e-6}
    torch.testing.assert_close(y.detach(), torch.tensor(want), **exact)
    torch.testing.assert_close(grad.detach(), torch.tensor(slope), **exact)
    if curve is not None and options.get("execution") is None:
        (second,) = torch.autograd.grad(grad.sum(), x)
        torch.testing.assert_close(second, torch.tensor(curve), **exact)
    if options.get("execution") is None:
        func = torch.func.vmap(torch.func.grad(lambda v: program(v, **options)))(x.detach())
        torch.testing.assert_close(func, torch.tensor(slope), **exact)


@for_each(options=WAYS[:2])
def test_infinities_that_the_hard_program_has_stay(options):
    assert pole(torch.tensor([0.0, -1.0]), **options).tolist() == [math.inf, 2.0]
    assert float(inverse(torch.tensor([1e-45]), dist="uniform", scale=0.01)) == math.inf


def test_a_tie_in_the_functional_form():
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    with relaxed.smoothing(scale=0.01):
        y = relaxed.cond(relaxed.greater(x, 0.0), torch.log, torch.zeros_like, x)
    (grad,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(y.detach(), torch.tensor([0.0, math.log(4.0)]))
    assert grad.tolist() == [0.0, 0.25]


@pytest.mark.rotating(7, group="graphs")
@pytest.mark.graphs
def test_a_tie_compiled():
    x = torch.tensor([0.0, 2.0], requires_grad=True)
    y = inverse.compiled(backend="eager")(x, scale=0.01)
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert y.tolist() == [0.0, 0.5]
    torch.testing.assert_close(grad, torch.tensor([0.0, -0.25]))


@gendr.relax
def inverses(x, rows: relaxed.Vector):
    if x > 0.0:
        rows = rows / x
    return rows


def test_a_tie_of_arrays():
    x = torch.tensor([0.0, 2.0], requires_grad=True)
    y = inverses(x, torch.tensor([[1.0, 2.0, 3.0]] * 2), scale=0.01)
    assert y.tolist() == [[1.0, 2.0, 3.0], [0.5, 1.0, 1.5]]
    (grad,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(grad, torch.tensor([0.0, -1.5]))


@gendr.relax
def harmonic(x):
    y = 0.0
    while x > 0.0:
        y = y + 1.0 / x
        x = x - 1.0
    return y


def test_a_loop_ends_at_a_tie_as_the_hard_program_does():
    """After two steps of x = 2 the condition compares 0 with 0, and 1 / 0 follows."""
    x = torch.tensor([0.0, 1.0, 2.0, 2.5])
    steps = [(), (1.0,), (2.0, 1.0), (2.5, 1.5, 0.5)]
    value = torch.tensor([sum(1 / s for s in each) for each in steps])
    slope = torch.tensor([-sum(1 / s**2 for s in each) for each in steps])
    for options in (
        {"dist": "uniform"}, {"dist": "logistic"}, {"dist": "heaviside"},
        {"dist": "logistic", "execution": "sampled"},
    ):  # fmt: skip
        z = x.clone().requires_grad_()
        y = harmonic(z, scale=0.01, max_iterations=5, **options)
        torch.testing.assert_close(y.detach(), value, rtol=0, atol=1e-4)
        torch.testing.assert_close(torch.autograd.grad(y.sum(), z)[0], slope, rtol=1e-4, atol=1e-4)
