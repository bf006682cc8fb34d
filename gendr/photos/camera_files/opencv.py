"""Reading a JSON file of OpenCV's camera matrices as a transforms file.

    {"width": 640, "height": 480, "K": [[fx, 0, cx], [0, fy, cy], [0, 0, 1]],
     "images": [{"file": "images/0.png", "R": [[..], [..], [..]], "t": [x, y, z]}, ...]}

`R` and `t` take points from the world to the camera, x right, y down, z ahead; `world_to_camera`,
4 x 4 or 3 x 4, may stand for both, and `P`, the 3 x 4 projection matrix K [R | t] times any number
but 0, for these and `K`. `K`, `dist` (k1 k2 p1 p2 k3 k4 k5 k6 s1 s2 s3 s4 tx ty, as many as there
are), `camera_model`, `width` and `height` may stand in an image too; with the model OPENCV_FISHEYE
`dist` is k1 k2 k3 k4, with FOV omega. `mask` names the mask of an image.
`points` names a points3D.txt of COLMAP in the same world, from the folder of this file.
`pixel_centre` is where K counts the centre of the first pixel: 0.5, or 0 for what
cv2.calibrateCamera returns.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gendr._common.checks import shape_text
from gendr.mesh.rotations import ORTHONORMAL
from gendr.photos.camera_files.lenses import BENDS, Lens

__all__ = [
    "OPENCV", "camera_to_world", "from_opencv_json", "lens_entries", "points_of", "rigid",
]  # fmt: skip

# The name of the file in a folder.
OPENCV = "cameras.json"
_DISTORTION = {
    "FULL_OPENCV": tuple("k1 k2 p1 p2 k3 k4 k5 k6 s1 s2 s3 s4 tx ty".split()),
    "OPENCV_FISHEYE": BENDS["fisheye"],
    "FOV": BENDS["fov"],
}
_OWN_MODELS: dict[str, str] = dict(zip(("radial", "fisheye", "fov"), _DISTORTION, strict=True))
# Other names of it, which are passed on to be refused, and coefficients by their own names.
_LISTS = ("distCoeffs", "dist_coeffs", "distortion", "distortion_coefficients", "D")
_NAMES = tuple(dict.fromkeys(sum(BENDS.values(), ())))

Matrix = npt.NDArray[np.float64]


def points_of(file: Path) -> Path | None:
    """The file of points that a JSON file of cameras names, if it is there."""
    try:
        meta = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):  # which is said when the cameras are read
        return None
    name = meta.get("points") if isinstance(meta, dict) and "images" in meta else None
    if not isinstance(name, str):
        return None
    return found if (found := file.parent / name).is_file() else None


def from_opencv_json(file: Path, meta: dict[str, Any]) -> dict[str, Any]:
    """The content of such a file as that of a transforms file.

    Raises:
        ValueError: If an image has no file, pose or K, or they are not what they must be.
    """
    images = meta["images"]
    if not isinstance(images, list) or not images:
        raise ValueError(f"{file} has no images; it must hold a list of them, each with file, R, t")
    frames: list[dict[str, Any]] = []
    for i, image in enumerate(images):
        if not isinstance(image, dict) or not isinstance(image.get("file"), str):
            raise ValueError(f"{file}: image {i} has no file")
        where = f"{file}: image {i} ({image['file']})"
        if image.get("P") is not None:
            image = _with_parts(image, where)
        entry: dict[str, Any] = {"file_path": image["file"], **_lens(meta, image, where)}
        entry["transform_matrix"] = _pose(image, where)
        if image.get("mask") is not None:
            entry["mask_path"] = image["mask"]
        frames.append(entry)
    return {"frames": frames}


def _with_parts(image: dict[str, Any], where: str) -> dict[str, Any]:
    """An entry with K, R and t in place of the projection matrix P = K [R | t]."""
    if any(image.get(key) is not None for key in ("K", "R", "t", "world_to_camera")):
        raise ValueError(f"{where}: P says all that K, R, t and world_to_camera say; give P alone")
    p = _numbers(image["P"], ((3, 4),), "P", where)
    p = p / np.abs(p).max().clip(np.finfo(p.dtype).tiny)
    size = np.linalg.det(p[:, :3])
    if abs(size) <= np.finfo(p.dtype).eps * np.prod(np.linalg.norm(p[:, :3], axis=1)):
        raise ValueError(
            f"{where}: P is no perspective camera: its left 3 x 3 part, K R, has no inverse"
        )
    p = np.sign(size) * p  # so that R is no mirror
    # K R = (upper triangle) (orthonormal): the QR decomposition of its rows from below.
    q, upper = np.linalg.qr(p[::-1, :3].T)
    k, rotation = upper.T[::-1, ::-1], q.T[::-1]
    signs = np.sign(np.diag(k))
    k, rotation = k * signs, signs[:, None] * rotation
    shift = np.linalg.solve(k, p[:, 3])
    k = np.triu(k / k[2, 2])
    return {**image, "K": k.tolist(), "R": rotation.tolist(), "t": shift.tolist()}


def _lens(meta: dict[str, Any], image: dict[str, Any], where: str) -> dict[str, Any]:
    """The intrinsics of a transforms file."""
    matrix = meta.get("K") if image.get("K") is None else image["K"]
    if matrix is None:
        raise ValueError(f"{where}: no K; give the 3 x 3 camera matrix, for all images or for each")
    k = _numbers(matrix, ((3, 3),), "K", where)
    upper = np.array([k[0], [0, k[1, 1], k[1, 2]], [0, 0, 1]])
    if not np.array_equal(k, upper):
        raise ValueError(f"{where}: K must be [[fx, skew, cx], [0, fy, cy], [0, 0, 1]]")
    if "pixel_center" in {**meta, **image}:
        raise ValueError(f"{where}: pixel_center is not read; write pixel_centre")
    first = image.get("pixel_centre", meta.get("pixel_centre", 0.5))
    if isinstance(first, bool) or first not in (0, 0.5):
        raise ValueError(f"{where}: pixel_centre must be 0 or 0.5, got {first!r:.40}")
    shift = 0.5 - first
    entries: dict[str, Any] = {
        "fl_x": float(k[0, 0]),
        "fl_y": float(k[1, 1]),
        "skew": float(k[0, 1]),
        "cx": float(k[0, 2]) + shift,
        "cy": float(k[1, 2]) + shift,
    }
    for ours, key in (("w", "width"), ("h", "height")):
        size = image.get(key, meta.get(key))
        if size is not None:
            entries[ours] = size
    for key in (*_LISTS, *_NAMES):
        if image.get(key, meta.get(key)) is not None:
            entries[key] = image.get(key, meta.get(key))
    model = str(image.get("camera_model", meta.get("camera_model", "FULL_OPENCV"))).upper()
    model = "FULL_OPENCV" if model in ("PINHOLE", "OPENCV") else model
    if model not in _DISTORTION:
        raise ValueError(
            f"{where}: camera_model must be one of PINHOLE, OPENCV, {', '.join(_DISTORTION)}, got "
            f"{model:.40}"
        )
    entries["camera_model"] = model
    bend = image.get("dist", meta.get("dist"))
    if bend is not None:
        names = _DISTORTION[model]
        flat = _numbers(bend, None, "dist", where).reshape(-1)
        if len(flat) > len(names):
            raise ValueError(
                f"{where}: dist must be at most {len(names)} numbers, {' '.join(names)}, got "
                f"{len(flat)}"
            )
        entries |= dict(zip(names, flat.tolist(), strict=False))
    return entries


def lens_entries(lens: Lens) -> dict[str, Any]:
    """What such a file says about a lens."""
    entries: dict[str, Any] = {
        "K": [[lens.fx, lens.skew, lens.cx], [0, lens.fy, lens.cy], [0, 0, 1]]
    }
    if any(lens.bend):
        model = _OWN_MODELS[lens.kind]
        named = dict(zip(BENDS[lens.kind], lens.bend, strict=True))
        bend = [named.get(name, 0.0) for name in _DISTORTION[model]]
        while not bend[-1]:
            del bend[-1]
        entries |= {"camera_model": model, "dist": bend}
    return entries


def camera_to_world(rotation: Matrix, shift: Matrix) -> list[list[float]]:
    """The pose of a transforms file, with OpenGL's axes.

    Args:
        rotation: [3, 3], which takes the world to a camera with x right, y down, z ahead.
        shift: [3], added after it.
    """
    pose = np.eye(4)
    pose[:3, :3] = rotation.T * [1, -1, -1]
    pose[:3, 3] = -rotation.T @ shift
    return pose.tolist()


def rigid(matrix: Matrix, name: str, where: str) -> Matrix:
    """A camera matrix [3 or 4, 4], as [3, 4] of a rotation and a translation.

    It is divided by the last number of the fourth row, as all multiples of a homogeneous matrix
    are the same.

    Raises:
        ValueError: If it is something else, with what it is likely to be.
    """
    if not np.isfinite(matrix).all():
        raise ValueError(f"{where}: {name} holds NaN or inf")
    if len(matrix) == 4:
        *row, last = matrix[3].tolist()
        size = abs(last) or 1.0
        if last == 0 or np.abs(row).max() > 1e-6 * size:
            turned = not matrix[:3, 3].any() and last != 0
            raise ValueError(
                f"{where}: the last row of {name} must be 0 0 0 1, got "
                f"{' '.join(f'{value:.4g}' for value in matrix[3])}"
                + ("; its translation stands there, so it is to be transposed" if turned else "")
            )
        matrix = matrix[:3] / last
    rotation = matrix[:, :3]
    scale = float(np.sqrt(np.trace(rotation @ rotation.T) / 3))
    error = float(np.abs(rotation @ rotation.T - np.eye(3)).max())
    if error > ORTHONORMAL:
        even = scale > 0 and np.abs(rotation @ rotation.T / scale**2 - np.eye(3)).max()
        reason = "remove scale and shear"
        if scale > 0 and even <= ORTHONORMAL:
            reason = f"its axes have the length {scale:.6g}: divide the left 3 x 3 numbers by it"
        raise ValueError(
            f"{where}: {name} is not a rotation and translation: R R^T differs from the identity "
            f"by {error:.2g}; {reason}"
        )
    if np.linalg.det(rotation) < 0:
        raise ValueError(
            f"{where}: {name} is a mirror (determinant -1), not a rotation: a left-handed world or "
            "camera; negate one axis of it"
        )
    return matrix


def _pose(image: dict[str, Any], where: str) -> list[list[float]]:
    name, world = "the pose", image.get("world_to_camera")
    if world is not None:
        name = "world_to_camera"
        matrix = _numbers(world, ((4, 4), (3, 4)), name, where)
    elif image.get("R") is not None and image.get("t") is not None:
        rotation = _numbers(image["R"], ((3, 3),), "R", where)
        shift = _numbers(image["t"], ((3,), (3, 1)), "t", where).reshape(3)
        matrix = np.c_[rotation, shift]
    else:
        raise ValueError(f"{where}: no pose; give R and t, or world_to_camera")
    try:
        matrix = rigid(matrix, name, where)
    except ValueError as error:
        raise ValueError(
            f"{error}; it must take the world to the camera, x right, y down, z ahead; give a "
            "projection matrix as P"
        ) from None
    return camera_to_world(matrix[:, :3], matrix[:, 3])


def _numbers(
    value: Any, shapes: tuple[tuple[int, ...], ...] | None, name: str, where: str
) -> Matrix:
    """Finite numbers of one of these shapes."""
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{where}: {name} must hold numbers, got {value!r:.40}") from None
    if shapes is not None and numbers.shape not in shapes:
        allowed = " or ".join(" x ".join(map(str, shape)) for shape in shapes)
        raise ValueError(
            f"{where}: {name} must be {allowed}, got shape {shape_text(numbers.shape)}"
        )
    if not np.isfinite(numbers).all():
        raise ValueError(f"{where}: {name} holds NaN or inf")
    return numbers
