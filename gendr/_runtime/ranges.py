"""Numbers and gradients that stay finite at the ends of the range of floats."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

__all__ = ["finite", "ratio", "saturated"]


def finite(x: Tensor) -> Tensor:
    """Replace infinities by the largest finite numbers (0 * inf would be NaN); NaN stays NaN."""
    limit = torch.finfo(x.dtype).max
    return x.clamp(-limit, limit)


class _Saturated(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        (grad,) = grad_outputs
        limit = torch.finfo(grad.dtype).max / 4
        return grad.clamp(-limit, limit)


def saturated(x: Tensor) -> Tensor:
    """Return x; its gradient is clamped so that differences of gradients are finite too.

    Where an algorithm makes a hard decision, a slope is 0, and 0 * inf would be NaN.
    """
    return cast("Tensor", _Saturated.apply(x))


class _Ratio(torch.autograd.Function):
    """y = x / scale for equal shapes, with gradients that stay finite even where y overflows."""

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
        return finite(grad / scale), finite(by_scale)


def ratio(x: Tensor, scale: float | Tensor) -> Tensor:
    """Return x / scale for a scale > 0, with finite gradients.

    The scale is at least the smallest normal number: 0 / 0 would be NaN.
    """
    if not isinstance(scale, Tensor):
        return saturated(x) / max(scale, torch.finfo(x.dtype).tiny)
    # Only for two dtypes: torch.compile cannot trace it.
    dtype = x.dtype if x.dtype == scale.dtype else torch.result_type(x, scale)
    x, scale = x.to(dtype), scale.to(dtype).clamp(min=torch.finfo(dtype).tiny)
    if not scale.requires_grad:
        return saturated(x) / scale
    return cast("Tensor", _Ratio.apply(*torch.broadcast_tensors(x, scale)))
