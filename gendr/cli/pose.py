"""`gendr pose`: the camera of each image, with pictures to judge it by."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gendr import visual
from gendr._runtime.checkpoint import digest, load_checkpoint, save_checkpoint
from gendr._runtime.files import write_all
from gendr._runtime.progress import Session
from gendr.cli.common import (
    as_json,
    check_checkpoint,
    check_writable,
    model_file,
    percent_bar,
    versions,
)
from gendr.cli.parser import Pose
from gendr.fitting.pose.fit import PoseResult, fit_pose, outline_problem, shrunk
from gendr.mesh import Camera, Mesh
from gendr.mesh.images import open_image, rgba
from gendr.mesh.views import Views, load_views, view_sizes
from gendr.reconstruction.inputs import object_mask

CAMERA, OVERLAY, SEARCH, TRACK = "camera.json", "overlay.png", "search.gif", "track.gif"
# Images that are done, for --resume: the file, its format, the seconds between two times that it is
# written, and the options that poses depend on.
POSES, FORMAT, EVERY = "poses.pt", "gendr pose 1", 10.0
OPTIONS = ("track", "rig", "find_scale", "fov", "find_fov", "lens")
# What counts as an image in a folder.
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp")
# Shorter side of the masks; images of the sheet and of the animation; how many of them it shows.
SIDE, TILE, SHOWN = 256, 168, 4
# An IoU below this is none to rely on.
POOR = 0.85
# How many of the other poses the sheet shows, and how many images of a video.
OTHERS, ROWS = 3, 8
# Width of the images of a video in its animation, and how many that has at most.
WIDE, FRAMES = 240, 200


def run(args: Pose) -> int:
    """Run `gendr pose` and return the exit status."""
    _check_options(args)
    mesh = Mesh.load(model_file(args.mesh), max_megapixels=args.max_megapixels)
    rig: Camera | None = None
    if args.rig:
        views, sizes = _views(Path(args.images[0]), args.max_megapixels)
        names, read, rig = list(views.names), list(views.masks), views.camera
    else:
        paths = _files(args.images)
        names = [path.name for path in paths]
        both = [_read(path, args.max_megapixels) for path in paths]
        read, sizes = [mask for mask, _ in both], [size for _, size in both]
    _check_outlines(names, read)
    if args.track:
        _check_sizes(names, read)
    lenses = [_lens(args.lens, size) for size in sizes]
    out = check_writable(Path(args.output))
    with (
        Session("pose", None, quiet=True, every=EVERY, at_once=True) as session,
        Kept(args, out, mesh, names, read, session) as kept,
    ):
        # A bar that is left would make two lines of an error.
        with percent_bar("pose", args.quiet) as tell:
            results, whole = _results(args, mesh, names, read, lenses, rig, tell, kept)
        # Until these are written, what was found is kept.
        entries, moving = _write(args, out, mesh, names, sizes, read, results, whole)
    kept.clear()
    if not args.quiet:
        _say(names, results, whole, is_video=args.track)
        cut = [entry["image"] for entry in entries if entry["touches_border"]]
        if cut:
            more = f" and {len(cut) - 3} more" if len(cut) > 3 else ""
            sys.stdout.write(
                f"{', '.join(cut[:3])}{more}: the object touches the border of the image; what is "
                "cut off there counts against the right pose\n"
            )
        sys.stdout.write(f"{out}: {CAMERA}, {OVERLAY}, {moving}\n")
    return 0


def _write(
    args: Pose,
    out: Path,
    mesh: Mesh,
    names: list[str],
    sizes: list[tuple[int, int]],
    read: list[Tensor],
    results: list[PoseResult],
    whole: PoseResult | None,
) -> tuple[list[dict[str, Any]], str]:
    """Write the poses and their pictures; what the file says of each image, and the animation."""
    entries = [
        _entry(name, size, mask, result)
        for name, size, mask, result in zip(names, sizes, read, results, strict=True)
    ]
    facts: dict[str, Any] = {
        "mesh": str(args.mesh),
        "fov": "of the lens" if args.lens else "found" if args.find_fov else args.fov,
        "versions": versions(),
        "images": entries,
    }
    if args.track and whole is not None:
        for i, entry in enumerate(entries):
            entry["searched"] = i in whole.searched
    if whole is not None and whole.placement is not None:
        facts["fov"] = "of the rig"
        facts["rig"] = {"file": str(args.images[0]), "mesh_to_world": whole.placement.tolist()}
    shown = visual.spread(len(names), ROWS) if args.track else range(len(names))
    sheet = _sheet(
        Path(args.mesh).name, [names[i] for i in shown], mesh, [read[i] for i in shown],
        [results[i] for i in shown], len(names),
    )  # fmt: skip
    if args.track:
        moving, frames, seconds = TRACK, list(_track_frames(names, mesh, read, results)), 0.1
    else:
        moving, frames, seconds = SEARCH, list(_frames(names, mesh, read, results)), 0.25
    write_all(
        {
            out / OVERLAY: visual.picture(sheet),
            out / moving: visual.gif(frames, seconds=seconds, hold=1.0 if args.track else 2.0),
            out / CAMERA: as_json(facts),
        }
    )
    return entries, moving


class Kept:
    """What `--resume` goes on from: the images that are done, in a file of the output folder.

    Attributes:
        found: what `fit_pose` kept, by the number of the image; of a video all under 0.
    """

    def __init__(
        self, args: Pose, out: Path, mesh: Mesh, names: list[str], masks: list[Tensor],
        session: Session,
    ) -> None:  # fmt: skip
        self.path, self.found, self.session = out / POSES, dict[int, Any](), session
        session.saved()
        options = {name: getattr(args, name) for name in OPTIONS} | asdict(args.settings)
        tensors = (mesh.vertices, mesh.faces, *masks)
        self.input = digest(*tensors) + json.dumps([names, [list(x.shape) for x in masks], options])
        if not args.resume:
            self.path.unlink(missing_ok=True)
            return
        check_checkpoint(out, POSES)
        content = load_checkpoint(self.path, FORMAT, ("input", "found"), "poses")
        if content["input"] != self.input:
            raise ValueError(
                f"--resume: {self.path} is of another mesh, other images or other options; leave "
                "--resume away, or give another folder with -o"
            )
        self.found = content["found"]

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Write what is done if the work breaks off."""
        if kind is not None and self.found:
            self.write()
            done = sum(len(each["images"]) for each in self.found.values())
            self.session.place = f"after {done} images", f"from {self.path}"

    def keep(self, image: int, values: dict[str, Any]) -> None:
        """Take what `fit_pose` keeps; it is written every few seconds."""
        self.found[image] = values
        if self.session.is_due:
            self.write()

    def write(self) -> None:
        """Write the file."""
        save_checkpoint(self.path, FORMAT, {"input": self.input, "found": self.found})
        self.session.saved()

    def clear(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)


