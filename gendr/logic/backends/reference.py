"""The reference backend of layers of gates: plain PyTorch, differentiable any number of times.

Read it beside the thesis: for two inputs, a gate is a row of Table 6.1, and the layer (6.2) with
the sum over the gates taken first.
"""

from __future__ import annotations

from torch import Tensor

from gendr.logic.backends.wires import Wires
from gendr.tnorms import TNorm


def available() -> str | None:
    """None: it needs nothing but torch."""
    return None


def supports(tensor: Tensor) -> bool:
    """True: it works on every device of torch, in every floating dtype."""
    return True


def joined_gates(x: Tensor, wires: Wires, tables: Tensor, tnorm: TNorm) -> Tensor:
    """The outputs of gates of two inputs, with a T-norm in place of the product."""
    t00, t01, t10, t11 = tables.T[..., None]
    a, b = x[wires.inputs[0]], x[wires.inputs[1]]
    both = tnorm(a, b).to(x.dtype)
    return t00 + (t10 - t00) * a + (t01 - t00) * b + (t11 - t10 - t01 + t00) * both


def gates(x: Tensor, wires: Wires, tables: Tensor) -> Tensor:
    """See `Backend.gates`."""
    values = tables.T[..., None]  # [2^k, N, 1]: the outputs at corners, then at edges, faces, ..
    if len(wires.inputs) == 2:
        t00, t01, t10, t11 = values
        a, b = x[wires.inputs[0]], x[wires.inputs[1]]
        return t00 + (t10 - t00) * a + (t01 - t00 + (t11 - t10 - t01 + t00) * a) * b
    for row in wires.inputs:
        low, high = values.chunk(2)  # the first input is the first digit of a corner
        values = low + (high - low) * x[row]
    return values[0]
