"""Derivatives estimated from samples: moments of the noise, Fenchel-Young losses, Newton losses."""

import numpy as np
import pytest
import torch

from gendr.optim import NewtonLoss, derivatives
from gendr.relaxed.estimators import FenchelYoungLoss, SmoothedLoss
from support.cases import for_each


def quartic(x, w):
    return float(((x - w) ** 4).sum() + x[0] * x[1])


def stacked(x, w):
    return ((x - w) ** 4).sum(1) + x[:, 0] * x[:, 1]


def inputs():
    x = torch.tensor([[0.3, -0.2], [1.0, 0.5]], dtype=torch.float64)
    return x, torch.tensor([[0.0, 0.4], [0.5, 0.5]], dtype=torch.float64)


def smooth_quartic(x, w, variance, fourth):
    """The exact expectation and derivatives of `quartic` with noise of these moments."""
    d = x - w
    value = (d**4 + 6 * d**2 * variance + fourth).sum(1) + x[:, 0] * x[:, 1]
    gradient = 4 * d**3 + 12 * d * variance + x.flip(1)
    hessian = torch.diag_embed(12 * d**2 + 12 * variance)
    return value, gradient, hessian + torch.tensor([[0.0, 1.0], [1.0, 0.0]]).double()


@pytest.mark.rotating(4, group="long")
def test_derivatives_of_the_expectation():
    """Lemma 2.1, first and second order, for noise whose moments are known."""
    variance, fourth = np.pi**2 / 3, 7 * np.pi**4 / 15
    x, w = inputs()
    s = 0.3
    exact = smooth_quartic(x, w, variance * s**2, fourth * s**4)
    loss = SmoothedLoss(stacked, samples=400_000, scale=s, dist="logistic", batched=True, seed=0)
    value, gradient, hessian = loss.derivatives(x, w)
    torch.testing.assert_close(value, exact[0], rtol=0.02, atol=0.02)
    torch.testing.assert_close(gradient, exact[1], rtol=0.05, atol=0.05)
    torch.testing.assert_close(hessian, exact[2], rtol=0.1, atol=0.2)


def test_first_order_is_that_of_the_loss():
    x, w = inputs()
    loss = SmoothedLoss(quartic, samples=6, seed=3, reduction="none")
    leaf = x.clone().requires_grad_()
    value = loss(leaf, w)
    (value * torch.tensor([1.0, 2.0])).sum().backward()
    same = SmoothedLoss(stacked, samples=6, seed=3, batched=True, workers=2)
    expected, gradient, _ = same.derivatives(x, w)
    same.close()
    torch.testing.assert_close(value.detach(), expected)
    torch.testing.assert_close(leaf.grad, gradient * torch.tensor([[1.0], [2.0]]).double())


@for_each(curvature=["hessian", "fisher", "elementwise"])
def test_newton_losses_of_estimates(curvature):
    x, w = inputs()
    y = x.clone().requires_grad_()
    loss = SmoothedLoss(quartic, samples=50, scale=0.3, seed=0)
    NewtonLoss(loss, curvature)(y, w).backward()
    assert torch.isfinite(y.grad).all()
    assert float((y.grad * (x - w)).sum()) > 0


def top(costs):
    """The one-hot maximum, as a solver."""
    return (costs == costs.max(-1, keepdims=True)).astype(costs.dtype)


def test_hessian_of_the_fenchel_young_loss():
    """With Gumbel noise the mean maximum is softmax: the Hessian is diag(q) - q q^T."""
    x = torch.tensor([[0.3, -0.4, 0.1]], dtype=torch.float64)
    wanted = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)
    loss = FenchelYoungLoss(
        top, minimize=False, samples=400_000, dist="gumbel_max", batched=True, seed=0
    )
    _, gradient, hessian = loss.derivatives(x, wanted)
    q = x.softmax(1)
    torch.testing.assert_close(gradient, q - wanted, rtol=0, atol=0.01)
    torch.testing.assert_close(
        hessian, torch.diag_embed(q) - q[:, :, None] * q[:, None], rtol=0, atol=0.01
    )
    flipped = FenchelYoungLoss(
        lambda c: top(-c), minimize=True, samples=400_000, dist="gumbel_min", batched=True, seed=0
    )
    _, gradient, hessian = flipped.derivatives(-x, wanted)
    torch.testing.assert_close(gradient, wanted - q, rtol=0, atol=0.01)
    torch.testing.assert_close(
        hessian, torch.diag_embed(q) - q[:, :, None] * q[:, None], rtol=0, atol=0.01
    )


@for_each(
    loss=[
        SmoothedLoss(quartic, samples=6, seed=3, reduction="none"),
        FenchelYoungLoss(top, minimize=False, samples=6, seed=3, reduction="none"),
        # A gradient that depends on the input beside the estimate, too.
        lambda x, w: SmoothedLoss(quartic, samples=6, seed=3, reduction="none")(x * x, w),
    ]
)
def test_hessians_of_estimates_inside_a_function_are_an_error(loss):
    """Autograd would take the estimated gradient for a constant, and find no curvature."""
    x, w = inputs()
    with pytest.raises(ValueError, match=r"twice differentiable.*Hessian of its own"):
        derivatives(lambda x, w: 2 * loss(x, w), x, w)
    found = derivatives(lambda x, w: 2 * loss(x, w), x, w, hessian=False)
    assert torch.isfinite(found.gradient).all()


def test_bad_input():
    x, w = inputs()
    with pytest.raises(ValueError, match="samples must be >= 2"):
        SmoothedLoss(quartic, samples=1)
    with pytest.raises(ValueError, match="density without jumps"):
        SmoothedLoss(quartic, dist="uniform")
    for dist in ("laplace", "gamma(shape=2)"):  # the diagonal came without what the kink adds
        kinked = SmoothedLoss(quartic, dist=dist)
        assert kinked.derivatives(x, w, hessian=False)[2] is None
        with pytest.raises(ValueError, match="density without kinks"):
            kinked.derivatives(x, w)
    with pytest.raises(ValueError, match="an entry for each of 2 inputs"):
        SmoothedLoss(quartic)(x, w[:1])
    with pytest.raises(ValueError, match="a number for each of 20 samples"):
        SmoothedLoss(lambda x: x)(x)
    with pytest.raises(ValueError, match="x must be finite"):
        SmoothedLoss(quartic)(x * torch.nan, w)
