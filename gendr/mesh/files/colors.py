"""Colours of files that do not say what stands for white."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gendr.mesh.files.reports import note

Array = NDArray[Any]

# From which number on colours that are no integers count up to 255, and what is a rounded 0 or 1.
_BYTES, _ROUNDED = 16.0, 1e-3


def unit_colors(values: Array, notes: list[str], kind: str = "f8") -> Array:
    """RGB in [0, 1], [N, 3], of colours [N, 3] or, with alpha, [N, 4].

    White is 255 for bytes. Other numbers do not say what is white; it is the first of these:
    - 1, if none is larger, but for rounding;
    - 255, if none is larger, and all are integers or some is 16 or more;
    - 65535, if some is above 255 and none is larger than this;
    - the largest integer of the type; or 1 for floats, and what is brighter is cut.

    Args:
        values: Of all rows, for one rule.
        notes: Gets a note of what is cut, and of transparency.
        kind: The type in the file, as NumPy has it.
    """
    if kind == "i1":  # bytes, which many call "char"
        values, kind = np.asarray(values, np.float64) % 256, "u1"
    values = np.asarray(values, np.float64)
    most, least = values.max(initial=0.0), values.min(initial=0.0)
    white = 1.0
    if kind == "u1" or (
        1 + _ROUNDED < most <= 255 and (most >= _BYTES or (values == np.round(values)).all())
    ):
        white = 255.0
    elif 255 < most <= 65535:
        white = 65535.0
    elif most > 65535 and kind[0] in "ui":
        white = float(np.iinfo(kind).max)
    values = values / white
    if most / white > 1 + _ROUNDED or least / white < -_ROUNDED:
        note(notes, f"its colours lie in {least / white:.3g} .. {most / white:.3g}, cut to 0 .. 1")
    if values.shape[1] > 3 and values[:, 3].min(initial=1.0) < 1 - _ROUNDED:
        note(notes, "the transparency of its colours is dropped")
    return values[:, :3].clip(0, 1)
