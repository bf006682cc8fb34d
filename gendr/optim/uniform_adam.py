"""Adam that divides by one number per tensor: `UniformAdam`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, overload

import torch
from torch import Tensor

from gendr._common.checks import check_number


class UniformAdamStep(NamedTuple):
    """The result of a step.

    Attributes:
        value: The parameter after the step.
        first: The average of the gradient.
        second: The average of its square.
    """

    value: Tensor
    first: Tensor
    second: Tensor


def uniform_adam_step(
    value: Tensor,
    grad: Tensor,
    first: Tensor,
    second: Tensor,
    *,
    step: int,
    lr: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-12,
) -> UniformAdamStep:
    """One step of `UniformAdam` as a function: nothing is changed, all results are new tensors.

    Args:
        value: The parameter, of any shape with elements.
        grad: Its gradient, of the same shape, as `first` and `second`.
        first: The average of the gradient so far; zeros before the first step.
        second: The average of its square so far; zeros before the first step.
        step: The number of this step, from 1.
        lr: Step length, > 0, in the unit of the parameter.
        betas: Decay rates of the two averages, in [0, 1).
        eps: >= 0, added to the denominator.
    """
    b1, b2 = betas
    first = b1 * first + (1 - b1) * grad
    second = b2 * second + (1 - b2) * grad.square()
    largest = (second.max() / (1 - b2**step)).sqrt()
    value = value - lr / (1 - b1**step) * first / (largest + eps)
    return UniformAdamStep(value, first, second)


class UniformAdam(torch.optim.Optimizer):
    """Adam whose denominator is one number for all elements of a parameter.

    Adam divides every element by the root of the average of its own squared gradient. Its step is
    then not parallel to the averaged gradient: vertices with a small gradient move as far as those
    with a large one, and the surface becomes rough. Here all elements are divided by the largest of
    these roots. The step is then parallel to the averaged gradient, and `lr` is about how far the
    element with the largest gradient moves. For a parameter with one element it is Adam.

    It works well with `gendr.SmoothParametrization`.

    Args:
        params: Parameters, or groups of them, as for every optimiser of torch.
        lr: Step length, > 0, in the unit of the parameters.
        betas: Decay rates of the averages of the gradient and of its square, in [0, 1).
        eps: >= 0, added to the denominator.

    Raises:
        TypeError: If an argument that must be a number is none.
        ValueError: If a number is out of range.

    Source: Nicolet, Jacobson, Jakob, Large Steps in Inverse Rendering of Geometry, 2021
    (`AdamUniform` in its code); Kingma, Ba, Adam, 2015.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-12,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, which may set its own options.

        Raises:
            TypeError: If an argument that must be a number is none.
            ValueError: If a number is out of range.
        """
        options = {**self.defaults, **param_group}
        check_number("lr", options["lr"], above=0)
        if check_number("eps", options["eps"]) < 0:
            raise ValueError(f"eps must be >= 0, got {options['eps']!r}")
        if not isinstance(options["betas"], Sequence) or len(options["betas"]) != 2:
            raise ValueError(f"betas must be two numbers, got {options['betas']!r}")
        for beta in options["betas"]:
            if not 0 <= check_number("betas", beta) < 1:
                raise ValueError(f"betas must be in [0, 1), got {options['betas']!r}")
        super().add_param_group(param_group)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state.

        Raises:
            ValueError: if it is of another optimiser, such as `torch.optim.Adam`.
        """
        for state in state_dict["state"].values():
            if state and not {"step", "first", "second"} <= state.keys():
                got = ", ".join(map(str, state))
                raise ValueError(
                    f"the state is of another optimiser: it holds {got}, this one has step, first "
                    "and second; load it there, or start anew"
                )
        super().load_state_dict(state_dict)

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Do one step for all parameters that have a gradient.

        Args:
            closure: Computes the loss and its gradients again, and returns the loss.

        Returns:
            What the closure returned, or None.

        Raises:
            TypeError: for a parameter of float16.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            options = {name: group[name] for name in ("lr", "betas", "eps")}
            for parameter in group["params"]:
                if parameter.grad is not None and parameter.numel():
                    self._move(parameter, options)
        return loss

    def _move(self, parameter: Tensor, options: dict[str, Any]) -> None:
        assert parameter.grad is not None  # for the type checker
        state = self.state[parameter]
        if not state:
            if parameter.dtype == torch.float16:
                raise TypeError(
                    "a parameter is float16, in which squares of gradients are 0 or infinite; keep "
                    "it in float32 and use torch.autocast"
                )
            state["step"] = 0
            state["first"] = torch.zeros_like(parameter)
            state["second"] = torch.zeros_like(parameter)
        state["step"] += 1
        moved = uniform_adam_step(
            parameter, parameter.grad, state["first"], state["second"],
            step=state["step"], **options,
        )  # fmt: skip
        parameter.copy_(moved.value)
        state["first"], state["second"] = moved.first, moved.second
