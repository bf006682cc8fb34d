"""What becomes a circuit, how its modules become gates, and what is refused."""

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


def row(*parts):
    return nn.Sequential(*parts).eval()


def trees(channels):
    return LogicConv2d(channels, 6, 3, init="normal")


def layer(inputs, outputs):
    return LogicLayer(inputs, outputs, init="normal")


class Twice(nn.Sequential):
    def forward(self, input):
        return super().forward(super().forward(input))


class Upside(nn.Dropout):
    def forward(self, input):
        return 1 - input


def test_what_is_not_listed_is_refused():
    """A class that derives from a listed one computes what it likes; so does a hook."""
    square = [layer(6, 6), layer(6, 6)]
    hooked = row(layer(6, 6), layer(6, 6))
    hooked[1].register_forward_hook(lambda module, args, out: 1 - out)
    for model, name in (
        (Twice(*square), "Twice"),
        (row(*square, Upside()), "Upside"),
        (row(*square, nn.ReLU()), "ReLU"),
        (hooked, "has forward hooks"),
    ):
        with pytest.raises(TypeError, match=name):
            harden(model)
    same = harden(row(square[0], nn.Dropout(), nn.Identity(), square[1]))
    assert str(same) == str(harden(row(*square)))


def test_every_input_of_a_small_network():
    """All 2^12 images."""
    model = row(
        LogicConv2d(1, 5, 2, depth=2, padding=1, init="normal"), OrPool2d(2),
        LogicConv2d(5, 4, 2, depth=1, init="normal"), nn.Flatten(), layer(4, 6),
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


def test_modules_that_make_no_gates():
    """Any shape that has as many bits; dropout and nested models are seen through."""
    flat = row(nn.Flatten(), nn.Sequential(layer(60, 12), nn.Dropout()), GroupSum(3))
    x = (torch.rand(40, *SHAPE) > 0.5).float()
    for shape in (None, SHAPE, (60,), [6, 10]):
        assert torch.equal(harden(flat, input_shape=shape)(x.flatten(1)), flat(x))
    alone = layer(60, 9).eval()
    assert torch.equal(harden(alone)(x.flatten(1)), alone(x.flatten(1)) > 0)


@for_each(
    "make, shape, error, match",
    [
        (lambda: row(nn.Linear(3, 4)), None, TypeError, "got Linear"),
        (lambda: row(GroupSum(2)), None, ValueError, "has no LogicLayer"),
        (lambda: row(layer(12, 20), layer(21, 24)), None, ValueError, "20 outputs stands before"),
        (lambda: row(layer(12, 20), GroupSum(3)), None, ValueError, "20 outputs must form 3 gro"),
        (lambda: row(GroupSum(2), layer(2, 4)), None, ValueError, "GroupSum stands between"),
        (lambda: row(Thermometer([0.1] * 5), layer(12, 4)), None, ValueError, "give the 12 bits"),
        (lambda: row(Thermometer(torch.rand(4, 4)), layer(12, 4)), None, ValueError, "the 12 bits"),
        (lambda: row(OrPool2d(2)), None, ValueError, r"with OrPool2d .* input_shape=\(C, H, W\)"),
        (lambda: row(trees(2)), (3, 6, 5), ValueError, r"shape \[2, H, W\], but \[3, 6"),
        (lambda: row(trees(2)), (60,), ValueError, r"but \[60\] come to it"),
        (lambda: row(trees(2)), (2, 6, 0), ValueError, "input_shape must be >= 1, got 0"),
        (lambda: row(trees(2)), (2, 6, 5.0), TypeError, "input_shape must be an int"),
        (lambda: row(trees(2)), 60, ValueError, r"sizes such as \(C, H, W\), got 60"),
        (lambda: row(trees(2)), (2, 2, 5), ValueError, "larger than the image"),
        (lambda: row(trees(2), GroupSum(2)), SHAPE, ValueError, "put nn.Flatten before it"),
        (lambda: row(trees(2), layer(3, 4)), SHAPE, ValueError, "put nn.Flatten before"),
        (lambda: row(trees(2), nn.Flatten(), layer(70, 4)), SHAPE, ValueError, "72 outputs stan"),
        (lambda: row(trees(2), nn.MaxPool2d(2)), SHAPE, TypeError, "got MaxPool2d"),
        (lambda: row(trees(2), Binarize()), SHAPE, ValueError, "Binarize stands between"),
        (lambda: row(Thermometer([0.5], dim=-3), trees(2)), (60,), ValueError, r"got \[60\]"),
        (
            lambda: row(Thermometer(torch.rand(3, 2), dim=-3), trees(4)),
            SHAPE,
            ValueError,
            r"the thresholds \[3, 2\] do not give",
        ),
        (lambda: row(nn.Flatten(0), layer(60, 4)), SHAPE, ValueError, "dimension 0"),
        (lambda: row(nn.Unflatten(1, (2, 7)), layer(7, 4)), (60,), ValueError, r"make \[2, 7\] of"),
    ],
)
def test_what_cannot_be_hardened(make, shape, error, match):
    with pytest.raises(error, match=match):
        harden(make(), input_shape=shape)


def test_learnt_wires():
    """The circuit reads what the largest weights choose, in `eval` mode and after loading."""
    model = row(
        LogicLayer(20, 40, wiring=LearnableWiring(6), init="normal"),
        LogicLayer(40, 30, 3, wiring="learnable", init="normal"),
        GroupSum(3),
    )
    x = (torch.rand(200, 20) > 0.5).float()
    circuit = harden(model)
    assert torch.equal(circuit(x), model(x))


@for_each(dtype=[torch.bfloat16, torch.float16])
def test_half_precision(dtype, tmp_path):
    """A network of half precision becomes a circuit that can be saved, thresholds included."""
    model = row(Thermometer.uniform(5), layer(40, 30), GroupSum(3)).to(dtype)
    x = torch.rand(70, 8).to(dtype)
    circuit = harden(model)
    circuit.save(tmp_path / "half.npz")
    assert torch.equal(Circuit.load(tmp_path / "half.npz")(x), model(x).float())
