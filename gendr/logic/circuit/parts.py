"""What a circuit consists of, as files and exports read it."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gendr.logic.circuit.netlist import Netlist
from gendr.logic.circuit.packed import PackedBits

Floats = NDArray[np.float32] | NDArray[np.float64]


class Sums(NamedTuple):
    """The sums of groups of outputs; see `GroupSum`.

    Attributes:
        k: how many groups.
        tau: by which sums are divided.
        beta: which is added then.
    """

    k: int
    tau: float = 1.0
    beta: float = 0.0

    @property
    def limit(self) -> float:
        """The count above which a score is positive: -beta tau, where that is meant whole or half.

        A `beta` of half a group is rounded to a double; the count of a half is no majority.
        """
        limit = -self.beta * self.tau
        near = round(2 * limit) / 2
        return near if abs(near - limit) <= 1e-9 * max(1.0, abs(limit)) else limit


class Parts(Protocol):
    """A `Circuit`."""

    @property
    def netlist(self) -> Netlist:
        """The gates."""
        ...

    @property
    def thresholds(self) -> Floats | None:
        """What makes bits of numbers."""
        ...

    @property
    def features(self) -> int:
        """How many numbers, or bits, a row has."""
        ...

    @property
    def sums(self) -> Sums | None:
        """Of the outputs."""
        ...

    def pack(self, x: Any) -> PackedBits:
        """Rows of numbers or bits as the netlist takes them."""
        ...

    def counts(self, bits: PackedBits) -> NDArray[np.int32]:
        """The sums of groups of outputs."""
        ...

    def outputs(self, bits: PackedBits) -> PackedBits:
        """The bits of the outputs."""
        ...
