"""Circuits: equal to the network in `eval` mode on every row, in all forms; files; errors."""

import ctypes
import io
import re
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch
from torch import nn

from gendr.logic import (
    Binarize,
    Circuit,
    GroupSum,
    LogicLayer,
    PackedBits,
    Sums,
    Thermometer,
    harden,
)
from gendr.logic.circuit.exports import c
from gendr.logic.circuit.netlist import Netlist, netlist
from support.cases import for_each
from support.processes import Python


def network(front=None, layers=((12, 20, 2), (20, 24, 2)), groups=3, tau=1.7, beta=0.0):
    torch.manual_seed(sum(sum(each) for each in layers))
    parts = [LogicLayer(a, b, k, init="normal") for a, b, k in layers]
    parts = [front, *parts] if front is not None else parts
    parts += [GroupSum(groups, tau, beta)] if groups else []
    return nn.Sequential(*parts).eval()


NETWORKS = {
    "bits": lambda: network(groups=0),
    "sums": network,
    "beta": lambda: network(beta=-0.3),
    "binarize": lambda: network(Binarize(0.4)),
    "thermometer": lambda: network(Thermometer([0.2, 0.5, 0.7])),
    "thresholds": lambda: network(Thermometer(torch.rand(4, 3)), groups=0),
    "luts": lambda: network(layers=((12, 9, 6), (9, 7, 3), (7, 12, 1), (12, 12, 4))),
    "wide": lambda: network(Binarize(), layers=((12, 700, 2), (700, 1030, 2)), groups=2),
    "one": lambda: network(layers=((12, 1, 2),), groups=0),
    "wires": lambda: nn.Sequential(LogicLayer(12, 18), GroupSum(3)).eval(),
}


def rows_for(model, count=150):
    features = model[0].in_features if isinstance(model[0], LogicLayer) else 12
    if isinstance(model[0], Thermometer):
        features = 12 // model[0].thresholds.shape[-1]
        return torch.rand(count, features)
    return (torch.rand(count, features) > 0.5).float()


def expected(model, x):
    found = model(x)
    return found if isinstance(model[-1], GroupSum) else found > 0


@pytest.fixture(params=list(NETWORKS))
def model(request):
    return NETWORKS[request.param]()


@for_each(simplify=[True, False])
def test_the_circuit_equals_the_network(model, simplify):
    x = rows_for(model)
    circuit = harden(model, simplify=simplify)
    assert torch.equal(circuit(x), expected(model, x))
    got = circuit(x.numpy())
    assert isinstance(got, np.ndarray)
    assert np.array_equal(got, expected(model, x).numpy())
    if circuit.sums is not None:
        assert torch.equal(circuit.predict(x), model(x).argmax(1))


@for_each(count=[1, 7, 63, 64, 65, 512, 513, 1300])
def test_any_number_of_rows(count):
    for name in ("binarize", "bits"):
        model = NETWORKS[name]()
        x = rows_for(model, count)
        assert torch.equal(harden(model)(x), expected(model, x))


def test_any_shape_and_type():
    model = NETWORKS["binarize"]()
    circuit = harden(model)
    x = torch.rand(2, 3, 12)
    assert torch.equal(circuit(x), model(x))
    assert circuit(x[0, 0]).shape == (3,)
    assert circuit.predict(x).shape == (2, 3)
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        assert torch.equal(circuit(x.to(dtype)), model[1:](model[0](x.to(dtype)).float()))
    assert np.array_equal(circuit(x.numpy()[:, ::2]), model(x[:, ::2]).numpy())


@for_each(threshold=[-3.0, -0.5, 0.0, 127.5, 128.0, 254.9, 255.0, 300.0])
def test_bytes_are_compared_as_numbers(threshold):
    model = network(Binarize(threshold))
    x = torch.randint(0, 256, (200, 12), dtype=torch.uint8)
    x[:, :3] = torch.tensor([0, 128, 255], dtype=torch.uint8)
    assert torch.equal(harden(model)(x), model(x))
    assert torch.equal(harden(model)(x.int()), model(x.int()))


def test_bits_of_any_type():
    model = NETWORKS["sums"]()
    circuit, x = harden(model), rows_for(model)
    for dtype in (torch.bool, torch.uint8, torch.int64, torch.float64):
        assert torch.equal(circuit(x.to(dtype)), model(x))


