"""Newton losses: second order for the loss, first order for the network. Source: thesis, 7.3."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from gendr._common.tracing import in_single
from gendr.optim.curvature import SampleLoss, Second, checked_loss
from gendr.optim.split import checked_output, distance_to
from gendr.optim.steps import Curvature, NewtonStep


class NewtonLoss(nn.Module):
    """A loss whose gradient is the Newton step of another one: 1/2 ||z* - y||^2, (7.25).

    >>> criterion = NewtonLoss(loss, curvature="fisher", tikhonov=0.1)
    >>> criterion(model(x), y).backward()
    >>> criterion.value                      # the mean of the loss itself, to look at

    z* is a damped Newton step from the output y, see `NewtonStep`, and a constant: no gradient
    flows through it (Remark 7.2), nor to parameters of the loss, such as a learnt steepness.

    Args:
        loss: takes outputs [N, *event] and more, and returns one number for each sample, [N];
            differentiable twice; once is enough for "fisher". A loss with a method `derivatives` is
            asked for them instead, see `HasDerivatives`: such as one with a closed form, or one
            without gradients whose derivatives are estimated.
        curvature: "hessian", the mean over the batch, "fisher" or "elementwise".
        tikhonov: >= 0; what is added to the eigenvalues of the curvature.
        lr: > 0; the length of the step, 1 is Newton's own.
        second: how the Hessian is computed: by "autograd", exactly, or by finite "differences" of
            gradients in float64, which take far less time for losses with compiled kernels, such as
            those of sorting networks; see `derivatives`.

    Attributes:
        value: the mean of the loss in the last call; None before the first.

    Raises:
        TypeError: if the loss is no function, or a setting no number.
        ValueError: for an unknown curvature, or a setting out of range.
    """

    value: Tensor | None

    def __init__(
        self,
        loss: SampleLoss,
        curvature: Curvature = "hessian",
        *,
        tikhonov: float = 0.1,
        lr: float = 1.0,
        second: Second = "autograd",
    ) -> None:
        super().__init__()
        checked_loss(loss)
        self.loss = loss
        self.step = NewtonStep(curvature, tikhonov, lr, second)
        self.value = None

    @in_single
    def forward(self, output: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """The mean of 1/2 ||z* - y||^2 over the samples of outputs [N, *event].

        Raises:
            TypeError: if the output is no tensor of floats.
            ValueError: if the output has no gradient, if the loss does not return [N], or if a
                gradient or Hessian is not finite.
        """
        target = self.step(checked_output(output), self.loss, *args, **kwargs)
        self.value = target.values.mean()
        return distance_to(target.z, output)

    @in_single
    def target(self, output: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """The targets z* of outputs [N, *event], in their shape."""
        with torch.no_grad():
            return self.step(checked_output(output), self.loss, *args, **kwargs).z

    def extra_repr(self) -> str:
        """The step."""
        return repr(self.step)
