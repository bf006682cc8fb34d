"""The intermediate representation of a circuit: a list of two-input gates.

Signals are numbered: first the inputs, then the gates in their order. A gate reads signals before
its own, so the list can be run from the front. Constants are gates too ("false", "true"), whose
operands say no more than at which level they stand.

Printed, `%3 = xor %0 %1` is the gate whose output is signal 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gendr.logic.gates import GATES

Words = NDArray[np.uint64]
Indices = NDArray[np.int32]

# The output of a gate as 1 ^ a ^ b ^ (a & b), each term there or not: the algebraic normal form,
# [16, 4], as words of 64 equal bits.
_TABLES = np.array([gate.table for gate in GATES])
_NORMAL = np.stack(
    [
        _TABLES[:, 0],
        _TABLES[:, 0] ^ _TABLES[:, 2],
        _TABLES[:, 0] ^ _TABLES[:, 1],
        _TABLES[:, 0] ^ _TABLES[:, 1] ^ _TABLES[:, 2] ^ _TABLES[:, 3],
    ],
    1,
)
NORMAL_FORM: Words = np.where(_NORMAL == 1, np.uint64(2**64 - 1), np.uint64(0))


@dataclass(frozen=True, eq=False)
class Netlist:
    """Gates and what they read.

    Attributes:
        inputs: how many inputs there are.
        ids: [G] uint8, of the gates; see `gendr.logic.GATES`.
        a: [G] int32, the signals of the first operands.
        b: [G] int32, of the second.
        outputs: [M] int32, the signals that are outputs; one may be several times.
    """

    inputs: int
    ids: NDArray[np.uint8]
    a: Indices
    b: Indices
    outputs: Indices

    def __len__(self) -> int:
        """How many gates there are."""
        return len(self.ids)

    def check(self) -> None:
        """Find out whether it is a circuit at all.

        Raises:
            ValueError: if it is not, and why.
        """
        if self.inputs < 1:
            raise ValueError(f"a circuit must have an input, got {self.inputs}")
        if not len(self) == len(self.a) == len(self.b):
            raise ValueError(
                f"gates and operands must be equally many, got {len(self)}, {len(self.a)} and "
                f"{len(self.b)}"
            )
        if len(self) and int(self.ids.max()) >= len(GATES):
            raise ValueError(f"ids of gates must be 0 .. 15, got {int(self.ids.max())}")
        own = np.arange(self.inputs, self.inputs + len(self))
        for operand in (self.a, self.b):
            wrong = np.flatnonzero((operand < 0) | (operand >= own))
            if len(wrong):
                raise ValueError(
                    f"a gate must read signals before its own, but %{own[wrong[0]]} reads "
                    f"%{operand[wrong[0]]}"
                )
        if not len(self.outputs):
            raise ValueError("a circuit must have an output")
        if self.outputs.min() < 0 or self.outputs.max() >= self.inputs + len(self):
            raise ValueError(
                f"outputs must be signals 0 .. {self.inputs + len(self) - 1}, got "
                f"{self.outputs.min()} .. {self.outputs.max()}"
            )

    def levels(self) -> Indices:
        """How many gates lie on the longest way to each signal, [inputs + G]; 0 for inputs."""
        level = [0] * (self.inputs + len(self))
        for signal, (a, b) in enumerate(
            zip(self.a.tolist(), self.b.tolist(), strict=True), self.inputs
        ):
            level[signal] = 1 + max(level[a], level[b])
        return np.array(level, np.int32)

    def evaluate(self, words: Words) -> Words:
        """The outputs [M, W] for inputs [inputs, W], each word 64 rows; in plain NumPy.

        The kernels are compared with it.
        """
        values = np.empty((self.inputs + len(self), words.shape[1]), np.uint64)
        values[: self.inputs] = words
        levels = self.levels()[self.inputs :]
        order = np.argsort(levels, kind="stable")
        starts = np.flatnonzero(np.diff(levels[order], prepend=-1))
        for level in np.split(order, starts[1:]) if len(order) else ():
            one, ca, cb, cab = NORMAL_FORM[self.ids[level]].T[:, :, None]
            a, b = values[self.a[level]], values[self.b[level]]
            values[self.inputs + level] = one ^ (ca & a) ^ (cb & b) ^ (cab & a & b)
        return values[self.outputs]

    def histogram(self) -> dict[str, int]:
        """How many gates of each kind there are, those that occur."""
        counts = Counter(self.ids.tolist())
        return {gate.name: counts[gate.id] for gate in GATES if counts[gate.id]}

    def lines(self) -> Iterator[str]:
        """The printed form, line by line."""
        yield f"inputs %0 .. %{self.inputs - 1}" if self.inputs > 1 else "inputs %0"
        triples = zip(self.ids.tolist(), self.a.tolist(), self.b.tolist(), strict=True)
        for signal, (gate, a, b) in enumerate(triples, self.inputs):
            operands = {"a": f" %{a}", "not_a": f" %{a}", "b": f" %{b}", "not_b": f" %{b}"}
            operands |= {"false": "", "true": ""}
            name = GATES[gate].name
            yield f"%{signal} = {name}{operands.get(name, f' %{a} %{b}')}"
        yield "outputs " + " ".join(f"%{signal}" for signal in self.outputs.tolist())

    def __str__(self) -> str:
        return "\n".join(self.lines())


def netlist(inputs: int, ids: list[int], a: list[int], b: list[int], outputs: list[int]) -> Netlist:
    """A netlist from lists."""
    return Netlist(
        inputs,
        np.array(ids, np.uint8),
        np.array(a, np.int32),
        np.array(b, np.int32),
        np.array(outputs, np.int32),
    )
