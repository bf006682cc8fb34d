"""The cameras of photos that come without: structure from motion by COLMAP.

Features of photos, all pairs matched, lead to poses, one lens for all photos of a size and
of what EXIF data say of it, and points.
Where the rim of the photos stands still, as on a turntable before a screen, features are those of
what moves; otherwise, and where people walk around something, all are used.

Source: Schönberger & Frahm, Structure-from-Motion Revisited (2016), whose package does it.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from gendr._common.texts import first_few
from gendr.jobs.folders import SOURCES
from gendr.jobs.loop import Progress, Tell
from gendr.kernels.threads import num_threads
from gendr.mesh.files.reports import warn_caller
from gendr.mesh.images import MAX_MEGAPIXELS, UnreadableImageError, open_image
from gendr.photos.camera_files.colmap import point_text
from gendr.photos.camera_files.opencv import OPENCV
from gendr.photos.camera_files.photos import (
    COPIES,
    MASKS,
    UNREAD,
    Index,
    Masks,
    is_photo,
    mask_beside,
)
from gendr.photos.capture.gps import Placement, metres, place_by_gps, read_fix
from gendr.photos.images import QUARTERS, open_photo, read_orientation, rgba
from gendr.photos.upright import SIDES, edges_of, one_way, upwards, verticals

__all__ = ["FoundCameras", "find_cameras", "list_photos"]

# The fewest photos, placed and of all of them; the part of these that must be placed.
LEAST, LEAST_PART = 2, 0.5
# The longer side of what features are looked for in.
_SIDE = 1600
# Up to so many photos all pairs are matched; of more, each with so many that look most alike.
_ALL_PAIRS, _PARTNERS = 40, 20
# The least angle, in degrees, between lines of sight of the two photos that are placed first, and
# the largest part of their motion that may be forward: COLMAP's, and if too few photos are placed
# by these, those for walks along streets and corridors.
_FIRST_PAIRS = ((16.0, 0.95), (4.0, 1.0))
# How the names of files with features and matches begin, in folders that keep them.
_FEATURES = ".gendr-features-"
# The stages and the parts of the time that they take.
_STAGES = {"features": 0.35, "match": 0.35, "place": 0.3}
# The median distance of the cameras from what they look at, in the world that is made.
_DISTANCE = 3.0
_SEEN = 0.1  # how much what each photo sees counts there, beside its optical axis
# How far photos look one way, from which on up may lean as they are pitched, and edges are asked;
# the longer side of photos of which these are, and of how many.
_ONE_WAY, _NEARLY, _EDGES_SIDE, _EDGES_OF = 0.97, 0.9, 800, 40
_TURNED = 0.5  # of pairs that look like a panorama, from which on it is said
# Degrees at which photos see points, in the median, below which depths are rough, which is said;
# and how many points tell. Of a castle walked along it is 27, of a drone's grid 41, of photos
# turned by hand 8 cm about one place 3.8.
_NARROW, _SAMPLE = 5.0, 2000
# Focal lengths in longer sides of photos beyond which no usual lens lies: 9 and 288 mm of film.
_FOCALS = 0.25, 8.0
# The share of pixels below the brightest, and what these are, of 255, in a dark photo.
_BRIGHT, _DARK = 0.99, 128
# Noise, of 255, from which on photos are smoothed before features are looked for, and what is left:
# of eight photos with 11 a third of the matches was found without.
_NOISY, _LEFT = 7.0, 2.0
# Of EXIF: maker and model of a camera; the focal length, as with film of 36 x 24 mm, and the zoom.
_CAMERA, _FOCAL = (0x10F, 0x110), (0x920A, 0xA405, 0xA404)

Matrix = npt.NDArray[np.float64]
Fix = tuple[float, float, float]


@final
@dataclass(frozen=True, eq=False)
class FoundCameras:
    """Cameras that were found for the photos of a folder.

    The world has its origin where the cameras look, y up if they are upright on average, and the
    cameras at a median distance of 3. Where GPS fixes in EXIF agree with the cameras it is in
    metres, with x east, y up and z south.

    Attributes:
        entries: what `cameras.json` says of each photo that was placed: OpenCV's matrices.
        left_out: names of the photos that were not placed.
        points: [P, 3] in space.
        colors: [P, 3], of them, RGB in [0, 1].
        tracks: of each, the entries of the photos that show it.
        error: mean distance of features from where the points are seen, pixels of up to 1600 on the
            longer side.
        gps: what fixes of photos say, rows of `entries`; `middle` is in this world. None if they
            are too few or contradict the cameras.
        fixes: photos that were placed and have a fix.
        apart: groups of `left_out` that match each other, but none of the photos that were placed.
        against: pairs of photos that are placed otherwise than they match, next to each other in
            order, or as if they showed the same from one side, and do not look alike.
        upright: whether edges that look upright say what is up, as photos look nearly one way.
        focal_known: whether EXIF data say the focal length of most photos that were placed, and
            what was found is about that, or held there.
    """

    entries: tuple[dict[str, Any], ...]
    left_out: tuple[str, ...]
    points: Matrix
    colors: Matrix
    tracks: tuple[tuple[int, ...], ...]
    error: float
    gps: Placement | None = None
    fixes: int = 0
    apart: tuple[tuple[str, ...], ...] = ()
    against: tuple[tuple[str, ...], ...] = ()
    upright: bool = False
    focal_known: bool = False

    @property
    def leaning(self) -> bool:
        """Whether up is only where photos have their upper edges, as all look one way.

        It leans as they are pitched, then, but for `upright`, and lies level if they look straight
        down.
        """
        if self.gps is not None or not self.entries:
            return False
        turns = np.array([entry["R"] for entry in self.entries])
        return one_way(turns, np.array([0.0, 1, 0])) > _ONE_WAY

    @property
    def angle(self) -> float:
        """Degrees, the widest at which two photos see a point, in the median; 0 without points."""
        if not len(self.points):
            return 0.0
        turns, shifts = (np.array([entry[key] for entry in self.entries]) for key in "Rt")
        eyes = -np.einsum("bji,bj->bi", turns, shifts)
        wide: list[float] = []
        for k in range(0, len(self.points), 1 + len(self.points) // _SAMPLE):
            if len(self.tracks[k]) > 1:
                rays = eyes[list(self.tracks[k])] - self.points[k]
                far = np.linalg.norm(rays, axis=1, keepdims=True)
                rays = rays[far[:, 0] > 0] / far[far[:, 0] > 0]  # a point may lie on an eye
                if len(rays) > 1:
                    wide.append(float((rays @ rays.T).min().clip(-1, 1)))
        return float(np.degrees(np.arccos(np.median(wide)))) if wide else 0.0

    @property
    def narrow(self) -> bool:
        """Whether photos stand so close together that depths are rough."""
        return 0 < self.angle < _NARROW

    @property
    def focal(self) -> float:
        """The median focal length in longer sides of the photos."""
        found = [entry["K"][0][0] / max(entry["width"], entry["height"]) for entry in self.entries]
        return float(np.median(found))

    @property
    def unlikely(self) -> bool:
        """Whether the focal length is that of no usual lens, as planes straight on tell none.

        Not if EXIF data say so: there are long lenses.
        """
        if self.focal_known:
            return False
        return len(self.points) > 0 and not _FOCALS[0] < self.focal < _FOCALS[1]

    def files(self, file: Path) -> dict[Path, bytes]:
        """The JSON file of the cameras, and beside it the points: contents by path.

        `gendr.photos.load_views` and `load_points` read them.
        """
        points = "points3D.txt" if file.name == OPENCV else f"{file.stem}_points3D.txt"
        content: dict[str, Any] = {"points": points, "images": list(self.entries)}
        if self.left_out:
            content["left_out"] = list(self.left_out)
        if self.gps is not None:
            content["gps"] = {
                "axes": "x east, y up, z south, in metres", "at": self.gps.middle.tolist(),
                "latitude": self.gps.latitude, "longitude": self.gps.longitude,
                "altitude": self.gps.altitude, "error": self.gps.error,
                "size_error": self.gps.size_error,
                "photos": len(self.gps.used), "of": self.fixes,
            }  # fmt: skip
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        return {
            file: text.encode(),
            file.with_name(points): point_text(
                self.points, self.colors, [[i + 1 for i in track] for track in self.tracks]
            ),
        }


def list_photos(folder: Path) -> list[Path]:
    """The photos of a folder without a file of cameras: those in `images`, or else in itself.

    Or in the one folder below that holds some, as on cards of cameras. They come in the order of
    their names, numbers by their size, without masks that lie beside them, nor `.pgm` and `.ppm`
    beside another photo of their stem, which programs leave there (Lowe's SIFT, Bundler).

    Raises:
        ValueError: if several folders below hold photos, or all are of a format that is not read.
    """
    inside = folder / "images"
    place = inside if inside.is_dir() else folder
    if not any(is_photo(p) for p in place.iterdir()):
        below = [
            place for place in Index(folder).places()
            if place.name not in MASKS and not (place / SOURCES).exists()  # nor results
        ]  # fmt: skip
        if len(below) > 1:
            names = first_few([str(each.relative_to(folder)) for each in below])
            raise ValueError(
                f"{folder} holds no photos itself, and {len(below)} folders in it do: give one of "
                f"them, or put all photos into one ({names})"
            )
        place = below[0] if below else place
    found = [p for p in place.iterdir() if is_photo(p)]
    if not found and (unread := _unread(place, found)):
        raise ValueError(f"{place} holds only photos that are not read; {unread}")
    masks = {mask_beside(photo) for photo in found}
    known = {photo.stem for photo in found if photo.suffix.lower() not in COPIES}
    found = [p for p in found if not (p.suffix.lower() in COPIES and p.stem in known)]
    return sorted((p for p in found if p not in masks), key=lambda p: [
        (0, int(part), "") if part.isdigit() else (1, 0, part)
        for part in re.split(r"(\d+)", p.name.lower()) if part
    ])  # fmt: skip


def _unread(place: Path, photos: list[Path]) -> str:
    """Names the photos of a folder in formats that are not read, but for those beside a JPEG."""
    known = {photo.stem for photo in photos}
    names = sorted(
        p.name for p in place.iterdir()
        if p.suffix.lower() in UNREAD and p.stem not in known and not p.name.startswith(".")
    )  # fmt: skip
    if not names:
        return ""
    return f"save them as JPEG, PNG or TIFF first: {first_few(names)}"


def find_cameras(
    folder: str | Path,
    *,
    max_megapixels: float = MAX_MEGAPIXELS,
    keep: str | Path | None = None,
    callback: Tell | None = None,
) -> FoundCameras:
    """Find out from where the photos of a folder were taken.

    Args:
        folder: with photos in it, or in its folder `images`; masks in its folder `masks`, if there
            are any, say where features may lie if the background stands still.
        max_megapixels: the largest photo that is read, in million pixels.
        keep: a folder that holds features and matches until cameras are found. If it has some of
            the same images, of a call that was stopped, they are not looked for again.
        callback: called with what is done, a number from 0 to 1 that also has the name of a
            `stage`. What it raises ends it.

    Raises:
        RuntimeError: if pycolmap is not installed, or fails.
        ValueError: if fewer than two photos can be read, of which others are left out with a
            warning, or too few of them can be placed.
    """
    if find_spec("pycolmap") is None:
        raise RuntimeError(
            "photos without cameras need pycolmap, which is not installed: pip install pycolmap; "
            "for Linux on ARM it has no wheels: run gendr cameras on another machine"
        )
    root = Path(folder)
    photos = _different(list_photos(root))
    if photos and (unread := _unread(photos[0].parent, photos)):
        warn_caller(f"some photos are of a format that is not read; {unread}")
    tell = callback or (lambda now: None)
    with TemporaryDirectory() as place:
        work = Path(place)
        names = [p.relative_to(root).as_posix() for p in photos]
        photos, groups, scales, fixes = _prepare(root, photos, work, max_megapixels, tell)
        if len(photos) < LEAST:
            said = f"{root} holds {len(photos)}"
            raise ValueError(f"cameras need at least {LEAST} photos, and {said}")
        job = {
            "groups": groups, "model": "SIMPLE_RADIAL", "masks": (work / "masks").is_dir(),
            "all_pairs": _ALL_PAIRS, "partners": _PARTNERS, "threads": num_threads(),
            "first_pairs": _FIRST_PAIRS, "part": LEAST_PART, "places": _places(groups, fixes),
        }  # fmt: skip
        features = work / "features.db" if keep is None else _kept_features(Path(keep), work, job)
        job["features"] = str(features.resolve())
        (work / "job.json").write_text(json.dumps(job))
        _run(work, features, len(photos), tell)
        drop_features(features.parent)
        result = json.loads((work / "result.json").read_text())
        table, seen = np.zeros((0, 6)), np.zeros((0, 2), np.int64)
        if (work / "points.npy").is_file():
            table, seen = np.load(work / "points.npy"), np.load(work / "tracks.npy")
        quarters = [QUARTERS.get(read_orientation(photo, max_megapixels), 0) for photo in photos]
        order = [int(Path(image["name"]).stem) for image in result["images"]]
        up, upright = _up(work, result["images"], [quarters[i] for i in order])
    placed = {Path(image["name"]).stem: image for image in result["images"]}
    given, names = names, [p.relative_to(root).as_posix() for p in photos]
    found = {name for i, name in enumerate(names) if f"{i:05d}" in placed}
    missing = tuple(name for name in given if name not in found)
    if len(placed) < max(LEAST, LEAST_PART * len(photos)):
        text = f"only {len(placed)} of {len(photos)} photos of {root} could be placed: it helps to "
        if result["turned"] > _TURNED:
            raise ValueError(
                f"{text}walk a step to the side before each: most pairs of them look as if taken "
                "from one place, as for a panorama, or of one plane, which tells no depth"
            )
        raise ValueError(
            f"{text}take more of them, of which neighbours show mostly the same, sharp, of "
            "something with a pattern or before a background with one that stands as still as the "
            "object"
        )
    turn, centre, scale = _world(result["images"], [quarters[i] for i in order], up)
    eyes = -np.einsum(
        "bji,bj->bi", *(np.array([image[k] for image in result["images"]]) for k in "Rt")
    )
    gps = place_by_gps(eyes, turn[1], [fixes[i] for i in order])
    if gps is not None:
        turn, scale = gps.turn, gps.scale
    entries, place = [], {}
    for i, name in enumerate(names):
        image = placed.get(f"{i:05d}")
        if image is not None:
            place[i] = len(entries)
            entries.append(_entry(name, image, scales[i], (turn, centre, scale)))
    points = scale * (table[:, :3] - centre) @ turn.T
    tracks: list[set[int]] = [set() for _ in points]  # a photo may show a point twice
    for point, photo in seen.tolist():
        if photo in place:
            tracks[point].add(place[photo])
    if gps is not None:
        rows = [[place[order[i]] for i in each] for each in (gps.used, gps.wrong)]
        gps = replace(
            gps, used=tuple(sorted(rows[0])), wrong=tuple(sorted(rows[1])),
            middle=scale * turn @ (gps.middle - centre),
        )  # fmt: skip

    def named(key: str) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(names[int(Path(n).stem)] for n in each) for each in result.get(key, ()))

    return FoundCameras(
        tuple(entries), missing, points, table[:, 3:] / 255,
        tuple(tuple(sorted(track)) for track in tracks), result["error"], gps,
        sum(fixes[i] is not None for i in order), named("apart"), named("against"), upright,
        result.get("focal_known", False),
    )  # fmt: skip


def _different(photos: list[Path]) -> list[Path]:
    """Photos without those that are copies of others, byte for byte, of which it warns."""
    sizes = Counter(photo.stat().st_size for photo in photos)
    first: dict[bytes, Path] = {}
    copies: list[str] = []
    kept: list[Path] = []
    for photo in photos:
        if sizes[photo.stat().st_size] > 1:
            other = first.setdefault(sha256(photo.read_bytes()).digest(), photo)
            if other != photo:
                copies.append(f"{photo.name} is {other.name}")
                continue
        kept.append(photo)
    if copies:
        warn_caller(f"photos that are copies of others are used once: {first_few(copies)}")
    return kept


def _is_panorama(opened: Any) -> bool:
    """Whether the XMP data of a photo say that it is round; views cut out of one may keep them."""
    found = opened.info.get("xmp") or opened.info.get("XML:com.adobe.xmp") or b""
    text = found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)
    return re.search(r"GPano:ProjectionType\W+(equirect|cylind|spher|cube)", text, re.I) is not None


def kept_features(folder: Path) -> list[Path]:
    """The files in which `find_cameras` keeps features and matches in a folder."""
    return sorted(folder.glob(f"{_FEATURES}*"))


def drop_features(folder: Path) -> None:
    """Remove the files in which features and matches are kept, so that they are found anew."""
    for file in kept_features(folder):
        file.unlink()


def _kept_features(folder: Path, work: Path, job: dict[str, Any]) -> Path:
    """The database of features, whose name says of what it is; those of others are removed."""
    of = sha256(json.dumps([version("pycolmap"), job | {"threads": None}]).encode())
    for file in sorted(work.rglob("*.png")):  # images and masks
        of.update(sha256(file.read_bytes()).digest())
    name = f"{_FEATURES}{of.hexdigest()[:16]}.db"
    for other in kept_features(folder):
        if not other.name.startswith(name):  # beside a database there are files of SQLite
            other.unlink()
    return folder / name


def _prepare(
    root: Path, photos: list[Path], work: Path, limit: float, tell: Tell
) -> tuple[list[Path], list[dict[str, Any]], list[tuple[float, float]], list[Fix | None]]:
    """Write images of bounded size and their masks; it warns of photos that cannot be read.

    Returns: the others; groups of a size and a lens; of each photo the scales x, y, and the fix.
    """
    from PIL import Image

    kept: list[Path] = []
    groups: dict[tuple[int, int, _Lens], list[str]] = {}
    scales: list[tuple[float, float]] = []
    masks: list[Image.Image | None] = []
    fixes: list[Fix | None] = []
    own_masks = Masks(root)
    for done, photo in enumerate(photos):
        tell(Progress(0.3 * _STAGES["features"] * done / len(photos), "features"))
        try:
            with open_photo(photo, limit, 1) as opened:
                lens, fix = _lens(opened), read_fix(opened)
                wide, tall = opened.size
                if _is_panorama(opened):
                    raise UnreadableImageError(
                        f"{photo} is a panorama by its XMP data, which no lens here draws: cut "
                        "views of at most 100 degrees out of it"
                    )
                planes = rgba(opened)
        except UnreadableImageError as error:
            warn_caller(f"{error}; it is left out")
            continue
        i, factor = len(kept), min(1.0, _SIDE / max(wide, tall))
        size = (max(1, round(factor * wide)), max(1, round(factor * tall)))
        kept.append(photo)
        fixes.append(fix)
        scales.append((wide / size[0], tall / size[1]))
        # What is transparent is grey, as if there were a plain wall behind it.
        planes = planes[:3] * planes[3] + 0.5 * (1 - planes[3])
        pixels = (255 * planes).round().astype(np.uint8).transpose(1, 2, 0)
        image = _lit(Image.fromarray(pixels).resize(size, Image.Resampling.BOX))
        name = f"{size[0]}x{size[1]}/{i:05d}.png"
        groups.setdefault((*size, lens), []).append(name)
        (work / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        image.save(work / "images" / name)
        masks.append(None)
        with suppress(ValueError):  # one that is missing
            mask = own_masks.of(photo)
            masks[i] = None if mask is None else _mask(mask, size, limit)
    _write_masks(work, list(groups.values()), masks)
    said = [
        {"size": (width, height), "focal": lens.film / 36 * max(width, height), "names": names}
        for (width, height, lens), names in groups.items()
    ]
    return kept, said, scales, fixes


def _places(groups: list[dict[str, Any]], fixes: list[Fix | None]) -> dict[str, list[float]]:
    """Where photos were taken by their GPS fixes, in metres, of the names of those that have one.

    A photo without an altitude counts as without a fix.
    """
    names = [name for group in groups for name in group["names"]]
    known = [(name, fixes[int(Path(name).stem)]) for name in names]
    known = [(name, fix) for name, fix in known if fix is not None and np.isfinite(fix).all()]
    places = metres(np.array([fix for _, fix in known]).reshape(-1, 3)) if known else []
    return {name: list(map(float, at)) for (name, _), at in zip(known, places, strict=True)}


def _lit(image: Any) -> Any:
    """A photo; a dark one brighter, as features are told by absolute differences; without noise.

    A Gaussian of deviation s leaves 1 / (2 s sqrt(pi)) of white noise.
    """
    from PIL import ImageFilter

    from gendr.photos.scene.depth_maps import noise_of  # with stereo, which few commands need

    image = _brighter(image)
    noise = noise_of(np.asarray(image.convert("L"), np.float32))
    if noise <= _NOISY:
        return image
    return image.filter(ImageFilter.GaussianBlur(noise / (2 * np.pi**0.5 * _LEFT)))


def _brighter(image: Any) -> Any:
    """A dark photo brighter, others as they are."""
    counts = np.cumsum(image.convert("L").histogram())
    bright = int(np.searchsorted(counts, _BRIGHT * counts[-1]))
    if bright >= _DARK:
        return image
    gain = 255 / max(bright, 1)
    return image.point(lambda value: min(255, round(gain * value)))


class _Lens(NamedTuple):
    """What EXIF data say of a lens: photos of which they say the same share it."""

    camera: str = ""
    focal: float = 0.0  # mm; 0 if they do not say it
    film: float = 0.0  # the same with film of 36 x 24 mm
    zoom: float = 1.0  # of the picture by the camera; some count it in `film`


def _lens(image: Any) -> _Lens:
    said: list[float] = []
    camera = ""
    with suppress(Exception):  # of anything that cameras write there
        data = image.getexif()
        camera = " ".join(str(data.get(key, "")) for key in _CAMERA).strip(" \0")
        inner = data.get_ifd(0x8769)
        said = [float(inner.get(key, 0)) for key in _FOCAL]
    focal, film, zoom = (x if 0 < x < 2000 else 0.0 for x in (*said, 0.0, 0.0, 0.0)[:3])
    # Where there is no digital zoom, Exif has a ratio of 0; cameras also write 1, or nothing.
    return _Lens(camera, focal, film if film > 5 else 0.0, max(zoom, 1.0))


def _mask(file: Path, size: tuple[int, int], limit: float) -> Any:
    """The mask in a file, grey, of another size (W, H); None if it is as large as no photo here."""
    with open_image(file, limit) as opened:
        planes = rgba(opened)
        if (opened.width < opened.height) != (size[0] < size[1]):
            return None
    from PIL import Image

    grey = planes[:3].mean(0) * planes[3]
    return Image.fromarray((255 * grey).astype(np.uint8)).resize(size)


def _write_masks(work: Path, groups: list[list[str]], given: list[Any]) -> None:
    """Masks of what moves, if the rim of all images of a size stands still, for each of the sizes.

    Of a few images of a size nobody can tell: they count like the others if they have masks.
    """
    from PIL import Image

    found = [_still_masks(work, names) for names in groups]
    own = all(mask is not None for mask in given)
    if not (any(each is not None for each in found) if own else all(each for each in found)):
        return
    for names, masks in zip(groups, found, strict=True):
        for i, name in enumerate(names):
            mask: Any = given[int(Path(name).stem)] if own else (masks or [])[i]
            with Image.open(work / "images" / name) as image:
                size = image.size
            file = work / "masks" / f"{name}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            mask.resize(size).point(lambda value: 255 * (value > 127)).save(file)


def _still_masks(work: Path, names: list[str]) -> list[Any] | None:
    """Masks of what moves in images of one size whose rim stands still, else None."""
    import torch
    from PIL import Image

    from gendr.photos.backdrop import evened_rims, still_backdrop

    small: list[npt.NDArray[np.uint8]] = []
    for name in names:
        with Image.open(work / "images" / name) as image:
            image.thumbnail((480, 480))
            small.append(np.asarray(image))
    images = torch.from_numpy(np.stack(small)).permute(0, 3, 1, 2) / 255
    found = still_backdrop(images) or still_backdrop(evened_rims(images))
    if found is None:
        return None
    return [Image.fromarray((255 * mask.numpy()).astype(np.uint8)) for mask in found[1]]


def _run(work: Path, features: Path, count: int, tell: Tell) -> None:
    """Run the process, and tell how far it has come.

    Raises:
        RuntimeError: if it fails.
    """
    command = [sys.executable, str(Path(__file__).with_name("structure.py")), str(work)]
    stage, done, pairs = "features", 0.0, 1
    log, told = work / "log.txt", work / "told.txt"
    # Told in a file: Windows has no pipe that is read without waiting before Python 3.12.
    with log.open("wb") as errors, told.open("wb") as output, told.open("rb") as said:
        # Threads of OpenMP within those of COLMAP would find other matches from run to run.
        threads = {"OPENBLAS_NUM_THREADS": str(num_threads()), "OMP_NUM_THREADS": "1"}
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=errors,
            env={**os.environ, **threads},
        ) as process:  # fmt: skip
            text = b""
            try:
                while True:
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(0.2)
                    text += said.read()
                    *lines, text = text.split(b"\n")
                    for line in lines:
                        word, _, number = line.decode(errors="replace").strip().partition(" ")
                        if word in _STAGES and number.isdigit():
                            stage, done = word, int(number) / count
                        elif word == "pairs":
                            pairs = int(number)
                    if stage == "features":
                        done = 0.3 + 0.7 * _rows(features, "keypoints") / count
                    elif stage == "match":
                        done = _rows(features, "two_view_geometries") / pairs
                    before = sum(list(_STAGES.values())[: list(_STAGES).index(stage)])
                    tell(Progress(min(1.0, before + _STAGES[stage] * min(1.0, done)), stage))
                    if process.poll() is not None:
                        break
            finally:
                process.kill()
    if process.returncode or not (work / "result.json").is_file():
        last = log.read_text(errors="replace").strip().splitlines()[-1:] or ["no reason given"]
        raise RuntimeError(f"pycolmap failed ({process.returncode}): {last[0][:200]}")


def _rows(features: Path, table: str) -> int:
    """How many rows a table of the features has by now."""
    with suppress(sqlite3.Error):
        place = f"{features.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(place, uri=True, timeout=0.1)) as base:
            return int(base.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    return 0


def _up(work: Path, images: list[dict[str, Any]], quarters: list[int]) -> tuple[Matrix, bool]:
    """What is up, [3], and whether edges say so, which are asked if photos look one way."""
    from PIL import Image

    if not images:
        return np.array([0.0, 1, 0]), False
    turns = np.array([image["R"] for image in images])
    up: Matrix = upwards(turns, quarters)
    if one_way(turns, up) < _NEARLY:
        return up, False
    edges: list[Matrix] = []
    for image in images[:: 1 + (len(images) - 1) // _EDGES_OF]:
        with Image.open(work / "images" / image["name"]) as opened:
            grey = opened.convert("L")
        grey.thumbnail((_EDGES_SIDE, _EDGES_SIDE), Image.Resampling.BOX)
        focal, cx, cy = image["params"][:3]
        lens = np.array([[focal, 0, cx], [0, focal, cy], [0, 0, 1.0]])
        lens[:2] *= (np.array(grey.size) / image["size"])[:, None]
        edges.append(edges_of(np.asarray(grey), lens, np.array(image["R"])))
    found = verticals(np.concatenate(edges), up, turns[:, 2].mean(0))
    return (up, False) if found is None else (found, True)


def _world(
    images: list[dict[str, Any]], quarters: list[int], up: npt.NDArray[Any]
) -> tuple[Matrix, Matrix, float]:
    """A rotation, an origin and a factor that take points to a world made for people.

    Args:
        images: poses of the photos as they are stored, with the median depth of their points.
        quarters: turns to the right that make each upright.
        up: [3].
    """
    turns = np.array([image["R"] for image in images])
    eyes = -np.einsum("bji,bj->bi", turns, np.array([image["t"] for image in images]))
    ahead = turns[:, 2]
    across = np.eye(3) - ahead[:, :, None] * ahead[:, None]
    # The point that is nearest to all optical axes, and a little to what is seen along each: axes
    # of a drone that looks down, or of photos along a front, meet nowhere, or far behind it.
    seen = eyes + ahead * np.array([[image["depth"]] for image in images])
    system = across.sum(0) + _SEEN * len(images) * np.eye(3)
    centre = np.linalg.solve(system, ((across @ eyes[..., None])[..., 0] + _SEEN * seen).sum(0))
    # What is above it, too, in place of what is ahead of one that looks down.
    above: Matrix = turns[0].T @ SIDES[quarters[0]]
    aside: Matrix = np.cross(up, -ahead[0] - above)
    aside /= max(float(np.linalg.norm(aside)), 1e-12)
    turn: Matrix = np.stack([aside, up, np.cross(aside, up)])
    if abs(np.linalg.det(turn) - 1) > 1e-6:  # cameras that stand on their heads in turn
        turn = np.eye(3)
    far = float(np.median(np.linalg.norm(eyes - centre, axis=1)))
    return turn, centre, _DISTANCE / max(far, 1e-12)


def _entry(
    name: str,
    image: dict[str, Any],
    scale: tuple[float, float],
    world: tuple[Matrix, Matrix, float],
) -> dict[str, Any]:
    """What a file of OpenCV's matrices says of a photo; a lens of (SIMPLE_)RADIAL, or a fisheye."""
    focal, cx, cy, *bends = image["params"]
    width, height = image["size"]
    x, y = scale
    turn, centre, factor = world
    rotation, shift = np.array(image["R"]), np.array(image["t"])
    # COLMAP's fisheye of two coefficients is OpenCV's with the other two 0.
    fisheye = {"camera_model": "OPENCV_FISHEYE"} if image["model"].endswith("FISHEYE") else {}
    return {
        "file": name,
        **fisheye,
        "width": round(width * x),
        "height": round(height * y),
        "K": [[focal * x, 0, cx * x], [0, focal * y, cy * y], [0, 0, 1]],
        "dist": [*bends, 0.0, 0.0] if fisheye else bends,
        "R": (rotation @ turn.T).tolist(),
        "t": (factor * (shift + rotation @ centre)).tolist(),
    }
