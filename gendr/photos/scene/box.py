"""The box of an object within a scene."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gendr.photos.scene.model import Scene

__all__ = ["find_box", "read_box"]

Array = npt.NDArray[Any]

# How far from what cameras look at points count, in parts of the median distance of the cameras;
# the percentiles of these that are the sides, and by how much these are moved outwards, in parts.
# Of a figure on a table the table has most points, so that two percent would cut off its head.
_NEAR, _SIDES, _WIDER = 0.5, (0.2, 99.8), 0.1
_LEAST = 50  # points


def read_box(words: Sequence[str]) -> Array | None:
    """The corners [2, 3] that six numbers say, in the world; None for "auto".

    Raises:
        ValueError: if it is neither.
    """
    if list(words) == ["auto"]:
        return None
    try:
        box = np.array([float(word) for word in words], np.float64)
    except ValueError:
        box = np.zeros(0)
    if box.shape != (6,) or not np.isfinite(box).all() or not (box[:3] < box[3:]).all():
        raise ValueError(
            f"--box takes auto, or six numbers x y z x y z of which the first three are the "
            f"smaller ones, in the frame of the cameras, got {' '.join(words)}"
        )
    return box.reshape(2, 3)


def find_box(scene: Scene) -> Array:
    """The corners [2, 3] of what cameras look at, less the origin of the scene.

    Of the sparse points that are near the place to which all look, nearest to their optical axes,
    nearly all are in it.

    Raises:
        ValueError: if there are too few points.
    """
    ahead = scene.R[:, 2]
    across = np.eye(3) - ahead[:, :, None] * ahead[:, None]
    centre = np.linalg.lstsq(
        across.sum(0), (across @ scene.centres[..., None]).sum(0)[:, 0], rcond=1e-6
    )[0]
    reach = _NEAR * float(np.median(np.linalg.norm(scene.centres - centre, axis=1)))
    near = scene.points[np.linalg.norm(scene.points - centre, axis=1) < reach]
    if len(near) < _LEAST:
        raise ValueError(
            f"--box auto: only {len(near)} points are where the cameras look; give six numbers, "
            "x y z x y z in the frame of the cameras"
        )
    low, high = np.percentile(near, _SIDES, axis=0)
    return np.stack([low - _WIDER * (high - low), high + _WIDER * (high - low)])
