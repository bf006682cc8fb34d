"""What views show of a mesh: which face at every subpixel, and which points of the surface."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from gendr.mesh import Camera, Mesh
from gendr.photos import visual
from gendr.primitives import RasterizeGLContext, rasterize
from gendr.rendering import Renderer
from gendr.rendering.api import parse_image_size
from gendr.rendering.geometry import raster_positions

# Surfaces seen at a smaller cosine than this are not looked at: their pixels show too much at once.
LEAST_COSINE = 0.15


def footprint(camera: Camera, size: tuple[int, int], depth: Tensor) -> Tensor:
    """Side of a pixel of images (H, W) of one camera, in units of the world, at a depth."""
    unit = 2 / (min(size) * camera.focal.mean())
    return unit * (torch.ones_like(depth) if camera.orthographic else depth)


def cosine_to_eye(camera: Camera, points: Tensor, normals: Tensor) -> Tensor:
    """Cosine [N] of the angle between unit normals [N, 3] and the directions to a camera's eye."""
    if camera.orthographic:
        return -(normals @ camera.ahead[0])
    return (normals * F.normalize(camera.eye - points, dim=-1)).sum(-1)


def sampling_grid(xy: Tensor, size: tuple[int, int]) -> Tensor:
    """NDC [..., 2] as `grid_sample` takes places in images (H, W)."""
    height, width = size
    return xy * xy.new_tensor([min(height, width) / width, -min(height, width) / height])


