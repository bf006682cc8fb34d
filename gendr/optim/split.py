"""Split backpropagation: one optimiser for the loss, another one for the network.

A loss behind an algorithm is ill-conditioned where the network in front of it is not. So the step
is made in two stages (thesis, 7.3a and 7.3b): from the output y of the network to a better one z*,
by whatever suits the loss; and from the parameters to better ones, by an ordinary optimiser on
1/2 ||z* - y||^2.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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


class SplitOptimizer(torch.optim.Optimizer):
    """Any optimiser of torch, with another step for the loss.

    Two lines of a training change:

    >>> optimizer = SplitOptimizer(torch.optim.Adam(model.parameters()), NewtonStep("fisher"))
    >>> ...
    >>> optimizer.zero_grad()
    >>> loss = optimizer.backward(model(x), criterion, y)    # in the place of loss.backward()
    >>> optimizer.step()

    All else, its state, its groups and schedules of its rate, is that of the optimiser inside.

    Args:
        optimizer: of the parameters.
        step: of the outputs.
        scaler: of gradients in mixed precision, if there is one: `backward` scales by it, and
            `scaler.step(optimizer)` and `scaler.update()` stay yours.

    Raises:
        TypeError: if there is no optimiser of torch, or no step.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        step: Step,
        *,
        scaler: torch.amp.GradScaler | None = None,
    ) -> None:
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"an optimiser of torch is needed, got {type(optimizer).__name__}")
        _checked_step(step)
        # The attributes of an optimiser, among them the hooks, are those of the one inside; but for
        # the `step` that a schedule of it has put there.
        self.__dict__.update({k: v for k, v in optimizer.__dict__.items() if k != "step"})
        self.optimizer, self.output_step, self.scaler = optimizer, step, scaler

    @in_single
    def backward(self, output: Tensor, loss: SampleLoss, *args: Any, **kwargs: Any) -> Tensor:
        """Add the gradients of the second stage to the parameters.

        Args:
            output: [N, *event] of the network, with a gradient.
            loss: see `split_step`.
            *args: passed on to the loss.
            **kwargs: passed on to the loss.

        Returns:
            The mean of the loss itself, without a gradient.
        """
        y = checked_output(output)
        checked_loss(loss)
        target = self.output_step(y, loss, *args, **kwargs)
        loss_of_output = distance_to(target.z, y)
        if self.scaler is not None:
            loss_of_output = self.scaler.scale(loss_of_output)
        loss_of_output.backward()
        return target.values.mean()

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One step of the optimiser inside."""
        # A scaler tells fused optimisers, which undo the scale themselves, by these attributes.
        given = [name for name in ("grad_scale", "found_inf") if name in self.__dict__]
        for name in given:
            setattr(self.optimizer, name, self.__dict__[name])
        try:
            return self.optimizer.step(closure)  # pyright: ignore[reportArgumentType]
        finally:
            for name in given:
                delattr(self.optimizer, name)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        self.optimizer.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """The state of the optimiser inside; a step has none."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of the optimiser inside."""
        self.optimizer.load_state_dict(state_dict)
        self.__dict__.update(state=self.optimizer.state, param_groups=self.optimizer.param_groups)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters to the optimiser inside."""
        self.optimizer.add_param_group(param_group)

    def __reduce__(self) -> tuple[Any, ...]:
        """What copies and pickles are made of; that of an optimiser keeps its groups alone."""
        return partial(type(self), scaler=self.scaler), (self.optimizer, self.output_step)

    def __repr__(self) -> str:
        """The optimiser and the step."""
        return f"SplitOptimizer({self.optimizer!r}, {self.output_step!r})"
