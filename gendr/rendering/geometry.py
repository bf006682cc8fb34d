"""Stage 1, geometry: from meshes and cameras to polygons on the screen.

This file knows nothing of distributions. Frame: NDC, in which the shorter image side spans
[-1, 1], x right, y up; depth > 0 ahead of the camera.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import torch
from torch import Tensor

from gendr._common.ranges import saturated
from gendr._common.tracing import is_traced, lazy, once

if TYPE_CHECKING:
    from gendr.mesh import Camera, Mesh


Gather: TypeAlias = "Callable[[Tensor, Tensor], Tensor]"

# The default depths of the near and far planes; see `depth_limits`.
NEAR, FAR = 1.0, 100.0
# Where faces that are not seen are moved if they are not left out, see `can_leave_out`.
ABSENT = 1e18
BEYOND = ABSENT / 10  # a face whose first corner has a larger x is not there
# Corners of faces that are there are at most so far from the middle of the image along x and y:
# squares of lengths and areas are finite in float32, and float64 sees no pixel at this distance.
REACH = 1e16

# The near plane is moved by this part of its depth where pixels are compared with it: rounding
# shall hide no face that lies in it.
SLACK = 1e-9
DEEP = 1e3  # see `raster_positions`; float64 still tells depths apart by 1e-13 of the planes'


@dataclass(frozen=True)
class ImageSize:
    """Height and width of an image in pixels.

    Attributes:
        side: the shorter one, which spans [-1, 1].
        pixels: of one image.
    """

    height: int
    width: int
    side: int = field(init=False, repr=False, compare=False)
    pixels: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "side", min(self.height, self.width))
        object.__setattr__(self, "pixels", self.height * self.width)

    def image_of(self, pixels: Tensor) -> Tensor:
        """The image that each pixel of the batch belongs to."""
        return torch.div(pixels, self.pixels, rounding_mode="floor")

    def centres(self, pixels: Tensor, dtype: torch.dtype) -> Tensor:
        """NDC [K, 2] of the centres of pixels [K] int64, numbered row by row from the top left."""
        row = torch.div(pixels, self.width, rounding_mode="floor") % self.height
        column = pixels % self.width
        x = (2 * column + 1 - self.width).to(torch.float64) / self.side
        y = (self.height - 1 - 2 * row).to(torch.float64) / self.side
        return torch.stack([x, y], -1).to(dtype)


@dataclass(frozen=True)
class ScreenFaces:
    """The faces of a batch of images as convex polygons on the screen, packed without padding.

    Attributes:
        corners: [T, N, 2] NDC. N is 3, or 4 if the near plane cuts some face of the batch; with
            N = 4, triangles repeat their last corner.
        offsets: B + 1 numbers; image b owns the faces offsets[b] .. offsets[b + 1] - 1.
        has_absent: whether faces that are not there may stand among the others: all their corners
            are at `ABSENT`, they cover nothing, and do not count in a mean.
        depths: the least and the largest depth of all vertices, where who projects knows them.
        images: their number B.
    """

    corners: Tensor
    offsets: tuple[int, ...]
    has_absent: bool = False
    depths: tuple[float, float] | None = None
    images: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "images", len(self.offsets) - 1)

    @property
    def present(self) -> Tensor | None:
        """[T] bool, which faces are there; None if all are."""
        return self.corners.detach()[:, 0, 0] < BEYOND if self.has_absent else None

    @property
    def counts(self) -> tuple[int, ...]:
        """Faces of each image."""
        return tuple([b - a for a, b in pairwise(self.offsets)])

    @property
    def present_counts(self) -> tuple[int, ...]:
        """Faces of each image that are there; on a GPU the host waits for them."""
        present = self.present
        if present is None:
            return self.counts
        return tuple(int(present[a:b].sum()) for a, b in pairwise(self.offsets))


def can_leave_out(tensor: Tensor) -> bool:
    """Whether faces that are not seen are best left out where this tensor lives.

    On an accelerator the host would have to wait for their number, and `torch.compile` cannot ask
    for it; there they stay among the others, and `ScreenFaces.present` says which are there.
    """
    return tensor.device.type == "cpu" and not is_traced()


@dataclass(frozen=True)
class Surfaces:
    """The triangles in space whose projections are the polygons of `ScreenFaces`.

    Attributes:
        source: [T] int64, the packed index of the face in the mesh.
        clip: [T, 3, 3] homogeneous corners (x w, y w, w) before clipping; w is 1 for orthographic
            cameras and the depth for others.
        depth: [T, 3] depth of the corners before clipping.
        was_clipped: [T] bool, or None if no face was.
    """

    source: Tensor
    clip: Tensor
    depth: Tensor
    was_clipped: Tensor | None


def screen_faces(
    corners: Tensor, offsets: tuple[int, ...], keep: Tensor, leave_out: bool
) -> ScreenFaces:
    """Screen faces without those that are not to be kept.

    Args:
        corners: [T, N, 2].
        offsets: B + 1 numbers, the first face of each image; see `ScreenFaces`.
        keep: [T] bool.
        leave_out: the others; else they are moved to `ABSENT`, see `can_leave_out`.
    """
    if can_leave_out(keep) and bool(keep.all()):
        return ScreenFaces(corners, offsets)
    if not leave_out:
        return ScreenFaces(torch.where(keep[:, None, None], corners, ABSENT), offsets, True)
    counts = (int(keep[a:b].sum()) for a, b in pairwise(offsets))
    return ScreenFaces(corners[keep], _cumulative(counts))


def project_faces(
    mesh: Mesh, camera: Camera, near: float, far: float, leave_out: bool = True
) -> tuple[ScreenFaces, Surfaces]:
    """Transform, clip at the near plane and project the faces of a batch.

    Faces wholly outside [near, far] are left out; a triangle that crosses the near plane becomes
    the polygon of its visible part, of 3 or 4 corners. Batches of 1 broadcast.

    Without `leave_out` they are moved away instead, to `ABSENT`. Under `torch.compile`, which
    cannot ask whether any face crosses the near plane, all polygons have 4 corners.

    The clipped polygon stays one face because splitting it would put
    F(0) = 1/2 along the seam.
    """
    polygons = polygons_of(camera_space(mesh, camera), near, far, leave_out, by_index)
    return polygons.on_screen(), polygons.surfaces


def by_index(values: Tensor, index: Tensor) -> Tensor:
    """values[index], in plain torch, with saturated gradients."""
    return saturated(values[index], factors=2)


def raster_positions(
    clip: Tensor, depth: Tensor, orthographic: bool, planes: tuple[float, float], size: ImageSize
) -> Tensor:
    """Clip-space positions [..., 4] float64 for `gendr.primitives.rasterize`.

    Nothing is cut off at the far plane: faces that reach beyond it are drawn whole, as soft ones
    are. With orthographic cameras that ends at `DEEP` times the distance of the planes.

    Args:
        clip: [..., 3], (x w, y w, w) with x and y in NDC.
        depth: [...].
        orthographic: whether w is 1; else it is the depth.
        planes: depths of the near and far planes.
        size: of the images.
    """
    near = planes[0] * (1 - SLACK)
    (x, y, w), depth = clip.double().unbind(-1), depth.double()
    if orthographic:
        z = (depth - near) * (2 / (DEEP * (planes[1] - near))) - 1
    else:
        z = depth - 2 * near
    return torch.stack([x * (size.side / size.width), y * (size.side / size.height), z, w], -1)


class CameraSpace(NamedTuple):
    """The vertices and faces of a batch of images before the camera, which broadcasts meshes.

    Attributes:
        clip: [V', 3] homogeneous coordinates (x w, y w, w) of the vertices of all images.
        depth: [V'] depths of the same vertices.
        faces: [T, 3] indices of the corners.
        offsets: image b owns the faces offsets[b] .. offsets[b + 1] - 1.
        source: [T] the packed index of the face in the mesh.
        orthographic: whether w is 1; else it is the depth.
    """

    clip: Tensor
    depth: Tensor
    faces: Tensor
    offsets: tuple[int, ...]
    source: Tensor
    orthographic: bool

    def depths(self) -> tuple[float, float]:
        """The least and the largest depth of all vertices; (inf, -inf) if there are none."""
        depth = self.depth.detach()
        if depth.numel() == 0:
            return math.inf, -math.inf
        lowest, farthest = torch.stack([depth.amin(), depth.amax()]).tolist()
        return lowest, farthest


def depth_limits(
    near: float | None, far: float | None, lowest: float, farthest: float
) -> tuple[float, float]:
    """The near and far planes: those given, or 1 and 100, widened until they enclose the scene.

    The softmax measures depth in units of far - near. So its result depends on the depths of a
    scene only if 1 and 100 would cut off a part of it, and then changes continuously.

    Args:
        near: > 0, or None: then at most 1, and a thousandth of that (or of the depth of a smaller
            scene) if the scene extends behind the camera plane.
        far: > near, or None: then at least 100.
        lowest: the least depth of the scene.
        farthest: the largest depth of the scene.
    """
    if near is None:
        near = NEAR if far is None else min(NEAR, far / 100)
        if 0 < lowest < near:
            near = lowest
        elif lowest <= 0 < farthest:
            near = 1e-3 * min(near, farthest)
    if far is None:
        far = max(FAR, farthest, 100 * near)
    return near, far


def _of_corners(values: Tensor, faces: Tensor, gather: Gather) -> Tensor:
    """Values of vertices [V', ...] at the corners [T, 3] of faces.

    Gradients are saturated here: a vertex and a camera sum up those of many faces.
    """
    return gather(values, faces.reshape(-1)).reshape(*faces.shape, *values.shape[1:])


def _corners_of(space: CameraSpace, gather: Gather) -> tuple[Tensor, Tensor]:
    """Clip coordinates [T, 3, 3] and depths [T, 3] of corners."""
    clip = _of_corners(space.clip, space.faces, gather)
    if not space.orthographic:
        return clip, clip[..., 2]
    return clip, _of_corners(space.depth, space.faces, gather)


def _corners_in_space(
    space: CameraSpace, near: float, far: float, gather: Gather
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Clip coordinates and depths of corners; which faces are seen, and cross the near plane.

    A face that touches the plane is seen if it lies in it, and not if the rest is behind it.
    """
    clip, depth = _corners_of(space, gather)
    with torch.no_grad():
        low, high = depth.amin(-1), depth.amax(-1)
        keep = ((high > near) | (low >= near)) & (low <= far)
        crossing = keep & (low < near)
    return clip, depth, keep, crossing


class Polygons(NamedTuple):
    """Faces between the planes, before they are divided by w.

    Attributes:
        corners: [T, 3 or 4, 3] homogeneous.
        present: [T] bool, which are there, or None if all are.
        offsets: of the faces of images.
        surfaces: the faces in space.
    """

    corners: Tensor
    present: Tensor | None
    offsets: tuple[int, ...]
    surfaces: Surfaces

    def on_screen(self) -> ScreenFaces:
        """The faces on the screen."""
        corners = on_screen(self.corners)
        if self.present is not None:
            corners = torch.where(self.present[:, None, None], corners, ABSENT)
        return ScreenFaces(corners, self.offsets, self.present is not None)


def polygons_of(
    space: CameraSpace, near: float, far: float, leave_out: bool, gather: Gather
) -> Polygons:
    """Cut the faces of a scene at the near plane, and leave out those that are not seen."""
    offsets, source = space.offsets, space.source
    clip, depth, keep, crossing = _corners_in_space(space, near, far, gather)
    present = None
    if not leave_out:
        present = keep
        clip = _moved_away(clip, keep)
    elif not bool(keep.all()):
        kept = keep.nonzero().squeeze(-1)
        offsets = _cumulative(int(keep[a:b].sum()) for a, b in pairwise(offsets))
        clip, depth, source, crossing = (x[kept] for x in (clip, depth, source, crossing))
    cut_w = 1.0 if space.orthographic else near
    if is_traced() or bool(crossing.any()):
        polygon = _clip_near(clip, depth, crossing, near, cut_w)
    else:
        polygon, crossing = clip, None
    return Polygons(polygon, present, offsets, Surfaces(source, clip, depth, crossing))


def on_screen(points: Tensor) -> Tensor:
    """NDC [..., 2] of homogeneous points [..., 3] with w > 0.

    Those beyond `REACH` are pulled in to it, towards the middle of the image.
    """
    xy, w = points[..., :2], points[..., 2:]
    least = xy.detach().abs().amax(-1, keepdim=True) / REACH
    return saturated(xy / torch.maximum(w, least), factors=2)


def _moved_away(clip: Tensor, keep: Tensor) -> Tensor:
    """Clip coordinates [T, 3, 3] with a point of its own for all that are not to be kept.

    So no division can go wrong.
    """
    there = keep[:, None, None]
    xy, w = torch.where(there, clip[..., :2], ABSENT), torch.where(there, clip[..., 2:], 1.0)
    return torch.cat([xy, w], -1)


@dataclass(frozen=True, eq=False)
class Geometry:
    """Stage 1 of a batch of meshes and cameras; each part is computed when it is first read.

    Attributes:
        mesh: of the scene.
        camera: that sees it.
        near: depth of the near plane, or None for what `depth_limits` finds.
        far: depth of the far plane, or None.
        projected: all faces on the screen, if a backend has projected them.
        gather: `by_index` as a backend does it, if it does it faster: then vertices are projected
            once each, instead of every corner of a face.
    """

    mesh: Mesh
    camera: Camera
    near: float | None
    far: float | None
    projected: ScreenFaces | None
    gather: Gather | None = None

    @lazy
    def space(self) -> CameraSpace:
        """The scene before the cameras."""
        return camera_space(self.mesh, self.camera)

    @once
    def depths(self) -> tuple[float, float]:
        """The least and the largest depth of the scene; on a GPU the host waits for them."""
        known = None if self.projected is None else self.projected.depths
        return self.space.depths() if known is None else known

    @once
    def planes(self) -> tuple[float, float]:
        """Depths of the near and far planes."""
        known = is_traced() or (self.near is not None and self.far is not None)
        return depth_limits(self.near, self.far, *((NEAR, FAR) if known else self.depths))

    @lazy
    def _polygons(self) -> Polygons:
        """On a GPU the host waits to know whether the near plane cuts some face."""
        if self.gather is not None and self.is_whole:  # nothing to ask
            clip, depth = _corners_of(self.space, self.gather)
            surfaces = Surfaces(self.space.source, clip, depth, None)
            return Polygons(clip, None, self.space.offsets, surfaces)
        away = self.projected is not None and self.projected.has_absent
        leave_out = not away and can_leave_out(self.space.clip)
        return polygons_of(self.space, *self.planes, leave_out, self.gather or by_index)

    @lazy
    def faces(self) -> ScreenFaces:
        """The faces on the screen."""
        if self.projected is not None:
            return self.projected
        if self.gather is None or not self.is_whole:
            return self._polygons.on_screen()
        space = self.space
        corners = _of_corners(on_screen(space.clip), space.faces, self.gather)
        return ScreenFaces(corners, space.offsets)

    @once
    def is_whole(self) -> bool:
        """Whether all is between the planes, and a backend gathers corners from its vertices."""
        if self.gather is None or is_traced():
            return False
        (near, far), (lowest, farthest) = self.planes, self.depths
        return near <= lowest and farthest <= far

    @lazy
    def corner_depths(self) -> tuple[Tensor, Tensor]:
        """The w and the depths of the corners before clipping, [T, 3] each."""
        if self.gather is None or not self.is_whole:
            return self.surfaces.clip[..., 2], self.surfaces.depth
        depth = _of_corners(self.space.depth, self.space.faces, self.gather)
        return torch.ones_like(depth) if self.space.orthographic else depth, depth

    @property
    def source(self) -> Tensor:
        """[T] the packed indices of the faces in the mesh."""
        return self.space.source if self.is_whole else self.surfaces.source

    @property
    def surfaces(self) -> Surfaces:
        """The faces in space."""
        return self._polygons.surfaces


def common_batch(meshes: int, cameras: int) -> int:
    """The number of images; a batch of 1 broadcasts, also to none.

    Raises:
        ValueError: if the batches do not fit.
    """
    if meshes != cameras and 1 not in (meshes, cameras):
        raise ValueError(
            f"{meshes} meshes and {cameras} cameras do not fit; give 1 or as many as the others"
        )
    return cameras if meshes == 1 else meshes


def camera_space(mesh: Mesh, camera: Camera) -> CameraSpace:
    """The vertices of a batch of images seen from their cameras; batches of 1 broadcast."""
    vertices, faces, images = mesh.vertices, mesh.faces, len(camera)
    count = faces.shape[0]
    source = torch.arange(count, device=faces.device)
    if len(mesh) == 1:
        clip, depth = camera.clip_coordinates(vertices.unsqueeze(0), check=False)
        if images != 1:
            step = torch.arange(images, device=faces.device) * vertices.shape[0]
            faces, source = faces + step[:, None, None], source.repeat(images)
        offsets = tuple(range(0, images * count + 1, count)) if count else (0,) * (images + 1)
        clip, depth = clip.flatten(0, 1), depth.flatten(0, 1)
        faces = faces.reshape(-1, 3)
        return CameraSpace(clip, depth, faces, offsets, source, camera.orthographic)
    images = common_batch(len(mesh), images)
    offsets = _cumulative(mesh.face_counts)
    index = torch.repeat_interleave(
        torch.arange(images, device=source.device),
        torch.tensor(mesh.vertex_counts, dtype=torch.int64, device=source.device),
    )
    index = index if len(camera) > 1 else index * 0
    clip, depth = camera.clip_coordinates(vertices, index, check=False)
    return CameraSpace(clip, depth, faces, offsets, source, camera.orthographic)


def _clip_near(clip: Tensor, depth: Tensor, crossing: Tensor, near: float, cut_w: float) -> Tensor:
    """Polygons [T, 4, 3] in homogeneous coordinates, cut where `crossing` at depth = near."""
    polygon = torch.cat([clip, clip[:, 2:]], 1)
    # Faces that do not cross get made-up depths that do, so that their unused result is finite.
    depth = torch.where(crossing[:, None], depth, depth.new_tensor([near - 1, near + 1, near + 1]))
    visible = _visible_part(clip, depth, near, cut_w)
    return torch.where(crossing[:, None, None], visible, polygon)


def _visible_part(corner: Tensor, z: Tensor, near: float, cut_w: float) -> Tensor:
    """The parts beyond depth = near of triangles [K, 3, 3] that cross it: polygons [K, 4, 3].

    All points at this depth have the w `cut_w`. Between corners of which one is far away, w would
    cancel, to a number that may be 0 or negative, and its gradient with it.
    """
    ahead = z >= near
    two_ahead = ahead.sum(-1) == 2
    # Rotate the corners so that the one that is alone on its side of the plane comes first.
    lone = torch.where(two_ahead[:, None], ~ahead, ahead).to(torch.int64).argmax(-1)
    order = (lone[:, None] + torch.arange(3, device=corner.device)) % 3
    corner = corner.gather(1, order.unsqueeze(-1).expand(-1, -1, 3))
    z = z.gather(1, order)

    def cross(to: int) -> Tensor:
        t = (near - z[:, 0]) / (z[:, to] - z[:, 0])
        xy = corner[:, 0, :2] + t.unsqueeze(-1) * (corner[:, to, :2] - corner[:, 0, :2])
        return torch.cat([xy, torch.full_like(xy[:, :1], cut_w)], -1)

    first, second = cross(1), cross(2)
    quad = torch.stack([first, corner[:, 1], corner[:, 2], second], 1)
    triangle = torch.stack([corner[:, 0], first, second, second], 1)
    return torch.where(two_ahead[:, None, None], quad, triangle)


def _cumulative(counts: Iterable[int]) -> tuple[int, ...]:
    return tuple(accumulate(counts, initial=0))
