"""A circuit as Verilog (2001): a module for simulation and synthesis.

The input is `x`: a bit for each input of the circuit or, with `word`, a number of that many bits
for each feature, feature 0 lowest; then the thresholds are in the module. The output is `y`, a bit
for each output; `sum0`, `sum1` and so on for circuits with groups; `label`, the number of the group
with most ones, the first of equal ones; or `labels`, a bit for each group.

With `registers` there is an input `clk`, and the module is a pipeline: it takes a row at every
clock, and what belongs to it is at the output `LATENCY` clocks later. Thresholds, every so many
levels of gates, every level of the trees of adders and of comparisons, and the output have a stage
each.

With `stream` the ports are those of AXI4-Stream (AMBA, ARM IHI 0051): `s_axis_tdata` has x and
`m_axis_tdata` the results, the first one lowest, each filled up to whole bytes by zeros; `tlast`
stays with its row. The pipeline stands still while a result waits for `m_axis_tready`, so none is
lost; `aresetn` empties it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gendr._common.names import unknown

if TYPE_CHECKING:
    from gendr.logic.circuit.parts import Parts

_EVERYWHERE = 1 << 30  # the stage of constants, after which nothing has to be kept
RESULTS = ("bits", "sums", "class", "labels")
# Gates by id.
_FORMS = (
    "1'b0", "{a} & {b}", "{a} & ~{b}", "{a}", "~{a} & {b}", "{b}", "{a} ^ {b}", "{a} | {b}",
    "~({a} | {b})", "~({a} ^ {b})", "~{b}", "{a} | ~{b}", "~{a}", "~{a} | {b}", "~({a} & {b})",
    "1'b1",
)  # fmt: skip


class _Net(NamedTuple):
    """A value in the module.

    Attributes:
        text: which says it, a name or a bit of one.
        name: of its registers.
        width: its bits.
        stage: of the pipeline, in which it is found.
    """

    text: str
    name: str
    width: int
    stage: int


class _Module:
    """The lines of a module, and the registers that hold values until their stage."""

    def __init__(self, clocked: bool) -> None:
        self.lines: list[str] = []
        self.clocked = clocked
        self._updates: list[str] = []
        self._known: set[str] = set()

    def at(self, net: _Net, stage: int) -> str:
        """The value in a later stage: of the row that is there."""
        text = net.text
        for k in range(1, stage - net.stage + 1 if self.clocked else 0):
            name = f"{net.name}_r{k}"
            if name not in self._known:
                self._known.add(name)
                self.lines.append(f"  reg {_range(net.width)}{name};")
                self._updates.append(f"    {name} <= {text};")
            text = name
        return text

    def wire(self, name: str, width: int, stage: int, form: str, *operands: _Net) -> _Net:
        """A new value, of others in its stage."""
        texts = [self.at(each, stage) for each in operands]
        self.lines.append(f"  wire {_range(width)}{name} = {form.format(*texts)};")
        return _Net(name, name, width, stage)

    def updates(self, when: str = "") -> list[str]:
        """What happens at every clock."""
        if not self._updates:
            return []
        return [f"  always @(posedge clk) {when}begin", *self._updates, "  end"]


class Options(NamedTuple):
    """What the module takes and gives; see `Circuit.to_verilog`."""

    word: int | None = None
    fraction: int = 0
    signed: bool = False
    result: str | None = None
    registers: int = 0
    stream: bool = False

    def checked(self, circuit: Parts) -> Options:
        """The same with the result that the circuit has by default."""
        registers = _check("registers", self.registers, 0)
        result = self.result or ("sums" if circuit.sums else "bits")
        if result not in RESULTS:
            raise ValueError(unknown("result", result, RESULTS))
        if circuit.sums is None and result != "bits":
            raise ValueError(
                f"result {result!r} needs outputs that are summed; end with a GroupSum"
            )
        if self.stream and not registers:
            raise ValueError("a stream needs a clock: give registers=1 or more")
        return self._replace(result=result, registers=registers)


def source(circuit: Parts, name: str, options: Options) -> str:
    """The source; see `Circuit.to_verilog`."""
    netlist = circuit.netlist
    word, fraction, signed, result, registers, stream = options = options.checked(circuit)
    module = _Module(registers > 0)
    signals, width = _inputs(circuit, word, fraction, signed, module)
    first = 1 if word is not None and module.clocked else 0
    levels = netlist.levels().tolist()
    triples = zip(netlist.ids.tolist(), netlist.a.tolist(), netlist.b.tolist(), strict=True)
    for k, (gate, a, b) in enumerate(triples):
        stage = first + (levels[netlist.inputs + k] - 1) // registers if registers else 0
        # A wire of its own: of a vector, a change of one bit would wake the readers of all.
        form = _FORMS[gate]
        own = [signals[s] for s, letter in ((a, "{a}"), (b, "{b}")) if letter in form]
        form = form.replace("{a}", "{}").replace("{b}", "{}")
        signals.append(module.wire(f"g{k}", 1, stage, form, *own))
    outputs = [signals[signal] for signal in netlist.outputs.tolist()]
    found = _results(circuit, result or "bits", outputs, module)
    ports = ["input wire clk"] * module.clocked
    ports.append(f"input wire {_range(width, scalar=False)}x")
    last = max(net.stage for _, _, net in found)
    latency = last + 1
    results: list[str] = []
    assigns: list[str] = []
    for port, (_, place, net) in zip(_ports(found), found, strict=True):
        if port:
            results.append(port)
        assigns.append(f"  assign {place} = {module.at(net, latency)};")
    around: list[str] = []
    if stream:
        ports, around = _stream(width, results, latency)
    else:
        ports += results
    lines = [f"// A logic gate circuit, made by gendr: {len(netlist)} gates."]
    if word is not None:
        kind = "signed" if signed else "unsigned"
        lines.append(
            f"// Feature f is x[{word} f + {word - 1}:{word} f], {kind}, over {1 << fraction}."
        )
    lines += [
        "// Features that no gate reads, and groups that are always 0, are no mistake.",
        "/* verilator lint_off UNUSED */",
        "/* verilator lint_off UNSIGNED */",
        f"module {name} (", ",\n".join(f"  {port}" for port in ports), ");",
    ]  # fmt: skip
    if module.clocked:
        lines.append(f"  localparam LATENCY = {latency};")
    updates = module.updates("if (enable) " * stream)
    return "\n".join([*lines, *around, *module.lines, *assigns, *updates, "endmodule",
                      "/* verilator lint_on UNUSED */", ""])  # fmt: skip


def _stream(width: int, results: list[str], latency: int) -> tuple[list[str], list[str]]:
    """The ports of AXI4-Stream, and what is between them and the pipeline."""
    taken, given = whole_bytes(width), whole_bytes(sum(map(_width_of, results)))
    ports = [
        "input wire aclk", "input wire aresetn",
        f"input wire [{taken - 1}:0] s_axis_tdata", "input wire s_axis_tvalid",
        "input wire s_axis_tlast", "output wire s_axis_tready",
        f"output wire [{given - 1}:0] m_axis_tdata", "output wire m_axis_tvalid",
        "output wire m_axis_tlast", "input wire m_axis_tready",
    ]  # fmt: skip
    names = [port.split()[-1] for port in results]
    filled = given - sum(map(_width_of, results))
    parts = [f"{filled}'d0"] * (filled > 0) + names[::-1]

    def shifted(name: str, first: str) -> str:
        return f"{{{name}[{latency - 2}:0], {first}}}" if latency > 1 else first

    return ports, [
        "  wire clk = aclk;",
        f"  wire {_range(width, scalar=False)}x = s_axis_tdata[{width - 1}:0];",
        *(f"  {port.removeprefix('output ')};" for port in results),
        f"  reg {_range(latency, scalar=False)}valid, final_one;",
        "  wire enable = m_axis_tready | ~m_axis_tvalid;",
        "  assign s_axis_tready = enable & aresetn;",
        f"  assign m_axis_tvalid = valid[{latency - 1}];",
        f"  assign m_axis_tlast = final_one[{latency - 1}];",
        f"  assign m_axis_tdata = {{{', '.join(parts)}}};",
        "  always @(posedge clk)",
        f"    if (!aresetn) valid <= {latency}'d0;",
        f"    else if (enable) valid <= {shifted('valid', 's_axis_tvalid')};",
        "  always @(posedge clk)",
        f"    if (enable) final_one <= {shifted('final_one', 's_axis_tlast')};",
    ]


def _width_of(port: str) -> int:
    """The bits of a port by its declaration, which has a range."""
    return int(port.split("[")[1].split(":")[0]) + 1


def whole_bytes(bits: int) -> int:
    """Bits that are filled up to bytes."""
    return -(-bits // 8) * 8


def _check(name: str, value: object, least: int) -> int:
    """As `check_count`, whose module needs torch, which circuits do not."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be an int >= {least}, got {value!r}")
    return int(value)


