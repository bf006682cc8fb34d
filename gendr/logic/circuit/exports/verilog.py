"""A circuit as Verilog: a module of assignments, for simulation and synthesis.

The input is `x`, a bit for each input of the circuit; the output is `y`, a bit for each output, or
`sum0`, `sum1` and so on for circuits with groups. Thresholds are left to what comes before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gendr.logic.circuit.circuit import Circuit

__all__ = ["source"]

# Gates by id.
_FORMS = (
    "1'b0", "{a} & {b}", "{a} & ~{b}", "{a}", "~{a} & {b}", "{b}", "{a} ^ {b}", "{a} | {b}",
    "~({a} | {b})", "~({a} ^ {b})", "~{b}", "{a} | ~{b}", "~{a}", "~{a} | {b}", "~({a} & {b})",
    "1'b1",
)  # fmt: skip


def source(circuit: Circuit, name: str) -> str:
    """The source (Verilog-2001)."""
    netlist = circuit.netlist
    inputs, outputs, sums = netlist.inputs, netlist.outputs.tolist(), circuit.sums
    each = len(outputs) // sums.k if sums is not None else 0
    ports = [f"input wire [{inputs - 1}:0] x"]
    if sums is None:
        ports.append(f"output wire [{len(outputs) - 1}:0] y")
    else:
        ports += [f"output wire [{each.bit_length() - 1}:0] sum{k}" for k in range(sums.k)]

    def wire(signal: int) -> str:
        return f"x[{signal}]" if signal < inputs else f"g{signal - inputs}"

    lines = [
        f"// A logic gate circuit, made by gendr: {len(netlist)} gates.",
        f"module {name} (",
        ",\n".join(f"  {port}" for port in ports),
        ");",
    ]
    triples = zip(netlist.ids.tolist(), netlist.a.tolist(), netlist.b.tolist(), strict=True)
    for k, (gate, a, b) in enumerate(triples):
        # A wire of its own: of a vector, a change of one bit would wake the readers of all.
        lines.append(f"  wire g{k} = {_FORMS[gate].format(a=wire(a), b=wire(b))};")
    if sums is None:
        lines += [f"  assign y[{k}] = {wire(signal)};" for k, signal in enumerate(outputs)]
    else:
        for k in range(sums.k):
            terms = " + ".join(wire(signal) for signal in outputs[each * k : each * (k + 1)])
            lines.append(f"  assign sum{k} = {terms};")
    return "\n".join([*lines, "endmodule", ""])
