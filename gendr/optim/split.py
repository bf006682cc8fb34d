"""Split backpropagation: one optimiser for the loss, another one for the network.

A loss behind an algorithm is ill-conditioned where the network in front of it is not. So the step
is made in two stages (thesis, 7.3a and 7.3b): from the output y of the network to a better one z*,
by whatever suits the loss; and from the parameters to better ones, by an ordinary optimiser on
1/2 ||z* - y||^2.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from gendr._common.checks import check_float, shape_text
from gendr._common.tracing import in_single, refuse_transforms
from gendr.optim.curvature import SampleLoss, checked_loss
from gendr.optim.steps import GradientStep, NewtonStep, Step


@in_single
def split_step(
    output: Tensor, loss: SampleLoss, *args: Any, step: Step | None = None, **kwargs: Any
) -> Tensor:
    """The loss of the second stage, whose gradient takes the place of that of the first.

    >>> loss = split_step(model(x), criterion, y, step=NewtonStep("fisher"))
    >>> loss.backward()

    Args:
        output: y [N, *event] of a network, with a gradient.
        loss: takes outputs and `args`, and returns one number for each sample, [N].
        *args: passed on to the loss.
        step: from y to z*; `GradientStep()` by default, with which nothing changes.
        **kwargs: passed on to the loss.

    Returns:
        The mean over the samples of 1/2 ||z* - y||^2; its gradient at y is (y - z*) / N.

    Raises:
        TypeError: if the output is no tensor of floats, or the loss or the step is no function.
        ValueError: if the output has no gradient, or the loss does not return [N].
    """
    y = checked_output(output)
    checked_loss(loss)
    chosen = _checked_step(GradientStep() if step is None else step)
    return distance_to(chosen(y, loss, *args, **kwargs).z, y)


def _checked_step(step: Step) -> Step:
    """The step if it is one: something that can be called, and no class of steps."""
    if isinstance(step, type) or not callable(step):
        raise TypeError(
            "a step such as NewtonStep() is needed, got "
            f"{f'the class {step.__name__}' if isinstance(step, type) else type(step).__name__}"
        )
    return step


def checked_output(output: Tensor) -> Tensor:
    """The output if it is [N, *event] with N > 0, floating, and with a gradient where one is taken.

    Raises:
        TypeError: if it is no tensor of floats.
        ValueError: if it is a single number, empty, or without a gradient.
    """
    refuse_transforms("a step of a split")
    y = check_float("output", output)
    if y.ndim == 0 or not y.numel():
        raise ValueError(
            f"output must have a batch of numbers, [N, ...], got {shape_text(y.shape)}"
        )
    if torch.is_grad_enabled() and not y.requires_grad:
        raise ValueError(
            "output has no gradient: give what the network returns, not detached; to only look at "
            "the loss, use torch.no_grad()"
        )
    return y


def distance_to(target: Tensor, output: Tensor) -> Tensor:
    """The mean over the samples of 1/2 ||z* - y||^2, for z* and y [N, *event]."""
    whole = functional.mse_loss(output, target.detach(), reduction="sum")
    return whole * (0.5 / len(output))


class SplitPoint(nn.Module):
    """A further cut, inside a network: an identity whose gradient goes through a step.

    >>> model = nn.Sequential(first, SplitPoint(NewtonStep("fisher")), second)

    In the forward pass nothing happens to the value y. In the backward pass the gradient by y is
    replaced by (y - z*) / N, where z* is a step from y, so that the layers before are trained on
    the mean of 1/2 ||z* - y||^2. Batches are [N, *event]; the loss must be a mean over the N
    samples.

    Args:
        step: one that needs gradients only: `GradientStep` or `NewtonStep("fisher")`.

    Raises:
        TypeError: for something else than such a step.
        ValueError: for a step that needs the loss itself.
    """

    def __init__(self, step: GradientStep | NewtonStep) -> None:
        super().__init__()
        if isinstance(step, type) or not hasattr(step, "of_gradient"):
            raise TypeError(
                f"a cut inside a network needs GradientStep() or NewtonStep('fisher'), got {step!r}"
            )
        if isinstance(step, NewtonStep) and step.curvature != "fisher":
            step.of_gradient(torch.zeros(1, 1))  # raises
        self.step = step

    def forward(self, x: Tensor) -> Tensor:
        """The input itself, [N, *event]."""
        return _Split.apply(x, self.step)  # pyright: ignore[reportReturnType]

    def extra_repr(self) -> str:
        """The step."""
        return repr(self.step)


class _Split(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, step: GradientStep | NewtonStep) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.step = step
        return x.view_as(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (grad,) = grads
        count = len(grad)
        each = grad.reshape(count, -1) * count  # of the loss of each sample, not of their mean
        return -ctx.step.of_gradient(each).reshape(grad.shape) / count, None
