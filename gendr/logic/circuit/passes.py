"""Passes that make a circuit smaller and keep its function.

`share` folds constants, takes buffers and inverters into the gates that read them, and makes one
gate of all that compute the same, or its complement, from the same operands; `prune` drops gates
that no output depends on. Each is a function from netlists to netlists, and `simplify`, which runs
them, compares the function before and after each: at all inputs if there are few, else at random
ones.
"""

from __future__ import annotations

import numpy as np

from gendr.logic.circuit.netlist import Netlist, Words, netlist

# Circuits of at most so many inputs are compared at all of them: 2^14 rows.
EXHAUSTIVE = 14
# Words of 64 random rows each for larger ones.
RANDOM_WORDS = 32

# Literals are numbers 2 * signal + (1 if inverted); these two are the constants, ^ 1 inverts both.
_FALSE, _TRUE = -2, -1
_NOT = 12  # the id of "not_a"


def share(circuit: Netlist) -> Netlist:
    """Make one gate of all that compute the same or its complement, and fold the others into it.

    What is left are gates that depend on both of their operands, which are different; and behind
    them, for outputs that need it, inverters of inputs and constants.
    """
    builder = _Builder(circuit.inputs)
    literals = [2 * k for k in range(circuit.inputs)]
    for gate, a, b in zip(
        circuit.ids.tolist(), circuit.a.tolist(), circuit.b.tolist(), strict=True
    ):
        literals.append(builder.literal(gate, literals[a], literals[b]))
    outputs = [builder.output(literals[signal]) for signal in circuit.outputs.tolist()]
    ids, a, b = ([gate[k] for gate in builder.gates] for k in range(3))
    return netlist(circuit.inputs, ids, a, b, outputs)


def prune(circuit: Netlist) -> Netlist:
    """Drop the gates that no output depends on."""
    inputs = circuit.inputs
    a, b, ids = circuit.a.tolist(), circuit.b.tolist(), circuit.ids.tolist()
    used = [False] * (inputs + len(circuit))
    for signal in circuit.outputs.tolist():
        used[signal] = True
    for k in range(len(circuit) - 1, -1, -1):
        if used[inputs + k] and 0 < ids[k] < 15:
            used[a[k]] = used[b[k]] = True
    place = np.full(len(used), 0, np.int32)
    place[:inputs] = np.arange(inputs)
    read_gates = np.flatnonzero(used[inputs:])
    place[inputs + read_gates] = inputs + np.arange(len(read_gates))
    new_ids = circuit.ids[read_gates]
    constant = (new_ids == 0) | (new_ids == 15)
    return Netlist(
        inputs,
        new_ids,
        np.where(constant, 0, place[circuit.a[read_gates]]).astype(np.int32),
        np.where(constant, 0, place[circuit.b[read_gates]]).astype(np.int32),
        place[circuit.outputs],
    )


def simplify(circuit: Netlist, *, check: bool = True) -> Netlist:
    """Run the passes, one after the other.

    Args:
        circuit: the circuit.
        check: whether to compare the function before and after each.

    Raises:
        RuntimeError: if a pass has changed the function, which is a bug of it.
    """
    circuit.check()
    rows = stimuli(circuit.inputs) if check else np.empty((circuit.inputs, 0), np.uint64)
    before = circuit.evaluate(rows)
    for each in (share, prune):
        circuit = each(circuit)
        if not np.array_equal(circuit.evaluate(rows), before):
            raise RuntimeError(
                f"the pass {each.__name__!r} has changed the function of the circuit; this is a "
                "bug: please report it, and go on without it"
            )
    return circuit


def stimuli(inputs: int) -> Words:
    """Rows to compare circuits at, [inputs, W] words of 64: all of them up to 14 inputs.

    Of more inputs, random ones: half are 0 or 1 alike, the others mostly 0 or mostly 1, because
    many gates after each other would hide what happens at even inputs.
    """
    if inputs <= EXHAUSTIVE:
        rows = np.arange(max(64, 1 << inputs), dtype=np.uint64)
        bits = (rows[None] >> np.arange(inputs, dtype=np.uint64)[:, None]) & np.uint64(1)
        packed = np.packbits(bits.astype(np.uint8), axis=1, bitorder="little")
        return packed.view(np.uint64)
    generator = np.random.default_rng(0)

    def draw() -> Words:
        return generator.integers(0, 2**64, (inputs, RANDOM_WORDS // 4), np.uint64, endpoint=False)

    few = draw() & draw() & draw()
    return np.concatenate([draw(), draw(), few, ~(draw() & draw() & draw())], 1)


def _flip_a(table: int) -> int:
    """The table of f(¬a, b)."""
    return (table & 0b1100) >> 2 | (table & 0b0011) << 2


def _flip_b(table: int) -> int:
    """The table of f(a, ¬b)."""
    return (table & 0b1010) >> 1 | (table & 0b0101) << 1


def _swapped(table: int) -> int:
    """The table of f(b, a)."""
    return table & 0b1001 | (table & 0b0100) >> 1 | (table & 0b0010) << 1


def _unary(at_zero: int, at_one: int, literal: int) -> int:
    """The literal of a function of one literal."""
    if literal == _FALSE or literal == _TRUE:
        at_zero = at_one = at_one if literal == _TRUE else at_zero
    if at_zero == at_one:
        return _TRUE if at_one else _FALSE
    return literal if at_one else literal ^ 1


class _Builder:
    """The new gates, as they come."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.gates: list[tuple[int, int, int]] = []
        self._known: dict[tuple[int, int, int], int] = {}
        self._last: dict[tuple[int, int, int], int] = {}  # gates that outputs need

    def literal(self, table: int, a: int, b: int) -> int:
        """The literal of a gate of two literals; a new gate only if it must be."""
        if a < 0:
            row = table & 3 if a == _TRUE else table >> 2
            return _unary(row >> 1, row & 1, b)
        if b < 0:
            shift = 0 if b == _TRUE else 1
            return _unary(table >> (2 + shift) & 1, table >> shift & 1, a)
        if a & 1:
            table, a = _flip_a(table), a ^ 1
        if b & 1:
            table, b = _flip_b(table), b ^ 1
        if a == b:
            return _unary(table >> 3, table & 1, a)
        if table >> 2 == table & 3:
            return _unary(table >> 1 & 1, table & 1, b)
        if table >> 1 & 0b101 == table & 0b101:
            return _unary(table >> 3, table & 1, a)
        return self._gate(table, a >> 1, b >> 1)

    def _gate(self, table: int, a: int, b: int) -> int:
        if a > b:
            table, a, b = _swapped(table), b, a
        inverted = table >> 3  # of a gate and its complement, the one that is 0 at 00
        if inverted:
            table ^= 15
        literal = self._known.get((table, a, b))
        if literal is None:
            literal = self._known[table, a, b] = self._new(table, a, b)
        return literal ^ inverted

    def _new(self, table: int, a: int, b: int) -> int:
        self.gates.append((table, a, b))
        return 2 * (self.inputs + len(self.gates) - 1)

    def output(self, literal: int) -> int:
        """The signal of a literal: an inverted gate becomes its complement."""
        if literal >= 0 and not literal & 1:
            return literal >> 1
        if literal < 0:
            key = (15 if literal == _TRUE else 0, 0, 0)
        elif literal >> 1 < self.inputs:
            key = (_NOT, literal >> 1, literal >> 1)
        else:
            table, a, b = self.gates[(literal >> 1) - self.inputs]
            key = (table ^ 15, a, b)
        if key not in self._last:
            self._last[key] = self._new(*key) >> 1
        return self._last[key]
