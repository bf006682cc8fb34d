"""`refine_shape`: colours move a surface where silhouettes cannot see."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gendr._common.checks import check_count, check_like, check_number
from gendr._common.memory import give_back
from gendr.jobs.defaults import SHAPE
from gendr.jobs.devices import learns
from gendr.jobs.loop import Progress, Tell, between
from gendr.kernels.threads import mapped
from gendr.losses import FlattenLoss, iou, iou_loss, psnr
from gendr.mesh import Camera, Mesh
from gendr.optim import uniform_adam_step
from gendr.photos import remesh, visual, visual_hull
from gendr.photos.fitting.checks import check_further_images, check_views
from gendr.photos.fitting.colors.fit import ColorResult, fit_colors
from gendr.photos.fitting.parametrization import SmoothParametrization, check_single
from gendr.photos.fitting.shape.bites import without_bites
from gendr.photos.fitting.shape.fairing import faired
from gendr.photos.fitting.shape.schedule import edge_of
from gendr.photos.fitting.shape.shading import fit_shading
from gendr.photos.fitting.shape.stereo import (
    LEAST_VIEWS,
    Depths,
    amplified_patterns,
    find_depths,
    fused,
    is_plain,
)
from gendr.photos.fitting.value_and_grad import value_and_grad
from gendr.photos.meshing.remeshing import without_cuts
from gendr.rendering import Renderer

__all__ = ["ShapeResult", "refine_shape"]


# The length of edges in pixels, or longer where there would be more faces.
EDGE, MOST_FACES = 1.5, 100_000
# The steps after stereo: the scale, the longest step in edges, and the weights of colours and
# creases beside that of the silhouettes; a larger scale would swell faces as small as these. Steps
# of a tenth of an edge would end on the way: more of them, or longer ones, meet photos better.
# Colours are found anew after so many steps.
SCALE, STEP_IN_EDGES, COLORS, FLATNESS, EVERY = "0.05px", 0.4, 1.0, 0.02, 10
# Of more photos only so many, spread evenly, give the colours for steps and for measuring.
PAINTING = 40
# As for a fit.
VIEWS_PER_STEP, BETAS = 8, (0.9, 0.99)
# The work of a part, for each photo that it looks at, in parts of that of finding colours: of
# stereo, of a step, of shading or making smooth, and of measuring a mesh.
STEREO, DESCENT, SHADING, MEASURE = 4.0, 0.4, 4.0, 1.4
# The part of the object's pixels that photos must agree about, or nothing is changed. Of a plain
# surface they see shading that moves with the light, which is alike at wrong depths.
LEAST_KNOWN = 0.3
# Decibels by which photos must be met better, and the IoU that may be lost, or nothing is changed.
LEAST_GAIN, MOST_LOST = 0.5, 0.005
# And of what is made smooth, or brought to its shading: masks that others contradict have lost it.
MOST_UNEVEN = 0.03
# The part of the brightest that shading is off, from which on it does not tell the shape.
MOST_OFF = 0.1
# A pixel that is covered by more than this is filled.
WHOLE = 0.99
# Decibels that the steps after stereo cannot make up for, as so many photos tell.
MOST_WORSE, FEW = 1.0, 8


@dataclass(frozen=True, eq=False)
class _Photos:
    """Images [B, 3, H, W] of `amplified_patterns`, B cameras, masks, and these without bites."""

    images: Tensor
    camera: Camera
    masks: Tensor
    whole: Tensor

    @property
    def size(self) -> tuple[int, int]:
        """(H, W)."""
        return self.images.shape[2], self.images.shape[3]

    def some(self, most: int = PAINTING) -> _Photos:
        """At most so many of them, of those without bites, whose pixels are black."""
        good = (self.masks == self.whole).flatten(1).all(1).nonzero()[:, 0]
        rows = good[_spread(len(good), most)]
        return _Photos(self.images[rows], self.camera[rows], self.masks[rows], self.whole[rows])


@dataclass(frozen=True, eq=False)
class ShapeResult:
    """A shape refined by colours.

    Attributes:
        mesh: The mesh, without colours; the one that was given if it was not improved.
        improved: Whether the photos are met better than before; or, without stereo, the surface was
            brought to its shading, or made smooth between its outlines.
        psnr: Before and after: the mean over views (of more than 40 photos, every second, or
            third, …) of that of the vertex colours that meet them best (`fit_colors`), over
            the pixels that the mask and both surfaces fill, in decibels; where colours hardly
            differ, of brightness and their ratios, made stronger. NaN, as the next, if there was no
            time to compare them.
        iou: Before and after: the mean of the hard silhouettes, with masks without bites.
        moved: The mean distance of the new vertices from the surface given, world units; 0 if it
            was not improved.
        finished: Whether all was done; False if the `budget` was over before.
        reason: Why it was not improved by stereo, as a sentence; empty if it was.
        known: The part of the object's pixels that photos agree about, in [0, 1]; None if stereo
            did not come so far.
    """

    mesh: Mesh
    improved: bool
    psnr: tuple[float, float]
    iou: tuple[float, float]
    moved: float
    finished: bool = True
    reason: str = ""
    known: float | None = None


class _OverError(Exception):
    """The budget is over in the midst of a part.

    Args:
        found: What the part has come to; None if it is to be left out.
    """

    def __init__(self, found: Mesh | None = None) -> None:
        super().__init__()
        self.found = found


class _Budget:
    """How much is done, and whether the time is over.

    Args:
        callback: called with the part of the work that is done, and the state.
        total: the work of all parts.
        budget: seconds, or None.
        state: what an earlier run had come to, or None.

    Attributes:
        state: all that is needed to go on from the last part that is done.
    """

    def __init__(
        self, callback: Tell, total: float, budget: float | None, state: Mapping[str, Any] | None
    ) -> None:
        self.callback, self.total, self.budget, self.state = callback, total, budget, state
        self.start = time.perf_counter() - (0.0 if state is None else state["seconds"])
        self.done = 0.0
        self.reserve: float | None = None  # seconds for measuring; None until it was done once
        self.began = self.seconds

    @property
    def seconds(self) -> float:
        """The seconds spent so far."""
        return time.perf_counter() - self.start

    @property
    def is_over(self) -> bool:
        """Whether there is only time left for what is reserved."""
        if self.budget is None:
            return False
        reserve = self.seconds - self.began if self.reserve is None else self.reserve
        return self.seconds + reserve >= self.budget

    def tell(self, done: float) -> None:
        """So much of the work is done."""
        self.callback(Progress(min(done / self.total, 1.0), state=self.state))

    def at(self, parts: int, **values: Any) -> None:
        """So many parts are done, and these are the values to go on with."""
        self.state = {"parts": parts, "seconds": self.seconds, **values}

    def part(self, work: float, *, stops: bool = True) -> Callable[[float], None]:
        """What is to be called with the part of some work that is done; it counts as done now.

        Args:
            work: the whole of it.
            stops: whether a call raises `_OverError` once the time is over.
        """
        before = self.done
        self.done += work

        def tell(share: float) -> None:
            self.tell(before + share * work)
            if stops and self.is_over:
                raise _OverError

        return tell


@learns
def refine_shape(
    mesh: Mesh,
    images: Tensor,
    camera: Camera,
    masks: Tensor,
    *,
    steps: int = 20,
    budget: float | None = None,
    callback: Tell | None = None,
    resume: Mapping[str, Any] | None = None,
) -> ShapeResult:
    """Move a surface to where photos agree about its colours, as in hollows no outline shows.

    First stereo: neighbouring photos are matched by patches, at depths between the surface and
    where the object ends behind it, and what several agree about is fused into one surface within
    the hull of the masks. Then steps of Adam along the gradients of soft renderings
    (`shading="softmax"`) bring silhouettes and colours to those of the photos; colours and shape
    take turns, ten steps for each. The mesh is remeshed on the way, and may have other parts and
    handles in the end. If photos agree about too little, the surface is made smooth between its
    outlines instead (`faired`). If outlines or photos are not met, the mesh is returned as it was.

    What is of one colour, as plaster, is brought to the shading and the shadows of the photos, in
    light that is found from them (`fit_shading`): at once if it moves with the camera, and what
    stereo has found if it stands still, as shading is a pattern there. Where light does not explain
    the photos, or masks are met worse, there is stereo alone. Of a faint pattern, in light that
    moves, too, what stereo has found is brought to its shading if photos agree better about the
    pattern then.

    Where a few masks have bites, as in shadows, that photos from nearly the same direction do not
    have, the others say what is there.

    The surface needs a pattern, which may be faint; its brightness may differ from photo to photo.
    Where colours hardly differ, photos need not be met better, for any surface shows them.

    Args:
        mesh: One closed mesh, as `fit` makes it, in the world of the cameras. Colours are not kept.
        images: [B, 3, H, W] in [0, 1], the object over black, as `load_views` reads them; B >= 3.
        camera: B perspective cameras.
        masks: [B, H, W] in [0, 1].
        steps: >= 0, those after stereo.
        budget: Seconds, > 0, after which it ends with what it has come to. The time of comparing
            the photos, as long as it took before, is kept free for comparing them afterwards; where
            there is none, they are not compared, and the surface stays.
        callback: Called with the part of the work that is done, in [0, 1], a number that also has
            a `state`: all that is needed to go on from the last photo in stereo, or the last ten
            steps, as numbers and tensors.
        resume: Such a state, to go on from there with the same other arguments; the result is that
            of an uninterrupted run, bit for bit.

    Raises:
        TypeError: If an argument has the wrong type or dtype.
        ValueError: If shapes or values are wrong, or no photo shows the mesh.
    """
    check_single("mesh", mesh)
    sizes = check_views("images", images, "[B, 3, H, W]", camera)
    if sizes["B"] < LEAST_VIEWS:
        raise ValueError(
            f"at least {LEAST_VIEWS} photos are needed to see where colours agree, got {sizes['B']}"
        )
    check_like("the mesh", mesh.vertices, "images", images)
    check_further_images("masks", masks, "[B, H, W]", "images", images)
    check_count("steps", steps, least=0)
    if budget is not None:
        check_number("budget", budget, above=0)
    given = Mesh(mesh.vertices.detach(), mesh.faces)
    camera = camera.toward(mesh).with_origin(None)
    masks = masks.detach()
    images = images.detach()
    compared = amplified_patterns(images, masks)
    photos = _Photos(compared, camera.detach(), masks, without_bites(camera, masks))
    before: Mapping[str, Any] = resume or {"parts": 0}
    part, parts = int(before["parts"]), 1 + -(-steps // EVERY)
    work = 2 * MEASURE * len(_spread(sizes["B"])) + sum(
        _work(i, steps, sizes["B"]) for i in range(part, parts)
    )
    # One colour has no pattern but its shading, which tells the shape.
    one_colour = compared is images and is_plain(images, masks)
    work += SHADING * sizes["B"] * (3 * one_colour + (compared is not images))
    clock = _Budget(callback or (lambda now: None), work, budget, resume)
    refinement = _Refinement(given, images, photos, clock)
    clock.tell(0.0)
    try:
        first = refinement.measured(given, stops=True)
    except _OverError:  # there is no time to measure it again
        known, unknown = before.get("known"), (float("nan"), float("nan"))
        reason = "the time was over before photos were compared"
        return ShapeResult(mesh, False, unknown, unknown, 0.0, False, reason, known)
    clock.reserve = clock.seconds - clock.began
    give_back()  # stereo needs most
    found, reason = given, ""
    refinement.known = before.get("known")
    by_shading = one_colour and part == 0
    smooth = refinement.shaded(given, first, still=False) if by_shading else None
    if smooth is not None:
        part, reason = parts, "the object is of one colour, so that shading tells its shape"
    elif part:
        found = Mesh(*(before[name].to(given.device) for name in ("vertices", "faces")))
    while part < parts and not clock.is_over:
        try:
            if part == 0:
                matched = refinement.matched(found, before.get("stereo"))
                if isinstance(matched, str):
                    part, reason = parts, matched
                    break
                found = matched
                if not one_colour:
                    refinement.depths = None  # which shading alone looks at
            else:
                begin = EVERY * (part - 1)
                found = refinement.stepped(found, begin, min(begin + EVERY, steps))
        except _OverError as over:
            found = over.found or found
            break
        part += 1
        clock.at(part, vertices=found.vertices, faces=found.faces, known=refinement.known)
        clock.tell(clock.done)
    finished, known = part == parts, refinement.known
    if found is given:
        if smooth is None and reason:
            smooth = refinement.shaded(given, first, still=True) if one_colour else None
            if smooth is None and (smooth := refinement.faired(given, first)) is not None:
                reason += "; it is only smooth between its outlines, and hollows may be missing"
        clock.tell(work)
        reason = reason or "the time was over before photos were matched"
        if smooth is not None:
            found, last = smooth
            moved = _distance(found, given)
            found = found.with_origin(mesh.origin[0])
            return ShapeResult(found, True, *_both(first, last), moved, finished, reason, known)
        return ShapeResult(mesh, False, *_both(first, first), 0.0, finished, reason, known)
    found = without_cuts(remesh(found, refinement.edge(found)).mesh)
    last = refinement.measured(found, even=True)
    reason = _reason(first, last, refinement.faint)
    if one_colour and not reason:
        # Stereo may be wrong where shading moves little, and outlines where it would have to move
        # far: the surface that looks more like the photos is taken.
        least = float("inf")
        for start in ((found, last), (given, first)):
            shaded = refinement.shaded(*start, still=True)
            if shaded is None:
                break
            if refinement.unlike < least:
                (found, last), least = shaded, refinement.unlike
    if refinement.faint and not reason:
        # What stereo leaves rough, or fills, shading tells, if light moves; the pattern says
        # whether it is right.
        shaded = refinement.shaded(found, last, still=False)
        if shaded is not None and not _reason(last, shaded[1], faint=False):
            found, last = shaded
    clock.tell(work)
    both = _both(first, last)
    if reason:
        return ShapeResult(mesh, False, *both, 0.0, finished, reason, known)
    moved = _distance(found, given)
    found = found.with_origin(mesh.origin[0])
    return ShapeResult(found, True, *both, moved, finished, "", known)


def _both(first: _Met, last: _Met) -> tuple[tuple[float, float], tuple[float, float]]:
    """PSNR and IoU, before and after."""
    return _psnrs(first, last), (first.iou, last.iou)


def _reason(first: _Met, last: _Met, faint: bool) -> str:
    """Why a surface that meets photos so is not better than before; empty if it is.

    Colours that hardly differ (`faint`) are met by any surface: what photos agree about decides,
    which is never a little.
    """
    least = -MOST_WORSE if faint else LEAST_GAIN
    before, after = _psnrs(first, last)
    if after <= before + least:
        return (
            f"photos are met to {after:.1f} dB with it and {before:.1f} without, of which it "
            + (f"may lose {MOST_WORSE:g}" if faint else f"must gain {LEAST_GAIN:g}")
        )
    if last.iou <= first.iou - MOST_LOST:
        return (
            f"masks are met to an IoU of {last.iou:.3f} with it and {first.iou:.3f} without, of "
            f"which it may lose {MOST_LOST:g}"
        )
    return ""


def _spread(count: int, most: int = PAINTING) -> list[int]:
    """The rows of the photos that give colours."""
    return list(range(0, count, -(-count // most)))


def _together(count: int) -> int:
    """How many of some photos a step looks at: all take turns."""
    return -(-count // -(-count // VIEWS_PER_STEP))


def _work(part: int, steps: int, count: int) -> float:
    """That of stereo with `count` photos, or of a group of steps with their colours."""
    if part == 0:
        return STEREO * count
    some = min(EVERY, steps - EVERY * (part - 1))
    return len(_spread(count)) + some * DESCENT * _together(count)


def _distance(mesh: Mesh, other: Mesh) -> float:
    """Mean distance of the vertices of a mesh from the surface of another."""
    from gendr.photos.meshing.libigl import libigl

    parts: list[Any] = [m.double().cpu().numpy() for m in (mesh.vertices, other.vertices)]
    square, _, _ = libigl().point_mesh_squared_distance(*parts, other.faces.cpu().numpy())
    return float((square.clip(0) ** 0.5).mean())


def _painted(
    mesh: Mesh, photos: _Photos, tell: Callable[[float], None] | None = None
) -> ColorResult:
    """The mesh with the vertex colours that meet photos best."""
    return fit_colors(
        mesh, photos.images, photos.camera, photos.masks, kind="vertex", callback=tell
    )


@dataclass(frozen=True, eq=False)
class _Met:
    """How well a mesh meets photos.

    Attributes:
        misses: [B, H, W], by how much colours are off, the root of the mean of squares over
            channels; NaN where the mesh or the mask does not fill the pixel.
        psnr: the mean over photos, over all the object.
        iou: the mean of the hard silhouettes.
    """

    misses: Tensor
    psnr: float
    iou: float = float("nan")


def _met(found: ColorResult, photos: _Photos, iou: float = float("nan")) -> _Met:
    """How well colours meet the photos that they are from."""
    mesh, light = found.mesh, found.light
    lit = None if light is None else light.vertex_colors(mesh, photos.camera)
    misses = torch.full_like(photos.masks, float("nan"))
    for i, (image, mask) in enumerate(zip(photos.images, photos.masks, strict=True)):
        own = mesh if lit is None else mesh.with_vertex_colors(lit[i])
        shown, alpha = visual.render_views(own, photos.camera[i], photos.size, {"lighting": "none"})
        if lit is None:
            shown = shown * found.exposure[i, :, None, None]
        filled = torch.minimum(alpha[0], mask) > WHOLE
        misses[i][filled] = (shown[0] - image).square().mean(0).sqrt()[filled]
    return _Met(misses, float(found.psnr.double().mean()), iou)


def _psnrs(first: _Met, last: _Met) -> tuple[float, float]:
    """How well two surfaces meet photos, in decibels: inside outlines, which masks judge.

    Of a thin object the pixels along outlines would hide all that stereo gains. What only one of
    them fills does not count, or to leave out what fits worst would be a gain.
    """
    both = (first.misses + last.misses).isfinite()
    rows = both.flatten(1).any(1)
    if not rows.any():
        return first.psnr, last.psnr
    one, other = (
        float(psnr(off, torch.zeros_like(off), both[rows]).double().mean())
        for off in (each.misses[rows, None].nan_to_num() for each in (first, last))
    )
    return one, other


class _Refinement:
    """What stays the same while a shape is refined."""

    def __init__(self, mesh: Mesh, images: Tensor, photos: _Photos, clock: _Budget) -> None:
        self.images, self.photos, self.camera, self.clock = images, photos, photos.camera, clock
        self.faint = photos.images is not images
        self.plain = self.faint or is_plain(images, photos.masks)
        self.known: float | None = None
        self.unlike = float("inf")  # how far pictures of what was brought to its shading are off
        self.depths: Depths | None = None
        self.some = photos.some()
        low, high = mesh.bounding_box()[0], mesh.bounding_box()[1]
        self.diagonal = float((high - low).norm())
        middle = ((low + high) / 2).reshape(1, 1, 3)
        depth = self.camera.world_to_camera(middle)[..., 2].flatten()
        depth = torch.ones_like(depth) if self.camera.orthographic else depth.clamp(min=1e-12)
        unit = 2 / (min(photos.size) * self.camera.focal.mean(-1))
        self.pixel = float((unit * depth).median())
        # The object may grow a little on the way.
        near, far = visual.depths(mesh, self.camera)
        more = 0.1 * self.diagonal
        self.planes: dict[str, Any] = {"near": max(near - more, 0.1 * near), "far": far + more}

    def edge(self, mesh: Mesh) -> float:
        """The length of edges, or longer where faces would be too many."""
        return max(EDGE * self.pixel, edge_of(mesh, MOST_FACES))

    def matched(self, mesh: Mesh, resume: Mapping[str, Any] | None) -> Mesh | str:
        """The surface that photos agree about, below that of the mesh; or why there is none.

        Args:
            mesh: within which they are matched.
            resume: what the search for depths has come to before.
        """
        photos, given = self.photos, mesh

        def report_depths(now: Progress) -> None:
            if now.state is not None:
                self.clock.at(0, stereo=now.state)
            matching(now)

        work = STEREO * len(self.camera)
        tell, after = self.clock.part(0.9 * work), self.clock.part(0.1 * work)
        matching = between(tell, 0.0, 0.78)
        with torch.no_grad():
            if photos.whole is not photos.masks:  # what bites carved away is looked at, too
                mesh = visual_hull(photos.camera, photos.whole)
            depths = find_depths(
                mesh, self.images, photos.camera, photos.masks, report_depths, LEAST_KNOWN, resume
            )
            self.known, self.depths = depths.known, depths
            if depths.known < LEAST_KNOWN:
                return (
                    f"photos agree about {depths.known:.0%} of what they show, of which "
                    f"{LEAST_KNOWN:.0%} are needed: a surface without a pattern cannot be matched"
                )
            try:
                vertices, faces = fused(
                    depths, photos.camera, photos.whole, faint=self.plain,
                    tell=between(tell, 0.78, 1.0),
                )  # fmt: skip
            except ValueError:
                return "masks contradict each other, so that no hull of them is left"
        give_back()  # of the grids
        found = Mesh(
            torch.from_numpy(vertices).to(mesh.vertices), torch.from_numpy(faces).to(mesh.faces)
        )
        try:
            part = between(after, 0.0, 0.4)
            found = remesh(found, self.edge(found), iterations=3, callback=part).mesh
            if self.faint:
                return found
            # Steps are spared if a few photos show that it is much worse.
            few = self.photos.some(FEW)
            old = _painted(given, few, between(after, 0.4, 0.7))
            new = _painted(found, few, between(after, 0.7, 1.0))
        except _OverError:
            raise _OverError(found) from None
        then, now = _psnrs(_met(old, few), _met(new, few))
        if now < then - MOST_WORSE:
            return (
                f"{FEW} photos are met to {now:.1f} dB with what photos agree about, and to "
                f"{then:.1f} without"
            )
        return found

    def faired(self, mesh: Mesh, first: _Met) -> tuple[Mesh, _Met] | None:
        """The mesh made smooth, and how well it meets the photos; None if that fails.

        Args:
            mesh: that stereo could not improve.
            first: how well it meets them.
        """
        # Of one colour it is shading that agrees.
        depths = None if self.plain and not self.faint else self.depths

        return self.alone(
            mesh, first, lambda *given, tell: faired(*given, depths=depths, tell=tell)
        )

    def shaded(self, mesh: Mesh, first: _Met, *, still: bool) -> tuple[Mesh, _Met] | None:
        """The mesh, of about one colour, brought to its shading in the photos; as `faired`.

        Args:
            mesh: that silhouettes or stereo have found.
            first: how well it meets the photos.
            still: whether light may stand still, so that shading is a pattern for stereo, too.
        """

        def work(*given: Any, tell: Callable[[float], None]) -> Mesh | None:
            found = fit_shading(*given, tell=tell, still=still, outlines=self.faint)
            if found is None or found[1] > MOST_OFF:
                return None
            self.unlike = found[2]
            return found[0]

        return self.alone(mesh, first, work)

    def alone(
        self, mesh: Mesh, first: _Met, work: Callable[..., Mesh | None]
    ) -> tuple[Mesh, _Met] | None:
        """What some work on the processor makes of a mesh, and how well it meets the photos.

        None if there is no time, nothing is found, or masks are met worse than by `MOST_UNEVEN`.

        Args:
            mesh: one mesh.
            first: how well it meets them.
            work: of a mesh, images, cameras and masks, called with `tell`.
        """
        photos = self.photos
        given = Mesh(mesh.vertices, mesh.faces).to("cpu", torch.float32)
        camera = photos.camera.to(dtype=torch.float32, device="cpu")
        images, masks = (part.to("cpu", torch.float32) for part in (self.images, photos.whole))
        try:
            found = work(
                given, images, camera, masks, tell=self.clock.part(SHADING * len(self.camera))
            )
            if found is None:
                return None
            found = found.to(mesh.device, mesh.vertices.dtype)
            last = self.measured(found)
        except (_OverError, ValueError):  # the latter if no photo shows it
            return None
        return None if last.iou <= first.iou - MOST_UNEVEN else (found, last)

    def stepped(self, mesh: Mesh, first: int, last: int) -> Mesh:
        """The mesh after some steps along the gradients of soft renderings.

        Args:
            mesh: which takes its colours from the photos before the steps. It is remeshed after
                earlier steps only: that of stereo is even, and each time corners are cut.
            first: the number of the first of these steps.
            last: that of the step after them.
        """
        photos = self.photos
        renderer = Renderer(
            photos.size, *SHAPE, SCALE, shading="softmax", composite="alpha",
            lighting="none", cutoff=1e-3, check=False, **self.planes,
        )  # fmt: skip
        part = _together(len(photos.images))
        groups = -(-len(photos.images) // part)
        if first > 0:
            mesh = remesh(mesh, self.edge(mesh), iterations=2).mesh
        found = _painted(mesh, self.some, self.clock.part(len(self.some.camera)))
        shape = SmoothParametrization(mesh)
        painted, light = found.mesh, found.light
        # Light that moves with the camera gives each photo colours of its own.
        lit = None if light is None else light.vertex_colors(painted, self.camera)
        creases = FlattenLoss(mesh.faces, len(mesh.vertices))
        lr = STEP_IN_EDGES * self.edge(mesh)
        u = shape.u.detach()
        means = torch.zeros_like(u), torch.zeros_like(u)
        tell = self.clock.part((last - first) * DESCENT * part)

        def image_loss(vertices: Tensor, rows: list[int], all_rows: list[int]) -> Tensor:
            shown = painted.with_vertices(vertices)
            if lit is not None:
                each = painted.with_vertices(vertices.expand(len(rows), -1, -1))
                shown = each.with_vertex_colors(lit[rows])
            out = renderer(shown, self.camera[rows])
            masks, images = photos.masks[rows], photos.images[rows]
            apart = ((out.rgb - images).abs().mean(1) * masks).sum() / photos.masks[all_rows].sum()
            outline = iou_loss(out.alpha, photos.whole[rows])
            return len(rows) / len(all_rows) * outline + COLORS * apart

        for i in range(first, last):
            rows = list(range(i % groups, len(photos.images), groups))
            u = u.clone().requires_grad_()
            vertices = shape(u)
            _, slope = value_and_grad(
                partial(image_loss, all_rows=rows), vertices, rows, len(mesh.faces)
            )
            regularisation = vertices.new_zeros(())
            if creases.pairs.shape[1] > 0:
                regularisation = FLATNESS * (1 - creases.cosines(vertices)).square().mean()
            (grad,) = torch.autograd.grad((vertices * slope).sum() + regularisation, u)
            u, *means = uniform_adam_step(
                u.detach(), grad, *means, step=i - first + 1, lr=lr, betas=BETAS
            )
            try:
                tell((i + 1 - first) / (last - first))
            except _OverError:
                raise _OverError(mesh.with_vertices(shape(u).detach())) from None
        return mesh.with_vertices(shape(u).detach())

    def measured(self, mesh: Mesh, *, even: bool = False, stops: bool = False) -> _Met:
        """How well a mesh meets the photos.

        Args:
            mesh: one mesh.
            even: whether its edges are of about one length already; others are remeshed before.
            stops: whether it ends with `_OverError` once the time is over.
        """
        tell = self.clock.part(MEASURE * len(self.some.camera), stops=stops)
        if not even:
            part = between(tell, 0.0, 0.3)
            mesh = remesh(mesh, self.edge(mesh), iterations=2, callback=part).mesh
        hard = Renderer(self.photos.size, "heaviside", "max", check=False, **self.planes)
        with torch.no_grad():
            scores = mapped(
                lambda i: iou(hard(mesh, self.camera[i]).alpha, self.photos.whole[i : i + 1]),
                range(len(self.camera)), device=mesh.device,
            )  # fmt: skip
        found = _painted(mesh, self.some, between(tell, 0.3, 1.0))
        return _met(found, self.some, float(torch.cat(scores).double().mean()))
