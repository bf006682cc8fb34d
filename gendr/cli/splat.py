"""`gendr splat`: a thin layer over `gendr.photos.splatting.training`, with files around it."""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gendr._common.files import write_all, write_whole
from gendr.cli.cameras import with_cameras
from gendr.cli.common import (
    FINISHED,
    METRICS,
    as_json,
    check_effect,
    check_output,
    check_own,
    model_file,
    read_json,
    shrunk_to,
    versions,
)
from gendr.cli.parser import Splat
from gendr.cli.progress import Session
from gendr.cli.resume import CHECKPOINT, HARD, START, Run
from gendr.jobs.checkpoint import load_checkpoint
from gendr.jobs.devices import usable_device
from gendr.jobs.folders import output_folder
from gendr.jobs.loop import between
from gendr.kernels.threads import num_threads
from gendr.losses import psnr, ssim
from gendr.mesh import Mesh
from gendr.photos import load_points, visual
from gendr.photos.scene.build import SceneSettings, build
from gendr.photos.scene.fusion import FusionSettings
from gendr.photos.scene.model import read_scene
from gendr.photos.splatting import (
    Photos,
    Splats,
    SplatSettings,
    camera_path,
    fit_splats,
    load_photos,
)
from gendr.photos.splatting.gaussians.files import read_cloud
from gendr.photos.splatting.hard import HardTraining
from gendr.photos.splatting.loop import Training
from gendr.photos.splatting.pictures import film, hard_views, pair, rendered, sheet
from gendr.photos.splatting.settings import BACKGROUNDS
from gendr.photos.splatting.start import compared
from gendr.photos.splatting.training import KIND, SplatTraining, start_from, with_background
from gendr.photos.views import color_of

# Names of the files: the triangles, other forms of them, pictures, and what is known of them; and
# the files of a training that is under way.
SPLATS, PLY, GLB = "splats.npz", "splats.ply", "splats.glb"
SHEET, ANIMATION = "sheet.png", "orbit.gif"
PREVIEW = "preview.png"
FILES = (SPLATS, PLY, GLB, SHEET, ANIMATION, METRICS, CHECKPOINT, HARD, PREVIEW, START)
# Seconds between two checkpoints.
SAVE_SECONDS = 30.0
# The shorter side of photos by default, and the least: the window of `ssim`.
IMAGE_SIZE, SMALLEST = 400, 11
# Pictures on the sheet; frames of the walk, and the longest that the shorter side of one is.
SHOWN, FRAMES, FRAME = 12, 96, 320
# Seconds for the sheet and for files; the part of a budget that steps have at least.
FILES_SECONDS, LEAST_PART = 1.0, 0.1
# Stereo for a surface to start from: seconds of a processor for a megapixel, the part of a budget
# that it may take, and the least of the longer side of photos for it.
STEREO_SECONDS, STEREO_PART, STEREO_LEAST = 7.0, 0.2, 160
# Faces of that surface for each pixel of a photo: triangles of three or four pixels of a front.
FACES = 0.3
# Exposures are learnt if the logarithm of one is larger.
BRIGHTER = 0.05
# Of two shares of a time so close to each other the training has had its own.
NEARLY = 1.1


def _exposed(image: Tensor, photo: Tensor) -> Tensor:
    """PSNR after the factor of each channel that fits best, as cameras expose differently."""
    gain = (image * photo).sum((1, 2)) / (image * image).sum((1, 2)).clamp(min=1e-12)
    return psnr(gain[:, None, None] * image, photo)


def _affine(image: Tensor, photo: Tensor, columns: int | None = None) -> Tensor:
    """PSNR after the factor and offset of each channel that fit best, as light veils a photo too.

    Args:
        image: [3, H, W].
        photo: [3, H, W].
        columns: factor and offset fit so many columns from the left, and what is right of them is
            scored; by default both are the whole.
    """
    known, true = (x[..., :columns].flatten(1) for x in (image, photo))
    middles = known.mean(1, keepdim=True), true.mean(1, keepdim=True)
    apart = known - middles[0]
    slope = (apart * (true - middles[1])).sum(1) / apart.square().sum(1).clamp(min=1e-12)
    image = slope[:, None, None] * (image - middles[0][..., None]) + middles[1][..., None]
    return psnr(image[..., columns:], photo[..., columns:])


