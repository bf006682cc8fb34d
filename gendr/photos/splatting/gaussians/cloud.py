"""Points and Gaussians as files hold them, with natural values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray

from gendr.mesh.files.reports import note
from gendr.photos.splatting.harmonics import COUNTS, basis, degree_of

Array = NDArray[Any]

__all__ = ["Cloud", "checked", "harmonics_of_bytes", "moved", "smallest_three"]

# 1 / (2 sqrt(pi)), the harmonic of degree 0.
_C0 = 0.28209479177387814
# What a turned harmonic may lie off those of its degree, as rotations are known to float32.
_CLOSE = 1e-4


@final
@dataclass(frozen=True, eq=False)
class Cloud:
    """N points, or N Gaussians of 3D Gaussian Splatting (Kerbl et al., 2023).

    A Gaussian is opacity exp(-x^T S^-1 x / 2) about its point, S = R diag(sizes^2) R^T, R the
    rotation by its quaternion.

    Attributes:
        points: [N, 3], world; float32, or float64 if the file has doubles.
        colors: RGB [N, 3] in [0, 1] of points, or None.
        harmonics: float32 [N, K, 3], K = 1, 4, 9 or 16, of Gaussians: `colors_of` makes colours
            of them.
        opacity: float32 [N] in [0, 1], of Gaussians.
        sizes: float32 [N, 3] >= 0, standard deviations along the axes, of Gaussians.
        turns: float32 [N, 4], unit quaternions w, x, y, z, of Gaussians.
    """

    points: Array
    colors: Array | None = None
    harmonics: Array | None = None
    opacity: Array | None = None
    sizes: Array | None = None
    turns: Array | None = None

    def __len__(self) -> int:
        return len(self.points)

    @property
    def parts(self) -> tuple[Array, Array, Array, Array] | None:
        """Harmonics, opacity, sizes and turns; None for points."""
        found = (self.harmonics, self.opacity, self.sizes, self.turns)
        return None if any(part is None for part in found) else found  # pyright: ignore[reportReturnType]

    def relative_to(self, origin: Array) -> Cloud:
        """The same with coordinates that count from a point [3]."""
        points = (self.points - origin).astype(np.float32) if origin.any() else self.points
        return replace(self, points=points)

    def at(self, rows: Array, wider: float = 1.0) -> Cloud:
        """The points or Gaussians of these numbers, their sizes times a factor."""
        found = Cloud(*(None if x is None else x[rows] for x in vars(self).values()))  # pyright: ignore[reportArgumentType]
        return replace(found, sizes=None if found.sizes is None else found.sizes * wider)


def checked(cloud: Cloud, notes: list[str]) -> Cloud:
    """A cloud as its class says, with quaternions made unit.

    Raises:
        ValueError: if there is no point, or a value is not finite or out of its range.
    """
    _check("points with finite coordinates", np.isfinite(cloud.points).all(1), cloud)
    if (parts := cloud.parts) is None:
        return cloud
    harmonics, opacity, sizes, turns = parts
    degree_of(harmonics.shape[1])
    _check("finite harmonics", np.isfinite(harmonics).all((1, 2)), cloud)
    _check("opacities in [0, 1]", (opacity >= 0) & (opacity <= 1), cloud)
    _check("finite sizes >= 0", (np.isfinite(sizes) & (sizes >= 0)).all(1), cloud)
    _check("finite quaternions", np.isfinite(turns).all(1), cloud)
    # By the largest component first, as squares would overflow or vanish.
    most = np.abs(turns).max(1, keepdims=True)
    if zero := int((most == 0).sum()):
        note(
            notes, f"{zero} of its {len(cloud)} Gaussians have the quaternion 0 and are not turned"
        )
        turns = np.where(most == 0, np.eye(1, 4, dtype=np.float32), turns)
        most[most == 0] = 1
    turns = turns / most
    turns /= np.linalg.norm(turns, axis=1, keepdims=True)
    return replace(cloud, turns=turns.astype(np.float32, copy=False))


def _check(what: str, fine: Any, cloud: Cloud) -> None:
    if not len(cloud):
        raise ValueError("it holds no points")
    if wrong := int((~fine).sum()):
        some = f"{wrong} of {len(cloud)} have none, the first of which is number {fine.argmin()}"
        raise ValueError(f"it needs {what}; {some}")


def harmonics_of_bytes(colors: Array) -> Array:
    """Coefficients [N, 1, 3] of RGB [N, 3] in [0, 1]."""
    return ((colors - np.float32(0.5)) / np.float32(_C0)).astype(np.float32)[:, None]


def smallest_three(three: Array, largest: Array) -> Array:
    """Quaternions [N, 4] of their three smaller components [N, 3] and which is the largest [N].

    The order of the components is kept; the largest is positive.
    """
    turns = np.empty((len(three), 4), np.float32)
    rest = np.sqrt(np.maximum(0, 1 - np.square(three).sum(1)))
    for i in range(4):
        these = largest == i
        turns[these] = np.insert(three[these], i, rest[these], axis=1)
    return turns


def moved(cloud: Cloud, matrix: Array) -> Cloud:
    """Gaussians after a motion [4, 4]: a rotation or reflection, one scale for all axes, a shift.

    Harmonics turn along: those of a degree become combinations of one another. A Gaussian is the
    same seen from its other side, so that a reflection moves it as that times -1 does, a rotation.

    Raises:
        ValueError: for another matrix.
    """
    harmonics, sizes, turns = cloud.harmonics, cloud.sizes, cloud.turns
    volume = float(np.linalg.det(matrix[:3, :3]))
    scale = abs(np.cbrt(volume))
    turn = matrix[:3, :3] / (scale or np.nan)
    if not np.allclose(turn @ turn.T, np.eye(3), atol=_CLOSE):
        raise ValueError("a node in it scales axes differently; apply that before")
    points = (cloud.points @ matrix[:3, :3].T + matrix[:3, 3]).astype(cloud.points.dtype)
    if harmonics is None or sizes is None or turns is None:
        return replace(cloud, points=points)
    from scipy.spatial.transform import Rotation

    a, b, c, d = Rotation.from_matrix(np.sign(volume) * turn).as_quat()[[3, 0, 1, 2]]
    # The matrix of the product with the quaternion a + bi + cj + dk from the left.
    left = np.array([[a, -b, -c, -d], [b, a, -d, c], [c, d, a, -b], [d, -c, b, a]])
    degree = degree_of(harmonics.shape[1])
    ways = torch.randn(64, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ways = ways / ways.norm(dim=1, keepdim=True)
    before, after = (basis(w, degree).numpy() for w in (ways @ torch.from_numpy(turn), ways))
    mix = np.zeros((COUNTS[degree], COUNTS[degree]))
    for low, high in zip((0, *COUNTS), COUNTS[: degree + 1], strict=False):
        band = slice(low, high)
        mix[band, band] = np.linalg.lstsq(after[:, band], before[:, band], rcond=None)[0]
    return replace(
        cloud,
        points=points,
        harmonics=np.einsum("jk,nkc->njc", mix.astype(np.float32), harmonics),
        sizes=sizes * np.float32(scale),
        turns=(turns @ left.T).astype(np.float32),
    )
