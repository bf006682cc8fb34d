"""`gendr fit`: a thin layer over `gendr.photos.fitting.fit`, with files around it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gendr._common.files import write_whole
from gendr.cli import photos
from gendr.cli.cameras import check_photos, with_cameras
from gendr.cli.common import (
    FINISHED,
    METRICS,
    as_json,
    check_checkpoint,
    check_effect,
    check_output,
    check_own,
    given_options,
    model_file,
    shrunk_to,
    versions,
)
from gendr.cli.masks import NoBackdropError, with_masks
from gendr.cli.parser import Fit
from gendr.cli.progress import Session
from gendr.cli.resume import CHECKPOINT, PROGRESS, Run, Stages
from gendr.jobs.devices import usable_device
from gendr.jobs.folders import output_folder
from gendr.jobs.loop import Stopwatch
from gendr.kernels.threads import Beside, num_threads
from gendr.losses import chamfer
from gendr.mesh import Camera, Mesh
from gendr.mesh.quality import mesh_quality
from gendr.photos import visual
from gendr.photos.capture.video import is_video
from gendr.photos.fitting import FitResult, FitSettings, FitState, fit
from gendr.photos.fitting.shape.state import KIND
from gendr.photos.fitting.visibility import visible_share
from gendr.photos.views import Views, load_views, view_sizes
from gendr.rendering.backends.choice import choose

if TYPE_CHECKING:
    from gendr.photos.fitting import CameraResult

# File names: the results of a finished fit, which are replaced together, and below them the files
# of a fit that is under way.
MESH, SHEET, ANIMATION, PREVIEW = "fit.obj", "sheet.png", "fit.gif", "preview.png"
# Seconds between two checkpoints.
SAVE_SECONDS = 5.0
# The part of a budget that steps take, and that at which stereo ends, where there is stereo; else,
# where there are colours, and where there are none. What is left is for colours and pictures.
STEPS_PART, STEREO_UNTIL, STEPS_BEFORE_COLORS, STEPS_ALONE = 0.35, 0.75, 0.75, 0.9
# What options are for, the kinds of runs that have them, and their names; all others are of any.
_OF_SCENES = "faces box hold_out"
_OPTIONS = (
    ("meshes", "mesh", "views elevation"),
    ("scenes", "scene", _OF_SCENES),
    ("photos", "object scene", "scene cameras colors texture_size exposure light"),
    ("photos of an object", "object", "object masks background tolerance keep_doubtful refine shape"
     " color_size"),
    # The command's frames are those of a video, not of an animation.
    ("fits to silhouettes", "mesh object", "init subdivisions " + " ".join(
        each.name for each in fields(FitSettings) if each.name not in ("budget", "frames"))),
)  # fmt: skip
_KINDS = {"mesh": "is a mesh", "object": "is fitted to masks", "scene": "is made as a scene"}
# Default size in pixels: of the images of a mesh, and of the shorter side of photos; and both for a
# fit that starts from a sphere, whose few large faces show no more.
MESH_SIZE, IMAGE_SIZE = 128, 256
SPHERE_MESH_SIZE, SPHERE_IMAGE_SIZE = 64, 128
# Default number of views of a mesh, and their elevation in degrees.
VIEWS, ELEVATION = 24, 30.0
# What a fit may start from beside a mesh, and the number of views from which a hull is the default.
STARTS, HULL_VIEWS = ("hull", "sphere"), 4
# Views side by side and the side of each in pixels, in the animation and on the sheet.
COLUMNS, TILE = 4, 168
SHEET_COLUMNS, SHEET_TILE = 6, 144


@dataclass(frozen=True)
class _Shown:
    """Some views of a target, close up.

    Attributes:
        chosen: the numbers of the views.
        window: what is shown of each.
        camera: sees that.
        pictures: of the target.
    """

    chosen: list[int]
    window: visual.Closeup
    camera: Camera
    pictures: list[visual.Pixels]

    @staticmethod
    def of(target: _Target, width: int, most: int) -> _Shown:
        """At most so many views, as people look at photos, and so many pixels wide."""
        target = target.upright()
        window = visual.Closeup.of(target.masks, width)
        chosen = visual.spread(len(target.masks), most)
        camera = window.camera(target.camera)[chosen]
        return _Shown(chosen, window, camera, target.pictures(chosen, window))

    def shape(self, mesh: Mesh) -> list[visual.Pixels]:
        """Pictures of a shape."""
        return visual.shaded(mesh, self.camera, self.window.size, visual.FIT)


@dataclass(frozen=True)
class _Target:
    """What is fitted: masks and cameras, and where they come from."""

    name: str
    masks: Tensor
    camera: Camera
    mesh: Mesh | None = None
    views: Views | None = None
    refined: CameraResult | None = None
    kept: tuple[int, ...] | None = None  # the rows of the photos; None for all

    @property
    def origin(self) -> Tensor:
        """[3], the point in the world that coordinates count from."""
        if self.mesh is not None:
            return self.mesh.origin[0]
        return torch.zeros(3) if self.camera.origin is None else self.camera.origin

    def upright(self) -> _Target:
        """The same as people look at photos."""
        if self.views is None:
            return self
        views = self.views.upright()
        return replace(self, views=views, masks=views.masks, camera=views.camera)

    def pictures(self, chosen: list[int], window: visual.Closeup) -> list[visual.Pixels]:
        """Views of the target as a person wants to see them."""
        if self.mesh is None:
            assert self.views is not None  # for the type checker
            return [visual.photo(self.views.masks, self.views.rgb, i, window) for i in chosen]
        mesh = self.mesh
        own = mesh.textures or mesh.vertex_colors is not None or mesh.face_colors is not None
        seen = window.camera(self.camera)[chosen]
        return visual.shaded(mesh, seen, window.size, None if own else visual.TARGET)


def run(args: Fit) -> int:
    """Run `gendr fit` and return the exit status."""
    clock = _FitClock()
    device = usable_device(args.device)
    choose(args.settings.backend, torch.zeros((), device=device))  # refuses what is not there
    with output_folder(out := Path(args.output)):
        check_output(out, model_file(args.target), photos.RESULTS)
        check_own(out, CHECKPOINT, KIND)
        return _run(args, device, clock)


def _run(args: Fit, device: torch.device, clock: _FitClock) -> int:
    settings = args.settings
    if args.subdivisions is not None:
        settings = replace(settings, subdivisions=args.subdivisions)
    run, out = Run(args, model_file(args.target)), Path(args.output)
    if run.is_finished:
        if not args.quiet:
            sys.stdout.write(FINISHED.format(out))
        return 0
    if args.scene and args.object:
        raise ValueError("--scene and --object contradict each other; give one of them")
    # Before cameras are found, which takes minutes; and later, as there are masks or none.
    if not _is_photos(model_file(args.target)):
        _check_options(args, "mesh")
    elif args.scene or (not args.object and given_options(args, _OF_SCENES)):
        _check_options(args, "scene")
    else:
        _check_options(args, "object")
    args = with_cameras(args, args.target, run)
    run.compare_files()
    clock.lap("find cameras")
    why: NoBackdropError | None = None
    try:
        args = args if args.scene else with_masks(args, run)
    except NoBackdropError as reason:
        if args.object:
            raise ValueError(
                f"{reason}; or leave --object out, by which all is made that photos see, or with "
                "--box auto what they look at, and what it stands on"
            ) from None
        why = reason
    if args.scene or why is not None:
        from gendr.cli import scene  # with much that a fit to masks does without

        _check_options(args, "scene")
        return scene.run(args, run, why)
    if _is_photos(model_file(args.target)):
        _check_options(args, "object")
    if run.resume and run.has_results:
        check_checkpoint(out, CHECKPOINT)  # which results of a scene do not have
    target = _load(args, device)
    carrier = photos.carrier(args, target.views)
    moves = photos.moves_surface(args, target.views)
    photos.check_colors(args, carrier)
    if settings.budget is not None:
        alone = STEPS_ALONE if carrier == "none" else STEPS_BEFORE_COLORS
        part = STEPS_PART if moves else alone
        settings = replace(settings, budget=part * settings.budget)
    # Fewer than four views have a hull without ends.
    few = len(target.masks) < HULL_VIEWS or args.subdivisions is not None
    kind = args.init or ("sphere" if few else "hull")
    settings = settings.resolved(kind == "hull")
    check_effect(args, (not settings.remesh, "edge", "faces are kept without --remesh"))
    init: Any = kind
    if kind not in STARTS:
        init = _load_mesh(args, kind, device).relative_to(target.origin)
        if bool((init.vertices == init.vertices[:1]).all()):
            raise ValueError(f"--init {kind} has no extent, all its vertices coincide")
    budget = settings.budget
    total, unit = (settings.steps, "step") if budget is None else (round(budget), "s")
    session = Session("fit", total, unit, quiet=args.quiet, every=SAVE_SECONDS, at_once=True)
    with session, Beside(device) as beside:
        stages = Stages(run, session)
        clock.lap("load")
        if args.refine:
            session.place = "while the cameras were refined", f"with what is in {out}"
            target = _with_cameras(args, target, stages)
            clock.lap("cameras")
            session.place = None
        resume = None
        if run.resume and (out / CHECKPOINT).is_file():
            resume = FitState.load(out / CHECKPOINT, device)
        start = f"icosphere({settings.subdivisions})" if kind == "sphere" else kind
        report = _FitReport(args, run, settings, target, stages, clock, start, carrier, beside)
        result = fit(
            target.masks, target.camera, settings, init=init, resume=resume, callback=report.step
        )
        session.close()
        if resume is not None and result.state.step == resume.step and run.has_results:
            option = "--steps" if budget is None else "--budget"
            raise ValueError(
                f"--resume: the fit in {out} is finished, with {resume.step} steps; give {option} "
                "a larger number to go on"
            )
        clock.lap("fit")
        when = "after the shape, before the results were written"
        session.place = when, f"with what is in {out}"
        report.finish(result)
    return 0


# ---------------------------------------------------------------------------------------------
# input


def _is_photos(path: Path) -> bool:
    """Whether a target is photos with or without cameras, or a video, and no mesh.

    Raises:
        ValueError: if it is a photo, or an archive.
    """
    check_photos(path)
    return path.is_dir() or path.suffix.lower() == ".json" or is_video(path)


def _check_options(args: Fit, kind: str) -> None:
    """Refuse options that a run of a kind does not have, or that have no effect beside others.

    Args:
        args: of the command.
        kind: "mesh", "object" or "scene".

    Raises:
        ValueError: naming the option.
    """
    for what, kinds, names in _OPTIONS:
        if kind not in kinds.split() and (flags := given_options(args, names)):
            more = ", or give --scene" if (kind, names) == ("object", _OF_SCENES) else ""
            raise ValueError(
                f"{flags[0]} is for {what}, and {args.target} {_KINDS[kind]}; leave it out{more}"
            )
    check_effect(
        args,
        (args.init not in (None, "sphere"), "subdivisions", f"--init is {args.init}, no sphere"),
        (args.settings.budget is not None, "steps", "--budget is given"),
        (args.background is None, "tolerance", "no --background is given"),
    )
    if kind == "scene":
        if args.colors == "vertex":
            raise ValueError("--colors vertex is not for scenes; leave it out, or give none")
        photos.check_colors(args, args.colors or "texture")


def _from_sphere(args: Fit) -> bool:
    """Whether somebody said that the fit starts from a sphere."""
    return args.init == "sphere" or (args.init is None and args.subdivisions is not None)


def _load(args: Fit, device: torch.device) -> _Target:
    path = model_file(args.target)
    name = Path(args.target).name or path.resolve().name
    if _is_photos(path):
        return _load_views(args, path, name, device)
    mesh = _load_mesh(args, args.target, device)
    views = args.views or VIEWS
    elevation = ELEVATION if args.elevation is None else args.elevation
    camera = visual.orbit(mesh, [360.0 * i / views for i in range(views)], elevation)
    size = args.image_size or (SPHERE_MESH_SIZE if _from_sphere(args) else MESH_SIZE)
    masks = visual.silhouettes(mesh, camera, (size, size))
    return _Target(name, masks, camera, mesh=mesh)


def _load_mesh(args: Fit, text: str, device: torch.device) -> Mesh:
    return Mesh.load(model_file(text), max_megapixels=args.max_megapixels, device=device)


def _read(args: Fit, size: int | None, device: torch.device) -> Views:
    """The photos with their cameras, at a size."""
    path = model_file(args.target)
    options: dict[str, Any] = {
        "cameras": args.cameras, "masks": args.masks, "size": size, "tolerance": args.tolerance,
        "max_megapixels": args.max_megapixels, "device": device,
    }  # fmt: skip
    return load_views(path, background=args.background, **options)


def _load_views(args: Fit, path: Path, name: str, device: torch.device) -> _Target:
    size, most = args.image_size, SPHERE_IMAGE_SIZE if _from_sphere(args) else IMAGE_SIZE
    if size is None:
        size = shrunk_to(most, path, args.cameras, max_megapixels=args.max_megapixels)
    views = _read(args, size, device)
    kept = photos.trusted(args, views)
    if kept is not None:
        views = views[list(kept)]
    return _Target(name, views.masks, views.camera, views=views, kept=kept)


def _with_cameras(args: Fit, target: _Target, stages: Stages) -> _Target:
    """The target with its cameras put right."""
    assert target.views is not None  # for the type checker
    found = photos.refined_cameras(args, target.views, stages)
    views = replace(target.views, camera=found.camera)
    return replace(target, camera=found.camera, views=views, refined=found)


# ---------------------------------------------------------------------------------------------
# output


class _FitClock(Stopwatch):
    @property
    def budgeted(self) -> float:
        """The seconds that count of a budget: all but those for cameras."""
        return self.elapsed - self.phases["find cameras"] - self.phases.get("cameras", 0.0)


class _FitReport:
    """The output of a fit: a progress bar, checkpoints, results."""

    def __init__(
        self,
        args: Fit,
        run: Run,
        settings: FitSettings,
        target: _Target,
        stages: Stages,
        clock: _FitClock,
        start: str,
        carrier: str,
        beside: Beside,
    ) -> None:
        self.args, self.run, self.carrier, self.start = args, run, carrier, start
        self.settings, self.target, self.clock = settings, target, clock
        self.stages, self.out, self.session = stages, stages.out, stages.session
        self.quiet = args.quiet
        # Drawn while the fit goes on: the target, and every shape of the trace.
        self.beside = beside
        self.animated = beside.call(_Shown.of, target, TILE, COLUMNS)
        self.listed = beside.call(_Shown.of, target, SHEET_TILE, 2 * SHEET_COLUMNS)
        beside.call(import_module, "scipy.spatial")  # 70 ms, for what looks at the shape at the end
        self.rendered: list[Callable[[], list[visual.Pixels]]] = []
        self.large: Views | None = None  # the photos that were read last

    def step(self, state: FitState) -> None:
        """Update the progress bar after a step, and save now and then."""
        done = state.step if self.settings.budget is None else int(state.seconds)
        self.session.show(done, loss=state.loss, IoU=state.best_iou)
        where = f"after step {state.step} of {self.total(state)}"
        self.session.place = where, f"from {self.out / CHECKPOINT}"
        self.draw(state)
        preview = partial(self.preview, state) if state.trace else None
        self.session.after(state, partial(self.save, state), preview)

    def total(self, state: FitState) -> int:
        """The number of steps of the fit, as far as it is known."""
        settings = self.settings
        if settings.budget is None:
            assert settings.steps is not None  # `resolved`
            return settings.steps
        return max(state.step, round(state.step * settings.budget / max(state.seconds, 1e-3)))

    def draw(self, state: FitState) -> None:
        """Begin to draw what has come to the trace."""
        for _, vertices, faces in state.trace[len(self.rendered) :]:
            mesh = Mesh(state.frame.world(vertices), faces).with_origin(self.target.origin)
            self.rendered.append(self.beside.call(self.drawing, mesh))

    def drawing(self, mesh: Mesh) -> list[visual.Pixels]:
        """Pictures of a shape for the animation."""
        return self.animated().shape(mesh)

    def preview(self, state: FitState) -> None:
        """Write a picture of the latest shape that was kept."""
        latest = state.trace[-1][0], self.rendered[-1]
        scores = [(int(h["step"]), h["iou"]) for h in state.history if "iou" in h]
        frames = visual.fit_frames(
            # The last frame of an animation says that it is the last.
            self.target.name, self.total(state), [latest, latest], scores,
            self.animated().pictures,
        )  # fmt: skip
        write_whole(self.out / PREVIEW, visual.picture(frames[0]))

    def save(self, state: FitState) -> None:
        """Write the checkpoint, and beside it a readable file about the fit so far.

        The results of an earlier fit in this folder are kept until those of this one are complete.
        """
        progress = {
            "finished": False,
            "step": state.step,
            "iou": state.best_iou,
            "best_step": state.best_step,
            **self.facts(state),
        }
        self.run.begin()
        state.save(self.out / CHECKPOINT)
        write_whole(self.out / PROGRESS, as_json(progress))

    def facts(self, state: FitState) -> dict[str, Any]:
        """What was fitted and how, for `metrics.json`."""
        settings, target = self.settings, self.target
        size = (target.masks.shape[1], target.masks.shape[2])
        first, last = settings.scales(size)
        if state.history:  # from the pixels of smaller masks, where there are such
            first = state.history[0]["scale"]
        return {
            "target": str(self.args.target),
            "kind": "mesh" if target.mesh is not None else "images",
            "views": len(target.masks),
            "image_size": list(size),
            "origin": target.origin.tolist(),
            "cameras_from": self.args.cameras,
            "masks_from": self.args.masks,
            "background": self.args.background,
            "tolerance": self.args.tolerance,
            "init": self.start,
            "instance": f"{settings.distribution}/{settings.conorm}",
            "scale": {"start": first, "end": last, "unit": settings.unit},
            "seed": settings.seed,
            "settings": settings.describe() | {"budget": self.args.settings.budget},
            "device": str(target.masks.device),
            "threads": num_threads(),
            "versions": versions(),
            "history": list(state.history),
        }

    def finish(self, result: FitResult) -> None:
        """Write all files of a finished fit."""
        out, target = self.out, self.target
        refinement: dict[str, Any] = {}
        if target.views is not None and photos.moves_surface(self.args, target.views):
            budget = self.args.settings.budget
            if budget is not None:
                spent = max(self.clock.budgeted, result.state.seconds)
                budget = max(STEREO_UNTIL * budget - spent, 0.1 * budget)
            large = self.photos(self.args.image_size, photos.STEREO_SIZE)
            given = self.args, result, target.views, large, self.stages
            result, refinement = photos.refined_shape(*given, budget)
            del large, given  # before others are read
            self.clock.lap("refine")
        removed: dict[str, Any] | None = None
        if target.views is not None and (self.start == "hull" or self.settings.remesh):
            result, removed = photos.without_crumbs(self.args, result, target.views)
        mesh = result.mesh.with_origin(target.origin)
        metrics: dict[str, Any] = {"finished": True}
        metrics |= {**result.metrics, "chamfer": None}
        note = ""
        if target.mesh is not None:
            metrics |= _chamfer(mesh, target.mesh, self.settings.seed)
            note = f"chamfer {metrics['chamfer_relative']:.2%} of the diagonal"
        self.clock.lap("measure")
        files: dict[Path, bytes] = {}
        extra: list[str] = []
        if self.carrier != "none":
            views = self.photos(self.args.color_size, photos.color_size(len(target.masks)))
            colors = photos.colored(self.args, mesh, views, self.carrier, self.stages)
            mesh = colors.mesh
            metrics["colors"] = photos.color_facts(colors, views, self.carrier)
            note = f"PSNR {metrics['colors']['psnr']:.1f} dB"
            name = photos.COLORED if mesh.texture is None else photos.TEXTURED
            files |= mesh.to_files(out / name, normals=not mesh.unlit)
            extra = [path.name for path in files]
            self.clock.lap("colors")
        if target.views is not None:
            metrics["photos"] = list(target.views.names)
            metrics["seen_by_two"] = visible_share(
                result.mesh, target.camera, target.views.image_size
            )
        if target.refined is not None:
            metrics["cameras"] = photos.camera_facts(target.refined)
            files[out / photos.CAMERAS] = photos.opencv_file(self.args, target.refined)
            extra.append(photos.CAMERAS)
        quality = self.beside.call(mesh_quality, result.mesh)
        files |= mesh.to_files(out / MESH) | self.pictures(result, mesh, note)
        self.clock.lap("pictures")
        metrics |= self.facts(result.state)
        if refinement:
            metrics["refine"] = refinement
        metrics["seconds"] = {**self.clock.seconds(), "optimisation": result.state.seconds}
        metrics["vertices"] = result.mesh.vertex_counts[0]
        metrics["faces"] = result.mesh.face_counts[0]
        metrics["quality"] = quality()
        metrics["crumbs_removed"] = removed
        cautions: list[str] = []
        if target.views is not None:
            seen, hull = metrics["seen_by_two"], self.start == "hull"
            lacks = photos.lacking(result.mesh, target.views)
            metrics["lacking"] = dict(lacks)
            cautions = photos.warnings_of(
                result.iou, seen, metrics["quality"], lacks, len(target.views), from_hull=hull
            )
        photos.write_results(self.run, files, metrics)
        for name in (PROGRESS, PREVIEW):
            (out / name).unlink(missing_ok=True)
        # More steps change the shape, but not the cameras.
        self.stages.clear("refine", "colors")
        if not self.quiet:
            size = f"{target.masks.shape[2]} x {target.masks.shape[1]}"
            spent = ""
            if self.args.settings.budget is not None:
                some = {k: v for k, v in self.clock.phases.items() if v >= 0.5}
                spent = f" ({', '.join(f'{k} {v:.0f}' for k, v in some.items())})" if some else ""
                spent += photos.overrun(self.clock.budgeted, self.args.settings.budget)
            sys.stdout.write(
                f"mean IoU {result.iou:.3f} over {len(target.masks)} views of {size}"
                f"{', ' + note if note else ''}, {metrics['seconds']['total']:.1f} s{spent}\n"
                f"{out}: {', '.join([ANIMATION, SHEET, *extra, MESH, METRICS])}\n"
                + "".join(f"note: {each}\n" for each in cautions)
                + f"next: open {out / ANIMATION}, "
                f"or turn the mesh: gendr view {out}\n"
            )

    def photos(self, size: int | None, most: int) -> Views:
        """The photos at a size, by default their own, which is at most so much."""
        path, limit = model_file(self.args.target), self.args.max_megapixels
        cameras = self.args.cameras
        own = min(map(min, view_sizes(path, cameras=cameras, max_megapixels=limit)))
        wanted, found = size or min(own, most), self.target.refined
        for views in (self.target.views, self.large):
            if views is not None and wanted == min(views.image_size):
                return views
        self.large = None  # before others are read
        views = _read(self.args, wanted, self.target.masks.device)
        if self.target.kept is not None:
            views = views[list(self.target.kept)]
        if found is not None and found.refined:
            own, (rotation, translation, *_) = views.camera, found.camera.tensors()
            camera = own.with_tensors(rotation, translation, own.focal * found.focal)
            views = replace(views, camera=camera)
        self.large = views
        return views

    def pictures(self, result: FitResult, mesh: Mesh, note: str) -> dict[Path, bytes]:
        """The sheet and the animation as files: their contents by path.

        Args:
            result: of the fit.
            mesh: with colours, if there are any.
            note: for the second line of the sheet.
        """
        sheet = self.beside.call(self.sheet, result, mesh, note)
        self.draw(result.state)  # what an earlier run has left
        last = partial(self.drawing, result.trace[-1][1])
        steps = [step for step, _ in result.trace]
        scores = [(int(h["step"]), h["iou"]) for h in result.history if "iou" in h]
        with self.session.part("gif") as tell:
            frames = visual.fit_frames(
                self.target.name, result.state.step,
                list(zip(steps, [*self.rendered, last], strict=True)), scores,
                self.animated().pictures, tell, result.mesh.device,
            )  # fmt: skip
        return {
            self.out / ANIMATION: visual.gif(frames, seconds=0.1, hold=2.0),
            self.out / SHEET: sheet(),
        }

    def sheet(self, result: FitResult, mesh: Mesh, note: str) -> bytes:
        """The content of the sheet."""
        height, width = self.target.masks.shape[1:]
        target, settings, shown = self.target.upright(), self.settings, self.listed()
        size = (target.masks.shape[1], target.masks.shape[2])
        count = len(target.masks)
        parts = [
            f"{count} view{'s' * (count > 1)} of {width} x {height}",
            f"{settings.distribution} / {settings.conorm}",
            f"{result.state.step} steps in {result.state.seconds:.1f} s",
            note,
        ]
        page = visual.fit_sheet(
            f"{target.name}: mean IoU {result.iou:.3f}",
            "     ".join(p for p in parts if p),
            target.masks,
            visual.silhouettes(result.mesh, target.camera, size),
            result.metrics["iou_per_view"],
            result.mesh,
            target.camera,
            shown.window,
            shown.chosen,
            shown.pictures,
            painted=None if self.carrier == "none" else mesh,
        )
        return visual.picture(page)


def _chamfer(mesh: Mesh, target: Mesh, seed: int) -> dict[str, float]:
    distance = float(chamfer(mesh, target, seed=seed))
    return {"chamfer": distance, "chamfer_relative": distance / visual.diagonal(target)}