def _half(image: Tensor, photo: Tensor) -> Tensor:
    """PSNR of the right half, in the tones of the left.

    Source: Martin-Brualla et al., NeRF in the Wild, CVPR 2021, for the protocol: what a photo left
    out looks like is fitted to its left half, and scored on its right, which tells nothing of it.
    """
    return _affine(image, photo, image.shape[-1] // 2)


SCORES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "psnr": psnr, "psnr_exposed": _exposed, "psnr_affine": _affine, "psnr_half": _half,
    "ssim": ssim,
}  # fmt: skip


@dataclass(frozen=True)
class _Scene:
    """What is trained on, and what is scored: the pictures held out, or else some of the former."""

    name: str
    train: Photos
    scored: Photos
    kind: str
    init: str
    start: Splats


def run(args: Splat) -> int:
    """Run `gendr splat` and return the exit status."""
    clock = time.perf_counter()
    out, settings = Path(args.output), args.settings
    usable_device(settings.device or "cpu")
    by_file = (args.init or "").lower().endswith(".npz")
    check_effect(
        args,
        (settings.budget is not None, "steps", "--budget is given"),
        (not args.hold_out, "evaluate_every", "--hold-out 0 leaves no picture to look at"),
        (settings.density == "none", "renew_every", "--density is none"),
        (by_file, "dist tconorm unit degree scale shape", f"{args.init} says it"),
    )
    with output_folder(out):
        run = Run(args, Path(args.photos))
        _check_own(run)
        if Path(args.photos).exists():
            check_output(out, Path(args.photos))
        if run.is_finished:
            if not args.quiet:
                sys.stdout.write(FINISHED.format(out))
            return 0
        args = with_cameras(args, args.photos, run)
        run.compare_files()
        args = replace(args, resume=run.resume and (out / CHECKPOINT).is_file())
        found = time.perf_counter()
        photos, settings = _read(args, settings)
        budget = settings.budget
        total, unit = (
            (_steps(settings, args.opaque), "step") if budget is None else (round(budget), "s")
        )
        scene, settings = _scene(args, photos, settings, found)
        with Session("splat", total, unit, quiet=args.quiet, every=SAVE_SECONDS) as session:
            plan = _Plan(args, settings, scene, found)
            report = _Report(args, run, settings, scene, session, plan)
            if args.resume:
                settings = plan.resumed(settings)
            training = fit_splats(
                scene.train, settings, init=scene.start, callback=report.step,
                held_out=scene.scored if args.hold_out else None,
                resume=out / CHECKPOINT if args.resume else None,
            )  # fmt: skip
            hard = None if args.opaque == 0 else report.harden(training)
            session.close()
            # Signals need not wait any more, and all but the pictures is in the checkpoints.
            session.place = "before the results were written", f"from {out / CHECKPOINT}"
            session.stop.at_once = True
            session.stop.check()
            report.finish(training, hard, {"cameras": found - clock})
    return 0


def _steps(settings: SplatSettings, part: float) -> int:
    """Of soft triangles and of opaque ones."""
    return settings.steps + (max(1, round(part * settings.steps)) if part else 0)


# ---------------------------------------------------------------------------------------------
# input


def _read(args: Splat, settings: SplatSettings) -> tuple[Photos, SplatSettings]:
    """The photos before their background, and the settings with what that says."""
    path, limit, size = Path(args.photos), args.max_megapixels, args.image_size
    if not path.exists():
        raise ValueError(f"no such file or folder: {path}")
    if size is None:
        size = shrunk_to(IMAGE_SIZE, path, args.cameras, max_megapixels=limit)
    named = args.background in (None, *BACKGROUNDS)
    color = "white" if args.background is None or named else args.background
    options: dict[str, Any] = {"cameras": args.cameras, "max_megapixels": limit}
    photos = load_photos(path, size=size, background=color, **options)
    if min(photos.image_size) < SMALLEST:
        height, width = photos.image_size
        raise ValueError(f"photos need {SMALLEST} x {SMALLEST} pixels, got {width} x {height}")
    if named:
        return photos, replace(settings, background=args.background)
    given = replace(settings, background="given")
    return replace(photos, background=torch.tensor(color_of(color))), given


