"""Reading files of projection matrices as a file of OpenCV's matrices.

`NAME_Ps.mat`, as data sets of Oxford's Visual Geometry Group have beside the images: a cell array P
of 3 x 4 projection matrices. `projections.npy`, [N, 3, 4], and `projections.txt`, rows of them one
below the other. All are in the order of the images by name. `NAME_par.txt`, of the data sets of
Middlebury: the number of images, and of each its name, K, R and t in one line. Or `IMAGE.txt`
beside each image, or in a folder `txt`: its three rows, after a line CONTOUR if it is of PMVS.

The world may be mirrored, so that all cameras look away from what they show; it is turned around
then, by its third axis.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gendr._common.arrays import read_array
from gendr._common.texts import numbers, read_text

__all__ = ["PROJECTIONS", "find_projections", "from_projections", "is_projections"]

PROJECTIONS = "projections.npy"
_FILES = ("*_Ps.mat", PROJECTIONS, "projections.txt", "*_par.txt")
Matrices = npt.NDArray[np.float64]

# Thousands of matrices have less; a compressed file of this size cannot fill the memory.
_LARGEST = 1 << 20


def is_projections(file: Path) -> bool:
    """Whether a file is one of projection matrices by its name."""
    return any(file.match(pattern) for pattern in _FILES)


def find_projections(folder: Path, images: list[str]) -> list[Path]:
    """The files of matrices in a folder: one, or one of each image; none if there are none.

    Args:
        folder: with photos.
        images: their names.

    Raises:
        ValueError: If there are several, of which none says that it is the right one.
    """
    for pattern in _FILES:
        found = [p for p in sorted(folder.glob(pattern)) if p.is_file() and p.name[0] != "."]
        if len(found) > 1:
            raise ValueError(
                f"{folder} holds {len(found)} files of cameras, {found[0].name} and "
                f"{found[1].name}; leave one there, or give it as the file of cameras"
            )
        if found:
            return found
    for place in (folder, folder / "txt"):
        each = [place / Path(name).with_suffix(".txt").name for name in sorted(images)]
        # Captions and labels of photos have such names too.
        if each and all(path.is_file() for path in each) and any(map(_is_matrix, each)):
            return each
    return []


def _is_matrix(file: Path) -> bool:
    """Whether a text is a matrix of 3 x 4 numbers, or says that it is one."""
    if file.stat().st_size > _LARGEST:
        return False
    with suppress(ValueError):
        text = read_text(file)
        return text.lstrip().startswith("CONTOUR") or len(numbers(text)) == 12
    return False


def from_projections(files: list[Path], images: list[str]) -> dict[str, Any]:
    """The content of a file of OpenCV's matrices.

    Args:
        files: What was found.
        images: The names of the images in the folder, of which there must be as many as matrices,
            but for files that name them.

    Raises:
        ValueError: If it is no such file, or there are other images too.
    """
    file, names = files[0], sorted(images)
    try:
        if any(path.stat().st_size > _LARGEST for path in files):
            raise ValueError("it is larger than such files are")
        if file.name.endswith("_par.txt"):
            matrices, names = _of_middlebury(file)
        elif file.suffix == ".mat":
            matrices = _of_matlab(file)
        elif file.suffix == ".npy":
            matrices = read_array(file).astype(np.float64)
        else:
            matrices = np.concatenate([_of_text(path) for path in files])
        if matrices.ndim != 3 or matrices.shape[1:] != (3, 4) or not np.isfinite(matrices).all():
            raise ValueError("its matrices are not 3 x 4 finite numbers")
    except Exception as error:  # noqa: BLE001 (scipy raises anything on a damaged file)
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise ValueError(f"{file} holds no 3 x 4 projection matrices: {reason}") from None
    if len(names) != len(matrices):
        raise ValueError(
            f"{file} holds {len(matrices)} matrices for the images in its folder, of which there "
            f"are {len(names)}"
        )
    if _is_mirrored(matrices):
        matrices[:, :, 2] *= -1
    return {
        "images": [
            {"file": name, "P": matrix.tolist()}
            for name, matrix in zip(names, matrices, strict=True)
        ]
    }


def _of_matlab(file: Path) -> Matrices:
    from scipy.io import loadmat

    cells = np.asarray(loadmat(file, variable_names=["P"])["P"]).reshape(-1)
    return np.array([np.asarray(cell, np.float64) for cell in cells])


def _of_text(file: Path) -> Matrices:
    """Rows of four numbers, three for each matrix; or rows of twelve."""
    lines = read_text(file).split("\n")
    words = " ".join(line for line in lines if line.strip() != "CONTOUR")
    return np.array(numbers(words)).reshape(-1, 3, 4)


def _of_middlebury(file: Path) -> tuple[Matrices, list[str]]:
    """The matrices and the names of their images."""
    count, *lines = read_text(file).strip().split("\n")
    rows = [line.rsplit(maxsplit=21) for line in lines if line.strip()]  # names may have spaces
    if int(count) != len(rows):
        raise ValueError(f"it announces {int(count)} images and has {len(rows)}")
    if any(len(row) != 22 for row in rows):
        raise ValueError("a line must be a name and 21 numbers, of K, R and t")
    table = np.array([numbers(" ".join(row[1:])) for row in rows])
    k, r, t = table[:, :9].reshape(-1, 3, 3), table[:, 9:18].reshape(-1, 3, 3), table[:, 18:, None]
    return k @ np.concatenate([r, t], 2), [row[0] for row in rows]


def _is_mirrored(matrices: Matrices) -> bool:
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
