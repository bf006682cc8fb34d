#!/usr/bin/env bash
# migen 0.10.0 (and Icarus Verilog), the sum of some bits of a signed number and a signed number.
# Expected: the same in migen's simulator and in the Verilog that it writes. Sums of signed and unsigned
#   signals are: those are written as `$signed({1'd0, u})`.
# Seen: a part `a[1:3]` is written as it is. A part is unsigned in Verilog (IEEE 1364-2005, 5.5.1), and
#   so is then the whole sum: where the other number is negative, 8 for -8, in the half of all cases.
# Who meets it: fixed-point arithmetic, which takes parts of numbers to round them: tests pass, chips differ.
. "$(dirname "$0")/environment"
command -v iverilog > /dev/null || { echo "needs Icarus Verilog"; exit 1; }
packages migen==0.10.0
cat > bench.v <<'V'
module bench;
  reg signed [3:0] a, b;
  wire signed [11:0] part, mixed;
  top dut(.a(a), .b(b), .part(part), .mixed(mixed));
  integer i, j;
  initial for (i = -8; i < 8; i = i + 1) for (j = -8; j < 8; j = j + 1) begin
    a = i; b = j; #1 $display("%0d %0d", part, mixed);
  end
endmodule
V
python - <<'PY'
import itertools
import subprocess

from migen import Module, Signal, run_simulation
from migen.fhdl import verilog

class Sums(Module):
    def __init__(self):
        self.a, self.b = Signal((4, True), name="a"), Signal((4, True), name="b")
        self.part, self.mixed = Signal((12, True), name="part"), Signal((12, True), name="mixed")
        bits = Signal(2)
        self.comb += [bits.eq(self.a[1:3]), self.part.eq(self.a[1:3] + self.b), self.mixed.eq(bits + self.b)]

sums, pairs, simulated = Sums(), list(itertools.product(range(-8, 8), repeat=2)), []

def bench():
    for a, b in pairs:
        yield sums.a.eq(a)
        yield sums.b.eq(b)
        yield
        yield
        simulated.append(((yield sums.part), (yield sums.mixed)))

run_simulation(sums, bench())
sums = Sums()
text = str(verilog.convert(sums, {sums.a, sums.b, sums.part, sums.mixed}, name="top"))
open("top.v", "w").write(text)
subprocess.run(["iverilog", "-g2001", "-o", "bench", "top.v", "bench.v"], check=True)
printed = subprocess.run(["vvp", "-n", "bench"], check=True, capture_output=True, text=True).stdout
written = [tuple(map(int, line.split())) for line in printed.splitlines()]
right = [((a >> 1) & 3) + b for a, b in pairs]
assert [s[0] for s in simulated] == right and [s[1] for s in simulated] == right
print([line.strip() for line in text.splitlines() if "part =" in line or "mixed =" in line])
wrong = [(pair, s[0], v[0]) for pair, s, v in zip(pairs, simulated, written) if s[0] != v[0]]
print(len(wrong), "of", len(pairs), "differ; (a, b), simulated, Verilog:", wrong[0])
assert len(wrong) == 128 and wrong[0] == ((-8, -8), -8, 8), "changed"
assert [v[1] for v in written] == right
PY