def _scene(
    args: Splat, photos: Photos, settings: SplatSettings, begin: float
) -> tuple[_Scene, SplatSettings]:
    """What is trained on and what is scored, and the settings with the kind of background."""
    every, count = args.hold_out, len(photos)
    train, scored, kind = photos, photos[visual.spread(count, SHOWN)], "trained on"
    if every == 1:
        raise ValueError("--hold-out 1 leaves no picture to train on; use 2 or more, or 0 for none")
    if every:
        if count < 2:
            raise ValueError(f"{args.photos} holds {count} picture, none to hold out; --hold-out 0")
        offset = min(every, count) // 2
        train, scored = photos.split(every, offset)
        kind = "held out"
    train, settings = with_background(train, settings)
    init, start = _start(args, train, photos, settings, begin)
    if init == "surface":
        train = compared(start, train)
    if settings.exposure is None:
        gains = train.exposures
        differ = gains is not None and bool((gains.log().abs() > BRIGHTER).any())
        settings = replace(settings, exposure=differ)
    path = Path(args.photos)
    return _Scene(path.name or path.resolve().name, train, scored, kind, init, start), settings


def _start(
    args: Splat, train: Photos, photos: Photos, settings: SplatSettings, begin: float
) -> tuple[str, Splats]:
    """What the training starts from, and its name.

    Args:
        args: of the command.
        train: the photos to train on.
        photos: all.
        settings: of the training.
        begin: the time from which the budget counts.
    """
    given, path, kept = args.init, Path(args.photos), Path(args.output) / START
    # Photos whose background the user names may still stand before a backdrop, or turn before it.
    turns = train.before_backdrop() if args.background and train.alpha is None else None
    own, points, why = turns or train, None, None
    if not args.resume:
        kept.unlink(missing_ok=True)
    found = kept.exists() or not args.resume  # or else the training began with something else
    if given == "surface" or (given is None and own.alpha is None and found):
        try:
            if not kept.exists():
                _surface(args, train, photos, settings, begin).save(kept)
            return "surface", Splats.load(kept)
        except ValueError as error:  # too few photos, or they agree nowhere
            if given:
                raise ValueError(f"--init surface: {error}") from None
            why = error
    if given in (None, "points") and path.is_dir():
        points = load_points(path, cameras=args.cameras, origin=photos.camera.origin)
    kind = given or ("points" if points else "cameras" if own.alpha is None else "hull")
    if why is not None:
        warnings.warn(f"no surface to start from, {kind} instead: {why}", stacklevel=2)
    if points is not None:
        return kind, start_from(train, settings, points)
    if kind == "points":
        raise ValueError(f"--init points: {path} has no points, as gendr cameras or COLMAP find")
    if kind in ("hull", "cameras"):
        start = start_from(own, settings, given)
        return kind, start.with_tensors(background=train.background)
    if kind.lower().endswith(".npz"):
        splats = Splats.load(kind).to(torch.float32)
        if settings.background != "learnt":
            splats = splats.with_tensors(background=train.background)
        return kind, splats
    if (cloud := read_cloud(model_file(kind))) is not None:
        return kind, start_from(train, settings, cloud)
    mesh = Mesh.load(model_file(kind), max_megapixels=args.max_megapixels)
    return kind, start_from(train, settings, mesh)


