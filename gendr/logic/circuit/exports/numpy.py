"""A circuit as Python source that needs NumPy only: a file to read, and to run anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gendr.logic.circuit.parts import Parts

_TEXT = '''"""A logic gate circuit of {gates} gates, {inputs} inputs and {outputs} outputs."""

import numpy as np

# The gates: id, first operand, second operand. An id is the truth table at 00, 01, 10, 11, read as
# a binary number. Operands are signals: first the inputs, then the gates.
GATES = [
{table}]
OUTPUTS = {output_list}
{constants}

def {name}(x):
    """{doc}"""
    x = np.asarray(x)
    if x.ndim != 2 or x.shape[1] != {features}:
        raise ValueError(f"x must have shape [N, {features}], got {{list(x.shape)}}")
{bits}
    signals = list(bits.T)
    for gate, a, b in GATES:
        a, b = signals[a], signals[b]
        found = np.zeros(len(x), bool)
        for corner, (p, q) in enumerate(((~a, ~b), (~a, b), (a, ~b), (a, b))):
            if gate >> (3 - corner) & 1:
                found |= p & q
        signals.append(found)
    out = np.stack([signals[k] for k in OUTPUTS], 1)
{result}
'''


def source(circuit: Parts, name: str) -> str:
    """The source."""
    netlist, limits, sums = circuit.netlist, circuit.thresholds, circuit.sums
    triples = zip(netlist.ids.tolist(), netlist.a.tolist(), netlist.b.tolist(), strict=True)
    constants, bits = "", "    bits = x != 0"
    if limits is not None:
        dtype = limits.dtype.name
        constants = f"THRESHOLDS = np.array({limits.tolist()}, np.{dtype})\n"
        bits = "    x = x.astype(THRESHOLDS.dtype)  # as in training\n"
        bits += "    bits = (x[:, :, None] > THRESHOLDS).reshape(len(x), -1)"
    takes = "numbers" if limits is not None else "bits"
    if sums is None:
        gives, result = f"bits [N, {len(netlist.outputs)}]", "    return out"
    else:
        gives = f"scores [N, {sums.k}]"
        result = (
            f"    counts = out.reshape(len(x), {sums.k}, -1).sum(2)\n"
            f"    return counts.astype(np.float32) / np.float32({sums.tau!r})"
        )
        result += f" + np.float32({sums.beta!r})" if sums.beta else ""
    return _TEXT.format(
        gates=len(netlist),
        inputs=netlist.inputs,
        outputs=len(netlist.outputs),
        table="".join(f"    ({gate}, {a}, {b}),\n" for gate, a, b in triples),
        output_list=netlist.outputs.tolist(),
        constants=constants,
        name=name,
        doc=f"Rows [N, {circuit.features}] of {takes} -> {gives}.",
        features=circuit.features,
        bits=bits,
        result=result,
    )
