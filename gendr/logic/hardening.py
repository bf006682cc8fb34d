"""From a trained network to a circuit.

Source: thesis, section 6.3.1 (discretisation), 6.3.2 (pruning, adders, packed bits).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from torch import nn

from gendr.logic.circuit.circuit import Circuit, Sums
from gendr.logic.circuit.netlist import Netlist, netlist
from gendr.logic.groups import GroupSum
from gendr.logic.layers import LogicLayer
from gendr.logic.thresholds import Thermometer

__all__ = ["harden"]

# What may stand between layers, because it does nothing to bits, or nothing in `eval` mode.
_TRANSPARENT = (nn.Identity, nn.Flatten, nn.Dropout)


def harden(model: nn.Module, *, simplify: bool = True, check: bool = True) -> Circuit:
    """The circuit of a network: what it computes in `eval` mode.

    Args:
        model: a `LogicLayer`, or an `nn.Sequential` (of them, of `nn.Sequential`) with an optional
            `Thermometer` or `Binarize` first and an optional `GroupSum` last. It is not changed.
        simplify: whether to make the circuit smaller. If not, gate j of layer i is gate j of level
            i of the circuit, for layers of two inputs.
        check: whether each pass is compared with what was before it.

    Raises:
        TypeError: if the model has another module.
        ValueError: if modules stand in another order, or widths do not fit.
    """
    modules = _flat(model)
    thresholds = sums = None
    per_feature = False
    first, last = modules[:1], modules[-1:]
    if first and isinstance(first[0], Thermometer):
        values = first[0].thresholds.detach().cpu().numpy()
        thresholds = np.array(values.reshape(-1, values.shape[-1]))
        per_feature = values.ndim == 2
        modules = modules[1:]
    if last and isinstance(last[0], GroupSum):
        sums = Sums(last[0].k, last[0].tau, last[0].beta)
        modules = modules[:-1]
    layers: list[LogicLayer] = []
    for module in modules:
        if not isinstance(module, LogicLayer):
            raise ValueError(
                f"{type(module).__name__} stands between layers of gates; a Thermometer must be "
                "the first module, a GroupSum the last"
            )
        layers.append(module)
    if not layers:
        raise ValueError("the model has no LogicLayer")
    inputs = layers[0].in_features
    if thresholds is not None:
        bits = thresholds.shape[1]
        if inputs % bits or (per_feature and len(thresholds) * bits != inputs):
            raise ValueError(
                f"the thresholds {list(thresholds.shape)} do not give the {inputs} bits that the "
                "first layer reads"
            )
    for before, after in pairwise(layers):
        if before.out_features != after.in_features:
            raise ValueError(
                f"a layer with {before.out_features} outputs stands before one with "
                f"{after.in_features} inputs"
            )
    circuit = Circuit(_gates(layers), thresholds, sums)
    return circuit.simplified(check=check) if simplify else circuit


def _flat(model: nn.Module) -> list[nn.Module]:
    """The modules in the order in which they run."""
    if isinstance(model, nn.Sequential):
        return [each for child in model for each in _flat(child)]
    if isinstance(model, _TRANSPARENT):
        return []
    if not isinstance(model, (LogicLayer, GroupSum, Thermometer)):
        raise TypeError(
            f"a circuit can be made of nn.Sequential, LogicLayer, Thermometer, Binarize and "
            f"GroupSum, got {type(model).__name__}"
        )
    return [model]


def _gates(layers: Sequence[LogicLayer]) -> Netlist:
    """All gates; those of more than two inputs become trees of gates of two."""
    builder = _Lists(layers[0].in_features)
    signals = list(range(builder.inputs))
    for layer in layers:
        tables = layer.hard_tables().cpu().numpy().astype(int).tolist()
        wires = layer.wires.T.tolist()
        signals = [
            builder.table(tuple(table), [signals[k] for k in reads])
            for table, reads in zip(tables, wires, strict=True)
        ]
    return netlist(builder.inputs, builder.ids, builder.a, builder.b, signals)


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
