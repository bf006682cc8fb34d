"""The one operation of a layer of gates, and the backends that offer it.

`gates` evaluates N gates of k inputs each on a batch: gate j reads the features wires[:, j] and has
a table of 2^k outputs, one for each corner of {0, 1}^k, in the order of binary numbers whose first
digit is the first input. With independent inputs x in [0, 1], its expected output is

    y_j = sum over corners c of table[j, c] prod_i (x_i if c_i else 1 - x_i),

which for two inputs is c_0 + c_a a + c_b b + c_ab a b. How a table comes about (a mixture of gates,
one number for each corner, a hard choice) is no matter of a backend.

The batch is the last dimension, so that the numbers that a gate reads are neighbours in memory.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from gendr.logic.backends.wires import Wires


class Backend(Protocol):
    """A backend is a module that has these functions; the operation is twice differentiable."""

    def available(self) -> str | None:
        """None if usable here, else the reason."""
        ...

    def supports(self, tensor: Tensor) -> bool:
        """Whether it works on the device, and with the dtype, of this tensor."""
        ...

    def gates(self, x: Tensor, wires: Wires, tables: Tensor) -> Tensor:
        """The outputs [N, B] of gates for features x [F, B].

        Args:
            x: [F, B], in [0, 1], not checked.
            wires: of the gates.
            tables: [N, 2^k], in the dtype of x.

        Differentiable in x and tables.
        """
        ...


class Kernels(Protocol):
    """The kernels of a compiled backend: functions of detached, contiguous tensors."""

    def forward(self, x: Tensor, wires: Wires, tables: Tensor) -> Tensor:
        """See `Backend.gates`."""
        ...

    def backward(
        self, x: Tensor, wires: Wires, tables: Tensor, grad: Tensor, *, wants_x: bool
    ) -> tuple[Tensor | None, Tensor]:
        """The gradients of x, if it is wanted, and of the tables, for that of the outputs."""
        ...
