"""Image folders with poses, as NeRF tools write them, and where their object is.

The layout: `transforms.json` beside the images, with `frames` that carry `file_path` and
`transform_matrix` (camera to world, OpenGL: x right, y up, looking along -z), and intrinsics, for
all or per frame: `camera_angle_x` (full horizontal angle, radians) or `fl_x fl_y cx cy w h`
(pixels; the first pixel's centre is at 0.5). The world is kept as it is, also where z points up.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gendr._runtime.checks import (
    check_finite,
    check_float,
    check_like,
    check_shape,
    dtype_name,
    shape_text,
)
from gendr.mesh.cameras import Camera
from gendr.mesh.images import MAX_MEGAPIXELS, Picture, Planes, open_image, read_size, resized
from gendr.mesh.rotations import ORTHONORMAL

__all__ = ["Views", "load_views", "save_views", "view_sizes", "view_volume", "visual_sphere"]

_TRANSFORMS = ("transforms.json", "transforms_train.json")
_IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp")
_LAYOUT = (
    "it must hold frames, each with file_path and transform_matrix (4 x 4, camera to world, "
    "OpenGL), and camera_angle_x or fl_x"
)
_PINHOLES = ("PINHOLE", "SIMPLE_PINHOLE", "PERSPECTIVE", "OPENCV", "RADIAL", "SIMPLE_RADIAL")

# Lens distortion below this many pixels at the image's corner is treated as none.
_DISTORTION_PIXELS = 0.25
# Mask values below this are noise (JPEG), which over a large image would outweigh a small object.
_NOISE = 0.1
# A mask that runs along the image border for this part of its outline counts as cut off.
_CUT = 0.05
# How little a cut mask, whose centroid is biased, counts against a whole one.
_CUT_WEIGHT = 0.05
# Mean squared sine between lines of sight below which their meeting point has no depth: 0.2 deg.
_PARALLEL = 1e-5


@final
@dataclass(frozen=True, eq=False)
class Views:
    """Images of one object from B known cameras.

    Attributes:
        masks: [B, H, W] in [0, 1]; soft edges are kept.
        rgb: [B, 3, H, W] in [0, 1], the object over black (colour times mask, as a renderer with
            the default background shows it); None if the images are masks.
        camera: B cameras.
        names: What the file calls the frames.
    """

    masks: Tensor
    rgb: Tensor | None
    camera: Camera
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        height, width = self.image_size
        parts = [f"{len(self)} image{'s' if len(self) != 1 else ''}", f"{width}×{height}"]
        parts += ["masks" if self.rgb is None else "rgb", dtype_name(self.masks.dtype)]
        return f"Views({', '.join(parts)}, {self.masks.device})"

    @property
    def image_size(self) -> tuple[int, int]:
        """(H, W)."""
        return self.masks.shape[1], self.masks.shape[2]

    def __getitem__(self, index: int | slice | Sequence[int]) -> Views:
        """The views at `index`: an int (a batch of one), a slice or a list."""
        where = list(range(len(self)))
        if isinstance(index, slice):
            chosen = where[index]
        else:
            chosen = [where[i] for i in ([index] if isinstance(index, int) else index)]
        return Views(
            self.masks[chosen],
            None if self.rgb is None else self.rgb[chosen],
            self.camera[chosen],
            tuple(self.names[i] for i in chosen),
        )

    def to(self, *args: Any, **kwargs: Any) -> Views:
        """The same views in another dtype or on another device, as `Tensor.to`."""
        return Views(
            self.masks.to(*args, **kwargs),
            None if self.rgb is None else self.rgb.to(*args, **kwargs),
            self.camera.to(*args, **kwargs),
            self.names,
        )


# ---------------------------------------------------------------------------------------------
# reading


@final
@dataclass(frozen=True)
class _Frame:
    """A frame of the transforms file, with what the headers of its images say.

    Attributes:
        entry: What the file says about it.
        name: What the file calls it.
        where: The same for messages, with the file.
        image: Its image.
        mask: The image of its mask; None if that is in the image.
        size: (H, W) of both.
    """

    entry: dict[str, Any]
    name: str
    where: str
    image: Path
    mask: Path | None
    size: tuple[int, int]


def load_views(
    path: str | Path,
    *,
    size: int | tuple[int, int] | None = None,
    max_megapixels: float = MAX_MEGAPIXELS,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Views:
    """Read a folder of images with masks and poses.

    The mask of a frame is, in this order: the image at its `mask_path`; the image of its name in a
    folder `masks` beside the transforms file or beside the folder of the image; its alpha channel;
    the image itself if it is grey.

    Every image is shrunk as it is read: with a size, memory holds one decoded photo at a time.
    Pixels are taken as they lie in the file; an orientation in the EXIF data of a JPEG is not
    applied, as NeRF tools do not either.

    Args:
        path: The folder (with `transforms.json` or `transforms_train.json`) or the JSON file.
        size: Resize to this shorter side, or to (H, W), by averages over areas; intrinsics follow.
            By default images keep their size, which must be the same for all.
        max_megapixels: The largest image that is read, in million pixels; what is larger is
            refused before it is decoded.
        dtype: float32 or float64.
        device: Where the tensors live.

    Raises:
        ValueError: If the folder, the transforms file, an image or a mask is missing, unreadable or
            too large, sizes differ, `w` and `h` do not fit the image, a mask is empty, a pose is no
            rotation and translation, intrinsics are missing, or the lens is not a pinhole.
    """
    if dtype not in (torch.float32, torch.float64):
        raise TypeError(f"dtype must be float32 or float64, got {dtype}")
    file, meta = _read_transforms(Path(path))
    frames = _list_frames(file, meta, max_megapixels)
    targets = [_target_size(frame.size, size) for frame in frames]
    for frame, target in zip(frames, targets, strict=True):
        if target == targets[0]:
            continue
        if size is not None:
            raise ValueError("images of different shapes need size=(H, W), not one number")
        raise ValueError(
            f"masks must be of one size, got {_size(frames[0].size)} in {frames[0].image} and "
            f"{_size(frame.size)} in {frame.image}; give size=(H, W) to resize them"
        )
    poses = [_pose(frame) for frame in frames]
    lenses = [_intrinsics(meta, frame, targets[0]) for frame in frames]
    masks, rgb = _read_frames(file, frames, targets[0], max_megapixels, dtype, device)
    camera = Camera.from_opengl(camera_to_world=torch.from_numpy(np.stack(poses)), fov=30.0)
    k = torch.tensor(lenses, dtype=torch.float64)
    pixels = Camera.from_intrinsics(
        image_size=targets[0],
        fx=k[:, 0],
        fy=k[:, 1],
        cx=k[:, 2],
        cy=k[:, 3],
        rotation=camera.rotation,
        translation=camera.translation,
    )
    return Views(masks, rgb, pixels.to(device, dtype), tuple(frame.name for frame in frames))


def view_sizes(
    path: str | Path, *, max_megapixels: float = MAX_MEGAPIXELS
) -> list[tuple[int, int]]:
    """(H, W) of every image that `load_views` would read, from their headers.

    Args:
        path: As for `load_views`.
        max_megapixels: As for `load_views`.

    Raises:
        ValueError: If the folder, the transforms file, an image or a mask is missing or too large,
            or an image and its mask differ in size.
    """
    file, meta = _read_transforms(Path(path))
    return [frame.size for frame in _list_frames(file, meta, max_megapixels)]


def _read_transforms(path: Path) -> tuple[Path, dict[str, Any]]:
    """The transforms file of a folder, or the file itself, and what it holds."""
    if not path.exists():
        raise ValueError(f"{path} does not exist; give an image folder or its transforms.json")
    file = path
    if path.is_dir():
        found = [path / name for name in _TRANSFORMS if (path / name).is_file()]
        if not found:
            count = sum(p.suffix.lower() in _IMAGES for p in path.rglob("*"))
            raise ValueError(
                f"image folder without poses: {path} holds {count} images but no transforms.json; "
                f"{_LAYOUT}"
            )
        file = found[0]
    try:
        meta = json.loads(file.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError(f"{file} is no transforms file: its JSON is nested too deeply") from None
    except ValueError as error:  # no JSON, no UTF-8, or a number of thousands of digits
        raise ValueError(f"{file} is no JSON file: {error}") from None
    frames = meta.get("frames") if isinstance(meta, dict) else None
    if not isinstance(frames, list) or not frames:
        raise ValueError(f"{file} has no frames; {_LAYOUT}")
    return file, meta


def _list_frames(file: Path, meta: dict[str, Any], max_megapixels: float) -> list[_Frame]:
    """All frames, with their files found and of fitting sizes."""
    frames: list[_Frame] = []
    for i, entry in enumerate(meta["frames"]):
        if not isinstance(entry, dict) or not isinstance(entry.get("file_path"), str):
            raise ValueError(f"{file}: frame {i} has no file_path; {_LAYOUT}")
        name = entry["file_path"]
        where = f"{file}: frame {i} ({name})"
        image = _find_image(file.parent, name, where)
        given = entry.get("mask_path")
        mask = (
            _find_image(file.parent, str(given), where) if given else _find_mask(file.parent, image)
        )
        size = read_size(image, max_megapixels)
        of_mask = size if mask is None else read_size(mask, max_megapixels)
        if of_mask != size:
            raise ValueError(
                f"masks must be as large as their image, got {_size(of_mask)} in {mask} "
                f"and {_size(size)} in {image}"
            )
        frames.append(_Frame(entry, name, where, image, mask, size))
    return frames


def _find_image(root: Path, name: str, where: str) -> Path:
    """The file of a frame; its name may lack the extension."""
    for candidate in (root / name, *(root / (name + suffix) for suffix in _IMAGES)):
        if candidate.is_file():
            return candidate
    raise ValueError(f"{where}: no such image: {root / name} (nor with .png, .jpg, ...)")


def _find_mask(root: Path, image: Path) -> Path | None:
    """The mask of an image in a parallel folder `masks`; None if there is no such folder."""
    folders = {root / "masks", image.parent.parent / "masks"}
    folders = sorted(folder for folder in folders if folder.is_dir() and folder != image.parent)
    if not folders:
        return None
    stem = image.with_suffix("").name
    for folder in folders:
        try:
            inside = image.relative_to(root).parent
        except ValueError:  # an absolute path in the file
            inside = Path()
        for place in (folder, folder / inside, folder / Path(*inside.parts[1:])):
            for name in (*(stem + s for s in _IMAGES), *(image.name + s for s in _IMAGES)):
                if (place / name).is_file():
                    return place / name
    raise ValueError(f"no mask for {image} in {folders[0]}; want {stem}.png there")


def _read_frames(
    file: Path,
    frames: Sequence[_Frame],
    size: tuple[int, int],
    max_megapixels: float,
    dtype: torch.dtype,
    device: torch.device | str,
) -> tuple[Tensor, Tensor | None]:
    """Masks [B, *size] and, if all frames have them, colours [B, 3, *size] over black."""
    like: dict[str, Any] = {"dtype": dtype, "device": device}
    masks = torch.empty(len(frames), *size, **like)
    rgb: Tensor | None = torch.empty(len(frames), 3, *size, **like)
    empty: list[str] = []
    for i, frame in enumerate(frames):
        planes, highest = _read_planes(frame, size, max_megapixels)
        if highest < _NOISE:
            empty.append(frame.name)
        masks[i] = torch.from_numpy(planes[0])
        if len(planes) == 1:
            rgb = None
        elif rgb is not None:
            rgb[i] = torch.from_numpy(planes[1:])
    if empty:
        # It would pull the whole object out of that view; and where it is right, the other views
        # say the same, so that nothing is lost without it.
        shown = ", ".join(empty[:5]) + (", ..." if len(empty) > 5 else "")
        count = "all" if len(empty) == len(frames) else f"{len(empty)} of"
        raise ValueError(
            f"{file}: {count} {len(frames)} masks are empty ({shown}); mend them, or leave out the "
            "frames that do not show the object"
        )
    if bool((masks == 1).all()):
        raise ValueError(
            f"{file}: no mask: every image is opaque all over; give images with transparency, "
            "mask_path, or a folder masks"
        )
    return masks, rgb


def _read_planes(
    frame: _Frame, size: tuple[int, int], max_megapixels: float
) -> tuple[Planes, float]:
    """Mask and, unless the image is one, RGB over black: [1 or 4, *size] in [0, 1].

    Returns:
        They, and the largest value of the mask at its full size.
    """
    with open_image(frame.image, max_megapixels) as opened:
        image = Picture(opened)
        if frame.mask is None:
            return _masked(frame, image, image, size)
        with open_image(frame.mask, max_megapixels) as mask:
            return _masked(frame, image, Picture(mask), size)


def _masked(
    frame: _Frame, image: Picture, mask: Picture, size: tuple[int, int]
) -> tuple[Planes, float]:
    """The same of decoded pictures; they are multiplied at full size, then shrunk."""
    alpha = _mask_channel(frame, mask)
    highest = mask.highest(alpha) / mask.white
    if 0 < highest <= 1 / 255 + 1e-9:
        raise ValueError(
            f"{frame.mask or frame.image}: the mask holds only 0 and 1 of 255; multiply it by 255"
        )
    is_mask = mask is image and alpha == 0
    colors = [] if is_mask else [0, 1, 2] if image.channels > 2 else [0, 0, 0]

    def rows(start: int, stop: int) -> npt.NDArray[np.float64]:
        own = image.rows(start, stop)
        weight = own[alpha] if mask is image else mask.rows(start, stop)[alpha]
        planes = np.empty((1 + len(colors), *weight.shape))
        planes[0] = weight
        for plane, channel in zip(planes[1:], colors, strict=True):
            np.multiply(own[channel], weight, out=plane, dtype=np.float64)
        return planes

    planes = resized(rows, frame.size, size)
    planes[0] /= mask.white
    planes[1:] /= image.white * mask.white
    return planes.clip(0, 1), highest


def _mask_channel(frame: _Frame, picture: Picture) -> int:
    """The channel that is the mask: alpha, or the first of a grey picture."""
    if picture.channels in (2, 4):
        return picture.channels - 1
    if picture.is_grey:
        return 0
    if frame.mask is not None:
        raise ValueError(f"{frame.mask}: a mask must be grey or have an alpha channel, got colours")
    raise ValueError(
        f"{frame.where}: no mask: {frame.image.name} has no alpha channel and is not grey; give "
        "images with transparency, mask_path, or a folder masks"
    )


def _size(shape: Sequence[int]) -> str:
    """Width x height, as image tools write it."""
    return f"{shape[1]} x {shape[0]}"


def _target_size(shape: tuple[int, int], size: int | tuple[int, int] | None) -> tuple[int, int]:
    """(H, W) after resizing."""
    if size is None:
        return shape
    if isinstance(size, int):
        if size < 1:
            raise ValueError(f"size must be >= 1, got {size}")
        height, width = (max(1, round(n * size / min(shape))) for n in shape)
        return height, width
    if len(size) != 2 or min(size) < 1:
        raise ValueError(f"size must be an int or (H, W), got {size!r}")
    return int(size[0]), int(size[1])


def _number(meta: dict[str, Any], frame: dict[str, Any], key: str, where: str) -> float | None:
    """A number of the frame, else of the whole file."""
    value = frame.get(key, meta.get(key))
    if value is None:
        return None
    finite = isinstance(value, (int, float)) and abs(value) <= sys.float_info.max
    if isinstance(value, bool) or not finite:
        raise ValueError(f"{where}: {key} must be a finite number, got {value!r:.40}")
    return float(value)


def _intrinsics(
    meta: dict[str, Any], frame: _Frame, target: tuple[int, int]
) -> tuple[float, float, float, float]:
    """(fx, fy, cx, cy) in pixels of the target size, first pixel's centre at 0.5."""
    entry, where = frame.entry, frame.where

    def number(key: str) -> float | None:
        return _number(meta, entry, key, where)

    model = entry.get("camera_model", meta.get("camera_model", "PINHOLE"))
    if model not in _PINHOLES or entry.get("is_fisheye", meta.get("is_fisheye", False)):
        kind = model if model not in _PINHOLES else "fisheye"
        raise ValueError(f"{where}: the lens is {kind}, not a pinhole; undistort the images first")
    w, h = _calibrated_size(frame, number("w"), number("h"))
    fx, fy = number("fl_x"), number("fl_y")
    for axis, key, side in (("x", "camera_angle_x", w), ("y", "camera_angle_y", h)):
        angle = number(key)
        if angle is None or (fx if axis == "x" else fy) is not None:
            continue
        if not 0 < angle < math.pi:
            raise ValueError(f"{where}: {key} must be in (0, pi) radians, got {angle:g}")
        focal = side / (2 * math.tan(angle / 2))
        fx, fy = (focal, fy) if axis == "x" else (fx, focal)
    fx = fy if fx is None else fx
    fy = fx if fy is None else fy
    if fx is None or fy is None:
        raise ValueError(f"{where}: no intrinsics; give camera_angle_x or fl_x (fl_y, cx, cy)")
    if min(fx, fy) <= 0:
        raise ValueError(f"{where}: focal lengths must be > 0, got {fx:g}, {fy:g}")
    _check_undistorted(number, math.hypot(w / fx, h / fy) / 2, max(fx, fy), where)
    cx, cy = number("cx"), number("cy")
    cx, cy = w / 2 if cx is None else cx, h / 2 if cy is None else cy
    sx, sy = target[1] / w, target[0] / h
    return fx * sx, fy * sy, cx * sx, cy * sy


