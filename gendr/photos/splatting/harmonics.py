"""Real spherical harmonics of degree 0 to 3, and the colours that they give a direction.

The order and the signs are those of 3D Gaussian Splatting (Kerbl et al., 2023): by degree l, then
m = -l .. l, with the Condon-Shortley sign (-1)^m.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gendr._common.checks import check_float, check_like, check_shape

__all__ = ["COUNTS", "basis", "colors_of", "degree_of", "flat_color", "harmonics_of"]

# How many harmonics there are up to a degree.
COUNTS = (1, 4, 9, 16)
# The factors, by the squares of which they are roots, times pi.
_C0, _C1 = math.sqrt(1 / 4 / math.pi), math.sqrt(3 / 4 / math.pi)
_XY, _ZZ, _XX = (math.sqrt(n / math.pi) for n in (15 / 4, 5 / 16, 15 / 16))
_M3, _XYZ, _M1, _ZZZ, _M2 = (
    math.sqrt(n / math.pi) for n in (35 / 32, 105 / 4, 21 / 32, 7 / 16, 105 / 16)
)


def degree_of(count: int) -> int:
    """The degree up to which there are `count` harmonics.

    Raises:
        ValueError: if there are never so many.
    """
    if count not in COUNTS:
        raise ValueError(f"there are 1, 4, 9 or 16 harmonics, got {count}")
    return COUNTS.index(count)


def basis(directions: Tensor, degree: int) -> Tensor:
    """The harmonics of unit vectors [..., 3] up to a degree: [..., (degree + 1)^2]."""
    x, y, z = directions.unbind(-1)
    found = [torch.full_like(x, _C0)]
    if degree > 0:
        found += [-_C1 * y, _C1 * z, -_C1 * x]
    if degree > 1:
        xx, yy, zz, xy = x * x, y * y, z * z, x * y
        found += [_XY * xy, -_XY * y * z, _ZZ * (2 * zz - xx - yy), -_XY * x * z, _XX * (xx - yy)]
        if degree > 2:
            found += [
                -_M3 * y * (3 * xx - yy),
                _XYZ * xy * z,
                -_M1 * y * (4 * zz - xx - yy),
                _ZZZ * z * (2 * zz - 3 * xx - 3 * yy),
                -_M1 * x * (4 * zz - xx - yy),
                _M2 * z * (xx - yy),
                -_M3 * x * (xx - 3 * yy),
            ]
    return torch.stack(found, -1)


def colors_of(harmonics: Tensor, directions: Tensor) -> Tensor:
    """The colours max(0, 1/2 + sum_k Y_k(direction) h_k); differentiable in both.

    Args:
        harmonics: [N, K, 3], the coefficients of K = 1, 4, 9 or 16 harmonics for R, G and B.
        directions: [N, 3] or [B, N, 3], unit vectors from the eye to what is seen.

    Returns:
        [N, 3] or [B, N, 3], RGB >= 0; above 1 where the coefficients say so.

    Raises:
        TypeError: if the dtypes differ, or are no floats.
        ValueError: if the shapes do not fit.
    """
    sizes = check_shape("harmonics", check_float("harmonics", harmonics), "[N, K, 3]")
    check_like("directions", check_float("directions", directions), "harmonics", harmonics)
    check_shape("directions", directions, "[N, 3] or [B, N, 3]", N=sizes["N"])
    values = basis(directions, degree_of(sizes["K"]))
    return (0.5 + torch.einsum("...nk,nkc->...nc", values, harmonics)).clamp(min=0)


def harmonics_of(colors: Tensor, degree: int) -> Tensor:
    """Coefficients [N, (degree + 1)^2, 3] of colours [N, 3] that are the same from everywhere."""
    rest = colors.new_zeros(len(colors), COUNTS[degree] - 1, 3)
    return torch.cat([(colors[:, None] - 0.5) / _C0, rest], 1)


def flat_color(harmonics: Tensor) -> Tensor:
    """The mean [N, 3] of the colours over all directions, in [0, 1]: degree 0 alone."""
    return (0.5 + _C0 * harmonics[:, 0]).clamp(0, 1)