def _range(width: int, scalar: bool = True) -> str:
    return "" if width == 1 and scalar else f"[{width - 1}:0] "


def _inputs(
    circuit: Parts, word: int | None, fraction: int, signed: bool, module: _Module
) -> tuple[list[_Net], int]:
    """The inputs of the gates, and the bits of x."""
    inputs, limits = circuit.netlist.inputs, circuit.thresholds
    if word is None:
        if fraction or signed:
            raise ValueError("fraction and signed say how numbers are written; give word too")
        return [_Net(f"x[{k}]", f"x{k}", 1, 0) for k in range(inputs)], inputs
    word, fraction = _check("word", word, 1), _check("fraction", fraction, 0)
    if limits is None:
        raise ValueError("this circuit takes bits: it has no thresholds; leave out word")
    read = {*circuit.netlist.a.tolist(), *circuit.netlist.b.tolist()}
    read |= {*circuit.netlist.outputs.tolist()}
    least, most = (-(1 << word - 1), (1 << word - 1) - 1) if signed else (0, (1 << word) - 1)
    each = limits.shape[1]
    nets: list[_Net] = []
    for k in range(inputs):
        feature, t = divmod(k, each)
        floor = _floor(limits[feature if len(limits) > 1 else 0, t], fraction)
        if floor >= most or floor < least:
            text = "1'b0" if floor >= most else "1'b1"
        else:
            number = f"x[{word * (feature + 1) - 1}:{word * feature}]"
            sign = "-" if floor < 0 else ""
            text = f"$signed({number}) > {sign}{word}'sd{abs(floor)}" if signed else (
                f"{number} > {word}'d{floor}"
            )  # fmt: skip
        nets.append(module.wire(f"b{k}", 1, 0, text) if k in read else _Net("", f"b{k}", 1, 0))
    return nets, word * circuit.features


