"""Reading a MATLAB file of projection matrices as a file of OpenCV's matrices.

Data sets of Oxford's Visual Geometry Group have `NAME_Ps.mat` beside the images: a cell array P of
3 x 4 projection matrices, in the order of the images by name. Their world may be mirrored, so that
all cameras look away from what they show; it is turned around then, by its third axis.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["PROJECTIONS", "find_projections", "from_projections"]

PROJECTIONS = "*_Ps.mat"
# Thousands of matrices have less; a compressed file of this size cannot fill the memory.
_LARGEST = 1 << 20


def find_projections(folder: Path) -> Path | None:
    """The file of matrices in a folder; None if there is none, or more than one."""
    found = list(folder.glob(PROJECTIONS))
    return found[0] if len(found) == 1 and found[0].is_file() else None


def from_projections(file: Path, images: list[str]) -> dict[str, Any]:
    """The content of a file of OpenCV's matrices.

    Args:
        file: The file.
        images: The names of the images in its folder, of which there must be as many as matrices.

    Raises:
        ValueError: If it is no such file, or there are other images too.
    """
    from scipy.io import loadmat

    if file.stat().st_size > _LARGEST:
        raise ValueError(f"{file} is larger than files of projection matrices are")
    try:
        cells = np.asarray(loadmat(file, variable_names=["P"])["P"]).reshape(-1)
        matrices = np.array([np.asarray(cell, np.float64) for cell in cells])
        if matrices.shape != (len(cells), 3, 4) or not np.isfinite(matrices).all():
            raise ValueError("its matrices are not 3 x 4 finite numbers")
    except Exception as error:  # noqa: BLE001 (scipy raises anything on a damaged file)
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise ValueError(f"{file} holds no cell array P of 3 x 4 matrices: {reason}") from None
    if len(images) != len(matrices):
        raise ValueError(
            f"{file} holds {len(matrices)} matrices for the images in its folder, of which there "
            f"are {len(images)}"
        )
    if _is_mirrored(matrices):
        matrices[:, :, 2] *= -1
    return {
        "images": [
            {"file": name, "P": matrix.tolist()}
            for name, matrix in zip(sorted(images), matrices, strict=True)
        ]
    }


def _is_mirrored(matrices: npt.NDArray[np.float64]) -> bool:
    """Whether most cameras have the point nearest to their optical axes behind them."""
    size = np.linalg.det(matrices[:, :, :3])
    if not size.all():
        return False  # refused later, with the name of the image
    scaled = matrices * np.sign(size)[:, None, None]
    eye = -np.linalg.solve(scaled[:, :, :3], scaled[:, :, 3:])[..., 0]
    ahead = scaled[:, 2, :3] / np.linalg.norm(scaled[:, 2, :3], axis=1, keepdims=True)
    across = np.eye(3) - ahead[:, :, None] * ahead[:, None]
    point = np.linalg.lstsq(
        across.reshape(-1, 3), (across @ eye[..., None]).reshape(-1), rcond=None
    )[0]
    return bool((((point - eye) * ahead).sum(1) < 0).mean() > 0.5)
