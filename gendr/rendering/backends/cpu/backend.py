"""The CPU backend: sparse, parallel, compiled at run time by Numba; deterministic.

Silhouettes and softmax colours are one kernel each, forward and backward, and nothing of size
pixels x faces exists in memory. For CDFs of the user's own, and for colours of faces that the near
plane cuts, the pairs within the search radius are listed, a bounded run of rows at a time. Second
derivatives are those of the reference backend; softmax colours have none here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from gendr._common import memory
from gendr._common.tracing import is_traced
from gendr.kernels.numba.compilation import available as available
from gendr.kernels.numba.compilation import supports as supports
from gendr.kernels.operator import Operator
from gendr.kernels.threads import run
from gendr.mesh import Camera, Mesh
from gendr.mesh.rotations import rotate
from gendr.primitives.scene import Scene as Triangles
from gendr.rendering.aggregation import PAIRS_AT_ONCE, Aggregation, alpha_of_pairs
from gendr.rendering.backends import reference
from gendr.rendering.backends.cpu.ordered import depth_keys
from gendr.rendering.backends.cpu.ordered import ordered as ordered
from gendr.rendering.backends.cpu.tables import (
    KernelPair,
    Number,
    formulas_of,
    image_table,
    is_single,
    is_small,
    narrowed,
    number_of,
    pixel_grid,
    power_of,
    sums_per_image,
    tables_of,
)
from gendr.rendering.coverage import Coverage
from gendr.rendering.fragments import PixelPairs, runs_of, signed_distance
from gendr.rendering.geometry import (
    REACH,
    ImageSize,
    ScreenFaces,
    by_index,
    depth_limits,
    on_screen,
)

if TYPE_CHECKING:
    from gendr.rendering.scene import Scene


# ---------------------------------------------------------------------------------------------
# Projection
# ---------------------------------------------------------------------------------------------


def project(
    mesh: Mesh, camera: Camera, near: float | None, far: float | None, owner: Any
) -> ScreenFaces | None:
    """The faces of one mesh on the screen; None if the planes cut some, or several meshes come."""
    vertices, faces, images = mesh.vertices, mesh.faces, len(camera)
    if len(mesh) > 1 or not len(faces) or not images or is_traced():
        return None
    spec = _ProjectSpec(faces, np.empty((images, 3)))
    corners = _PROJECT(
        KernelPair(_project_forward, _project_backward), spec, vertices, camera.projection
    )
    low, high, most = float(spec.ends[:, 0].min()), *map(float, spec.ends[:, 1:].max(0))
    near, far = depth_limits(near, far, low, high)
    if not (0 < near <= low and high <= far and most < REACH):
        return None
    offsets = tuple(range(0, images * len(faces) + 1, len(faces)))
    return ScreenFaces(corners, offsets, depths=(low, high))


class _ProjectSpec(NamedTuple):
    """The faces [F, 3] of the mesh, and what kernels fill in.

    Attributes:
        ends: float64 [B, 3], the least and the largest depth, and the largest coordinate.
    """

    faces: Tensor
    ends: np.ndarray


def _project_definition(spec: _ProjectSpec, vertices: Tensor, projection: Tensor) -> Tensor:
    """The corners [B F, 3, 2] in plain torch."""
    clip = rotate(projection[:, None, :3, :3], vertices) + projection[:, None, :3, 3]
    step = torch.arange(len(clip), device=clip.device) * len(vertices)
    index = (spec.faces + step[:, None, None]).reshape(-1)
    return by_index(on_screen(clip.flatten(0, 1)), index).reshape(-1, 3, 2)


_PROJECT = Operator("rendering.project", reference=_project_definition)
_FEW = 4096  # faces that one thread projects before another one has woken up
_PARTS = 8  # of the cameras, whose gradients of vertices are summed


def _project_forward(
    spec: _ProjectSpec, vertices: Tensor, projection: Tensor, *, save: bool
) -> tuple[tuple[Tensor], tuple[()]]:
    """The corners."""
    from gendr.rendering.backends.cpu import project_kernels as kernels

    images, count = len(projection), len(projection) * len(spec.faces)
    corners = memory.empty((count, 3, 2), vertices.dtype)
    run(
        kernels.place, images, vertices.numpy(), projection.numpy(), spec.faces.numpy(),
        corners.numpy(), spec.ends, alone=count < _FEW,
    )  # fmt: skip
    return (corners,), ()


def _project_backward(
    spec: _ProjectSpec, inputs: tuple[Tensor, Tensor], saved: tuple[()], grads: tuple[Tensor],
    wanted: tuple[bool, bool],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """The gradients of the vertices and of the cameras."""
    from gendr.rendering.backends.cpu import project_kernels as kernels

    dtype, parts = inputs[0].dtype, min(len(inputs[1]), _PARTS)
    limit = (torch.finfo(dtype).max / 4) ** 0.5
    given, pulls = [x.numpy() for x in inputs], grads[0].reshape(-1, 2).numpy()
    found: list[Tensor | None] = [None, None]
    for k, kernel in enumerate((kernels.move_vertices, kernels.move_cameras)):
        if wanted[k]:
            out = np.zeros(((parts, *inputs[0].shape), inputs[1].shape)[k])
            run(kernel, len(out), *given, pulls, spec.faces.numpy(), limit, out)
            found[k] = narrowed(out.sum(0) if k == 0 else out, dtype)
    return tuple(found)


def covered(mesh: Mesh, camera: Camera, size: ImageSize) -> Tensor:
    """Where the cameras see a face, bool [B, H, W], of a mesh that `project` has projected."""
    from gendr.rendering.backends.cpu import mask_kernels

    given = (mesh.vertices, camera.rotation, camera.translation, camera.focal, camera.principal)
    shown = torch.empty(len(camera), size.height, size.width, dtype=torch.bool, device="cpu")
    run(
        mask_kernels.masks, len(shown), *(x.detach().contiguous().numpy() for x in given),
        camera.orthographic, mesh.faces.numpy(), shown.numpy(),
        alone=len(shown) * (len(mesh.faces) + size.pixels) < _FEW,
    )  # fmt: skip
    return shown


# ---------------------------------------------------------------------------------------------
# Silhouettes
# ---------------------------------------------------------------------------------------------


def alpha(faces: ScreenFaces, size: ImageSize, aggregation: Aggregation) -> Tensor:
    """Coverage of every pixel, [B, H, W]."""
    if aggregation.coverage.has_own_cdf:
        return _alpha_of_lists(faces, size, aggregation)
    plans, kind = aggregation.coverage.plans, (size, faces.corners.dtype)
    found = plans.get(kind)
    if found is None:
        found = _plan(faces, size, aggregation)
        if not is_traced():
            plans[kind] = found
    kernels, scalars = found
    flat = _ALPHA(kernels, (faces, size, aggregation), faces.corners, *scalars)
    return flat.reshape(faces.images, size.height, size.width)


def _plan(
    faces: ScreenFaces, size: ImageSize, aggregation: Aggregation
) -> tuple[KernelPair, tuple[Any, ...]]:
    """The kernels of alpha, and the numbers that they take."""
    coverage, dist = aggregation.coverage, aggregation.coverage.dist
    shift, p = dist.total_shift(), aggregation.tconorm.given_p
    scalars = coverage.scale, shift, dist.shape_parameter, p
    if not is_single(faces, size, coverage, aggregation.tconorm, scalars):
        return KernelPair(_alpha_forward, _alpha_backward, wide=True), scalars
    images = None
    if aggregation.tconorm.kind != "mean":  # which counts faces
        images = _images(faces, aggregation, coverage.scale, shift, p)
    task = _Single(
        images, tuple(formulas_of(coverage, aggregation.tconorm, slopes=False, single=True))
    )
    return KernelPair(partial(_single_forward, task), partial(_single_backward, task)), scalars


class _Single:
    """What the kernels of float32 take for every batch.

    Attributes:
        images: by `image_table`; None for what depends on how many faces there are.
        formulas: of the forward pass.
        slopes: those of the backward pass, once there is one.
    """

    def __init__(self, images: np.ndarray | None, formulas: tuple[Any, ...]) -> None:
        self.images, self.formulas = images, formulas
        self.slopes: tuple[Any, ...] | None = None


_AlphaSpec: TypeAlias = "tuple[ScreenFaces, ImageSize, Aggregation]"


def _images(
    faces: ScreenFaces, aggregation: Aggregation, scale: Tensor, shift: Number, p: Number | None
) -> np.ndarray:
    """The numbers of images that kernels take."""
    from gendr.rendering.backends.cpu import kernels

    if aggregation.tconorm.kind == "mean":
        number = 1.0 / np.maximum(np.asarray(faces.present_counts, np.float64), 1.0)
    else:
        number = power_of(aggregation.tconorm, p)
    columns = {
        kernels.SCALE: scale.detach().numpy(),
        kernels.SHIFT: number_of(shift),
        kernels.FAMILY_P: number,
    }
    return image_table(aggregation.coverage.radius(), columns)


def _alpha_definition(spec: _AlphaSpec, corners: Tensor, *numbers: Any) -> Tensor:
    """Alpha [P] in plain torch, of the pairs that have a coverage."""
    faces, size, aggregation = spec
    faces, aggregation = replace(faces, corners=corners), aggregation.with_numbers(*numbers)
    if is_traced():  # then kernels list nothing
        return reference.alpha(faces, size, aggregation).flatten()
    return _alpha_of_lists(faces, size, aggregation).flatten()


def _alpha_of_lists(faces: ScreenFaces, size: ImageSize, aggregation: Aggregation) -> Tensor:
    """Alpha [B, H, W] of listed pairs, for a CDF of the user's, which torch alone evaluates."""
    runs = pairs(faces, size, aggregation.coverage.radius(), PAIRS_AT_ONCE)
    return alpha_of_pairs(runs, distance, gather, faces, size, aggregation)


