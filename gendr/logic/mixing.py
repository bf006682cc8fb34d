"""What the inputs of gates see of their candidates: means that are weighted by shares.

y_n = sum over c of s_cn x[w_cn] is a product with a sparse matrix. Rows of the batch are neighbours
in memory, as in layers of gates. Plain PyTorch, whose bags of embeddings add up rows without a copy
of them. What is kept for the backward pass are the features and the shares.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from gendr._runtime.tracing import is_traced
from gendr.logic.backends.wires import Wires

__all__ = ["mixed"]


def mixed(x: Tensor, wires: Wires, shares: Tensor) -> Tensor:
    """The weighted means [N, B] of features x [F, B].

    Args:
        x: [F, B].
        wires: of the candidates, [C, N].
        shares: [C, N], of each candidate, in the dtype of x.

    Differentiable twice in x and shares.
    """
    if is_traced():  # whose code makes no copies
        return _sums(x, wires, shares)
    return cast("Tensor", _Mixed.apply(x, shares, wires))


def _sums(x: Tensor, wires: Wires, shares: Tensor) -> Tensor:
    """The definition, differentiable any number of times; it copies the rows of all candidates."""
    return (shares[..., None] * x[wires.inputs]).sum(0)


def _bags(x: Tensor, wires: Wires, shares: Tensor) -> Tensor:
    return embedding_bag(
        wires.inputs.T.contiguous(), x, mode="sum", per_sample_weights=shares.T.contiguous()
    )


class _Mixed(torch.autograd.Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, x: Tensor, shares: Tensor, wires: Wires
    ) -> Tensor:
        ctx.save_for_backward(x, shares)
        ctx.wires = wires
        return _bags(x.detach().contiguous(), wires, shares.detach())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, shares = ctx.saved_tensors
        wanted = [t for t in (x, shares) if t.requires_grad]
        if torch.is_grad_enabled():  # a graph of the backward pass is wanted
            y = _sums(x, ctx.wires, shares)
            found = iter(torch.autograd.grad(y, wanted, grad, create_graph=True))
            return *(next(found) if t.requires_grad else None for t in (x, shares)), None
        grad = grad.contiguous()
        grad_x = grad_shares = None
        if ctx.needs_input_grad[0]:
            # The transposed product: each feature adds up the gradients of its readers.
            offsets, gates, slots = ctx.wires.readers
            own = shares.detach()[slots.long(), gates.long()]
            grad_x = embedding_bag(
                gates, grad, offsets, mode="sum", per_sample_weights=own, include_last_offset=True
            )
        if ctx.needs_input_grad[1]:
            with torch.enable_grad():
                own = shares.detach().requires_grad_()
                y = _bags(x.detach().contiguous(), ctx.wires, own)
            (grad_shares,) = torch.autograd.grad(y, own, grad)
        return grad_x, grad_shares, None