def test_packed_rows():
    model = NETWORKS["wide"]()
    circuit, x = harden(model), rows_for(model, 700)
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
    circuit = Circuit(netlist(2, [6, 15, 0], [0, 0, 0], [1, 0, 0], outputs), None, Sums(2))
    x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    a, b = x.T
    xor = a ^ b
    want = np.stack([2 * a + 2 * xor + 1 + 0, a + 3 * xor + 2], 1)
    assert np.array_equal(circuit(x), want.astype(np.float32))


def test_levels_of_a_circuit_that_is_not_simplified_are_layers():
    model = NETWORKS["sums"]()
    stats = harden(model, simplify=False).stats()
    assert (stats.gates, stats.inputs, stats.outputs) == (44, 12, 24)
    ids = [model[k].choices().tolist() for k in range(2)]
    assert sum(stats.histogram.values()) == 44
    for level, chosen in zip(stats.levels, ids, strict=True):
        assert level.get("xor", 0) == chosen.count(6)
    simplified = harden(model).stats()
    assert simplified.gates < 44
    assert simplified.depth <= 2
    assert "depth 2" in str(stats)


def test_dropout_and_nested_modules_are_seen_through():
    inner = NETWORKS["sums"]()
    model = nn.Sequential(nn.Flatten(), nn.Sequential(inner[0], nn.Dropout(), inner[1]), inner[2])
    x = rows_for(inner)
    assert torch.equal(harden(model.eval())(x), model(x))
    assert torch.equal(harden(inner[0])(x), inner[0](x) > 0)


@for_each(
    "make, error, match",
    [
        (lambda: nn.Sequential(nn.Linear(3, 4)), TypeError, "got Linear"),
        (lambda: nn.Sequential(GroupSum(2)), ValueError, "has no LogicLayer"),
        (lambda: network(layers=((12, 20, 2), (21, 24, 2))), ValueError, "20 outputs stands"),
        (lambda: network(layers=((12, 20, 2),)), ValueError, "20 outputs must form 3 groups"),
        (lambda: nn.Sequential(GroupSum(2), LogicLayer(2, 4)), ValueError, "GroupSum stands"),
        (lambda: network(Thermometer([0.1] * 5)), ValueError, "do not give the 12 bits"),
        (lambda: network(Thermometer(torch.rand(4, 4))), ValueError, "do not give the 12 bits"),
    ],
)
def test_what_cannot_be_hardened(make, error, match):
    with pytest.raises(error, match=match):
        harden(make())


def packed(inputs, rows, dtype=np.uint64):
    return PackedBits(np.zeros((inputs, 1), dtype), rows)


@for_each(
    "use, error, match",
    [
        (lambda c: c(np.zeros((3, 11))), ValueError, r"one row at least, got \[3, 11\]"),
        (lambda c: c(np.zeros((0, 12))), ValueError, r"one row at least, got \[0, 12\]"),
        (lambda c: c(np.full((2, 12), 0.5)), ValueError, "must be binary, 0 or 1, got .*0.5"),
        (lambda c: c([0] * 12), TypeError, "must be a NumPy array or a torch tensor, got list"),
        (lambda c: c(np.full((2, 12), "a")), TypeError, "must hold real numbers"),
        (lambda c: c.counts(packed(11, 3)), ValueError, r"\[12, W\]"),
        (lambda c: c.counts(packed(12, 3, np.int64)), ValueError, "uint64 words"),
        (lambda c: c.counts(packed(12, 65)), ValueError, r"1 \.\. 64 rows"),
        (lambda c: c.counts(packed(12, 0)), ValueError, "rows, got 0"),
        (lambda c: Circuit(c.netlist).counts(packed(12, 2)), ValueError, "no groups to count"),
        (lambda c: Circuit(c.netlist, None, Sums(5)), ValueError, "24 outputs must form 5 groups"),
        (lambda c: Circuit(c.netlist, None, Sums(3, 0.0)), ValueError, "tau must be > 0"),
        (lambda c: Circuit(c.netlist, np.zeros((1, 5), np.float32)), ValueError, "do not fit 12"),
        (lambda c: Circuit(c.netlist, np.zeros(12, np.float32)), ValueError, r"thresholds must be"),
        (lambda c: c.to_c("2x"), ValueError, "letters, digits"),
    ],
)
def test_bad_input(use, error, match):
    with pytest.raises(error, match=match):
        use(harden(NETWORKS["sums"]()))


# -- files --------------------------------------------------------------------------------------


