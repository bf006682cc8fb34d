"""Estimated gradients: known expectations, variances, seeds, batches, workers, bad arguments."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
import torch

from gendr import distributions
from gendr.relaxed import shortest_path
from gendr.relaxed.estimators import (
    BlackBox,
    FenchelYoungLoss,
    Smoothing,
    StraightThrough,
    estimated,
)
from support.cases import for_each

SMOOTH_DISTRIBUTIONS = (
    "gaussian",
    "logistic",
    "cauchy",
    "laplace",
    "student_t",
    "gumbel_max",
    "reciprocal",
)


def step(x):
    """1 above 0, summed: a function that only changes by steps."""
    return (x > 0).sum(-1).astype(x.dtype)


def one_hot(x):
    return np.eye(x.shape[-1], dtype=x.dtype)[x.argmax(-1)]


def inputs(*shape):
    return torch.randn(*shape, dtype=torch.float64).requires_grad_()


def close_by_variance(found, expected, variance):
    """Whether an estimate is within five deviations of the truth, and mostly within two."""
    deviations = (found - expected).abs() / variance.sqrt()
    return bool((deviations < 5).all()) and bool((deviations < 2).double().mean() > 0.8)


def test_smoothing_a_step_gives_the_density(seed):
    for distribution, control in itertools.product(
        SMOOTH_DISTRIBUTIONS, ["none", "value", "leave_one_out"]
    ):
        x, scale = torch.linspace(-0.6, 0.6, 40, dtype=torch.float64)[:, None].requires_grad_(), 0.7
        soft = estimated(
            step,
            samples=500,
            scale=scale,
            dist=distribution,
            control=control,
            batched=True,
            seed=seed,
        )
        result = soft(x)
        (grad,) = torch.autograd.grad(result.sum(), x)
        # P(x + scale e > 0) and its slope.
        dist = distributions.get(distribution)
        z = x.detach() / scale
        assert (result - dist.sf(-z)[:, 0]).abs().max() < 0.15
        assert close_by_variance(grad, dist.pdf(-z) / scale, soft.report.variance)
        assert soft.report.evaluations == 40 * (501 if control == "value" else 500)


def test_antithetic_samples_and_controls_lower_the_variance(seed):
    x = inputs(30, 3)

    def line(x):
        return 50 + (x * np.array([1.0, -2.0, 0.5])).sum(-1)

    found = {}
    for name, options in {
        "none": {"control": "none"},
        "value": {"control": "value"},
        "leave_one_out": {},
        "antithetic": {"antithetic": True, "control": "none"},
    }.items():
        soft = estimated(line, samples=1000, batched=True, seed=seed, **options)
        (grad,) = torch.autograd.grad(soft(x).sum(), x)
        expected = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64).expand(30, 3)
        assert close_by_variance(grad, expected, soft.report.variance)
        found[name] = soft.report.noise_to_signal
    assert found["none"] > 2 * max(found["value"], found["leave_one_out"], found["antithetic"])


def test_a_constant_has_no_gradient_and_no_noise():
    for options in [{}, {"control": "value"}, {"antithetic": True, "control": "none"}]:
        x = inputs(3, 4)
        soft = estimated(lambda x: np.full(len(x), 7.0), samples=6, batched=True, **options)
        (grad,) = torch.autograd.grad(soft(x).sum(), x)
        assert grad.abs().max() < 1e-13
        assert soft.report.variance.max() < 1e-26


def test_variance_is_that_of_the_estimate(seed):
    x = inputs(1, 2)
    estimates, variances = [], []
    soft = estimated(lambda x: np.sin(x).sum(-1), samples=20, batched=True, seed=seed)
    for _ in range(400):
        estimates.append(torch.autograd.grad(soft(x).sum(), x)[0])
        variances.append(soft.report.variance)
    observed = torch.stack(estimates).var(0)
    torch.testing.assert_close(torch.stack(variances).mean(0), observed, rtol=0.3, atol=0)


def test_the_jacobian_of_a_perturbed_maximum_is_that_of_softmax(seed):
    x, g = inputs(60, 3), torch.randn(60, 3, dtype=torch.float64)
    soft = estimated(one_hot, "perturbed", samples=4000, dist="gumbel_max", batched=True, seed=seed)
    result = soft(x)
    (grad,) = torch.autograd.grad(result, x, g)
    expected = x.softmax(-1)
    torch.testing.assert_close(result, expected, rtol=0, atol=0.05)
    (truth,) = torch.autograd.grad(expected, x, g)
    assert close_by_variance(grad, truth, soft.report.variance)


@for_each(minimize=[False, True])
def test_the_fenchel_young_loss_of_a_maximum(minimize, seed):
    """With Gumbel noise it is the cross-entropy, but for Euler's constant."""
    x = inputs(60, 4)  # of few rows a fifth may well be beyond two deviations
    wanted = torch.eye(4, dtype=torch.float64)[torch.arange(60) % 4]
    sign = -1.0 if minimize else 1.0

    def solver(x):
        return one_hot(sign * x)

    loss = FenchelYoungLoss(
        solver, minimize=minimize, samples=4000, batched=True, seed=seed, reduction="none",
        dist="gumbel_min" if minimize else "gumbel_max",
    )  # fmt: skip
    value = loss(sign * x, wanted)
    expected = torch.logsumexp(x, -1) + np.euler_gamma - (x * wanted).sum(-1)
    torch.testing.assert_close(value, expected, rtol=0, atol=0.15)
    (grad,) = torch.autograd.grad(value.sum(), x)
    assert close_by_variance(grad, x.softmax(-1) - wanted, loss.report.variance + 1e-9)
    weighted = torch.autograd.grad((3 * loss(sign * x, wanted)).sum(), x)[0]
    assert (weighted - 3 * grad).abs().max() < 0.3