def _calibrated_size(frame: _Frame, w: float | None, h: float | None) -> tuple[float, float]:
    """Width and height that the intrinsics are meant for: those of the image, or a multiple."""
    height, width = frame.size
    for key, side in (("w", w), ("h", h)):
        if side is not None and side <= 0:
            raise ValueError(f"{frame.where}: {key} must be > 0, got {side:g}")
    if w is None or h is None:
        factor = w / width if w is not None else h / height if h is not None else 1.0
        return factor * width, factor * height
    if not _is_multiple((w, h), (width, height)):
        turned = _is_multiple((h, w), (width, height))
        hint = "intrinsics must be those of the image, or of the same image at another size"
        if turned:
            hint = "one of them is turned; an orientation in the EXIF data is not applied"
        raise ValueError(
            f"{frame.where}: the file says w x h = {w:g} x {h:g}, but {frame.image.name} has "
            f"{width} x {height} pixels; {hint}"
        )
    return w, h


def _is_multiple(size: tuple[float, float], image: tuple[int, int]) -> bool:
    """Whether the image can be that size times one factor, each side rounded to whole pixels."""
    low = max((side - 1) / whole for side, whole in zip(image, size, strict=True))
    high = min((side + 1) / whole for side, whole in zip(image, size, strict=True))
    return low < high


