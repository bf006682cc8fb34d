"""`gendr fit` of photos without masks: a mesh of all that they see."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gendr._common.files import write_all
from gendr._common.memory import give_back
from gendr._common.texts import first_few
from gendr.cli.command_line import say
from gendr.cli.common import METRICS, as_json, model_file, read_json, versions
from gendr.cli.masks import NoBackdropError
from gendr.cli.parser import Fit
from gendr.cli.photos import (
    TEXTURED,
    overrun,
    say_blurred,
    write_results,
)
from gendr.cli.progress import Session
from gendr.cli.resume import DEPTH_MAPS, Run, Stages
from gendr.jobs.loop import Stopwatch
from gendr.kernels.threads import num_threads
from gendr.mesh import Camera, Mesh
from gendr.photos import visual
from gendr.photos.camera_files.opencv import OPENCV
from gendr.photos.camera_files.transforms import read_cameras
from gendr.photos.fitting.colors.fit import ColorResult, fit_colors
from gendr.photos.scene.box import find_box, read_box
from gendr.photos.scene.build import SceneSettings, build, points_file
from gendr.photos.scene.model import Scene, read_scene
from gendr.photos.scene.views import camera_of, framed, scored, trust_of
from gendr.photos.views import view_sizes

# The longer side of photos for stereo, in pixels, unless --image-size says another shorter one.
SIDE, LEAST_SIDE = 1600, 320
# Seconds of one core for a megapixel, of all stages, and of none, by which --budget chooses sizes.
_SECONDS, _ALWAYS = 22.0, 25.0
POINTS, SHEET = "points.ply", "sheet.png"
# The preview: its files, the longer side of photos for it and from which on there is one, and the
# part of the faces that it has; and all stages in times of those that it takes.
PREVIEWS, SIDE_FILE = ("preview.glb", "preview.png"), "side.json"
PREVIEW_SIDE, PREVIEW_FROM, PREVIEW_PART, _ALL = 500, 800, 0.25, 1.6
# The least cosine at which photos show colours: the ground is seen at a degree.
GRAZING = 0.02
# Parts of the pixels of a photo: less of the mesh, of what is no sky, or more in one place that
# looks otherwise, is said. A heap of solids is covered by 0.69 and more, with a white wall behind
# it by 0.53 to 0.59; one place looks otherwise by 0.007 at most, with a person who moves by 0.01 to
# 0.05.
_COVERED, _APART = 0.6, 0.01
_SOME = 0.005  # of the pixels, less of which is not said
# What is said of mirrors of a kind.
_MIRRORS = {
    "water": "still water: {share:.1%} of all pixels show a level plane that mirrors what is above "
    "it; the mesh has the plane there, and nothing below",
    "pane": "panes or mirrors in walls: {share:.1%} of all pixels show {count} of them, where what "
    "seems to be behind the wall is there again before it; the mesh has planes there, and what may "
    "stand behind the glass is not in it",
}
# Photos on the sheet, and the width of a picture.
SHOWN, TILE = 4, 480


def run(args: Fit, run: Run, why: NoBackdropError | None = None) -> int:
    """Make the mesh of a scene and return the exit status.

    Args:
        args: of the command.
        run: with its output folder.
        why: no object is fitted, if nobody asked for the scene.
    """
    try:
        return _run(args, run, why is not None)
    except ValueError as error:
        with suppress(OSError):  # which holds something
            (run.out / DEPTH_MAPS).rmdir()
        if why is None:
            raise
        own = args.cameras == str(run.out / OPENCV)
        more = "; with --resume the cameras that were found are kept" * own
        raise ValueError(f"{why}. No scene either: {error}{more}") from None


def _run(args: Fit, run: Run, by_itself: bool) -> int:
    clock = Stopwatch()
    out, path = run.out, model_file(args.target)
    side, count = _side(args, path)
    every = args.hold_out
    if every == 1:
        raise ValueError("--hold-out 1 leaves no photo to use; give 2 or more, or 0 for none")
    # As gendr splat does.
    left_out = list(range(min(every, count) // 2, count, every)) if every else []
    given = read_box(args.box) if args.box else None
    session = Session("scene", None, quiet=args.quiet, at_once=True)
    with session:
        with session.part("read"):
            scene = read_scene(
                path, cameras=args.cameras, side=side, max_megapixels=args.max_megapixels,
                left_out=left_out,
            )  # fmt: skip
        clock.lap("read")
        _warn(args, scene, left_out)
        box: Any = None
        if args.box:
            corners = find_box(scene) if given is None else given - scene.origin
            box = tuple(map(tuple, corners.tolist()))
        settings = SceneSettings(faces=args.faces, box=box)
        if not run.resume:
            _clear(out / DEPTH_MAPS)
        (out / DEPTH_MAPS).mkdir(exist_ok=True)
        run.begin()
        stages = Stages(run, session)
        session.place = "on its way", f"with what is in {out}"
        scene = _previewed(args, run, scene, settings, session, clock.elapsed)
        clock.lap("preview")
        with session.part("stereo") as tell:
            try:
                found = build(scene, out / DEPTH_MAPS, settings, tell)
            except ValueError:  # another time would find no more
                _clear(out / DEPTH_MAPS)
                raise
        mesh, facts, points = found.mesh, found.facts, points_file(scene, found.cloud)
        used = [i for i in range(len(scene)) if scene.neighbours[i]]
        images, masks = framed(scene, used)
        size = (images.shape[2], images.shape[3])
        trust = trust_of(found.cloud, used, size)
        skies = [depths < 0 for depths in found.cloud.depths]
        del found
        give_back()
        clock.lapped(facts.pop("seconds"))
        blurred: list[str] = []
        if args.colors != "none":
            colors = _colored(args, mesh, scene, used, (images, masks, trust), stages)
            mesh, blurred = colors.mesh, [scene.names[used[k]] for k in colors.blurred]
            say_blurred(blurred, args.quiet)
        del images, masks, trust
        give_back()
        clock.lap("colors")
        with session.part("measure") as tell:
            scores = scored(mesh, scene, left_out or used, skies, tell)
            missing = _not_placed(args)
            said = _progress_of(args, facts, scores, mesh, len(used), len(missing))
            page = _sheet(mesh, scene, left_out or used, *said)
        if not args.quiet:
            for line in warnings_of(scores["each"], facts, boxed=box is not None):
                say("gendr", line)
        clock.lap("measure")
        seconds = clock.seconds()
        whole = mesh.with_origin(torch.from_numpy(scene.origin))
        metrics: dict[str, Any] = {
            "finished": True, "kind": "scene", "target": str(args.target),
            "photos": list(scene.names), "placed": len(scene), "not_placed": missing,
            "held_out": left_out,
            "image_size": list(size), "neighbours": [list(row) for row in scene.neighbours],
            "box": None if box is None else (np.array(box) + scene.origin).tolist(),
            **facts, "blurred": blurred, "scores": {**scores, "held_out": bool(left_out)},
            "vertices": len(mesh.vertices), "faces": len(mesh.faces), "seconds": seconds,
            "threads": num_threads(), "versions": versions(),
        }  # fmt: skip
        files = {out / SHEET: visual.picture(page), out / POINTS: points}
        files |= whole.to_files(out / TEXTURED)
        write_results(run, files, metrics)
        session.place = None
        stages.clear("colors")
        _clear(out / DEPTH_MAPS)
        for name in PREVIEWS:
            (out / name).unlink(missing_ok=True)
    if not args.quiet:
        where = f"{len(left_out)} photos left out" if left_out else "the photos themselves"
        sys.stdout.write(
            f"{'no masks and no backdrop: ' * by_itself}"
            f"a scene of {len(used)} photos: {len(mesh.faces):,} faces, "
            f"{facts['matched']:.0%} of pixels matched, {_planar(facts)}"
            f"{facts['plain']:.0%} plain; PSNR {scores['psnr']:.1f} dB "
            f"over the {scores['cover']:.0%} that it covers of {where}, {seconds['total']:.1f} s"
            f"{overrun(seconds['total'], args.settings.budget)}\n"
            f"{out}: {', '.join([*(path.name for path in files), METRICS])}\n"
            f"next: open {out / TEXTURED} in any viewer\n"
        )
    return 0


def _clear(folder: Path) -> None:
    """Remove the depth maps of an earlier run, and nothing else that may be there."""
    for file in (*folder.glob("*/*_*.npz"), *folder.glob(SIDE_FILE)):
        file.unlink()
    for place in (*folder.glob("*"), folder):
        with suppress(OSError):  # which is not empty, or no folder
            place.rmdir()


def _side(args: Fit, path: Path) -> tuple[int, int]:
    """The longer side of what is made of photos, and how many these are."""
    sizes = view_sizes(path, cameras=args.cameras, max_megapixels=args.max_megapixels)
    side = SIDE
    if args.image_size is not None:
        # A strip that somebody cut out would make all others as large as its shorter side asks.
        side = round(args.image_size * float(np.median([max(size) / min(size) for size in sizes])))
    elif args.settings.budget is not None:
        own = sum(min(size) / max(size) for size in sizes)  # megapixels at a longer side of 1000
        cores = min(num_threads(), len(sizes))
        left = max(args.settings.budget - _ALWAYS, 0.0) * cores / _SECONDS
        # The preview tells more, but takes time itself.
        guess = int(max(LEAST_SIDE, 1000 * (left / own) ** 0.5))
        side = guess if guess < PREVIEW_FROM else SIDE
    return side, len(sizes)


def _previewed(
    args: Fit, run: Run, scene: Scene, settings: SceneSettings, session: Session, spent: float
) -> Scene:
    """The scene at a size for which there is time, after a preview from small photos.

    The preview shows how fast the machine is, by which --budget chooses the size; what it chose is
    kept for --resume.
    """
    out = run.out
    kept, side = out / DEPTH_MAPS / SIDE_FILE, max(max(image.shape[:2]) for image in scene.images)
    asked = {"asked": side, "budget": args.settings.budget}
    before = read_json(kept) if run.resume else {}
    if asked.items() <= before.items():
        return scene.smaller(int(before["side"]))
    if side < PREVIEW_FROM:
        return scene
    begin, small = time.perf_counter(), scene.smaller(PREVIEW_SIDE)
    with session.part("preview") as tell:
        try:
            faces = max(100, int(PREVIEW_PART * settings.faces))
            found = build(small, out / DEPTH_MAPS, replace(settings, faces=faces, finer=1.0), tell)
        except ValueError:  # larger photos may show what small ones do not
            return scene
        glb, png = (out / name for name in PREVIEWS)
        rows = [i for i in range(len(scene)) if scene.neighbours[i]]
        whole = found.mesh.with_origin(torch.from_numpy(scene.origin))
        files = {
            png: visual.picture(_sheet(found.mesh, small, rows, "preview")),
            **whole.to_files(glb),
        }
    taken = time.perf_counter() - begin
    budget = args.settings.budget
    if budget is not None:
        share = max(0.0, budget - spent - taken) / (_ALL * taken)
        side = int(min(side, max(LEAST_SIDE, PREVIEW_SIDE * share**0.5)))
    write_all({**files, kept: as_json({"side": side, **asked})})
    if not args.quiet:
        text = f"a preview after {taken:.0f} s: {glb}"
        say("gendr", text + (f"; going on with {side} pixels" if budget is not None else ""))
    return scene.smaller(side)


def _warn(args: Fit, scene: Scene, left_out: list[int]) -> None:
    """Say which photos overlap too little with others."""
    if args.quiet:
        return
    alone = [
        scene.names[i] for i in range(len(scene))
        if i not in left_out and len(scene.neighbours[i]) < 2
    ]  # fmt: skip
    if alone:
        say(
            "gendr",
            "overlap with fewer than two others, so that little is known there: "
            + first_few(alone),
        )


def warnings_of(
    each: Sequence[dict[str, Any]], facts: dict[str, Any], *, boxed: bool = False
) -> list[str]:
    """What is to be said of photos that a mesh does not show as it should: a line for each kind.

    Args:
        each: of photos, what `scored` measures.
        facts: of `build`; the shares of pixels.
        boxed: whether only a part of what they show is wanted.
    """
    said: list[str] = []
    for kind, text in _MIRRORS.items():
        own = [one["share"] for one in facts["mirrors"] if one["kind"] == kind]
        if own:
            said.append(text.format(share=sum(own), count=len(own)))
    low = [one for one in each if one["cover"] < _COVERED * (1 - one["sky"])]
    bare = [] if boxed else low
    if bare:
        sky = float(np.mean([one["sky"] for one in bare]))
        taken = f"{sky:.0%} of them is taken for sky; " if sky > _SOME else ""
        other = 1 - sum(facts[key] for key in ("matched", "assumed", "planar", "plain", "mirrored"))
        said.append(
            f"less than {_COVERED:.0%} of these photos, but for their sky, is covered by the mesh: "
            f"{first_few([one['photo'] for one in bare])}; {taken}"
            f"of all pixels {facts['plain']:.0%} are plain (sky, a white wall, water) and "
            f"{other:.0%} look otherwise in other photos, or are in none, so that they are "
            "matched nowhere"
        )
    apart = [one for one in each if one["apart"] > _APART]
    if apart:
        most = max(one["apart"] for one in apart)
        said.append(
            f"in one place, of up to {most:.1%} of the picture, these photos show something else "
            "than the mesh, as what moved meanwhile, mirrors, or is seen by few: "
            f"{first_few([one['photo'] for one in apart])}"
        )
    return said


def _colored(
    args: Fit, mesh: Mesh, scene: Scene, used: list[int],
    photos: tuple[torch.Tensor, torch.Tensor | None, torch.Tensor], stages: Stages,
) -> ColorResult:  # fmt: skip
    """The mesh with a texture, of `framed` photos and what they are trusted."""
    images, *rest = photos
    camera = camera_of(scene, used, (images.shape[2], images.shape[3]))
    plain = Mesh(mesh.vertices, mesh.faces)
    return stages.run(
        "colors", ColorResult, fit_colors, plain, images, camera, *rest,
        kind="texture", texture_size=args.texture_size, exposure=args.exposure is not False,
        least_cosine=GRAZING,
        light="none" if args.light == "auto" else args.light,
    )  # fmt: skip


def _not_placed(args: Fit) -> list[str]:
    """The photos for which no cameras were found, by the file of these."""
    given = None if args.cameras is None else Path(args.cameras)
    file = read_cameras(model_file(args.target), given).file
    found = read_json(file).get("left_out") if file.suffix.lower() == ".json" else None
    return list(map(str, found)) if isinstance(found, list) else []


def _progress_of(
    args: Fit, facts: dict[str, Any], scores: dict[str, Any], mesh: Mesh, used: int, missing: int
) -> tuple[str, str]:
    """The two lines on the sheet of a mesh, which do not differ from run to run."""
    two, three = facts["seen_by"]["two"], facts["seen_by"]["three"]
    which = "photos left out" if args.hold_out else "its own photos"
    return (
        f"{Path(args.target).name}: {used} photos{f' ({missing} not placed)' if missing else ''}, "
        f"{len(mesh.faces):,} faces; PSNR {scores['psnr']:.1f} dB over the {scores['cover']:.0%} "
        f"that it covers of {which}",
        f"{facts['matched']:.0%} of pixels matched, {_planar(facts)}{facts['kept']:.0%} kept as "
        f"{facts['points']:,} points; of the surface {three:.0%} is seen by three photos or more, "
        f"{two:.0%} by two",
    )


def _planar(facts: dict[str, Any]) -> str:
    """The share of pixels that is taken to lie on planes around them, if it is not next to none."""
    return f"{facts['planar']:.0%} taken to lie on planes, " if facts["planar"] > _SOME else ""


def _sheet(
    mesh: Mesh, scene: Scene, rows: list[int], title: str, subtitle: str = ""
) -> visual.Pixels:
    """Photos, upright, and beside each the mesh with its colours and without, from its camera."""
    from PIL import Image

    lines: list[tuple[str, visual.Color, list[visual.Pixels], list[str]]] = []
    for i in (rows[k] for k in visual.spread(len(rows), SHOWN)):
        height, width = scene.images[i].shape[:2]
        part = TILE / (height if scene.quarters[i] % 2 else width)
        size = (round(part * height), round(part * width))
        camera: Camera = camera_of(scene, [i], (height, width))
        shown = Image.fromarray(scene.images[i]).resize((size[1], size[0]), Image.Resampling.BOX)
        painted = visual.shaded(mesh.with_unlit(), camera, size)[0]
        bare = visual.shaded(mesh, camera, size, visual.BOTH)[0]
        tiles = [np.rot90(x, -scene.quarters[i]) for x in (np.asarray(shown), painted, bare)]
        lines.append(("", visual.INK, tiles, [scene.names[i], "", ""]))
    return visual.sheet(title, subtitle, ("photo", "with colours", "shape"), lines)
