"""What `gendr fit` does with photos: cameras before the shape, hollows and colours after it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gendr._common.files import write_all
from gendr._common.texts import first_few
from gendr.cli.command_line import say
from gendr.cli.common import METRICS, as_json, check_effect, model_file, read_json
from gendr.cli.parser import Fit
from gendr.cli.resume import Run, Stages
from gendr.kernels.threads import mapped
from gendr.losses import iou
from gendr.mesh import Mesh
from gendr.photos import fitting, visual  # the parts of `fitting` come with their first use
from gendr.photos.camera_files.opencv import lens_entries, points_of
from gendr.photos.camera_files.transforms import lens_of, list_frames, read_cameras
from gendr.photos.meshing.remeshing import without_small_parts
from gendr.photos.suspicious_masks import suspicious_masks
from gendr.photos.views import Views

if TYPE_CHECKING:
    from gendr.photos.fitting import CameraResult, ColorResult, FitResult

# File names: refined cameras, in the reader's own form of OpenCV's matrices, and beside the OBJ.
CAMERAS, TEXTURED, COLORED = "cameras.json", "fit.glb", "fit.ply"
# Results of objects and scenes: those of an earlier fit go that this one does not have.
RESULTS = {"fit.obj", "fit.gif", "sheet.png", "points.ply", TEXTURED, COLORED, METRICS}
# Shorter side in pixels of the photos for stereo, unless --image-size says less or more.
STEREO_SIZE = 400
# Of those that colours are taken from, unless --color-size says another: as many photos of a square
# shape as there are have this many pixels in all, within limits.
COLOR_PIXELS, COLOR_SIZES = 20_000_000, (512, 1024)
# Small parts that the mean IoU loses more without are wanted by masks.
_WANTED = 5e-4


def write_results(run: Run, files: Mapping[Path, bytes], metrics: Mapping[str, Any]) -> None:
    """Write the results of a fit; what an earlier fit left under other names of results goes."""
    own = read_json(run.out / METRICS).get("kind") in ("mesh", "images", "scene")
    write_all({**files, run.out / METRICS: as_json(metrics)})
    for name in RESULTS - {path.name for path in files} - {METRICS} if own else ():
        (run.out / name).unlink(missing_ok=True)
    run.finish(files)


def check_colors(args: Fit, kind: str) -> None:
    """Refuse options that there are not for colours of a kind.

    Args:
        args: of the command.
        kind: "texture", "vertex" or "none".

    Raises:
        ValueError: naming the option.
    """
    gets = "colours on vertices, without a texture" if kind == "vertex" else "no colours"
    check_effect(
        args,
        (kind != "texture", "texture_size", f"{args.target} gets {gets}"),
        (kind == "none", "color_size exposure light", f"{args.target} gets {gets}"),
    )


def _check_colored(option: str, args: Fit, views: Views) -> None:
    """Refuse an option that needs the colours of photos if there are none."""
    if views.rgb is None:
        raise ValueError(
            f"{option} needs photos, and {args.target} is masks without colours; leave it out"
        )


def trusted(args: Fit, views: Views) -> tuple[int, ...] | None:
    """The rows of the photos whose masks do not contradict the others; None if none does.

    Cameras that are to be put right may be why they do: then all are kept.
    """
    if args.keep_doubtful or "cameras" in args.refine:
        return None
    doubtful = suspicious_masks(views.camera, views.masks)
    if not doubtful:
        return None
    if not args.quiet:
        names = ", ".join(views.names[i] for i in doubtful)
        say(
            "gendr",
            f"left out, because their masks contradict the others (a wrong mask or pose): {names}; "
            "--keep-doubtful uses them",
        )
    return tuple(i for i in range(len(views)) if i not in doubtful)


# -- cameras ---------------------------------------------------------------------------------------


def refined_cameras(args: Fit, views: Views, stages: Stages) -> CameraResult:
    """The cameras put right, with a progress bar, and a line about what was found."""
    given = views.masks, views.camera, views.rgb
    focal = "focal" in args.refine
    found = stages.run("cameras", fitting.CameraResult, fitting.refine_cameras, *given, focal=focal)
    if not args.quiet:
        say("gendr", _line(found))
    return found


def _line(found: CameraResult) -> str:
    if not found.refined:
        return (
            "the cameras are kept as they were given: others do not agree better with the masks "
            f"(outlines differ by {found.gap[0]:.2g} pixels)"
        )
    focal = "" if found.focal == 1 else f", focal lengths times {found.focal:.4f}"
    return (
        f"cameras turned by {float(found.degrees.mean()):.2g} degrees on average{focal}; outlines "
        f"differ by {found.gap[1]:.2g} pixels, {found.gap[0]:.2g} before"
    )


def camera_facts(found: CameraResult) -> dict[str, Any]:
    """What `metrics.json` says about cameras that were put right."""
    return {
        "refined": found.refined,
        "degrees": found.degrees.tolist(),
        "moved": found.moved.tolist(),
        "focal": found.focal,
        "gap": found.gap,
        "hull_iou": found.iou,
        "color_error": found.color_error,
    }


def opencv_file(args: Fit, found: CameraResult) -> bytes:
    """Cameras of a folder as `gendr fit` reads them, for images of the sizes that they have there.

    Paths are relative to the folder of the photos, where the file belongs.
    """
    given = None if args.cameras is None else Path(args.cameras)
    cameras = read_cameras(model_file(args.target), given)
    rotations, shifts, _ = found.camera.in_world().to_opencv(2)  # for any size
    entries: list[dict[str, Any]] = []
    for i, frame in enumerate(list_frames(cameras, args.max_megapixels)):
        lens = lens_of(cameras.meta, frame).zoomed(found.focal)
        entry: dict[str, Any] = {
            "file": _within(frame.image, cameras.root),
            "width": frame.size[1],
            "height": frame.size[0],
            **lens_entries(lens),
            "R": rotations[i].tolist(),
            "t": shifts[i].tolist(),
        }
        if frame.mask is not None:
            entry["mask"] = _within(frame.mask, cameras.root)
        entries.append(entry)
    # Points that were found with the cameras given stay beside those that are written.
    points = None if given is None else points_of(given)
    if points is not None and points.parent.resolve() == Path(args.output).resolve():
        return as_json({"points": points.name, "images": entries})
    return as_json({"images": entries})


def _within(path: Path, root: Path) -> str:
    return Path(os.path.relpath(path, root)).as_posix()


# -- hollows ---------------------------------------------------------------------------------------


def moves_surface(args: Fit, views: Views | None) -> bool:
    """Whether photos are to move the surface: as by default if they can.

    Raises:
        ValueError: if they shall and cannot: without colours, or if there are too few.
    """
    if views is None or args.shape == "silhouettes":
        return False
    if args.shape is None and views.rgb is None:
        return False
    from gendr.photos.fitting.shape.stereo import LEAST_VIEWS

    _check_colored("--shape photos", args, views)
    enough = len(views) >= LEAST_VIEWS
    if args.shape is not None and not enough:
        raise ValueError(
            f"--shape photos needs at least {LEAST_VIEWS} photos, and {args.target} has "
            f"{len(views)}; leave it out"
        )
    return enough


def refined_shape(
    args: Fit,
    result: FitResult,
    views: Views,
    large: Views,
    stages: Stages,
    budget: float | None,
) -> tuple[FitResult, dict[str, Any]]:
    """The result with its surface moved by stereo, and what `metrics.json` says about that.

    Args:
        args: of the command.
        result: of the fit to silhouettes.
        views: of that fit.
        large: the same photos at the size that stereo takes.
        stages: of the fit.
        budget: seconds that stereo may take, or None.
    """
    refine = partial(fitting.refine_shape, budget=budget)
    given = result.mesh, large.rgb, large.camera, large.masks
    found = stages.run("refine", fitting.ShapeResult, refine, *given)

    def both(values: tuple[float, float]) -> dict[str, float | None]:
        known = (None if isnan(value) else value for value in values)
        return dict(zip(("before", "after"), known, strict=True))

    facts = {
        "improved": found.improved,
        "psnr": both(found.psnr),
        "iou": both(found.iou),
        "moved": found.moved,
        "finished": found.finished,
        "reason": found.reason,
        "known": found.known,
    }
    if found.reason and not args.quiet:
        made = "was improved" if found.improved else "stays that of the masks"
        say("gendr", f"the surface {made}, without stereo: {found.reason}")
    if found.improved:
        alpha = visual.silhouettes(found.mesh, views.camera, views.image_size)
        each = iou(alpha, views.masks)
        measured = {"iou": float(each.double().mean()), "iou_per_view": [float(x) for x in each]}
        result = replace(result, mesh=found.mesh, metrics={**result.metrics, **measured})
    return result, {"rgb": facts}


def without_crumbs(
    args: Fit, result: FitResult, views: Views
) -> tuple[FitResult, dict[str, Any] | None]:
    """The result without small floating parts, unless masks want them; and what was removed."""
    mesh, count, share = without_small_parts(result.mesh)
    if not count:
        return result, None
    seen = visual.silhouettes(mesh, views.camera, views.image_size)
    each = iou(seen, views.masks)
    before = float(iou(visual.silhouettes(result.mesh, views.camera, views.image_size),
                       views.masks).double().mean())  # fmt: skip
    found = float(each.double().mean())
    if found < before - _WANTED:
        return result, None
    if not args.quiet:
        parts = f"{count} small part{'s' * (count > 1)}"
        say("gendr", f"removed {parts} of the mesh beside the object, {share:.2%} of its area")
    metrics = {**result.metrics, "iou": found, "iou_per_view": [float(x) for x in each]}
    return replace(result, mesh=mesh, metrics=metrics), {"parts": count, "area": share}


# -- colours ---------------------------------------------------------------------------------------


def carrier(args: Fit, views: Views | None) -> str:
    """What is to carry the colours: "texture", "vertex" or "none".

    Raises:
        ValueError: if colours are asked for and there are none.
    """
    if views is None or args.colors == "none":
        return "none"
    if args.colors is not None:
        _check_colored(f"--colors {args.colors}", args, views)
    return "none" if views.rgb is None else args.colors or "texture"


def color_size(count: int) -> int:
    """The largest shorter side of so many photos that colours are taken from."""
    least, most = COLOR_SIZES
    return min(max(int((COLOR_PIXELS / count) ** 0.5), least), most)


def colored(args: Fit, mesh: Mesh, views: Views, kind: str, stages: Stages) -> ColorResult:
    """The mesh with the colours of the photos; a progress bar, and a line about blurred ones."""
    found = stages.run(
        "colors", fitting.ColorResult, fitting.fit_colors,
        mesh, views.rgb, views.camera, views.masks,
        kind=kind, texture_size=args.texture_size, exposure=args.exposure, light=args.light,
    )  # fmt: skip
    say_blurred([views.names[i] for i in found.blurred], args.quiet)
    return found


NEARLY = 0.1  # of a budget may be too much without a word


def overrun(seconds: float, budget: float | None) -> str:
    """By how much a command took longer than its budget, to end a line with; "" if it did not."""
    over = 0.0 if budget is None else seconds - budget
    return f", {over:.0f} s more than the budget" if over > NEARLY * (budget or 0.0) else ""


def say_blurred(names: list[str], quiet: bool) -> None:
    """A line about photos that hardly count for the colours, if there are any."""
    if names and not quiet:
        text = first_few(names)
        say("gendr", f"hardly count for the colours, because they are blurred: {text}")


# Of right cameras and masks the mean IoU is above 0.9, also at 64 pixels; of cameras of another
# object it was 0.74. A ring all around shows two photos nearly all of a surface; half a ring half.
_CONTRADICT, _HALF_SEEN = 0.85, 0.7
# What masks show that the mesh does not counts beyond so many pixels from its outline, and where it
# is thicker than three; in a photo, from such a part of its mask on; and in so many photos, or such
# a part of them. Of the bulldozer there is none, of right masks with noise below a hundredth.
_BESIDE, _LACKS, _SOME, _OFTEN = 2, 0.01, 3, 0.1


def lacking(mesh: Mesh, views: Views) -> list[tuple[str, float]]:
    """The photos, if they are several, whose masks show parts that the mesh does not have.

    Returns:
        Their names, and these parts as shares of their masks, the largest first.
    """
    from scipy.ndimage import binary_dilation, binary_opening

    shown = visual.silhouettes(mesh, views.camera, views.image_size) > 0.5

    def share(i: int) -> float:
        mask, box = (views.masks[i] > 0.5).cpu().numpy(), np.ones((3, 3))
        near = np.asarray(binary_dilation(shown[i].cpu().numpy(), box, _BESIDE), bool)
        more = np.asarray(binary_opening(mask & ~near, box), bool)
        return float(more.sum() / max(1, mask.sum()))

    found = sorted(zip(mapped(share, range(len(shown))), views.names, strict=True), reverse=True)
    some = [(name, part) for part, name in found if part > _LACKS]
    return some if len(some) >= max(_SOME, _OFTEN * len(shown)) else []


def warnings_of(
    found: float,
    seen: float,
    quality: dict[str, Any],
    lacks: list[tuple[str, float]],
    count: int,
    *,
    from_hull: bool,
) -> list[str]:
    """What is to be said of a fit to photos that is not as it should be.

    Args:
        found: its mean IoU.
        seen: the part of its surface that two photos show.
        quality: as `mesh_quality` has it.
        lacks: as `lacking` has it.
        count: of all photos.
        from_hull: whether it began with the visual hull.
    """
    said: list[str] = []
    if from_hull and found < _CONTRADICT:
        said.append(
            f"photos and cameras contradict each other: a mean IoU of {found:.2f} says that no "
            "shape has these outlines from there. Are the cameras those of these photos, and in "
            "their order? Are the masks right? --refine cameras mends poses that are slightly off"
        )
    if seen < _HALF_SEEN:
        said.append(
            f"two photos or more show only {seen:.0%} of the surface; the rest is a guess, which "
            "photos from there would mend"
        )
    if lacks:
        names = first_few([name for name, _ in lacks])
        said.append(
            f"the masks of {len(lacks)} of {count} photos show parts that the mesh does not have, "
            f"up to {lacks[0][1]:.1%} of the object: {names}. What moved meanwhile is missing in "
            "it, or shadows and other things are in these masks"
        )
    if quality["crumbs"]:
        said.append(
            f"the mesh has {quality['parts']} parts, {quality['crumbs']} of them crumbs of less "
            "than a hundredth of its area, which wrong masks leave"
        )
    return said


def color_facts(result: ColorResult, views: Views, kind: str) -> dict[str, Any]:
    """What `metrics.json` says about the colours."""
    texture, light = result.mesh.texture, result.light
    return {
        "kind": kind,
        "texture_size": None if texture is None else list(texture.shape[:2]),
        "image_size": list(views.image_size),
        "psnr": float(result.psnr.double().mean()),
        "psnr_per_view": [round(float(x), 3) for x in result.psnr],
        "seen": result.seen,
        "weights": [round(float(x), 3) for x in result.weights],
        "blurred": [views.names[i] for i in result.blurred],
        "exposure": result.exposure.double().round(decimals=5).tolist(),
        "light": None
        if light is None
        else {
            "frame": light.frame,
            "coefficients": light.coefficients.double().round(decimals=5).tolist(),
        },
    }