def _check_options(args: Pose) -> None:
    """Refuse options that do not go together."""
    if args.resume and args.rig:
        raise ValueError("--resume cannot be given with --rig, whose one pose is found in seconds")
    if args.lens and args.find_fov:
        raise ValueError("--find-fov cannot be given with --lens, which says the field of view")
    if args.find_scale and not args.rig:
        raise ValueError("--find-scale is for --rig: it is the unit of its cameras")
    if args.rig:
        if Path(args.images[0]).suffix.lower() in SUFFIXES:
            raise ValueError(
                f"--rig takes a folder with transforms.json, or that file, got the image "
                f"{args.images[0]}"
            )
        given = ((args.track, "--track"), (args.find_fov, "--find-fov"), (args.lens, "--lens"))
        for wrong, name in given:
            if wrong:
                raise ValueError(
                    f"{name} cannot be given with --rig: its images are of one moment, and their "
                    "fields of view are known"
                )
        if len(args.images) > 1:
            raise ValueError(
                f"--rig takes one folder with transforms.json, or that file, got "
                f"{len(args.images)} paths"
            )


def _files(texts: Sequence[str]) -> list[Path]:
    """Image files, those of folders in the order of their names, 9 before 10."""
    found: list[Path] = []
    for text in texts:
        path = Path(text)
        if not path.is_dir():
            found.append(path)
            continue
        # Names that begin with a dot are notes of file systems, such as ._1.png.
        inside = [
            p
            for p in path.iterdir()
            if p.suffix.lower() in SUFFIXES and not p.name.startswith(".") and p.is_file()
        ]
        if not inside:
            raise ValueError(f"{path} is a folder without images ({', '.join(SUFFIXES)})")
        found += sorted(inside, key=_in_order)
    return found