def ranks(x):
    return x.argsort(-1).argsort(-1).astype(x.dtype)


def test_black_box_is_one_more_call():
    x, g = inputs(5, 4), torch.randn(5, 4, dtype=torch.float64)
    soft = estimated(ranks, "black_box", step=3.0, minimize=False)
    result = soft(x)
    assert torch.equal(result, torch.from_numpy(ranks(x.detach().numpy())))
    (grad,) = torch.autograd.grad(result, x, g)
    moved = torch.from_numpy(ranks((x - 3.0 * g).detach().numpy()))
    torch.testing.assert_close(grad, (result.detach() - moved) / 3.0)
    assert soft.report.evaluations == 10
    assert soft.report.variance is None


def test_straight_through_takes_a_soft_gradient():
    x, g = inputs(2, 4, 5), torch.randn(2, 4, 5, dtype=torch.float64)
    costs = (x.detach().abs() + 0.1).requires_grad_()

    def hard(c):
        return shortest_path(torch.from_numpy(c), "heaviside").numpy()

    soft = estimated(hard, "straight_through", soft=shortest_path, batched=True)
    result = soft(costs)
    assert set(result.flatten().tolist()) == {0.0, 1.0}
    (grad,) = torch.autograd.grad(result, costs, g)
    (truth,) = torch.autograd.grad(shortest_path(costs), costs, g)
    torch.testing.assert_close(grad, truth)


def test_finite_differences_of_a_smooth_function():
    x, g = inputs(3, 2, 2), torch.randn(3, 4, dtype=torch.float64)

    def function(x):
        return np.concatenate([np.sin(x[0]), x[1] ** 2])

    soft = estimated(function, "finite_differences", step=1e-4)
    result = soft(x)
    torch.testing.assert_close(result, torch.cat([x[:, 0].sin(), x[:, 1] ** 2], -1))
    (grad,) = torch.autograd.grad(result, x, g)
    (truth,) = torch.autograd.grad(torch.cat([x[:, 0].sin(), x[:, 1] ** 2], -1), x, g)
    torch.testing.assert_close(grad, truth, rtol=0, atol=1e-7)
    assert soft.report.evaluations == 3 + 3 * 8


