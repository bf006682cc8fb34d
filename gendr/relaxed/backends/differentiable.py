"""The autograd function around a kernel, one for all algorithms.

The first derivative is a kernel too. If a graph of the backward pass is wanted, for second
derivatives, the torch code of the algorithm makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor

from gendr.distributions import Distribution
from gendr.distributions.decisions import Number
from gendr.relaxed.backends.interface import Kernel
from gendr.relaxed.backends.laws import Law, for_kernels

# The torch code of an algorithm: (tensors, steepness) -> results.
Reference: TypeAlias = "Callable[[tuple[Tensor, ...], Number], tuple[Tensor, ...]]"


def computed(
    kernel: Kernel | None,
    reference: Reference,
    dist: Distribution,
    steepness: Number,
    tensors: Sequence[Tensor],
    settings: Any,
) -> tuple[Tensor, ...]:
    """The results of a kernel, or of the reference if there is no kernel for this law.

    Args:
        kernel: of the backend, None if it has none.
        reference: the same in torch.
        dist: checked by `check_law`.
        steepness: checked by `check_steepness`.
        tensors: the differentiable inputs; they have the same dtype, that of the results.
        settings: what else the kernel needs.
    """
    law = None if kernel is None else for_kernels(dist, steepness)
    if kernel is None or law is None:
        return reference(tuple(tensors), steepness)
    return cast(
        "tuple[Tensor, ...]", _Run.apply(kernel, reference, law, settings, steepness, *tensors)
    )


def shaped(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """The tensor in this shape; itself if it has it, since a view is a step of autograd."""
    return tensor if tensor.shape == tuple(shape) else tensor.reshape(tuple(shape))


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().double().contiguous()


class _Run(torch.autograd.Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        kernel: Kernel,
        reference: Reference,
        law: Law,
        settings: Any,
        steepness: Number,
        *tensors: Tensor,
    ) -> tuple[Tensor, ...]:
        save = any(ctx.needs_input_grad)
        results, saved = kernel.forward(tuple(map(_plain, tensors)), law, settings, save=save)
        if save:
            is_tensor = isinstance(steepness, Tensor)
            ctx.save_for_backward(steepness if is_tensor else None, *tensors, *saved)
            ctx.plan = (kernel, reference, law, settings, None if is_tensor else steepness)
            ctx.count = len(tensors)
        dtype = tensors[0].dtype
        return tuple(result.to(dtype) for result in results)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        kernel, reference, law, settings, number = ctx.plan
        given, *rest = ctx.saved_tensors
        tensors, saved = tuple(rest[: ctx.count]), tuple(rest[ctx.count :])
        steepness = number if given is None else given
        if torch.is_grad_enabled():
            found = _again(reference, tensors, steepness, grads)
            return None, None, None, None, *found
        by_steepness, by_tensors = kernel.backward(
            tuple(map(_plain, tensors)), law, settings, saved, tuple(map(_plain, grads))
        )
        by_steepness = None if given is None else by_steepness.sum().to(given.dtype)
        return (
            None, None, None, None, by_steepness,
            *(g.to(t.dtype) for g, t in zip(by_tensors, tensors, strict=True)),
        )  # fmt: skip


def _again(
    reference: Reference,
    tensors: tuple[Tensor, ...],
    steepness: Number,
    grads: tuple[Tensor, ...],
) -> list[Tensor | None]:
    """The gradients of the steepness and the tensors through the reference, with a graph."""
    inputs = (steepness, *tensors)
    wanted = [t for t in inputs if isinstance(t, Tensor) and t.requires_grad]
    with torch.enable_grad():
        zero = sum(t.sum() for t in wanted) * 0  # keeps results that depend on no input
        results = [result + zero for result in reference(tensors, steepness)]
        found = iter(
            torch.autograd.grad(results, wanted, grads, create_graph=True, materialize_grads=True)
        )
    return [next(found) if isinstance(t, Tensor) and t.requires_grad else None for t in inputs]