def _in_order(path: Path) -> list[tuple[int, str]]:
    parts = re.split(r"([0-9]+)", path.name)
    return [(int(part), "") if i % 2 else (0, part) for i, part in enumerate(parts)]


def _views(path: Path, max_megapixels: float) -> tuple[Views, list[tuple[int, int]]]:
    """Images with cameras, at most `SIDE` pixels along their shorter sides, and their sizes."""
    sizes = view_sizes(path, max_megapixels=max_megapixels)
    size = SIDE if min(map(min, sizes)) > SIDE else None
    return load_views(path, size=size, max_megapixels=max_megapixels), sizes


def _lens(numbers: tuple[float, ...] | None, size: tuple[int, int]) -> Camera | None:
    """Focal lengths and principal point in pixels of an image, as a camera at the origin."""
    if numbers is None:
        return None
    fx, fy, cx, cy = numbers
    k = torch.tensor([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])
    return Camera.from_opencv(torch.eye(3), torch.zeros(3), k, size)


def _check_outlines(names: list[str], masks: list[Tensor]) -> None:
    """Refuse masks without an outline before the first is searched."""
    for name, mask in zip(names, masks, strict=True):
        problem = outline_problem(mask)
        if problem is not None:
            raise ValueError(f"{name}: the mask {problem}")


def _check_sizes(names: list[str], masks: list[Tensor]) -> None:
    for name, mask in zip(names, masks, strict=True):
        if mask.shape != masks[0].shape:
            raise ValueError(
                "the images of a video must be of one shape, got "
                f"{masks[0].shape[1]} x {masks[0].shape[0]} in {names[0]} and "
                f"{mask.shape[1]} x {mask.shape[0]} in {name}, as they are shrunk"
            )


def _results(
    args: Pose, mesh: Mesh, names: list[str], masks: list[Tensor],
    lenses: list[Camera | None], rig: Camera | None, tell: Callable[..., None], kept: Kept,
) -> tuple[list[PoseResult], PoseResult | None]:  # fmt: skip
    """A result for each image, and that of all together, of a video or a rig."""
    options: dict[str, Any] = {
        "fov": None if args.find_fov else args.fov, "settings": args.settings
    }  # fmt: skip
    if not args.track and rig is None:
        found = [
            fit_pose(
                mesh, mask, **options, intrinsics=lenses[i],
                callback=lambda stage, done, i=i: tell((i + done) / len(names), stage),
                keep=lambda values, i=i: kept.keep(i, values), resume=kept.found.get(i),
            )
            for i, mask in enumerate(masks)
        ]  # fmt: skip
        return found, None
    whole = fit_pose(
        mesh, torch.stack(masks), track=args.track, rig=rig, find_scale=args.find_scale,
        intrinsics=lenses[0], callback=lambda stage, done: tell(done, stage),
        keep=lambda values: kept.keep(0, values), resume=kept.found.get(0), **options,
    )  # fmt: skip
    apart = []
    for i in range(len(names)):
        if rig is None:
            listed = whole.candidates[i]
        else:
            listed = tuple(replace(each, camera=each.camera[i]) for each in whole.candidates[0])
        apart.append(
            PoseResult(whole.camera[i], whole.iou[i : i + 1], (listed,), (whole.trace[i],))
        )
    return apart, whole


