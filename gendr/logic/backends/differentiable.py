"""The autograd function around the kernels of a compiled backend, shared by all such backends.

Kernels are plain functions without autograd. The first derivative is a kernel too; if a graph of
the backward pass is wanted, for second derivatives, the reference backend makes it. What is kept
for the backward pass are the inputs of the layer and its tables.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from gendr.logic.backends import reference
from gendr.logic.backends.interface import Kernels
from gendr.logic.backends.wires import Wires


def gates(kernels: Kernels, x: Tensor, wires: Wires, tables: Tensor) -> Tensor:
    """`Backend.gates` of a compiled backend."""
    return cast("Tensor", _Gates.apply(x, tables, wires, kernels))


class _Gates(torch.autograd.Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, x: Tensor, tables: Tensor, wires: Wires, kernels: Kernels
    ) -> Tensor:
        ctx.save_for_backward(x, tables)
        ctx.settings = wires, kernels
        return kernels.forward(x.detach().contiguous(), wires, tables.detach().contiguous())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, tables = ctx.saved_tensors
        wires, kernels = ctx.settings
        if torch.is_grad_enabled():  # a graph of the backward pass is wanted
            return *again(x, tables, wires, grad), None, None
        of_x, of_tables = kernels.backward(
            x.detach().contiguous(),
            wires,
            tables.detach().contiguous(),
            grad.detach().contiguous(),
            wants_x=ctx.needs_input_grad[0],
        )
        return of_x, of_tables, None, None


def again(x: Tensor, tables: Tensor, wires: Wires, grad: Tensor) -> list[Tensor | None]:
    """The gradients of x and tables by the reference, with a graph."""
    wanted = [t for t in (x, tables) if t.requires_grad]
    with torch.enable_grad():
        y = reference.gates(x, wires, tables)
        found = iter(torch.autograd.grad(y, wanted, grad, create_graph=True))
    return [next(found) if t.requires_grad else None for t in (x, tables)]
