"""A test bench (Verilog 2001) beside the module of a circuit, with rows and their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gendr.logic.circuit.exports.texts import filled
from gendr.logic.circuit.exports.verilog import Options, whole_bytes
from gendr.logic.circuit.packed import unpacked

if TYPE_CHECKING:
    from gendr.logic.circuit.parts import Parts


def source(circuit: Parts, name: str, rows: Any, options: Options) -> str:
    """The source; see `Circuit.to_testbench`."""
    options = options.checked(circuit)
    given, width = _written(circuit, rows, options)
    parts = _results(circuit, rows, options)
    size = sum(bits for _, bits, _ in parts)
    wanted = [0] * len(given)
    for _, bits, values in reversed(parts):
        wanted = [w << bits | int(v) for w, v in zip(wanted, values, strict=True)]
    lines = [""]
    if options.stream:
        width, size = whole_bytes(width), whole_bytes(size)
        body = filled("bench.v", "stream", name=name)
    else:
        names = [port for port, _, _ in parts]
        lines = [f"  wire [{bits - 1}:0] {port};" for port, bits, _ in parts]
        lines.append(f"  assign found = {{{', '.join(reversed(names))}}};")
        ports = ["clk"] * bool(options.registers) + ["x", *names]
        wait = "dut.LATENCY - 1" if options.registers else "0"
        pins = ", ".join(f".{p}({p})" for p in ports)
        body = filled("bench.v", "plain", name=name, pins=pins, wait=wait)
    head = filled("bench.v", "begin", name=name, rows=len(given), width=width, size=size)
    values = [
        f"    rows[{k}] = {width}'h{row:x}; wanted[{k}] = {size}'h{result:x};"
        for k, (row, result) in enumerate(zip(given, wanted, strict=True))
    ]
    return "\n".join([head, *lines, body, "  initial begin", *values, "  end", "endmodule", ""])


def _written(circuit: Parts, rows: Any, options: Options) -> tuple[list[int], int]:
    """Each row as the number that x is, and the bits of x."""
    bits = circuit.pack(rows)
    if not bits.rows:
        raise ValueError("a test bench needs rows, got none")
    if options.word is None:
        return _joined(unpacked(bits).tolist(), 1), circuit.netlist.inputs
    numbers = np.asarray(rows.tolist(), np.float64).reshape(-1, circuit.features)
    scaled = numbers * 2.0**options.fraction
    span = 1 << options.word
    least = -(span >> 1) if options.signed else 0
    wrong = (scaled != np.floor(scaled)) | (scaled < least) | (scaled >= least + span)
    if wrong.any():
        kind = "signed" if options.signed else "unsigned"
        raise ValueError(
            f"rows must be {kind} numbers of {options.word} bits over {1 << options.fraction}, "
            f"got {numbers[wrong][0]:g}"
        )
    fields = [[int(v) % span for v in row] for row in scaled.tolist()]
    return _joined(fields, options.word), options.word * circuit.features


def _results(circuit: Parts, rows: Any, options: Options) -> list[tuple[str, int, Any]]:
    """Of every port the name, the bits, and its values for all rows."""
    bits = circuit.pack(rows)
    if options.result == "bits" or circuit.sums is None:
        values = unpacked(circuit.outputs(bits))
        return [("y", values.shape[1], _joined(values.tolist(), 1))]
    counts, k = circuit.counts(bits), circuit.sums.k
    if options.result == "sums":
        wide = (len(circuit.netlist.outputs) // k).bit_length()
        return [(f"sum{j}", wide, counts[:, j]) for j in range(k)]
    if options.result == "class":
        return [("label", max(1, (k - 1).bit_length()), counts.argmax(1))]
    return [("labels", k, _joined((counts > circuit.sums.limit).tolist(), 1))]


def _joined(fields: Any, wide: int) -> list[int]:
    """Rows of fields as one number each, field 0 lowest."""
    return [sum(int(v) << wide * k for k, v in enumerate(row)) for row in fields]