def test_any_batch_shape_seed_and_workers():
    for name in ["smoothing", "perturbed", "black_box", "finite_differences"]:
        x = inputs(2, 3, 4).float().detach().requires_grad_()
        found = []
        for batched, workers in itertools.product((False, True), (1, 3)):
            soft = estimated(
                np.sort, name, event_dims=1, batched=batched, workers=workers, seed=7,
                minimize=False,
            )  # fmt: skip
            result = soft(x)
            assert result.shape == (2, 3, 4)
            assert result.dtype == torch.float32
            found.append((result, *torch.autograd.grad(result.sum(), x)))
            soft.close()
        for other in found[1:]:
            assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))
        again = estimated(np.sort, name, event_dims=1, seed=8, minimize=False)(x)
        assert torch.equal(again, found[0][0]) == (name in ("black_box", "finite_differences"))


@pytest.mark.slow
def test_processes():
    x = inputs(4, 3)
    soft = estimated(
        np.sort, "black_box", minimize=False, workers=2, parallel="processes", batched=True
    )
    assert torch.equal(soft(x), x.sort(-1).values)
    soft.close()


UNGUARDED = """
import numpy as np, torch
from gendr.relaxed.estimators import estimated

def solver(costs):
    return np.sort(costs)

estimated(solver, "smoothing", workers=2, parallel="processes")(torch.ones(4, 3))
"""


@pytest.mark.every
def test_a_script_that_starts_processes_unguarded_is_told_of_main(tmp_path):
    (tmp_path / "script.py").write_text(UNGUARDED)
    found = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert found.returncode == 1
    last = found.stderr.strip().splitlines()[-1]
    assert last.startswith("RuntimeError: the processes ended before their work did")
    assert 'if __name__ == "__main__":' in last


def test_bad_arguments():
    for make, kind, said in [
        (lambda: estimated(3), TypeError, "function of arrays"),
        (lambda: estimated(np.sort, "smooth"), ValueError, "smoothing"),
        (lambda: estimated(np.sort, beta=1.0), TypeError, "scale = 1 / beta; it has"),
        (
            lambda: estimated(np.sort, BlackBox(minimize=True), step=1.0),
            TypeError,
            "settings already",
        ),
        (
            lambda: estimated(lambda x: x, workers=2, parallel="processes"),
            TypeError,
            "top level of a module",
        ),
        (lambda: estimated(np.sort, workers=0), ValueError, "workers"),
        (lambda: estimated(np.sort, parallel="ray"), ValueError, "processes"),
        (lambda: Smoothing(samples=1), ValueError, "two samples"),
        (lambda: Smoothing(samples=3, antithetic=True), ValueError, "pairs"),
        (lambda: Smoothing(dist="uniform"), ValueError, "without jumps"),
        (lambda: Smoothing(dist="exponential"), ValueError, "without jumps"),
        (lambda: Smoothing(dist="heaviside"), ValueError, "without jumps"),
        (lambda: Smoothing(dist="wigner_semicircle"), ValueError, "infinite slopes"),
        (lambda: Smoothing(dist="gumbel_max", antithetic=True), ValueError, "symmetric"),
        (lambda: BlackBox(0.0), ValueError, "step"),
    ]:
        with pytest.raises(kind, match=said):
            make()


def test_bad_functions_are_refused():
    for function, method, x, said in [
        (np.sort, BlackBox(minimize=False), torch.full((1, 2), torch.nan), "finite"),
        (np.sort, Smoothing(samples=2), torch.ones(0, 2), "empty"),
        (np.sum, BlackBox(minimize=False), torch.ones(1, 2), "shape of its costs"),
        (np.sum, StraightThrough(minimize=False), torch.ones(1, 2), "shape of the hard ones"),
        (
            lambda x: x * np.inf,
            BlackBox(minimize=False),
            torch.ones(1, 2),
            "result of the function",
        ),
        (
            lambda x: x[: int(x[0])],
            BlackBox(minimize=False),
            torch.tensor([[1.0, 0], [2, 0]]),
            "one shape",
        ),
    ]:
        with pytest.raises(ValueError, match=said):
            estimated(function, method)(x)
