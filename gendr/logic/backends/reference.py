"""The one operator of a layer of gates, by its definition in plain PyTorch.

It evaluates N gates of k inputs each on a batch: gate j reads the features wires[:, j] and has a
table of 2^k outputs, one for each corner of {0, 1}^k, in the order of binary numbers whose first
digit is the first input. With independent inputs x in [0, 1], its expected output is

    y_j = sum over corners c of table[j, c] prod_i (x_i if c_i else 1 - x_i),

which for two inputs is c_0 + c_a a + c_b b + c_ab a b: a gate is a row of the thesis' Table 6.1,
and the layer its (6.2) with the sum over the gates taken first. How a table comes about (a mixture
of gates, one number for each corner, a hard choice) is no matter of a backend.

The batch is the last dimension, so that the numbers that a gate reads are neighbours in memory.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gendr.kernels.operator import Operator
from gendr.logic.backends.wires import Wires
from gendr.tnorms import TNorm

_DENSE = 2**22  # numbers of a matrix that reads features


def read(x: Tensor, wires: Tensor) -> Tensor:
    """The features [N, B] that gates read, of x [F, B].

    In graphs on a CPU by a product, or outside the graph: where sizes are free, the gradient that
    inductor (torch 2.13) makes of an index is wrong.
    """
    is_safe = x.device.type != "cpu" or torch.compiler.is_exporting()
    if is_safe or not torch.compiler.is_dynamo_compiling():
        return x[wires]
    if len(wires) * x.shape[0] > _DENSE:
        return torch.compiler.disable(read)(x, wires)  # pyright: ignore[reportCallIssue]
    return (wires[:, None] == torch.arange(x.shape[0])).to(x.dtype) @ x


def joined_gates(x: Tensor, wires: Wires, tables: Tensor, tnorm: TNorm) -> Tensor:
    """The outputs of gates of two inputs, with a T-norm in place of the product."""
    t00, t01, t10, t11 = tables.T[..., None]
    a, b = read(x, wires.inputs[0]), read(x, wires.inputs[1])
    both = tnorm(a, b).to(x.dtype)
    return t00 + (t10 - t00) * a + (t01 - t00) * b + (t11 - t10 - t01 + t00) * both


def gates(wires: Wires, x: Tensor, tables: Tensor) -> Tensor:
    """The outputs [N, B] of gates.

    Args:
        wires: of the gates.
        x: features [F, B] in [0, 1], not checked.
        tables: [N, 2^k], in the dtype of x.
    """
    values = tables.T[..., None]  # [2^k, N, 1]: the outputs at corners, then at edges, faces, ..
    if len(wires.inputs) == 2:
        t00, t01, t10, t11 = values
        a, b = read(x, wires.inputs[0]), read(x, wires.inputs[1])
        return t00 + (t10 - t00) * a + (t01 - t00 + (t11 - t10 - t01 + t00) * a) * b
    for row in wires.inputs:
        low, high = values.chunk(2)  # the first input is the first digit of a corner
        values = low + (high - low) * read(x, row)
    return values[0]


SOFT_GATES = Operator("logic.gates", reference=gates)