def _say(
    names: list[str], results: list[PoseResult], whole: PoseResult | None, *, is_video: bool
) -> None:
    """Print how sure the poses are."""
    if whole is None:
        lines = [f"{name}: {_sure(each)}" for name, each in zip(names, results, strict=True)]
    elif is_video:
        lines = [f"{len(names)} images: mean IoU {float(whole.iou.mean()):.3f}"]
        lines += [
            f"{names[i]}: searched anew, {_sure(results[i])}" for i in whole.searched if i > 0
        ]
        worst = int(whole.iou.argmin())
        lines.append(f"{names[worst]}: the worst, {_sure(results[worst])}")
    else:
        lines = [
            f"{name}: IoU {float(each.iou):.3f}" for name, each in zip(names, results, strict=True)
        ]
        first = whole.candidates[0][0].iou
        lines.append(f"all together: {_sure(replace(results[0], iou=torch.tensor([first])))}")
    sys.stdout.write("".join(line + "\n" for line in lines))


def _read(path: Path, max_megapixels: float) -> tuple[Tensor, tuple[int, int]]:
    """The mask of an image, at most `SIDE` pixels along its shorter side, and the image's size."""
    with open_image(path, max_megapixels) as image:
        pixels = rgba(image)
    try:
        mask = shrunk(object_mask(torch.from_numpy(pixels)), SIDE)
        return mask, (pixels.shape[1], pixels.shape[2])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _sure(result: PoseResult) -> str:
    """How sure a pose is, in words."""
    others = result.candidates[0][1:]
    text = f"IoU {float(result.iou):.3f}"
    if float(result.iou) < POOR:
        return f"{text}, a poor agreement: is it this mesh, whole and alone in the image?"
    if not others:
        return f"{text}, no other pose looks alike"
    angles = ", ".join(f"{each.angle:.0f}" for each in others)
    return f"{text}; {len(others)} more look alike, turned by {angles} degrees"


def _touches_border(mask: Tensor) -> bool:
    inside = mask > 0.5
    return any(bool(side.any()) for side in (inside[0], inside[-1], inside[:, 0], inside[:, -1]))


def _entry(name: str, size: tuple[int, int], mask: Tensor, result: PoseResult) -> dict[str, Any]:
    """What camera.json says of an image of a size, in its own pixels."""
    camera = result.camera
    r, t, k = camera.to_opencv(size)
    names = ("R", "T", "focal_length", "principal_point")
    torch3d = dict(zip(names, (each[0].tolist() for each in camera.to_pytorch3d()), strict=True))
    fov = 2 * math.degrees(math.atan(1 / float(camera.focal[0].max())))
    return {
        "image": name,
        "image_size": list(size),
        "iou": float(result.iou),
        "touches_border": _touches_border(mask),
        "fov": fov,
        "opengl": {"camera_to_world": camera.camera_to_world[0].tolist()},
        "opencv": {"R": r[0].tolist(), "t": t[0].tolist(), "K": k[0].tolist()},
        "pytorch3d": {**torch3d, "in_ndc": True},
        "others": [
            {
                "iou": each.iou,
                "degrees": each.angle,
                "camera_to_world": each.camera.camera_to_world[0].tolist(),
            }
            for each in result.candidates[0][1:]
        ],
    }


# ---------------------------------------------------------------------------------------------
# pictures


def _overlay(mesh: Mesh, camera: Camera, mask: Tensor, window: visual.Closeup) -> visual.Pixels:
    """The difference of a mask and of the mesh, in a window."""
    found = visual.silhouettes(mesh, camera, (mask.shape[0], mask.shape[1]))[0]
    return visual.difference(window.cut(mask, 0), window.cut(found, 0))


