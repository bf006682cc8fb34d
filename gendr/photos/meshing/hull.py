"""The visual hull of masks: the largest body whose silhouettes lie within all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from gendr._common.checks import check_count, check_finite, check_float, check_number, check_shape
from gendr.jobs.devices import on_given_devices
from gendr.kernels.threads import mapped, run
from gendr.mesh.cameras import Camera
from gendr.mesh.mesh import Mesh
from gendr.mesh.topology import connected_parts, euler_and_parts
from gendr.photos.lines_of_sight import visual_sphere
from gendr.photos.meshing.libigl import libigl
from gendr.photos.meshing.simplification import simplified

__all__ = ["Field", "Grid", "hull_field", "surface_of", "visual_hull"]

# The first grid: its points along an axis, and its half width in radii of the visual sphere.
_COARSE, _REACH = 40, 3.0
# A grid point further from the surface than this many cells of the coarser grid is not looked at
# again: the distance from a point to the corners of its cell is less.
_NEAR = 2.0
# Parts of the hull smaller than this share of its area are noise of the masks.
_LEAST_PART = 2e-3
# A hole of a mask with fewer pixels is filled; pixels of a mask without an outline are so far
# from it.
_LEAST_HOLE, _FAR = 8, 1e6
# How many pixels further out the outline of a hard mask is placed: of 0, 1/4, 0.4 and 1/2 this
# gives hulls whose silhouettes agree best with their masks (a plane, a cow, a man).
_OUTWARDS = 0.25
# How many pixels further out the surface is tried if the hull has handles: the masks do not tell
# whether those are there that are gone then.
_HANDLES = (0.0, 0.125, 0.25)


@on_given_devices
def visual_hull(
    camera: Camera,
    masks: Tensor,
    *,
    resolution: int = 256,
    edge: float | None = 2.0,
) -> Mesh:
    """The surface of the visual hull of some masks, as a closed mesh.

    The signed distance to the outline of a mask, in world units at the depth of a point, is about
    its distance to the cone of that view; the least of them over the views is about that to the
    hull. It is computed on a grid, coarse to fine and only near the surface, whose surface is found
    by marching cubes (Lewiner et al., 2003) and simplified by quadrics (Garland and Heckbert,
    1997).

    Where a mask reaches the border of its image, the object is taken to go on behind it. Holes of a
    mask of fewer than eight pixels are taken for noise. Handles that are gone when the surface lies
    a quarter of a pixel further out come from rounding, as where a hand touches a hip: the surface
    is then placed there.

    Args:
        camera: B cameras.
        masks: [B, H, W] in [0, 1], cut at 0.5; what is empty carves all away.
        resolution: the finest grid has cells as large as a pixel, but at most this many along an
            axis.
        edge: the mean length of the edges of the mesh, in pixels; None keeps all triangles.

    Returns:
        A mesh with the origin of the cameras, in the dtype and on the device of the masks.

    Raises:
        TypeError: if the masks are no floats.
        ValueError: if shapes do not fit, or if the masks contradict each other: nothing is left.
    """
    check_finite("masks", check_float("masks", masks))
    sizes = check_shape("masks", masks, "[B, H, W]")
    if len(camera) not in (1, sizes["B"]):
        raise ValueError(f"{sizes['B']} masks need as many cameras, got {len(camera)}")
    check_count("resolution", resolution, least=16)
    if edge is not None:
        check_number("edge", edge, above=0)
    field = hull_field(camera, masks, resolution=resolution)
    vertices, faces = surface_of(field)
    if not len(faces):
        raise ValueError(
            "the masks have no hull: what they show reaches the border of the images on all sides; "
            "are they inverted?"
        )
    pixel = field.pixel
    mesh = Mesh(torch.from_numpy(vertices), torch.from_numpy(faces))
    if edge is not None:
        # As many faces as equilateral ones of this edge have the same area.
        wanted = int(_areas(vertices, faces).sum() / (3**0.5 / 4 * (edge * pixel) ** 2))
        mesh = simplified(mesh, max(wanted, 100))
    mesh = mesh.to(masks.device, masks.dtype)
    return mesh if camera.origin is None else mesh.with_origin(camera.origin)


@dataclass(frozen=True, eq=False)
class Field:
    """About the signed distance to the surface of a body, on a grid.

    Attributes:
        values: float32 [P], positive inside, world units; only near the surface exact.
        grid: the points.
        pixel: the size of a pixel there.
    """

    values: Tensor
    grid: Grid
    pixel: float


def hull_field(camera: Camera, masks: Tensor, *, resolution: int = 256) -> Field:
    """The signed distance to the visual hull; the arguments are those of `visual_hull`.

    Raises:
        ValueError: if the masks contradict each other: nothing is left.
    """
    with torch.no_grad():
        centre, radius = visual_sphere(camera, masks)
        distance = _Distance(camera.expand(len(masks)), masks)
        pixel = distance.pixel(centre.double().cpu())
        grid = Grid.around(centre.double().cpu().numpy(), _REACH * float(radius), _COARSE)
        field = distance(grid.points())
        if not bool((field > 0).any()):
            grid, field = _finer_start(grid, distance)
        grid = grid.cropped(field)
        field = distance(grid.points())
        while grid.cell > 1.01 * pixel and max(grid.shape) * 2 - 1 <= resolution:
            field = _refined(field, grid, distance)
            grid = grid.halved()
    return Field(field, grid, pixel)


class Grid:
    """Points on a grid: `corner` + `cell` (i, j, k)."""

    def __init__(self, corner: NDArray[Any], cell: float, shape: tuple[int, ...]) -> None:
        self.corner, self.cell, self.shape = corner, cell, shape

    @staticmethod
    def around(centre: NDArray[Any], half: float, count: int) -> Grid:
        """A cube of `count` points along an axis."""
        return Grid(centre - half, 2 * half / (count - 1), (count,) * 3)

    def points(self, index: NDArray[Any] | None = None) -> Tensor:
        """All points, or those of some flat indices: [P, 3]."""
        flat = np.arange(int(np.prod(self.shape))) if index is None else index
        place = np.stack(np.unravel_index(flat, self.shape), -1)
        return torch.from_numpy(self.corner + self.cell * place)

    def cropped(self, field: Tensor) -> Grid:
        """A grid of the same number of points along its longest axis, about what is inside."""
        inside = (field > -self.cell).reshape(self.shape).nonzero()
        low, high = inside.amin(0).numpy() - 1, inside.amax(0).numpy() + 1
        cell = self.cell * int((high - low).max()) / (_COARSE - 1)
        shape = tuple(int(n) for n in np.ceil((high - low) * self.cell / cell) + 1)
        return Grid(self.corner + self.cell * low, cell, shape)

    def halved(self) -> Grid:
        """The grid with cells of half the size."""
        return Grid(self.corner, self.cell / 2, tuple(2 * n - 1 for n in self.shape))


class _Distance:
    """About the signed distance of points to the hull, in world units; positive inside."""

    def __init__(self, camera: Camera, masks: Tensor) -> None:
        self.camera = camera.to(dtype=torch.float64, device="cpu")
        self.size = masks.shape[1:]
        photo = self.camera.photo((masks.shape[1], masks.shape[2]))
        parts = [None] * len(masks) if photo is None else list(photo.numpy())
        images = masks.detach().cpu()

        def distances(i: int) -> NDArray[np.float32]:
            return _in_photo(images[i].double().numpy(), parts[i]).astype(np.float32)

        self.images = np.stack(mapped(distances, range(len(images))))
        # NDC units of a pixel.
        self.unit = 2 / min(self.size)

    def pixel(self, point: Tensor) -> float:
        """The size of a pixel at a point, the median over the views."""
        depth = self.camera.world_to_camera(point[None])[:, 0, 2].abs()
        at = torch.ones_like(depth) if self.camera.orthographic else depth
        return float((self.unit * at / self.camera.focal.mean(-1)).median())

    def __call__(self, points: Tensor, view: int | None = None) -> Tensor:
        """Distances [P] of points [P, 3], or those to the cone of one view, inf behind it."""
        from gendr.photos.meshing.hull_kernels import least_distances

        some = slice(None) if view is None else slice(view, view + 1)
        parts = [x[some].flatten(1) for x in self.camera.tensors()]
        least = torch.empty(len(points))
        run(
            least_distances, len(points), points.double().numpy(), torch.cat(parts, 1).numpy(),
            self.camera.orthographic, self.images[some], self.unit, least.numpy(),
        )  # fmt: skip
        return least

    def odd_one(self, points: Tensor) -> int | None:
        """The view without which most of these points [P, 3] would be inside; None if none is."""
        count = torch.zeros(len(points), dtype=torch.int64)
        last = torch.zeros_like(count)
        for b in range(len(self.images)):
            out = self(points, b) <= 0
            count, last = count + out, torch.where(out, b, last)
        alone = last[count == 1]
        return int(alone.bincount().argmax()) if len(alone) else None


def _in_photo(mask: NDArray[np.float64], photo: NDArray[np.bool_] | None) -> NDArray[np.float64]:
    """`to_outline` of what a photo shows; what is beside it goes on as at its border."""
    if photo is None:
        return to_outline(mask)
    rows, columns = (np.flatnonzero(photo.any(axis)) for axis in (1, 0))
    sides = [(int(where[0]), int(where[-1]) + 1) for where in (rows, columns)]
    part = mask[tuple(slice(*side) for side in sides)]
    beside = [(first, n - last) for (first, last), n in zip(sides, mask.shape, strict=True)]
    return np.pad(to_outline(part), beside, mode="edge")


def to_outline(mask: NDArray[np.float64]) -> NDArray[np.float64]:
    """The signed distances of the pixels of a mask, and of a border, to its outline, in pixels.

    Holes of a few pixels are noise, or what pixels show of a narrow slit, and would be tunnels
    through the hull.
    """
    from gendr.photos.meshing import hull_kernels as kernels

    soft = np.pad(mask, 1, mode="edge")
    inside, signed = soft > 0.5, np.empty_like(soft)
    kernels.fill_holes(inside, _LEAST_HOLE)
    kernels.signed_distances(inside, _FAR, signed)
    # The outline runs between the centres of pixels, half a pixel before the next one.
    signed -= np.where(inside, 0.5, -0.5)
    # A soft pixel says where between the centres.
    near = (np.abs(signed) < 1) & (soft > 0) & (soft < 1) & (inside == (soft > 0.5))
    # Hard pixels are off by up to half of one; the least of many views is below the mean.
    further = 0.0 if near.any() else _OUTWARDS
    return np.where(near, soft - 0.5, signed + further)


def _finer_start(grid: Grid, distance: _Distance) -> tuple[Grid, Tensor]:
    """A first grid that hits the hull, which is thinner than the cells of the one given.

    Raises:
        ValueError: if there is none.
    """
    start = grid.points()
    field = distance(start)
    for _ in range(3):
        field = _refined(field, grid, distance)
        grid = grid.halved()
        if bool((field > 0).any()):
            return grid, field.reshape(-1)
    odd = distance.odd_one(start)
    advice = "" if odd is None else f"mend or leave out number {odd} (the first is 0), or "
    raise ValueError(
        "the masks contradict each other: no point lies within all of them, as by a wrong pose, an "
        f"empty or an inverted mask; {advice}start from a sphere to fit what most of them show"
    )


def _refined(field: Tensor, grid: Grid, distance: _Distance) -> Tensor:
    """The field on the grid of half the cells, exact near the surface, interpolated elsewhere."""
    fine = grid.halved()
    coarse = field.reshape(1, 1, *grid.shape)
    out = F.interpolate(coarse, fine.shape, mode="trilinear", align_corners=True)[0, 0].reshape(-1)
    near = (out.abs() < _NEAR * grid.cell).nonzero()[:, 0]
    out[near] = distance(fine.points(near.numpy()))
    return out


# The corners of a cell in the order of libigl's tables.
_CORNERS = np.array(
    [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]]
)


def _surface(field: Tensor, grid: Grid) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Vertices [V, 3] and faces [F, 3] of the surface, closed at the ends of the grid."""
    values = field.reshape(grid.shape).numpy()
    closed = np.pad(values, 1, constant_values=-grid.cell)
    inside = closed > 0
    count = np.zeros([n - 1 for n in inside.shape], np.int8)
    for corner in _CORNERS:
        count += inside[tuple(slice(o, o + n) for o, n in zip(corner, count.shape, strict=True))]
    cells = np.argwhere((count > 0) & (count < 8))
    places = cells[:, None] + _CORNERS
    flat = np.ravel_multi_index(tuple(np.moveaxis(places, -1, 0)), closed.shape)
    number = np.zeros(closed.size, np.int32)  # of each point: by flags, as sorting takes longer
    number[flat.ravel()] = 1
    used = np.flatnonzero(number)
    number[used] = np.arange(len(used))
    points = np.stack(np.unravel_index(used, closed.shape), -1)
    vertices, faces = libigl().marching_cubes(
        closed.reshape(-1)[used].astype(np.float64),
        grid.corner + grid.cell * (points - 1.0),
        number[flat].astype(np.int64),
        0.0,
    )[:2]
    return vertices, faces[:, ::-1]  # outwards


