"""Names that all languages of the exports understand."""

from __future__ import annotations

import keyword
import re

__all__ = ["check_name"]

# Words of C, Verilog-2001 and Graphviz, and what the sources use themselves; in small letters.
_TAKEN = frozenset(
    """
    auto break case char const continue default do double else enum extern float for goto if inline
    int long register restrict return short signed sizeof static struct switch typedef union
    unsigned void volatile while main
    always and assign automatic begin buf bufif0 bufif1 casex casez cell cmos config deassign
    defparam
    design disable edge end endcase endconfig endfunction endgenerate endmodule endprimitive
    endspecify endtable endtask event force forever fork function generate genvar highz0 highz1
    ifnone incdir include initial inout input instance integer join large liblist library
    localparam macromodule medium module nand negedge nmos nor noshowcancelled not notif0 notif1 or
    output parameter pmos posedge primitive pull0 pull1 pulldown pullup pulsestyle_ondetect
    pulsestyle_onevent rcmos real realtime reg release repeat rnmos rpmos rtran rtranif0 rtranif1
    scalared showcancelled small specify specparam strong0 strong1 supply0 supply1 table task time
    tran tranif0 tranif1 tri tri0 tri1 triand trior trireg use vectored wait wand weak0 weak1 wire
    wor xnor xor
    node graph digraph subgraph strict
    np gates outputs thresholds
    """.split()
)


def check_name(name: str) -> str:
    """Return a name if it is one in C, Verilog and Python.

    Raises:
        ValueError: if it is not.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"name must be letters, digits and _, a letter first, got {name!r}")
    if name.lower() in _TAKEN or keyword.iskeyword(name):
        raise ValueError(f"name must not be a word of C, Verilog, Python or Graphviz, got {name!r}")
    return name