def _sheet(
    title: str, names: list[str], mesh: Mesh, masks: list[Tensor], results: list[PoseResult],
    count: int,
) -> visual.Pixels:  # fmt: skip
    """A row for each image: its mask, the mesh, their difference, and the other poses."""
    windows = [visual.Closeup.of(mask[None], TILE) for mask in masks]
    left, gap, top = 14, 8, 66
    others = min(OTHERS, max(len(result.candidates[0]) - 1 for result in results))
    width = max(left + (3 + others) * (TILE + gap) + 8, 560)
    heights = [window.size[0] + 40 for window in windows]
    page = visual.Page(width, top + sum(heights))
    shown = "" if count == len(names) else f", {len(names)} of them"
    page.text(left, 12, f"{title} in {count} image{'s' * (count > 1)}{shown}", 17)
    legend = "grey: both; blue: the image only; orange: the mesh only"
    page.text(left, 38, f"mask, mesh in the pose found, difference ({legend})", 12)
    y = top
    for name, mask, result, window, height in zip(
        names, masks, results, windows, heights, strict=True
    ):
        blank = torch.zeros_like(mask)
        tiles = [visual.difference(window.cut(mask, 0), window.cut(blank, 0))]
        tiles += visual.shaded(mesh, window.camera(result.camera), window.size, visual.FIT)
        tiles += [_overlay(mesh, result.camera, mask, window)]
        for place, tile in enumerate(tiles):
            page.tile(tile, left + place * (TILE + gap), y)
        for place, each in enumerate(result.candidates[0][1 : 1 + others], 3):
            (tile,) = visual.shaded(mesh, window.camera(each.camera), window.size, visual.BOTH)
            x = left + place * (TILE + gap)
            page.tile(tile, x, y)
            page.text(x, y + window.size[0] + 4, f"or this: {each.iou:.3f}, {each.angle:.0f}°", 12)
        page.text(left, y + window.size[0] + 4, f"{name}: {_sure(result)}"[:90], 12)
        y += height
    return page.pixels()


def _track_frames(
    names: list[str], mesh: Mesh, masks: list[Tensor], results: list[PoseResult]
) -> Iterator[visual.Pixels]:
    """The images of a video: their differences to the mesh, and the mesh."""
    height, width = masks[0].shape
    tall = max(1, round(WIDE * height / width))
    window = visual.Closeup(
        torch.zeros(1, 2, dtype=torch.float64),
        (width / min(height, width), height / min(height, width)),
        (tall, WIDE),
    )
    for i in visual.spread(len(names), FRAMES):
        page = visual.Page(2 * WIDE + 30, tall + 44)
        page.text(10, 9, f"{names[i][:30]}   IoU {float(results[i].iou):.3f}", 14)
        page.tile(_overlay(mesh, results[i].camera, masks[i], window), 10, 34)
        (tile,) = visual.shaded(mesh, window.camera(results[i].camera), window.size, visual.FIT)
        page.tile(tile, WIDE + 20, 34)
        yield page.pixels()


def _frames(
    names: list[str], mesh: Mesh, masks: list[Tensor], results: list[PoseResult]
) -> Iterator[visual.Pixels]:
    """The best pose after each part of the search, over the mask."""
    chosen = visual.spread(len(names), SHOWN)
    windows = {i: visual.Closeup.of(masks[i][None], TILE) for i in chosen}
    tall = max(window.size[0] for window in windows.values())
    gap, top = 8, 30
    for step in range(max(len(results[i].trace[0]) for i in chosen)):
        page = visual.Page(14 + len(chosen) * (TILE + gap), top + tall + 12)
        for place, i in enumerate(chosen):
            trace = results[i].trace[0]
            camera = trace[min(step, len(trace) - 1)]
            x = 10 + place * (TILE + gap)
            page.text(x, 8, names[i][:24], 13)
            page.tile(_overlay(mesh, camera, masks[i], windows[i]), x, top)
        yield page.pixels()
