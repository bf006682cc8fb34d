"""The sixteen gates of two inputs, and gates of more inputs as truth tables.

A truth table lists the output for every corner of {0, 1}^k, in the order of binary numbers whose
first digit is the first input: 00, 01, 10, 11 for two. Read as a binary number itself, the table of
a two-input gate is its id, as in Table 6.1. With probabilities instead of bits, and independent
inputs, the expected output is multilinear in the inputs; on the monomials 1, a, b, ab it is

    f(a, b) = t00 + (t10 - t00) a + (t01 - t00) b + (t11 - t10 - t01 + t00) a b.

Nothing here needs torch: circuits use this table too.

Source: thesis, Table 6.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral

from gendr._common.names import unknown

# A gate of six inputs has a table of 64 bits: one word of a circuit file, one look-up table of an
# FPGA.
MAX_FAN_IN = 6


@dataclass(frozen=True)
class Gate:
    """A gate of two inputs.

    Attributes:
        id: its truth table as a number: 8 t00 + 4 t01 + 2 t10 + t11.
        name: a word, which `gate` understands.
        formula: in Boolean algebra.
    """

    id: int
    name: str
    formula: str

    @property
    def table(self) -> tuple[int, int, int, int]:
        """The output for 00, 01, 10 and 11."""
        return self.id >> 3, self.id >> 2 & 1, self.id >> 1 & 1, self.id & 1

    @property
    def coefficients(self) -> tuple[int, int, int, int]:
        """The coefficients of 1, a, b and ab."""
        t00, t01, t10, t11 = self.table
        return t00, t10 - t00, t01 - t00, t11 - t10 - t01 + t00


GATES: tuple[Gate, ...] = tuple(
    Gate(number, *words)
    for number, words in enumerate(
        (
            ("false", "0"),
            ("and", "a ∧ b"),
            ("a_and_not_b", "a ∧ ¬b"),
            ("a", "a"),
            ("not_a_and_b", "¬a ∧ b"),
            ("b", "b"),
            ("xor", "a ⊕ b"),
            ("or", "a ∨ b"),
            ("nor", "¬(a ∨ b)"),
            ("xnor", "¬(a ⊕ b)"),
            ("not_b", "¬b"),
            ("a_or_not_b", "a ∨ ¬b"),
            ("not_a", "¬a"),
            ("not_a_or_b", "¬a ∨ b"),
            ("nand", "¬(a ∧ b)"),
            ("true", "1"),
        )
    )
)
_BY_NAME = {gate.name: gate for gate in GATES}


def gate(which: int | str) -> Gate:
    """The gate of an id 0 .. 15, or of a name such as "xor".

    Args:
        which: the id or the name.

    Raises:
        ValueError: if there is none.
    """
    is_id = isinstance(which, Integral) and not isinstance(which, (bool, str))
    if is_id and 0 <= int(which) < len(GATES):
        return GATES[int(which)]
    if isinstance(which, str) and which in _BY_NAME:
        return _BY_NAME[which]
    if isinstance(which, str):
        raise ValueError(unknown("gate", which, _BY_NAME))
    raise ValueError(f"a gate must be an id 0 .. 15 or a name, got {which!r}")


def gate_ids(which: Iterable[int | str] | None) -> tuple[int, ...]:
    """The ids of a set of gates in ascending order; None stands for all sixteen.

    Raises:
        ValueError: if there is no gate, an unknown one, or one that is named twice.
    """
    if which is None:
        return tuple(range(len(GATES)))
    if isinstance(which, str):
        raise ValueError(f"gates must be a list of ids or names, got the text {which!r}")
    ids = sorted(gate(each).id for each in which)
    if not ids or len(set(ids)) < len(ids):
        raise ValueError(f"gates must name one gate or more, each once, got the ids {ids}")
    return tuple(ids)