_ALPHA = Operator("rendering.alpha", reference=_alpha_definition)


def _alpha_forward(
    spec: _AlphaSpec, corners: Tensor, scale: Tensor, shift: Number, shape: Number | None,
    p: Number | None, *, save: bool,
) -> tuple[tuple[Tensor], tuple[Any, ...]]:  # fmt: skip
    """Alpha [P], from totals per pixel. Saved: it, 1 - alpha, ties of the maximum, and tables."""
    from gendr.rendering.backends.cpu import kernels

    faces, size, aggregation = spec
    tables = tables_of(faces, corners, size, _images(faces, aggregation, scale, shift, p))
    pixels = faces.images * size.pixels
    totals, ties = np.zeros(pixels + kernels.LANES), np.zeros(pixels, np.int32)
    run(
        kernels.alpha_rows, faces.images * size.height, tuple(tables),
        tuple(formulas_of(aggregation.coverage, aggregation.tconorm, slopes=False)), totals, ties,
        alone=is_small(tables.boxes),
    )  # fmt: skip
    total = torch.from_numpy(totals)
    if aggregation.tconorm.kind == "max":
        a, s = total, 1.0 - total
    elif aggregation.tconorm.kind == "mean":
        per_pixel = torch.ones_like(total)
        per_pixel[:pixels] = torch.from_numpy(
            np.repeat(tables.images[:, kernels.FAMILY_P], size.pixels)
        )
        a, s = total * per_pixel, torch.ones_like(total)
    else:
        a, s = aggregation.joining(p).inverse(total)
    return (a[:pixels],), (a, s, ties, tables)