@dataclass(frozen=True, eq=False)
class VisibilityBuffer:
    """One view of a mesh.

    Attributes:
        camera: One camera.
        size: (H, W) of the photo.
        pixel: int32 [N], the pixel of the photo to which each subpixel that shows a face belongs.
        face: int32 [N], the face that it shows.
        weights: [N, 3], perspective-correct weights of the corners of that face.
        whole: bool [H, W], pixels all of whose subpixels show a face.
        nearest: [H, W], the least depth in and one subpixel around a pixel, inf for none.
        share: Part of a pixel that a subpixel is.
    """

    camera: Camera
    size: tuple[int, int]
    pixel: Tensor
    face: Tensor
    weights: Tensor
    whole: Tensor
    nearest: Tensor
    share: float

    def of_pixels(self, use: Tensor) -> VisibilityBuffer:
        """The same view, of the subpixels of some of the pixels: bool [H * W]."""
        kept = use[self.pixel]
        return replace(
            self, pixel=self.pixel[kept], face=self.face[kept], weights=self.weights[kept]
        )

    def at(self, image: Tensor, xy: Tensor) -> Tensor:
        """Values [C, N] of an image [C, H, W] of the view at NDC [N, 2], bilinear; 0 outside."""
        grid = sampling_grid(xy, self.size)[None, None]
        return F.grid_sample(image[None], grid, align_corners=False)[0, :, 0]

    def visible_points(
        self, points: Tensor, normals: Tensor, inside: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The points of the surface that the view shows.

        Args:
            points: [N, 3], world.
            normals: [N, 3], unit vectors.
            inside: bool [H, W], the pixels that may be used.

        Returns:
            The rows [K] of these points; where they are, NDC [K, 2]; and how well the view shows
            them [K], > 0: the cosine times the number of pixels per unit of surface.
        """
        cosine = cosine_to_eye(self.camera, points, normals)
        rows = (cosine > LEAST_COSINE).nonzero()[:, 0]
        cosine = cosine[rows].clamp(max=1.0)
        xy, depth = (part[0] for part in self.camera.project(points[rows]))
        height, width = self.size
        side = min(height, width)
        column = ((xy[:, 0] * side + width) / 2).floor().long()
        row = ((height - xy[:, 1] * side) / 2).floor().long()
        within = (column >= 0) & (column < width) & (row >= 0) & (row < height) & (depth > 0)
        within &= self.camera.within(xy[None])[0]
        pixel = torch.where(within, row * width + column, 0)
        step = footprint(self.camera, self.size, depth)
        # The nearest depth was taken up to 1.5 subpixels away, where the surface itself is nearer.
        slope = (1 - cosine.square()).sqrt() / cosine
        hidden = depth > self.nearest.flatten()[pixel] + step * (1 + 1.5 * slope)
        kept = (within & ~hidden & inside.flatten()[pixel]).nonzero()[:, 0]
        return rows[kept], xy[kept], (cosine.square() / step.square())[kept]


def visible_faces(
    points: Tensor,
    camera: Camera,
    size: int | tuple[int, int],
    planes: tuple[float, float],
    faces: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """What one camera sees of triangles, hard, between two planes.

    Args:
        points: [V, 3], or of each triangle its own, [F, 3, 3].
        camera: One camera.
        size: Pixels of a side, or (H, W).
        planes: Depths between which they are.
        faces: int64 [F, 3], the triangles; by default every three points.

    Returns:
        int64 [H, W], the face that each pixel shows, -1 for none; the perspective-correct weights
        of its corners, [3, H, W]; and its depth, [H, W], inf for none.
    """
    shape = parse_image_size(size)
    with torch.no_grad():
        clip, depth = camera.clip_coordinates(points.reshape(1, -1, 3))
        # The kernels of the rasteriser are for the CPU; its definition would fill a GPU.
        pos = raster_positions(clip, depth, camera.orthographic, planes, shape).cpu()
        if faces is None:
            faces = torch.arange(depth.numel(), device=depth.device).reshape(-1, 3)
        tri = faces.to("cpu", torch.int32)
        bare = RasterizeGLContext(output_db=False)
        rast, _ = rasterize(bare, pos, tri, (shape.height, shape.width))
        rast = rast[0].to(depth.device)
        face = rast[..., 3].flip(0).long() - 1
        if (photo := camera.photo((shape.height, shape.width))) is not None:
            face = torch.where(photo[0], face, -1)
        # All else at the pixels that show a face, which are few.
        row, column = (face >= 0).nonzero().unbind(1)
        u, v, _, _ = rast[shape.height - 1 - row, column].unbind(-1)
        own = torch.stack([u, v, 1 - u - v])
        weights = own.new_zeros(3, *face.shape)
        weights[:, row, column] = own
        distance = own.new_full(face.shape, math.inf)
        corners = depth.reshape(-1)[faces][face[row, column]]
        first, second, third = corners.T * own
        distance[row, column] = first + second + third
    return face, weights.to(points.dtype), distance.to(points.dtype)


def look(mesh: Mesh, camera: Camera, size: tuple[int, int], oversampling: int) -> VisibilityBuffer:
    """What one camera sees of a mesh: hard, on a grid within each pixel.

    Args:
        mesh: One mesh.
        camera: One camera.
        size: (H, W) of its photo.
        oversampling: Subpixels along a side of a pixel.
    """
    fine = (size[0] * oversampling, size[1] * oversampling)
    planes = visual.depths(mesh, camera)
    face, weights, depth = visible_faces(mesh.vertices, camera, fine, planes, mesh.faces)
    whole = shown = face >= 0
    least = -F.max_pool2d(-depth[None], 3, 1, 1)
    if oversampling > 1:
        pooled = F.avg_pool2d(shown[None].float(), oversampling)[0]
        whole = pooled > 1 - 0.5 / oversampling**2
        least = -F.max_pool2d(-least, oversampling)
    row, column = shown.nonzero().unbind(1)
    return VisibilityBuffer(
        camera,
        size,
        (row // oversampling * size[1] + column // oversampling).int(),
        face[row, column].int(),
        torch.stack([each[row, column] for each in weights], 1),
        whole,
        least[0],
        1 / oversampling**2,
    )


def visible_share(mesh: Mesh, camera: Camera, size: tuple[int, int], least: int = 2) -> float:
    """The part of the area of a mesh that several cameras see, by the middles of its faces.

    Args:
        mesh: One mesh.
        camera: B cameras.
        size: (H, W) of their images.
        least: How many cameras.
    """
    bare, camera = Mesh(mesh.vertices.detach(), mesh.faces), camera.toward(mesh).with_origin(None)
    corners = bare.vertices[bare.faces]
    across = torch.linalg.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    points, normals = corners.mean(1), F.normalize(across, dim=-1)
    near, far = visual.depths(bare, camera)
    renderer = Renderer(size, "heaviside", "max", near=near, far=far)
    everywhere = torch.ones(size, dtype=torch.bool, device=points.device)
    count = torch.zeros(len(points), device=points.device)
    none = torch.zeros(0, dtype=torch.int64)
    with torch.no_grad():
        for i in range(len(camera)):
            one = camera[i]
            depth = renderer(bare, one).depth
            nearest = -F.max_pool2d(-depth[None], 3, 1, 1)[0, 0]
            visibility = VisibilityBuffer(
                one, size, none, none, points[:0], everywhere, nearest, 1.0
            )
            count[visibility.visible_points(points, normals, everywhere)[0]] += 1
    area = across.norm(dim=-1)
    return float((area * (count >= least)).sum() / area.sum())