def _check_undistorted(number: Any, radius: float, focal: float, where: str) -> None:
    """Raise if the lens bends the corner, at `radius` from the axis, by a visible amount."""
    radial = [number(f"k{i}") or 0.0 for i in (1, 2, 3, 4, 5, 6)]
    bend = sum(abs(k) * radius ** (2 * i + 3) for i, k in enumerate(radial[:3]))
    bend += sum(abs(k) * radius ** (2 * i + 3) for i, k in enumerate(radial[3:]))
    bend += sum(3 * abs(number(key) or 0.0) * radius**2 for key in ("p1", "p2"))
    if bend * focal > _DISTORTION_PIXELS:
        raise ValueError(
            f"{where}: lens distortion (k1, k2, ..., p1, p2) of {bend * focal:.2g} pixels at the "
            "corner is not supported; undistort the images first and set them to 0"
        )


def _pose(frame: _Frame) -> npt.NDArray[np.float64]:
    """The [4, 4] camera-to-world matrix of a frame, its rotation made exact."""
    where = frame.where
    try:
        matrix = np.asarray(frame.entry.get("transform_matrix"), dtype=np.float64)
    except (TypeError, ValueError, OverflowError):  # OverflowError: an integer of 400 digits
        matrix = np.zeros(())
    if matrix.shape not in ((4, 4), (3, 4)):
        raise ValueError(
            f"{where}: transform_matrix must be 4 x 4 numbers, got shape {shape_text(matrix.shape)}"
        )
    if not np.isfinite(matrix).all():
        raise ValueError(f"{where}: transform_matrix holds NaN or inf")
    if len(matrix) == 4 and not np.allclose(matrix[3], (0, 0, 0, 1), rtol=0, atol=1e-6):
        raise ValueError(f"{where}: the last row of transform_matrix must be 0 0 0 1; transposed?")
    rotation = matrix[:3, :3]
    error = np.abs(rotation @ rotation.T - np.eye(3)).max()
    if error > ORTHONORMAL:
        raise ValueError(
            f"{where}: transform_matrix is not a rotation and translation: R R^T differs from the "
            f"identity by {error:.2g}; remove scale and shear"
        )
    if np.linalg.det(rotation) < 0:
        raise ValueError(f"{where}: transform_matrix is a mirror (determinant -1), not a rotation")
    u, _, v = np.linalg.svd(rotation)
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = u @ v, matrix[:3, 3]
    return pose


