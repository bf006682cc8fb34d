"""`gendr cameras`: from where photos were taken; and the same for commands that need to know it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from gendr._common.command_line import say
from gendr._common.files import writable_folder, write_all
from gendr.cli.parser import Cameras, Fit, Splat
from gendr.cli.progress import Session
from gendr.photos.camera_files.opencv import OPENCV
from gendr.photos.camera_files.transforms import NoCamerasError, read_cameras
from gendr.photos.capture import FoundCameras, find_cameras
from gendr.photos.capture.cameras import LEAST, list_photos

NAMED = 5  # photos left out that are named

Command = TypeVar("Command", Fit, Splat)


def run(args: Cameras) -> int:
    """Run `gendr cameras` and return the exit status."""
    folder = Path(args.photos)
    if not folder.is_dir():
        raise ValueError(f"no such folder: {folder}")
    file = folder / OPENCV if args.output is None else Path(args.output)
    if file.is_dir():
        file = file / OPENCV
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


def with_cameras(args: Command, photos: str, out: Path) -> Command:
    """The options of a command with the file of cameras, which are found if there are none."""
    folder = Path(photos)
    if args.cameras is not None or not folder.is_dir():
        return args
    try:
        read_cameras(folder)
    except NoCamerasError as error:
        if len(list_photos(folder)) < LEAST:
            raise
        _say_unread(error, args.quiet)
    else:
        return args
    file = writable_folder(out) / OPENCV
    if not (args.resume and file.is_file()):
        found = _found(folder, args.max_megapixels, args.quiet)
        write_all(found.files(file))
        if not args.quiet:
            say("gendr", _line(found))
    return replace(args, cameras=str(file))


def _say_unread(error: NoCamerasError, quiet: bool) -> None:
    """Name the files of cameras in whose place others are estimated."""
    for text in error.unread if not quiet else ():
        say("gendr", f"{text}. Poses are estimated instead")


def _found(folder: Path, limit: float, quiet: bool) -> FoundCameras:
    with Session("cameras", None, quiet=quiet, at_once=True) as session:
        with session.part("cameras") as tell:
            return find_cameras(folder, max_megapixels=limit, callback=tell)


def _line(found: FoundCameras) -> str:
    count, missing = len(found.entries), found.left_out
    text = f"{count} of {count + len(missing)} photos placed, to {found.error:.2f} pixels"
    if missing:
        names = ", ".join(missing[:NAMED]) + (", ..." if len(missing) > NAMED else "")
        text += f"; left out: {names}"
    return text
