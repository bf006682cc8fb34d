"""The wiring of a layer, as gates read it and as its transpose."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gendr._common.tracing import once


class Readers(NamedTuple):
    """Who reads each feature: the transpose of a wiring, in compressed rows.

    The readers of feature f are the entries offsets[f] to offsets[f + 1] of the other two.

    Attributes:
        offsets: [F + 1] int32.
        gates: [k N] int32, the gates that read it, in ascending order.
        slots: [k N] int32, as which of their inputs.
    """

    offsets: Tensor
    gates: Tensor
    slots: Tensor


class Wires:
    """Which features gates read.

    The transpose is found when it is first asked for, and kept.

    Attributes:
        inputs: [k, N] int64, features.
        features: F, how many there are.

    Args:
        inputs: as above, checked.
        features: as above.
    """

    def __init__(self, inputs: Tensor, features: int) -> None:
        self.inputs, self.features = inputs, features

    @once
    def readers(self) -> Readers:
        """The transpose: with it, a sum over the readers of a feature belongs to one thread."""
        flat = self.inputs.T.reshape(-1)  # by gate, then by slot
        order = flat.argsort(stable=True)
        fan_in = len(self.inputs)
        offsets = torch.zeros(self.features + 1, dtype=torch.int64, device=flat.device)
        offsets[1:] = torch.bincount(flat, minlength=self.features).cumsum(0)
        return Readers(offsets.int(), (order // fan_in).int(), (order % fan_in).int())

    @once
    def compact(self) -> Tensor:
        """`inputs` as int32, which kernels read: half the bytes."""
        return self.inputs.int().contiguous()
