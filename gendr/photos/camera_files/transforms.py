"""Reading the cameras of an image folder: its frames, their files, lenses and poses.

`gendr.photos.views` describes the format of transforms files. Other formats are turned into it. No
file outside the folder is read, neither by its name nor through a link.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from gendr._common.checks import shape_text
from gendr._common.texts import find_file, first_few
from gendr.mesh.files.reports import warn_caller
from gendr.photos.camera_files.colmap import find_model, lenses_of, read_model
from gendr.photos.camera_files.known import (
    LAYOUT,
    UnknownError,
    UnreadError,
    find_known,
    find_unread,
    read_known,
)
from gendr.photos.camera_files.lenses import BENDS, Lens
from gendr.photos.camera_files.opencv import OPENCV, from_opencv_json, rigid
from gendr.photos.camera_files.photos import (
    IMAGES,
    SMALLER,
    Index,
    Masks,
    is_inside,
    is_photo,
    mask_beside,
    output_names,
    within,
)
from gendr.photos.camera_files.projections import (
    PROJECTIONS,
    find_projections,
    from_projections,
    is_projections,
)
from gendr.photos.images import QUARTERS, UNDONE, read_orientation, read_size

TRANSFORMS = ("transforms.json", "transforms_train.json")
# What lenses are called, and the kinds of these.
_MODELS = dict.fromkeys(
    ("PINHOLE", "SIMPLE_PINHOLE", "PERSPECTIVE", "OPENCV", "FULL_OPENCV", "RADIAL",
     "SIMPLE_RADIAL"), "radial",
) | dict.fromkeys(
    ("OPENCV_FISHEYE", "SIMPLE_RADIAL_FISHEYE", "RADIAL_FISHEYE", "FISHEYE", "SIMPLE_FISHEYE"),
    "fisheye",
) | {"FOV": "fov"}  # fmt: skip
# What makes a lens of another kind, if it is not 0, an empty list or false: for all frames or one.
_KINDS = ("ftheta_p0", "latlong", "equirectangular", "orthographic")
# Of which `colmap image_undistorter` leaves the photos as they are, without a word.
_ALL_AROUND = {"latlong", "equirectangular", "spherical", "cylindrical"}
# Of lines of a photo that are taken one after the other: of instant-ngp and of nerfstudio.
_ROLLING = ("rolling_shutter", "rolling_shutter_time")
# Coefficients of no kind of lens that is known here.
_BENT = ("tx", "ty", "sx1", "sy1", "b1", "b2", "p3", "p4")
_LISTS = ("distortion_params", "distortion", "distortion_coefficients", "dist", "distCoeffs",
          "dist_coeffs", "D")  # fmt: skip


@final
@dataclass(frozen=True)
class TransformsFrame:
    """A frame of the transforms file, and the sizes from the headers of its images.

    Attributes:
        entry: The entry of the frame in the JSON file.
        name: The name of the frame in the file.
        where: The file and the name, for messages.
        image: The path of its image.
        mask: The path of its mask; None if the mask is in the image.
        size: (H, W) of image and mask, turned.
        turn: How the image is turned before anything else, 1 to 8 as EXIF has it; 1 for not at all.
        mask_turn: How its mask is.
        quarters: Quarter turns to the right that make the image upright, as EXIF data have it.
    """

    entry: dict[str, Any]
    name: str
    where: str
    image: Path
    mask: Path | None
    size: tuple[int, int]
    turn: int = 1
    mask_turn: int = 1
    quarters: int = 0


class NoCamerasError(ValueError):
    """A folder says nothing of the cameras of its photos.

    Attributes:
        unread: What is to be said of files of cameras in it that are not read.
    """

    def __init__(self, message: str, unread: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.unread = tuple(unread)


@final
@dataclass(frozen=True)
class Cameras:
    """What a file says about the cameras of a folder.

    Attributes:
        file: The file, for messages.
        root: The folder, which holds all images and masks.
        meta: The content of a transforms file.
        masks: Another folder, of masks with the names of the images; None for those in `root`.
    """

    file: Path
    root: Path
    meta: dict[str, Any]
    masks: Path | None = None


def read_cameras(path: Path, file: Path | None = None) -> Cameras:
    """The cameras of a folder, or of a file, whose folder is that of the images.

    With a `file`, the cameras are those of this file, wherever it lies, for the folder; it may also
    be the folder of a model of COLMAP.

    In a folder the first of these is read: transforms.json or transforms_train.json; a model of
    COLMAP; cameras.json; files of projection matrices; files of other programs (`known`).

    Raises:
        NoCamerasError: If there are none, or only such that are not read.
        ValueError: If they are damaged.
    """
    if not path.exists():
        raise ValueError(f"{path} does not exist; give an image folder or its transforms.json")
    if file is not None:
        return _of_file(file, path if path.is_dir() else path.parent)
    if not path.is_dir():
        return _of_file(path, path.parent)
    for name in TRANSFORMS:
        if (path / name).is_file():
            with suppress(UnreadError):  # named below, if no other is there
                return _of_file(within(path / name, path), path)
    model = find_model(path)
    if model is not None:
        for part in (model, lenses_of(model)):
            within(part, path)
        return Cameras(model, path, read_model(model, path))
    names = [p.name for p in path.iterdir() if is_photo(p)]
    matrices = find_projections(path, names)
    for found in find_known(path, before=bool(matrices)):
        # Data sets of all kinds have a file of this name.
        with suppress(UnreadError, *[UnknownError] if found.name == "metadata.json" else ()):
            return _of_file(within(found, path), path)
    if matrices:
        for part in matrices:
            within(part, path)
        return _of_matrices(matrices, path, names)
    if unread := find_unread(path):
        raise NoCamerasError(f"{path} has no cameras that are read: {'; '.join(unread)}", unread)
    count = len(Index(path))
    if not count:
        raise NoCamerasError(f"{path} holds no photos; give the folder that holds them")
    raise NoCamerasError(
        f"image folder without poses: {path} holds {count} images but no transforms.json, model of "
        f"COLMAP (sparse/0), {OPENCV}, *_Ps.mat, *_par.txt, {PROJECTIONS} or file of another "
        f"program that is read (docs/camera-files.md); of transforms.json: {LAYOUT}"
    )


def _of_file(file: Path, root: Path) -> Cameras:
    """The cameras in a file, or in the folder of a model of COLMAP."""
    if file.is_dir() or file.name in ("images.txt", "images.bin"):
        model = find_model(file) if file.is_dir() else file
        if model is None:
            raise ValueError(f"{file} holds no model of COLMAP (images.bin or images.txt)")
        return Cameras(model, root, read_model(model, root))
    if is_projections(file):
        names = [p.name for p in root.iterdir() if is_photo(p)]
        return _of_matrices([file], root, names)
    return Cameras(file, root, read_known(file, root))


def _of_matrices(files: list[Path], root: Path, names: list[str]) -> Cameras:
    meta = from_opencv_json(files[0], from_projections(files, names))
    return Cameras(files[0], root, meta)


def list_frames(cameras: Cameras, max_megapixels: float) -> list[TransformsFrame]:
    """All frames whose photos are there; checks that image and mask have one size.

    Warns of photos that the file names and the folder does not hold.
    """
    file, root = cameras.file, cameras.root
    frames: list[TransformsFrame] = []
    missing: list[str] = []
    unclear: list[str] = []
    masks = Masks(root, cameras.masks)
    by_name: dict[Path, Path] = {}  # masks that were found by their names, and whose they are
    taken: dict[Path, tuple[int, Any]] = {}  # photos, and which frame has them, with its pose
    for i, entry in enumerate(cameras.meta["frames"]):
        if not isinstance(entry, dict) or not isinstance(entry.get("file_path"), str):
            raise ValueError(f"{file}: frame {i} has no file_path; {LAYOUT}")
        name = entry["file_path"]
        where = f"{file}: frame {i} ({name})"
        image = _find_image(root, name, where)
        if image is None:
            start, _, rest = name.rpartition("images/")
            smaller = [f"{start}{place}/{rest}" for place in SMALLER] if rest != name else []
            found = (_find_image(root, each, where) for each in smaller)
            image = next((file for file in found if file is not None), None)
        if image is None:
            missing.append(name)
            continue
        pose = entry.get("transform_matrix")
        other, before = taken.setdefault(image, (i, pose))
        if before != pose:
            raise ValueError(
                f"{where}: frame {other} has this photo too, with another pose; photos of equal "
                "names must lie in folders of their own, by whose names the file tells them apart"
            )
        mask_path = entry.get("mask_path")
        if cameras.masks is None and mask_path:
            mask = _find_image(root, str(mask_path), where)
            if mask is None:
                raise ValueError(f"{where}: no such mask: {root / str(mask_path)}")
        else:
            mask = masks.of(image)
            if mask is not None and by_name.setdefault(mask, image) != image:
                raise ValueError(
                    f"{mask} would be the mask of {by_name[mask]} and of {image}; name masks by "
                    f"folder and whole name, as in {output_names([by_name[mask], image])[1]}.png"
                )
        size = read_size(image, max_megapixels)
        of_mask = size if mask is None else read_size(mask, max_megapixels)
        turn = mask_turn = 1
        found = read_orientation(image, max_megapixels)
        if size[0] != size[1] and found > 4:
            # As in most tools photos are as they are stored, unless the file says otherwise.
            if _is_for_turned(cameras.meta, entry, size):
                turn, size = found, (size[1], size[0])
            if of_mask == size[::-1]:
                # A mask of the photo as people see it, or else as it is stored.
                mask_turn, of_mask = UNDONE.get(found, found) if turn == 1 else found, size
        if of_mask != size:
            raise ValueError(
                f"masks must be as large as their image, got {size_text(of_mask)} in {mask} "
                f"and {size_text(size)} in {image}"
            )
        if found > 1 and mask is not None and (found < 5 or size[0] == size[1]):
            if read_orientation(mask, max_megapixels) != found:
                unclear.append(image.name)
        quarters = QUARTERS.get(found, 0) if turn == 1 else 0
        turns = turn, mask_turn, quarters
        frames.append(TransformsFrame(entry, name, where, image, mask, size, *turns))
    _warn_of_missing(cameras, missing)
    if len({str(frame.entry.get("time")) for frame in frames}) > 1:  # D-NeRF, nerfstudio
        warn_caller(f"{file} has photos of several times: what moves is taken to stand still")
    rolling = [_given(cameras.meta, frame.entry, key) for frame in frames for key in _ROLLING]
    if any(any(each) if isinstance(each, list) else each for each in rolling):
        warn_caller(f"{file} has a rolling shutter, which is taken for one moment")
    if cameras.meta.get("fisheye_crop_radius"):
        warn_caller(f"{file}: fisheye_crop_radius is not used; give masks for what is to count")
    beside = next((f.mask for f in frames if f.mask and f.mask == mask_beside(f.image)), None)
    if beside is not None and cameras.masks is None:
        warn_caller(f"masks that lie beside their photos are used: {beside.name}, ...")
    hidden = (f.image.with_name(f"dynamic_mask_{f.image.stem}.png") for f in frames)
    if (found := next((mask for mask in hidden if mask.is_file()), None)) is not None:
        warn_caller(f"masks of instant-ngp, of what moves, are not used: {found}, ...")
    if unclear and cameras.masks is None:
        warn_caller(
            f"EXIF data turn {first_few(unclear)} in a way that no size shows: masks are taken for "
            "those of the photos as they are stored, as gendr masks writes them"
        )
    return frames


def _warn_of_missing(cameras: Cameras, missing: list[str]) -> None:
    if not missing:
        return
    count, first = len(cameras.meta["frames"]), first_few(missing)
    if len(missing) == count:
        raise ValueError(
            f"{cameras.file}: no such image: of the {count} photos that it names none is in "
            f"{cameras.root} ({first})"
        )
    warn_caller(
        f"{cameras.file} names {len(missing)} of {count} photos that are not in {cameras.root}, "
        f"and which are left out: {first}"
    )


def _is_for_turned(meta: dict[str, Any], entry: dict[str, Any], size: tuple[int, int]) -> bool:
    """Whether w and h are those of a photo (H, W) after a turn by 90 degrees."""
    w, h = _given(meta, entry, "w"), _given(meta, entry, "h")
    if not all(type(side) in (int, float) and 0 < side < math.inf for side in (w, h)):
        return False  # if it is wrong, the reader of lenses says so
    return _is_multiple((h, w), (size[1], size[0])) and not _is_multiple((w, h), (size[1], size[0]))


def _find_image(root: Path, name: str, where: str) -> Path | None:
    """The image file of a frame, whose name may lack the extension; None if there is none."""
    spelled = name.replace("\\", "/")
    if not is_inside(root / name, root) or not is_inside(root / spelled, root):
        raise ValueError(
            f"{where}: {name:.80} is outside of the folder {root}, from which alone images are read"
        )
    suffixes = ("",) if Path(spelled).suffix.lower() in IMAGES else ("", *IMAGES)
    for suffix in suffixes:
        found = find_file(root, name + suffix)
        if found is not None:
            return within(found, root)
    return None


def _given(meta: dict[str, Any], frame: dict[str, Any], key: str) -> Any:
    """What the entry of the frame says, or else the top level of the file; None if neither does."""
    value = frame.get(key)
    return meta.get(key) if value is None else value


def lens_of(meta: dict[str, Any], frame: TransformsFrame) -> Lens:
    """The lens of a frame, in pixels of its image."""
    entry, where = frame.entry, frame.where

    def number(key: str) -> float | None:
        value = _given(meta, entry, key)
        if value is None:
            return None
        finite = isinstance(value, (int, float)) and abs(value) <= sys.float_info.max
        if isinstance(value, bool) or not finite:
            raise ValueError(f"{where}: {key} must be a finite number, got {value!r:.40}")
        return float(value)

    kind, bend = _bend(meta, frame, number)
    w, h = _calibrated_size(frame, number("w"), number("h"))
    if _given(meta, entry, "from_mitsuba") or _given(meta, entry, "normal_mts_args"):
        raise ValueError(f"{where}: the axes of from_mitsuba are not read; write OpenGL's")
    fx, fy = number("fl_x"), number("fl_y")
    lengths, angles = ("fl_x", "fl_y"), ("camera_angle_x", "camera_angle_y")
    own = [any(entry.get(key) is not None for key in keys) for keys in (lengths, angles)]
    if own == [False, True]:  # what the frame says comes before what is said of all
        fx = fy = None

    def focal(key: str, side: float, straight: float, unit: str) -> float | None:
        angle = number(key)
        if angle is not None and not 0 < angle < straight:
            most = "pi" if straight == math.pi else "180"
            raise ValueError(f"{where}: {key} must be in (0, {most}) {unit}, got {angle:g}")
        return None if angle is None else side / (2 * math.tan(angle / straight * math.pi / 2))

    fx = focal("camera_angle_x", w, math.pi, "radians") if fx is None else fx
    fy = focal("camera_angle_y", h, math.pi, "radians") if fy is None else fy
    # In degrees of instant-ngp, which come before all others there.
    fx = focal("x_fov", w, 180.0, "degrees") or fx
    fy = focal("y_fov", h, 180.0, "degrees") or fy
    fx = fy if fx is None else fx
    fy = fx if fy is None else fy
    if fx is None or fy is None:
        raise ValueError(f"{where}: no intrinsics; give camera_angle_x or fl_x (fl_y, cx, cy)")
    if min(fx, fy) <= 0:
        raise ValueError(f"{where}: focal lengths must be > 0, got {fx:g}, {fy:g}")
    cx, cy = number("cx"), number("cy")
    cx, cy = w / 2 if cx is None else cx, h / 2 if cy is None else cy
    lens = Lens(fx, fy, cx, cy, number("skew") or 0.0, kind, bend)
    return lens.scaled(frame.size[1] / w, frame.size[0] / h)


def _bend(
    meta: dict[str, Any], frame: TransformsFrame, number: Callable[[str], float | None]
) -> tuple[str, tuple[float, ...]]:
    """The kind of a lens, and its coefficients.

    Raises:
        ValueError: If it is of no kind that is known here, or has other coefficients too.
    """
    entry, where = frame.entry, frame.where
    model = _given(meta, entry, "camera_model") or "PINHOLE"
    kind = _MODELS.get(str(model).upper())
    others = [name for name in _KINDS if _given(meta, entry, name)]
    if kind is None:
        others.insert(0, f"{model:.40}" if isinstance(model, str) else f"{model!r:.40}")
    if kind is None or others:
        advice = "undistort the images first"
        if others[0].lower() in _ALL_AROUND:
            advice = (
                "they look all around, and no undistortion makes that flat: cut views of at most "
                "100 degrees out of them first, as panorama_sfm.py of COLMAP does"
            )
        raise ValueError(f"{where}: lenses of the kind {others[0]} are not supported; {advice}")
    if _given(meta, entry, "is_fisheye"):
        kind = "fisheye"
    own = set(BENDS[kind])
    if kind == "radial" and str(model).upper() != "FULL_OPENCV":
        own -= {"k4", "k5", "k6"}  # of a denominator, or of the next powers
    for key in (*_LISTS, *sorted({*_BENT, *sum(BENDS.values(), ())} - own)):
        if _is_bent(_given(meta, entry, key)):
            raise ValueError(
                f"{where}: lens distortion ({key}) is not supported for a {kind} lens, which may "
                f"have {', '.join(sorted(own))}; undistort the images first and set it to 0"
            )
    bend = tuple(number(key) or 0.0 for key in BENDS[kind])
    # Without its coefficient a FOV lens is the pinhole that it tends to.
    return ("radial", Lens.bend) if kind == "fov" and not bend[0] else (kind, bend)


def _calibrated_size(
    frame: TransformsFrame, w: float | None, h: float | None
) -> tuple[float, float]:
    """The width and height that the intrinsics refer to: the size of the image or a multiple."""
    height, width = frame.size
    for key, side in (("w", w), ("h", h)):
        if side is not None and side <= 0:
            raise ValueError(f"{frame.where}: {key} must be > 0, got {side:g}")
    if w is None or h is None:
        factor = w / width if w is not None else h / height if h is not None else 1.0
        return factor * width, factor * height
    if not _is_multiple((w, h), (width, height)):
        hint = "intrinsics must be those of the image, or of the same image at another size"
        if _is_multiple((h, w), (width, height)):
            hint = "one of them is turned, and no EXIF data say how"
        raise ValueError(
            f"{frame.where}: the file says w x h = {w:g} x {h:g}, but {frame.image.name} has "
            f"{width} x {height} pixels; {hint}"
        )
    return w, h


def _is_multiple(size: tuple[float, float], image: tuple[int, int]) -> bool:
    """Whether the image has this size up to one factor, with sides rounded to whole pixels."""
    low = max((side - 1) / whole for side, whole in zip(image, size, strict=True))
    high = min((side + 1) / whole for side, whole in zip(image, size, strict=True))
    return low < high


def _is_bent(value: Any) -> bool:
    """Whether a coefficient, or any of a list of them, is not 0."""
    if isinstance(value, (list, tuple)):
        return any(map(_is_bent, value))
    return value not in (None, 0)


def pose_of(frame: TransformsFrame) -> npt.NDArray[np.float64]:
    """The [4, 4] camera-to-world matrix of a frame, its rotation made exactly orthonormal."""
    where = frame.where
    if "transform_matrix" not in frame.entry:
        raise ValueError(f"{where}: no transform_matrix, the 4 x 4 pose, camera to world")
    try:
        matrix = np.asarray(frame.entry.get("transform_matrix"), dtype=np.float64)
    except (TypeError, ValueError, OverflowError):  # OverflowError: an integer of 400 digits
        matrix = np.zeros(())
    if matrix.shape not in ((4, 4), (3, 4)):
        raise ValueError(
            f"{where}: transform_matrix must be 4 x 4 numbers, got shape {shape_text(matrix.shape)}"
        )
    matrix = rigid(matrix, "transform_matrix", where)
    u, _, v = np.linalg.svd(matrix[:, :3])
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = u @ v, matrix[:, 3]
    return pose


def size_text(shape: Sequence[int]) -> str:
    """The text "width x height" of a shape (H, W)."""
    return f"{shape[1]} x {shape[0]}"
