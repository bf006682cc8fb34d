#!/usr/bin/env bash
# pyverilog 1.3.0: Verilog read and written again by its own code generator.
# Needs a Verilog simulator (Icarus, `iverilog`).
# Expected: the same circuit: `x[5 -: 3]` are the three bits 5, 4, 3 (IEEE 1364, 5.2.1).
# Seen: `x[5 -: 3]` is written as `x[5:5-3]`, which are four bits; no word of it. So do its analyses of
#   dataflow see it.
# Who meets it: who changes, counts or checks circuits in Python, and writes them back.
. "$(dirname "$0")/environment"
command -v iverilog > /dev/null || { echo "needs Icarus Verilog"; exit 1; }
packages pyverilog==1.3.0
cat > circuit.v <<'V'
module circuit(input [7:0] x, output [7:0] y);
  assign y = x[5 -: 3];
endmodule
V
cat > bench.v <<'V'
module bench;
  reg [7:0] x; wire [7:0] y;
  circuit made (x, y);
  initial begin x = 8'b00111100; #1 $display("%b", y); end
endmodule
V
python - <<'PY' 2> words || { cat words; exit 1; }
from pyverilog.ast_code_generator.codegen import ASTCodeGenerator
from pyverilog.vparser.parser import parse

tree, _ = parse(["circuit.v"])
open("again.v", "w").write(ASTCodeGenerator().visit(tree))
PY
if grep -Ev "LALR tables|shift/reduce|reduce/reduce|^$" words; then echo "changed: there are words"; exit 1; fi
grep assign circuit.v again.v
iverilog -o first circuit.v bench.v && iverilog -o second again.v bench.v
echo "x = 00111100: y = $(vvp -n first), of what is written again $(vvp -n second)"
test "$(vvp -n first)" = 00000111
test "$(vvp -n second)" = 00001111 || { echo "changed"; exit 1; }
