"""A circuit as a graph in the language of Graphviz: inputs at the top, outputs at the bottom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gendr.logic.gates import GATES

if TYPE_CHECKING:
    from gendr.logic.circuit.parts import Parts


def source(circuit: Parts, name: str) -> str:
    """The graph; inputs that nobody reads are left out."""
    netlist = circuit.netlist
    inputs, outputs = netlist.inputs, netlist.outputs.tolist()
    groups = 1 if circuit.sums is None else circuit.sums.k
    each = len(outputs) // groups

    def node(signal: int) -> str:
        return f"x{signal}" if signal < inputs else f"g{signal - inputs}"

    edges: list[str] = []
    read: set[int] = set(outputs)
    gates: list[str] = []
    triples = zip(netlist.ids.tolist(), netlist.a.tolist(), netlist.b.tolist(), strict=True)
    for k, (gate, a, b) in enumerate(triples):
        gates.append(f'  g{k} [label="{GATES[gate].formula}"];')
        operands = {0: (), 15: (), 3: (a,), 12: (a,), 5: (b,), 10: (b,)}.get(gate, (a, b))
        symmetric = gate in (1, 6, 7, 8, 9, 14)
        for letter, signal in zip("ab" if len(operands) == 2 else " ", operands, strict=False):
            label = "" if symmetric or len(operands) < 2 else f' [taillabel="{letter}"]'
            edges.append(f"  {node(signal)} -> g{k}{label};")
        read.update(operands)
    lines = [f"digraph {name} {{", "  node [shape=box, fontname=sans];"]
    lines += [f"  x{k} [shape=circle];" for k in range(inputs) if k in read]
    lines += gates + edges
    for k, signal in enumerate(outputs):
        target = f"y{k}" if circuit.sums is None else f"sum{k // each}"
        lines.append(f"  {node(signal)} -> {target};")
    return "\n".join([*lines, "}", ""])
