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

from typing import TYPE_CHECKING

from gendr._common.names import lazily

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
    "gendr.logic.circuit.circuit": ("Circuit", "Stats", "Sums"),
    "gendr.logic.circuit.packed": ("PackedBits",),
    "gendr.logic.convolutions": ("LogicConv2d",),
    "gendr.logic.gates": ("GATES", "Gate", "gate"),
    "gendr.logic.groups": ("GroupSum",),
    "gendr.logic.hardening": ("harden",),
    "gendr.logic.layers": ("LogicLayer",),
    "gendr.logic.pooling": ("OrPool2d",),
    "gendr.logic.thresholds": ("Binarize", "Thermometer"),
    "gendr.logic.wiring": ("LearnableWiring", "block_wiring", "random_wiring"),
}
__getattr__, __dir__ = lazily(globals(), _MODULES)
