"""What is up, as photos say it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["SIDES", "upwards"]

Array = npt.NDArray[Any]

# The side of a stored photo that is above when it is upright, after so many quarter turns to the
# right: top, left, bottom or right.
SIDES = np.array([[0, -1, 0], [-1, 0, 0], [0, 1, 0], [1, 0, 0]])
# The sine of a lean to a side from which on a photo counts less for what is up, and how much less
# what most photos say counts than that their horizontals are level; rounds of weights.
_ASLANT, _LEAN, _ROUNDS = 0.1, 0.003, 10
# The lengths of the means of what is above and ahead, below and above which photos look down.
_CONTRADICT, _ONE_WAY = 0.5, 0.9


def upwards(turns: Array, quarters: Sequence[int]) -> Array:
    """What is up, by photos: what most say, turned so that their horizontals are level.

    Cameras that all look down from one side lean forward; what is right of a photo is level anyway.
    Where they all look the same way the most decide. Some that are held aslant, or on a side
    without a word in their EXIF data, hardly count. Photos that look one way and contradict each
    other about what is above, as those of a drone on its way forth and back, look down.

    Args:
        turns: [N, 3, 3], from the world to cameras: x right, y down, z ahead, as photos are stored.
        quarters: turns to the right that make each upright.

    Returns: [3] float64, unit; 0 if as many photos stand on their heads as not.

    Source: Geman & McClure 1987 for weights that fall to 0, by which means are taken again.
    """
    ups: Array = np.einsum("bji,bj->bi", turns, SIDES[list(quarters)])
    usual, weight, ahead = ups.mean(0), np.ones(len(ups)), turns[:, 2].mean(0)
    if np.linalg.norm(usual) < _CONTRADICT and (far := float(np.linalg.norm(ahead))) > _ONE_WAY:
        return -ahead / far
    for _ in range(_ROUNDS):
        usual = weight @ ups / weight.sum()
        usual /= max(float(np.linalg.norm(usual)), 1e-12)
        weight = 1 / np.maximum(np.linalg.norm(ups - usual, axis=1), _ASLANT) ** 2
    level: Array = np.cross(turns[:, 2], ups)
    up = usual
    for _ in range(_ROUNDS):
        weight = 1 / (1 + (level @ up / _ASLANT) ** 2) ** 2
        system: Array = np.einsum("b,bi,bj->ij", weight / weight.sum(), level, level)
        axes: Array = np.linalg.eigh(system + _LEAN * (np.eye(3) - np.outer(usual, usual)))[1]
        up = axes[:, 0] * (-1.0 if axes[:, 0] @ usual < 0 else 1.0)
    return up
