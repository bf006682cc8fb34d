"""`gendr masks`: masks of photos before a backdrop, and a sheet to look at."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gendr._common.files import write_all
from gendr.cli.cameras import photo_folder
from gendr.cli.command_line import say
from gendr.cli.common import check_output, model_file
from gendr.cli.parser import Fit, Masks
from gendr.cli.progress import Session
from gendr.cli.resume import Run
from gendr.jobs.folders import writable_folder
from gendr.jobs.loop import between
from gendr.kernels.threads import mapped
from gendr.mesh.cameras import Camera
from gendr.photos import visual
from gendr.photos.camera_files.opencv import OPENCV
from gendr.photos.camera_files.photos import output_names
from gendr.photos.capture.cameras import list_photos
from gendr.photos.folders import Folder, NoMasksError, grouped, has_mask, open_folder
from gendr.photos.images import (
    QUARTERS,
    decoded_at_once,
    open_photo,
    read_orientation,
    read_size,
    rgba,
)
from gendr.photos.masks import find_masks, with_soft_outlines
from gendr.photos.pinholes import without_pinholes
from gendr.photos.shadows import without_shadow_bites
from gendr.photos.suspicious_masks import agreement

# The sheet: the longer side of a picture, and how many there are at most.
SIDE, SHOWN = 220, 24
SHEET = "sheet.jpg"
GREEN = (0, 200, 80)  # of what is cut away
# Lenses may bend borders so much, of the shorter side, and photos be compared as they are stored.
_SLIGHT = 0.03
# Masks that are found must agree so much: those of a figure on black felt, a tenth of which is lost
# in shadow, do to 0.98, those of a figure nearly as bright as what is behind it to 0.62.
_AGREE = 0.8


class NoBackdropError(NoMasksError):
    """Photos have no masks, and none are found.

    Attributes:
        why: none are found.
    """

    def __init__(self, why: str, text: str) -> None:
        super().__init__(text)
        self.why = why


def run(args: Masks) -> int:
    """Run `gendr masks` and return the exit status."""
    folder = photo_folder(args.photos)
    photos = list_photos(folder)
    if not photos:
        raise ValueError(f"{folder} holds no photos")
    out = folder / "masks" if args.output is None else Path(args.output)
    if args.output is None and out.is_dir() and any(p.name[0] != "." for p in out.iterdir()):
        raise ValueError(f"{out} holds files already; remove them, or choose another folder: -o")
    check_output(out, photos[0].parent)
    said = _write(photos, out, args.image_size, args.max_megapixels, args.quiet)
    if not args.quiet:
        sys.stdout.write(f"{out}: {said}; look at {out / SHEET}\n")
    return 0


def with_masks(args: Fit, run: Run) -> Fit:
    """The options of a fit with the folder of masks, which are found if there are none.

    They are found at a larger size than that of the fit, at which edges are clearer.
    """
    folder = model_file(args.target) if Path(args.target).is_dir() else None
    if folder is None or args.masks is not None or args.background is not None:
        return args
    limit = args.max_megapixels
    opened = open_folder(folder, 32, limit, args.cameras)
    if has_mask(opened, 0, limit):
        return args
    place = run.out / "masks"
    photos = list(dict.fromkeys(frame.image for frame in opened.frames))
    there = all(file.is_file() for file in _files(photos, place))
    # Those that were found are in the same folder, however it is named.
    given = None if args.cameras is None else str(Path(args.cameras).resolve())
    given = None if given == str((run.out / OPENCV).resolve()) else given
    if not run.uses("masks", there, given):
        why, said = None, ""
        try:
            cameras = _cameras(open_folder(folder, None, limit, args.cameras))
            said = _write(photos, place, Masks.image_size, limit, args.quiet, cameras)
            run.made()
        except (ValueError, RuntimeError) as error:
            why = str(error)
        if why is not None:  # raised here, as what the other error was raised in holds all photos
            raise NoBackdropError(
                why,
                f"{opened.frames[0].where}: no mask: {photos[0].name} has no alpha channel and is "
                "not grey; give images with transparency, mask_path, a folder masks, or the colour "
                f"of a plain background. None were found either: {why}",
            )
        if not args.quiet:
            say("gendr", f"{said}; look at {place / SHEET}")
    return replace(args, masks=str(place))


def _cameras(folder: Folder) -> Camera | None:
    """The cameras of photos as they are stored; None if lenses bend them much, or sizes differ."""
    images = {frame.image for frame in folder.frames}
    if len(folder.groups()) > 1 or len(images) < len(folder.frames):
        return None
    camera, size = folder.cameras(torch.float32, "cpu"), folder.frames[0].size
    bent = [one.lens for one in folder.straightenings if one is not None]
    if bent:
        if max(lens.bends(size) for lens in bent) > _SLIGHT * min(size):
            return None
        fx, fy, cx, cy = torch.tensor([lens.straight(size[0]) for lens in bent]).T
        camera = Camera.from_intrinsics(
            image_size=size, fx=fx, fy=fy, cx=cx, cy=cy,
            rotation=camera.rotation, translation=camera.translation,
        )  # fmt: skip
    return camera


def _write(
    photos: list[Path], out: Path, side: int, limit: float, quiet: bool,
    camera: Camera | None = None,
) -> str:  # fmt: skip
    """Find masks of photos and write them to a folder; what is to be said of them.

    Where cameras are known, bites in shadows are filled, and a line names the photos.
    """
    from PIL import Image

    bitten: list[int] = []
    with Session("masks", None, quiet=quiet, at_once=True) as session:
        with session.part("masks") as tell:
            images = _read(photos, side, limit)
            masks, kinds = _found(images, photos, tell)
            if camera is not None:
                before, planes = torch.stack(masks), torch.stack([x.planes for x in images])
                whole = without_shadow_bites(camera, planes, before)
                bitten = (whole != before).flatten(1).any(1).nonzero()[:, 0].tolist()
                if (agrees := agreement(camera, whole)) < _AGREE:
                    text = (
                        f"what stands out from the background is no object: only {agrees:.0%} of "
                        "it is where photos from other sides show it, too"
                    )
                    if not quiet:
                        say("gendr", text)
                    raise ValueError(text)
                masks = list(without_pinholes(camera, whole))
            masks = mapped(
                lambda i: with_soft_outlines(images[i].planes, masks[i]), range(len(photos))
            )
        with session.part("files") as tell:

            def png(i: int) -> bytes:
                mask = Image.fromarray((255 * masks[i].numpy()).round().astype(np.uint8))
                height, width = read_size(photos[i], limit)
                mask = mask.resize((width, height), Image.Resampling.BILINEAR)
                return visual.picture(np.asarray(mask))

            written = mapped(png, range(len(photos)), tell)
            files = dict(zip(_files(photos, out), written, strict=True))
        files[out / SHEET] = visual.picture(_sheet(photos, images, masks), "JPEG", quality=88)
    for folder in dict.fromkeys(file.parent for file in files):
        writable_folder(folder)
    write_all(files)
    if bitten and not quiet:
        names = ", ".join(photos[i].name for i in bitten)
        say(
            "gendr",
            "filled where the object is as dark as the backdrop, by what others show, are the "
            f"masks of {names}",
        )
    parts = [100 * float(mask.mean()) for mask in masks]
    how = " or ".join({"still": "stands still", "plain": "is plain"}[kind] for kind in kinds)
    return (
        f"{len(photos)} masks before a backdrop that {how}, {min(parts):.0f} to {max(parts):.0f} % "
        "of the photos"
    )


def _files(photos: list[Path], out: Path) -> list[Path]:
    """The files of the masks of photos, as `load_views` looks for them."""
    return [out / f"{name}.png" for name in output_names(photos)]


@dataclass(frozen=True, eq=False)
class _Photo:
    """A photo as it is stored, [3, H, W], and the turns to the right that make it upright."""

    planes: Tensor
    quarters: int


def _read(photos: list[Path], size: int, limit: float) -> list[_Photo]:
    """The photos at a size of the shorter side."""
    from PIL import Image

    def read(photo: Path) -> _Photo:
        with open_photo(photo, limit, 1) as opened:
            planes = rgba(opened)[:3]
        part = min(1.0, size / min(planes.shape[1:]))
        small = Image.fromarray((255 * planes).round().astype(np.uint8).transpose(1, 2, 0))
        wide, tall = (max(1, round(part * side)) for side in small.size)
        pixels = np.asarray(small.resize((wide, tall), Image.Resampling.BOX))
        quarters = QUARTERS.get(read_orientation(photo, limit), 0)
        return _Photo(torch.from_numpy(pixels.transpose(2, 0, 1) / np.float32(255)), quarters)

    largest = max((read_size(photo, limit) for photo in photos), key=math.prod)
    return mapped(read, photos, most=decoded_at_once(largest))


def _found(
    images: list[_Photo], photos: list[Path], tell: Callable[[float], None]
) -> tuple[list[Tensor], list[str]]:
    """Masks [H, W], and the kinds of backdrops, which are those of photos of a size and a turn."""
    masks: list[Tensor] = [image.planes for image in images]
    kinds: list[str] = []
    done = 0
    for rows in grouped((tuple(image.planes.shape), image.quarters) for image in images):
        stack, names = torch.stack([images[i].planes for i in rows]), [photos[i].name for i in rows]
        first, done = done / len(images), done + len(rows)
        progress = between(tell, first, done / len(images))
        found, kind = find_masks(stack, names=names, callback=progress)
        for i, mask in zip(rows, found, strict=True):
            masks[i] = mask
        kinds.append(kind)
    return masks, list(dict.fromkeys(kinds))


def _sheet(photos: list[Path], images: list[_Photo], masks: list[Tensor]) -> visual.Pixels:
    """Some of the photos, upright, green where they are cut away."""
    from PIL import Image

    chosen = visual.spread(len(images), SHOWN)
    green = torch.tensor(GREEN)[:, None, None] / 255
    tiles: list[visual.Pixels] = []
    for i in chosen:
        planes, mask = images[i].planes, masks[i]
        shown = planes * mask + (0.25 * planes + 0.75 * green) * (1 - mask)
        upright = np.rot90((255 * shown).byte().permute(1, 2, 0).numpy(), -images[i].quarters)
        tile = Image.fromarray(upright)
        tile.thumbnail((SIDE, SIDE))
        tiles.append(np.asarray(tile))
    names = [photos[i].name for i in chosen]
    rows = [("", visual.INK, tiles, ())]
    return visual.sheet(f"masks of {len(photos)} photos", "green is cut away", names, rows)