def surface_of(field: Field, share: float = _LEAST_PART) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The large parts of the surface, a little further out where they have fewer handles there.

    Args:
        field: of the body.
        share: of the whole area, that a part has at least.
    """
    best, least = None, 0
    for outwards in _HANDLES:
        vertices, faces = _large_parts(
            *_surface(field.values + outwards * field.pixel, field.grid), share
        )
        euler, parts = euler_and_parts(faces)
        handles = parts - euler // 2
        if best is None or handles < least:
            best, least = (vertices, faces), handles
        if not least:
            break
    assert best is not None  # for the type checker
    return best


def _large_parts(
    vertices: NDArray[Any], faces: NDArray[np.int64], share: float
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The connected parts that are not small."""
    owner = connected_parts(faces, len(vertices))[faces[:, 0]]
    area = np.bincount(owner, _areas(vertices, faces))
    large = (area > share * area.sum())[owner]
    number = np.zeros(len(vertices), np.int64)
    number[faces[large]] = 1
    used = np.flatnonzero(number)
    number[used] = np.arange(len(used))
    return vertices[used], number[faces[large]]


def _areas(vertices: NDArray[Any], faces: NDArray[np.int64]) -> NDArray[Any]:
    a, b, c = (vertices[faces[:, i]] for i in range(3))
    return 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=-1)
