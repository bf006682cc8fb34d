"""Circuits of networks that read images, and of networks that have learnt their wires."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
import torch
from torch import nn

from gendr.logic import (
    Binarize,
    Circuit,
    GroupSum,
    LearnableWiring,
    LogicConv2d,
    LogicLayer,
    OrPool2d,
    Thermometer,
    harden,
)
from support.cases import for_each

SHAPE = (2, 6, 5)


def network(*parts):
    torch.manual_seed(len(parts))
    for each in parts:
        if isinstance(each, (LogicConv2d, LogicLayer)):
            each.reset("normal")
    return nn.Sequential(*parts).eval()


def trees(channels, count=6, **more):
    return LogicConv2d(channels, count, 3, **more)


NETWORKS = {
    "trees": lambda: network(trees(2)),
    "padded": lambda: network(trees(2, padding=1, stride=2, depth=2)),
    "far": lambda: network(trees(2, padding=(4, 0))),
    "deep": lambda: network(
        trees(2, padding=1), OrPool2d(2), nn.Sequential(trees(6, 8, padding=1), nn.Dropout()),
        OrPool2d(2, padding=1), nn.Flatten(), LogicLayer(32, 30), GroupSum(3, 1.3),
    ),
    "pool": lambda: network(OrPool2d(3, 1, 1), trees(2, depth=1)),
    "numbers": lambda: network(
        Binarize(0.6), trees(2), nn.Flatten(), LogicLayer(72, 20), GroupSum(2)
    ),
    "channels": lambda: network(
        Thermometer.uniform(3, dim=-3), trees(6), nn.Flatten(1), GroupSum(4, 2.0)
    ),
    "each channel": lambda: network(
        Thermometer(torch.tensor([[0.2, 0.7], [0.4, 0.5]]), dim=-3), trees(4, groups=2),
        nn.Flatten(), LogicLayer(72, 10, wiring="learnable"),
    ),
    "columns": lambda: network(
        Thermometer(torch.rand(5, 2)), trees(2, padding=1), OrPool2d((2, 3), (3, 2)), nn.Flatten(),
        GroupSum(2),
    ),
    "rows": lambda: network(
        nn.Unflatten(1, SHAPE), Thermometer([0.3, 0.6], dim=-3), trees(4), nn.Flatten(-2),
        nn.Flatten(), LogicLayer(72, 12, 3), GroupSum(3),
    ),
    "thermometer first": lambda: network(
        Thermometer([0.3, 0.6]), nn.Unflatten(-1, (2, 6, -1)), trees(2, 3, padding=1), nn.Flatten(),
        GroupSum(3),
    ),
}  # fmt: skip


def rows_for(name, count=130):
    x = torch.rand(count, *SHAPE)
    numbers = name in ("numbers", "channels", "each channel", "columns", "rows")
    if name in ("rows", "thermometer first"):
        return x.flatten(1)
    return x if numbers else (x > 0.5).float()


def expected(model, x):
    found = model(x)
    return found if isinstance(model[-1], GroupSum) else found.flatten(1) > 0


def shape_for(name):
    return None if name == "rows" else (60,) if name == "thermometer first" else SHAPE


@pytest.fixture(params=list(NETWORKS))
def case(request):
    name = request.param
    return NETWORKS[name](), shape_for(name), rows_for(name)


@for_each(simplify=[True, False])
def test_the_circuit_equals_the_network(case, simplify, tmp_path):
    model, shape, x = case
    circuit = harden(model, input_shape=shape, simplify=simplify)
    want, flat = expected(model, x), x.flatten(1)
    assert circuit.features == 60
    assert torch.equal(circuit(flat), want)
    circuit.save(tmp_path / "a.circuit")
    assert torch.equal(Circuit.load(tmp_path / "a.circuit")(flat), want)


def test_exports(case, tmp_path):
    """The same function in NumPy and in C; Verilog and graphs have a line for each gate."""
    model, shape, x = case
    circuit, want = harden(model, input_shape=shape), expected(model, x).numpy()
    rows = x.flatten(1).numpy()
    space = {}
    exec(circuit.to_numpy("net"), space)
    assert np.array_equal(space["net"](rows), want)
    assert circuit.to_verilog().count("  wire g") == len(circuit.netlist)
    assert circuit.to_dot().count("[label=") == len(circuit.netlist)
    if shutil.which("gcc") is None:
        return
    (tmp_path / "net.c").write_text(circuit.to_c("net"))
    command = ["gcc", "-O0", "-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*command, "-o", "net.so", "net.c"], cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "net.so"))
    bits = circuit.pack(rows[:64])
    if circuit.thresholds is not None:
        words = np.zeros(circuit.netlist.inputs, np.uint64)
        numbers = np.ascontiguousarray(rows[:64], circuit.thresholds.dtype)
        library.net_pack(numbers.ctypes.data_as(ctypes.c_void_p), 64,
                         words.ctypes.data_as(ctypes.c_void_p))  # fmt: skip
        assert np.array_equal(words, bits.words[:, 0])
    words = np.ascontiguousarray(bits.words[:, 0])
    out = np.zeros(len(circuit.netlist.outputs), np.uint64)
    library.net(words.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p))
    assert np.array_equal(out, circuit.outputs(bits).words[:, 0])


def test_every_input_of_a_small_network():
    """All 2^12 images."""
    model = network(
        LogicConv2d(1, 5, 2, depth=2, padding=1), OrPool2d(2), LogicConv2d(5, 4, 2, depth=1),
        nn.Flatten(), LogicLayer(4, 6),
    )  # fmt: skip
    images = (torch.arange(4096)[:, None] >> torch.arange(12) & 1).float()
    circuit = harden(model, input_shape=(1, 3, 4))
    assert torch.equal(circuit(images), model(images.view(-1, 1, 3, 4)) > 0)


def test_padding_is_folded_and_overlaps_are_shared():
    """Two equal trees are one; trees that read only padding are constant."""
    twins = LogicConv2d(1, 2, 3, depth=2, wiring=torch.tensor([[0, 0], [1, 1], [3, 3], [4, 4]]))
    twins.weight.data[:] = 0
    twins.weight.data[:, 6] = 9.0  # xor everywhere
    whole = harden(twins, input_shape=(1, 5, 5), simplify=False)
    assert whole.stats().gates == 2 * 3 * 9
    # The xor of a pair of neighbours in a row is that of the pair one row below it, one row up.
    assert harden(twins, input_shape=(1, 5, 5)).stats().gates == 4 * 3 + 9
    outside = LogicConv2d(1, 1, 1, depth=1, padding=1, wiring=torch.tensor([[0], [0]]))
    outside.weight.data[:] = 0
    outside.weight.data[:, 7] = 9.0  # or
    circuit = harden(outside, input_shape=(1, 2, 2))
    assert circuit.stats().histogram == {"false": 1}  # and wires
    assert circuit.stats().outputs == 16


def test_pools_are_trees_of_what_is_inside():
    corners = harden(OrPool2d(2, padding=1), input_shape=(3, 2, 2), simplify=False)
    assert corners.stats().gates == 0
    wide = harden(OrPool2d(3, 1, 1), input_shape=(1, 4, 4), simplify=False).stats()
    assert wide.histogram == {"or": 4 * 3 + 8 * 5 + 4 * 8}
    assert wide.depth == 4  # of nine pixels, not eight


def test_what_a_shape_is_for():
    model = NETWORKS["trees"]()
    with pytest.raises(
        ValueError, match=r"say which with harden\(model, input_shape=\(C, H, W\)\)"
    ):
        harden(model)
    flat = nn.Sequential(nn.Flatten(), LogicLayer(60, 12), GroupSum(3)).eval()
    x = (torch.rand(40, *SHAPE) > 0.5).float()
    for shape in (None, SHAPE, (60,), [6, 10]):
        assert torch.equal(harden(flat, input_shape=shape)(x.flatten(1)), flat(x))


@for_each(
    "make, shape, error, match",
    [
        (lambda: network(OrPool2d(2)), None, ValueError, "begins with OrPool2d"),
        (lambda: network(trees(2)), (3, 6, 5), ValueError, r"shape \[2, H, W\], but \[3, 6"),
        (lambda: network(trees(2)), (60,), ValueError, r"but \[60\] come to it"),
        (lambda: network(trees(2)), (2, 6, 0), ValueError, "input_shape must be >= 1, got 0"),
        (lambda: network(trees(2)), (2, 6, 5.0), TypeError, "input_shape must be an int"),
        (lambda: network(trees(2)), 60, ValueError, r"sizes such as \(C, H, W\), got 60"),
        (lambda: network(trees(2)), (2, 2, 5), ValueError, "larger than the image"),
        (lambda: network(trees(2), GroupSum(2)), SHAPE, ValueError, "put nn.Flatten before it"),
        (lambda: network(trees(2), LogicLayer(3, 4)), SHAPE, ValueError, "put nn.Flatten before"),
        (
            lambda: network(trees(2), nn.Flatten(), LogicLayer(70, 4)),
            SHAPE,
            ValueError,
            "72 outputs stands before one with 70",
        ),
        (lambda: network(trees(2), nn.MaxPool2d(2)), SHAPE, TypeError, "got MaxPool2d"),
        (lambda: network(trees(2), Binarize()), SHAPE, ValueError, "Binarize stands between"),
        (
            lambda: network(Thermometer([0.5, 0.7], dim=-3), trees(4)),
            (60,),
            ValueError,
            r"need rows \[C, H, W\], got \[60\]",
        ),
        (
            lambda: network(Thermometer(torch.rand(3, 2), dim=-3), trees(4)),
            SHAPE,
            ValueError,
            r"the thresholds \[3, 2\] do not give",
        ),
        (lambda: network(nn.Flatten(0), LogicLayer(60, 4)), SHAPE, ValueError, "dimension 0"),
        (
            lambda: network(nn.Unflatten(1, (2, 7)), LogicLayer(7, 4)),
            (60,),
            ValueError,
            r"cannot make \[2, 7\] of 60",
        ),
    ],
)
def test_what_cannot_be_hardened(make, shape, error, match):
    with pytest.raises(error, match=match):
        harden(make(), input_shape=shape)


def test_learnt_wires():
    """The circuit reads what the largest weights choose, in `eval` mode and after loading."""
    torch.manual_seed(0)
    model = nn.Sequential(
        LogicLayer(20, 40, wiring=LearnableWiring(6), init="normal"),
        LogicLayer(40, 30, 3, wiring="learnable", init="normal"),
        GroupSum(3),
    ).eval()
    x = (torch.rand(200, 20) > 0.5).float()
    circuit = harden(model)
    assert torch.equal(circuit(x), model(x))
    first = model[0]
    plain = LogicLayer(20, 40, wiring=first.hard_wires())
    plain.weight.data = first.weight.data
    assert torch.equal(plain.eval()(x), first(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype, tmp_path):
    """A network of half precision becomes a circuit that can be saved, thresholds included."""
    model = nn.Sequential(
        Thermometer.uniform(5), LogicLayer(40, 30, init="normal", seed=0), GroupSum(3)
    )
    model = model.to(dtype).eval()
    x = torch.rand(70, 8).to(dtype)
    circuit = harden(model)
    circuit.save(tmp_path / "half.npz")
    assert torch.equal(Circuit.load(tmp_path / "half.npz")(x), model(x).float())


def test_thresholds_of_other_types_are_refused():
    netlist = harden(LogicLayer(4, 3, seed=0)).netlist
    with pytest.raises(ValueError, match="must be float32 or float64, got float16"):
        Circuit(netlist, np.zeros((1, 1), np.float16))
