"""The split step: theorems of the thesis, cuts of a network, bad input."""

import pytest
import torch
from torch import nn

from gendr.optim import (
    GradientStep,
    NewtonStep,
    OptimizerStep,
    SoftmaxCrossEntropy,
    SplitPoint,
    split_step,
)
from support.cases import for_each


def network(*inner):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), *inner, nn.Linear(6, 3)).double()


def data(count=8):
    g = torch.Generator().manual_seed(1)
    x = torch.randn(count, 4, generator=g, dtype=torch.float64)
    return x, torch.randint(0, 3, (count,), generator=g)


def square(y):
    return y.square().sum(1)


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return [p.grad.clone() for p in model.parameters()]


def test_gradient_step_of_length_one_is_plain_training():
    """Theorem 7.2, for one cut and for two."""
    x, t = data()
    for inner in ((), (SplitPoint(GradientStep()),)):
        model = network(*inner)
        plain = gradients(model, SoftmaxCrossEntropy()(model(x), t).mean())
        split = gradients(model, split_step(model(x), SoftmaxCrossEntropy(), t))
        for a, b in zip(split, plain, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


def test_newton_steps_are_a_newton_step_for_one_output():
    """Theorem 7.3: for m = 1 two Newton steps are Newton's step for the parameters."""
    theta = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)

    def f(theta):
        return (theta.sin() + theta**2).reshape(1, 1)

    def loss(y):
        return (y - 3).pow(4).sum(1) + y.exp().sum(1)

    def newton(value):
        (g,) = torch.autograd.grad(value, theta, create_graph=True)
        (h,) = torch.autograd.grad(g, theta)
        return theta.detach() - 0.3 * g.detach() / h

    z = NewtonStep("elementwise", tikhonov=0.0)(f(theta), loss).z
    torch.testing.assert_close(
        newton(0.5 * (z - f(theta)).square().sum()), newton(loss(f(theta)).sum())
    )


def test_step_before_a_cut_is_its_own():
    """Layers behind a cut are trained as without it, those before on 1/2 ||z* - y||^2."""
    x, t = data()
    step = NewtonStep("fisher", 0.05)
    model = network(SplitPoint(step))
    before, behind = model[:2], model[3:]
    plain = gradients(model, SoftmaxCrossEntropy()(model(x), t).mean())
    y = before(x)
    inner = y.detach().requires_grad_()
    SoftmaxCrossEntropy()(behind(inner), t).mean().backward()
    each = inner.grad * len(x)  # of the loss of every sample
    fisher = each.mT @ each / len(x) + 0.05 * torch.eye(6).double()
    z = y.detach() - torch.linalg.solve(fisher, each.mT).mT
    model.zero_grad()
    (0.5 * (z - before(x)).square().sum(1).mean()).backward()
    for a, p in zip(plain, before.parameters(), strict=False):
        torch.testing.assert_close(a, p.grad, rtol=1e-9, atol=1e-12)


def test_step_of_any_optimizer():
    x, t = data()
    y = network()(x).detach()
    loss = SoftmaxCrossEntropy()
    step = OptimizerStep(lambda z: torch.optim.SGD(z, lr=0.5))
    torch.testing.assert_close(step(y, loss, t).z, GradientStep(0.5)(y, loss, t).z)
    far = OptimizerStep(lambda z: torch.optim.LBFGS(z, max_iter=20), steps=2)(y, loss, t)
    assert bool((loss(far.z, t) < 0.1 * loss(y, t)).all())
    torch.testing.assert_close(far.values, loss(y, t))


def test_steps_of_an_optimizer_leave_the_loss_alone():
    """No gradient reaches labels, or parameters of the loss: the target is a constant."""
    x, t = data()
    weight = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    goal = torch.zeros(8, 3, dtype=torch.float64, requires_grad=True)
    y = network()(x)
    sgd = OptimizerStep(lambda z: torch.optim.SGD(z, lr=0.1), steps=2)
    split_step(y, lambda y, g: weight * (y - g).square().sum(1), goal, step=sgd).backward()
    assert weight.grad is None
    assert goal.grad is None
    expected = sgd(y, SoftmaxCrossEntropy(), t)
    with torch.inference_mode():
        for of in (y, y.detach().clone()):  # made outside, and in it
            found = sgd(of, SoftmaxCrossEntropy(), t.clone())
            torch.testing.assert_close(found.z, expected.z)


@for_each(
    "run, error, message",
    [
        (lambda y: SplitPoint(NewtonStep("hessian")), ValueError, "'hessian' needs the loss"),
        (lambda y: SplitPoint(OptimizerStep(torch.optim.SGD)), TypeError, "needs GradientStep"),
        (lambda y: SplitPoint(GradientStep), TypeError, r"needs GradientStep\(\) .*, got <class"),
        (
            lambda y: split_step(y, SoftmaxCrossEntropy(), step=NewtonStep),
            TypeError,
            r"such as NewtonStep\(\) is needed, got the class NewtonS",
        ),
        (lambda y: split_step(y, None), TypeError, "loss must be a function of outputs, got None"),
        (lambda y: GradientStep(0.0), ValueError, "lr must be > 0"),
        (lambda y: split_step(y.detach(), square), ValueError, "output has no gradient"),
        (
            lambda y: OptimizerStep(torch.optim.Adam)(y, lambda y: y.detach().sum(1)),
            ValueError,
            "loss has no gradient by the output",
        ),
        (
            lambda y: OptimizerStep(lambda z: None)(y, square),
            TypeError,
            "make must return an optimiser, got NoneType",
        ),
        (lambda y: OptimizerStep(torch.optim.SGD, steps=0), ValueError, "steps must be >= 1"),
    ],
)
def test_bad_input(run, error, message):
    with pytest.raises(error, match=message):
        run(network()(data()[0]))
