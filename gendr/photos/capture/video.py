"""Photos from a video: frames evenly spaced in time, of each piece of it the sharpest."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Generator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from gendr.jobs.folders import writable_folder

__all__ = ["extract_frames", "is_video"]

_VIDEOS = {".mp4", ".mov", ".m4v", ".avi", ".mkv", ".webm", ".mts", ".m2ts", ".3gp", ".mpg"}
# The width at which frames are compared, and that of the small pictures by which it is found out
# whether anything moved; these then differ by so much, in grey levels of 255.
_WIDTH, _SMALL, _STILL = 960, 48, 2.0
_QUALITY = 95  # of JPEG
# Files announce a few frames more than they have; a part less than this is lost.
_WHOLE = 0.9
# Pixels that are less wide than this, or less high, are square but for how encoders round sizes.
_SQUARE = 1.01
_HD = 1280  # the longer side of the least video in BT.709
# Bytes of descriptions of videos, of some hours.
_LARGEST = 1 << 27


def is_video(path: Path) -> bool:
    """Whether the name of a file is that of a video."""
    return path.suffix.lower() in _VIDEOS and not path.is_dir()


def extract_frames(
    file: str | Path,
    folder: str | Path,
    count: int = 60,
    *,
    callback: Callable[[float], None] | None = None,
) -> list[Path]:
    """Write frames of a video as photos.

    The video is cut into `count` pieces of equal time: phones write fewer frames a second in the
    dark. Of each the sharpest frame is taken, by the variance of its Laplacian (Pech-Pacheco et
    al., ICPR 2000), unless it shows what the one before shows, as where the camera stood still.
    Frames are turned upright as the file says. A warning says if it ends before its end, or is of
    high dynamic range.

    Args:
        file: the video.
        folder: of the photos, which is made; `frame_00001.jpg` and so on, numbers of the frames.
            Files of such names that are there are replaced, all at the end.
        count: pieces, at most; at least 1.
        callback: called with what is done, from 0 to 1.

    Returns: the photos, in their order.

    Raises:
        RuntimeError: if OpenCV is not installed.
        ValueError: if there is no such file, it cannot be read as a video, or does not move at all.
    """
    path, tell = Path(file), callback or (lambda done: None)
    if count < 1:
        raise ValueError(f"count must be >= 1, got {count}")
    if not path.is_file():
        raise ValueError(f"no such file: {path}")
    if find_spec("cv2") is None:
        raise RuntimeError(
            f"{path}: videos are read with OpenCV, which is not installed: pip install "
            "opencv-python-headless; or give a folder of its frames as images"
        )
    if _is_bright(path):
        warnings.warn(
            f"{path} is of high dynamic range (PQ or HLG), and its frames have other colours: film "
            "without HDR, or convert it first, as with HandBrake",
            stacklevel=2,
        )
    sharp: list[float] = []
    small: list[npt.NDArray[np.float32]] = []
    times: list[float] = []
    total, longest = 1, 0
    for frame, time, total in _frames(path):
        longest = max(frame.shape)
        seen = _compared(frame)
        sharp.append(seen[0])
        small.append(seen[1])
        times.append(time)
        tell(0.5 * min(1.0, len(sharp) / total))
    if not sharp:
        raise ValueError(f"{path} cannot be read as a video: it is damaged, or of another kind")
    import cv2

    if cv2.__version__ < "5" and longest >= _HD:
        warnings.warn(
            f"OpenCV {cv2.__version__} takes the colours of HD video (BT.709) for those of SD "
            "(BT.601), up to 23 of 255 off: pip install -U opencv-python-headless",
            stacklevel=2,
        )
    if len(small) > 1 and all(np.array_equal(each, small[0]) for each in small):
        raise ValueError(
            f"all {len(small)} frames of {path} are one picture, as OpenCV 5.0 reads interlaced "
            "video of camcorders and television: convert it first, as "
            "`ffmpeg -i IN -vf bwdif -crf 18 OUT.mp4` does"
        )
    if len(sharp) < _WHOLE * total:
        warnings.warn(
            f"{path} ends after {len(sharp)} of about {total} frames: the file is cut off, or "
            "damaged there; the frames before it are taken",
            stacklevel=2,
        )
    bounds = _bounds(times, min(count, len(sharp)))
    chosen: list[int] = []
    for start, stop in pairwise(bounds):
        if start == stop:  # no frame in all the time of a piece
            continue
        best = start + int(np.argmax(sharp[start:stop]))
        if not chosen or np.abs(small[best] - small[chosen[-1]]).mean() >= _STILL:
            chosen.append(best)
    place = writable_folder(Path(folder))
    with TemporaryDirectory(dir=place) as work:
        written: list[Path] = []
        for number, (frame, _, _) in enumerate(_frames(path)):
            if len(written) < len(chosen) and number == chosen[len(written)]:
                written.append(_write(frame, Path(work) / f"frame_{number + 1:05d}.jpg"))
                tell(0.5 + 0.5 * len(written) / len(chosen))
        for old in place.glob("frame_*.jpg"):
            old.unlink()
        return [photo.replace(place / photo.name) for photo in written]


def _is_bright(path: Path) -> bool:
    """Whether a file says that it is no SDR video: PQ and HLG of ITU-T H.273.

    MP4 and QuickTime do so in a box `colr`, Matroska and WebM in an element TransferCharacteristics
    (RFC 9559, 5.1.4.1.28.28), which is before all frames.
    """
    with path.open("rb") as file:
        if file.read(4) == b"\x1a\x45\xdf\xa3":
            return re.search(rb"\x55\xba\x81[\x10\x12]", file.read(1 << 16)) is not None
        file.seek(0)
        while len(head := file.read(8)) == 8:
            size, header = int.from_bytes(head[:4], "big"), 8
            if size == 1:
                size, header = int.from_bytes(file.read(8), "big"), 16
            if size < header:
                break  # to the end, or no such file
            if head[4:] != b"moov" or size > _LARGEST:
                file.seek(size - header, 1)
                continue
            said = re.search(rb"colrncl[cx]..\0(.)", file.read(size - header), re.DOTALL)
            if said is not None and said[1][0] in (16, 18):
                return True
    return False


def _bounds(times: list[float], pieces: int) -> list[int]:
    """Where the pieces begin and the last one ends, as numbers of frames.

    Args:
        times: of the frames, milliseconds; where they do not rise, the frames count alike.
        pieces: how many.
    """
    place = np.asarray(times)
    if len(place) < 2 or not (np.diff(place) > 0).all():
        place = np.arange(len(place), dtype=float)
    place = np.append(place, place[-1] + (np.median(np.diff(place)) if len(place) > 1 else 1.0))
    edges = np.linspace(place[0], place[-1], pieces + 1)
    return [0, *np.searchsorted(place[:-1], edges[1:-1] - 1e-6).tolist(), len(times)]


def _frames(path: Path) -> Generator[tuple[Any, float, int], None, None]:
    """The frames of a video, BGR, each with its time in ms and the number that there may be.

    Their pixels are made square, which those of camcorders (HDV, AVCHD, DV) are not.
    """
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")  # what is damaged is said here
    import cv2

    video = cv2.VideoCapture(str(path))
    try:
        total = max(1, int(video.get(cv2.CAP_PROP_FRAME_COUNT)))
        wide = video.get(cv2.CAP_PROP_SAR_NUM) / (video.get(cv2.CAP_PROP_SAR_DEN) or 1) or 1.0
        across, down = max(1.0, wide), max(1.0, 1 / wide)
        if video.get(cv2.CAP_PROP_ORIENTATION_META) % 180:
            across, down = down, across
        while True:
            there, frame = video.read()
            if not there:
                return
            if max(across, down) > _SQUARE:
                frame = cv2.resize(frame, None, fx=across, fy=down)
            yield frame, float(video.get(cv2.CAP_PROP_POS_MSEC)), total
    finally:
        video.release()


def _compared(frame: Any) -> tuple[float, npt.NDArray[np.float32]]:
    """How sharp a frame is, and a small picture of it."""
    import cv2

    grey = cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY)
    height, width = grey.shape
    part = min(1.0, _WIDTH / width)
    size = max(1, round(part * width)), max(1, round(part * height))
    grey = cv2.resize(grey, size, interpolation=cv2.INTER_AREA)
    small = cv2.resize(grey, (_SMALL, _SMALL), interpolation=cv2.INTER_AREA)
    return float(cv2.Laplacian(grey, cv2.CV_32F).var()), small.astype(np.float32)


def _write(frame: Any, path: Path) -> Path:
    from PIL import Image

    Image.fromarray(np.ascontiguousarray(frame[..., ::-1])).save(path, quality=_QUALITY)
    return path
