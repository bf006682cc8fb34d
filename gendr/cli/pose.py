"""`gendr pose`: the camera of each image, with pictures to judge it by."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gendr._common.files import write_all
from gendr.cli.common import (
    as_json,
    check_checkpoint,
    check_effect,
    check_output,
    model_file,
    versions,
)
from gendr.cli.parser import Pose
from gendr.cli.progress import Session
from gendr.cli.resume import StageFile
from gendr.jobs.folders import output_folder
from gendr.jobs.loop import Progress
from gendr.mesh import Camera, Mesh
from gendr.photos import visual
from gendr.photos.camera_files.photos import IMAGES, is_photo
from gendr.photos.fitting.pose.fit import fit_pose, outline_problem
from gendr.photos.fitting.pose.search import PoseResult, shrunk
from gendr.photos.images import open_photo, rgba
from gendr.photos.plain_background import object_mask
from gendr.photos.views import Views, load_views, view_sizes

CAMERA, OVERLAY, TRACK = "camera.json", "overlay.png", "track.gif"
# Images that are done, for --resume: the file, and the options that poses depend on.
POSES = "poses.pt"
OPTIONS = ("track", "rig", "find_scale", "fov", "find_fov", "lens")
# Shorter side of the masks; width of the images of the sheet.
SIDE, TILE = 256, 168
# An IoU below this is none to rely on.
POOR = 0.85
# How many of the other poses the sheet shows, and how many images of a video.
OTHERS, ROWS = 3, 8
# Width of the images of a video in its animation, and how many that has at most.
WIDE, FRAMES = 240, 200


@dataclass(frozen=True)
class _Photo:
    """An image: its name, its mask, which may be smaller, and its size (H, W)."""

    name: str
    mask: Tensor
    size: tuple[int, int]

    @property
    def touches_border(self) -> bool:
        """Whether the object does, so that some of it may be cut off."""
        inside = self.mask > 0.5
        return any(bool(x.any()) for x in (inside[0], inside[-1], inside[:, 0], inside[:, -1]))


# Images with their poses.
Posed = list[tuple[_Photo, PoseResult]]


def run(args: Pose) -> int:
    """Run `gendr pose` and return the exit status."""
    _check_options(args)
    mesh = Mesh.load(model_file(args.mesh), max_megapixels=args.max_megapixels)
    rig: Views | None = None
    if args.rig:
        images, rig = _rig(Path(args.images[0]), args.max_megapixels)
    else:
        images = [
            _Photo(path.name, *_read(path, args.max_megapixels)) for path in _files(args.images)
        ]
    _check_images(images, args)
    lenses = [_lens(args.lens, image.size) for image in images]
    out = Path(args.output)
    for path in args.images:
        check_output(out, Path(path), (CAMERA, OVERLAY, TRACK))
    with output_folder(out), Session("pose", None, quiet=args.quiet, at_once=True) as session:
        file = _file(args, out, mesh, images)
        results, whole = _results(args, mesh, images, lenses, rig, file, session)
        # Until these are written, what was found is kept.
        files = _files_of(args, out, mesh, list(zip(images, results, strict=True)), whole)
        write_all(files)
        file.path.unlink(missing_ok=True)
    if not args.quiet:
        _say(images, results, whole, is_video=args.track)
        cut = [image.name for image in images if image.touches_border]
        if cut:
            more = f" and {len(cut) - 3} more" if len(cut) > 3 else ""
            sys.stdout.write(
                f"{', '.join(cut[:3])}{more}: the object touches the border of the image; what is "
                "cut off there counts against the right pose\n"
            )
        sys.stdout.write(f"{out}: {', '.join(path.name for path in files)}\n")
    return 0


def _files_of(
    args: Pose, out: Path, mesh: Mesh, posed: Posed, whole: PoseResult | None
) -> dict[Path, bytes]:
    """The poses and their pictures as files: their contents by path."""
    entries = [_entry(image, result) for image, result in posed]
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
    shown = [posed[i] for i in visual.spread(len(posed), ROWS)] if args.track else posed
    sheet = _sheet(Path(args.mesh).name, mesh, shown, len(posed))
    files = {out / CAMERA: as_json(facts), out / OVERLAY: visual.picture(sheet)}
    if args.track:
        frames = list(_track_frames(mesh, posed))
        files[out / TRACK] = visual.gif(frames, seconds=0.1, hold=1.0)
    return files


def _file(args: Pose, out: Path, mesh: Mesh, images: list[_Photo]) -> StageFile:
    """The file of images that are done, which is there only with `--resume`."""
    options = {name: getattr(args, name) for name in OPTIONS} | asdict(args.settings)
    seen = [(image.name, *image.mask.shape) for image in images]
    given = (mesh, *(image.mask for image in images))
    file = StageFile(out / POSES, "poses", given, {"images": seen, **options})
    if args.resume:
        check_checkpoint(out, POSES)
    else:
        file.path.unlink(missing_ok=True)
    return file


def _check_options(args: Pose) -> None:
    """Refuse options that do not go together."""
    known = "the images of --rig are of one moment, and their fields of view are known"
    check_effect(
        args,
        (args.rig, "resume", "the one pose of --rig is found in seconds"),
        (args.rig, "track find_fov lens fov", known),
        (not args.rig, "find_scale", "there is no --rig, whose cameras have a unit"),
        (args.lens, "find_fov fov", "--lens says the field of view"),
    )
    paths, folder = args.images, "folder with transforms.json, or that file, got"
    if args.rig and Path(paths[0]).suffix.lower() in IMAGES:
        raise ValueError(f"--rig takes a {folder} the image {paths[0]}")
    if args.rig and len(paths) > 1:
        raise ValueError(f"--rig takes one {folder} {len(paths)} paths")


def _files(texts: Sequence[str]) -> list[Path]:
    """Image files, those of folders in the order of their names, 9 before 10."""
    found: list[Path] = []
    for text in texts:
        path = Path(text)
        if not path.is_dir():
            found.append(path)
            continue
        inside = [p for p in path.iterdir() if is_photo(p)]
        if not inside:
            raise ValueError(f"{path} is a folder without images ({', '.join(IMAGES)})")
        found += sorted(inside, key=_in_order)
    return found


def _in_order(path: Path) -> list[tuple[int, str]]:
    parts = re.split(r"([0-9]+)", path.name)
    return [(int(part), "") if i % 2 else (0, part) for i, part in enumerate(parts)]


def _read(path: Path, max_megapixels: float) -> tuple[Tensor, tuple[int, int]]:
    """The mask of an image, at most `SIDE` pixels along its shorter side, and the image's size.

    Both are of the upright image, as EXIF data turn it, and as all viewers show it.
    """
    with open_photo(path, max_megapixels) as image:
        pixels = rgba(image)
    try:
        mask = shrunk(object_mask(torch.from_numpy(pixels))[None], SIDE)[0]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return mask, (pixels.shape[1], pixels.shape[2])


def _rig(path: Path, max_megapixels: float) -> tuple[list[_Photo], Views]:
    """Images with cameras, at most `SIDE` pixels along their shorter sides; and all in one size."""
    sizes = view_sizes(path, max_megapixels=max_megapixels)
    size = SIDE if min(map(min, sizes)) > SIDE else None
    views = load_views(path, size=size, max_megapixels=max_megapixels)
    own = zip(views.masks, views.camera.region(views.image_size), strict=True)
    masks = [mask[rows, columns] for mask, (rows, columns) in own]
    return [_Photo(*each) for each in zip(views.names, masks, sizes, strict=True)], views


def _lens(numbers: tuple[float, ...] | None, size: tuple[int, int]) -> Camera | None:
    """Focal lengths and principal point in pixels of an image, as a camera at the origin."""
    if numbers is None:
        return None
    fx, fy, cx, cy = numbers
    k = torch.tensor([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])
    return Camera.from_opencv(torch.eye(3), torch.zeros(3), k, size)


def _check_images(images: list[_Photo], args: Pose) -> None:
    """Refuse masks without an outline before the first is searched, and videos of two shapes."""
    for image in images:
        problem = outline_problem(image.mask)
        if problem is not None:
            raise ValueError(f"{image.name}: the mask {problem}")
    first = images[0]
    for image in images if args.track else ():
        if image.mask.shape != first.mask.shape:
            (h, w), (tall, wide) = first.mask.shape, image.mask.shape
            raise ValueError(
                f"the images of a video must be of one shape, got {w} x {h} in {first.name} and "
                f"{wide} x {tall} in {image.name}, as they are shrunk"
            )


def _results(
    args: Pose, mesh: Mesh, images: list[_Photo], lenses: list[Camera | None],
    rig: Views | None, file: StageFile, session: Session,
) -> tuple[list[PoseResult], PoseResult | None]:  # fmt: skip
    """A result for each image, and that of all together, of a video or a rig."""
    before = file.read()
    if args.resume and before is None:
        raise ValueError(
            f"--resume: {file.path} is of another mesh, other images or other options; leave "
            "--resume away, or give another folder with -o"
        )
    # What `fit_pose` has come to, by the number of the image; of a video all under 0.
    found: dict[int, Any] = {} if before is None else before["values"]["found"]
    count = 1 if args.track or rig is not None else len(images)

    def place() -> None:
        done = sum(len(each["images"]) for each in found.values())
        session.place = f"after {done} images", f"from {file.path}"

    if found:
        place()

    def fitted(masks: Tensor, i: int, **more: Any) -> PoseResult:
        def report(now: Progress) -> None:
            nonlocal found
            if now.state is not found.get(i):
                found = {**found, i: now.state}
                place()
            tell(Progress((i + now) / count, now.stage, {"found": found} if found else None))

        return fit_pose(
            mesh, masks, fov=None if args.find_fov else args.fov, settings=args.settings,
            intrinsics=lenses[i], callback=report, resume=found.get(i), **more,
        )  # fmt: skip

    # A bar that is left would make two lines of an error.
    with session.part("pose", file.write) as tell:
        if not args.track and rig is None:
            return [fitted(image.mask, i) for i, image in enumerate(images)], None
        whole = fitted(
            torch.stack([image.mask for image in images]) if rig is None else rig.masks, 0,
            track=args.track, rig=None if rig is None else rig.camera, find_scale=args.find_scale,
        )  # fmt: skip
    apart = []
    for i in range(len(images)):
        if rig is None:
            listed = whole.candidates[i]
        else:
            listed = tuple(
                replace(each, camera=each.camera[i].cropped()) for each in whole.candidates[0]
            )
        one = whole.camera[i].cropped()
        apart.append(PoseResult(one, whole.iou[i : i + 1], (listed,)))
    return apart, whole


def _say(
    images: list[_Photo], results: list[PoseResult], whole: PoseResult | None, *, is_video: bool
) -> None:
    """Print how sure the poses are."""
    names = [image.name for image in images]
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


def _entry(image: _Photo, result: PoseResult) -> dict[str, Any]:
    """What camera.json says of an image, in its own pixels, in a world that counts from 0."""
    camera = result.camera.in_world()
    r, t, k = camera.to_opencv(image.size)
    names = ("R", "T", "focal_length", "principal_point")
    torch3d = dict(zip(names, (each[0].tolist() for each in camera.to_pytorch3d()), strict=True))
    return {
        "image": image.name,
        "image_size": list(image.size),
        "iou": float(result.iou),
        "touches_border": image.touches_border,
        "fov": 2 * math.degrees(math.atan(1 / float(camera.focal[0].max()))),
        "opengl": {"camera_to_world": camera.camera_to_world[0].tolist()},
        "opencv": {"R": r[0].tolist(), "t": t[0].tolist(), "K": k[0].tolist()},
        "pytorch3d": {**torch3d, "in_ndc": True},
        "others": [
            {
                "iou": each.iou,
                "degrees": each.angle,
                "camera_to_world": each.camera.in_world().camera_to_world[0].tolist(),
            }
            for each in result.candidates[0][1:]
        ],
    }


# -- pictures --------------------------------------------------------------------------------------


def _overlay(mesh: Mesh, camera: Camera, mask: Tensor, window: visual.Closeup) -> visual.Pixels:
    """The difference of a mask and of the mesh, in a window."""
    found = visual.silhouettes(mesh, camera, (mask.shape[0], mask.shape[1]))[0]
    return visual.difference(window.cut(mask, 0), window.cut(found, 0))


def _sheet(title: str, mesh: Mesh, posed: Posed, count: int) -> visual.Pixels:
    """A row for each of some of `count` images: mask, mesh, difference, and the other poses."""
    others = min(OTHERS, max(len(result.candidates[0]) - 1 for _, result in posed))
    rows: list[tuple[str, visual.Color, list[visual.Pixels], list[str]]] = []
    for image, result in posed:
        window = visual.Closeup.of(image.mask[None], TILE)
        tiles = [visual.photo(image.mask[None], None, 0, window)]
        tiles += visual.shaded(mesh, window.camera(result.camera), window.size, visual.FIT)
        tiles += [_overlay(mesh, result.camera, image.mask, window)]
        poor = ", poor" if float(result.iou) < POOR else ""
        notes = [image.name, f"IoU {float(result.iou):.3f}{poor}", ""]
        for each in result.candidates[0][1 : 1 + others]:
            tiles += visual.shaded(mesh, window.camera(each.camera), window.size, visual.BOTH)
            notes += [f"{each.iou:.3f}, {each.angle:.0f}° away"]
        rows.append(("", visual.INK, tiles, notes))
    shown = "" if count == len(posed) else f", {len(posed)} of them"
    return visual.sheet(
        f"{title} in {count} image{'s' * (count > 1)}{shown}",
        "difference: grey both, blue the image only, orange the mesh only",
        ["image", "mesh", "difference", *["or this"] * others],
        rows,
    )


def _track_frames(mesh: Mesh, posed: Posed) -> Iterator[visual.Pixels]:
    """The images of a video: their differences to the mesh, and the mesh."""
    height, width = posed[0][0].mask.shape
    tall = max(1, round(WIDE * height / width))
    window = visual.Closeup(
        torch.zeros(1, 2, dtype=torch.float64),
        (width / min(height, width), height / min(height, width)),
        (tall, WIDE),
    )
    for i in visual.spread(len(posed), FRAMES):
        image, result = posed[i]
        page = visual.Page(2 * WIDE + 30, tall + 44)
        page.text(10, 9, f"{image.name[:30]}   IoU {float(result.iou):.3f}", 14)
        page.tile(_overlay(mesh, result.camera, image.mask, window), 10, 34)
        (tile,) = visual.shaded(mesh, window.camera(result.camera), window.size, visual.FIT)
        page.tile(tile, WIDE + 20, 34)
        yield page.pixels()