# ---------------------------------------------------------------------------------------------
# writing


def save_views(
    folder: str | Path,
    alpha: Tensor,
    camera: Camera,
    *,
    rgb: Tensor | None = None,
    names: Sequence[str] | None = None,
) -> Path:
    """Write a folder that `load_views` and NeRF tools read.

    Images are 8-bit PNGs: grey masks, or RGBA if there are colours.

    Args:
        folder: Made if it does not exist; files of the same names are replaced.
        alpha: [B, H, W] in [0, 1].
        camera: B perspective cameras, or one.
        rgb: [B, 3, H, W] in [0, 1], the object over black.
        names: File names without folder and extension; by default 000, 001, ...

    Returns:
        The path of transforms.json.

    Raises:
        ValueError: If shapes do not fit, or the cameras are orthographic.
    """
    from PIL import Image

    check_finite("alpha", check_float("alpha", alpha))
    sizes = check_shape("alpha", alpha, "[B, H, W]")
    batch, size = sizes["B"], (sizes["H"], sizes["W"])
    if rgb is not None:
        check_like("rgb", check_float("rgb", rgb), "alpha", alpha)
        check_shape("rgb", check_finite("rgb", rgb), "[B, 3, H, W]", **sizes)
    k = camera.expand(batch).intrinsics(size).detach().double().cpu()
    poses = camera.expand(batch).camera_to_world.detach().double().cpu()
    names = [f"{i:03d}" for i in range(batch)] if names is None else list(names)
    if len(names) != batch or len(set(names)) != batch:
        raise ValueError(f"names must be {batch} different ones, got {len(set(names))}")
    root = Path(folder)
    (root / "images").mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(names):
        a = alpha[i].detach().clamp(0, 1).cpu().double()
        image = a
        if rgb is not None:  # files hold the colour itself, not its product with alpha
            straight = rgb[i].detach().cpu().double() / a.clamp(min=1e-6)
            image = torch.cat([straight.clamp(0, 1), a[None]]).permute(1, 2, 0)
        pixels = (image * 255).round().to(torch.uint8).contiguous().numpy()
        Image.fromarray(pixels).save(root / "images" / f"{name}.png")
    lenses = [
        {
            "camera_angle_x": 2 * math.atan(size[1] / (2 * float(m[0, 0]))),
            "fl_x": float(m[0, 0]),
            "fl_y": float(m[1, 1]),
            "cx": float(m[0, 2]),
            "cy": float(m[1, 2]),
            "w": size[1],
            "h": size[0],
        }
        for m in k
    ]
    same = all(lens == lenses[0] for lens in lenses)
    frames = [
        {
            "file_path": f"images/{name}.png",
            "transform_matrix": pose.tolist(),
            **({} if same else lens),
        }
        for name, pose, lens in zip(names, poses, lenses, strict=True)
    ]
    file = root / _TRANSFORMS[0]
    text = json.dumps({**(lenses[0] if same else {}), "frames": frames}, indent=2)
    file.write_text(text + "\n", encoding="utf-8")
    return file


