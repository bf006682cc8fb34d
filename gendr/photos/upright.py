"""What is up, as photos say it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["upwards"]

Array = npt.NDArray[Any]

# The side of a stored photo that is above when it is upright, after so many quarter turns to the
# right: top, left, bottom or right.
_SIDES = np.array([[0, -1, 0], [-1, 0, 0], [0, 1, 0], [1, 0, 0]])
# The sine of a lean to a side from which on a photo counts less for what is up, and how much less
# the mean of the photos counts than that their horizontals are level.
_ASLANT, _LEAN = 0.1, 0.003


def upwards(turns: Array, quarters: Sequence[int]) -> Array:
    """What is up, by photos: their mean, turned so that their horizontals are level.

    Cameras that all look down from one side lean forward; what is right of a photo is level anyway.
    Where they all look the same way the mean decides. Some that are held aslant count less.

    Args:
        turns: [N, 3, 3], from the world to cameras: x right, y down, z ahead, as photos are stored.
        quarters: turns to the right that make each upright.

    Returns: [3] float64, unit; 0 if as many photos stand on their heads as not.
    """
    ups: Array = np.einsum("bji,bj->bi", turns, _SIDES[list(quarters)])
    mean = ups.mean(0)
    mean /= max(float(np.linalg.norm(mean)), 1e-12)
    level: Array = np.cross(turns[:, 2], ups)
    up = mean
    for _ in range(10):
        weight = 1 / (1 + (level @ up / _ASLANT) ** 2)
        system: Array = np.einsum("b,bi,bj->ij", weight / weight.sum(), level, level)
        axes: Array = np.linalg.eigh(system + _LEAN * (np.eye(3) - np.outer(mean, mean)))[1]
        up = axes[:, 0] * (-1.0 if axes[:, 0] @ mean < 0 else 1.0)
    return up
