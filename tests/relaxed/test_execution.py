"""Joint and sampled runs, against sums over all paths that are written by hand."""

import copy
import itertools
import pickle

import numpy as np
import pytest
import torch

import gendr
from gendr.relaxed import Category, Joint, Sampled, Vector, argmin, smooth
from gendr.relaxed.estimators import estimated
from support.cases import for_each


def sigmoid(x):
    return torch.sigmoid(x)


@gendr.relax
def makespan(jobs, load: Vector):
    """The time of the last of the machines, each job on the one that is free first."""
    load = load.copy()
    for job in jobs:
        k = argmin(load)
        load[k] += job
    return smooth("last", max(load[0], load[1]))


def makespan_by_paths(jobs, scale):
    """The sum over all assignments, in plain torch, with a certain maximum."""
    total = 0.0
    for machines in itertools.product((0, 1), repeat=len(jobs)):
        load, p = [jobs.new_zeros(()), jobs.new_zeros(())], 1.0
        for job, k in zip(jobs, machines, strict=True):
            p = p * torch.sigmoid((load[1 - k] - load[k]) / scale)
            load[k] = load[k] + job
        total = total + p * torch.maximum(*load)
    return total


@gendr.relax
def last_machine(jobs):
    load = [0.0, 0.0]
    for job in jobs:
        k = argmin(load)
        load[k] += job
    return max(load[0], load[1])


def test_a_hard_program_takes_numbers_of_every_numpy_dtype():
    """As estimators give them: of float32, whose numbers are no Python floats."""
    for dtype in (np.float32, np.float64, np.int64):
        jobs = np.array([2, 3, 3, 1], dtype)
        assert last_machine.hard(jobs) == 5
    soft = estimated(last_machine.hard, "smoothing", samples=200, scale=0.01, seed=0)
    x = torch.tensor([[2.0, 3.0, 3.5, 1.0]], requires_grad=True)
    soft(x).sum().backward()
    assert soft(x).item() == pytest.approx(5.5, abs=0.01)
    torch.testing.assert_close(x.grad, torch.tensor([[1.0, 0.0, 1.0, 0.0]]), atol=0.2, rtol=0)


LAST = {"last": "heaviside", "default": "logistic"}


def test_ties_do_not_corrupt_a_joint_run():
    """Merged, both machines get half of each job."""
    jobs, load = torch.tensor([2.0, 3.0]), torch.zeros(2)
    assert makespan.hard(jobs, load) == 3
    assert makespan(jobs, load, dist="heaviside") == 3
    assert makespan(jobs, load, scale=0.1) == pytest.approx(2.5)
    for execution in ("joint", "sampled"):
        got = makespan(jobs, load, scale=0.1, execution=execution)
        assert float(got) == pytest.approx(3.0, abs=1e-4)


def test_hard_decisions_take_the_first_of_ties_as_python_does():
    jobs = torch.tensor([[1.0, 1.0, 1.0, 2.0, 2.0], [2.0, 2.0, 3.0, 3.0, 1.0]])
    load = torch.zeros(2)
    torch.testing.assert_close(
        makespan(jobs, load, dist="heaviside"), makespan.hard(jobs, load), atol=0, rtol=0
    )


