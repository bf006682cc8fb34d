"""`gendr masks`: masks of photos before a backdrop, and a sheet to look at."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gendr import visual
from gendr._runtime.command_line import say
from gendr._runtime.files import writable_folder, write_all
from gendr._runtime.progress import Session
from gendr._runtime.threads import mapped
from gendr.capture.cameras import list_photos
from gendr.cli.common import model_file
from gendr.cli.parser import Fit, Masks
from gendr.mesh.camera_files.photos import output_names
from gendr.mesh.folders import NoMasksError, common_size, has_mask, open_folder
from gendr.mesh.images import decoded_at_once, open_image, read_size, rgba
from gendr.mesh.masks import find_masks
from gendr.mesh.views import AUTO

# The sheet: pictures side by side, the longer side of one, and how many there are at most.
COLUMNS, SIDE, SHOWN = 6, 220, 24
SHEET = "sheet.jpg"
GREEN = (0, 200, 80)  # of what is cut away


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
    folder = Path(args.photos)
    if not folder.is_dir():
        raise ValueError(f"no such folder: {folder}")
    photos = list_photos(folder)
    if not photos:
        raise ValueError(f"{folder} holds no photos")
    out = folder / "masks" if args.output is None else Path(args.output)
    if args.output is None and out.is_dir() and any(p.name[0] != "." for p in out.iterdir()):
        raise ValueError(f"{out} holds files already; remove them, or choose another folder: -o")
    said = _write(photos, out, args.image_size, args.max_megapixels, args.quiet)
    if not args.quiet:
        sys.stdout.write(f"{out}: {said}; look at {out / SHEET}\n")
    return 0


def with_masks(args: Fit, out: Path) -> Fit:
    """The options of a fit with the folder of masks, which are found if there are none.

    They are found at a larger size than that of the fit, at which edges are clearer.
    """
    folder = model_file(args.target) if Path(args.target).is_dir() else None
    if folder is None or args.masks is not None or args.background not in (None, AUTO):
        return args
    limit = args.max_megapixels
    try:
        opened = open_folder(folder, 32, limit, args.cameras)
    except ValueError:  # which is said when the photos are read
        return args
    if has_mask(opened, 0, limit):
        return args
    place = out / "masks"
    photos = list(dict.fromkeys(frame.image for frame in opened.frames))
    if not (args.resume and all(file.is_file() for file in _files(photos, place))):
        try:
            said = _write(photos, place, Masks.image_size, limit, args.quiet)
        except (ValueError, RuntimeError) as error:
            raise NoBackdropError(
                str(error),
                f"{opened.frames[0].where}: no mask: {photos[0].name} has no alpha channel and is "
                "not grey; give images with transparency, mask_path, a folder masks, or the colour "
                f"of a plain background. None were found either: {error}",
            ) from None
        if not args.quiet:
            say("gendr", f"{said}; look at {place / SHEET}")
    return replace(args, masks=str(place), background=None)


def _write(photos: list[Path], out: Path, side: int, limit: float, quiet: bool) -> str:
    """Find masks of photos and write them to a folder; what is to be said of them."""
    from PIL import Image

    with Session("masks", None, quiet=quiet, at_once=True) as session:
        with session.part("masks") as tell:
            images, sizes = _read(photos, side, limit)
            masks, kind = find_masks(images, callback=tell)
        with session.part("files") as tell:

            def png(i: int) -> bytes:
                mask = Image.fromarray((255 * masks[i].numpy()).astype(np.uint8))
                mask = mask.resize(sizes[i], Image.Resampling.BILINEAR)
                return _file(partial(mask.save, format="PNG"))

            written = mapped(png, range(len(photos)), tell)
            files = dict(zip(_files(photos, out), written, strict=True))
        page = Image.fromarray(_sheet(images, masks))
        files[out / SHEET] = _file(partial(page.save, format="JPEG", quality=88))
    for folder in dict.fromkeys(file.parent for file in files):
        writable_folder(folder)
    write_all(files)
    parts = 100 * masks.flatten(1).mean(1)
    how = "stands still" if kind == "still" else "is plain"
    return (
        f"{len(photos)} masks before a backdrop that {how}, {float(parts.min()):.0f} to "
        f"{float(parts.max()):.0f} % of the photos"
    )


def _files(photos: list[Path], out: Path) -> list[Path]:
    """The files of the masks of photos, as `load_views` looks for them."""
    return [out / f"{name}.png" for name in output_names(photos)]


def _read(
    photos: list[Path], size: int, limit: float
) -> tuple[torch.Tensor, list[tuple[int, int]]]:
    """The photos at one size, [B, 3, H, W], and (W, H) of each in its file."""
    from PIL import Image

    all_sizes = [read_size(photo, limit) for photo in photos]
    (height, width), odd = common_size(all_sizes)
    if odd is not None:
        raise ValueError(
            f"photos must be of one size, most have {width} x {height}, got "
            f"{all_sizes[odd][1]} x {all_sizes[odd][0]} in {photos[odd]}"
        )
    first = width, height

    def read(photo: Path) -> Any:
        with open_image(photo, limit) as opened:
            planes = rgba(opened)[:3]
        part = min(1.0, size / min(first))
        small = Image.fromarray((255 * planes).round().astype(np.uint8).transpose(1, 2, 0))
        wide, tall = (max(1, round(part * side)) for side in first)
        return np.asarray(small.resize((wide, tall), Image.Resampling.BOX))

    images = mapped(read, photos, most=decoded_at_once(first))
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2) / 255, [first] * len(photos)


def _sheet(images: torch.Tensor, masks: torch.Tensor) -> visual.Pixels:
    """Some of the photos, green where they are cut away."""
    from PIL import Image

    chosen = visual.spread(len(images), SHOWN)
    green = torch.tensor(GREEN)[:, None, None] / 255
    tiles: list[Any] = []
    for i in chosen:
        shown = images[i] * masks[i] + (0.25 * images[i] + 0.75 * green) * (1 - masks[i])
        tile = Image.fromarray((255 * shown).byte().permute(1, 2, 0).numpy())
        tile.thumbnail((SIDE, SIDE))
        tiles.append(np.pad(np.asarray(tile), ((2, 2), (2, 2), (0, 0)), constant_values=255))
    tiles += [np.full_like(tiles[0], 255)] * (-len(tiles) % min(COLUMNS, len(tiles)))
    columns = min(COLUMNS, len(tiles))
    rows = [np.concatenate(tiles[k : k + columns], 1) for k in range(0, len(tiles), columns)]
    return np.concatenate(rows)


def _file(save: Any) -> bytes:
    memory = BytesIO()
    save(memory)
    return memory.getvalue()
