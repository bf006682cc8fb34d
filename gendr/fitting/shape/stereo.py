"""Stereo inside the hull: what photos say of a surface that no outline shows.

Neighbouring photos are matched by patches, at depths between the surface that the masks allow and
a bounded depth below it: first at half of the size with all depths, then at the whole size with
slanted planes that pixels hand on to each other. What several photos agree about is fused into one
signed distance (Curless & Levoy 1996) that stays within the hull.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from gendr import visual
from gendr._runtime.threads import run
from gendr.fitting.shape.handles import without_handles, without_tunnels
from gendr.mesh import Camera, Mesh
from gendr.mesh.hull import Field, Grid, hull_field, surface_of
from gendr.rendering import Renderer

__all__ = ["LEAST_VIEWS", "Depths", "find_depths", "fused"]

Array = npt.NDArray[Any]

# Photos that stereo needs.
LEAST_VIEWS = 3
# Neighbours of a photo, and the angles between their lines of sight, degrees.
_NEIGHBOURS, _NEAREST, _FURTHEST = 4, 2.0, 50.0
# Depths are tried so many pixels apart; up to so many before the surface, and so deep below it, as
# a part of the diagonal.
_STEP, _BEFORE, _DEEP = 0.7, 1.5, 0.25
_TURNS = 6  # of handing planes on
# A correlation that counts, and how many neighbours must see the same.
_LEAST, _AGREE = 0.5, 2
# What is seen through weighs so much of what is seen.
_FREE = 0.25
# The fused surface is looked for so many cells around what photos say.
_REACH = 4.0
# Cells over which distances are averaged.
_SMOOTH = 1.0
# Parts of less of the area are none of the object's: cavities, specks.
_LEAST_PART = 0.02
# Cells by which the surface runs beside what is cut off or filled.
_BESIDE = 0.5
# Times that what the masks show, and the surface does not, is brought back.
_REPAIRS = 3


@dataclass(frozen=True, eq=False)
class Depths:
    """What photos know of the surface.

    Attributes:
        planes: float32 [B, H, W, 3], the inverse of the depth and its change by pixel, right and
            down.
        weights: float32 [B, H, W], of what is known.
        known: the part of the pixels of the object that photos agree about.
    """

    planes: Array
    weights: Array
    known: float


@dataclass(frozen=True, eq=False)
class _Sights:
    """Photos at one size, and the geometry between them.

    Attributes:
        grey: float32 [B, H, W].
        inside: uint8 [B, H, W].
        front: float32 [B, H, W], inverse depths of the surface given, 0 where it is not.
        projections: float64 [B, 3, 4].
        focals: float64 [B].
    """

    grey: Array
    inside: Array
    front: Array
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


def find_depths(
    mesh: Mesh,
    images: Tensor,
    camera: Camera,
    masks: Tensor,
    tell: Callable[[float], None] = lambda done: None,
) -> Depths:
    """What photos know of the surface below that of a mesh.

    Args:
        mesh: one mesh, which the object does not leave.
        images: [B, 3, H, W] in [0, 1].
        camera: B perspective cameras.
        masks: [B, H, W].
        tell: called with the part of the work that is done.
    """
    from gendr.fitting.shape import stereo_kernels as kernels

    fronts = _fronts(mesh, camera, (images.shape[2], images.shape[3]))
    whole, half = (_sights(images, camera, masks, fronts, factor) for factor in (1, 2))
    count, (height, width) = len(images), whole.front.shape[1:]
    low, high = (corner.reshape(3) for corner in mesh.bounding_box())
    middle, deep = (low + high) / 2, _DEEP * float((high - low).norm())
    near = _neighbours(middle, camera)
    planes = np.zeros((count, height, width, 3), np.float32)
    scores = np.full((count, height, width), -1, np.float32)
    for ref in range(count):
        start = _swept(half, ref, near[ref], middle, deep)
        planes[ref] = _enlarged(start, (height, width))
        _handed_on(whole, ref, near[ref], middle, deep, planes[ref], scores[ref])
        tell(0.95 * (ref + 1) / count)
    counts = np.zeros((count, height, width), np.uint8)
    for ref in range(count):
        there = whole.pair(ref, near[ref])
        pairs = [whole.pair(int(n), np.array([ref])) for n in near[ref]]
        back = np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])
        run(
            kernels.agree, height, ref, near[ref], *there, *back, planes, scores,
            np.float32(_LEAST), counts[ref],
        )  # fmt: skip
    enough = np.array([min(_AGREE, len(some) - 1) for some in near])[:, None, None]
    sure = (counts >= enough) & (whole.inside > 0)
    weights = np.where(sure, scores.clip(0, 1) ** 2, 0).astype(np.float32)
    known = float(sure.sum() / max(1, int((whole.inside > 0).sum())))
    tell(1.0)
    return Depths(planes, weights, known)


def fused(
    depths: Depths, camera: Camera, masks: Tensor, resolution: int = 320
) -> tuple[Array, Array]:
    """The closed surface that the photos agree about, within the hull of the masks.

    Raises:
        ValueError: if the masks contradict each other.
    """
    from gendr.fitting.shape import stereo_kernels as kernels

    hull = hull_field(camera, masks, resolution=resolution)
    grid, reach = hull.grid, _REACH * hull.grid.cell
    values = hull.values.numpy()
    cells = np.flatnonzero(values > -2 * grid.cell)
    out = np.zeros((len(cells), 2), np.float32)
    projections, focals = _projections(camera, depths.weights.shape[1:])
    run(
        kernels.fuse, len(cells), cells, grid.corner, grid.cell, np.array(grid.shape), projections,
        focals, depths.planes, depths.weights, reach, _FREE, out,
    )  # fmt: skip
    field = _smoothed(values, cells, out, grid, reach)
    wanted = (masks > 0.5).cpu().numpy()
    inside = (field > 0).reshape(grid.shape)
    _changed(field, without_handles(inside), values, grid)
    for _ in range(_REPAIRS):
        # Of those in the hull, and of cells that are alike that which is deepest in it.
        likely = np.where(values > 0, field + 0.1 * values.clip(-reach, reach), -np.inf)
        places = _uncovered(field, likely, grid, wanted, projections, focals)
        if not len(places):
            break
        strides = np.array([grid.shape[1] * grid.shape[2], grid.shape[2], 1])
        around = places[:, None] + np.concatenate([[0], strides, -strides])
        around = np.unique(around.clip(0, len(field) - 1))
        field[around] = np.maximum(field[around], np.minimum(values[around], 0.5 * grid.cell))
    inside = (field > 0).reshape(grid.shape)
    _changed(field, without_tunnels(inside, values.reshape(grid.shape) > 0), values, grid)
    return surface_of(Field(torch.from_numpy(field), grid, hull.pixel), _LEAST_PART)


def _changed(field: Array, body: npt.NDArray[np.bool_], values: Array, grid: Grid) -> None:
    """Make a field positive in a body, and negative elsewhere."""
    wanted = body.ravel()
    more, less = np.flatnonzero(wanted & (field <= 0)), np.flatnonzero(~wanted & (field > 0))
    field[more] = np.minimum(values[more], _BESIDE * grid.cell)
    field[less] = -_BESIDE * grid.cell


def _smoothed(values: Array, cells: Array, out: Array, grid: Grid, reach: float) -> Array:
    """What photos say, averaged over neighbouring cells by its weight, within the hull."""
    from scipy.ndimage import gaussian_filter

    mean, weight = np.zeros_like(values), np.zeros_like(values)
    weight[cells] = out[:, 1]
    mean[cells] = out[:, 0] * out[:, 1]
    mean, weight = (
        gaussian_filter(part.reshape(grid.shape), _SMOOTH, truncate=2).ravel()
        for part in (mean, weight)
    )
    own = values[cells].clip(-reach, reach)
    weight, mean = weight[cells], mean[cells]
    field = values.copy()
    field[cells] = np.where(weight > 1e-6, np.minimum(mean / weight.clip(1e-12), own), own)
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

    from gendr.fitting.shape import stereo_kernels as kernels

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


def _sights(images: Tensor, camera: Camera, masks: Tensor, fronts: Tensor, factor: int) -> _Sights:
    """The photos, shrunk."""
    height, width = (n // factor for n in images.shape[2:])
    cut = images[:, :, : height * factor, : width * factor]
    grey = F.avg_pool2d(cut.mean(1, keepdim=True), factor)[:, 0]
    inside = F.avg_pool2d(masks[:, None, : height * factor, : width * factor], factor)[:, 0] > 0.9
    # What was cut off moves the middle of the image, which cameras count from.
    projections, focals = _projections(camera, tuple(images.shape[2:]))
    # Pixel x of the small image is at factor x + (factor - 1) / 2 of the large one.
    shrink = np.diag([1 / factor, 1 / factor, 1.0])
    shrink[:2, 2] = -(factor - 1) / (2 * factor)
    front = F.max_pool2d(fronts[:, None], factor)[:, 0]
    return _Sights(
        grey.float().cpu().numpy(), (inside & (front > 0)).byte().cpu().numpy(),
        front.float().cpu().numpy(), shrink @ projections, focals / factor,
    )  # fmt: skip


def _neighbours(middle: Tensor, camera: Camera) -> list[Array]:
    """The photos from directions that are neither too like nor too unlike, for each."""
    ways = F.normalize(camera.eye - middle, dim=-1).double()
    angles = torch.rad2deg((ways @ ways.T).clamp(-1, 1).acos()).cpu().numpy()
    found = []
    for i, row in enumerate(angles):
        usable = np.flatnonzero((row >= _NEAREST) & (row <= _FURTHEST))
        if len(usable) < 2:
            usable = np.array([j for j in np.argsort(row, kind="stable") if j != i][:2])
        order = usable[np.argsort(row[usable], kind="stable")]
        found.append(order[:_NEIGHBOURS].astype(np.int64))
    return found


def _bounds(
    sights: _Sights, ref: int, near: Array, middle: Tensor, deep: float
) -> tuple[Array, Array, float]:
    """The largest and the smallest w of each pixel, and by how much it changes in a step."""
    p = sights.projections[ref]
    x = p @ np.append(middle.double().cpu().numpy(), 1.0)
    a, b = (part.astype(float) for part in sights.pair(ref, near))
    w, pixel = 1 / x[2], np.append(x[:2] / x[2], 1.0)

    def there(w: float) -> Array:
        q = a @ pixel + w * b
        return q[:, :2] / q[:, 2:]

    moved = np.linalg.norm(there(1.01 * w) - there(w), axis=1) / (0.01 * w)
    step = _STEP / float(np.median(moved))
    front = sights.front[ref]
    with np.errstate(divide="ignore"):
        back = np.where(front > 0, 1 / (1 / np.maximum(front, 1e-12) + deep), 0)
    return front, back.astype(np.float32), step


def _swept(sights: _Sights, ref: int, near: Array, middle: Tensor, deep: float) -> Array:
    """Planes [H, W, 3] of a photo, w at the best of all depths."""
    from gendr.fitting.shape import stereo_kernels as kernels

    front, back, step = _bounds(sights, ref, near, middle, deep)
    planes, scores = np.zeros((*front.shape, 3), np.float32), np.zeros(front.shape, np.float32)
    run(
        kernels.sweep, len(front), sights.grey, ref, sights.inside[ref], near,
        *sights.pair(ref, near), front, back, np.float32(_BEFORE * step), np.float32(step), planes,
        scores,
    )  # fmt: skip
    return planes


def _enlarged(planes: Array, size: tuple[int, int]) -> Array:
    """Planes of twice the size."""
    rows = np.minimum(np.arange(size[0]) // 2, planes.shape[0] - 1)
    columns = np.minimum(np.arange(size[1]) // 2, planes.shape[1] - 1)
    return planes[rows[:, None], columns] * np.array([1, 0.5, 0.5], np.float32)


def _handed_on(
    sights: _Sights, ref: int, near: Array, middle: Tensor, deep: float, planes: Array,
    scores: Array,
) -> None:  # fmt: skip
    """Improve planes, and score them."""
    from gendr.fitting.shape import stereo_kernels as kernels

    front, back, step = _bounds(sights, ref, near, middle, deep)
    inside = sights.inside[ref]
    planes[..., 0] = np.where(inside > 0, np.clip(planes[..., 0], back, front), front)
    scores[:] = np.where(inside > 0, 0, -1)
    common = (
        sights.grey, ref, inside, near, *sights.pair(ref, near), front, back,
        np.float32(_BEFORE * step), np.float32(sights.focals[ref]),
    )  # fmt: skip
    for turn in range(_TURNS):
        spread = np.float32(4 * step / 2 ** (turn // 2))
        run(kernels.hand_on, len(front), *common, spread, turn, planes, scores)