# ---------------------------------------------------------------------------------------------
# where the object is


def view_volume(camera: Camera) -> tuple[Tensor, Tensor]:
    """The largest sphere that all cameras see whole, about the point they look at.

    That point is where the optical axes meet, in the least-squares sense. If masks are at hand,
    `visual_sphere` knows better.

    Args:
        camera: B >= 2 cameras, not all parallel; square images are assumed.

    Returns:
        Centre [3] and radius [] in world units.

    Raises:
        ValueError: If the axes are parallel, meet behind the cameras, or a camera does not see
            their meeting point.
    """
    with torch.no_grad():
        exact = camera.to(torch.float64)
        weights = torch.ones_like(exact.eye[:, 0])
        centre, depthless = _meeting_point(exact.eye, exact.ahead, weights)
        if depthless is not None:
            raise ValueError(
                f"the optical axes of the {len(camera)} cameras are parallel and meet nowhere; "
                "place the sphere yourself, or by masks with visual_sphere"
            )
        x, y, z = exact.world_to_camera(centre[None])[:, 0].unbind(-1)
        _check_ahead(z)
        gaps = []
        for axis, along in ((0, x), (1, y)):
            f, c = exact.focal[:, axis], exact.principal[:, axis]
            for side in (-1, 1):  # distance to the plane x_ndc = side, > 0 within
                if exact.orthographic:
                    gaps.append((1 - side * (f * along + c)) / f)
                else:
                    inside = z - side * (f * along + c * z)
                    gaps.append(inside / torch.sqrt(f**2 + (side - c) ** 2))
        radius = torch.stack(gaps).amin()
        if float(radius) <= 0:
            raise ValueError("the point where the optical axes meet is not seen by all cameras")
        return centre.to(camera.dtype), radius.to(camera.dtype)


