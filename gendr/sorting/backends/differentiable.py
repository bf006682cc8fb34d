"""Autograd functions around the kernels of a compiled backend, shared by all such backends.

Kernels are plain functions without autograd. The first derivative is a kernel too; if a graph of
the backward pass is wanted, for second derivatives, the reference backend makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from gendr._runtime.ranges import finite
from gendr.distributions import Distribution, Law
from gendr.distributions.decisions import Number
from gendr.sorting.backends import reference
from gendr.sorting.backends.interface import Gated, Kernels
from gendr.sorting.networks import Network


def has_kernel(dist: Distribution) -> bool:
    """Whether kernels can evaluate it: a law of the registry whose parameters are all numbers.

    Then it is F(sign(d) |d|^p steepness), see `power`, without shift or reversal, as comparators
    need symmetric distributions. Everything else is left to the reference.
    """
    law, shift = dist.law, dist.total_shift()
    if not isinstance(law, Law) or law.shape_parameter is not None or isinstance(shift, Tensor):
        return False
    return shift == 0 and (law.is_symmetric or not dist.is_reversed)


def power(dist: Distribution) -> float:
    """The p of sign(d) |d|^p, into which a law's transforms turn a difference d; 2 for squared."""
    return 2.0 if dist.is_squared else 1.0 - dist.art_exponent


def gates(
    kernels: Kernels, x: Tensor, network: Network, dist: Distribution, steepness: Number
) -> Gated:
    """`Backend.gates` of a compiled backend."""
    if not has_kernel(dist):
        return reference.gates(x, network, dist, steepness)
    return cast("Gated", _Gates.apply(x, steepness, network, dist, kernels))


def carry(
    kernels: Kernels, keep: Tensor, swap: Tensor, network: Network, payload: Tensor | None
) -> Tensor:
    """`Backend.carry` of a compiled backend."""
    return cast("Tensor", _Carry.apply(keep, swap, payload, network, kernels))


def _contiguous(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach().contiguous()


def _again(
    function: Callable[[], Sequence[Tensor]],
    inputs: Sequence[object],
    grads: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """Evaluate `function` again and return the gradients of `inputs` through it, with a graph."""
    wanted = [t for t in inputs if isinstance(t, Tensor) and t.requires_grad]
    with torch.enable_grad():
        # The zero keeps an output that depends on no input, as for n = 1, in the graph.
        zero = sum(t.sum() for t in wanted) * 0
        used = [(out + zero, g) for out, g in zip(function(), grads, strict=True) if g is not None]
        outputs, given = zip(*used, strict=True)
        found = iter(
            torch.autograd.grad(outputs, wanted, given, create_graph=True, materialize_grads=True)
        )
    return [next(found) if isinstance(t, Tensor) and t.requires_grad else None for t in inputs]


class _Gates(torch.autograd.Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        x: Tensor,
        steepness: Number,
        network: Network,
        dist: Distribution,
        kernels: Kernels,
    ) -> Gated:
        save = any(ctx.needs_input_grad)
        ctx.set_materialize_grads(False)
        values, keep, swap, saved = kernels.gates_forward(
            x.detach().contiguous(), network, dist, steepness, save=save
        )
        ctx.mark_non_differentiable(swap)
        if save:
            is_tensor = isinstance(steepness, Tensor)
            ctx.save_for_backward(x, steepness if is_tensor else None, *saved)
            ctx.settings = (None if is_tensor else steepness, network, dist, kernels)
        return values, keep, swap

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        grad_values, grad_keep, _ = grads
        x, steepness, *saved = ctx.saved_tensors
        number, network, dist, kernels = ctx.settings
        steepness = number if steepness is None else steepness
        if grad_values is None and grad_keep is None:
            return (None,) * 5
        if torch.is_grad_enabled():
            found = _again(
                lambda: reference.gates(x, network, dist, steepness)[:2],
                (x, steepness),
                (grad_values, grad_keep),
            )
            return *found, None, None, None
        grad_x, grad_steepness = kernels.gates_backward(
            x.detach().contiguous(), network, dist, steepness, tuple(saved),
            _contiguous(grad_values), _contiguous(grad_keep),
        )  # fmt: skip
        if not isinstance(steepness, Tensor):
            return grad_x, None, None, None, None
        return grad_x, finite(grad_steepness.sum().to(steepness.dtype)), None, None, None


class _Carry(torch.autograd.Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        keep: Tensor,
        swap: Tensor,
        payload: Tensor | None,
        network: Network,
        kernels: Kernels,
    ) -> Tensor:
        ctx.save_for_backward(keep, swap, payload)
        ctx.settings = (network, kernels)
        return kernels.carry_forward(
            keep.detach().contiguous(),
            swap.detach().contiguous(),
            network,
            _contiguous(payload),
        )

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        keep, swap, payload = ctx.saved_tensors
        network, kernels = ctx.settings
        if torch.is_grad_enabled():
            grad_keep, grad_payload = _again(
                lambda: (reference.carry(keep, swap, network, payload),),
                (keep, payload),
                (grad,),
            )
            return grad_keep, None, grad_payload, None, None
        grad_keep, grad_payload = kernels.carry_backward(
            keep.detach().contiguous(),
            swap.detach().contiguous(),
            network,
            _contiguous(payload),
            grad.detach().contiguous(),
        )
        return grad_keep, None, grad_payload, None, None
