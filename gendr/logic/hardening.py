"""From a trained network to a circuit.

The modules run on signals in place of numbers, in the shapes that they would have for one row: a
gate makes a new signal, `nn.Flatten` another shape.

Source: thesis, section 6.3.1 (discretisation), 6.3.2 (pruning, adders, packed bits); Petersen et
al., Convolutional Differentiable Logic Gate Networks, NeurIPS 2024 (trees at all positions, pools).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from gendr._common.checks import check_count
from gendr.logic.circuit.circuit import Circuit, Floats, Sums
from gendr.logic.circuit.netlist import netlist
from gendr.logic.convolutions import LogicConv2d
from gendr.logic.groups import GroupSum
from gendr.logic.layers import LogicLayer
from gendr.logic.pooling import OrPool2d
from gendr.logic.thresholds import Binarize, Thermometer

# What may stand between layers, because it does nothing to bits in `eval` mode.
_TRANSPARENT = (nn.Identity, nn.Dropout)
_SHAPES = (nn.Flatten, nn.Unflatten)
_LAYERS = (LogicLayer, LogicConv2d, OrPool2d)
_ENDS = (GroupSum, Thermometer, Binarize)
_LISTED = (*_LAYERS, *_ENDS, *_SHAPES, *_TRANSPARENT)

_OR = 7
Signals = NDArray[np.int64]


def harden(
    model: nn.Module,
    *,
    input_shape: Sequence[int] | None = None,
    simplify: bool = True,
    check: bool = True,
) -> Circuit:
    """The circuit of a network: what it computes in `eval` mode.

    Args:
        model: a `LogicLayer`, or an `nn.Sequential` (of them, of `nn.Sequential`) with an optional
            `Thermometer` or `Binarize` first and an optional `GroupSum` last. There may be
            `LogicConv2d`, `OrPool2d`, `nn.Flatten` and `nn.Unflatten`, and `nn.Identity` and
            `nn.Dropout`, which do nothing then. Classes that derive from these are refused. It is
            not changed.
        input_shape: of one row, such as (C, H, W) for images. It is needed if the model begins with
            a layer for images; else it is known. A row of the circuit is such an image, flattened,
            and so are the outputs if a layer for images is the last.
        simplify: whether to make the circuit smaller. If not, gate j of layer i is gate j of level
            i of the circuit, for layers of two inputs.
        check: whether each pass is compared with what was before it.

    Raises:
        TypeError: if the model has another module, or one has hooks.
        ValueError: if modules stand in another order, widths do not fit, or `input_shape` is
            missing.
    """
    modules = _flat(model)
    shape = _input_shape(modules, input_shape)
    signals = np.arange(math.prod(shape)).reshape(shape)
    while modules and isinstance(modules[0], _SHAPES):
        signals = _reshaped(modules.pop(0), signals)
    thresholds = sums = None
    if modules and isinstance(modules[0], Thermometer):
        signals, thresholds = _bits(modules[0], signals)
        modules = modules[1:]
    if modules and isinstance(modules[-1], GroupSum):
        sums = Sums(modules[-1].k, modules[-1].tau, modules[-1].beta)
        modules = modules[:-1]
    if not any(isinstance(each, _LAYERS) for each in modules):
        raise ValueError("the model has no LogicLayer")
    builder = _Lists(signals.size)
    for each in modules:
        signals = _applied(each, signals, builder)
    if sums is not None and signals.ndim > 1:
        raise ValueError(
            f"GroupSum gets bits of shape {list(signals.shape)}; put nn.Flatten before it"
        )
    outputs = signals.ravel().tolist()
    circuit = Circuit(
        netlist(builder.inputs, builder.ids, builder.a, builder.b, outputs), thresholds, sums
    )
    return circuit.simplified(check=check) if simplify else circuit


def _flat(model: nn.Module) -> list[nn.Module]:
    """The modules in the order in which they run."""
    kind = type(model)  # a class that derives from one of these may compute something else
    if kind is not nn.Sequential and kind not in _LISTED:
        known = ", ".join(f"{'nn.' * each.__module__.startswith('torch')}{each.__name__}"
                          for each in _LISTED)  # fmt: skip
        raise TypeError(f"a circuit can be made of nn.Sequential, {known}, got {kind.__name__}")
    if model._forward_hooks or model._forward_pre_hooks:
        raise TypeError(f"{kind.__name__} has forward hooks, which no circuit has; remove them")
    if isinstance(model, nn.Sequential):
        return [each for child in model for each in _flat(child)]
    return [] if kind in _TRANSPARENT else [model]


def _input_shape(modules: Sequence[nn.Module], shape: Sequence[int] | None) -> tuple[int, ...]:
    """The shape of a row: as asked for, or as the first module that knows one says."""
    if shape is not None:
        if isinstance(shape, Integral) or not len(shape):
            raise ValueError(f"input_shape must be sizes such as (C, H, W), got {shape!r}")
        return tuple(check_count("each size of input_shape", size) for size in shape)
    bits, limits = 1, [1]
    for each in modules:
        if isinstance(each, LogicLayer):
            if each.in_features % bits:
                raise _wrong_bits(limits, each.in_features)
            return (each.in_features // bits,)
        if isinstance(each, Thermometer):
            limits = list(each.thresholds.shape)
            bits *= limits[-1]
        if isinstance(each, nn.Unflatten) and min(_sizes(each)) > 0:
            return (math.prod(_sizes(each)) // bits,)
        if isinstance(each, (LogicConv2d, OrPool2d)):
            raise ValueError(
                f"a model that begins with {type(each).__name__} takes images of any size; say "
                "which with harden(model, input_shape=(C, H, W))"
            )
    return (bits,)  # there is no layer, which is said later


def _wrong_bits(limits: Sequence[int], bits: int) -> ValueError:
    return ValueError(
        f"the thresholds {list(limits)} do not give the {bits} bits that the first layer reads"
    )


def _sizes(module: nn.Unflatten) -> tuple[int, ...]:
    sizes = module.unflattened_size
    if not all(isinstance(size, int) for size in sizes):
        raise ValueError("nn.Unflatten must have plain sizes to become part of a circuit")
    return tuple(sizes)  # pyright: ignore[reportReturnType]


def _axis(dim: int | str, signals: Signals) -> int:
    """The dimension of a row that a module means by one of a batch."""
    if isinstance(dim, str):
        raise ValueError("dimensions must be numbers to become part of a circuit, got names")
    axis = dim - 1 if dim >= 0 else dim + signals.ndim
    if not 0 <= axis < signals.ndim:
        raise ValueError(
            f"dimension {dim} is not one of a row of shape {list(signals.shape)} in a batch"
        )
    return axis


def _reshaped(module: nn.Module, signals: Signals) -> Signals:
    """Signals after `nn.Flatten` or `nn.Unflatten`."""
    shape = signals.shape
    if isinstance(module, nn.Unflatten):
        axis, sizes = _axis(module.dim, signals), _sizes(module)
        known = math.prod(size for size in sizes if size != -1)
        sizes = tuple(shape[axis] // known if size == -1 else size for size in sizes)
        if math.prod(sizes) != shape[axis]:
            raise ValueError(f"nn.Unflatten cannot make {list(sizes)} of {shape[axis]} features")
        return signals.reshape(*shape[:axis], *sizes, *shape[axis + 1 :])
    assert isinstance(module, nn.Flatten)
    first, last = _axis(module.start_dim, signals), _axis(module.end_dim, signals)
    return signals.reshape(*shape[:first], -1, *shape[last + 1 :])


def _bits(module: Thermometer, features: Signals) -> tuple[Signals, Floats]:
    """The inputs of the circuit in the shape of the bits, and the thresholds of all features."""
    limits = module.thresholds.detach().cpu()
    # Half precision is for training: float32 holds its numbers, and files and kernels know it.
    values = (limits if limits.dtype == torch.float64 else limits.float()).numpy()
    shape, axis = features.shape, features.ndim + module.dim
    if axis < 0:
        raise ValueError(
            f"thresholds of channels need rows [C, H, W], got {list(shape)}; give "
            "input_shape=(C, H, W)"
        )
    count = values.shape[-1]
    behind = [1] * (features.ndim - axis - 1)
    if values.ndim == 2:
        if shape[axis] != len(values):
            raise _wrong_bits(values.shape, features.size * count)
        # One row for each feature of the flattened input, whichever channel it is of.
        which = np.broadcast_to(np.arange(len(values)).reshape(-1, *behind), shape)
        values = values[which.ravel()]
    bits = np.expand_dims(features * count, axis + 1) + np.arange(count).reshape(-1, *behind)
    return bits.reshape(*shape[:axis], -1, *shape[axis + 1 :]), values.reshape(-1, count).copy()


def _applied(module: nn.Module, signals: Signals, builder: _Lists) -> Signals:
    """The signals after a module."""
    if isinstance(module, LogicLayer):
        return _layer(module, signals, builder)
    if isinstance(module, LogicConv2d):
        return _trees(module, signals, builder)
    if isinstance(module, OrPool2d):
        return _pooled(module, signals, builder)
    if isinstance(module, _SHAPES):
        return _reshaped(module, signals)
    raise ValueError(
        f"{type(module).__name__} stands between layers of gates; a Thermometer must be the first "
        "module, a GroupSum the last"
    )


def _layer(layer: LogicLayer, signals: Signals, builder: _Lists) -> Signals:
    """The gates of a layer; those of more than two inputs become trees of gates of two."""
    if signals.ndim > 1:
        raise ValueError(
            f"a LogicLayer gets bits of shape {list(signals.shape)}; put nn.Flatten before it"
        )
    if len(signals) != layer.in_features:
        raise ValueError(
            f"a layer with {len(signals)} outputs stands before one with {layer.in_features} inputs"
        )
    reads = signals[layer.hard_wires().cpu().numpy().T].tolist()
    tables = layer.hard_tables().long().tolist()
    outputs = [builder.table(tuple(t), own) for t, own in zip(tables, reads, strict=True)]
    return np.array(outputs)


def _image(module: LogicConv2d | OrPool2d, signals: Signals, channels: int | None) -> None:
    if signals.ndim != 3 or channels not in (None, len(signals)):
        raise ValueError(
            f"{type(module).__name__} must get bits of shape [{channels or 'C'}, H, W], but "
            f"{list(signals.shape)} come to it; look at input_shape and at the layers before"
        )


def _trees(layer: LogicConv2d, signals: Signals, builder: _Lists) -> Signals:
    """The gates of all trees at all positions, level by level."""
    _image(layer, signals, layer.in_channels)
    _, height, width = signals.shape
    features, outside = (each.cpu().numpy() for each in layer.leaves(height, width))
    leaves = signals.ravel()[features]  # [2^d, trees, P]
    if outside.any():
        leaves[outside] = builder.gate(0, 0, 0)
    ids = layer.choices().cpu().numpy()
    level = leaves.transpose(1, 0, 2)
    start = 0
    for size in layer.level_sizes():
        own = ids[start : start + size].reshape(layer.out_channels, -1, 1)
        a, b = level[:, ::2], level[:, 1::2]
        level = builder.gates(np.broadcast_to(own, a.shape), a, b)
        start += size
    return level.reshape(layer.out_channels, *layer.window.positions(height, width))


def _pooled(pool: OrPool2d, signals: Signals, builder: _Lists) -> Signals:
    """The "or" of the pixels of each window that are inside of the image."""
    _image(pool, signals, None)
    channels, height, width = signals.shape
    (rows, columns), shape = pool.window.size, pool.window.positions(height, width)
    places = torch.arange(rows * columns)
    read = pool.window.pixels(places // columns, places % columns, height, width)
    pixels, outside = (each.numpy() for each in read)
    flat = signals.reshape(channels, -1)
    outputs = np.empty((channels, pixels.shape[1]), np.int64)
    for p in range(pixels.shape[1]):
        terms = flat[:, pixels[~outside[:, p], p]].T  # [n, channels]
        while len(terms) > 1:
            odd = terms[len(terms) // 2 * 2 :]
            a, b = terms[: len(terms) // 2 * 2 : 2], terms[1::2]
            terms = np.concatenate([builder.gates(np.full(a.shape, _OR), a, b), odd])
        outputs[:, p] = terms[0]
    return outputs.reshape(channels, *shape)


class _Lists:
    """A netlist that grows."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.ids: list[int] = []
        self.a: list[int] = []
        self.b: list[int] = []

    def gate(self, which: int, a: int, b: int) -> int:
        """Append a gate; its signal."""
        self.ids.append(which)
        self.a.append(a)
        self.b.append(b)
        return self.inputs + len(self.ids) - 1

    def gates(self, which: Signals, a: Signals, b: Signals) -> Signals:
        """Append gates of any shape; their signals, in that shape."""
        start = self.inputs + len(self.ids)
        self.ids += which.ravel().tolist()
        self.a += a.ravel().tolist()
        self.b += b.ravel().tolist()
        return np.arange(start, start + a.size).reshape(a.shape)

    def table(self, table: tuple[int, ...], signals: list[int]) -> int:
        """The signal of a truth table, split at its first input until two are left (Shannon)."""
        if len(signals) == 2:
            return self.gate(int("".join(map(str, table)), 2), *signals)
        first, *rest = signals
        if not rest:
            return self.gate(0b1100 * table[0] | 0b0011 * table[1], first, first)
        half = len(table) // 2
        low, high = table[:half], table[half:]
        if low == high:
            return self.table(low, rest)
        at_zero = self.table(low, rest)
        if all(x != y for x, y in zip(low, high, strict=True)):
            return self.gate(6, first, at_zero)  # xor
        at_one = self.table(high, rest)
        return self.gate(
            7, self.gate(1, first, at_one), self.gate(4, first, at_zero)
        )  # (first and at_one) or (not first and at_zero)
