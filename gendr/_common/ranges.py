"""Numbers and gradients that stay finite at the ends of the range of floats."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gendr._common.tracing import applied, is_for_onnx


def finite(x: Tensor) -> Tensor:
    """Replace infinities by the largest finite numbers (0 * inf would be NaN); NaN stays NaN."""
    limit = torch.finfo(x.dtype).max
    if is_for_onnx():  # onnxscript 0.7.2 loses the limits of a `Clip` that follows another one
        return torch.where(x > limit, limit, torch.where(x < -limit, -limit, x))
    return x.clamp(-limit, limit)


def spread(x: Tensor, result: Tensor | None = None) -> Tensor:
    """Results [..., n] of lists x [..., n], by default x: with gradients NaN if x is not finite."""
    fixed = x.detach()
    return (x if result is None else result) * ((fixed - fixed).sum(-1, keepdim=True) + 1)


class _Saturated(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, limit: float) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.limit = inputs[1]

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        (grad,) = grad_outputs
        return grad.clamp(-ctx.limit, ctx.limit), None


# (x, bound) -> x, whose gradient is cut to [-bound, bound].
limited = applied(_Saturated)


def saturated(x: Tensor, *, factors: int = 1) -> Tensor:
    """Return x; its gradient is clamped so that differences of gradients are finite too.

    Where an algorithm makes a hard decision, a slope is 0, and 0 * inf would be NaN.

    Args:
        x: any tensor of floats.
        factors: how many numbers of that size can be multiplied: with 2, gradients up to the square
            root of the largest number pass, and products with numbers below it are finite.
    """
    return limited(x, (torch.finfo(x.dtype).max / 4) ** (1 / factors))


class _Ratio(torch.autograd.Function):
    """y = x / scale for equal shapes, with gradients that stay finite even where y overflows.

    The product grad * y comes first: where grad is 0, y / scale may overflow, and 0 * inf be NaN.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, scale: Tensor) -> Tensor:
        return x / scale

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1], output)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, Tensor]:
        (grad,) = grad_outputs
        scale, y = ctx.saved_tensors
        by_scale = -(grad * torch.where(y.isfinite(), y, 0.0)) / scale
        limit = torch.finfo(grad.dtype).max / 4  # of sums of a few, too
        return (grad / scale).clamp(-limit, limit), by_scale.clamp(-limit, limit)


_quotient = applied(_Ratio)


def quotient(x: Tensor, y: Tensor) -> Tensor:
    """Return x / y for y other than 0, with finite gradients; shapes broadcast."""
    return _quotient(*torch.broadcast_tensors(x, y))


def ratio(x: Tensor, scale: float | Tensor) -> Tensor:
    """Return x / scale for a scale > 0, with finite gradients.

    The scale is at least the smallest normal number: 0 / 0 would be NaN.
    """
    if not isinstance(scale, Tensor):
        return saturated(x) / max(scale, torch.finfo(x.dtype).tiny)
    # As `torch.result_type`, which `torch.compile` cannot trace: dtypes of 0-dim tensors yield.
    if (x.ndim == 0) == (scale.ndim == 0):
        dtype = torch.promote_types(x.dtype, scale.dtype)
    else:
        dtype = scale.dtype if x.ndim == 0 and scale.is_floating_point() else x.dtype
    x, scale = x.to(dtype), scale.to(dtype).clamp(min=torch.finfo(dtype).tiny)
    if not scale.requires_grad:
        return saturated(x) / scale
    return quotient(x, scale)
