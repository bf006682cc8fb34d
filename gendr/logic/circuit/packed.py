"""How a circuit is run on many rows at once: a program of word operations, and packed bits.

Bit i of word w of a signal is its value in row 64 w + i. A program is tables of numbers, which the
kernel walks. Nothing is compiled for a circuit.

- Gates stand level by level, within a level by operation, within an operation by their first
  operand. A run of one operation needs one decision.
- Slots hold a word of 512 rows. That of a signal which nobody reads any more is given to the next
  gate, so that all slots together stay in the second cache.
- Sums of groups are made of full adders, of five operations each, which turn three words of weight
  w into one of weight w and one of weight 2 w in place, until there is one word for each binary
  digit of the count (carry-save adders).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gendr.logic.circuit.netlist import Netlist, Words

Indices = NDArray[np.int32]

# By id: the operation of the kernel, and whether the operands are swapped for it.
(COPY, NOT, AND, AND_NOT, OR, OR_NOT, XOR, NAND, NOR, XNOR, ZERO, ONE) = range(12)
_OPERATIONS = (
    (ZERO, False), (AND, False), (AND_NOT, False), (COPY, False), (AND_NOT, True), (COPY, True),
    (XOR, False), (OR, False), (NOR, False), (XNOR, False), (NOT, True), (OR_NOT, False),
    (NOT, False), (OR_NOT, True), (NAND, False), (ONE, False),
)  # fmt: skip


class PackedBits(NamedTuple):
    """Bits of many rows, 64 in a word.

    Attributes:
        words: [signals, W] uint64, bit i of word w is row 64 w + i.
        rows: how many of the 64 W rows count.
    """

    words: Words
    rows: int


@dataclass(frozen=True, eq=False)
class PackedProgram:
    """What the kernel walks.

    Attributes:
        slots: how many there are.
        loads: [inputs] int32, the slot of each input, -1 for those that nobody reads.
        runs: [R, 3] int32, operation, first gate and last gate + 1.
        gates: [G, 3] int32, slots of the result and the operands.
        stores: [M] int32, the slots of the outputs; none if groups are summed.
        adders: [A, 3] int32, slots: a, b, c become (sum, carry, free); half adders have c = -1.
        digits: [k, P] int32, the slots of the binary digits of the sum of each group, lowest
            first; -1 where a sum has fewer.
        ones: [k] int32, how many of a group's outputs are always 1.
    """

    slots: int
    loads: Indices
    runs: Indices
    gates: Indices
    stores: Indices
    adders: Indices
    digits: Indices
    ones: Indices


def unpacked(bits: PackedBits) -> NDArray[np.bool_]:
    """The bits [rows, signals]."""
    values = np.unpackbits(bits.words.view(np.uint8), axis=1, count=bits.rows, bitorder="little")
    return np.ascontiguousarray(values.T).astype(bool)


def compiled(circuit: Netlist, groups: int = 0) -> PackedProgram:
    """The program of a circuit, with the sums of `groups` groups of its outputs, or 0 for none."""
    builder = _Slots(circuit)
    order, operations = _order(circuit)
    gates = builder.assign(order, operations)
    starts = np.flatnonzero(np.diff(operations[order], prepend=-1))
    stops = np.append(starts, len(order))[1:]
    runs = np.stack([operations[order][starts], starts, stops], 1)
    stores: list[int] = []
    adders: list[tuple[int, int, int]] = []
    sums: list[list[int]] = []
    ones: list[int] = []
    copies: list[tuple[int, int, int]] = []
    if groups:
        for part in np.split(circuit.outputs, groups):
            slots, constant = builder.summands(part.tolist(), copies)
            ones.append(constant)
            sums.append(_added(slots, adders))
    else:
        stores = [builder.slot[signal] for signal in circuit.outputs.tolist()]
    if copies:
        runs = np.concatenate([runs, [[COPY, len(gates), len(gates) + len(copies)]]])
        gates = gates + copies
    width = max([1, *(len(each) for each in sums)])  # all outputs may be constants
    return PackedProgram(
        slots=builder.count,
        loads=np.array(builder.slot[: circuit.inputs], np.int32),
        runs=_table(runs, 3),
        gates=_table(gates, 3),
        stores=np.array(stores, np.int32),
        adders=_table(adders, 3),
        digits=_table([each + [-1] * (width - len(each)) for each in sums], width),
        ones=np.array(ones, np.int32),
    )


def _table(rows: object, width: int) -> Indices:
    return np.ascontiguousarray(np.array(rows, np.int32).reshape(-1, width))


def _order(circuit: Netlist) -> tuple[Indices, Indices]:
    """The gates in the order in which they run, and the operation of each."""
    operations = np.array([_OPERATIONS[k][0] for k in range(16)], np.int32)[circuit.ids]
    levels = circuit.levels()[circuit.inputs :]
    return np.lexsort((circuit.a, operations, levels)).astype(np.int32), operations


class _Slots:
    """Which slot each signal is in, while it is needed."""

    def __init__(self, circuit: Netlist) -> None:
        self._circuit = circuit
        self.count = 0
        self._free: list[int] = []
        self.slot = [-1] * (circuit.inputs + len(circuit))
        self._outputs = set(circuit.outputs.tolist())
        self._taken: set[int] = set()  # signals whose slot is a summand already

    def _new(self) -> int:
        if self._free:
            return self._free.pop()
        self.count += 1
        return self.count - 1

    def assign(self, order: Indices, operations: Indices) -> list[tuple[int, int, int]]:
        """Slots for inputs and gates; the table of gates, in their order."""
        circuit = self._circuit
        inputs = circuit.inputs
        swapped = np.array([each[1] for each in _OPERATIONS])[circuit.ids]
        first = np.where(swapped, circuit.b, circuit.a)
        second = np.where(swapped, circuit.a, circuit.b)
        second = np.where(operations <= NOT, first, second)  # they have one operand
        none = operations >= ZERO
        last = [-1] * len(self.slot)  # the step after which a signal is not needed
        for step, (k, a, b) in enumerate(
            zip(order.tolist(), first[order].tolist(), second[order].tolist(), strict=True)
        ):
            if not none[k]:
                last[a] = last[b] = step
        for signal in self._outputs:
            last[signal] = len(order)
        for signal in range(inputs):
            if last[signal] >= 0:
                self.slot[signal] = self._new()
        rows: list[tuple[int, int, int]] = []
        slot = self.slot
        for step, (k, a, b) in enumerate(
            zip(order.tolist(), first[order].tolist(), second[order].tolist(), strict=True)
        ):
            if none[k]:
                own = slot[inputs + k] = self._new()
                rows.append((own, own, own))
                continue
            place_a, place_b = slot[a], slot[b]
            # A result may take the place of an operand that dies here: the kernel reads first.
            if last[a] == step:
                self._free.append(place_a)
            if a != b and last[b] == step:
                self._free.append(place_b)
            own = slot[inputs + k] = self._new()
            rows.append((own, place_a, place_b))
            if last[inputs + k] < 0:
                self._free.append(own)
        return rows

    def summands(
        self, signals: list[int], copies: list[tuple[int, int, int]]
    ) -> tuple[list[int], int]:
        """A slot of its own for each signal, and how many are always 1.

        Adders work in place, so that a signal which is added twice is copied.
        """
        circuit, slots, ones = self._circuit, [], 0
        for signal in signals:
            gate = int(circuit.ids[signal - circuit.inputs]) if signal >= circuit.inputs else 3
            if gate in (0, 15):
                ones += gate == 15
            elif signal in self._taken:
                own = self.count
                self.count += 1  # a new one: the slots of other outputs are still to be read
                copies.append((own, self.slot[signal], self.slot[signal]))
                slots.append(own)
            else:
                self._taken.add(signal)
                slots.append(self.slot[signal])
        return slots, ones


def _added(slots: list[int], adders: list[tuple[int, int, int]]) -> list[int]:
    """Append the adders of the words in these slots; the slots of the digits of their sum."""
    digits: list[int] = []
    while slots:
        carries: list[int] = []
        while len(slots) > 1:
            # The sum goes to the end of the row, which is read next: it is still in the cache.
            a, b = slots.pop(), slots.pop()
            adders.append((a, b, slots.pop() if slots else -1))
            slots.append(a)
            carries.append(b)
        digits.append(slots[0])
        slots = carries
    return digits
