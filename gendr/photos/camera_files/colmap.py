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

from gendr._common.texts import decode, find_file, numbers, read_text
from gendr.mesh.files.ply import ply_points
from gendr.mesh.files.reports import damage_named, warn_caller
from gendr.photos.camera_files.opencv import camera_to_world
from gendr.photos.camera_files.photos import Index

__all__ = [
    "find_model", "lenses_of", "point_text", "read_model", "read_point_file", "read_tracks",
]  # fmt: skip

# Where models may lie in the folder of images: of the first of these groups that has some, that of
# most images. The last but one is what 3DGS leaves beside photos whose lens it has undone.
_PLACES = (
    ("sparse/*", "sparse"), ("colmap/sparse/*", "colmap/sparse"), ("colmap_text",), ("",),
    ("distorted/sparse/*", "distorted/sparse"),
)  # fmt: skip
# The lens models by their numbers in binary files, and what their parameters are called in
# transforms files; "f" is both focal lengths. Those with a count of them only are refused.
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
    ("RAD_TAN_THIN_PRISM_FISHEYE", 16),  # from here on of COLMAP 4
    ("SIMPLE_DIVISION", 4),
    ("DIVISION", 5),
    ("SIMPLE_FISHEYE", "f cx cy"),
    ("FISHEYE", "fl_x fl_y cx cy"),
    ("EUCM", 6),
    ("EQUIRECTANGULAR", 2),
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
    """The file `images.bin` or `images.txt` of the model in a folder; None if there is none.

    Of several models that of most images, with a warning that there are others.
    """
    for group in _PLACES:
        places = [p for each in group for p in (sorted(folder.glob(each)) if each else [folder])]
        files = [_images_in(p) for p in places if p == folder or p.name[:1] != "."]
        models = [file for file in files if file is not None]
        if len(models) > 1:
            counts = [_count(file) for file in models]
            best = models[counts.index(max(counts))]
            names = [file.parent.relative_to(folder).as_posix() for file in models]
            listed = ", ".join(f"{n} ({c} photos)" for n, c in zip(names, counts, strict=True))
            warn_caller(
                f"{folder} has {len(models)} models of COLMAP: {listed}; that of "
                f"{best.parent.relative_to(folder).as_posix()} is used"
            )
            return best
        if models:
            return models[0]
    return None


def _images_in(place: Path) -> Path | None:
    """The file of the images of a model: binary if there are both, as COLMAP reads it."""
    for suffix in (".bin", ".txt"):
        file = place / f"images{suffix}"
        if file.is_file():
            return file
    return None


def _count(images: Path) -> int:
    """How many images a model has; 0 of a damaged one."""
    try:
        if images.suffix == ".bin":
            return int(_Bytes(images).take("Q")[0])
        return sum(1 for _ in _text_images(images))
    except ValueError:
        return 0


def lenses_of(images: Path) -> Path:
    """The file of the cameras beside that of the images of a model."""
    return images.with_name("cameras" + images.suffix)


def read_model(images: Path, folder: Path) -> dict[str, Any]:
    """The model as the content of a transforms file.

    Args:
        images: Its images.bin or images.txt; the file of the cameras is beside it.
        folder: The folder of the images: their names are relative to its folder `images`, or to
            itself if it has none. If none is there, they are looked for by their names alone.

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
    if images.is_relative_to(folder / "distorted") and (folder / "input").is_dir():
        prefix = "input/"
    paths = {image.name: prefix + image.name for image in views}
    if not any(find_file(folder, path) for path in paths.values()):
        photos = Index(folder)
        paths = {name: photos.photo(name) for name in paths}
    frames: list[dict[str, Any]] = []
    for image in sorted(views, key=lambda one: one.name):
        where = f"{images}: {image.name}"
        if image.lens not in lenses:
            raise ValueError(f"{where} has camera {image.lens}, which is not in {cameras.name}")
        frames.append(
            {
                "file_path": paths[image.name],
                "transform_matrix": _pose(image, where),
                "image_id": image.number,
                **_entries(lenses[image.lens], cameras, image.lens),
            }
        )
    return {"frames": frames}


def read_point_file(file: Path) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The points in space of a points3D.bin or .txt, of any name, or of a PLY, and their colours.

    Returns:
        Positions [P, 3] in the world of the cameras, and RGB [P, 3] in [0, 1].

    Raises:
        ValueError: If it is damaged.
    """
    if file.suffix.lower() == ".ply":
        with damage_named(file):
            return ply_points(file)
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
    cameras.json they count its images from 1. Empty where nothing is said, as in a PLY.

    Raises:
        ValueError: If it is damaged.
    """
    if file.suffix.lower() == ".ply":
        return []
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


def _lines(file: Path) -> Iterator[str]:
    """The lines that are no comments, nor empty."""
    for line in read_text(file).split("\n"):
        if line.strip() and not line.lstrip().startswith("#"):
            yield line.strip()


def _text_lenses(file: Path) -> Iterator[tuple[int, _Lens]]:
    for line in _lines(file):
        words = line.split()
        try:
            number, model, width, height = int(words[0]), words[1], int(words[2]), int(words[3])
            yield number, _Lens(model, width, height, tuple(numbers(" ".join(words[4:]))))
        except (ValueError, IndexError):
            raise ValueError(
                f"{file}: want CAMERA_ID MODEL WIDTH HEIGHT PARAMS..., got {line[:60]!r}"
            ) from None


def _text_images(file: Path) -> Iterator[_Image]:
    """The images of a text.

    The line after that of an image holds its points, three numbers of each. It is empty if there
    are none, and people who write such files leave it out; so it is known by what it holds, and
    not by its place.
    """
    may_be_points = False
    for line in _lines(file):
        words = line.split(maxsplit=9)
        if may_be_points and _is_points(line.split()):
            may_be_points = False
            continue
        try:
            turn, shift = (tuple(numbers(" ".join(part))) for part in (words[1:5], words[5:8]))
            yield _Image(words[9], int(words[8]), turn, shift, int(words[0]))
        except (ValueError, IndexError):
            raise ValueError(
                f"{file}: want IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME, got {line[:60]!r}"
            ) from None
        may_be_points = True


def _is_points(words: list[str]) -> bool:
    """Whether a line of images.txt is X Y POINT3D_ID ..., and no image, whose name is no number."""
    try:
        numbers(" ".join(words))
        for word in words[2::3]:
            int(word)
    except ValueError:
        return False
    return len(words) % 3 == 0


def _text_points(file: Path) -> Iterator[tuple[float, ...]]:
    for line in _lines(file):
        words = line.split(maxsplit=7)
        try:
            x, y, z, *rgb = numbers(" ".join(words[1:7]))
            yield x, y, z, rgb[0], rgb[1], rgb[2]
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
        return decode(text)


def _binary_lenses(source: _Bytes) -> Iterator[tuple[int, _Lens]]:
    for _ in range(*source.take("Q")):
        number, model, width, height = source.take("IiQQ")
        if not 0 <= model < len(_MODELS):
            raise ValueError(f"{source.file}: camera {number} has the unknown lens model {model}")
        name, keys = _MODELS[model]
        count = keys if isinstance(keys, int) else len(keys.split())
        yield number, _Lens(name, width, height, source.take(f"{count}d"))


def _binary_images(source: _Bytes) -> Iterator[_Image]:
    for _ in range(*source.take("Q")):
        number, *pose, lens = source.take("I7dI")
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
