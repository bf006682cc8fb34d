"""Colours of images (sRGB), which meshes have here, and linear ones, which glTF has.

Source: IEC 61966-2-1, the curve of sRGB; glTF 2.0, section 3.9.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def to_linear(colors: Array) -> Array:
    """Linear values of sRGB in [0, 1]: float64."""
    s = np.asarray(colors, np.float64)
    return np.where(s <= 0.04045, s / 12.92, ((s + 0.055) / 1.055) ** 2.4)


def from_linear(colors: Array) -> Array:
    """SRGB of linear values in [0, 1]: float64."""
    x = np.asarray(colors, np.float64)
    # 1.055 x^(1 / 2.4) - 0.055, so written that 1 is exactly 1
    return np.where(x <= 0.0031308, x * 12.92, 1 - 1.055 * (1 - x ** (1 / 2.4)))
