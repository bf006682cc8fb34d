"""Circuits: equal to the network in `eval` mode on every row, in all forms; files; errors."""

import ctypes
import io
import itertools
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from gendr.logic import (
    GATES,
    Binarize,
    Circuit,
    GroupSum,
    LogicConv2d,
    LogicLayer,
    OrPool2d,
    PackedBits,
    Sums,
    Thermometer,
    harden,
)
from support.cases import for_each
from support.processes import Python

IMAGE = (2, 6, 5)


def network(*parts):
    torch.manual_seed(len(parts))
    for each in parts:
        if isinstance(each, (LogicConv2d, LogicLayer)):
            each.reset("normal")
    return nn.Sequential(*parts).eval()


def gates(*front, layers=((12, 20, 2), (20, 24, 2)), groups=3, tau=1.7, beta=0.0):
    sums = [GroupSum(groups, tau, beta)] if groups else []
    return network(*front, *(LogicLayer(*sizes, seed=0) for sizes in layers), *sums)


def trees(channels, count=6, **more):
    return LogicConv2d(channels, count, 3, seed=0, **more)


def stored(about="", **changes):
    """The bytes of a file with other arrays in it."""
    file = io.BytesIO()
    about = about or '{"format": "gendr circuit 1", "inputs": 2, "sums": null}'
    arrays = {
        "about": np.frombuffer(about.encode(), np.uint8),
        "ids": np.array([1], np.uint8),
        "a": np.array([0], np.int32),
        "b": np.array([1], np.int32),
        "outputs": np.array([2], np.int32),
    }
    np.savez(file, **{k: v for k, v in (arrays | changes).items() if v is not None})
    return file.getvalue()