def visual_sphere(camera: Camera, masks: Tensor) -> tuple[Tensor, Tensor]:
    """Where the object of some masks is, and how large: a sphere to start a fit from.

    The centre is the point nearest, in the least-squares sense, to the lines through the centroids
    of the masks; the radius is the median over views of that of a sphere whose mask has the same
    second moment. Both are measured in solid angle, so they are exact for a sphere anywhere in
    view. Masks that the image border cuts count for little, and only as lower bounds of the radius
    if there are no others. If all lines are parallel (one view, say), the scale of the world is
    not determined, and the radius is chosen to be 1 for perspective cameras.

    Args:
        camera: B cameras.
        masks: [B, H, W] in [0, 1].

    Returns:
        Centre [3] and radius [] in world units, without gradient.

    Raises:
        ValueError: If shapes do not fit, all masks are empty, or the lines meet behind the cameras.
    """
    with torch.no_grad():
        check_finite("masks", check_float("masks", masks))
        sizes = check_shape("masks", masks, "[B, H, W]")
        exact = camera.expand(sizes["B"]).to(torch.float64)
        alpha = masks.to(exact.device, torch.float64)
        alpha = torch.where(alpha < _NOISE, 0.0, alpha)
        seen = alpha.flatten(1).amax(1) >= 0.5
        if not bool(seen.any()):
            raise ValueError(f"all {len(masks)} masks are empty; no view shows the object")
        exact, alpha = exact[seen], alpha[seen]
        whole = ~_is_cut(alpha)
        direction, origin, spread = _lines(exact, alpha)
        weights = torch.where(whole, 1.0, _CUT_WEIGHT).to(torch.float64)
        centre, depthless = _meeting_point(origin, direction, weights)
        if depthless is not None:
            # Nothing but the mask sizes speaks of depth: set the radius, or the distance.
            away = 1 / spread if not exact.orthographic else 1 + 3 * spread
            centre = centre + away.mean() * depthless
        distance = torch.linalg.vector_norm(centre - exact.eye, dim=-1)
        _check_ahead(exact.world_to_camera(centre[None])[:, 0, 2])
        radii = spread if exact.orthographic else distance * spread
        radius = radii[whole].quantile(0.5) if bool(whole.any()) else radii.amax()
        return centre.to(camera.dtype), radius.to(camera.dtype)


