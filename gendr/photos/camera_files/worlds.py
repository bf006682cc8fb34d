"""The points found with cameras, also where a model of COLMAP beside their file has them.

nerfstudio, instant-ngp's colmap2nerf.py and others turn, move and scale what COLMAP found, and
leave its model beside the file that they write. What they did follows from the cameras of both.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, final

import numpy as np
import numpy.typing as npt

from gendr._common.texts import find_file, folded
from gendr.mesh.files.reports import warn_caller
from gendr.photos.camera_files.colmap import find_model, read_model
from gendr.photos.camera_files.known import load_json
from gendr.photos.camera_files.opencv import OPENCV, points_of
from gendr.photos.camera_files.photos import is_inside, within
from gendr.photos.camera_files.transforms import TRANSFORMS

__all__ = ["World", "points_beside"]

Matrix = npt.NDArray[np.float64]
# How far cameras may lie off where the model has them: of their distances, and of rotations.
_OFF = 1e-3


@final
@dataclass(frozen=True)
class World:
    """What takes the points of a model to the world of a transforms file.

    Attributes:
        matrix: [3, 4], a rotation times a scale, and a shift.
        numbers: IMAGE_ID of the model, by the names of photos as `name_of` has them.
    """

    matrix: Matrix = field(default_factory=lambda: np.eye(3, 4))
    numbers: dict[str, int] = field(default_factory=dict[str, int])

    @staticmethod
    def name_of(path: str) -> str:
        """The last part of a path, without a suffix."""
        return folded(PurePosixPath(path.replace("\\", "/")).stem)

    def moved(self, points: Matrix) -> Matrix:
        """Points [N, 3] of the model in the other world."""
        return points @ self.matrix[:, :3].T + self.matrix[:, 3]


def _world_of(file: Path, model: Path, folder: Path) -> World | None:
    """The world of a transforms file beside a model of COLMAP.

    Args:
        file: The transforms file.
        model: images.bin or images.txt of the model.
        folder: That of the photos.

    Returns:
        By cameras of equal names, if they are those of the model but for one similarity; else by
        `applied_transform` and `applied_scale`, if the file has them; else None, with a warning. A
        file without frames has the world of the model.

    Raises:
        ValueError: If `applied_transform` is no matrix of 3 x 4, or a file is damaged.
    """
    meta = load_json(file)
    given = _given(meta, file)
    frames = meta.get("frames") if isinstance(meta, dict) else None
    if not isinstance(frames, list) or not frames:
        return World() if given is None else World(given)
    entries = read_model(model, folder)["frames"]
    numbers = _by_name([(each["file_path"], each["image_id"]) for each in entries])
    there = _by_name([(each["file_path"], each["transform_matrix"]) for each in entries])
    here = _by_name([(str(each.get("file_path")), each.get("transform_matrix"))
                     for each in frames if isinstance(each, dict)])  # fmt: skip
    names = sorted(there.keys() & here.keys())
    try:
        found = _similarity(*(np.array([poses[name] for name in names], np.float64)[:, :3]
                              for poses in (there, here)))  # fmt: skip
    except (IndexError, TypeError, ValueError):  # which is said when the cameras are read
        found = None
    found = given if found is None else found
    if found is not None:
        return World(found, numbers)
    warn_caller(
        f"the cameras of {file} are not those of {model.parent} in another world, so that its "
        "points are not used"
    )
    return None


def points_beside(path: Path, cameras: Path | None) -> tuple[Path, World] | None:
    """The points that belong to the cameras that `read_cameras` reads, and how they lie to them.

    Args:
        path: The folder, or the file of its cameras.
        cameras: The file of the cameras, if it is not in the folder.

    Returns:
        The file that a JSON file of cameras names; else that of the model of COLMAP in the folder,
        if the cameras are no others; else what `ply_file_path` names. None, if there is none.

    Raises:
        ValueError: As `_world_of` does.
    """
    folder = path if path.is_dir() else path.parent
    model = find_model(folder) if cameras is None else None
    given = cameras or (path if path.is_file() else None)
    given = given or next((f for name in TRANSFORMS if (f := folder / name).is_file()), None)
    if given is None and model is None:
        given = folder / OPENCV
    meta = given if given is not None and given.suffix == ".json" and given.is_file() else None
    if meta is not None and (own := points_of(meta)) is not None:
        return own, World()
    if model is None:
        own = None if meta is None else _named_points(meta)
        return None if own is None else (own, World())
    file = model.with_name("points3D" + model.suffix)
    if not file.is_file():
        return None
    world = World() if meta is None else _world_of(meta, model, folder)
    return None if world is None else (file, world)


def _named_points(file: Path) -> Path | None:
    """The PLY in the world of a transforms file that it names, as those of nerfstudio do."""
    meta, folder = load_json(file), file.parent
    name = meta.get("ply_file_path") if isinstance(meta, dict) else None
    if not isinstance(name, str):
        return None
    found = find_file(folder, name) if is_inside(folder / name, folder) else None
    if found is None:
        warn_caller(f"{file} names points, {name:.80}, that are not in {folder}")
        return None
    return within(found, folder)


def _given(meta: Any, file: Path) -> Matrix | None:
    """What the file says of it."""
    said = meta.get("applied_transform") if isinstance(meta, dict) else None
    if said is None:
        return None
    try:
        matrix = np.array(said, np.float64)[:3]
        scale = float(meta.get("applied_scale", 1.0))
        if matrix.shape != (3, 4) or not np.isfinite(scale * matrix).all():
            raise ValueError(f"got shape {matrix.shape}, or NaN")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{file}: applied_transform must be a matrix of 3 x 4 numbers: {error}"
        ) from None
    return scale * matrix


def _by_name(entries: list[tuple[str, Any]]) -> dict[str, Any]:
    """Values by the names of photos, without those that several have."""
    names = [World.name_of(path) for path, _ in entries]
    count = Counter(names)
    return {n: value for n, (_, value) in zip(names, entries, strict=True) if count[n] == 1}


def _similarity(there: Matrix, here: Matrix) -> Matrix | None:
    """The similarity [3, 4] from poses [N, 3, 4] to others; None if there is none."""
    u, _, v = np.linalg.svd((here[:, :, :3] @ there[:, :, :3].transpose(0, 2, 1)).sum(0))
    turn = u @ np.diag([1, 1, np.linalg.det(u @ v)]) @ v
    if len(there) < 2:
        return None
    eyes, others = there[:, :, 3] @ turn.T, here[:, :, 3]
    around, about = eyes - eyes.mean(0), others - others.mean(0)
    spread, wanted = np.linalg.norm(around), np.linalg.norm(about)
    if not (spread > 0 and wanted > 0):
        return None
    scale = wanted / spread
    off = np.abs(turn @ there[:, :, :3] - here[:, :, :3]).max()
    if off > _OFF or np.abs(scale * around - about).max() > _OFF * wanted:
        return None
    return np.c_[scale * turn, others.mean(0) - scale * eyes.mean(0)]