def _surface(
    args: Splat, train: Photos, photos: Photos, settings: SplatSettings, begin: float
) -> Splats:
    """The surface that stereo finds, of photos so small that there is time for it.

    Raises:
        ValueError: if there is not, or no surface is found.
    """
    height, width = photos.image_size
    side = max(height, width)
    if settings.budget is not None:
        left = settings.budget - (time.perf_counter() - begin)
        seconds = STEREO_SECONDS * len(train) * height * width / 1e6 / num_threads()
        side = round(side * min(1.0, math.sqrt(max(0.0, STEREO_PART * left) / seconds)))
    if side < min(max(height, width), STEREO_LEAST):
        raise ValueError("there is no time for stereo; give more, or --init points")
    own = [
        np.ascontiguousarray((image[(slice(None), *place)] * 255).round().byte().permute(1, 2, 0))
        for image, place in zip(photos.images, photos.camera.region((height, width)), strict=True)
    ]
    left_out = [i for i, name in enumerate(photos.names) if name not in train.names]
    options: dict[str, Any] = {"cameras": args.cameras, "max_megapixels": args.max_megapixels}
    scene = read_scene(Path(args.photos), images=own, left_out=left_out, **options).smaller(side)
    session = Session("surface", None, quiet=args.quiet, at_once=True)
    with TemporaryDirectory() as folder, session, session.part("stereo") as tell:
        faces = settings.triangles or max(500, round(FACES * height * width))
        # What water mirrors looks as if it were below: no surface, but what splats are to show.
        how = SceneSettings(faces=faces, finer=1.0, fusion=FusionSettings(mirrors=False))
        found = build(scene, Path(folder), how, tell)
    ground, origin = found.cloud.ground, torch.from_numpy(scene.origin)
    below = None if ground is None else ground.beneath(scene).with_origin(origin)
    mesh = found.mesh.with_origin(origin)
    return start_from(train, settings, mesh, whole=True, below=below)


def _check_own(run: Run) -> None:
    """Refuse a folder in which files of others would be replaced.

    Raises:
        ValueError: if there is one.
    """
    out = run.out
    present = [name for name in FILES if (out / name).exists()]
    check_own(out, CHECKPOINT, KIND)
    if present == [START]:  # of a training that was stopped before its first checkpoint
        with suppress(ValueError):
            Splats.load(out / START)
            return
    if present and CHECKPOINT not in present:
        known = "splats" if run.began and METRICS not in present else None
        if read_json(out / METRICS).get("kind", known) != "splats":
            raise ValueError(
                f"{out} holds {present[0]}, which is not of gendr splat; choose another folder "
                "with -o"
            )


# ---------------------------------------------------------------------------------------------
# output


class _Plan:
    """How a budget is shared: what is left of it for steps, so that files are there at its end.

    Args:
        args: of the command.
        settings: of the training.
        scene: what is trained on.
        begin: the time from which the budget counts.
    """

    def __init__(self, args: Splat, settings: SplatSettings, scene: _Scene, begin: float) -> None:
        self.budget, self.part, self.begin = settings.budget, args.opaque, begin
        self.out, self.soft, self.hard, self.alone = Path(args.output), 0.0, 0.0, 0.0
        if self.budget is None:
            return
        scored, train, splats = scene.scored, scene.train, scene.start
        size = scored.image_size
        if self.part and not (self.out / HARD).exists():
            with suppress(ValueError):  # no photo shows what it starts from
                HardTraining(train, settings, splats).advance()  # compiles, now: both parts pay
        for _ in range(2):  # the first time compiles
            self.alone = self._seconds(lambda: rendered(splats, scored.camera[0], size))
            if self.part:
                views = self._seconds(
                    lambda: hard_views(splats.to_mesh(0.0), splats.behind(size), scored.camera[0])
                )
                self.hard = views * (len(scored) + len(train))  # of which the mesh is what is seen
        # A part of drawing does not depend on the size of pictures.
        film = FRAMES * (0.3 + 0.7 * math.prod(_within(size, FRAME)) / math.prod(size))
        self.soft = len(scored) + film

    @staticmethod
    def _seconds(work: Callable[[], object]) -> float:
        begin = time.perf_counter()
        work()
        return time.perf_counter() - begin

    def elapsed(self, *trainings: Training) -> float:
        """What counts of the budget so far, steps of former sessions included."""
        return time.perf_counter() - self.begin + sum(x.earlier for x in trainings)

    def left(self, elapsed: float) -> float:
        """What files leave for steps."""
        after = self.soft * self.alone + self.hard + FILES_SECONDS
        return (self.budget or 0.0) - elapsed - after

    def share(self, training: Training, before: Training | None = None) -> None:
        """Give a training what files, and opaque triangles, leave of the budget.

        Args:
            training: of soft triangles; or of opaque ones.
            before: that of the soft ones, which is over.
        """
        if self.budget is None:
            return
        if before is None:
            left = self.left(self.elapsed(training)) + training.seconds
            steps = left / (1 + self.part)
        else:
            steps = self.left(self.elapsed(training, before)) + training.seconds
        steps = max(steps, LEAST_PART * self.budget)
        training.settings = replace(training.settings, budget=steps)

    def resumed(self, settings: SplatSettings) -> SplatSettings:
        """Settings whose budget ends soft triangles at once that have had their share of it.

        Their checkpoint says how long they took, that of the opaque ones that they were done.
        """
        if self.budget is None or not (self.out / HARD).exists():
            return settings
        soft, hard = (
            load_checkpoint(self.out / name, kind.kind, ("seconds",))["seconds"]
            for name, kind in ((CHECKPOINT, SplatTraining), (HARD, HardTraining))
        )
        left = self.left(self.elapsed()) - hard
        over = left / (1 + self.part) <= NEARLY * soft
        return replace(settings, budget=soft) if over else settings


