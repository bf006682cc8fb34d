"""The photos of a folder: which files are photos, which file a name means, and which mask is whose.

Files and folders whose names begin with a dot are notes of systems, such as ._1.jpg of macOS or
.thumbnails, and never photos.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import final

from gendr._common.texts import folded
from gendr.mesh.images import HEIC

__all__ = [
    "COPIES", "IMAGES", "MASKS", "SMALLER", "UNREAD", "Index", "Masks", "is_inside", "is_photo",
    "mask_beside", "output_names", "within",
]  # fmt: skip

IMAGES = (
    ".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp", ".avif", ".jfif", ".jpe", ".mpo",
    ".ppm", ".pgm", *HEIC,
)  # fmt: skip
# What programs write beside photos for themselves.
COPIES = (".pgm", ".ppm")
# Raw data of cameras, JPEG XL, and linear light, which Pillow does not read, two fisheye images in
# one (Insta360), and rare formats.
UNREAD = (
    ".dng", ".cr2", ".cr3", ".nef", ".nrw", ".arw", ".orf", ".rw2", ".raf", ".pef", ".srw", ".jxl",
    ".exr", ".hdr", ".jp2", ".jpx", ".tga", ".insp",
)  # fmt: skip
# Folders of masks.
MASKS = ("masks", "mask")
# Where the photos of a folder lie, if a file of cameras does not say it: COLMAP and NeRF, NeuS,
# 3DGS (before it undoes the lens), Record3D, Polycam, the folder itself; then smaller copies, by
# which alone some data sets come (DL3DV, mip-NeRF 360).
SMALLER = ("images_2", "images_4", "images_8")
_PLACES = ("images", "image", "input", "rgb", "keyframes/images", "", *SMALLER)


def is_photo(path: Path) -> bool:
    """Whether a file is a photo by its name: an image, and not hidden."""
    return path.suffix.lower() in IMAGES and not path.name.startswith(".") and path.is_file()


@final
class Index:
    """The images of a folder and of all below it, found by names of other systems.

    Args:
        folder: The folder; hidden folders in it are not looked into.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        paths: list[str] = []
        seen: set[str] = set()  # links may lead in circles
        for place, inner, names in os.walk(folder, followlinks=True):
            again = (real := os.path.realpath(place)) in seen
            seen.add(real)
            inner[:] = [] if again else [name for name in inner if not name.startswith(".")]
            for name in [] if again else names:
                if not name.startswith(".") and Path(name).suffix.lower() in IMAGES:
                    paths.append(Path(place, name).relative_to(folder).as_posix())
        self._paths = frozenset(paths)
        keys = Counter(map(folded, self._paths))
        self._alike = {key: path for path in self._paths if keys[key := folded(path)] == 1}

    def __len__(self) -> int:
        return len(self._paths)

    def get(self, name: str) -> str | None:
        """The path of an image in the folder, which may differ in case or composed accents."""
        return name if name in self._paths else self._alike.get(folded(name))

    def photo(self, name: str) -> str:
        """The photo that a program names, by its path on another machine or without its folder.

        Returns:
            Its path in the folder; the last part of the name if there is none.
        """
        parts = PurePosixPath(name.replace("\\", "/")).parts
        for tail in ("/".join(parts[k:]) for k in range(len(parts))):
            for place in _PLACES:
                for suffix in ("", *IMAGES):
                    found = self.get(f"{place}/{tail}{suffix}".lstrip("/"))
                    if found is not None:
                        return found
        return parts[-1] if parts else name

    def places(self) -> list[Path]:
        """The folders that hold images themselves, in the order of their names."""
        return sorted({(self.folder / path).parent for path in self._paths})

    def in_order(self, place: str | None = None) -> list[str]:
        """The photos of one place in the order of their names: of the first that has some."""
        for where in _PLACES if place is None else (place,):
            inside = {p for p in self._paths if PurePosixPath(p).parent == PurePosixPath(where)}
            if inside:
                return sorted(inside)
        return []