def test_saved_circuits_are_equal(model, tmp_path):
    circuit, x = harden(model), rows_for(model)
    circuit.save(tmp_path / "a.circuit")
    again = Circuit.load(tmp_path / "a.circuit")
    assert torch.equal(again(x), expected(model, x))
    assert str(again) == str(circuit)
    assert again.sums == circuit.sums


def test_a_file_is_read_and_run_without_torch(tmp_path):
    model = NETWORKS["thermometer"]()
    x = rows_for(model)
    harden(model).save(tmp_path / "a.circuit")
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
    assert np.array_equal(np.load(tmp_path / "y.npy"), model(x).numpy())


def test_files_cut_short_are_refused(tmp_path):
    path, cut = tmp_path / "a.circuit", tmp_path / "cut.circuit"
    harden(NETWORKS["thermometer"]()).save(path)
    content = path.read_bytes()
    for length in [*range(0, len(content) - 1, 97), len(content) - 1]:
        cut.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"cut.circuit is no circuit, or cut short"):
            Circuit.load(cut)


def test_damaged_bytes_never_give_another_circuit(tmp_path, seed):
    """Any flipped byte is found, or does not matter."""
    path = tmp_path / "a.circuit"
    circuit = harden(NETWORKS["thermometer"]())
    circuit.save(path)
    content = path.read_bytes()
    for place in np.random.default_rng(seed).integers(0, len(content), 150):
        damaged = bytearray(content)
        damaged[place] ^= 0x55
        path.write_bytes(damaged)
        try:
            found = Circuit.load(path)
        except ValueError:
            continue
        assert str(found) == str(circuit)


def stored(**changes):
    """The bytes of a file with other arrays in it."""
    file = io.BytesIO()
    about = b'{"format": "gendr circuit 1", "inputs": 2, "sums": null}'
    arrays = {
        "about": np.frombuffer(about, np.uint8),
        "ids": np.array([1], np.uint8),
        "a": np.array([0], np.int32),
        "b": np.array([1], np.int32),
        "outputs": np.array([2], np.int32),
    }
    np.savez(file, **{k: v for k, v in (arrays | changes).items() if v is not None})
    return file.getvalue()


def about(text):
    return np.frombuffer(text.encode(), np.uint8)


@for_each(
    "content, match",
    [
        (b"", "no circuit, or cut short"),
        (b"PK\3\4 nothing", "no circuit, or cut short"),
        (stored(about=about("{")), "no circuit, or cut short"),
        (
            stored(about=about('{"format": "gendr circuit 9", "inputs": 2, "sums": null}')),
            "has the format 'gendr circuit 9'",
        ),
        (
            stored(about=about('{"format": "gendr circuit 1", "inputs": 2.5, "sums": null}')),
            "header",
        ),
        (stored(about=about('{"format": "gendr circuit 1", "inputs": 2, "sums": [1]}')), "header"),
        (
            stored(
                about=about('{"format": "gendr circuit 1", "inputs": 2, "sums": [2, 1.0, 0.0]}')
            ),
            "must form 2 groups",
        ),
        (stored(ids=np.array([16], np.uint8)), r"ids of gates must be 0 \.\. 15"),
        (stored(ids=np.array([1.0])), "ids is float64"),
        (stored(b=None), "it lacks b"),
        (stored(a=np.array([7], np.int32)), "%2 reads %7"),
        (stored(outputs=np.array([-1], np.int32)), "outputs must be signals"),
        (stored(ids=np.array([object()])), "no circuit, or cut short"),
        (stored(thresholds=np.array([[np.nan]])), "thresholds must be finite"),
    ],
)
def test_files_of_other_content_are_refused(tmp_path, content, match):
    path = tmp_path / "a.circuit"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=match) as caught:
        Circuit.load(path)
    assert str(path) in str(caught.value)