def _within(size: tuple[int, int], most: int) -> tuple[int, int]:
    """(H, W), the shorter one at most so many pixels."""
    part = min(1.0, most / min(size))
    return round(part * size[0]), round(part * size[1])


def _pictures(scene: _Scene) -> str:
    count = len(scene.scored)
    return f"{count} picture{'s' * (count > 1)} {scene.kind}"


class _Report:
    """The output of a training: a bar, previews, checkpoints, results."""

    def __init__(
        self, args: Splat, run: Run, settings: SplatSettings, scene: _Scene,
        session: Session, plan: _Plan,
    ) -> None:  # fmt: skip
        self.args, self.settings, self.scene, self.session = args, settings, scene, session
        self.run, self.plan = run, plan
        self.out = Path(args.output)

    def step(self, training: Training, before: Training | None = None) -> None:
        """Show a step that is done, and save now and then.

        Args:
            training: of soft triangles; or of opaque ones.
            before: that of the soft ones, which is over.

        Raises:
            KeyboardInterrupt: after Ctrl-C or SIGTERM.
        """
        timed, session = self.settings.budget is not None, self.session
        numbers = {"loss": training.loss, "triangles": len(training)}
        if training.history and "psnr" in training.history[-1]:
            numbers["PSNR"] = training.history[-1]["psnr"]
        self.plan.share(training, before)
        done = [x for x in (training, before) if x is not None]
        seconds, steps = self.plan.elapsed(*done), sum(x.step for x in done)
        session.show(int(seconds) if timed else steps, **numbers)
        if before is None:  # what was made of triangles that went on
            (self.out / HARD).unlink(missing_ok=True)
        what = f"after step {training.step}" + (" of opaque triangles" if before else "")
        session.place = what, f"from {self.out / CHECKPOINT}"
        path = self.out / (CHECKPOINT if before is None else HARD)
        session.after(training, partial(self.save, training, path), partial(self.preview, training))

    def save(self, training: Training, path: Path) -> None:
        """Write a checkpoint."""
        self.run.begin()
        training.save(path)

    def harden(self, soft: SplatTraining) -> HardTraining | None:
        """Train opaque triangles; None if no photo shows any."""
        path, settings = self.out / HARD, self.settings
        steps = _steps(settings, self.args.opaque) - settings.steps
        settings = replace(settings, steps=steps)
        init, photos = soft.splats(), soft.even_photos()
        held_out = self.scene.scored if self.args.hold_out else None
        try:
            training = HardTraining(photos, settings, init, held_out)
        except ValueError:  # such as before a backdrop that explains all
            return None
        resume = path if self.args.resume and path.exists() else None
        self.plan.share(training, soft)
        return training.run(resume, lambda now: self.step(now, soft))

    def preview(self, training: Training) -> None:
        """Write a picture beside its photo."""
        photos, now = self.scene.scored[[0]], time.perf_counter()
        image = training.images(photos)[0].to(photos.images)
        if isinstance(training, SplatTraining):
            self.plan.alone = time.perf_counter() - now
        title = f"{self.scene.name}: {photos.names[0]}, {self.scene.kind}"
        photo, image = (photos.cropped(x, 0) for x in (photos.images[0], image))
        note = f"step {training.step:,}    {float(psnr(image, photo)):.1f} dB"
        page = pair(title, note, photo, image)
        write_whole(self.out / PREVIEW, visual.picture(page))

    def finish(
        self, training: SplatTraining, hard: HardTraining | None, seconds: dict[str, float]
    ) -> None:
        """Write the results, all together.

        Args:
            training: that is over.
            hard: that of the opaque triangles, if there are any.
            seconds: what was spent before the budget began.
        """
        scene, out, splats = self.scene, self.out, training.splats()
        scored, begin = scene.scored, time.perf_counter()
        trainings = [x for x in (training, hard) if x is not None]
        own = sum(x.seconds - x.earlier for x in trainings)
        seconds |= {"reading": begin - self.plan.begin - own, "training": training.seconds}
        seconds["opaque"] = 0.0 if hard is None else hard.seconds
        with self.session.part("pictures") as tell:
            firm, solid = None, []
            with suppress(ValueError):  # nothing is left that a photo shows
                firm = None if hard is None else hard.mesh()
            if firm is not None:
                solid = list(hard_views(firm, splats.behind(scored.image_size), scored.camera))
            soft = training.images(scored)
            tell(0.2)
            metrics = self.scores({"": soft, "opaque_": solid}) | self.facts(training, splats)
            files = self.forms(splats, firm)
            if hard is not None and firm is not None:
                metrics["opaque"] |= {
                    "triangles": len(firm.faces), "steps": hard.step,
                    "bytes": len(files[out / GLB]), "history": hard.history,
                }  # fmt: skip
            tell(0.5)
            files[out / SHEET] = self.sheet(soft, solid, metrics, training.seconds)
            files |= self.walk(splats, between(tell, 0.5, 1.0))
        seconds["files"] = time.perf_counter() - begin
        seconds["total"] = sum(seconds.values())
        metrics["seconds"] = {name: round(value, 3) for name, value in seconds.items()}
        write_all({**files, out / METRICS: as_json(metrics)})
        # The first may be of an earlier training.
        for name in (GLB, PREVIEW):
            if out / name not in files:
                (out / name).unlink(missing_ok=True)
        self.run.finish(files)
        if self.args.quiet:
            return
        height, width = scored.image_size
        sys.stdout.write(
            f"PSNR {metrics['psnr']:.1f} dB, SSIM {metrics['ssim']:.3f} on {_pictures(scene)}, "
            f"{width} x {height}; {len(splats):,} triangles, {training.step:,} steps\n"
        )
        if lost := metrics["opaque"]:
            sys.stdout.write(
                f"{GLB}: PSNR {lost['psnr']:.1f} dB, SSIM {lost['ssim']:.3f}; "
                f"{lost['triangles']:,} opaque triangles, {lost['steps']:,} steps\n"
            )
        names = [name for name in FILES if out / name in files]
        sys.stdout.write(f"{out}: {', '.join([*names, METRICS])}\n")
        parts = [f"{name} {value:.0f}" for name, value in seconds.items() if name != "total"]
        sys.stdout.write(f"{seconds['total']:.1f} s: {', '.join(parts)}\n")

    def scores(self, images: dict[str, list[Tensor]]) -> dict[str, Any]:
        """PSNR, at most 100 dB, as it is and in the tones of the photo, SSIM, and their means."""
        photos = self.scene.scored
        rows: list[dict[str, Any]] = [{"name": name} for name in photos.names]
        means: dict[str, Any] = {}
        for kind, found in images.items():
            for name, score in SCORES.items():
                values = [
                    round(min(float(score(photos.cropped(a, i), photos.cropped(b, i))), 100.0), 4)
                    for i, (a, b) in enumerate(zip(found, photos.images, strict=False))
                ]
                for row, value in zip(rows, values, strict=False):
                    row[kind + name] = value
                means[kind + name] = round(sum(values) / len(values), 4) if values else None
        lost = {name: means.pop(f"opaque_{name}") for name in SCORES}
        if lost["psnr"] is not None:
            lost["loss_db"] = round(means["psnr"] - lost["psnr"], 4)
        return {**means, "opaque": lost if "loss_db" in lost else None, "pictures": rows}

    def facts(self, training: SplatTraining, splats: Splats) -> dict[str, Any]:
        """What was trained and how."""
        settings = self.settings.describe()
        actual = {name: str(getattr(splats, name)) for name in ("dist", "tconorm", "unit")}
        return {
            "kind": "splats",
            "photos": str(self.args.photos),
            "cameras_from": self.args.cameras,
            "views": len(self.scene.train),
            "scored": self.scene.kind,
            "image_size": list(self.scene.train.image_size),
            "init": self.scene.init,
            "triangles": len(splats),
            "steps": training.step,
            "background": [round(float(x), 4) for x in splats.background.reshape(3, -1).mean(1)],
            "settings": {**settings, **actual, "degree": splats.degree},
            "threads": num_threads(),
            "versions": versions(),
            "history": training.history,
        }

    def forms(self, splats: Splats, firm: Mesh | None) -> dict[Path, bytes]:
        """The triangles as files: their contents by path."""
        found = {}
        with TemporaryDirectory() as folder:
            writers: dict[str, Callable[[Path], None]] = {SPLATS: splats.save, PLY: splats.to_ply}
            if firm is not None:
                writers[GLB] = firm.save
            for name, write in writers.items():
                path = Path(folder) / name
                write(path)
                found[self.out / name] = path.read_bytes()
        return found

    def sheet(
        self, soft: list[Tensor], hard: list[Tensor], metrics: dict[str, Any], seconds: float
    ) -> bytes:
        """Pictures beside what the triangles look like from there."""
        photos, scene = self.scene.scored, self.scene
        chosen = visual.spread(len(photos), SHOWN)
        pictures = [metrics["pictures"][i] for i in chosen]
        rows: list[tuple[list[Tensor], list[str]]] = [
            ([photos.cropped(photos.images[i], i) for i in chosen], []),
            (
                [photos.cropped(soft[i], i) for i in chosen],
                [f"{p['psnr']:.1f} dB   SSIM {p['ssim']:.3f}" for p in pictures],
            ),
        ]
        parts = [f"{metrics['triangles']:,} triangles"]
        if hard:
            notes = [f"{p['opaque_psnr']:.1f} dB" for p in pictures]
            rows.append(([photos.cropped(hard[i], i) for i in chosen], notes))
            parts.append(f"{metrics['opaque']['triangles']:,} opaque ones")
        height, width = photos.image_size
        settings = metrics["settings"]
        parts += [
            f"{width} x {height}",
            f"{settings['dist']} / {settings['tconorm']}",
            f"{metrics['steps']:,} steps in {seconds:.0f} s",
        ]
        score = f"{metrics['psnr']:.1f} dB, SSIM {metrics['ssim']:.3f}"
        title = f"{scene.name}: {score} on {_pictures(scene)}"
        names = [photos.names[i] for i in chosen]
        return visual.picture(sheet(title, "     ".join(parts), names, rows))

    def walk(self, splats: Splats, tell: Callable[[float], None]) -> dict[Path, bytes]:
        """A film of a walk past the cameras, by its path."""
        photos = self.scene.train
        try:
            camera = camera_path(photos.camera, FRAMES)
        except ValueError:  # cameras that look in parallel, or away from each other
            centre = splats.vertices.mean(1).median(0).values
            camera = camera_path(photos.camera, FRAMES, centre)
        content = film(splats, camera, _within(photos.image_size, FRAME), tell)
        return {self.out / ANIMATION: content}
