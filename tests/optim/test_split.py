"""The split step: theorems of the thesis, cuts of a network, any optimiser, mixed precision."""

import copy
import pickle

import pytest
import torch
from torch import nn

from gendr.optim import (
    GradientStep,
    NewtonStep,
    OptimizerStep,
    SoftmaxCrossEntropy,
    SplitOptimizer,
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


@for_each(kind=[torch.optim.SGD, torch.optim.Adam])
def test_optimizer_with_a_step(kind):
    """Two lines change; with the step of plain training nothing else does."""
    x, t = data()
    plain, split = network(), network()
    a = kind(plain.parameters(), lr=0.1)
    b = SplitOptimizer(kind(split.parameters(), lr=0.1), GradientStep())
    schedules = [torch.optim.lr_scheduler.StepLR(each, 2, 0.1) for each in (a, b)]
    for _ in range(4):
        a.zero_grad()
        expected = SoftmaxCrossEntropy()(plain(x), t).mean()
        expected.backward()
        a.step()
        b.zero_grad()
        found = b.backward(split(x), SoftmaxCrossEntropy(), t)
        b.step()
        torch.testing.assert_close(found, expected.detach())
        for each in schedules:
            each.step()
    for p, q in zip(plain.parameters(), split.parameters(), strict=True):
        torch.testing.assert_close(q, p)
    assert b.param_groups[0]["lr"] == a.param_groups[0]["lr"] == pytest.approx(0.001)


def test_state_and_copies_of_the_optimizer():
    """Copied with its network, as averages and restarts do, it trains the copy."""
    x, t = data()
    model = network()
    calls = []
    optimizer = SplitOptimizer(torch.optim.Adam(model.parameters()), NewtonStep("fisher"))
    optimizer.backward(model(x), SoftmaxCrossEntropy(), t)
    optimizer.step()
    other = copy.deepcopy(model)
    again = SplitOptimizer(torch.optim.Adam(other.parameters()), NewtonStep("fisher"))
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    pairs = [
        (model, optimizer),
        (other, again),
        copy.deepcopy((model, optimizer)),
        pickle.loads(pickle.dumps((model, optimizer))),
    ]
    for m, o in pairs:
        o.zero_grad()
        o.backward(m(x), SoftmaxCrossEntropy(), t)
        o.register_step_post_hook(lambda *_: calls.append(1))
        o.step()
        for p, q in zip(model.parameters(), m.parameters(), strict=True):
            torch.testing.assert_close(q, p)
            assert m is model or q is not p
    assert len(calls) == 4
    assert "Adam" in repr(optimizer)
    assert "fisher" in repr(optimizer)
    optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})
    assert len(optimizer.param_groups) == 2


@for_each(
    "run, error, message",
    [
        (lambda y: SplitPoint(NewtonStep("hessian")), ValueError, "'hessian' needs the loss"),
        (lambda y: SplitPoint(OptimizerStep(torch.optim.SGD)), TypeError, "needs GradientStep"),
        (lambda y: SplitPoint(GradientStep), TypeError, r"needs GradientStep\(\) .*, got <class"),
        (
            lambda y: SplitOptimizer(network(), GradientStep()),
            TypeError,
            "an optimiser of torch is needed",
        ),
        (
            lambda y: SplitOptimizer(torch.optim.SGD(network().parameters()), "fisher"),
            TypeError,
            "a step such as",
        ),
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


@for_each(fused=[False, True])
def test_scaled_gradients(fused):
    """With a scaler of mixed precision the step is the same as without; fused ones unscale."""
    x, t = data()
    steps = []
    for scaled in (False, True):
        model = network()
        scaler = torch.amp.GradScaler("cpu") if scaled else None
        sgd = torch.optim.SGD(model.parameters(), 0.1, fused=fused)
        torch.optim.lr_scheduler.StepLR(sgd, 2)
        optimizer = SplitOptimizer(sgd, NewtonStep("fisher"), scaler=scaler)
        optimizer.backward(model(x), SoftmaxCrossEntropy(), t)
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        steps.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    torch.testing.assert_close(steps[1], steps[0])


def test_steps_with_infinite_gradients_are_left_out():
    x, t = data()
    model = network()
    before = [p.detach().clone() for p in model.parameters()]
    scaler = torch.amp.GradScaler("cpu")
    sgd = torch.optim.SGD(model.parameters(), 0.1, fused=True)
    optimizer = SplitOptimizer(sgd, GradientStep(), scaler=scaler)
    optimizer.backward(model(x), SoftmaxCrossEntropy(), t)
    assert model[0].weight.grad is not None
    model[0].weight.grad[0, 0] = torch.inf
    scaler.step(optimizer)
    scaler.update()
    for p, q in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(p.detach(), q, rtol=0, atol=0)
    assert not hasattr(sgd, "found_inf")
