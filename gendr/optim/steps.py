"""The first of the two stages of split backpropagation: from an output y to a better one, z*.

Source: thesis, (7.3a) and 7.3, Definitions 7.1 to 7.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from gendr._common.checks import check_choice, check_count, check_finite, check_number
from gendr.optim.curvature import (
    SECONDS,
    SampleLoss,
    Second,
    damped_quotient,
    damped_solve,
    derivatives,
    evaluated,
    fisher_solve,
    ordinary,
)

Curvature: TypeAlias = Literal["hessian", "fisher", "elementwise"]
CURVATURES: tuple[Curvature, ...] = ("hessian", "fisher", "elementwise")


class Target(NamedTuple):
    """Where an output should go.

    Attributes:
        z: the target z*, in the shape of the output; a constant, no gradient flows through it.
        values: of the loss at the output, [N].
    """

    z: Tensor
    values: Tensor


class Step(Protocol):
    """One step of an optimiser on a loss, in the space of the outputs of a network."""

    def __call__(self, output: Tensor, loss: SampleLoss, *args: Any, **kwargs: Any) -> Target:
        """The target of outputs [N, *event], whose loss with the further arguments is [N]."""
        ...


@dataclass(frozen=True)
class GradientStep:
    """Gradient descent: z* = y - lr * gradient. With lr 1 the split changes nothing (Theorem 7.2).

    Args:
        lr: > 0.

    Raises:
        TypeError: if it is no number.
        ValueError: if it is not positive.
    """

    lr: float = 1.0

    def __post_init__(self) -> None:
        check_number("lr", self.lr, above=0)

    def __call__(self, output: Tensor, loss: SampleLoss, *args: Any, **kwargs: Any) -> Target:
        """See `Step`."""
        result = derivatives(loss, output, *args, hessian=False, **kwargs)
        gradient = check_finite("the gradient of the loss", result.gradient)
        return Target(_moved(output, -self.lr * gradient), result.values)

    def of_gradient(self, gradient: Tensor) -> Tensor:
        """z* - y for gradients [N, m]."""
        return -self.lr * gradient


@dataclass(frozen=True)
class NewtonStep:
    """A damped Newton step: z* = y - lr (|C| + tikhonov I)^-1 gradient.

    C is the mean of the Hessians of all samples ("hessian", Definition 7.2), the mean of the
    products gradient gradient^T ("fisher", Definition 7.3), or each sample's own Hessian
    ("elementwise", Definition 7.1). |C| has the absolute eigenvalues of C, so that an indefinite
    Hessian still leads downhill; with tikhonov 0 there is no step in directions without curvature.

    Args:
        curvature: "hessian", "fisher" or "elementwise".
        tikhonov: >= 0, in units of the curvature. The larger, the nearer to a gradient step of
            length 1 / tikhonov.
        lr: > 0; 1 is Newton's own.
        second: how the Hessian is computed, by "autograd" or by "differences", see `derivatives`.
    """

    curvature: Curvature = "hessian"
    tikhonov: float = 0.1
    lr: float = 1.0
    second: Second = "autograd"

    def __post_init__(self) -> None:
        check_choice("curvature", self.curvature, CURVATURES)
        check_number("tikhonov", self.tikhonov, least=0)
        check_number("lr", self.lr, above=0)
        check_choice("second", self.second, SECONDS)

    def __call__(self, output: Tensor, loss: SampleLoss, *args: Any, **kwargs: Any) -> Target:
        """See `Step`.

        Raises:
            ValueError: if a gradient or a Hessian is not finite.
        """
        wanted = self.curvature != "fisher"
        result = derivatives(loss, output, *args, hessian=wanted, second=self.second, **kwargs)
        gradient = check_finite("the gradient of the loss", result.gradient)
        if result.hessian is None or not wanted:
            return Target(_moved(output, self.of_gradient(gradient)), result.values)
        hessian = check_finite("the Hessian of the loss", result.hessian)
        solve = damped_quotient if hessian.ndim == 2 else damped_solve
        matrix = hessian.mean(0) if self.curvature == "hessian" else hessian
        delta = -self.lr * solve(matrix, gradient, self.tikhonov)
        return Target(_moved(output, delta), result.values)

    def of_gradient(self, gradient: Tensor) -> Tensor:
        """z* - y for gradients [N, m]; for "fisher" alone.

        Raises:
            ValueError: for another curvature.
        """
        if self.curvature != "fisher":
            raise ValueError(
                f"curvature={self.curvature!r} needs the loss, and here is only its gradient; use "
                "curvature='fisher'"
            )
        return -self.lr * fisher_solve(gradient, self.tikhonov)


@dataclass(frozen=True)
class OptimizerStep:
    """Some steps of any optimiser of torch on the outputs themselves.

    >>> OptimizerStep(lambda z: torch.optim.LBFGS(z, max_iter=5))

    Args:
        make: takes a list of the one tensor of outputs, and returns the optimiser.
        steps: how many steps.

    Raises:
        TypeError: if `make` cannot be called, or `steps` is no int.
        ValueError: if `steps` is < 1.
    """

    make: Callable[[Iterable[Tensor]], torch.optim.Optimizer]
    steps: int = 1

    def __post_init__(self) -> None:
        if not callable(self.make):
            raise TypeError(f"make must make an optimiser, got {type(self.make).__name__}")
        check_count("steps", self.steps)

    def __call__(self, output: Tensor, loss: SampleLoss, *args: Any, **kwargs: Any) -> Target:
        """See `Step`."""
        if torch.is_inference_mode_enabled() or output.is_inference():
            # Nothing can be differentiated in inference mode, nor what was made in it.
            with torch.inference_mode(False):
                given, copies, more = ordinary(output, args, kwargs)
                return self(given, loss, *copies, **more)
        z = output.detach().clone().requires_grad_()
        optimizer = self.make([z])
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"make must return an optimiser, got {type(optimizer).__name__}")
        first: list[Tensor] = []

        def closure() -> float:
            optimizer.zero_grad()
            _, values = evaluated(loss, z, args, kwargs)
            first.append(values.detach())
            total = values.sum()
            # To the outputs alone: labels, and parameters of the loss, are not of this stage.
            total.backward(inputs=[z])
            return float(total.detach())

        with torch.enable_grad():
            for _ in range(self.steps):
                optimizer.step(closure)
        return Target(check_finite("the target", z.detach()), first[0])


def _moved(output: Tensor, delta: Tensor) -> Tensor:
    """The output and what is added to it, [N, m]."""
    return output.detach() + delta.reshape(output.shape).to(output.dtype)