def test_a_joint_run_is_the_sum_over_all_paths():
    """Of fewer paths it is nearer to it, the more there are, than the merged run."""
    generator = torch.Generator().manual_seed(1)
    jobs = torch.rand(6, 4, generator=generator, dtype=torch.float64).requires_grad_()
    load = torch.zeros(2, dtype=torch.float64)
    want = torch.stack([makespan_by_paths(x, 0.2) for x in jobs])
    merged, *some, whole = (
        makespan(jobs, load, scale=0.2, dist=LAST, execution=execution)
        for execution in ("merged", Joint(2), Joint(6), Joint(16))
    )
    torch.testing.assert_close(whole, want, rtol=1e-7, atol=1e-7)
    slopes = [torch.autograd.grad(x.sum(), jobs)[0] for x in (whole, want)]
    torch.testing.assert_close(*slopes, rtol=1e-6, atol=1e-6)
    assert (merged - want).abs().max() > 0.05
    errors = [(x - want).abs().mean() for x in (merged, *some, whole)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-7


@gendr.relax
def twice(x):
    y = 1.0 if x > 0 else -1.0
    return y * y


@gendr.relax
def halvings(x):
    steps = 0
    while x > 1.0:
        x, steps = x / 2, steps + 1
    return steps, steps * steps


def test_a_variable_is_the_same_wherever_it_is_used():
    x = torch.linspace(-2, 2, 5, dtype=torch.float64)
    torch.testing.assert_close(twice(x), (2 * sigmoid(x) - 1) ** 2)
    for execution in ("joint", "sampled"):
        assert twice(x, execution=execution).tolist() == [1.0] * 5
        assert twice(x[:0, None], execution=execution).shape == (0, 1)


def test_a_loop_has_one_path_for_each_number_of_iterations():
    x = torch.tensor([3.0, 5.5], dtype=torch.float64, requires_grad=True)
    first, second = 0.0, 0.0
    alive, state = 1.0, x
    for k in range(6):
        p = sigmoid((state - 1) / 0.5) if k < 5 else 0.0
        first, second = first + alive * (1 - p) * k, second + alive * (1 - p) * k * k
        alive, state = alive * p, state / 2
    want = (first, second)
    got = halvings(x, scale=0.5, max_iterations=5, execution=Joint(6))
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)
        slopes = [torch.autograd.grad(y.sum(), x, retain_graph=True)[0] for y in (a, b)]
        torch.testing.assert_close(*slopes, rtol=1e-6, atol=1e-6)


def test_sampled_derivatives_are_unbiased_and_the_variance_of_the_first_is_known():
    jobs = torch.tensor([0.3, 0.9, 0.4], dtype=torch.float64, requires_grad=True)
    load = torch.zeros(2, dtype=torch.float64)
    want = makespan_by_paths(jobs, 0.5)
    (slope,) = torch.autograd.grad(want, jobs, create_graph=True)
    torch.manual_seed(0)
    count = 2000
    got = makespan(jobs, load, scale=0.5, dist=LAST, execution=Sampled(count))
    (found,) = torch.autograd.grad(got, jobs, create_graph=True)
    report = makespan.report["jobs"]
    error = report.variance.sqrt()
    assert abs(float((got - want).detach())) < 0.02
    assert bool(((found - slope).abs() < 4 * error).all())
    torch.testing.assert_close(report.gradient, found.detach())
    curved = [torch.autograd.grad(g.square().sum(), jobs)[0][2] for g in (found, slope)]
    torch.testing.assert_close(*curved, rtol=0, atol=0.12)  # -0.35, deviation 0.03
    assert makespan.report["jobs"] is report
    spread = []
    for _ in range(40):
        y = makespan(jobs, load, scale=0.5, dist=LAST, execution=Sampled(40))
        spread.append(torch.autograd.grad(y, jobs)[0])
    ratio = torch.stack(spread).var(0) / (report.variance * count / 40)
    assert bool(((ratio > 0.4) & (ratio < 2.5)).all())


@gendr.relax
def counted(letters: Category, x):
    total = 0.0
    if letters == 0:
        total = total + x
    if letters == 1:
        total = total + 10 * x
    if letters == 0:
        total = total * total
    return total


def test_a_categorical_value_is_known_in_a_world():
    p = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64, requires_grad=True)
    x = torch.tensor(3.0, dtype=torch.float64)
    got = counted(p, x, execution="joint")
    torch.testing.assert_close(got, p[:, 0] * 9 + p[:, 1] * 30)
    (slope,) = torch.autograd.grad(got.sum(), p)
    torch.testing.assert_close(slope, torch.tensor([[9.0, 30.0, 0.0]], dtype=torch.float64))