def _check_ahead(depth: Tensor) -> None:
    if float((depth > 0).double().mean()) <= 0.5:
        raise ValueError(
            "the lines of sight meet behind the cameras; is transform_matrix camera to world, "
            "in OpenGL's convention (the camera looks along -z)?"
        )


def _is_cut(alpha: Tensor) -> Tensor:
    """[B], whether a mask [B, H, W] runs along the image border, measured by its outline."""
    border = alpha[:, [0, -1], :].sum((1, 2)) + alpha[:, :, [0, -1]].sum((1, 2))
    outline = 2 * torch.sqrt(math.pi * alpha.sum((1, 2)))  # of a disc of that area
    return border > _CUT * outline


def _lines(camera: Camera, alpha: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The lines through the centroids of the masks, and how far the masks spread about them.

    Returns:
        Unit directions [B, 3], points on the lines [B, 3], and [B] the sine of the angle (the
        length, if orthographic) that a sphere of the same second moment would span.
    """
    batch, height, width = alpha.shape
    like: dict[str, Any] = {"dtype": alpha.dtype, "device": alpha.device}
    side = min(height, width)
    y = -(2 * torch.arange(height, **like) + 1 - height) / side
    x = (2 * torch.arange(width, **like) + 1 - width) / side
    xy = torch.cartesian_prod(y, x).flip(1)  # [H W, 2]
    spread = []
    directions, origins = [], []
    for i in range(batch):  # one view at a time: large images times many views would not fit
        weight = alpha[i].reshape(-1)
        plane = (xy - camera.principal[i]) / camera.focal[i]
        rotation = camera.rotation[i]
        if camera.orthographic:
            total = weight.sum()
            middle = weight @ plane / total
            variance = (weight @ (plane - middle).square().sum(-1)) / total
            spread.append((2 * variance).sqrt())  # of a disc: R^2 / 2
            directions.append(rotation[2])
            origins.append(camera.eye[i] + middle @ rotation[:2])
            continue
        slope = (plane.square().sum(-1) + 1).rsqrt()  # cosine to the optical axis
        weight = weight * slope**3  # solid angle of a pixel
        rays = torch.cat([plane, torch.ones_like(plane[:, :1])], 1) * slope[:, None]
        mean = weight @ rays / weight.sum()
        # Over the cap that a sphere covers, the mean ray has length (1 + cos) / 2.
        length = torch.linalg.vector_norm(mean)
        cosine = (2 * length - 1).clamp(-1, 1)
        spread.append((1 - cosine.square()).clamp(min=0).sqrt())
        directions.append(mean / length @ rotation)
        origins.append(camera.eye[i])
    return torch.stack(directions), torch.stack(origins), torch.stack(spread)


def _meeting_point(
    origin: Tensor, direction: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor | None]:
    """The point [3] nearest to lines [B, 3], by weighted least squares.

    Returns:
        The point; and None, or the direction [3] if all are nearly the same, along which the point
        could be anywhere (it is then the one nearest to the mean origin).
    """
    eye = torch.eye(3, dtype=origin.dtype, device=origin.device)
    across = eye - direction[:, :, None] * direction[:, None, :]
    weight = (weight / weight.sum())[:, None]
    # About the mean origin: a world far from 0 loses no digits.
    about = (weight * origin).sum(0)
    matrix = (weight[..., None] * across).sum(0)
    side = (weight * (across @ (origin - about)[..., None]).squeeze(-1)).sum(0)
    values, vectors = torch.linalg.eigh(matrix)
    inverse = torch.where(values < _PARALLEL, 0.0, 1 / values.clamp(min=_PARALLEL))
    point = about + vectors @ (inverse * (vectors.T @ side))
    mean = (weight * direction).sum(0)
    length = torch.linalg.vector_norm(mean)
    # Views from opposite sides are parallel too, but their object is between them, at the mean.
    free = bool(values[0] < _PARALLEL) and float(length) > 0.5
    return point, mean / length if free else None