@final
class Masks:
    """The masks of photos: the images of the same name in a folder of their own.

    Args:
        root: The folder of the photos, whose masks are in its folder `masks` or `mask`, or in one
            beside the folder of the photo.
        folder: Another folder of masks.
    """

    def __init__(self, root: Path, folder: Path | None = None) -> None:
        self.root, self.folder = root, folder
        self._indices: dict[Path, Index] = {}

    def of(self, image: Path) -> Path | None:
        """The mask of a photo; None if there is no folder of masks, nor a mask beside it.

        A mask is named as the whole photo (a.jpg.png, as COLMAP has it) or as its stem (a.png),
        also a_mask.png and a.jpg.mask.png, in the folders of the photo or fewer of them. Without a
        folder of masks it may lie beside the photo, by one of the last two names.

        Raises:
            ValueError: If there is such a folder, and no mask of the photo in it.
        """
        folders = [self.folder] if self.folder is not None else self._beside(image)
        if not folders:
            return mask_beside(image)
        try:
            parts = image.relative_to(self.root).parent.parts
        except ValueError:  # an absolute path in the file
            parts = ()
        for folder in folders:
            if folder not in self._indices:
                self._indices[folder] = Index(folder)
            for k in range(len(parts) + 1):
                place = "".join(part + "/" for part in parts[k:])
                for name in (image.name, image.stem, *_own_names(image)):
                    for suffix in IMAGES:
                        found = self._indices[folder].get(place + name + suffix)
                        if found is not None:
                            return self._checked(folder / found)
        raise ValueError(f"no mask for {image} in {folders[0]}; want {image.stem}.png there")

    def _beside(self, image: Path) -> list[Path]:
        places = [self.root]
        if is_inside(image.parent.parent, self.root):
            places.append(image.parent.parent)
        folders = dict.fromkeys(place / name for name in MASKS for place in places)
        return [folder for folder in folders if folder.is_dir() and folder != image.parent]

    def _checked(self, mask: Path) -> Path:
        return mask if self.folder is not None else within(mask, self.root)


def mask_beside(image: Path) -> Path | None:
    """The mask that lies beside a photo: a_mask.png (Metashape, ODM), a.jpg.mask.png (RealityScan).

    None if there is none.
    """
    names = (f"{name}{suffix}" for name in _own_names(image) for suffix in IMAGES)
    return next((file for name in names if (file := image.with_name(name)).is_file()), None)


def _own_names(image: Path) -> tuple[str, str]:
    return f"{image.stem}_mask", f"{image.name}.mask"


def output_names(photos: Iterable[Path]) -> list[str]:
    """Names for what is made of each photo, without a suffix: no two are equal.

    They are the stems of the photos, after the folders in which they differ; or their whole names
    if two photos share a stem, such as a.jpg and a.png, on systems too that know no case.
    """
    paths = list(photos)
    common = os.path.commonpath([path.absolute().parent for path in paths]) if paths else ""
    whole = [Path(path.absolute()).relative_to(common) for path in paths]
    stems = [path.with_suffix("") for path in whole]
    keys = {folded(path.as_posix()) for path in stems}
    apart = len(keys) == len(paths) and keys.isdisjoint(folded(p.as_posix()) for p in whole)
    return [path.as_posix() for path in (stems if apart else whole)]


def is_inside(path: Path, root: Path) -> bool:
    """Whether a path is in a folder by its name."""
    inside = os.path.normpath(root.absolute())
    return Path(os.path.normpath(path.absolute())).is_relative_to(inside)


def within(file: Path, root: Path) -> Path:
    """The file, which is in the folder also when links are followed.

    Raises:
        ValueError: If it is not.
    """
    if not file.resolve().is_relative_to(root.resolve()):
        raise ValueError(
            f"{file} is a link out of the folder {root}, from which alone files are read; copy "
            "what it points to into the folder"
        )
    return file
