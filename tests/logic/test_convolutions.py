"""Trees of gates over images: a slow loop as the oracle, gradients, layouts, backends, errors."""

import itertools

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode

from gendr.logic import LogicConv2d, LogicLayer, OrPool2d
from support.cases import for_each
from support.graphs import assert_graph, inductor

BACKENDS = ["reference", "cpu"]
CASES = [
    {"depth": 1},
    {"depth": 3},
    {"depth": 2, "stride": 2, "padding": 1},
    {"depth": 2, "stride": (1, 3), "padding": (0, 2)},
    {"depth": 3, "padding": 3, "groups": 2},
    {"depth": 4, "channels_per_tree": 3, "parametrization": "table"},
    {"depth": 2, "padding": 2, "parametrization": "walsh", "scale": 0.5},
    {"depth": 1, "channels_per_tree": 1, "padding": 4, "gates": ["and", "xor", "a"]},
]


def slow(layer, x):
    """Equation 3 of the paper, tree by tree and pixel by pixel, without wires."""
    (rows, columns), (down, right), (above, left) = layer.window
    batch, channels, height, width = x.shape
    padded = x.new_zeros(batch, channels, height + 2 * above, width + 2 * left)
    padded[:, :, above : above + height, left : left + width] = x
    tables = layer._tables_by("expected") if layer.training else layer.hard_tables()
    has_logits = layer.training and layer.is_walsh
    starts = [0, *itertools.accumulate(layer.level_sizes())]
    size = [(padded.shape[2] - rows) // down + 1, (padded.shape[3] - columns) // right + 1]
    out = x.new_zeros(batch, layer.out_channels, *size)
    for tree, i, j in itertools.product(range(layer.out_channels), *map(range, size)):
        values = []
        for place in layer.places[:, tree].tolist():
            channel, rest = divmod(place, rows * columns)
            row, column = divmod(rest, columns)
            values.append(padded[:, channel, i * down + row, j * right + column])
        for start in starts[:-1]:
            half = len(values) // 2
            own = tables[start + tree * half : start + (tree + 1) * half]
            values = [
                (1 - a) * ((1 - b) * t[0] + b * t[1]) + a * ((1 - b) * t[2] + b * t[3])
                for a, b, t in zip(values[::2], values[1::2], own, strict=True)
            ]
            values = [(v / layer.scale).sigmoid() for v in values] if has_logits else values
        out[:, tree, i, j] = values[0]
    return out


@for_each(settings=CASES, backend=BACKENDS, rotating=4)
def test_a_layer_is_equation_3_of_the_paper(settings, backend, seed):
    layer = LogicConv2d(4, 6, (3, 2), **settings, init="normal", seed=seed, backend=backend,
                        dtype=torch.float64)  # fmt: skip
    x = torch.rand(2, 4, 4, 5, dtype=torch.float64)
    torch.testing.assert_close(layer(x), slow(layer, x), atol=1e-14, rtol=0)
    bits = (x > 0.5).double()
    hard = layer.eval()(bits)
    assert torch.equal(hard, slow(layer, bits))
    assert set(hard.unique().tolist()) <= {0.0, 1.0}


@for_each(rotating=4, settings=CASES, backend=BACKENDS)
def test_gradients(settings, backend):
    layer = LogicConv2d(4, 2, (3, 2), **settings, init="normal", backend=backend,
                        dtype=torch.float64)  # fmt: skip
    x = torch.rand(1, 4, 3, 3, dtype=torch.float64, requires_grad=True)

    def run(x, weight):
        return torch.func.functional_call(layer, {"weight": weight}, (x,))

    assert gradcheck(run, (x, layer.weight), fast_mode=True)
    assert gradgradcheck(run, (x, layer.weight), fast_mode=True)


class Copies(TorchDispatchMode):
    """The shapes of large tensors that are copied."""

    def __init__(self):
        super().__init__()
        self.shapes = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        if any(word in str(function) for word in ("clone", "copy", "contiguous", "index")):
            self.shapes += [tuple(found.shape)] if found.numel() >= 2000 else []
        return found


def test_layers_in_a_row_copy_the_images_only():
    model = nn.Sequential(
        LogicConv2d(2, 3, 3, padding=1, depth=2), OrPool2d(2), LogicConv2d(3, 3, 2), OrPool2d(2, 1),
        nn.Flatten(), LogicLayer(12, 30),
    )  # fmt: skip
    x = torch.rand(300, 2, 8, 8)
    model(x)  # wires are found the first time
    with Copies() as copies:
        model(x)
    assert copies.shapes == [(2, 8, 8, 300)]
    for k in range(1, len(model) + 1):
        assert model[:k](x).stride(0) == 1  # the batch is innermost behind every layer
    assert OrPool2d(2)(x).stride(0) == 1


def test_any_size_and_layout():
    layer = LogicConv2d(2, 5, 3, init="normal", padding=(1, 0))
    for size in ((6, 5), (1, 3), (6, 5), (4, 9)):
        x = torch.rand(3, 2, *size)
        y = layer(x)
        torch.testing.assert_close(y, slow(layer, x))
        for other in (x.to(memory_format=torch.channels_last), x.permute(1, 2, 3, 0).contiguous()):
            z = other if other.shape == x.shape else other.permute(3, 0, 1, 2)
            assert torch.equal(layer(z), y)
        assert layer(x[1]).shape == y.shape[1:]
        torch.testing.assert_close(layer(x[1]), y[1])


def test_residual_trees_pass_the_first_leaf_on():
    for settings in ({}, {"parametrization": "table"}, {"depth": 1}):
        layer = LogicConv2d(3, 12, 3, padding=1, **settings)
        bits = (torch.rand(4, 3, 6, 6) > 0.5).float()
        windows = nn.functional.unfold(bits, 3, padding=1)  # [4, 27, P], in the order of places
        want = windows[:, layer.places[0]].unflatten(2, (6, 6))
        assert torch.equal(layer.eval()(bits), want)
        assert (layer.train()(bits) - want).abs().max() < 0.3


def test_what_trees_read(seed):
    """Different places of two channels; all channels by equally many trees; groups apart."""
    places = LogicConv2d(16, 24, 3, seed=seed).places
    assert places.shape == (8, 24)
    assert all(len(set(tree)) == 8 for tree in places.T.tolist())
    channels = [set((tree // 9).tolist()) for tree in places.T]
    assert all(len(each) <= 2 for each in channels)
    assert sum(len(each) == 2 for each in channels) >= 20
    read = torch.zeros(16)
    for each in channels:
        read[list(each)] += 1
    assert read.min() >= 1
    grouped = LogicConv2d(8, 12, 3, groups=4, seed=seed).places // 9
    for group in range(4):
        own = grouped[:, 3 * group : 3 * group + 3]
        assert set(own.flatten().tolist()) == {2 * group, 2 * group + 1}
    alone = LogicConv2d(1, 4, 3, seed=seed)
    assert int(alone.places.max()) < 9
    many = LogicConv2d(9, 30, 1, channels_per_tree=9, seed=seed).places
    assert sorted(set(many.flatten().tolist())) == list(range(9))


@pytest.mark.rotating(7, group="graphs")
@pytest.mark.graphs
def test_compiled_models():
    """A compiled model is the same function, also with the wires of another state dict."""

    def model(seed):
        more = {"seed": seed, "init": "normal", "backend": "reference"}
        conv = LogicConv2d(2, 4, 3, padding=1, depth=2, **more)
        layer = LogicLayer(16, 10, wiring="learnable", **more)
        return nn.Sequential(conv, OrPool2d(2), nn.Flatten(), layer)

    first, second = model(0), model(1)
    x = torch.rand(3, 2, 4, 4)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    run = torch.compile(first, backend="eager", dynamic=True)
    torch.testing.assert_close(run(x), first(x))
    assert not torch._dynamo.utils.counters["graph_break"]  # `fullgraph` lets numbers be read
    first.load_state_dict(second.state_dict())
    torch.testing.assert_close(run(x), second(x))
    run(x).sum().backward()
    second(x).sum().backward()
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


@inductor
def test_inductor_with_free_sizes():
    """It makes wrong code of the gradient of an index (torch 2.13)."""
    layer, x = LogicConv2d(3, 4, 3).double(), torch.rand(10, 3, 6, 6, dtype=torch.float64)
    assert_graph(layer, *(x[:count].requires_grad_() for count in (10, 7)), dynamic=True)


def test_pools_are_the_or():
    bits = (torch.rand(4, 3, 7, 6) > 0.7).float()
    for size, stride, padding in ((2, None, 0), (3, 2, 1), ((2, 3), (1, 2), (1, 0)), (7, 1, 3)):
        pool = OrPool2d(size, stride, padding)
        got = pool(bits)
        assert torch.equal(got, nn.functional.max_pool2d(bits, size, stride, padding))
        (rows, columns), (down, right), (above, left) = pool.window
        padded = nn.functional.pad(bits, (left, left, above, above)).bool()
        for i, j in itertools.product(range(got.shape[2]), range(got.shape[3])):
            window = padded[:, :, i * down : i * down + rows, j * right : j * right + columns]
            assert torch.equal(got[:, :, i, j].bool(), window.flatten(2).any(2))
        assert torch.equal(pool(bits[0]), got[0])
    x = torch.rand(2, 3, 5, 4, dtype=torch.float64, requires_grad=True)
    assert gradcheck(OrPool2d(2, 1, 1), x)
    assert gradgradcheck(OrPool2d(2), x)


conv, rand, LEAVES = LogicConv2d, torch.rand, torch.zeros(8, 3).long()


@for_each(
    "make, error, match",
    [
        (lambda: conv(1, 4, 2), ValueError, "8 different places, but 1 channels of its"),
        (lambda: conv(1, 4, 3, depth=0), ValueError, "depth must be >= 1"),
        (lambda: conv(1, 4, 3, depth=10**9), ValueError, f"reads {1 << 62} different"),
        (lambda: conv(1, 4, 3.5), TypeError, "kernel_size must be an int or"),
        (lambda: conv(1, 4, 3, stride=0), ValueError, "stride must be >= 1"),
        (lambda: conv(1, 4, 3, padding=-1), ValueError, "padding must be >= 0"),
        (lambda: conv(1, 4, 3, padding=1.0), TypeError, "padding must be an int or"),
        (lambda: conv(0, 4, 3), ValueError, "in_channels must be >= 1"),
        (lambda: conv(4, 4, 3, channels_per_tree=5), ValueError, "channels_per_tree must be <="),
        (lambda: conv(9, 4, 1), ValueError, "2 channels of its window have 2"),
        (lambda: conv(4, 6, 3, groups=4), ValueError, "groups must divide the 4 input and"),
        (lambda: conv(1, 4, 3, wiring="dense"), ValueError, "unknown wiring"),
        (lambda: conv(1, 4, 3, wiring=LEAVES), ValueError, "must have shape"),
        (lambda: conv(1, 1, 2, depth=1, wiring=LEAVES[:2, :1] + 4), ValueError, "the 4 inputs"),
        (lambda: conv(2, 2, 3, groups=2, wiring=LEAVES[:, :2]), ValueError, "random wiring"),
        (lambda: conv(1, 4, 3, gates=["or"]), ValueError, "needs the gate 'a'"),
        (lambda: conv(1, 4, 3)(rand(2, 1, 2, 5)), ValueError, r"larger .* \[2, 5\]"),
        (lambda: conv(3, 4, 3)(rand(2, 1, 5, 5)), ValueError, r"\[B, 3, H, W\] or \[3"),
        (lambda: conv(3, 4, 3)(rand(5, 5, 5)), ValueError, r"got \[5, 5, 5\]"),
        (lambda: conv(3, 4, 3)(rand(5, 5)), ValueError, r"got \[5, 5\]"),
        (lambda: conv(1, 4, 3)(rand(2, 1, 0, 5)), ValueError, "one pixel at least"),
        (lambda: conv(1, 4, 3)(rand(2, 1, 5, 5).double()), TypeError, "dtype of the weights"),
        (lambda: conv(1, 4, 3)([[[0.0]]]), TypeError, "x must be a torch.Tensor"),
        (lambda: OrPool2d(3)(rand(2, 1, 2, 5)), ValueError, "larger than the image"),
        (lambda: OrPool2d(2)(rand(1, 4, 4).bool()), TypeError, "floating-point, got bool"),
        (lambda: OrPool2d(2)([[[1.0]]]), TypeError, "x must be a torch.Tensor"),
        (lambda: OrPool2d(2)(rand(2, 5)), ValueError, r"\[B, C, H, W\] or \[C, H, W\]"),
        (lambda: OrPool2d(2, padding=2), ValueError, "at most half of the kernel_size"),
        (lambda: OrPool2d(0), ValueError, "kernel_size must be >= 1"),
    ],
)
def test_bad_input(make, error, match):
    with pytest.raises(error, match=match):
        make()
