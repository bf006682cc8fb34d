"""A circuit as C: one file, C99, no dependency.

The source has

- `NAME(in, out)`, the gates, on 64 rows at a time: bit i of a word is its value in row i;
- `NAME_counts(in, counts)`, the sums of groups of 64 rows, if the circuit has groups;
- `NAME_pack(x, rows, in)`, numbers as bits, if the circuit has thresholds.

Gates are split into functions of a few hundred, because the time that compilers take grows faster
than the length of a function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gendr.logic.circuit.exports.names import check_name, expression

if TYPE_CHECKING:
    from gendr.logic.circuit.circuit import Circuit

__all__ = ["source"]

# Gates of a function: gcc takes 2 s for 48,000 gates so, and minutes for them in one function.
_LENGTH = 500


def source(circuit: Circuit, name: str) -> str:
    """The source.

    Raises:
        ValueError: if the name is none in C.
    """
    check_name(name)
    netlist = circuit.netlist
    inputs, gates, outputs = netlist.inputs, len(netlist), netlist.outputs.tolist()
    upper = name.upper()
    lines = [
        "/* A logic gate circuit, made by gendr.",
        f"   {gates} gates, {inputs} inputs, {len(outputs)} outputs. Bit i of a word is its value",
        "   in row i: 64 rows are worked on at a time. */",
        "#include <stdint.h>",
        "",
        f"#define {upper}_INPUTS {inputs}",
        f"#define {upper}_OUTPUTS {len(outputs)}",
    ]

    def word(signal: int) -> str:
        return f"x[{signal}]" if signal < inputs else f"g[{signal - inputs}]"

    rows = list(zip(netlist.ids.tolist(), netlist.a.tolist(), netlist.b.tolist(), strict=True))
    parts = range(0, gates, _LENGTH)
    for part, first in enumerate(parts):
        lines += ["", f"static void {name}_{part}(const uint64_t *x, uint64_t *g) {{"]
        for k, (gate, a, b) in enumerate(rows[first : first + _LENGTH], first):
            text = expression(gate, word(a), word(b), zero="0", one="~(uint64_t)0")
            lines.append(f"  g[{k}] = {text};")
        # A function that reads no input, or only constants, would have unused arguments.
        lines += ["  (void)x;", "}"]
    lines += [
        "",
        f"void {name}(const uint64_t x[{inputs}], uint64_t out[{len(outputs)}]) {{",
        f"  uint64_t g[{max(gates, 1)}];",
        *(f"  {name}_{part}(x, g);" for part in range(len(parts))),
        *(f"  out[{k}] = {word(signal)};" for k, signal in enumerate(outputs)),
        "  (void)g;",
        "}",
    ]
    lines += _counts(circuit, name, upper) + _pack(circuit, name, upper)
    return "\n".join(lines) + "\n"


def _counts(circuit: Circuit, name: str, upper: str) -> list[str]:
    if circuit.sums is None:
        return []
    groups, outputs = circuit.sums.k, len(circuit.netlist.outputs)
    each = outputs // groups
    digits = each.bit_length()
    return f"""
#define {upper}_GROUPS {groups}

/* How many outputs of each group are 1, in each of 64 rows; the class is the group with most.
   A word for each binary digit of the count takes one output after the other. */
void {name}_counts(const uint64_t x[{circuit.netlist.inputs}], int32_t counts[64][{groups}]) {{
  uint64_t out[{outputs}];
  {name}(x, out);
  for (int k = 0; k < {groups}; k++) {{
    uint64_t digit[{digits}] = {{0}};
    for (int j = 0; j < {each}; j++) {{
      uint64_t carry = out[{each} * k + j];
      for (int p = 0; carry && p < {digits}; p++) {{
        uint64_t next = digit[p] & carry;
        digit[p] ^= carry;
        carry = next;
      }}
    }}
    for (int i = 0; i < 64; i++) {{
      int32_t count = 0;
      for (int p = 0; p < {digits}; p++) count |= (int32_t)(digit[p] >> i & 1) << p;
      counts[i][k] = count;
    }}
  }}
}}""".split("\n")


def _pack(circuit: Circuit, name: str, upper: str) -> list[str]:
    limits = circuit.thresholds
    if limits is None:
        return []
    features, each = circuit.features, limits.shape[1]
    kind = "float" if limits.dtype == "float32" else "double"
    suffix = "f" if kind == "float" else ""
    numbers = ", ".join(f"{float(v).hex()}{suffix}" for v in limits.ravel())
    place = "t" if len(limits) == 1 else f"{each} * f + t"
    return f"""
#define {upper}_FEATURES {features}

static const {kind} {name}_thresholds[{limits.size}] = {{{numbers}}};

/* Up to 64 rows of numbers as bits: whether each is above each of its thresholds. */
void {name}_pack(const {kind} *x, int rows, uint64_t in[{circuit.netlist.inputs}]) {{
  for (int j = 0; j < {circuit.netlist.inputs}; j++) in[j] = 0;
  for (int i = 0; i < rows; i++)
    for (int f = 0; f < {features}; f++)
      for (int t = 0; t < {each}; t++)
        in[{each} * f + t] |= (uint64_t)(x[{features} * i + f] > {name}_thresholds[{place}]) << i;
}}""".split("\n")
