"""What the exports share: names, and gates as expressions."""

from __future__ import annotations

import re

__all__ = ["check_name", "expression"]

# By id, gates as expressions of C, Verilog and NumPy; 0 and 1 are left to the caller.
_EXPRESSIONS = (
    "{zero}", "{a} & {b}", "{a} & ~{b}", "{a}", "~{a} & {b}", "{b}", "{a} ^ {b}", "{a} | {b}",
    "~({a} | {b})", "~({a} ^ {b})", "~{b}", "{a} | ~{b}", "~{a}", "~{a} | {b}", "~({a} & {b})",
    "{one}",
)  # fmt: skip


def expression(gate: int, a: str, b: str, *, zero: str, one: str) -> str:
    """A gate of two operands as an expression."""
    return _EXPRESSIONS[gate].format(a=a, b=b, zero=zero, one=one)


def check_name(name: str) -> str:
    """Return a name if it is one in C, Verilog and Python.

    Raises:
        ValueError: if it is not.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"name must be letters, digits and _, a letter first, got {name!r}")
    return name
