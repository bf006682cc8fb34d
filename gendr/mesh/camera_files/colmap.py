"""Reading the sparse model of COLMAP, text or binary, as a transforms file.

Source: https://colmap.github.io/format.html and, for the lens models and their parameters,
https://colmap.github.io/cameras.html.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from gendr.mesh.camera_files.opencv import camera_to_world

__all__ = [
    "find_model", "lenses_of", "point_text", "read_model", "read_point_file", "read_points",
    "read_tracks",
]  # fmt: skip

# Where a model may lie in the folder of images, the first that is there.
_PLACES = ("sparse/0", "sparse", "colmap/sparse/0", "")
# The lens models by their numbers in binary files, and what their parameters are called in
# transforms files; "f" is both focal lengths. Those without names are refused.
_MODELS = (
    ("SIMPLE_PINHOLE", "f cx cy"),
    ("PINHOLE", "fl_x fl_y cx cy"),
    ("SIMPLE_RADIAL", "f cx cy k1"),
    ("RADIAL", "f cx cy k1 k2"),
    ("OPENCV", "fl_x fl_y cx cy k1 k2 p1 p2"),
    ("OPENCV_FISHEYE", "fl_x fl_y cx cy k1 k2 k3 k4"),
    ("FULL_OPENCV", "fl_x fl_y cx cy k1 k2 p1 p2 k3 k4 k5 k6"),
    ("FOV", "fl_x fl_y cx cy omega"),
    ("SIMPLE_RADIAL_FISHEYE", "f cx cy k1"),
    ("RADIAL_FISHEYE", "f cx cy k1 k2"),
    ("THIN_PRISM_FISHEYE", 12),
    ("RAD_TAN_THIN_PRISM_FISHEYE", 16),
)


@final
@dataclass(frozen=True)
class _Lens:
    model: str
    width: int
    height: int
    numbers: tuple[float, ...]


@final
@dataclass(frozen=True)
class _Image:
    name: str
    lens: int
    turn: tuple[float, ...]  # quaternion w, x, y, z, world to camera
    shift: tuple[float, ...]
    number: int  # IMAGE_ID


def find_model(folder: Path) -> Path | None:
    """The file `images.bin` or `images.txt` of the model in a folder; None if there is none."""
    for place in _PLACES:
        for suffix in (".bin", ".txt"):
            file = folder / place / f"images{suffix}"
            if file.is_file():
                return file
    return None


def lenses_of(images: Path) -> Path:
    """The file of the cameras beside that of the images of a model."""
    return images.with_name("cameras" + images.suffix)


def read_model(images: Path, folder: Path) -> dict[str, Any]:
    """The model as the content of a transforms file.

    Args:
        images: Its images.bin or images.txt; the file of the cameras is beside it.
        folder: The folder of the images: their names are relative to its folder `images`, or to
            itself if it has none.

    Raises:
        ValueError: If a file is missing, damaged or empty.
    """
    cameras = lenses_of(images)
    if not cameras.is_file():
        raise ValueError(f"{images} needs {cameras.name} beside it, which is not there")
    if images.suffix == ".bin":
        lenses = dict(_binary_lenses(_Bytes(cameras)))
        views = list(_binary_images(_Bytes(images)))
    else:
        lenses = dict(_text_lenses(cameras))
        views = list(_text_images(images))
    if not views:
        raise ValueError(f"{images} holds no images")
    prefix = "images/" if (folder / "images").is_dir() else ""
    frames: list[dict[str, Any]] = []
    for image in sorted(views, key=lambda one: one.name):
        where = f"{images}: {image.name}"
        if image.lens not in lenses:
            raise ValueError(f"{where} has camera {image.lens}, which is not in {cameras.name}")
        frames.append(
            {
                "file_path": prefix + image.name,
                "transform_matrix": _pose(image, where),
                "image_id": image.number,
                **_entries(lenses[image.lens], cameras, image.lens),
            }
        )
    return {"frames": frames}


def read_points(images: Path) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None:
    """The points in space of a model, and their colours.

    Args:
        images: Its images.bin or images.txt; the file of the points is beside it.

    Returns:
        Positions [P, 3] in the world of the cameras, and RGB [P, 3] in [0, 1]; None if there is no
        file of points.

    Raises:
        ValueError: If it is damaged.
    """
    file = images.with_name("points3D" + images.suffix)
    return read_point_file(file) if file.is_file() else None


def read_point_file(file: Path) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """What `read_points` returns of a points3D.bin or .txt, of any name.

    Raises:
        ValueError: If it is damaged.
    """
    rows = _binary_points(_Bytes(file)) if file.suffix == ".bin" else _text_points(file)
    table = np.array(list(rows), np.float64).reshape(-1, 6)
    if not np.isfinite(table).all() or (np.abs(table[:, 3:] - 127.5) > 127.5).any():
        raise ValueError(
            f"{file} is damaged: a position is not finite, or a colour not in 0 .. 255"
        )
    return table[:, :3], table[:, 3:] / 255


def read_tracks(file: Path) -> list[tuple[int, ...]]:
    """The numbers of the images that see each point of a points3D.bin or .txt.

    They are IMAGE_ID in a model of COLMAP and `image_id` in what `read_model` makes of it; beside a
    cameras.json they count its images from 1. Empty where nothing is said.

    Raises:
        ValueError: If it is damaged.
    """
    if file.suffix == ".bin":
        source = _Bytes(file)
        tracks: list[tuple[int, ...]] = []
        for _ in range(*source.take("Q")):
            source.take("Q3d3Bd")
            (length,) = source.take("Q")
            tracks.append(source.take(f"{2 * length}i")[::2])
        return tracks
    try:
        return [
            tuple(int(word) for word in line.split()[8::2]) for line in filter(None, _lines(file))
        ]
    except ValueError:
        raise ValueError(f"{file} is damaged: a track is not of whole numbers") from None


def point_text(
    points: npt.NDArray[np.float64],
    colors: npt.NDArray[np.float64],
    tracks: Sequence[Sequence[int]] | None = None,
) -> bytes:
    """A points3D.txt of positions [P, 3] and RGB [P, 3] in [0, 1]; no errors.

    `tracks` are the numbers of the images that see each, in which they have no features of a
    number: POINT2D_IDX is 0.
    """
    head = "# 3D point list with one line of data per point:\n"
    head += "#   POINT3D_ID, X, Y, Z, R, G, B, ERROR, TRACK[] as (IMAGE_ID, POINT2D_IDX)\n"
    shades = (255 * colors).round().astype(int).tolist()
    seen = tracks or [()] * len(shades)
    rows = enumerate(zip(points.tolist(), shades, seen, strict=True), 1)
    lines = (
        " ".join([str(i), *map(repr, place), *map(str, rgb), "-1", *(f"{n} 0" for n in track)])
        for i, (place, rgb, track) in rows
    )
    return (head + "".join(f"{line}\n" for line in lines)).encode()


def _pose(image: _Image, where: str) -> list[list[float]]:
    from scipy.spatial.transform import Rotation

    w, *axis = image.turn
    square = w * w + sum(x * x for x in axis)
    if not (math.isfinite(square) and square > 0 and all(map(math.isfinite, image.shift))):
        raise ValueError(f"{where} has no pose: its quaternion or translation is not finite or 0")
    return camera_to_world(Rotation.from_quat([*axis, w]).as_matrix(), np.array(image.shift))


def _entries(lens: _Lens, file: Path, number: int) -> dict[str, Any]:
    """The intrinsics of a transforms file."""
    known: dict[str, str | int] = dict(_MODELS)
    names = known.get(lens.model)
    if names is None:
        raise ValueError(f"{file}: camera {number} has the unknown lens model {lens.model!r:.40}")
    entries: dict[str, Any] = {"camera_model": lens.model, "w": lens.width, "h": lens.height}
    if isinstance(names, int):  # the reader of transforms files says that it is not known
        return entries
    keys = names.split()
    if len(lens.numbers) != len(keys):
        raise ValueError(
            f"{file}: camera {number}: {lens.model} has {len(keys)} parameters, "
            f"got {len(lens.numbers)}"
        )
    entries |= dict(zip(keys, lens.numbers, strict=True))
    focal = entries.pop("f", None)
    return entries if focal is None else {**entries, "fl_x": focal, "fl_y": focal}


# -- text ------------------------------------------------------------------------------------------


def _lines(file: Path) -> list[str]:
    """The lines that are no comments; empty ones too, as an image without points has one."""
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{file} is no text file in UTF-8") from None
    return [line.strip() for line in text.splitlines() if not line.lstrip().startswith("#")]


def _text_lenses(file: Path) -> Iterator[tuple[int, _Lens]]:
    for line in filter(None, _lines(file)):
        words = line.split()
        try:
            number, model, width, height = int(words[0]), words[1], int(words[2]), int(words[3])
            yield number, _Lens(model, width, height, tuple(float(word) for word in words[4:]))
        except (ValueError, IndexError):
            raise ValueError(
                f"{file}: want CAMERA_ID MODEL WIDTH HEIGHT PARAMS..., got {line[:60]!r}"
            ) from None


def _text_images(file: Path) -> Iterator[_Image]:
    lines = iter(_lines(file))
    for line in lines:
        if not line:
            continue
        words = line.split(maxsplit=9)
        try:
            turn, shift = (tuple(float(w) for w in part) for part in (words[1:5], words[5:8]))
            yield _Image(words[9], int(words[8]), turn, shift, int(words[0]))
        except (ValueError, IndexError):
            raise ValueError(
                f"{file}: want IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME, got {line[:60]!r}"
            ) from None
        next(lines, None)  # its points, of which there may be none


def _text_points(file: Path) -> Iterator[tuple[float, ...]]:
    for line in filter(None, _lines(file)):
        words = line.split(maxsplit=7)
        try:
            yield tuple(float(words[i]) for i in range(1, 7))
        except (ValueError, IndexError):
            raise ValueError(
                f"{file}: want POINT3D_ID X Y Z R G B ..., got {line[:60]!r}"
            ) from None


# -- binary ----------------------------------------------------------------------------------------


class _Bytes:
    """A file that is read number by number, little-endian."""

    def __init__(self, file: Path) -> None:
        self.file, self.data, self.place = file, file.read_bytes(), 0

    def take(self, form: str) -> tuple[Any, ...]:
        """The next numbers, in the notation of `struct`."""
        form = "<" + form
        self.skip(struct.calcsize(form))
        return struct.unpack_from(form, self.data, self.place - struct.calcsize(form))

    def skip(self, count: int) -> None:
        """Go on by some bytes."""
        if count > len(self.data) - self.place:
            raise ValueError(f"{self.file} is damaged: it ends after {len(self.data)} bytes")
        self.place += count

    def name(self) -> str:
        """Text that ends with a zero byte."""
        end = self.data.find(b"\0", self.place)
        text = self.data[self.place : end]
        self.skip((len(self.data) if end < 0 else end) - self.place + 1)
        try:
            return text.decode("utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"{self.file} is damaged: a name is no UTF-8") from None


def _binary_lenses(source: _Bytes) -> Iterator[tuple[int, _Lens]]:
    for _ in range(*source.take("Q")):
        number, model, width, height = source.take("iiQQ")
        if not 0 <= model < len(_MODELS):
            raise ValueError(f"{source.file}: camera {number} has the unknown lens model {model}")
        name, keys = _MODELS[model]
        count = keys if isinstance(keys, int) else len(keys.split())
        yield number, _Lens(name, width, height, source.take(f"{count}d"))


def _binary_images(source: _Bytes) -> Iterator[_Image]:
    for _ in range(*source.take("Q")):
        number, *pose, lens = source.take("i7di")
        name = source.name()
        (points,) = source.take("Q")
        source.skip(24 * points)  # x and y, and the number of the point in space
        yield _Image(name, lens, tuple(pose[:4]), tuple(pose[4:]), number)


def _binary_points(source: _Bytes) -> Iterator[tuple[float, ...]]:
    for _ in range(*source.take("Q")):
        _, *point = source.take("Q3d3Bd")
        (length,) = source.take("Q")
        source.skip(8 * length)  # the images that see it, and where
        yield tuple(point[:6])
