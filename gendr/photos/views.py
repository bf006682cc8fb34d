"""Reading and writing image folders with poses, in the format of NeRF tools.

Models of COLMAP (`gendr.photos.camera_files.colmap`) and OpenCV's matrices
(`gendr.photos.camera_files.opencv`) are read too.

The layout: `transforms.json` beside the images, with `frames` that carry `file_path` and
`transform_matrix` (camera to world, OpenGL: x right, y up, looking along -z), and intrinsics, for
all or per frame: `camera_angle_x` (full horizontal angle, radians) or `fl_x fl_y cx cy w h`
(pixels; the first pixel's centre is at 0.5). The world is kept as it is, also where z points up.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gendr._common.checks import (
    check_finite,
    check_float,
    check_like,
    check_number,
    check_shape,
    dtype_name,
)
from gendr._common.files import write_whole
from gendr._common.texts import first_few
from gendr.jobs.devices import on_given_devices
from gendr.kernels.threads import mapped
from gendr.mesh.cameras import Camera
from gendr.mesh.files.origins import origin_of
from gendr.mesh.files.reports import warn_caller
from gendr.mesh.images import MAX_MEGAPIXELS, Picture
from gendr.photos.camera_files.colmap import read_point_file
from gendr.photos.camera_files.lenses import Straightening
from gendr.photos.camera_files.transforms import (
    TRANSFORMS,
    TransformsFrame,
    list_frames,
    read_cameras,
)
from gendr.photos.camera_files.worlds import points_beside
from gendr.photos.folders import (
    Folder,
    NoMasksError,
    is_opaque,
    masked,
    open_folder,
    resized_straight,
)
from gendr.photos.images import Planes, decoded_at_once, open_photo
from gendr.photos.lines_of_sight import MASK_NOISE, visual_sphere

__all__ = [
    "Views", "load_points", "load_views", "save_views", "view_sizes", "visual_sphere",
]  # fmt: skip

# How much a channel of the background may differ from its colour: the noise of a JPEG, soft light.
TOLERANCE = 0.1


@final
@dataclass(frozen=True, eq=False)
class Views:
    """Images of one object from B known cameras.

    Attributes:
        masks: [B, H, W] in [0, 1]; soft edges are kept.
        rgb: [B, 3, H, W] in [0, 1], the object over black (colour times mask, as a renderer with
            the default background shows it); None if the images are masks.
        camera: B cameras. Images of several sizes lie in the middle of [H, W], and the cameras have
            a `window`, beside which masks and colours are 0 and say nothing.
        names: The names of the frames in the file.
        quarters: Quarter turns to the right that make each image upright, as its EXIF data say; ()
            if all are.
    """

    masks: Tensor
    rgb: Tensor | None
    camera: Camera
    names: tuple[str, ...]
    quarters: tuple[int, ...] = ()

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
            tuple(self.quarters[i] for i in chosen) if self.quarters else (),
        )

    def to(self, *args: Any, **kwargs: Any) -> Views:
        """The same views in another dtype or on another device, as `Tensor.to`."""
        return Views(
            self.masks.to(*args, **kwargs),
            None if self.rgb is None else self.rgb.to(*args, **kwargs),
            self.camera.to(*args, **kwargs),
            self.names,
            self.quarters,
        )

    def upright(self) -> Views:
        """The same as people look at photos: turned as `quarters` says, with their cameras.

        Images that are turned lie in the middle of square ones.
        """
        if not any(self.quarters):
            return self
        height, width = self.image_size
        short, side = min(height, width), max(height, width)
        left, top = (side - width) // 2, (side - height) // 2

        def turned(images: Tensor) -> Tensor:
            square = torch.nn.functional.pad(
                images, (left, side - width - left, top, side - height - top)
            )
            each = zip(square, self.quarters, strict=True)
            return torch.stack([torch.rot90(image, -k, (-2, -1)) for image, k in each])

        # In the square, the shorter side of an image is a part of its side, and in its middle or
        # half a pixel beside it.
        part, camera = short / side, self.camera
        beside = camera.focal.new_tensor([2 * left + width - side, side - height - 2 * top]) / side
        shown = camera.window
        if shown is None:
            edges = camera.focal.new_tensor([-width, -height, width, height]) / short
            shown = edges.expand(len(self), 4)
        powers = [[[1, 0], [0, 1]], [[0, 1], [-1, 0]], [[-1, 0], [0, -1]], [[0, -1], [1, 0]]]
        turn = camera.rotation.new_tensor(powers)[[*self.quarters]]  # [B, 2, 2], of the image

        def placed(xy: Tensor) -> Tensor:
            return (turn @ (xy * part + beside)[..., None])[..., 0]

        corners = torch.stack([placed(shown[:, :2]), placed(shown[:, 2:])])
        around = torch.nn.functional.pad(turn, (0, 1, 0, 1))
        around[:, 2, 2] = 1
        camera = camera.with_tensors(
            around @ camera.rotation,
            (around @ camera.translation[..., None])[..., 0],
            (turn.abs() @ (camera.focal * part)[..., None])[..., 0],
            placed(camera.principal),
        ).with_window(torch.cat([corners.amin(0), corners.amax(0)], 1))
        rgb = None if self.rgb is None else turned(self.rgb)
        return Views(turned(self.masks), rgb, camera, self.names)


# ---------------------------------------------------------------------------------------------
# reading


@on_given_devices
def load_views(
    path: str | Path,
    *,
    cameras: str | Path | None = None,
    masks: str | Path | None = None,
    size: int | tuple[int, int] | None = None,
    background: str | Sequence[float] | None = None,
    tolerance: float = TOLERANCE,
    max_megapixels: float = MAX_MEGAPIXELS,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Views:
    """Read a folder of images with masks and poses.

    The poses are those of transforms.json, of a model of COLMAP (sparse/0), or of cameras.json with
    OpenCV's matrices. Without these, projection matrices are read: `NAME_Ps.mat`, MATLAB's cell
    array `P` of 3 x 4 matrices; `projections.npy`, [N, 3, 4]; `projections.txt`, 3 N lines of four
    numbers or N of twelve; `IMAGE.txt`, three lines of four numbers, beside each image or in a
    folder `txt`; `NAME_par.txt`, Middlebury's. No file outside the folder is read.

    Lenses: `k1` to `k3`, `p1 p2`, `s1` to `s4`, and `k4` to `k6` with FULL_OPENCV; `k1` to `k4`
    with OPENCV_FISHEYE or `is_fisheye`; `omega` with FOV; `skew`, by how many pixels x grows where
    y / z grows by 1; COLMAP's models by their names, without THIN_PRISM_FISHEYE. Of lenses of more
    than about 120 degrees only the middle is left.

    The mask of a frame is, in this order: the image at its `mask_path`; the image of its name in a
    folder `masks` beside the transforms file or beside the folder of the image; its alpha channel,
    unless it is opaque; if a background is given, all that is not of its colour; the image itself
    if it is grey.

    Every image is shrunk as it is read, so that with a size memory holds one decoded photo at a
    time, or several of 50 megapixels together. What a lens bends or shears is undone, by linear
    interpolation, with margins cut off where the straight image would show what the lens did not
    see. As in NeRF tools, pixels are taken as they are in the file, unless `w` and `h` are those of
    the photo turned by what its EXIF data say; a mask of the photo as people see it is turned to
    fit. In float32, cameras far from 0 get an `origin`, as those in UTM metres.

    Args:
        path: The folder, or the JSON file, whose folder is then that of the images.
        cameras: The JSON file of the cameras, if it is not in the folder: such as `gendr cameras`
            writes it.
        masks: The folder of the masks, named as the photos, if they are not in the folder.
        size: Resize to this shorter side, or to (H, W), by averages over areas; intrinsics follow.
            By default images keep their size. Images of several sizes, such as upright ones among
            others, are laid into one, see `Views`.
        background: The plain colour of what is not the object: a name or #rrggbb, or RGB in [0, 1].
            `gendr masks` finds masks before a backdrop that stands still or is plain.
        tolerance: In (0, 1): pixels of which no channel differs more from it are background.
        max_megapixels: The largest image that is read, in million pixels; what is larger is
            refused before it is decoded.
        dtype: float32 or float64.
        device: Where the tensors live.

    Raises:
        TypeError: If `dtype` is neither float32 nor float64.
        ValueError: If the folder, the transforms file, an image or a mask is missing, unreadable or
            too large, `w` and `h` do not fit the image, a mask is empty, a pose is no rotation and
            translation, intrinsics are missing, or the lens is of an unknown kind.
    """
    if dtype not in (torch.float32, torch.float64):
        raise TypeError(f"dtype must be float32 or float64, got {dtype}")
    check_number("tolerance", tolerance, above=0, below=1)
    folder = open_folder(Path(path), size, max_megapixels, cameras, masks)
    plain = None if background is None else Backdrop(color_of(background), tolerance)
    found, rgb = _read_frames(folder, max_megapixels, plain, dtype, device)
    return Views(found, rgb, folder.cameras(dtype, device), folder.names, folder.quarters)


def view_sizes(
    path: str | Path,
    *,
    cameras: str | Path | None = None,
    max_megapixels: float = MAX_MEGAPIXELS,
) -> list[tuple[int, int]]:
    """(H, W) of every image that `load_views` would read, from their headers.

    Args:
        path: As for `load_views`.
        cameras: As for `load_views`.
        max_megapixels: As for `load_views`.

    Raises:
        ValueError: If the folder, the transforms file, an image or a mask is missing or too large,
            or an image and its mask differ in size.
    """
    given = read_cameras(Path(path), None if cameras is None else Path(cameras))
    frames = list_frames(given, max_megapixels)
    return [frame.size for frame in frames]


@on_given_devices
def load_points(
    path: str | Path,
    *,
    cameras: str | Path | None = None,
    dtype: torch.dtype = torch.float32,
    origin: Tensor | None = None,
) -> tuple[Tensor, Tensor] | None:
    """The points in space that COLMAP found for a folder of photos.

    They are those of the model of COLMAP in the folder, or those of the PLY that a transforms.json
    names (`ply_file_path` of nerfstudio), or those that `gendr cameras` and other commands keep
    beside the JSON file of cameras that they write. If the cameras are those of a
    transforms.json, points are moved as its cameras were from those of that model, by nerfstudio or
    colmap2nerf.py; if they are others, a warning says so.

    Args:
        path: The folder, or the file of its cameras.
        cameras: The JSON file of the cameras, if it is not in the folder.
        dtype: float32 or float64.
        origin: [3], where in the world positions count from: that of the cameras; by default 0,
            with a warning if the dtype is too coarse there.

    Returns:
        Positions [P, 3] in the world of the cameras, and RGB [P, 3] in [0, 1]; None if there are
        neither, no points in them, or points of other cameras.

    Raises:
        ValueError: If a file is damaged, or `applied_transform` is no matrix of 3 x 4.
    """
    source = points_beside(Path(path), None if cameras is None else Path(cameras))
    if source is None:
        return None
    file, world = source
    found = read_point_file(file)
    if not len(found[0]):
        return None
    place = torch.from_numpy(world.moved(found[0]))
    if origin is not None:
        place = place - origin.double().cpu()
    elif origin_of(place.numpy(), dtype).any():
        warn_caller(
            f"{path}: its points lie too far from 0 for {dtype_name(dtype)}; give the origin of "
            "the cameras, origin=views.camera.origin, or dtype=torch.float64"
        )
    return place.to(dtype), torch.from_numpy(found[1]).to(dtype)


def _read_frames(
    folder: Folder,
    max_megapixels: float,
    plain: Backdrop | None,
    dtype: torch.dtype,
    device: torch.device | str,
) -> tuple[Tensor, Tensor | None]:
    """Masks [B, H, W] and, if all frames have them, colours [B, 3, H, W] over black."""
    file, frames, size = folder.file, folder.frames, folder.size
    like: dict[str, Any] = {"dtype": dtype, "device": device}
    masks = torch.empty(len(frames), *size, **like)
    colors = torch.empty(len(frames), 3, *size, **like)

    def read(i: int) -> tuple[bool, bool, bool, bool]:
        planes, highest, cut = _read_planes(folder, i, max_megapixels, plain)
        opaque, planes = bool((planes[0] == 1).all()), folder.laid(i, planes)
        masks[i] = torch.from_numpy(planes[0])
        if len(planes) > 1:
            colors[i] = torch.from_numpy(planes[1:])
        return highest < MASK_NOISE, len(planes) > 1, opaque, cut

    largest = max((frame.size for frame in frames), key=math.prod)
    found = mapped(read, range(len(frames)), most=decoded_at_once(largest))
    empty = [frame.name for frame, (nothing, *_) in zip(frames, found, strict=True) if nothing]
    rgb = colors if all(colored for _, colored, *_ in found) else None
    whole = all(opaque for _, _, opaque, _ in found)
    if plain is not None and not any(cut for *_, cut in found):
        warn_caller(f"{file}: all photos have masks, so that the background {plain.text} is unused")
    if empty:
        # An empty mask would pull the whole object out of that view. If it is correct, the other
        # views show the same, so that nothing is lost without it.
        count = "all" if len(empty) == len(frames) else f"{len(empty)} of"
        advice = "mend them" if plain is None else "mend them, or the colour of the background"
        raise ValueError(
            f"{file}: {count} {len(frames)} masks are empty ({first_few(empty)}); {advice}, or "
            "leave out the frames that do not show the object"
        )
    if whole and plain is not None:
        raise ValueError(
            f"{file}: no mask: no pixel is within {plain.tolerance:g} of the background "
            f"{plain.text}; give its colour, or a larger tolerance"
        )
    if whole:
        raise NoMasksError(
            f"{file}: no mask: every image is opaque all over; give images with transparency, "
            "mask_path, a folder masks, or the colour of a plain background"
        )
    return masks, rgb


def _read_planes(
    folder: Folder, i: int, max_megapixels: float, plain: Backdrop | None
) -> tuple[Planes, float, bool]:
    """The mask and, unless the image is only a mask, RGB over black: [1 or 4, h, w] in [0, 1].

    Returns:
        These planes, the largest value of the mask at its full size, and whether the mask is what
        is not of the colour of the background.
    """
    frame, size, bent = folder.frames[i], folder.sizes[i], folder.straightenings[i]
    with open_photo(frame.image, max_megapixels, frame.turn) as opened:
        image = Picture(opened)
        if frame.mask is None and plain is not None and is_opaque(image):
            return *_cut_out(frame, image, size, plain, bent), True
        if frame.mask is None:
            return *masked(frame, image, image, size, bent), False
        with open_photo(frame.mask, max_megapixels, frame.mask_turn, is_mask=True) as mask:
            return *masked(frame, image, Picture(mask), size, bent), False


@final
@dataclass(frozen=True)
class Backdrop:
    """The plain background of photos.

    Attributes:
        color: RGB in [0, 1].
        tolerance: By which every channel of a pixel may differ from it.
    """

    color: tuple[float, float, float]
    tolerance: float

    @property
    def text(self) -> str:
        """The colour as #rrggbb."""
        return "#" + "".join(f"{round(255 * c):02x}" for c in self.color)


