"""The Triton backend of layers of gates: kernels for NVIDIA GPUs.

float32, float16 and bfloat16, with sums in float32; float64 is for the reference, which `auto`
takes for it. First derivatives are kernels, without atomics, so that the same input gives the same
bits; second ones go through the reference. In graphs of `torch.compile`, which knows none of these,
a layer is one operator.

With TRITON_INTERPRET=1 in the environment before the first import of Triton, the same kernels run
on CPU tensors, slowly: that is how they are tested without a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor

from gendr._common.tracing import cached
from gendr.kernels.triton import launch as _triton_launch
from gendr.kernels.triton.launch import available as available
from gendr.kernels.triton.launch import blocks_of, interpreted, power_of_2, run
from gendr.logic.backends.wires import Wires
from gendr.logic.mixing import Bags

Tensors: TypeAlias = "tuple[Tensor, ...]"

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class GateLaunch:
    """How the work is cut into programs; powers of 2.

    Attributes:
        batch: numbers of the batch that a program takes at once, if there are so many.
        elements: numbers of its gates or features that it takes at once.
        table_elements: the same for the gradients of tables, one for each corner.
        thread: how many of them a thread has.
    """

    batch: int = 256
    elements: int = 512
    table_elements: int = 1024
    thread: int = 4


# The interpreter pays per operation, not per element.
LAUNCH = GateLaunch(elements=1 << 16, table_elements=1 << 17) if interpreted() else GateLaunch()


def supports(tensor: Tensor) -> bool:
    """float32, float16 or bfloat16 where Triton's kernels run."""
    return tensor.dtype in _DTYPES and _triton_launch.supports(tensor)


def traced(wires: Wires, x: Tensor, tables: Tensor) -> Tensor:
    """The outputs of gates as one operator of a graph."""
    return cast("Tensor", _gates(x, tables, wires.inputs))


# ---------------------------------------------------------------------------------------------
# Kernels of `gates`, see `gendr.kernels.operator.Kernels`
# ---------------------------------------------------------------------------------------------


def forward(wires: Wires, x: Tensor, tables: Tensor, *, save: bool) -> tuple[Tensors, Tensors]:
    """The outputs of gates; nothing is saved."""
    from gendr.logic.backends.triton import kernels

    (count, corners), batch = tables.shape, x.shape[1]
    y = x.new_empty(count, batch)
    block, options = _block(count, batch, 1)
    blocks = blocks_of(count, block["ROWS"])
    run(
        kernels.gates, (blocks * blocks_of(batch, block["BLOCK"]),), x.device,
        x, wires.compact, tables, y, count, batch, blocks, K=_inputs(corners), **block, **options,
    )  # fmt: skip
    return (y,), ()


def backward(
    wires: Wires, inputs: Tensors, saved: Tensors, grads: Tensors, wanted: tuple[bool, ...]
) -> tuple[Tensor | None, Tensor]:
    """The gradients of x, if it is wanted, and of the tables."""
    from gendr.logic.backends.triton import kernels

    (x, tables), (grad,), wants_x = inputs, grads, wanted[0]
    (count, corners), (features, batch) = tables.shape, x.shape
    grad_tables = torch.empty_like(tables)
    block, options = _block(count, batch, corners)
    run(
        kernels.tables_gradients, (blocks_of(count, block["ROWS"]),), x.device,
        x, wires.compact, grad, grad_tables, count, batch, K=_inputs(corners), **block, **options,
    )  # fmt: skip
    if not wants_x:
        return None, grad_tables
    grad_x = torch.empty_like(x)
    block, options = _block(features, batch, 1)
    blocks = blocks_of(features, block["ROWS"])
    run(
        kernels.features_gradients, (blocks * blocks_of(batch, block["BLOCK"]),), x.device,
        x, wires.compact, tables, *wires.readers, grad, grad_x, count, features, batch, blocks,
        K=_inputs(corners), **block, **options,
    )  # fmt: skip
    return grad_x, grad_tables


class Gates:
    """The kernels of `gates`."""

    forward, backward = staticmethod(forward), staticmethod(backward)
    traced = staticmethod(traced)


KERNELS = {"logic.gates": Gates, "logic.mixed": Bags}


def _inputs(corners: int) -> int:
    """How many inputs a table with so many corners has."""
    return corners.bit_length() - 1


def _block(count: int, batch: int, corners: int) -> tuple[dict[str, int], dict[str, Any]]:
    """Sizes of a block of gates or features, each with so many corners, and the options."""
    elements = LAUNCH.table_elements if corners > 1 else LAUNCH.elements
    block = min(power_of_2(batch), LAUNCH.batch)
    rows = min(power_of_2(count), max(1, elements // (corners * block)))
    warps = min(16, max(1, rows * corners * block // (32 * LAUNCH.thread)))
    options = {} if interpreted() else {"num_warps": warps, "enable_fp_fusion": True}
    return {"ROWS": rows, "BLOCK": block}, options


# ---------------------------------------------------------------------------------------------
# The operator, for graphs
# ---------------------------------------------------------------------------------------------


def _wires(inputs: Tensor, features: int) -> Wires:
    """Wires whose tables are those of the last call with the same tensor, if it has not changed."""
    wires = Wires(inputs, features)
    # Not the wires themselves: they hold the key.
    found = cached(inputs, ("wires", features), lambda _: (wires.compact, wires.readers))
    vars(wires).update(compact=found[0], readers=found[1])
    return wires


@torch.library.custom_op("gendr::logic_gates", mutates_args=())
def _gates(x: Tensor, tables: Tensor, inputs: Tensor) -> Tensor:
    """Do what `gates` does, with `Wires.inputs` for the wires."""
    (y,), _ = forward(_wires(inputs, len(x)), x.contiguous(), tables.contiguous(), save=False)
    return y


@_gates.register_fake
def _(x: Tensor, tables: Tensor, inputs: Tensor) -> Tensor:
    return x.new_empty(tables.shape[0], x.shape[1])


@torch.library.custom_op("gendr::logic_gates_gradients", mutates_args=())
def _gradients(
    x: Tensor, tables: Tensor, inputs: Tensor, grad: Tensor, wants_x: bool
) -> tuple[Tensor, Tensor]:
    """Do what `backward` does; the gradient of x has no rows if it is not wanted."""
    of_x, of_tables = backward(
        _wires(inputs, len(x)), (x.contiguous(), tables.contiguous()), (), (grad.contiguous(),),
        (wants_x, True),
    )  # fmt: skip
    return x.new_empty(0, x.shape[1]) if of_x is None else of_x, of_tables


@_gradients.register_fake
def _(
    x: Tensor, tables: Tensor, inputs: Tensor, grad: Tensor, wants_x: bool
) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape[0] if wants_x else 0, x.shape[1]), tables.new_empty(tables.shape)


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    """What the backward pass needs."""
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """The gradients of the inputs of `_gates`."""
    x, tables, inputs = ctx.saved_tensors
    wants_x, wants_tables, _ = ctx.needs_input_grad
    of_x, of_tables = _gradients(x, tables, inputs, grad, wants_x)
    return of_x if wants_x else None, of_tables if wants_tables else None, None


_gates.register_autograd(_backward, setup_context=_keep)
