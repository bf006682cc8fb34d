"""A circuit as Python source that needs NumPy only: a file to read, and to run anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gendr.logic.circuit.exports.texts import filled

if TYPE_CHECKING:
    from gendr.logic.circuit.parts import Parts


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
    found = filled(
        "numpy.txt", "all", gates=len(netlist), inputs=netlist.inputs,
        outputs=len(netlist.outputs), output_list=netlist.outputs.tolist(), constants=constants,
        table="".join(f"    ({gate}, {a}, {b}),\n" for gate, a, b in triples), name=name,
        doc=f"Rows [N, {circuit.features}] of {takes} -> {gives}.", features=circuit.features,
        bits=bits, result=result,
    )  # fmt: skip
    return found + "\n"
