"""A circuit as C: one file, C99, no dependency.

The source has

- `NAME(in, out)`, the gates, on 64 rows at a time: bit i of a word is its value in row i;
- `NAME_counts(in, counts)`, the sums of groups of 64 rows, if the circuit has groups;
- `NAME_with` and `NAME_counts_with`, the same with one more argument, `NAME_SCRATCH` words of the
  caller's that hold what gates give to other gates;
- `NAME_pack(x, rows, in)`, numbers as bits, if the circuit has thresholds.

All of them may run in several threads at once. A word of a gate that nobody reads any more is given
to a later gate, as in `gendr.logic.circuit.packed`, whose program this is. If there are more words
than a stack should hold, `NAME` and `NAME_counts` have them in a variable of which each thread has
its own.

Gates are split into functions of a few hundred, because the time that compilers take grows faster
than the length of a function.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gendr.logic.circuit import packed
from gendr.logic.circuit.exports.texts import filled

if TYPE_CHECKING:
    from gendr.logic.circuit.parts import Parts

# Steps of a function: gcc -O0 takes 4 s for 48,000 gates so; in one function, minutes.
_LENGTH = 500
# Words that may be on the stack, 32 KiB: with some C libraries a thread has no more than 128 KiB.
_ON_STACK = 4096
# What the operations of a program are in C.
_FORMS = {
    packed.COPY: "{a}", packed.NOT: "~{a}", packed.AND: "{a} & {b}", packed.AND_NOT: "{a} & ~{b}",
    packed.OR: "{a} | {b}", packed.OR_NOT: "{a} | ~{b}", packed.XOR: "{a} ^ {b}",
    packed.NAND: "~({a} & {b})", packed.NOR: "~({a} | {b})", packed.XNOR: "~({a} ^ {b})",
    packed.ZERO: "0", packed.ONE: "~(uint64_t)0",
}  # fmt: skip


def source(circuit: Parts, name: str) -> str:
    """The source."""
    netlist, upper = circuit.netlist, name.upper()
    program = packed.compiled(netlist)
    inputs, outputs, words = netlist.inputs, len(netlist.outputs), program.slots
    lines = [
        "/* A logic gate circuit, made by gendr.",
        f"   {len(netlist)} gates, {inputs} inputs, {outputs} outputs. 64 rows are worked on at a",
        "   time: bit i of a word is its value in row i. */",
        "#include <stdint.h>",
        "",
        f"#define {upper}_INPUTS {inputs}",
        f"#define {upper}_OUTPUTS {outputs}",
        f"#define {upper}_SCRATCH {words}",
        *_thread_local(upper, words),
    ]
    steps = list(_steps(program))
    parts = range(0, len(steps), _LENGTH)
    for part, first in enumerate(parts):
        lines += ["", f"static void {name}_{part}(const uint64_t *x, uint64_t *s) {{"]
        lines += [f"  {step};" for step in steps[first : first + _LENGTH]]
        lines += ["  (void)x;", "}"]  # which a function may not read
    lines += [
        "",
        f"static const int32_t {name}_stores[{outputs}] = {{",
        *_rows(program.stores.tolist()),
        "};",
        "",
        f"static void {name}_gates(const uint64_t *x, uint64_t *s) {{",
        *(f"  {name}_{part}(x, s);" for part in range(len(parts))),
        "}",
        "",
        "/* What is in the words of scratch before does not matter. */",
        f"void {name}_with(const uint64_t x[{inputs}], uint64_t out[{outputs}],",
        f"                 uint64_t scratch[{words}]) {{",
        f"  {name}_gates(x, scratch);",
        f"  for (int32_t k = 0; k < {outputs}; k++) out[k] = scratch[{name}_stores[k]];",
        "}",
        "",
        f"void {name}(const uint64_t x[{inputs}], uint64_t out[{outputs}]) {{",
        _scratch(upper, words),
        f"  {name}_with(x, out, scratch);",
        "}",
    ]
    lines += _counts(circuit, name, upper, words) + _pack(circuit, name, upper)
    return "\n".join(lines) + "\n"


def _steps(program: packed.PackedProgram) -> Iterator[str]:
    """The statements of a program, on words s[..] of which x[..] are the inputs."""
    for signal, slot in enumerate(program.loads.tolist()):
        if slot >= 0:
            yield f"s[{slot}] = x[{signal}]"
    gates = program.gates.tolist()
    for operation, start, stop in program.runs.tolist():
        form = _FORMS[operation]
        for own, a, b in gates[start:stop]:
            yield f"s[{own}] = {form.format(a=f's[{a}]', b=f's[{b}]')}"


def _rows(numbers: Sequence[int]) -> Iterator[str]:
    """The lines of a table."""
    for start in range(0, len(numbers), 16):
        yield "  " + "".join(f"{number}, " for number in numbers[start : start + 16]).rstrip()


def _thread_local(upper: str, words: int) -> list[str]:
    """What makes a variable one of each thread, if there is such a variable."""
    if words <= _ON_STACK:
        return []
    return ["", *filled("circuit.c", "thread-local", UPPER=upper, bytes=8 * words).split("\n")]


def _scratch(upper: str, words: int) -> str:
    """The words of a function that is given none."""
    kind = f"static {upper}_LOCAL " if words > _ON_STACK else ""
    return f"  {kind}uint64_t scratch[{words}];"


def _counts(circuit: Parts, name: str, upper: str, words: int) -> list[str]:
    if circuit.sums is None:
        return []
    inputs, groups = circuit.netlist.inputs, circuit.sums.k
    each = len(circuit.netlist.outputs) // groups
    digits = each.bit_length()
    found = filled(
        "circuit.c", "counts", UPPER=upper, name=name, inputs=inputs, groups=groups, each=each,
        digits=digits, words=words, scratch=_scratch(upper, words),
    )  # fmt: skip
    return ["", *found.split("\n")]


def _pack(circuit: Parts, name: str, upper: str) -> list[str]:
    limits = circuit.thresholds
    if limits is None:
        return []
    features, each = circuit.features, limits.shape[1]
    kind = "float" if limits.dtype == "float32" else "double"
    suffix = "f" if kind == "float" else ""
    numbers = ", ".join(f"{float(v).hex()}{suffix}" for v in limits.ravel())
    place = "t" if len(limits) == 1 else f"{each} * f + t"
    found = filled(
        "circuit.c", "pack", UPPER=upper, name=name, features=features, kind=kind, each=each,
        size=limits.size, numbers=numbers, inputs=circuit.netlist.inputs, place=place,
    )  # fmt: skip
    return ["", *found.split("\n")]
