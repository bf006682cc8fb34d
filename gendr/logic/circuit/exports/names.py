"""Names that all languages of the exports understand.

Source: ISO/IEC 9899:2018, 6.4.1 and annex B, and 2023, 6.4.1; ISO/IEC 14882:2020, table 5; IEEE
1800-2017, annex B, which has all words of IEEE 1364-2005; IEEE 1076-2008, 15.10; POSIX.1-2017.

Of words.txt, words are in small letters, since VHDL and Graphviz do not tell them from large ones,
and hold what the sources use themselves. A function of the name of one of C's library, or of POSIX,
would be called in its place by other parts of a program, if it compiles at all. Mathematical
functions also have a form for float and for long double.
"""

from __future__ import annotations

import builtins
import keyword
import re

from gendr.logic.circuit.exports.texts import parts

# Macros of C's headers, names that POSIX keeps for types, those that compilers keep for themselves,
# and those of wires: in Verilator a module may not have the name of one.
_RESERVED = re.compile(
    r"NULL|EOF|I|BUFSIZ|RAND_MAX|[A-Z0-9_]+_(MAX|MIN|WIDTH|C)|E[A-Z0-9]+|SIG[A-Z_]+|"
    r"\w+_t|_\w*|\w*__\w*|\w*_|(sum|[bcgilmsx])[0-9]+(_\w+)?"
)


def check_name(name: str) -> str:
    """Return a name if it is one in C, Verilog, VHDL and Python.

    Raises:
        TypeError: if it is no text.
        ValueError: if it is not.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be text, got {type(name).__name__}")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"name must be letters, digits and _, a letter first, got {name!r}")
    words, library, mathematics = (part.split() for part in parts("words.txt").values())
    is_function = name in (*library, *mathematics) or (
        name[:-1] in mathematics and name[-1] in "fl"
    )
    if name.lower() in words or keyword.iskeyword(name) or hasattr(builtins, name) or is_function:
        raise ValueError(
            "name must not be a word of C, Verilog, VHDL, Python or Graphviz, or a function of "
            f"their libraries, got {name!r}; add a word, such as {name.lower()}_circuit"
        )
    if _RESERVED.fullmatch(name):
        raise ValueError(
            "name must not begin or end with _, have __, or be one that C keeps for macros and "
            f"types or the circuit for wires, got {name!r}; take another, such as my_circuit"
        )
    return name
