"""All inputs of zeros and ones, which prove that a comparator network sorts (Knuth, 5.3.4)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gendr.sorting import Network


def every_zero_one_input(n: int) -> NDArray[np.uint64]:
    """Wires uint64 [n, words]: bit k of wire i, counted through, is bit i of the number k."""
    words = np.arange(max(1, 2**n // 64), dtype=np.uint64)
    wires = np.empty((n, len(words)), np.uint64)
    numbers = np.arange(64, dtype=np.uint64)
    for i in range(n):
        if i < 6:
            ones = (numbers >> np.uint64(i)) & np.uint64(1)
            wires[i] = (ones << numbers).sum(dtype=np.uint64)
        else:
            ones = (words >> np.uint64(i - 6)) & np.uint64(1)
            wires[i] = ones * np.uint64(2**64 - 1)
    return wires


def sent(net: Network, wires: NDArray[Any]) -> NDArray[Any]:
    """Send wires [n, ...] through, in place; & and | of bits are their minimum and maximum."""
    low_of, high_of = (
        (np.bitwise_and, np.bitwise_or) if wires.dtype == np.uint64 else (np.minimum, np.maximum)
    )
    for layer in net.layers:
        for low, high in layer:
            smaller = low_of(wires[low], wires[high])
            high_of(wires[low], wires[high], out=wires[high])
            wires[low] = smaller
    return wires