def wired(inputs, ids, a, b, outputs, sums=None):
    """A circuit of these gates, from a file."""
    about = json.dumps({"format": "gendr circuit 1", "inputs": inputs, "sums": sums})
    arrays = {"a": np.int32(a), "b": np.int32(b), "outputs": np.int32(outputs)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.circuit")
        path.write_bytes(stored(about, ids=np.uint8(ids), **arrays))
        return Circuit.load(path)


# The shape of a row, whether it is of bits, and the network.
NETWORKS = {
    "bits": ((12,), True, lambda: gates(groups=0)),
    "sums": ((12,), True, gates),
    "binarize": ((12,), False, lambda: gates(Binarize(0.4))),
    "thermometer": ((4,), False, lambda: gates(Thermometer([0.2, 0.5, 0.7]))),
    "thresholds": ((4,), False, lambda: gates(Thermometer(torch.rand(4, 3)), groups=0)),
    "luts": (
        (12,), True, lambda: gates(layers=((12, 9, 6), (9, 7, 3), (7, 12, 1), (12, 12, 4)), beta=-1)
    ),
    "wide": (
        (12,), False, lambda: gates(Binarize(), layers=((12, 700), (700, 1030)), groups=2)
    ),
    "one": ((12,), True, lambda: gates(layers=((12, 1),), groups=0)),
    "wires": ((12,), True, lambda: nn.Sequential(LogicLayer(12, 18, seed=0), GroupSum(3)).eval()),
    "trees": (IMAGE, True, lambda: network(trees(2))),
    "padded": (IMAGE, True, lambda: network(trees(2, padding=1, stride=2, depth=2))),
    "far": (IMAGE, True, lambda: network(trees(2, padding=(4, 0)))),
    "deep": (IMAGE, True, lambda: network(
        trees(2, padding=1), OrPool2d(2), nn.Sequential(trees(6, 8, padding=1), nn.Dropout()),
        OrPool2d(2, padding=1), nn.Flatten(), LogicLayer(32, 30), GroupSum(3, 1.3),
    )),
    "pool": (IMAGE, True, lambda: network(OrPool2d(3, 1, 1), trees(2, depth=1))),
    "numbers": (IMAGE, False, lambda: network(
        Binarize(0.6), trees(2), nn.Flatten(), LogicLayer(72, 20), GroupSum(2)
    )),
    "channels": (IMAGE, False, lambda: network(
        Thermometer.uniform(3, dim=-3), trees(6), nn.Flatten(1), GroupSum(4, 2.0)
    )),
    "each channel": (IMAGE, False, lambda: network(
        Thermometer(torch.tensor([[0.2, 0.7], [0.4, 0.5]]), dim=-3), trees(4, groups=2),
        nn.Flatten(), LogicLayer(72, 10, wiring="learnable"),
    )),
    "columns": (IMAGE, False, lambda: network(
        Thermometer(torch.rand(5, 2)), trees(2, padding=1), OrPool2d((2, 3), (3, 2)), nn.Flatten(),
        GroupSum(2),
    )),
    "rows": ((60,), False, lambda: network(
        nn.Unflatten(1, IMAGE), Thermometer([0.3, 0.6], dim=-3), trees(4), nn.Flatten(-2),
        nn.Flatten(), LogicLayer(72, 12, 3), GroupSum(3),
    )),
    "thermometer first": ((60,), True, lambda: network(
        Thermometer([0.3, 0.6]), nn.Unflatten(-1, (2, 6, -1)), trees(2, 3, padding=1), nn.Flatten(),
        GroupSum(3),
    )),
}  # fmt: skip


def made(name, count=130, **options):
    """A network, its circuit, rows of it, and what the circuit must give."""
    shape, is_bits, make = NETWORKS[name]
    model, x = make(), torch.rand(count, *shape)
    x = (x > 0.5).float() if is_bits else x
    known = len(shape) == 1 and name != "thermometer first"
    circuit = harden(model, input_shape=None if known else shape, **options)
    y = model(x)
    want = y if isinstance(model[-1], GroupSum) else y.flatten(1) > 0
    return model, circuit, x.flatten(1), want


@for_each(name=NETWORKS, rotating=5)
def test_a_circuit_is_its_network(name, tmp_path):
    """In torch and NumPy, before and after it is simplified, saved, and written as source."""
    _, circuit, x, want = made(name, simplify=False)
    assert torch.equal(circuit(x), want)
    _, circuit, x, want = made(name)
    assert torch.equal(circuit(x), want)
    rows = x.numpy()
    got = circuit(rows)
    assert isinstance(got, np.ndarray)
    assert np.array_equal(got, want.numpy())
    if circuit.sums is not None:
        assert torch.equal(circuit.predict(x), want.argmax(1))
    circuit.save(tmp_path / "a.circuit")
    again = Circuit.load(tmp_path / "a.circuit")
    assert torch.equal(again(x), want)
    assert (str(again), again.sums) == (str(circuit), circuit.sums)
    space = {}
    exec(circuit.to_numpy("net"), space)
    assert np.array_equal(space["net"](rows), want.numpy())
    with pytest.raises(ValueError, match="x must have shape"):
        space["net"](rows[:, :1])
    assert circuit.to_dot().count("[label=") == len(circuit.netlist)
    bits = circuit.pack(x[:3])
    signals, outputs = (
        np.unpackbits(each.words.view(np.uint8), axis=1, bitorder="little").T[:3]
        for each in (bits, circuit.outputs(bits))
    )
    found = [verilog_outputs(circuit.to_verilog("net"), row) for row in signals]
    assert np.array_equal(found, outputs if circuit.sums is None else circuit.counts(bits))


def verilog_outputs(source, row):
    """A small simulator of what the export writes: assignments in order."""
    assert "module net (" in source
    values = {"x": [np.bool_(bit) for bit in row], "y": {}, "zero": np.False_, "one": np.True_}
    for target, text in re.findall(r"(?:assign|wire)(?: \[\d+:0\])? (\S+) = (.*);", source):
        text = re.sub(r"\{\d+'d0, (\S+)\}", r"\1", text)  # widened
        text = text.replace("1'b0", "zero").replace("1'b1", "one")
        value = sum(int(eval(term, {}, values)) for term in text.split(" + "))
        value = value if target.startswith("s") else np.bool_(value)
        name, _, index = target.partition("[")
        if index:
            values[name][int(index[:-1])] = value
        else:
            values[name] = value
    if values["y"]:
        return [values["y"][k] for k in range(len(values["y"]))]
    return [values[name] for name in sorted(values) if name.startswith("sum")]


HAS_GCC = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def as_library(text, folder):
    (folder / "net.c").write_text(text)
    gcc = ["gcc", "-O0", "-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    traps = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
    subprocess.run([*gcc, *traps, "-o", "net.so", "net.c"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "net.so"))


def pointers(*arrays):
    return [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]


@HAS_GCC
@for_each(name=NETWORKS, rotating=7)
def test_c_source(name, tmp_path):
    _, circuit, x, _ = made(name, 64)
    text = circuit.to_c("net")
    library = as_library(text, tmp_path)
    words = np.zeros(circuit.netlist.inputs, np.uint64)
    bits = circuit.pack(x)
    if circuit.thresholds is not None:
        rows = np.ascontiguousarray(x.numpy(), circuit.thresholds.dtype)
        at = pointers(rows, words)
        library.net_pack(at[0], 64, at[1])
        assert np.array_equal(words, bits.words[:, 0])
    words = np.ascontiguousarray(bits.words[:, 0])
    scratch = np.full(int(re.search(r"NET_SCRATCH (\d+)", text)[1]) + 1, 2**64 - 1, np.uint64)
    for kind in ("", "_with"):
        more = pointers(scratch) if kind else []
        if circuit.sums is not None:
            counts = np.zeros((64, circuit.sums.k), np.int32)
            getattr(library, f"net_counts{kind}")(*pointers(words, counts), *more)
            assert np.array_equal(counts, circuit.counts(bits))
        out = np.zeros(len(circuit.netlist.outputs), np.uint64)
        getattr(library, f"net{kind}")(*pointers(words, out), *more)
        assert np.array_equal(out, circuit.outputs(bits).words[:, 0])
    assert scratch[-1] == 2**64 - 1


# As users run it: in several threads at once, whose stacks are small.
IN_THREADS = """
import ctypes, sys, threading
import numpy as np

path, groups, inputs = sys.argv[1], *map(int, sys.argv[2:])
library = ctypes.CDLL(path)
words = np.fromfile("words.bin", np.uint64).reshape(-1, inputs)
counts = np.zeros((len(words), 64, groups), np.int32)

def work(k):
    for _ in range(20):
        at = [array.ctypes.data_as(ctypes.c_void_p) for array in (words[k], counts[k])]
        library.net_counts(*at)

threading.stack_size(64 << 10)
threads = [threading.Thread(target=work, args=(k,)) for k in range(len(words))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
counts.tofile("counts.bin")
"""


@pytest.mark.every
@HAS_GCC
@for_each(reach=[2000, 16_000], rotating=2)
def test_a_large_circuit_as_c_needs_little_stack(reach, tmp_path):
    """All its gates together have more words than the stack; with a long reach most are needed."""
    inputs, count, groups = 50, 16_000, 4
    generator = np.random.default_rng(0)
    own = np.arange(inputs, inputs + count)
    a, b = (np.maximum(own - generator.integers(1, reach, count), 0) for _ in range(2))
    a[:inputs] = np.arange(inputs)
    outputs = generator.integers(count - 400, count, 400) + inputs
    ids = generator.choice([1, 6, 7, 9, 11, 14], count)
    large = wired(inputs, ids, a, b, outputs, [groups, 1.0, 0.0])
    text = large.to_c("net")
    assert ("static NET_LOCAL" in text) == (reach > 2000)
    as_library(text, tmp_path)
    words = generator.integers(0, 2**64, (4, inputs), np.uint64)
    words.tofile(tmp_path / "words.bin")
    process = Python(IN_THREADS, tmp_path / "net.so", groups, inputs, cwd=tmp_path)
    assert process.wait() == 0, process.output()[1]
    got = np.fromfile(tmp_path / "counts.bin", np.int32).reshape(4, 64, groups)
    want = large.counts(PackedBits(np.ascontiguousarray(words.T), 256))
    assert np.array_equal(got.reshape(256, groups), want)
    assert len(np.unique(want)) > 10


def test_graphs():
    circuit = wired(3, [6, 2], [0, 3], [1, 0], [4, 3])
    assert circuit.to_dot("net") == (
        "digraph net {\n"
        "  node [shape=box, fontname=sans];\n"
        "  x0 [shape=circle];\n"
        "  x1 [shape=circle];\n"
        '  g0 [label="a ⊕ b"];\n'
        '  g1 [label="a ∧ ¬b"];\n'
        "  x0 -> g0;\n"
        "  x1 -> g0;\n"
        '  g0 -> g1 [taillabel="a"];\n'
        '  x0 -> g1 [taillabel="b"];\n'
        "  g1 -> y0;\n"
        "  g0 -> y1;\n"
        "}\n"
    )
    circuit = made("thermometer")[1]
    assert "-> sum2;" in circuit.to_dot()
    text = str(circuit)
    assert text.startswith("; 4 features, 3 thresholds for all features: bit t of feature f is")
    assert "; 3 sums of groups of outputs, / 1.7 + 0\ninputs %0 .. %11\n%12 = " in text


HAS_IVERILOG = pytest.mark.skipif(
    shutil.which("iverilog") is None, reason="iverilog, which simulates Verilog, is not installed"
)


def simulated(source, words, ports, folder):
    """What the module gives for rows, as numbers: a row every clock, or every unit of time."""
    latency = re.search(r"LATENCY = (\d+);", source)
    width = re.search(r"input wire \[(\d+):0\] x", source)[1]
    outs = [re.search(rf"output wire (\[\d+:0\]) {port}\b", source)[1] for port in ports]
    lines = [
        source, "module bench;", f"reg clk = 0; reg [{width}:0] x;",
        *(f"wire {out} {port};" for out, port in zip(outs, ports, strict=True)),
        f"net n({'clk, ' * bool(latency)}x, {', '.join(ports)});", "initial begin",
    ]  # fmt: skip
    show = f'$display("{" %0d" * len(ports)}", {", ".join(ports)});'
    wait = int(latency[1]) if latency else 0
    for k, word in enumerate([*words, *[0] * wait]):
        lines.append(f"x = {int(width) + 1}'d{word}; #1 clk = 1; #1 clk = 0;")
        lines.append(show if k >= wait - (wait > 0) and k < len(words) + wait - (wait > 0) else "")
    (folder / "net.v").write_text("\n".join([*lines, "end endmodule", ""]))
    command = ["iverilog", "-g2001", "-Wall", "-Wno-timescale", "-o", "net", "net.v"]
    made = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    assert not made.stderr, made.stderr
    run = subprocess.run(["vvp", "net"], cwd=folder, check=True, capture_output=True, text=True)
    return np.array([[int(word) for word in line.split()] for line in run.stdout.splitlines()])


def written(rows, word, fraction):
    """Rows of numbers as one number each, feature 0 lowest."""
    numbers = [[int(v * 2**fraction) % 2**word for v in row] for row in rows.tolist()]
    return [sum(v << word * k for k, v in enumerate(row)) for row in numbers]


@HAS_IVERILOG
@for_each(
    "word, fraction, signed",
    [(8, 0, False), (6, 2, True), (12, 4, True)],
    registers=[0, 1, 2],
    rotating=3,
)
def test_a_whole_classifier_in_a_simulator(word, fraction, signed, registers, tmp_path):
    """From numbers to sums, the class and labels; with registers a row goes in at every clock."""
    limits = torch.tensor([[90.0, 200.5], [60.0, 99.5], [0.3, 254.0], [-3.0, 255.0]])
    if signed:
        limits = torch.tensor([[-1.25, 3.0], [0.5, 1.0], [-0.3, -7.75], [0.0, 7.5]])
    model = nn.Sequential(
        Thermometer(limits), LogicLayer(8, 40, init="normal", seed=1),
        LogicLayer(40, 15, fan_in=3, init="normal", seed=2), GroupSum.of_labels(5, 15),
    ).eval()  # fmt: skip
    circuit = harden(model)
    low, high = (-(1 << word - 1), 1 << word - 1) if signed else (0, 1 << word)
    ends = torch.tensor([[low] * 4, [high - 1] * 4])
    rows = torch.cat([torch.randint(low, high, (50, 4)), ends]) / 2.0**fraction
    rows = torch.cat([rows, limits.T.clamp(low / 2**fraction, (high - 1) / 2**fraction).floor()])
    words = written(rows, word, fraction)
    options = {"word": word, "fraction": fraction, "signed": signed, "registers": registers}

    def outputs(result, *ports):
        return simulated(
            circuit.to_verilog("net", result=result, **options), words, ports, tmp_path
        )

    counts = circuit.counts(circuit.pack(rows))
    assert np.array_equal(outputs("sums", *(f"sum{k}" for k in range(5))), counts)
    assert np.array_equal(outputs("class", "label")[:, 0], circuit.predict(rows))
    assert len(set(circuit.predict(rows).tolist())) > 2
    labels = outputs("labels", "labels")[:, 0]
    found = labels[:, None] >> np.arange(5) & 1
    assert np.array_equal(found, circuit.labels(rows))
    assert np.array_equal(found, model(rows) > 0)
    bits = outputs("bits", "y")[:, 0].astype(object)
    whole = circuit.outputs(circuit.pack(rows))
    want = np.unpackbits(whole.words.view(np.uint8), axis=1, bitorder="little").T[: len(rows)]
    assert np.array_equal([[int(v) >> k & 1 for k in range(15)] for v in bits], want)


@pytest.mark.rotating(4, group="long")
@HAS_IVERILOG
def test_a_bench_beside_the_module_passes_and_fails(tmp_path):
    """Of a stream the source has gaps and the sink makes results wait; faults are found."""
    limits = torch.tensor([[90.0, 200.5], [60.0, 99.5]])
    last = LogicLayer(20, 12, fan_in=3, init="normal", seed=2)
    last.weight.data[8:] = -1  # a class that has no ones
    numbers = harden(nn.Sequential(
        Thermometer(limits), LogicLayer(4, 20, init="normal", seed=1), last, GroupSum(3),
    ).eval())  # fmt: skip
    rows = torch.randint(0, 256, (30, 2)).float()
    _, plain, x, _ = made("bits", 30)

    def said(module, bench):
        (tmp_path / "net.v").write_text(module)
        (tmp_path / "bench.v").write_text(bench)
        command = ["iverilog", "-g2001", "-Wall", "-Wno-timescale", "-o", "net", "net.v", "bench.v"]
        made = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
        assert not made.stderr, made.stderr
        run = subprocess.run(["vvp", "-n", "net"], cwd=tmp_path, capture_output=True, text=True)
        if shutil.which("verilator") is not None:
            command = ["verilator", "--lint-only", "-Wall", "net.v"]
            lint = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
            assert (lint.returncode, lint.stderr) == (0, ""), lint.stderr
        return run.stdout

    for circuit, given, options in (
        (plain, x, {}),
        (plain, x, {"registers": 30, "stream": True}),  # a latency of 1
        (numbers, rows, {"word": 8, "result": "class"}),
        (numbers, rows, {"word": 8, "registers": 1}),
        (numbers, rows, {"word": 8, "registers": 1, "stream": True}),
        (numbers, rows, {"word": 8, "registers": 2, "stream": True, "result": "class"}),
    ):
        module = circuit.to_verilog("net", **options)
        bench = circuit.to_testbench(given, "net", **options)
        assert said(module, bench) == "PASS: 30 rows\n", options
        wrong = bench.replace("wanted[7] = ", "wanted[7] = 1 ^ ")
        assert said(module, wrong).startswith("FAIL: row 7 gives"), options
        if options.get("stream"):
            for right, fault in (
                ("= m_axis_tready | ~m_axis_tvalid;", "= 1'b1;"),  # nothing waits
                ("s_axis_tready = enable &", "s_axis_tready ="),  # rows get lost
                ("if (enable) final_one", "final_one"),
                ("if (enable) valid", "valid"),
            ):
                assert right in module
                assert "FAIL" in said(module.replace(right, fault), bench), (options, fault)


def test_what_verilog_refuses():
    _, plain, x, _ = made("bits")
    _, sums, _, _ = made("sums")
    numbers = Circuit(plain.netlist, np.float32([[0.5]]))
    for call, message in (
        (lambda: plain.to_verilog(stream=True), "give registers=1 or more"),
        (lambda: plain.to_testbench(x[:0]), "needs rows"),
        (lambda: plain.to_testbench(x + 0.5), "must be binary"),
        (lambda: numbers.to_testbench(x + 0.5, word=4), "unsigned numbers of 4 bits over 1, got"),
        (lambda: numbers.to_testbench(x - 20, word=4, signed=True), "signed numbers of 4 bits"),
        (lambda: plain.to_verilog(word=8), "has no thresholds; leave out word"),
        (lambda: plain.to_verilog(signed=True), "give word too"),
        (lambda: plain.to_verilog(result="class"), "end with a GroupSum"),
        (lambda: sums.to_verilog(result="klass"), "unknown result"),
        (lambda: sums.to_verilog(registers=-1), "registers must be an int >= 0"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


# -- gates


def random_circuit(seed, inputs=None):
    generator = np.random.default_rng(seed)
    inputs = inputs or int(generator.integers(1, 9))
    gates = int(generator.integers(0, 60))
    below = inputs + np.arange(gates)
    a, b = (generator.integers(0, below) for _ in range(2))
    outputs = generator.integers(0, inputs + gates, generator.integers(1, 9))
    return wired(inputs, generator.integers(0, 16, gates), a, b, outputs)


def outputs_of(circuit, rows):
    found = circuit.outputs(circuit.pack(rows))
    return np.unpackbits(found.words.view(np.uint8), axis=1, bitorder="little").T[: len(rows)]


def by_hand(netlist, row):
    """The outputs of one row of bits, gate by gate."""
    signals = list(row)
    for gate, a, b in zip(netlist.ids, netlist.a, netlist.b, strict=True):
        signals.append(GATES[gate].table[2 * signals[a] + signals[b]])
    return [signals[k] for k in netlist.outputs]


def test_simplified_circuits_keep_the_function_and_have_nothing_left_to_fold(seed):
    for k in range(100):
        whole = random_circuit(1000 * seed + k)
        rows = np.array([*itertools.product((0, 1), repeat=whole.netlist.inputs)])
        simplified = whole.simplified(check=False)
        found = outputs_of(simplified, rows)
        assert np.array_equal(found, outputs_of(whole, rows))
        if k % 10 == 0:
            assert found.tolist() == [by_hand(whole.netlist, row) for row in rows]
        assert str(simplified.simplified()) == str(simplified)
        circuit = simplified.netlist
        used = set(circuit.a) | set(circuit.b) | set(circuit.outputs)
        assert all(circuit.inputs + k in used for k in range(len(circuit)))
        constant = np.isin(circuit.ids, (0, 15))
        inverter = np.isin(circuit.ids, (3, 5, 10, 12))
        assert (circuit.a != circuit.b)[~constant & ~inverter].all()
        # Inverters are of inputs that are outputs, and nobody else reads them or a constant.
        assert (circuit.a[inverter] < circuit.inputs).all()
        read = np.concatenate([circuit.a[~constant], circuit.b[~constant]])
        assert not np.isin(read, circuit.inputs + np.flatnonzero(inverter | constant)).any()


@for_each(
    "gates, want",
    [
        # not a, then nand(not a, true), and(that, b), xor(b, b)
        ((2, [12, 15, 14, 1, 6], [0, 0, 2, 4, 1], [0, 0, 3, 1, 1], [5, 6]),
         "%2 = and %0 %1\n%3 = false\noutputs %2 %3"),
        # An inverted output is the complement of the gate, not an inverter behind it.
        ((2, [1, 12], [0, 2], [1, 2], [3]), "%2 = nand %0 %1\noutputs %2"),
        # a and b, b and a, nand(a, b), (a and b) xor nand(b, a) = 1
        ((2, [1, 1, 14, 6], [0, 1, 0, 2], [1, 0, 1, 4], [2, 3, 4, 5]),
         "%2 = and %0 %1\n%3 = nand %0 %1\n%4 = true\noutputs %2 %2 %3 %4"),
    ],
)  # fmt: skip
def test_gates_are_folded_and_shared(gates, want):
    assert str(wired(*gates).simplified()).endswith(f"inputs %0 .. %1\n{want}")


# -- heads


def test_heads_of_values_and_labels():
    ones = torch.arange(13.0)[:, None] > torch.arange(12)  # 0 .. 12 features are 1
    line = GroupSum.of_values(1, 12, low=-3.0, high=3.0)
    torch.testing.assert_close(line(ones)[:, 0], torch.arange(13.0) / 2 - 3)
    for tau in (1.0, 0.3, 7.7):
        head = GroupSum.of_labels(1, 12, tau)
        assert Sums(head.k, head.tau, head.beta).limit == 6
    model = nn.Sequential(LogicLayer(9, 24, init="normal"), GroupSum.of_labels(3, 24, 0.3)).eval()
    x = (torch.rand(300, 9) > 0.5).float()
    circuit = harden(model)
    counts = torch.from_numpy(circuit.counts(circuit.pack(x)))
    assert torch.equal(circuit.labels(x), counts > 4)
    assert (counts == 4).any()
    with pytest.raises(ValueError, match="k must divide the 12 features, got 5"):
        GroupSum.of_values(5, 12)


# -- rows


@for_each(count=[1, 63, 64, 65, 512, 513, 1300], name=["binarize", "bits"])
def test_any_number_of_rows(count, name):
    _, circuit, x, want = made(name, count)
    assert torch.equal(circuit(x), want)


def test_any_shape_and_type():
    model, circuit, _, _ = made("binarize")
    x = torch.rand(2, 3, 12)
    assert torch.equal(circuit(x), model(x))
    assert circuit(x[0, 0]).shape == (3,)
    assert circuit.predict(x).shape == (2, 3)
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        assert torch.equal(circuit(x.to(dtype)), model[1:](model[0](x.to(dtype)).float()))
    assert np.array_equal(circuit(x.numpy()[:, ::2]), model(x[:, ::2]).numpy())
    long = x.numpy().astype(np.longdouble)
    assert np.array_equal(circuit(long), circuit(x).numpy())
    _, circuit, x, want = made("sums")
    for dtype in (torch.bool, torch.uint8, torch.int64, torch.float64):
        assert torch.equal(circuit(x.to(dtype)), want)


@for_each(threshold=[-3.0, -0.5, 0.0, 127.5, 128.0, 254.9, 255.0, 300.0])
def test_bytes_are_compared_as_numbers(threshold):
    model = gates(Binarize(threshold))
    x = torch.randint(0, 256, (200, 12), dtype=torch.uint8)
    x[:, :3] = torch.tensor([0, 128, 255], dtype=torch.uint8)
    assert torch.equal(harden(model)(x), model(x))
    assert torch.equal(harden(model)(x.int()), model(x.int()))


def test_packed_rows():
    model, circuit, x, _ = made("wide", 700)
    bits = circuit.pack(x)
    assert bits.words.shape == (12, 11)
    assert bits.rows == 700
    counts = model[:-1](x).unflatten(-1, (2, -1)).sum(-1)
    assert np.array_equal(circuit.counts(bits), counts.int().numpy())
    plain = Circuit(circuit.netlist, circuit.thresholds)
    outputs = circuit.outputs(bits)
    assert np.array_equal(outputs.words, plain.outputs(bits).words)
    assert np.array_equal(outputs.words, circuit.netlist.evaluate(bits.words))


def test_outputs_that_are_equal_or_constant_are_counted():
    """Adders work in place: an output that counts twice must not be added to itself."""
    outputs = [0, 0, 2, 2, 3, 4, 0, 2, 2, 2, 3, 3]
    circuit = wired(2, [6, 15, 0], [0, 0, 0], [1, 0, 0], outputs, [2, 1.0, 0.0])
    x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    a, b = x.T
    xor = a ^ b
    want = np.stack([2 * a + 2 * xor + 1 + 0, a + 3 * xor + 2], 1)
    assert np.array_equal(circuit(x), want.astype(np.float32))
    constants = wired(2, [15, 0], [0, 0], [0, 0], [2, 3, 2, 2], [2, 1.0, 0.0])
    assert constants(np.zeros((70, 2))).tolist() == [[1, 2]] * 70


def test_levels_of_a_circuit_that_is_not_simplified_are_layers():
    model, circuit, _, _ = made("sums", simplify=False)
    stats = circuit.stats()
    assert (stats.gates, stats.inputs, stats.outputs) == (44, 12, 24)
    ids = [model[k].choices().tolist() for k in range(2)]
    assert sum(stats.histogram.values()) == 44
    for level, chosen in zip(stats.levels, ids, strict=True):
        assert level.get("xor", 0) == chosen.count(6)
    simplified = harden(model).stats()
    assert simplified.gates < 44
    assert simplified.depth <= 2
    assert "depth 2" in str(stats)


def packed(inputs, rows, dtype=np.uint64):
    return PackedBits(np.zeros((inputs, 1), dtype), rows)


@for_each(
    "use, error, match",
    [
        (lambda c: c(np.zeros((3, 11))), ValueError, r"must have shape .*, got \[3, 11\]"),
        (lambda c: c(np.full((2, 12), 0.5)), ValueError, "must be binary, 0 or 1, got .*0.5"),
        (lambda c: c([0] * 12), TypeError, "must be a NumPy array or a torch tensor, got list"),
        (lambda c: c(np.full((2, 12), "a")), TypeError, "must hold real numbers"),
        (lambda c: c.counts(packed(11, 3)), ValueError, r"\[12, W\]"),
        (lambda c: c.counts(packed(12, 3, np.int64)), ValueError, "uint64 words"),
        (lambda c: c.counts(packed(12, 65)), ValueError, r"0 \.\. 64 rows"),
        (lambda c: Circuit(c.netlist).counts(packed(12, 2)), ValueError, "no groups to count"),
        (lambda c: Circuit(c.netlist, None, Sums(5)), ValueError, "24 outputs must form 5 groups"),
        (lambda c: Circuit(c.netlist, None, Sums(3, 0.0)), ValueError, "tau must be > 0"),
        (lambda c: Circuit(c.netlist, np.zeros((1, 5), np.float32)), ValueError, "do not fit 12"),
        (lambda c: Circuit(c.netlist, np.zeros(12, np.float32)), ValueError, r"thresholds must be"),
        (lambda c: Circuit(c.netlist, np.zeros((1, 1), np.float16)), ValueError, "got float16"),
        *(
            (lambda c, name=name: c.to_c(name), ValueError, "must not be a word of|letters, digits")
            for name in ("2x", "int", "module", "lambda", "Node", "main", "np")
        ),
    ],
)
def test_bad_input(use, error, match):
    with pytest.raises(error, match=match):
        use(made("sums")[1])


# -- files


@pytest.mark.rotating(4, group="long")
def test_a_file_is_read_and_run_without_torch(tmp_path):
    _, circuit, x, want = made("thermometer")
    circuit.save(tmp_path / "a.circuit")
    np.save(tmp_path / "x.npy", x.numpy())
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np\n"
        "from gendr.logic import Circuit\n"
        "circuit = Circuit.load('a.circuit')\n"
        "np.save('y.npy', circuit(np.load('x.npy')))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert np.array_equal(np.load(tmp_path / "y.npy"), want.numpy())


def test_damaged_files_never_give_another_circuit(tmp_path, seed):
    """What is cut short is refused; a flipped byte is found, or does not matter."""
    path, circuit = tmp_path / "a.circuit", made("thermometer")[1]
    circuit.save(path)
    content = path.read_bytes()
    for length in [*range(0, len(content) - 1, 97), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"a.circuit is no circuit, or cut short"):
            Circuit.load(path)
    drawn = np.random.default_rng(seed).integers(0, len(content), 100).tolist()
    for place in [*drawn, *range(len(content) - 400, len(content), 2)]:  # the directory is there
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        try:
            found = Circuit.load(path)
        except ValueError as error:
            assert "circuit" in str(error)  # noqa: PT017 (either is right)
        else:
            assert str(found) == str(circuit)


class Trap:
    """What a pickle must not run."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


@for_each(
    "content, match",
    [
        (b"", "no circuit, or cut short"),
        (b"PK\3\4 nothing", "no circuit, or cut short"),
        (stored("{"), "no circuit, or cut short"),
        (stored('{"format": "gendr circuit 9", "inputs": 2, "sums": null}'), "circuit 9'"),
        (stored('{"format": "gendr circuit 1", "inputs": 2.5, "sums": null}'), "header"),
        (stored('{"format": "gendr circuit 1", "inputs": 2, "sums": [1]}'), "header"),
        (stored('{"format": "gendr circuit 1", "inputs": 2, "sums": [2, 1.0, 0.0]}'), "2 groups"),
        (stored(ids=np.array([16], np.uint8)), r"ids of gates must be 0 \.\. 15"),
        (stored(ids=np.array([1.0])), "ids is float64"),
        (stored(b=None), "it lacks b"),
        (stored(a=np.array([7], np.int32)), "%2 reads %7"),
        (stored(a=np.array([2], np.int32)), "%2 reads %2"),
        (stored(b=np.array([-1], np.int32)), "%2 reads %-1"),
        (stored(b=np.array([1, 0], np.int32)), "equally many, got 1, 1 and 2"),
        (stored(outputs=np.array([-1], np.int32)), r"outputs must be signals 0 \.\. 2"),
        (stored(outputs=np.array([], np.int32)), "must have an output"),
        (stored('{"format": "gendr circuit 1", "inputs": 0, "sums": null}'), "must have an input"),
        (stored(a=np.array([Trap()], object)), "no circuit, or cut short"),
        (stored(thresholds=np.array([[np.nan]])), "thresholds must be finite"),
    ],
)
def test_files_of_other_content_are_refused(tmp_path, content, match):
    path = tmp_path / "a.circuit"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=match) as caught:
        Circuit.load(path)
    assert str(path) in str(caught.value)


def test_a_file_that_has_lost_its_thresholds_is_refused(tmp_path):
    """One wrong byte in the directory of an archive hides an array; no sum of it tells."""
    made("thermometer")[1].save(tmp_path / "whole.npz")
    with np.load(tmp_path / "whole.npz") as content:
        arrays = {name: content[name] for name in content.files if name != "thresholds"}
    np.savez(tmp_path / "less.npz", **arrays)
    with pytest.raises(ValueError, match="damaged circuit"):
        Circuit.load(tmp_path / "less.npz")
    with pytest.raises(FileNotFoundError, match="there is no circuit at"):
        Circuit.load(tmp_path / "none.npz")
