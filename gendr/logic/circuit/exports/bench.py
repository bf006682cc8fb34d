"""A test bench (Verilog 2001) beside the module of a circuit, with rows and their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gendr.logic.circuit.exports.verilog import Options, whole_bytes
from gendr.logic.circuit.packed import unpacked

if TYPE_CHECKING:
    from gendr.logic.circuit.parts import Parts

_BEGIN = """\
module {name}_bench;
  localparam ROWS = {rows}, WIDTH = {width}, SIZE = {size};
  reg clk = 0;
  reg [WIDTH-1:0] x, rows [0:ROWS-1];
  reg [SIZE-1:0] wanted [0:ROWS-1];
  wire [SIZE-1:0] found;
  task check(input integer row, input [SIZE-1:0] got);
    if (got !== wanted[row]) begin
      $display("FAIL: row %0d gives %0h in place of %0h", row, got, wanted[row]);
      $finish;
    end
  endtask
"""
_PLAIN = """\
  integer k, wait_for;
  {name} dut({pins});
  initial begin
    #0 wait_for = {wait};  // after the rows are there
    for (k = 0; k < ROWS + wait_for; k = k + 1) begin
      x = rows[k < ROWS ? k : 0];
      #1 clk = 1;
      #1 clk = 0;
      if (k >= wait_for) check(k - wait_for, found);
    end
    $display("PASS: %0d rows", ROWS);
    $finish;
  end
"""
_STREAM = """\
  reg resetn = 0, valid = 0, ready = 0;
  wire taken, given, last;
  integer sent = 0, got = 0, seed = 1;
  {name} dut(.aclk(clk), .aresetn(resetn), .s_axis_tdata(x), .s_axis_tvalid(valid),
    .s_axis_tlast(sent % 3 == 2), .s_axis_tready(taken), .m_axis_tdata(found),
    .m_axis_tvalid(given), .m_axis_tlast(last), .m_axis_tready(ready));
  always #1 clk = ~clk;
  initial begin
    #4 resetn = 1;
    #(20 * ROWS + 2000) $display("FAIL: %0d of %0d results came", got, ROWS);
    $finish;
  end
  // What is offered stays until it is taken; neither side waits for the other one.
  always @(negedge clk) if (resetn) begin
    if (!valid && sent < ROWS) valid = $random(seed) % 4 != 0;
    ready = $random(seed) % 3 == 0;
    x = valid ? rows[sent] : {{WIDTH{{1'bx}}}};
  end
  always @(posedge clk) if (resetn) begin
    if (valid && taken) begin
      sent <= sent + 1;
      valid <= 0;
    end
    if (given) begin  // also while it waits
      if (got == ROWS || last !== (got % 3 == 2)) begin
        $display("FAIL: result %0d of %0d with tlast %b", got, ROWS, last);
        $finish;
      end
      check(got, found);
      if (ready) got = got + 1;
    end
    if (sent == ROWS && got == ROWS) begin
      $display("PASS: %0d rows", ROWS);
      $finish;
    end
  end
"""


def source(circuit: Parts, name: str, rows: Any, options: Options) -> str:
    """The source; see `Circuit.to_testbench`."""
    options = options.checked(circuit)
    given, width = _written(circuit, rows, options)
    parts = _results(circuit, rows, options)
    size = sum(bits for _, bits, _ in parts)
    wanted = [0] * len(given)
    for _, bits, values in reversed(parts):
        wanted = [w << bits | int(v) for w, v in zip(wanted, values, strict=True)]
    lines: list[str] = []
    if options.stream:
        width, size, body = whole_bytes(width), whole_bytes(size), _STREAM.format(name=name)
    else:
        names = [port for port, _, _ in parts]
        lines = [f"  wire [{bits - 1}:0] {port};" for port, bits, _ in parts]
        lines.append(f"  assign found = {{{', '.join(reversed(names))}}};")
        pins = ["clk"] * bool(options.registers) + ["x", *names]
        wait = "dut.LATENCY - 1" if options.registers else "0"
        body = _PLAIN.format(name=name, pins=", ".join(f".{p}({p})" for p in pins), wait=wait)
    head = _BEGIN.format(name=name, rows=len(given), width=width, size=size)
    values = [
        f"    rows[{k}] = {width}'h{row:x}; wanted[{k}] = {size}'h{result:x};"
        for k, (row, result) in enumerate(zip(given, wanted, strict=True))
    ]
    return "\n".join(
        [head + "\n".join(lines), body + "  initial begin", *values, "  end", "endmodule", ""]
    )


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
