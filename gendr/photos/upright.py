"""What is up, as photos say it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["SIDES", "edges_of", "one_way", "upwards", "verticals"]

Array = npt.NDArray[Any]

# The side of a stored photo that is above when it is upright, after so many quarter turns to the
# right: top, left, bottom or right.
SIDES = np.array([[0, -1, 0], [-1, 0, 0], [0, 1, 0], [1, 0, 0]])
# The sine of a lean to a side from which on a photo counts less for what is up, and how much less
# what most photos say counts than that their horizontals are level; rounds of weights.
_ASLANT, _LEAN, _ROUNDS = 0.1, 0.003, 10
# The lengths of the means of what is above and ahead, below and above which photos look down.
_CONTRADICT, _ONE_WAY = 0.5, 0.9
_LEVEL = 0.1  # the least part of a direction that is one on a map, too
# Edges: the deviation of the Gaussian whose slopes they have, in pixels; how many of an image; and
# which part of pixels have no such slope.
_BLUR, _EDGES, _FLAT = 1.5, 4000, 0.8
# What is up by edges, in degrees: how far from what most photos say, by which steps, how far edges
# may be off, which are asked, and how far what they say may lean aside; how many times as many as
# usual must agree, and which part of all: of fronts and streets 0.1 to 0.25 do, of lines at random
# up to 0.08.
_SPAN, _STEP, _OFF, _ASKED, _ROLL = 35.0, 0.5, 1.0, 40.0, 4.0
_CLEAR, _MANY = 2.0, 0.1


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


def one_way(turns: Array, up: Array) -> float:
    """The length of the mean of where photos look, on a map: 1 if all look one way."""
    ahead = turns[:, 2] - np.outer(turns[:, 2] @ up, up)
    far = np.linalg.norm(ahead, axis=1, keepdims=True)
    return float(np.linalg.norm(np.where(far > _LEVEL, ahead / np.maximum(far, 1e-12), 0).mean(0)))


def edges_of(grey: Array, lens: Array, turn: Array) -> Array:
    """The planes in which the strongest edges of a photo lie with its camera, as unit normals.

    Args:
        grey: [H, W].
        lens: [3, 3], OpenCV's K of these pixels; what the lens bends is not straightened.
        turn: [3, 3], from the world to the camera.

    Returns: [E, 3] in the world.
    """
    from scipy.ndimage import gaussian_filter1d  # slow to import, and fits to meshes need none

    values = np.asarray(grey, float)
    x, y = (gaussian_filter1d(gaussian_filter1d(values, _BLUR, axis, order=1), _BLUR, 1 - axis)
            for axis in (1, 0))  # fmt: skip
    slope = np.hypot(x, y)
    slope[[0, -1]] = slope[:, [0, -1]] = 0
    # Where it is largest across the edge.
    across = np.where(
        abs(x) > abs(y),
        np.maximum(np.roll(slope, 1, 1), np.roll(slope, -1, 1)),
        np.maximum(np.roll(slope, 1, 0), np.roll(slope, -1, 0)),
    )
    rows, columns = np.nonzero((slope >= across) & (slope > np.quantile(slope, _FLAT)))
    most = np.argsort(-slope[rows, columns], kind="stable")[:_EDGES]
    rows, columns = rows[most], columns[most]
    lines = np.stack([x[rows, columns], y[rows, columns]], 1) / slope[rows, columns, None]
    past = -(lines * np.stack([columns + 0.5, rows + 0.5], 1)).sum(1)
    planes = np.column_stack([lines, past]) @ lens @ turn
    return planes / np.linalg.norm(planes, axis=1, keepdims=True)


def verticals(edges: Array, up: Array, ahead: Array) -> Array | None:
    """What is up by edges that are upright in the world, such as those of houses.

    Planes through cameras and such edges hold what is up. Where all photos look one way and are
    pitched alike, only this tells how.

    Args:
        edges: [E, 3], as `edges_of` finds them.
        up: [3], what most photos say; it is looked for forwards and back of that.
        ahead: [3], where they look.

    Returns: [3] float64, unit; None if no direction is clearly that of more edges than others.
    """
    forwards = ahead - (ahead @ up) * up
    forwards = forwards / np.linalg.norm(forwards)
    edges = edges[abs(edges @ up) < np.sin(np.radians(_ASKED))]
    if not len(edges):
        return None
    angles = np.radians(np.arange(-_SPAN, _SPAN + _STEP / 2, _STEP))
    tried = np.outer(np.cos(angles), up) + np.outer(np.sin(angles), forwards)
    near = np.sin(np.radians(_OFF))
    agree = np.array([(abs(edges @ one) < near).mean() for one in tried])
    if agree.max() < max(_MANY, _CLEAR * np.median(agree)):
        return None
    found = tried[agree.argmax()]
    for _ in range(_ROUNDS):
        weight = 1 / (1 + (edges @ found / near) ** 2) ** 2
        axis: Array = np.linalg.eigh((edges * weight[:, None]).T @ edges)[1][:, 0]
        found = axis * (-1.0 if axis @ found < 0 else 1.0)
    aside = float(abs(found @ np.cross(forwards, up)))
    return found if aside < np.sin(np.radians(_ROLL)) else None
