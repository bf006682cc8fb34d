"""Logic gate networks: gates are trained by gradients, and run as bits.

    >>> model = nn.Sequential(
    ...     Binarize(), LogicLayer(784, 8000), LogicLayer(8000, 8000), GroupSum(10, tau=10)
    ... )
    >>> circuit = harden(model)          # after training
    >>> circuit(images)

For images there are convolutions by trees of gates:

    >>> model = nn.Sequential(
    ...     Binarize(), LogicConv2d(1, 16, kernel_size=5), OrPool2d(2), nn.Flatten(),
    ...     LogicLayer(2304, 4000), GroupSum(10, tau=10),
    ... )
    >>> circuit = harden(model, input_shape=(1, 28, 28))

Names are imported when they are first used: a saved circuit runs without torch.

Source: thesis, chapter 6; convolutions: Petersen et al., NeurIPS 2024.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gendr.logic.circuit.circuit import Circuit, Stats, Sums
    from gendr.logic.circuit.packed import PackedBits
    from gendr.logic.convolutions import LogicConv2d
    from gendr.logic.gates import GATES, Gate, gate
    from gendr.logic.groups import GroupSum
    from gendr.logic.hardening import harden
    from gendr.logic.layers import LogicLayer
    from gendr.logic.pooling import OrPool2d
    from gendr.logic.thresholds import Binarize, Thermometer
    from gendr.logic.wiring import LearnableWiring, block_wiring, random_wiring

__all__ = [
    "GATES",
    "Binarize",
    "Circuit",
    "Gate",
    "GroupSum",
    "LearnableWiring",
    "LogicConv2d",
    "LogicLayer",
    "OrPool2d",
    "PackedBits",
    "Stats",
    "Sums",
    "Thermometer",
    "block_wiring",
    "gate",
    "harden",
    "random_wiring",
]

_MODULES = {
    "circuit.circuit": ("Circuit", "Stats", "Sums"),
    "circuit.packed": ("PackedBits",),
    "convolutions": ("LogicConv2d",),
    "gates": ("GATES", "Gate", "gate"),
    "groups": ("GroupSum",),
    "hardening": ("harden",),
    "layers": ("LogicLayer",),
    "pooling": ("OrPool2d",),
    "thresholds": ("Binarize", "Thermometer"),
    "wiring": ("LearnableWiring", "block_wiring", "random_wiring"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gendr.logic' has no attribute {name!r}")
    value = getattr(import_module(f"gendr.logic.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