def color_of(background: str | Sequence[float]) -> tuple[float, float, float]:
    """RGB in [0, 1] of a colour."""
    if isinstance(background, str):
        from PIL import ImageColor

        try:
            red, green, blue = ImageColor.getrgb(background)[:3]
        except ValueError:
            raise ValueError(
                f"background must be the name of a colour or #rrggbb, got {background!r:.40}"
            ) from None
        return red / 255, green / 255, blue / 255
    numbers = [check_number("background", each) for each in background]
    if len(numbers) != 3 or not all(0 <= each <= 1 for each in numbers):
        raise ValueError(f"background must be RGB, three numbers in [0, 1], got {background!r:.60}")
    return numbers[0], numbers[1], numbers[2]


def _cut_out(
    frame: TransformsFrame,
    image: Picture,
    size: tuple[int, int],
    plain: Backdrop,
    bent: Straightening | None,
) -> tuple[Planes, float]:
    """What `masked` gives, where the mask is all that is not of the colour of the background."""
    channels = [0, 1, 2] if image.channels > 2 else [0, 0, 0]
    highest = 0.0

    def rows(start: int, stop: int) -> npt.NDArray[np.float64]:
        nonlocal highest
        own = image.rows(start, stop)
        planes = np.zeros((4, *own[0].shape))
        for plane, channel, color in zip(planes[1:], channels, plain.color, strict=True):
            np.divide(own[channel], image.white, out=plane)
            planes[0] = np.maximum(planes[0], np.abs(plane - color))
        # Half a step of 8 bits more, so that a tolerance of 10 / 255 allows for 10 steps.
        planes[0] = planes[0] > plain.tolerance + 0.5 / 255
        planes[1:] *= planes[0]
        highest = max(highest, float(planes[0].max()))
        return planes

    return resized_straight(rows, frame.size, size, bent).clip(0, 1), highest


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
        folder: The folder, made if it does not exist; files of the same names are replaced.
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
    exact = camera.expand(batch).in_world()
    k, poses = exact.intrinsics(size), exact.camera_to_world
    places = exact.region(size)
    names = [f"{i:03d}" for i in range(batch)] if names is None else list(names)
    if len(names) != batch or len(set(names)) != batch:
        raise ValueError(f"names must be {batch} different ones, got {len(set(names))}")
    root = Path(folder)
    (root / "images").mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(names):
        where = places[i]
        a = alpha[i][where].detach().clamp(0, 1).cpu().double()
        values = a
        if rgb is not None:  # files hold the colour itself, not its product with alpha
            straight = rgb[i][(slice(None), *where)].detach().cpu().double() / a.clamp(min=1e-6)
            values = torch.cat([straight.clamp(0, 1), a[None]]).permute(1, 2, 0)
        pixels = (values * 255).round().to(torch.uint8).contiguous().numpy()
        image = Image.fromarray(pixels)
        write_whole(root / "images" / f"{name}.png", partial(image.save, format="PNG"))
    lenses: list[dict[str, float]] = []
    for m, (rows, columns) in zip(k, places, strict=True):
        height, width = rows.stop - rows.start, columns.stop - columns.start
        lenses.append({
            "camera_angle_x": 2 * math.atan(width / (2 * float(m[0, 0]))),
            "fl_x": float(m[0, 0]),
            "fl_y": float(m[1, 1]),
            "cx": float(m[0, 2]) - columns.start,
            "cy": float(m[1, 2]) - rows.start,
            "w": width,
            "h": height,
        })  # fmt: skip
    same = all(lens == lenses[0] for lens in lenses)
    frames = [
        {
            "file_path": f"images/{name}.png",
            "transform_matrix": pose.tolist(),
            **({} if same else lens),
        }
        for name, pose, lens in zip(names, poses, lenses, strict=True)
    ]
    file = root / TRANSFORMS[0]
    text = json.dumps({**(lenses[0] if same else {}), "frames": frames}, indent=2)
    write_whole(file, (text + "\n").encode())
    return file