@gendr.relax
def found_by_pointers(x):
    parent = [0, 0, 1, 2]
    if x > 0:
        parent[3] = 1
    i = 3
    steps = 0
    while parent[i] != i:
        i = parent[i]
        steps += 1
    return i, steps


def test_a_place_of_a_world_is_whole_and_read_exactly():
    x = torch.tensor([-0.4, 0.7], dtype=torch.float64)
    found, steps = found_by_pointers(x, scale=0.03, execution="joint")
    p = sigmoid(x / 0.03)
    torch.testing.assert_close(found, torch.zeros(2, dtype=torch.float64), atol=1e-9, rtol=0)
    torch.testing.assert_close(steps, 3 - p, atol=1e-9, rtol=0)


def test_executions_are_checked():
    x = torch.tensor(1.0)
    for execution, error in [
        ("joined", "execution"),
        (Sampled, "execution must be merged"),
        (3, "execution must be merged"),
    ]:
        with pytest.raises((TypeError, ValueError), match=error):
            twice(x, execution=execution)
    with pytest.raises(ValueError, match="paths must be >= 1"):
        Joint(0)
    with pytest.raises(ValueError, match="samples must be >= 2"):
        Sampled(1)
    with pytest.raises(RuntimeError, match="not made for the transforms"):
        torch.func.grad(lambda x: twice(x, execution="joint"))(x)
    with pytest.raises(ValueError, match="cannot be compiled"):
        twice.compiled()(x, execution="joint")
    with pytest.raises(TypeError, match="give it to the outermost program"):
        outer(x)


@gendr.relax
def outer(x):
    return twice(x, execution="joint")


# -- recursion


@gendr.relax
def halved(x):
    """How often a number is halved until it is at most 1, and what is left."""
    if x <= 1:
        return 0, x
    steps, rest = halved(x / 2)
    return steps + 1, rest


def test_a_recursion_ends_as_a_loop_does():
    """The tail that a loop gives to its last state goes to the caller's other branch."""
    x = torch.tensor([0.3, 3.0, 9.5], dtype=torch.float64, requires_grad=True)

    def by_hand(x, depth):
        p = sigmoid((1 - x) / 0.1)
        if depth == 0:
            return torch.zeros_like(x), x
        steps, rest = by_hand(x / 2, depth - 1)
        return (1 - p) * (steps + 1), p * x + (1 - p) * rest

    for got in (halved(x, scale=0.1), halved(x, scale=0.1, execution=Joint(20))):
        for a, b in zip(got, by_hand(x, 30), strict=True):
            torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-6)
    steps, _ = halved(x, scale=0.1, max_iterations=2)
    torch.testing.assert_close(steps, by_hand(x, 2)[0])
    assert halved.hard(9.5)[0] == 4


def test_programs_are_pickled_by_name():
    assert pickle.loads(pickle.dumps(halved)) is halved
    assert copy.deepcopy(halved) is halved
    assert copy.copy(halved) is halved
    other = gendr.relax(scale=0.1)(plain_function)
    again = pickle.loads(pickle.dumps(other))
    x = torch.tensor(0.1)
    assert again(x) == other(x) != gendr.relax(plain_function)(x)
    assert pickle.loads(pickle.dumps(other.compiled())).program(x) == other(x)

    @gendr.relax
    def local(x):
        return x if x > 0 else -x

    with pytest.raises(pickle.PicklingError, match="only a program at the top of a module"):
        pickle.dumps(local)


def plain_function(x):
    return x if x > 0 else -x


@for_each(paths=[1, 3])
def test_the_gradient_of_a_joint_run_is_its_derivative(paths):
    jobs = torch.tensor([[0.3, 0.9, 0.4]], dtype=torch.float64, requires_grad=True)
    load = torch.tensor([0.1, 0.0], dtype=torch.float64)

    def run(x):
        return makespan(x, load, scale=0.4, execution=Joint(paths))

    assert torch.autograd.gradcheck(run, jobs)