def test_no_pickle_is_read(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was run",))

    path = tmp_path / "a.circuit"
    path.write_bytes(stored(a=np.array([Trap()], object)))
    with pytest.raises(ValueError, match="no circuit"):
        Circuit.load(path)
    torch.save({"ids": 1}, path)
    with pytest.raises(ValueError, match="no circuit"):
        Circuit.load(path)
    with pytest.raises(FileNotFoundError, match="there is no circuit at"):
        Circuit.load(tmp_path / "none.circuit")
    assert zipfile.is_zipfile(path)


# -- exports ------------------------------------------------------------------------------------


def test_numpy_source(model):
    circuit, x = harden(model), rows_for(model)
    space = {}
    exec(circuit.to_numpy("net"), space)
    got = space["net"](x.numpy())
    assert np.array_equal(got, expected(model, x).numpy())
    with pytest.raises(ValueError, match="x must have shape"):
        space["net"](x.numpy()[:, :1])


def verilog_outputs(source, row):
    """A small simulator of what the export writes: assignments in order."""
    values = {"x": [np.bool_(bit) for bit in row], "y": {}}
    constants = {"zero": np.False_, "one": np.True_}
    for target, text in re.findall(r"(?:assign|wire) (\S+) = (.*);", source):
        text = text.replace("1'b0", "zero").replace("1'b1", "one")
        value = sum(int(eval(term, constants, values)) for term in text.split(" + "))
        value = value if target.startswith("sum") else np.bool_(value)
        name, _, index = target.partition("[")
        if index:
            values[name][int(index[:-1])] = value
        else:
            values[name] = value
    if values["y"]:
        return [values["y"][k] for k in range(len(values["y"]))]
    return [values[name] for name in sorted(values) if name.startswith("sum")]


@pytest.mark.parametrize("name", ["bits", "sums", "luts", "one"])
def test_verilog_source(name):
    model = NETWORKS[name]()
    circuit, x = harden(model), rows_for(model, 40)
    source = circuit.to_verilog("net")
    assert source.startswith("//")
    assert "module net (" in source
    bits = circuit.pack(x)
    want = (
        np.unpackbits(circuit.outputs(bits).words.view(np.uint8), axis=1, bitorder="little").T[:40]
        if circuit.sums is None
        else circuit.counts(bits)
    )
    got = [verilog_outputs(source, [int(v) for v in row]) for row in x]
    assert np.array_equal(got, want)


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog is not installed")
def test_verilog_in_a_simulator(tmp_path):
    model = NETWORKS["sums"]()
    circuit, x = harden(model), rows_for(model, 20)
    lines = [f"x = 12'b{''.join(str(int(v)) for v in row.flip(0))}; #1 "
             '$display("%0d %0d %0d", a, b, c);' for row in x]  # fmt: skip
    bench = "module bench; reg [11:0] x; wire [3:0] a, b, c; net n(x, a, b, c); initial begin\n"
    (tmp_path / "net.v").write_text(
        circuit.to_verilog("net") + bench + "\n".join(lines) + "\nend endmodule\n"
    )
    subprocess.run(["iverilog", "-o", "net", "net.v"], cwd=tmp_path, check=True)
    run = subprocess.run(["vvp", "net"], cwd=tmp_path, check=True, capture_output=True, text=True)
    got = [[int(word) for word in line.split()] for line in run.stdout.splitlines()]
    assert np.array_equal(got, circuit.counts(circuit.pack(x)))


HAS_GCC = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
GCC = ["gcc", "-O0", "-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]


def pointers(*arrays):
    return [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]


@HAS_GCC
@for_each(
    "name, on_stack",
    [
        *((name, 4096) for name in ("bits", "thermometer", "thresholds", "luts", "wide", "wires")),
        *((name, 0) for name in ("bits", "wide")),
    ],
)
def test_c_source(name, on_stack, tmp_path, monkeypatch):
    monkeypatch.setattr(c, "_ON_STACK", on_stack)
    model = NETWORKS[name]()
    circuit, x = harden(model), rows_for(model, 64)
    text = circuit.to_c("net")
    assert ("static NET_LOCAL" in text) == (on_stack == 0)
    (tmp_path / "net.c").write_text(text)
    subprocess.run([*GCC, "-o", "net.so", "net.c"], cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "net.so"))
    words = np.zeros(circuit.netlist.inputs, np.uint64)
    if circuit.thresholds is not None:
        rows = np.ascontiguousarray(x.numpy(), circuit.thresholds.dtype)
        at = pointers(rows, words)
        library.net_pack(at[0], 64, at[1])
        assert np.array_equal(words, circuit.pack(x).words[:, 0])
    words = np.ascontiguousarray(circuit.pack(x).words[:, 0])
    scratch = np.full(int(re.search(r"NET_SCRATCH (\d+)", text)[1]) + 1, 2**64 - 1, np.uint64)
    for kind in ("", "_with"):
        more = pointers(scratch) if kind else []
        if circuit.sums is not None:
            counts = np.zeros((64, circuit.sums.k), np.int32)
            getattr(library, f"net_counts{kind}")(*pointers(words, counts), *more)
            assert np.array_equal(counts, circuit.counts(circuit.pack(x)))
        out = np.zeros(len(circuit.netlist.outputs), np.uint64)
        getattr(library, f"net{kind}")(*pointers(words, out), *more)
        assert np.array_equal(out, circuit.outputs(circuit.pack(x)).words[:, 0])
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


@HAS_GCC
@pytest.mark.parametrize("reach", [2000, 16_000])
def test_a_large_circuit_as_c_needs_little_stack(reach, tmp_path):
    """All its gates together have more words than the stack; with a long reach most are needed."""
    inputs, gates, groups = 50, 16_000, 4
    generator = np.random.default_rng(0)
    own = np.arange(inputs, inputs + gates)
    a, b = (np.maximum(own - generator.integers(1, reach, gates), 0) for _ in range(2))
    a[:inputs] = np.arange(inputs)
    outputs = generator.integers(gates - 400, gates, 400) + inputs
    ids = generator.choice([1, 6, 7, 9, 11, 14], gates)
    large = Circuit(
        Netlist(inputs, ids.astype(np.uint8), *(x.astype(np.int32) for x in (a, b, outputs))),
        sums=Sums(groups),
    )
    text = large.to_c("net")
    assert ("static NET_LOCAL" in text) == (reach > 2000)
    (tmp_path / "net.c").write_text(text)
    subprocess.run([*GCC, "-o", "net.so", "net.c"], cwd=tmp_path, check=True)
    words = generator.integers(0, 2**64, (4, inputs), np.uint64)
    words.tofile(tmp_path / "words.bin")
    process = Python(IN_THREADS, tmp_path / "net.so", groups, inputs, cwd=tmp_path)
    assert process.wait() == 0, process.output()[1]
    got = np.fromfile(tmp_path / "counts.bin", np.int32).reshape(4, 64, groups)
    want = large.counts(PackedBits(np.ascontiguousarray(words.T), 256))
    assert np.array_equal(got.reshape(256, groups), want)
    assert len(np.unique(want)) > 10


def test_graphs():
    circuit = Circuit(netlist(3, [6, 2], [0, 3], [1, 0], [4, 3]), None, None)
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
    text = harden(NETWORKS["thermometer"]()).to_dot()
    assert "-> sum2;" in text


def test_the_printed_form():
    text = str(harden(NETWORKS["thermometer"]()))
    assert text.startswith("; 4 features, 3 thresholds for all features: bit t of feature f is")
    assert "; 3 sums of groups of outputs, / 1.7 + 0\ninputs %0 .. %11\n%12 = " in text


def test_sums_of_constants():
    """A network that has learnt nothing but constants still has scores."""
    constants = Netlist(
        2, np.array([15, 0], np.uint8), *np.zeros((2, 2), np.int32), np.array([2, 3, 2, 2])
    )
    circuit = Circuit(constants, sums=Sums(2))
    assert circuit(np.zeros((70, 2))).tolist() == [[1, 2]] * 70


def test_a_file_that_has_lost_its_thresholds_is_refused(tmp_path):
    """One wrong byte in the directory of an archive hides an array; no sum of it tells."""
    circuit = harden(network(Thermometer.uniform(2), layers=((8, 12, 2),)))
    circuit.save(tmp_path / "whole.npz")
    with np.load(tmp_path / "whole.npz") as content:
        arrays = {name: content[name] for name in content.files if name != "thresholds"}
    np.savez(tmp_path / "less.npz", **arrays)
    with pytest.raises(ValueError, match="damaged circuit"):
        Circuit.load(tmp_path / "less.npz")


def test_no_flipped_byte_changes_a_circuit(tmp_path):
    circuit = harden(network(Thermometer.uniform(2), layers=((8, 12, 2),)))
    path = tmp_path / "circuit.npz"
    circuit.save(path)
    raw = path.read_bytes()
    for place in range(len(raw) - 400, len(raw)):
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 255]) + raw[place + 1 :])
        try:
            assert str(Circuit.load(path)) == str(circuit)
        except ValueError as error:
            assert "circuit" in str(error)  # noqa: PT017 (either is right)


@for_each(name=["int", "module", "lambda", "Node", "main", "np"])
def test_names_that_languages_have_taken(name):
    circuit = harden(LogicLayer(4, 3, seed=0))
    for export in (circuit.to_c, circuit.to_verilog, circuit.to_numpy, circuit.to_dot):
        with pytest.raises(ValueError, match="must not be a word of"):
            export(name)


def test_long_doubles():
    circuit, x = harden(network(Binarize(0.5))), np.random.default_rng(0).random((9, 12))
    assert np.array_equal(circuit(x.astype(np.longdouble)), circuit(x))
