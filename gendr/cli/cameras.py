"""`gendr cameras`: from where photos were taken; and the same for commands that need to know it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from gendr._common.files import write_all
from gendr._common.texts import first_few
from gendr.cli.command_line import say
from gendr.cli.common import check_effect
from gendr.cli.parser import Cameras, Fit, Splat
from gendr.cli.progress import Session
from gendr.cli.resume import Run
from gendr.jobs.folders import writable_folder
from gendr.photos.camera_files.opencv import OPENCV
from gendr.photos.camera_files.photos import is_photo, within
from gendr.photos.camera_files.transforms import NoCamerasError, read_cameras
from gendr.photos.capture import FoundCameras, find_cameras
from gendr.photos.capture.cameras import drop_features, list_photos
from gendr.photos.capture.video import extract_frames, is_video

# Where frames of a video go in the output folder, and how many there are by default.
FRAMES, FRAME_COUNT = "frames", 60
_ARCHIVES = {".zip", ".7z", ".rar", ".tar", ".tgz", ".gz"}

Command = TypeVar("Command", Fit, Splat)


def run(args: Cameras) -> int:
    """Run `gendr cameras` and return the exit status."""
    folder = photo_folder(args.photos)
    file = folder / OPENCV if args.output is None else Path(args.output)
    if file.is_dir():
        file = file / OPENCV
    if file.suffix.lower() != ".json":
        raise ValueError(f"-o {file}: name a .json file, as --cameras reads, or a folder there is")
    if args.output is None and not args.force:
        try:
            there = read_cameras(folder).file
        except NoCamerasError as error:
            _say_unread(error, args.quiet)
        else:
            raise ValueError(f"{folder} has cameras, in {there}; --force finds others, or -o FILE")
    writable_folder(file.parent)  # before what takes minutes
    found = _found(folder, args.max_megapixels, args.quiet)
    write_all(found.files(file))
    if not args.quiet:
        sys.stdout.write(f"{file}: {_line(found)}\n")
    return 0


def photo_folder(text: str) -> Path:
    """The folder that a command is given.

    Raises:
        ValueError: if it is none.
    """
    folder = Path(text)
    if folder.is_dir():
        return folder
    check_photos(folder)
    if is_video(folder):
        raise ValueError(
            f"{folder} is a video, which gendr fit and gendr splat take; here a folder"
        )
    raise ValueError(f"no such folder: {folder}")


def check_photos(path: Path) -> None:
    """Refuse a photo by itself, and an archive of photos.

    Raises:
        ValueError: that says what to give instead.
    """
    if is_photo(path):
        raise ValueError(f"{path} is one photo: give the folder that holds it and the others")
    if path.suffix.lower() in _ARCHIVES and path.is_file():
        raise ValueError(f"{path} is an archive: unpack it, and give the folder of the photos")


def with_photos(args: Command, photos: str, run: Run) -> tuple[Command, str]:
    """The options of a command and its photos, which are frames if a video is given."""
    path = Path(photos)
    check_photos(path)
    if not is_video(path):
        check_effect(args, (True, "frames", f"{path} is no video"))
        return args, photos
    name = "target" if isinstance(args, Fit) else "photos"
    place = run.out / FRAMES
    if not run.uses("frames", any(place.glob("frame_*.jpg")), args.frames):
        with Session("frames", None, quiet=args.quiet, at_once=True) as session:
            with session.part("frames") as tell:
                found = extract_frames(path, place, args.frames or FRAME_COUNT, callback=tell)
        run.made()
        if not args.quiet:
            say("gendr", f"{len(found)} sharp frames of {path.name}, in {place}")
    return replace(args, **{name: str(place)}), str(place)


def with_cameras(args: Command, photos: str, run: Run) -> Command:
    """The options of a command with the file of cameras, which are found if there are none."""
    args, photos = with_photos(args, photos, run)
    folder = Path(photos)
    if args.cameras is not None or not folder.is_dir():
        return args
    try:
        read_cameras(folder)
    except NoCamerasError as error:
        if not (inside := list_photos(folder)):
            if videos := sorted(file for file in folder.iterdir() if is_video(file)):
                raise ValueError(
                    f"{folder} holds no photos, but a video: give that, {videos[0]}"
                ) from None
            raise
        _say_unread(error, args.quiet)
        for photo in inside:  # cameras can be found of links, but `--cameras` does not read them
            within(photo, folder)
    else:
        return args
    file = run.out / OPENCV
    if not run.uses("cameras", file.is_file(), *(photo.name for photo in inside)):
        if not args.resume:
            drop_features(run.out)
        found = _found(folder, args.max_megapixels, args.quiet, run.out)
        write_all(found.files(file))
        run.made()
        if not args.quiet:
            say("gendr", _line(found))
    return replace(args, cameras=str(file))


def _say_unread(error: NoCamerasError, quiet: bool) -> None:
    """Name the files of cameras in whose place others are estimated."""
    for text in error.unread if not quiet else ():
        say("gendr", f"{text}. Poses are estimated instead")


def _found(folder: Path, limit: float, quiet: bool, keep: Path | None = None) -> FoundCameras:
    with Session("cameras", None, quiet=quiet, at_once=True) as session:
        with session.part("cameras") as tell:
            return find_cameras(folder, max_megapixels=limit, keep=keep, callback=tell)


def _line(found: FoundCameras) -> str:
    count, missing = len(found.entries), found.left_out
    text = f"{count} of {count + len(missing)} photos placed, to {found.error:.2f} pixels"
    if missing:
        text += f"; left out: {first_few(missing)}"
        for group in found.apart:
            text += f"; {len(group)} of these fit each other, but none of the others: take photos "
            text += f"between, or give them a folder of their own ({first_few(group)})"
    if found.narrow:
        text += "; photos stand close together, so that depths are rough: points are seen at "
        text += f"{found.angle:.1f} degrees in the median; walk a step to the side before each"
    if found.unlikely:
        text += f"; the focal length that fits, {found.focal:.2g} longer sides of a photo, is that "
        text += "of no usual lens, as photos straight onto a plane do not tell it: heights may be "
        text += "wrong; use photos with EXIF data, or take some aslant"
    if found.against:
        text += f"; {len(found.against)} pairs of photos match or look otherwise than they are "
        text += "placed, as where equal things stand in a row or an object looks alike from two "
        text += "sides: cameras may be wrong; take photos between, nearer to each other "
        text += f"({first_few([' and '.join(pair) for pair in found.against])})"
    if found.gps is not None:
        text += f"; in metres, with up and north, by GPS of {len(found.gps.used)} photos, which "
        text += f"agree to {found.gps.error:.1f} m: sizes to {found.gps.size_error:.1%}"
        if found.gps.wrong:
            text += (
                f"; wrong there: {first_few([found.entries[i]['file'] for i in found.gps.wrong])}"
            )
    elif found.fixes:
        text += f"; of any size: GPS of {found.fixes} photos is too little or contradicts them"
    if found.leaning:
        text += "; all look one way: up "
        text += "is by edges that seem upright" if found.upright else "leans as they are pitched"
        text += ", and lies level if straight down"
    return text
