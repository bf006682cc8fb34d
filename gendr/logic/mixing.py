"""What the inputs of gates see of their candidates: means that are weighted by shares.

y_n = sum over c of s_cn x[w_cn] is a product with a sparse matrix. Rows of the batch are neighbours
in memory, as in layers of gates. Plain PyTorch, whose bags of embeddings add up rows without a copy
of them. What is kept for the backward pass are the features and the shares.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from gendr.kernels.operator import Operator
from gendr.logic.backends.reference import read
from gendr.logic.backends.wires import Wires


def mixed(x: Tensor, wires: Wires, shares: Tensor, backend: str = "auto") -> Tensor:
    """The weighted means [N, B] of features x [F, B].

    Args:
        x: [F, B].
        wires: of the candidates, [C, N].
        shares: [C, N], of each candidate, in the dtype of x.
        backend: of the layer; all but "reference", the definition, take PyTorch's bags.

    Differentiable twice in x and shares.
    """
    plain = x.is_meta or backend == "reference"
    return _MIXED(None if plain else Bags, wires, x, shares)


def _sums(wires: Wires, x: Tensor, shares: Tensor) -> Tensor:
    """The definition, differentiable any number of times; it copies the rows of all candidates."""
    values = read(x, wires.inputs.reshape(-1)).reshape(*wires.inputs.shape, -1)
    return (shares[..., None] * values).sum(0)


_MIXED = Operator("logic.mixed", reference=_sums)


def _bags(wires: Wires, x: Tensor, shares: Tensor) -> Tensor:
    return embedding_bag(
        wires.inputs.T.contiguous(), x, mode="sum", per_sample_weights=shares.T.contiguous()
    )


class Bags:
    """The kernels: bags of embeddings of PyTorch."""

    @staticmethod
    def forward(
        wires: Wires, x: Tensor, shares: Tensor, *, save: bool
    ) -> tuple[tuple[Tensor], tuple[()]]:
        """The means; nothing is saved."""
        return (_bags(wires, x, shares),), ()

    @staticmethod
    def backward(
        wires: Wires, inputs: tuple[Tensor, Tensor], saved: tuple[()], grads: tuple[Tensor],
        wanted: tuple[bool, ...],
    ) -> tuple[Tensor | None, Tensor | None]:  # fmt: skip
        """The gradients of the features and of the shares, if they are wanted."""
        (x, shares), (grad,) = inputs, grads
        grad_x = grad_shares = None
        if wanted[0]:
            # The transposed product: each feature adds up the gradients of its readers.
            offsets, gates, slots = wires.readers
            own = shares[slots.long(), gates.long()]
            grad_x = embedding_bag(
                gates, grad, offsets, mode="sum", per_sample_weights=own, include_last_offset=True
            )
        if wanted[1]:
            with torch.enable_grad():
                own = shares.requires_grad_()
                y = _bags(wires, x, own)
            (grad_shares,) = torch.autograd.grad(y, own, grad)
        return grad_x, grad_shares