def _single_forward(
    task: _Single, spec: _AlphaSpec, corners: Tensor, scale: Tensor, shift: Number,
    shape: Number | None, p: Number | None, *, save: bool,
) -> tuple[tuple[Tensor], tuple[Any, ...]]:  # fmt: skip
    """As `_alpha_forward`, by tiles."""
    from gendr.rendering.backends.cpu import tile_kernels

    faces, size, aggregation = spec
    images = task.images
    if images is None:
        images = _images(faces, aggregation, scale, shift, p)
    tables = tables_of(faces, corners, size, images)
    side, width = tile_kernels.SIDE, tile_kernels.row_length(size.width)
    wide = faces.images, -(-size.height // side) * side, width
    a, s = memory.empty(wide, torch.float32), memory.empty(wide, torch.float32)
    run(
        tile_kernels.alpha_tiles, faces.images * wide[1] // side, tables.corners, tables.offsets,
        tables.boxes, images, (size.height, size.width), task.formulas, a.numpy(), s.numpy(),
        alone=is_small(tables.boxes),
    )  # fmt: skip
    found = a[:, : size.height, : size.width].clone(memory_format=torch.contiguous_format)
    return (found.view(-1),), (a, s, tables)


def _single_backward(
    task: _Single, spec: _AlphaSpec, inputs: tuple[Any, ...], saved: tuple[Any, ...],
    grads: tuple[Tensor], wanted: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Gradients per face."""
    from gendr.rendering.backends.cpu import tile_kernels

    (_, size, aggregation), (a, s, tables) = spec, saved
    grad = grads[0].view(-1, size.height, size.width)
    if grad.shape != a.shape:
        right, below = a.shape[2] - size.width, a.shape[1] - size.height
        grad = torch.nn.functional.pad(grad, (0, right, 0, below))
    out = memory.empty(tables.corners.shape, torch.float32).zero_()
    if task.slopes is None:
        task.slopes = tuple(formulas_of(aggregation.coverage, aggregation.tconorm, single=True))
    run(
        tile_kernels.backward_tiles, len(out), tables.corners, tables.offsets,
        tables.image_of_face, tables.boxes, tables.images, (size.height, size.width),
        task.slopes, (a.numpy(), s.numpy(), grad.numpy()), out.numpy(),
        alone=is_small(tables.boxes),
    )  # fmt: skip
    return out, None, None, None, None


def _alpha_backward(
    spec: _AlphaSpec, inputs: tuple[Any, ...], saved: tuple[Any, ...], grads: tuple[Tensor],
    wanted: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Gradients per face, and of the scalars of images."""
    from gendr.rendering.backends.cpu import kernels

    (faces, _, aggregation), (a, s, ties, tables) = spec, saved
    a, s = a.detach(), s.detach()  # for float64, alpha is the output itself
    scalars = any(wanted[1:])
    formulas = formulas_of(
        aggregation.coverage, aggregation.tconorm, scalars=scalars, shape=wanted[3], p=wanted[4]
    )
    # A saturated pixel has no gradient.
    pixel_grads, pixels = torch.zeros_like(s), len(grads[0])
    pixel_grads[:pixels] = torch.where(s[:pixels] > 0, grads[0], 0.0)
    count, dtype = len(tables.corners), faces.corners.dtype
    grad_corners = memory.empty(tables.corners.shape, torch.float64).zero_().numpy()
    grad_scalars = np.zeros((count if scalars else 0, kernels.GRAD_COLUMNS))
    run(
        kernels.backward_faces, count, tuple(tables), tuple(formulas),
        (pixel_grads.numpy(), a.numpy(), s.numpy(), ties), grad_corners, grad_scalars,
        alone=is_small(tables.boxes),
    )  # fmt: skip
    found: list[Any] = [grad_corners] + [None] * 4
    if scalars:
        per_image = sums_per_image(grad_scalars, tables.offsets)
        found[1] = per_image[:, kernels.GRAD_SCALE]
        found[2] = per_image[:, kernels.GRAD_SHIFT].sum()
        found[3] = per_image[:, kernels.GRAD_SHAPE].sum()
        if wanted[4]:
            a, s, pixel_grads = a[:pixels], s[:pixels], pixel_grads[:pixels]
            join = aggregation.joining(inputs[4])
            through_total = (pixel_grads * join.weight_p(a, s, a, s)).sum()
            found[4] = per_image[:, kernels.GRAD_P].sum() - through_total
    return tuple(None if x is None else narrowed(x, dtype) for x in found)


# ---------------------------------------------------------------------------------------------
# Lists of pairs, and the nearest face
# ---------------------------------------------------------------------------------------------


def pairs(
    faces: ScreenFaces, size: ImageSize, radius: Tensor, limit: int
) -> list[Callable[[], PixelPairs]]:
    """The (pixel, face) pairs within the radius, in runs of rows with about `limit` pairs each.

    Pairs are ordered by row, and within a row by face. A run is a function that lists its pairs
    when it is called, so that only one list needs to be in memory.
    """
    from gendr.rendering.backends.cpu import kernels

    tables = tables_of(faces, faces.corners.double(), size, image_table(radius))
    rows = faces.images * size.height
    counts = np.zeros(rows, np.int64)
    run(kernels.count_rows, rows, tuple(tables), counts)

    def listing(first: int, last: int) -> PixelPairs:
        slots = np.cumsum(counts[first:last]) - counts[first:last]
        capacity = int(counts[first:last].sum())
        pixels, face = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        used = np.zeros(last - first, np.int64)

        def kernel(start: int, stop: int) -> None:
            here = slice(start, stop)
            kernels.list_rows(
                tuple(tables), pixels, face, used[here], slots[here], first + start, first + stop
            )

        run(kernel, last - first)
        filled = np.repeat(slots, used) + _ranges(used)
        return PixelPairs(
            torch.from_numpy(pixels[filled]),
            torch.from_numpy(face[filled]),
            first * size.width,
            last * size.width,
        )

    return [partial(listing, first, last) for first, last in runs_of(counts.tolist(), limit)]


def _ranges(counts: np.ndarray) -> np.ndarray:
    """The ranges 0 .. c - 1 for every c of counts, concatenated."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


def distance(faces: ScreenFaces, size: ImageSize, pixels: Tensor, face: Tensor) -> Tensor:
    """Signed distance [K] of listed pairs, differentiable in the corners."""
    kernels = KernelPair(_distance_forward, _distance_backward, wide=True)
    return _DISTANCE(kernels, (pixels, face, size), faces.corners)


_PairSpec: TypeAlias = "tuple[Tensor, Tensor, ImageSize]"


def _distance_definition(spec: _PairSpec, corners: Tensor) -> Tensor:
    """Signed distance [K] in plain torch."""
    pixels, face, size = spec
    return signed_distance(size.centres(pixels, corners.dtype), corners[face])


_DISTANCE = Operator("rendering.distance", reference=_distance_definition)


def _distance_forward(
    spec: _PairSpec, corners: Tensor, *, save: bool
) -> tuple[tuple[Tensor], tuple[Tensor]]:
    """`fragments.signed_distance` of listed pairs, in one pass and without temporaries."""
    from gendr.rendering.backends.cpu import kernels

    pixels, face, size = spec
    count = len(pixels)
    out, feet = corners.new_empty(count), corners.new_empty(count, 4)
    run(
        kernels.pair_distances, count, corners.numpy(), pixels.numpy(), face.numpy(),
        pixel_grid(size), out.numpy(), feet.numpy(),
    )  # fmt: skip
    return (out,), (feet,)


def _distance_backward(
    spec: _PairSpec, inputs: tuple[Tensor], saved: tuple[Tensor], grads: tuple[Tensor],
    wanted: tuple[bool],
) -> tuple[Tensor]:  # fmt: skip
    """The gradient of the corners."""
    from gendr.rendering.backends.cpu import kernels

    out = torch.zeros_like(inputs[0])
    kernels.pair_gradients(spec[1].numpy(), saved[0].numpy(), grads[0].numpy(), out.numpy())
    return (out,)


def gather(values: Tensor, index: Tensor) -> Tensor:
    """values[index] for values [T, ...]; the backward pass sums in a fixed order.

    Gradients are saturated before they are summed, as by `saturated` with two factors.
    """
    return _GATHER(KernelPair(_gather_forward, _gather_backward), index, values)


_GATHER = Operator("rendering.gather", reference=lambda index, values: values[index])


def _gather_forward(
    index: Tensor, values: Tensor, *, save: bool
) -> tuple[tuple[Tensor], tuple[()]]:
    return (values.index_select(0, index),), ()


def _gather_backward(
    index: Tensor, inputs: tuple[Tensor], saved: tuple[()], grads: tuple[Tensor],
    wanted: tuple[bool],
) -> tuple[Tensor]:  # fmt: skip
    from gendr.rendering.backends.cpu import kernels

    shape, grad = inputs[0].shape, grads[0]
    out = torch.zeros(shape[0], prod(shape[1:]), dtype=torch.float64, device="cpu")
    limit = (torch.finfo(grad.dtype).max / 4) ** 0.5
    flat = grad.reshape(-1, out.shape[1]).numpy()
    kernels.scatter_rows(index.numpy(), flat, limit, out.numpy())
    return (narrowed(out.reshape(shape), grad.dtype),)


def softmax(
    scene: Scene, coverage: Coverage, rate: Tensor, backdrop: float
) -> tuple[Tensor, Tensor] | None:
    """Colours without the part of the background, and its share; see `softmax` in softmax.py.

    Returns None if the near plane cuts faces: they are shaded from lists of pairs.
    """
    from gendr.rendering.backends.cpu import softmax as fused

    if not scene.geometry.is_whole and scene.surfaces.was_clipped is not None:
        return None
    return fused.softmax(scene, coverage, rate, backdrop)


def nearest(triangles: Triangles, pos: Tensor) -> Tensor:
    """The nearest triangle at each pixel, by the kernel of `gendr.primitives.rasterize`."""
    from gendr.primitives.kernels.raster import visible_ids

    return visible_ids(triangles, pos)


_OWN = project, alpha, softmax, ordered, depth_keys, nearest, covered, pairs, distance, gather
KERNELS = {f"rendering.{x.__name__}": x for x in _OWN}