def _floor(limit: np.floating[Any], fraction: int) -> int:
    """Whole n are above this floor where n / 2^fraction, in the dtype of the limit, is above it.

    Numbers become the next of that dtype from the middle between the two on, the even one of two.
    """
    above = np.nextafter(limit, limit.dtype.type(np.inf))
    middle = (Fraction(float(limit)) + Fraction(float(above))) / 2 * (1 << fraction)
    goes_up = limit.dtype.type(float((Fraction(float(limit)) + Fraction(float(above))) / 2)) > limit
    return math.floor(middle) - (middle.denominator == 1 and bool(goes_up))


def _results(
    circuit: Parts, result: str, outputs: list[_Net], module: _Module
) -> list[tuple[str, str, _Net]]:
    """What goes out: the port, its part, and the value."""
    sums = circuit.sums
    if result == "bits" or sums is None:
        return [("y", f"y[{k}]", net) for k, net in enumerate(outputs)]
    each = len(outputs) // sums.k
    counts = [_counted(outputs[each * k : each * (k + 1)], f"s{k}", module) for k in range(sums.k)]
    if result == "sums":
        return [(f"sum{k}", f"sum{k}", net) for k, net in enumerate(counts)]
    if result == "labels":
        least = math.floor(sums.limit)
        stage = max(net.stage for net in counts) + module.clocked
        nets: list[_Net] = []
        for k, net in enumerate(counts):
            form = f"{{}} > {net.width}'d{least}"
            form = "1'b1" if least < 0 else "1'b0" if least >= each else form
            nets.append(module.wire(f"l{k}", 1, stage, form, *[net] * ("{" in form)))
        return [("labels", f"labels[{k}]", net) for k, net in enumerate(nets)]
    return [("label", "label", _largest(counts, module))]


def _counted(bits: list[_Net], name: str, module: _Module) -> _Net:
    """How many are 1, [bit_length of their number]."""
    width = len(bits).bit_length()
    if not module.clocked:
        return module.wire(name, width, 0, _sum(bits, width), *bits)
    stage, level = max(net.stage for net in bits), 0
    while len(bits) > 1 or level == 0:
        stage, level = stage + 1, level + 1
        pairs = [bits[k : k + 2] for k in range(0, len(bits), 2)]
        wide = min(width, level + 1)
        bits = [
            module.wire(f"{name}_{level}_{k}", wide, stage, _sum(pair, wide), *pair)
            for k, pair in enumerate(pairs)
        ]
    return bits[0]


def _sum(nets: list[_Net], width: int) -> str:
    """The form of a sum, whose parts are as wide as it: what is not is a warning to many tools."""
    return " + ".join(
        "{}" if net.width == width else f"{{{{{width - net.width}'d0, {{}}}}}}" for net in nets
    )


def _largest(counts: list[_Net], module: _Module) -> _Net:
    """The number of the largest, the first of equal ones."""
    width = max(1, (len(counts) - 1).bit_length())
    stage, level = max(net.stage for net in counts), 0
    rows = [(net, _Net(f"{width}'d{k}", "", width, _EVERYWHERE)) for k, net in enumerate(counts)]
    while len(rows) > 1 or level == 0:
        stage, level = stage + module.clocked, level + 1
        winners: list[tuple[_Net, _Net]] = []
        for k in range(0, len(rows), 2):
            (a, i), (b, j) = rows[k], rows[min(k + 1, len(rows) - 1)]
            own = f"{level}_{k // 2}"
            if i is j:
                place = module.wire(f"i{own}", width, stage, "{}", i)
                winners.append((a, place))
                continue
            first = module.wire(f"c{own}", 1, stage, "{} >= {}", a, b)
            most = a  # which nobody asks for at the end
            if len(rows) > 2:
                most = module.wire(f"m{own}", a.width, stage, "{} ? {} : {}", first, a, b)
            winners.append(
                (most, module.wire(f"i{own}", width, stage, "{} ? {} : {}", first, i, j))
            )
        rows = winners
    return rows[0][1]


def _ports(found: list[tuple[str, str, _Net]]) -> list[str]:
    """The declaration of a port at its first part, nothing at others."""
    names = [name for name, *_ in found]
    return [
        ""
        if name in names[:k]
        else f"output wire {_range(net.width if place == name else len(found), scalar=False)}{name}"
        for k, (name, place, net) in enumerate(found)
    ]
