"""Stereo inside the hull: what photos say of a surface that no outline shows.

Neighbouring photos are matched by patches with slanted planes (PatchMatch, `gendr.photos.stereo`),
at depths between the surface that the masks allow and where the object ends: first at half of the
size, then also at the whole. Patches are as wide as patterns
and noise ask for. What several photos agree about is fused into one signed distance (Curless &
Levoy 1996) that stays within the hull; what none sees has the least area (`fill_unobserved`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from gendr._common.memory import give_back
from gendr.jobs.loop import Progress, Tell
from gendr.kernels.threads import mapped, run
from gendr.mesh import Camera, Mesh
from gendr.photos import visual
from gendr.photos.fitting.shape.fill_unobserved import filled_by_least_area
from gendr.photos.fitting.shape.handles import without_handles, without_tunnels
from gendr.photos.meshing.hull import Field, Grid, hull_field, surface_of
from gendr.photos.stereo.matching import (
    Matcher,
    StereoSettings,
    first_planes,
    match,
    packed,
    refine,
)
from gendr.rendering import Renderer

__all__ = [
    "LEAST_VIEWS",
    "Depths",
    "HullSettings",
    "amplified_patterns",
    "find_depths",
    "fused",
    "is_plain",
]

Array = npt.NDArray[Any]

# Photos that stereo needs.
LEAST_VIEWS = 3


_MATCHING = StereoSettings(
    levels=(2, 1), rounds=(3, 2, 3, 2), tries=(4, 4), size=(0.15, 0.01), tilt=(0.5, 0.5),
    steepest=4.0, best=2, sure=(0.5, -1.0), lonely=0.2, strict=False,
)  # fmt: skip


@dataclass(frozen=True)
class HullSettings:
    """What is done with photos and depths beside matching.

    Attributes:
        matching: how photos are matched.
        neighbours: of a photo, at most.
        least_angle: between the lines of sight of neighbours, degrees.
        most_angle: the same; of a wall within a hollow most neighbours see nothing.
        few: so many neighbours are few.
        margin: depths are tried up to so far before the surface, of the range of inverse depths.
        deepest: and so deep below it, parts of the diagonal, if the object goes on so far.
        later_passes: over what is not known by then.
        patches: levels of them.
        blur: the standard deviation of level 1, half pixels.
        location_error: to which a patch must tell its place, pixels, one standard deviation.
        least_noise: of brightness, of 1.
        pattern: the variance of a faint one, beside that of the noise at the last level.
        faint: tints that spread over less are made stronger, until their patterns tell,
        spread: or they spread over so much.
        darkest: what is darker has no chroma.
        chroma_share: the part of the pixels that must need a chroma for it to be matched.
        chroma_gain: how many times as much it must tell as brightness, in which photos are sharper.
        least_cover: what of a pixel the object must cover for its colour to be the object's.
        least_correlation: that counts, with few neighbours and with more, of which some agree by
            chance about noise.
        least_consistent: how many must see the same.
        least_known: of the pixels that a photo with more than a few neighbours is sure of: shading
            that moves with a lamp is alike somewhere for each pair, but elsewhere for the next.
        free_weight: of what is seen through, beside what is seen.
        prior_weight: of a pixel of which photos say nothing, by which the surface given stays.
        lonely_weight: weights that one photo has less of alone, in which case what is likely
            counts too.
        band: around what photos say, in which the fused surface is looked for, cells.
        smoothing: over which distances are averaged, cells; and of faint patterns.
        least_part: of the area; smaller ones are none of the object's: cavities, specks.
        beside: by which the surface runs beside what is cut off or filled, cells.
        repairs: times that what the masks show, and the surface does not, is brought back.
    """

    matching: StereoSettings = _MATCHING
    neighbours: int = 8
    least_angle: float = 2.0
    most_angle: float = 50.0
    few: int = 4
    margin: float = 0.005
    deepest: float = 0.6
    later_passes: int = 2
    patches: int = 3
    blur: float = 0.6
    location_error: float = 0.3
    least_noise: float = 0.001
    pattern: float = 10.0
    faint: float = 0.1
    spread: float = 0.5
    darkest: float = 0.1
    chroma_share: float = 0.01
    chroma_gain: float = 2.0
    least_cover: float = 0.99
    least_correlation: tuple[float, float] = (0.5, 0.6)
    least_consistent: int = 2
    least_known: float = 0.6
    free_weight: float = 0.25
    prior_weight: float = 0.02
    lonely_weight: float = 0.4
    band: float = 4.0
    smoothing: tuple[float, float] = (1.0, 2.5)
    least_part: float = 0.02
    beside: float = 0.5
    repairs: int = 3


SETTINGS = HullSettings()
# The parts of the work that are done when photos are prepared, and after the first look at all.
_PREPARED, _FIRST = 0.05, 0.8
_CELL = 8  # pixels, of the map of where the object ends


@dataclass(frozen=True, eq=False)
class Depths:
    """What photos know of the surface.

    Attributes:
        planes: float32 [B, H, W, 3], the inverse of the depth and its change by pixel, right and
            down.
        weights: float32 [B, H, W], of what is known.
        known: the part of the pixels of the object that photos agree about at first; 0 if they
            contradict each other about much of what each is sure of.
    """

    planes: Array
    weights: Array
    known: float


@dataclass(frozen=True, eq=False)
class _PhotoSet:
    """Photos at one size, and the geometry between them.

    Attributes:
        images: uint32 [T, B, L, H, W], flat, and one more: smoother at each level, in each tint;
            -1 .. 1 in steps of `UNIT`, and in the upper half of a word what is below.
        levels: uint8 [B, H, W], where the patch at a pixel tells enough: the level, plus 8 times
            the tint.
        inside: uint8 [B, H, W].
        front: float32 [B, H, W], inverse depths of the surface given, 0 where it is not.
        end: float32 [B, H, W], those at which lines of sight have left it.
        projections: float64 [B, 3, 4].
        focals: float64 [B].
    """

    images: Array
    levels: Array
    inside: Array
    front: Array
    end: Array
    projections: Array
    focals: Array

    def pair(self, ref: int, near: Array) -> tuple[Array, Array]:
        """A [K, 3, 3] and b [K, 3] that take pixels of a photo to those of others."""
        m, p = self.projections[ref, :, :3], self.projections[ref, :, 3]
        back = np.linalg.inv(m)
        others = self.projections[near]
        a = others[:, :, :3] @ back
        b = others[:, :, 3] - a @ p
        return a.astype(np.float32), b.astype(np.float32)

    def tables(self, ref: int, near: Array) -> tuple[Array, Array, Array, Array]:
        """`pair`, and those [K, 3, 3], [K, 3] that take pixels of others to those of a photo."""
        backs = [self.pair(int(n), np.array([ref])) for n in near]
        a, b = (np.concatenate(part) for part in zip(*backs, strict=True))
        return *self.pair(ref, near), a, b

    def matcher(self, ref: int, near: Array, deep: float, known: Any = 0.0) -> Matcher:
        """A photo and its neighbours; planes lie in the object, so deep at most.

        Args:
            ref: the photo.
            near: int64 [K], its neighbours.
            deep: world units.
            known: float32 [H, W], inverse depths that stay, 0 elsewhere.
        """
        front, inside = self.front[ref], self.inside[ref] > 0
        high = np.where(inside, front, 1)
        low = np.maximum(1 / (1 / high + deep), np.minimum(high, self.end[ref]))
        span = float(high[inside].max() - low[inside].min()) if inside.any() else 0.0
        height, width = front.shape
        shape = np.ones(1 + len(near), np.int64)
        photo = SETTINGS.patches * front.size
        return Matcher(
            images=self.images,
            tints=len(self.levels) * photo,
            bases=np.concatenate([[ref], near]) * photo,
            widths=width * shape,
            heights=height * shape,
            tables=self.tables(ref, near),
            levels=self.levels[ref],
            near=np.where(inside, known, np.inf).astype(np.float32),
            low=low.astype(np.float32),
            high=(high + SETTINGS.margin * span).astype(np.float32),
            span=span,
            focal=float(self.focals[ref]),
        )


def find_depths(
    mesh: Mesh,
    images: Tensor,
    camera: Camera,
    masks: Tensor,
    tell: Tell = lambda now: None,
    least: float = 0.0,
    resume: Mapping[str, Any] | None = None,
) -> Depths:
    """What photos know of the surface below that of a mesh.

    Args:
        mesh: one mesh, which the object does not leave.
        images: [B, 3, H, W] in [0, 1].
        camera: B perspective cameras.
        masks: [B, H, W].
        tell: called with the part of the work that is done, and all that is needed to go on.
        least: the part of the pixels that must be known for a second look at the others.
        resume: what `tell` was called with, to go on from there, bit for bit.
    """
    whole, half = _photo_sets(mesh, images, camera, masks)
    give_back()  # of what they are made of
    count, (height, width) = len(images), whole.front.shape[1:]
    low, high = (corner.reshape(3) for corner in mesh.bounding_box())
    near = _neighbours((low + high) / 2, camera)
    deep = SETTINGS.deepest * float((high - low).norm())
    # The look, 0 for the first and 1 ... for those at what is not known by then; photos of it that
    # are done; the part that is known after the first; and arrays: planes and costs, after the
    # first look also where photos were sure, and inverse depths there.
    look, begin, known, arrays = 0, 0, 0.0, dict[str, Array]()
    if resume is not None:
        look, begin, known = resume["look"], resume["done"], resume["known"]
        arrays = {name: value.numpy().copy() for name, value in resume["arrays"].items()}
    else:
        arrays["planes"] = np.zeros((count, height, width, 3), np.float32)
        arrays["costs"] = np.full((count, height, width), 2, np.float32)
    planes, costs = arrays["planes"], arrays["costs"]

    def report(part: float, look: int, done: int) -> None:
        tensors = {name: torch.from_numpy(value) for name, value in arrays.items()}
        tell(Progress(part, state={"look": look, "done": done, "known": known, "arrays": tensors}))

    def consistent() -> Array:
        return _consistent(whole, near, planes, costs)

    report(_PREPARED, look, begin)
    sets = {1: whole, 2: half}
    for ref in range(begin, count if look == 0 else 0):
        planes[ref], costs[ref], _ = match(
            lambda level, ref=ref: sets[level].matcher(ref, near[ref], deep),
            lambda matcher, ref=ref: first_planes(matcher, matcher.high, ref),
            SETTINGS.matching,
        )
        report(_PREPARED + (_FIRST - _PREPARED) * (ref + 1) / count, 0, ref + 1)
    sets.clear()
    del half
    shown = whole.inside > 0
    if look == 0:
        enough = np.array([min(SETTINGS.least_consistent, len(some) - 1) for some in near])[
            :, None, None
        ]
        sure = (consistent() >= enough) & shown
        known = float(sure.sum() / max(1, int(shown.sum())))
        many = np.array([len(some) > SETTINGS.few for some in near])[:, None, None]
        asked = shown & many & (costs <= 1 - max(SETTINGS.least_correlation))
        if (sure & asked).sum() < SETTINGS.least_known * asked.sum():
            known = 0.0
    else:
        sure = arrays["sure"]
    looks = 1 + (SETTINGS.later_passes if known >= least else 0)
    for again in range(max(look, 1), looks):
        if again > look:
            arrays.setdefault("former", np.empty_like(costs))[:] = np.where(sure, planes[..., 0], 0)
            arrays["sure"], begin = sure, 0
        share = (1 - _FIRST) / SETTINGS.later_passes
        report(_FIRST + share * (again - 1 + begin / count), again, begin)
        former = arrays["former"]
        for ref in range(begin, count):
            matcher = whole.matcher(ref, near[ref], deep, former[ref])
            planes[ref], costs[ref], _ = refine(
                matcher, planes[ref], costs[ref], former[near[ref]].ravel(), SETTINGS.matching,
                again,
            )  # fmt: skip
            report(_FIRST + share * (again - 1 + (ref + 1) / count), again, ref + 1)
        # One that agrees is enough where all are asked whether they see something else there.
        sure = sure | ((consistent() >= 1) & shown)
    # What is needed no longer is let go, also by who keeps the state.
    arrays = {"planes": planes, "costs": costs, "sure": sure}
    report(1.0, looks, 0)
    weights = np.where(sure, (1 - costs).clip(0, 1) ** 2, 0).astype(np.float32)
    rest = ~sure & shown
    planes[rest] = whole.front[rest][:, None] * np.array([1, 0, 0], np.float32)
    weights[rest] = SETTINGS.prior_weight
    tell(Progress(1.0))
    return Depths(planes, weights, known)


def fused(
    depths: Depths,
    camera: Camera,
    masks: Tensor,
    resolution: int = 320,
    faint: bool = False,
    tell: Callable[[float], None] = lambda done: None,
) -> tuple[Array, Array]:
    """The closed surface that the photos agree about, within the hull of the masks.

    `tell` is called with the part of the work that is done. Of `faint` patterns, or of shading
    alone, depths are as rough as patches are wide, and averaged over more cells.

    Raises:
        ValueError: if the masks contradict each other.
    """
    from gendr.photos.fitting.shape import stereo_kernels as kernels

    hull = hull_field(camera, masks, resolution=resolution)
    tell(0.15)
    grid, reach = hull.grid, SETTINGS.band * hull.grid.cell
    values = hull.values.numpy()
    cells = np.flatnonzero(values > -2 * grid.cell)
    out = np.zeros((len(cells), 2), np.float32)
    projections, focals = _projections(camera, depths.weights.shape[1:])
    run(
        kernels.fuse, len(cells), cells, grid.corner, grid.cell, np.array(grid.shape), projections,
        focals, depths.planes, depths.weights, reach, SETTINGS.free_weight, out,
    )  # fmt: skip
    tell(0.25)
    own = out[:, 0] / reach * out[:, 1].clip(0, 1)
    votes, within = np.zeros(len(values), own.dtype), (values > 0).reshape(grid.shape)
    votes[cells] = own
    wanted = (masks > 0.5).cpu().numpy()

    def joined() -> Array:
        body = filled_by_least_area(votes.reshape(grid.shape), within).ravel()
        guess = (body[cells] - 0.5) * SETTINGS.band * grid.cell
        return _smoothed(values, cells, out, guess, grid, reach, SETTINGS.smoothing[faint])

    def missing(field: Array) -> Array:
        # Of those in the hull, and of cells that are alike that which is deepest in it.
        likely = np.where(values > 0, field + 0.1 * values.clip(-reach, reach), -np.inf)
        places = _uncovered(field, likely, grid, wanted, projections, focals)
        strides = np.array([grid.shape[1] * grid.shape[2], grid.shape[2], 1])
        around = places[:, None] + np.concatenate([[0], strides, -strides])
        return np.unique(around.clip(0, len(field) - 1))

    field = joined()
    tell(0.5)
    around = missing(field)
    if len(around):  # as if photos had seen it, so that what joins it has least area too
        votes[around] = 1
        field = joined()
    tell(0.75)
    _changed(field, without_handles((field > 0).reshape(grid.shape)), values, grid)
    for _ in range(SETTINGS.repairs):
        around = missing(field)
        if not len(around):
            break
        field[around] = np.maximum(field[around], np.minimum(values[around], 0.5 * grid.cell))
    tell(0.9)
    inside = (field > 0).reshape(grid.shape)
    _changed(field, without_tunnels(inside, within), values, grid)
    give_back()  # of what is done
    return surface_of(Field(torch.from_numpy(field), grid, hull.pixel), SETTINGS.least_part)


def _changed(field: Array, body: npt.NDArray[np.bool_], values: Array, grid: Grid) -> None:
    """Make a field positive in a body, and negative elsewhere."""
    wanted = body.ravel()
    more, less = np.flatnonzero(wanted & (field <= 0)), np.flatnonzero(~wanted & (field > 0))
    field[more] = np.minimum(values[more], SETTINGS.beside * grid.cell)
    field[less] = -SETTINGS.beside * grid.cell


def _smoothed(
    values: Array, cells: Array, out: Array, guess: Array, grid: Grid, reach: float,
    smoothing: float,
) -> Array:  # fmt: skip
    """What photos say, averaged over neighbouring cells by its weight, within the hull.

    Where it is less than one photo says, also what is guessed.
    """
    from scipy.ndimage import gaussian_filter

    mean, weight = np.zeros_like(values), np.zeros_like(values)
    weight[cells] = out[:, 1]
    mean[cells] = out[:, 0] * out[:, 1]
    mean, weight = mapped(
        lambda part: gaussian_filter(part.reshape(grid.shape), smoothing, truncate=2).ravel(),
        (mean, weight),
    )
    own = values[cells].clip(-reach, reach)
    weight, mean = weight[cells], mean[cells]
    field = values.copy()
    rest = (SETTINGS.lonely_weight - weight).clip(0)
    field[cells] = np.minimum((mean + rest * guess) / (weight + rest), own)
    return field


def _uncovered(
    field: Array,
    likely: Array,
    grid: Grid,
    wanted: npt.NDArray[np.bool_],
    projections: Array,
    focals: Array,
) -> Array:
    """The cells that must be inside for masks to be covered: of each line of sight, the likeliest.

    Thin parts are lost where photos disagree about what is seen beside them.
    """
    from scipy.ndimage import binary_opening

    from gendr.photos.fitting.shape import stereo_kernels as kernels

    inside = field.reshape(grid.shape) > 0
    within = inside.copy()
    for axis in range(3):
        for shift in (-1, 1):
            within &= np.roll(inside, shift, axis)
    covered = np.zeros(wanted.shape, np.uint8)
    shell = np.flatnonzero(inside & ~within)
    shape = np.array(grid.shape)
    common = grid.corner, grid.cell, shape
    run(kernels.cover, len(wanted), shell, *common, projections, focals, covered, pieces=32)
    # Single pixels along outlines are rounding.
    missing = binary_opening(wanted & (covered == 0), np.ones((1, 2, 2)))
    view, row, column = np.nonzero(missing)
    back = np.linalg.inv(projections[:, :, :3])
    eyes = -(back @ projections[:, :, 3:])[..., 0]
    pixel = np.stack([column, row, np.ones(len(row))], -1)
    rays = np.einsum("nij,nj->ni", back[view], pixel)
    rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
    extent = grid.cell * np.array(grid.shape)
    distance = np.linalg.norm(eyes - (grid.corner + extent / 2), axis=-1)
    first, last = distance.min() - np.linalg.norm(extent), distance.max() + np.linalg.norm(extent)
    places = np.full(len(row), -1, np.int64)
    run(
        kernels.restore, len(row), likely, *common, rays, eyes[view], max(0.0, first), last,
        np.float32(-np.inf), places,
    )  # fmt: skip
    return np.unique(places[places >= 0])


def _projections(camera: Camera, size: tuple[int, ...]) -> tuple[Array, Array]:
    """[B, 3, 4] to pixels times depth, the centre of the first at 0; and focal lengths [B]."""
    exact = camera.to(torch.float64)
    turn, shift, k = exact.to_opencv((size[0], size[1]), pixel_centre=0)
    projections = k @ torch.cat([turn, shift[..., None]], -1)
    return projections.cpu().numpy(), k[:, [0, 1], [0, 1]].mean(-1).cpu().numpy()


def _fronts(mesh: Mesh, camera: Camera, size: tuple[int, int]) -> Tensor:
    """Inverse depths [B, H, W] of a surface, 0 where it is not."""
    near, far = visual.depths(mesh, camera)
    renderer = Renderer(size, "heaviside", "max", near=near, far=far, check=False)
    bare = Mesh(mesh.vertices, mesh.faces)
    with torch.no_grad():
        return torch.cat([1 / renderer(bare, camera[i]).depth for i in range(len(camera))])


def _ends(mesh: Mesh, camera: Camera, size: tuple[int, int]) -> Tensor:
    """Inverse depths [B, H, W] of where lines of sight have left a mesh for good, at the latest."""
    from scipy.ndimage import maximum_filter

    vertices = mesh.vertices.double().cpu().numpy()
    ends = mesh.vertices[mesh.faces].double()
    longest = float((ends - ends.roll(1, 1)).norm(dim=-1).max())
    maps = []
    for projection, focal in zip(*_projections(camera, size), strict=True):
        x, y, z = (projection[:, :3] @ vertices.T + projection[:, 3:]).clip(1e-12)
        # No face steps over a cell.
        cell = max(_CELL, math.ceil(min(longest * focal / z.min(), max(size))))
        rows, columns = (n // cell + 1 for n in size)
        last = np.zeros((rows, columns))
        place = (y / z / cell).astype(int).clip(0, rows - 1), (x / z / cell).astype(int)
        np.maximum.at(last, (place[0], place[1].clip(0, columns - 1)), z)
        last = maximum_filter(last, 3)
        last[last == 0] = z.max()
        wide = last.repeat(cell, 0).repeat(cell, 1)[: size[0], : size[1]]
        maps.append(torch.from_numpy((1 / wide).astype(np.float32)))
    return torch.stack(maps)


def _photo_sets(
    mesh: Mesh, images: Tensor, camera: Camera, masks: Tensor
) -> tuple[_PhotoSet, _PhotoSet]:
    """The photos at their size and at half of it, and where the surface of a mesh is in them.

    What they are made of, as large as they are, is let go at the end.
    """
    size = images.shape[2], images.shape[3]
    surface = _fronts(mesh, camera, size), _ends(mesh, camera, size)
    chroma = _extended(_chroma(images), masks)
    return (
        _photo_set(chroma, camera, masks, *surface, 1),
        _photo_set(chroma, camera, masks, *surface, 2),
    )  # fmt: skip


def _photo_set(
    chroma: Array, camera: Camera, masks: Tensor, fronts: Tensor, ends: Tensor, factor: int
) -> _PhotoSet:
    """The photos, shrunk."""
    height, width = (n // factor for n in chroma.shape[2:])
    cut = torch.from_numpy(chroma[:, :, : height * factor, : width * factor])
    small = (F.avg_pool2d(cut, factor) if factor > 1 else cut).numpy()
    inside = F.avg_pool2d(masks[:, None, : height * factor, : width * factor], factor)[:, 0] > 0.9
    # What was cut off moves the middle of the image, which cameras count from.
    projections, focals = _projections(camera, chroma.shape[2:])
    # Pixel x of the small image is at factor x + (factor - 1) / 2 of the large one.
    shrink = np.diag([1 / factor, 1 / factor, 1.0])
    shrink[:2, 2] = -(factor - 1) / (2 * factor)
    front = F.max_pool2d(fronts[:, None], factor)[:, 0]
    shown = (inside & (front > 0)).byte().cpu().numpy()
    smooth, levels = _levels(small, shown)
    end = ends[:, ::factor, ::factor][:, : front.shape[1], : front.shape[2]]
    return _PhotoSet(
        smooth, levels, shown, front.float().cpu().numpy(), end.numpy(),
        shrink @ projections, focals / factor,
    )  # fmt: skip


def _chroma(images: Tensor) -> Array:
    """[T, B, H, W], what is matched of colours [B, 3, H, W]: brightness, and two ratios of them.

    Shadows, shading and the light of a lamp that moves change all three colours alike.
    """
    r, g, b = images.unbind(1)
    red, blue = (
        (r - g) / (r + g + 2 * SETTINGS.darkest),
        (r + g - 2 * b) / (r + g + 2 * b + 4 * SETTINGS.darkest),
    )
    return torch.stack([images.mean(1), red, blue]).float().cpu().numpy()


def _extended(images: Array, masks: Tensor) -> Array:
    """Images [T, B, H, W] in which what lies around the object is made as its rim.

    A rim beside another background would look like a pattern, which is where the outline is.
    """
    from scipy.ndimage import distance_transform_edt

    def where(mask: Array) -> Array | None:
        sure = mask > SETTINGS.least_cover
        if not sure.any():
            return None
        found: Any = distance_transform_edt(~sure, return_distances=False, return_indices=True)
        return found

    for i, at in enumerate(mapped(where, list(masks.cpu().numpy()))):
        if at is not None:
            images[:, i] = images[:, i, at[0], at[1]]
    return images


def amplified_patterns(images: Tensor, masks: Tensor) -> Tensor:
    """Photos [B, 3, H, W], with faint patterns of colour, as on plaster, made strong.

    Where colours hardly differ, photos are met as well by a wrong surface: what differs is shading
    and grain, which another surface shows too. Then these are brightness and ratios of colours.

    Args:
        images: [B, 3, H, W] in [0, 1], the object over black.
        masks: [B, H, W].

    Returns:
        Those given, where some colours differ clearly, or hardly more than by noise.
    """
    shown = (masks > 0.9).cpu().numpy()
    chroma = _chroma(images)
    tints, faint = [images.mean(1)], False
    for tint in chroma[1:]:
        spread = _spread(tint, shown)
        if spread[2] - spread[0] > SETTINGS.faint:
            return images
        noise = max(SETTINGS.least_noise, _rough(tint, shown.view(np.uint8)))
        middle, gain = _gain(tint, shown, noise)
        if tint[shown].std() < 2 * noise:
            gain = 1.0
        faint |= gain > 1
        tints.append(torch.from_numpy(0.5 + gain * (tint - middle)).to(images) * masks)
    return torch.stack(tints, 1).clamp(0, 1) if faint else images


def is_plain(images: Tensor, masks: Tensor) -> bool:
    """Whether colours hardly differ, as on plaster, so that shading alone is matched.

    By what is at least half as bright as usual: in shadows colours are noise.

    Args:
        images: [B, 3, H, W] in [0, 1], the object over black.
        masks: [B, H, W].
    """
    shown = (masks > 0.9).cpu().numpy()
    grey, *tints = _chroma(images)
    shown &= grey > 0.5 * np.median(grey[shown]) if shown.any() else False
    spreads = (_spread(tint, shown) for tint in tints)
    return all(high - low <= SETTINGS.faint for low, _, high in spreads)


def _levels(chroma: Array, inside: Array) -> tuple[Array, Array]:
    """Images of each level and tint, and where a patch is first told apart.

    Args:
        chroma: float32 [T, B, H, W].
        inside: uint8 [B, H, W].

    Returns:
        `images` of `_PhotoSet`, without tints that few pixels need; and uint8 [B, H, W], the first
        level at which a tint tells enough, plus 8 times the tint that tells most there.
    """
    levels, most = (
        np.full(inside.shape, SETTINGS.patches, np.uint8),
        np.zeros(inside.shape, np.float32),
    )
    # The system gives memory as it is filled: tints that are not wanted take none.
    size, tints = SETTINGS.patches * inside.size, 0
    flat = np.zeros(len(chroma) * size + 1, np.uint32)
    shown = inside > 0
    for tint in chroma:
        noise = _rough(tint, inside) if tints else _noise(tint, inside)
        noise = max(SETTINGS.least_noise, noise)
        middle, gain = _gain(tint, shown, noise)
        if gain > 1:
            tint, noise = gain * (tint - middle), gain * noise
        words = flat[tints * size : (tints + 1) * size]
        words = words.reshape(len(inside), SETTINGS.patches, *inside.shape[1:])
        first, precision = _localised(tint, shown, noise, words)
        tells = precision > SETTINGS.location_error**-2
        precision = precision / SETTINGS.chroma_gain if tints else precision
        before = levels & 7
        better = (first < before) | ((first == before) & (precision > most))
        if tints and gain > 1:  # of plaster, brightness is mostly light, which may move
            better |= tells & (levels < 8)
        del words
        if not tints or (better & shown).sum() >= SETTINGS.chroma_share * max(1, shown.sum()):
            levels[better], most[better] = first[better] + 8 * tints, precision[better]
            tints += 1
    flat.resize(tints * size + 1, refcheck=False)
    return flat, levels


def _gain(tint: Array, shown: Array, noise: float) -> tuple[float, float]:
    """The middle of a tint [B, H, W], and how many times as strong it is to be matched, >= 1.

    A patch whose variance is below `FLAT` is taken for plain. Of a faint pattern, as on plaster,
    that holds everywhere, though it may be far above the noise that is left at the last level.
    """
    from gendr.photos.stereo.patches import FLAT

    low, middle, high = _spread(tint, shown)
    if high - low > SETTINGS.faint:
        return middle, 1.0
    sigma = SETTINGS.blur * 2 ** (SETTINGS.patches - 1)
    enough = (4 * math.pi * FLAT / SETTINGS.pattern) ** 0.5 * sigma / noise
    return middle, max(1.0, min(enough, SETTINGS.spread / max(high - low, 1e-12)))


def _spread(tint: Array, shown: Array) -> list[float]:
    """The lowest, middle and highest of a tint [B, H, W], but for one in a thousand."""
    values = tint[shown][::8]
    found: list[float] = np.quantile(values, (0.001, 0.5, 0.999)).tolist() if len(values) else []
    return found or [0.0, 0.0, 0.0]


def _localised(tint: Array, shown: Array, noise: float, words: Array) -> tuple[Array, Array]:
    """The first level [B, H, W] of patches that tells enough, and how much; fills in `words`.

    A patch whose brightness only climbs is alike at many depths, and noise is like nothing. What
    tells where it belongs are the changes of its slope (those that neither another brightness nor
    another contrast makes), beside the noise (Cramer and Rao's bound).

    Args:
        tint: float32 [B, H, W].
        shown: bool [B, H, W], where the object is.
        noise: its standard deviation.
        words: uint32 [B, L, H, W], out: `images` of `_PhotoSet`.
    """
    first = np.full(tint.shape, SETTINGS.patches - 1, np.uint8)
    precision = np.zeros(tint.shape, np.float32)

    def fill(i: int) -> None:
        rows, columns = (np.flatnonzero(shown[i].any(axis)) for axis in (1, 0))
        box = np.array([(x.min(), x.max() + 1) if len(x) else (0, 0) for x in (rows, columns)])
        _localise(tint[i], box, noise, words[i], first[i], precision[i])

    mapped(fill, range(len(tint)))
    return first, precision


def _localise(
    tint: Array, box: Array, noise: float, words: Array, first: Array, precision: Array
) -> None:
    """Fill in what `_localised` gives of one image [H, W], in the box that the object is in."""
    from scipy.ndimage import gaussian_filter

    from gendr.photos.fitting.shape.stereo_kernels import energies
    from gendr.photos.stereo.kernels import STRIDE
    from gendr.photos.stereo.patches import SAMPLES, SIDE

    cut = slice(*box[0]), slice(*box[1])
    first, precision = first[cut], precision[cut]
    energy, image = np.zeros(first.shape, np.float32), tint
    found = np.zeros(first.shape, np.bool_)
    for level in range(SETTINGS.patches):
        # The variance of noise, and of its slope, as parts of that of the photo.
        variance, jagged = 1.0, 0.5
        if level:
            sigma = SETTINGS.blur * 2**level
            image = gaussian_filter(tint, sigma)
            variance, jagged = 1 / (4 * math.pi * sigma**2), 1 / (8 * math.pi * sigma**4)
        words[level] = packed(image.clip(-1, 1))
        energies(image, box, STRIDE * 2**level * (SIDE - 1) + 1, energy)
        # Of one direction, less that of the noise; which is in both photos.
        here = energy / 2 - jagged * noise**2
        here *= SAMPLES / (2 * variance * noise**2)
        enough = here > SETTINGS.location_error**-2
        enough = ~found & (enough | (level == SETTINGS.patches - 1))
        first[enough], precision[enough] = level, here[enough]
        found |= enough


def _rough(tint: Array, inside: Array) -> float:
    """The noise of a tint, of which cameras keep every second pixel; as of independent pixels."""
    height, width = (n // 2 * 2 for n in tint.shape[1:])
    parts = (part[:, :height, :width] for part in (tint, inside))
    half, within = (p.reshape(len(p), height // 2, 2, width // 2, 2) for p in parts)
    pooled = half.mean((2, 4), dtype=np.float32), within.min((2, 4))
    return max(_noise(tint, inside), 2 * _noise(*pooled))


def _noise(grey: Array, inside: Array) -> float:
    """The standard deviation of the noise of photos (Immerkaer 1996), where they are plainest."""
    from scipy.ndimage import binary_erosion, convolve1d

    kernel = np.array([1.0, -2.0, 1.0], np.float32)
    rough = np.abs(convolve1d(convolve1d(grey, kernel, axis=1), kernel, axis=2))
    within = binary_erosion(inside, np.ones((1, 3, 3)))
    height, width = (8 * (n // 8) for n in grey.shape[1:])

    def blocks(values: Array) -> Array:
        cut = values[:, :height, :width].reshape(len(grey), height // 8, 8, width // 8, 8)
        return cut.mean((2, 4), dtype=np.float64)

    share, total = blocks(within), blocks(rough * within)
    means = (total / np.maximum(share, 1e-6))[share > 0.5]
    return float(np.quantile(means, 0.25)) * (math.pi / 2) ** 0.5 / 6 if means.size else 0.0


def _neighbours(middle: Tensor, camera: Camera) -> list[Array]:
    """The photos from directions that are neither too like nor too unlike, for each."""
    ways = F.normalize(camera.eye - middle, dim=-1).double()
    angles = torch.rad2deg((ways @ ways.T).clamp(-1, 1).acos()).cpu().numpy()
    found = []
    for i, row in enumerate(angles):
        usable = np.flatnonzero((row >= SETTINGS.least_angle) & (row <= SETTINGS.most_angle))
        if len(usable) < 2:
            usable = np.array([j for j in np.argsort(row, kind="stable") if j != i][:2])
        order = usable[np.argsort(row[usable], kind="stable")]
        found.append(order[: SETTINGS.neighbours].astype(np.int64))
    return found


def _consistent(photos: _PhotoSet, near: list[Array], planes: Array, costs: Array) -> Array:
    """How many neighbours [B, H, W] see the surface of a pixel at the same place."""
    from gendr.photos.stereo.kernels import count_consistent

    counts = np.zeros(costs.shape, np.uint8)
    for ref, some in enumerate(near):
        least = SETTINGS.least_correlation[len(some) > SETTINGS.few]
        run(
            count_consistent, costs.shape[1], ref, some, *photos.tables(ref, some), planes, costs,
            np.float32(1 - least), counts[ref],
        )  # fmt: skip
    return counts
