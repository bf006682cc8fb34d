#!/usr/bin/env bash
# MyHDL 0.11.52: a circuit that divides signed numbers, in Python and as the Verilog it converts to.
# Needs a Verilog simulator (Icarus, `iverilog`).
# Expected: the same numbers, or a word: MyHDL's simulator has those of Python, -7 // 2 = -4, -7 % 3 = 2.
# Seen: `//` and `%` become `/` and `%` of Verilog, which cut towards zero (IEEE 1364, 5.1.5): -3 and -1.
#   All other operators of the circuit agree. No word of it.
# Who meets it: who writes fixed-point filters, addresses or rounding of signed numbers in Python.
. "$(dirname "$0")/environment"
command -v iverilog > /dev/null || { echo "needs Icarus Verilog"; exit 1; }
packages myhdl==0.11.52
cat > circuit.py <<'PY'
from myhdl import Signal, always_comb, block, delay, instance, intbv


@block
def divider(a, b, quotient, rest, difference, halves):
    @always_comb
    def logic():
        quotient.next = a // b
        rest.next = a % b
        difference.next = a - b
        halves.next = a >> 1

    return logic


a, b = (Signal(intbv(value, min=-128, max=128)) for value in (0, 3))
outputs = [Signal(intbv(0, min=-256, max=256)) for _ in range(4)]
design = divider(a, b, *outputs)
design.convert(hdl="Verilog", name="divider")
pairs = [(x, y) for x in (-7, -6, 7) for y in (2, 3)]
rows = []


@block
def bench():
    made = divider(a, b, *outputs)

    @instance
    def drive():
        for x, y in pairs:
            a.next, b.next = x, y
            yield delay(1)
            rows.append([int(output) for output in outputs])

    return made, drive


bench().run_sim(quiet=1)
lines = "".join(f'a = {x}; b = {y}; #1 $display("%0d %0d %0d %0d", q, r, d, h);\n' for x, y in pairs)
open("bench.v", "w").write(f"""module bench;
reg signed [7:0] a, b; wire signed [8:0] q, r, d, h;
divider made (a, b, q, r, d, h);
initial begin
{lines}end
endmodule
""")
open("python.txt", "w").write("".join(" ".join(map(str, row)) + "\n" for row in rows))
PY
python -W error::UserWarning circuit.py 2> words || { cat words; exit 1; }
if [ -s words ]; then cat words; echo "changed: there are words"; exit 1; fi
iverilog -o bench divider.v bench.v && vvp -n bench > verilog.txt
echo "a, b, Python's quotient, rest, difference, half; Verilog's"
python - <<'PY'
pairs = [(x, y) for x in (-7, -6, 7) for y in (2, 3)]
python, verilog = ([list(map(int, line.split())) for line in open(f"{name}.txt")] for name in ("python", "verilog"))
for pair, ours, theirs in zip(pairs, python, verilog, strict=True):
    print(*pair, ours, theirs)
    assert ours[2:] == theirs[2:] and ours[:2] == [pair[0] // pair[1], pair[0] % pair[1]]
    same = pair[0] > 0 or pair[0] % pair[1] == 0
    assert (ours == theirs) == same, "changed"
PY
