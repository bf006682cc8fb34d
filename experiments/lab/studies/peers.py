"""Silhouettes as others draw them, in the same loop: tasks whose images are not of the family.

Where their package runs on a CPU it is called; what is written here from a paper is called so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gendr import primitives
from gendr.photos.triangles import hard_silhouette
from gendr.rendering import silhouette
from lab.studies.shape import ShapeTask, Views

if TYPE_CHECKING:
    from gendr.rendering.instances import Instance

# Before which nothing is drawn, in the clip space of the primitives.
NEAR = 0.1
# Faces of a pixel that PyTorch3D keeps, the nearest ones; its tutorials have 50.
NEAREST = 10


class AntialiasedEdges(ShapeTask):
    """Hard images with antialiased silhouettes (Laine et al. 2020), by `gendr.primitives`."""

    def soft(self, instance: Instance, views: Views, scale: Tensor) -> Tensor:
        """See `ShapeTask`; the scale is not used."""
        xy, depth = views.camera.project(views.vertices)
        height = torch.cat([xy * depth[..., None], (depth - 2 * NEAR)[..., None]], -1)
        pos = torch.cat([height, depth[..., None]], -1)
        tri = views.faces.to(torch.int32)
        size = (self.protocol.image_size, self.protocol.image_size)
        rast, _ = primitives.rasterize(None, pos, tri, size)
        seen = (rast[..., 3:] > 0).to(pos.dtype)
        return primitives.antialias(seen, rast, pos, tri)[..., 0].flip(1)


class HardForward(ShapeTask):
    """The Neural Mesh Renderer's way (Kato et al. 2018): hard values, slopes of the uniform."""

    def soft(self, instance: Instance, views: Views, scale: Tensor) -> Tensor:
        """See `ShapeTask`."""
        slope = super().soft(instance, views, scale)
        hard = hard_silhouette(views.triangles, self.protocol.image_size)
        return slope + (hard - slope).detach()


class NearestFaces(ShapeTask):
    """PyTorch3D's blending, written from its documentation: only the nearest faces of a pixel.

    Each face is drawn alone, as a picture; the `NEAREST` ones among those that reach a pixel count.
    """

    def soft(self, instance: Instance, views: Views, scale: Tensor) -> Tensor:
        """See `ShapeTask`."""
        p, triangles = self.protocol, views.triangles
        images, count = triangles.shape[:2]
        alone = triangles.reshape(images * count, 1, 3, 3)
        each = silhouette(
            alone, p.image_size, instance.dist, instance.tconorm,
            scale.repeat_interleave(count), p.cutoff,
        ).reshape(images, count, -1)  # fmt: skip
        depth = triangles[..., 2].detach().mean(-1)[..., None]
        far = torch.where(each.detach() > p.cutoff, depth, torch.inf)
        order = far.topk(min(NEAREST, count), 1, largest=False)
        kept = torch.where(order.values < torch.inf, each.gather(1, order.indices), 0.0)
        return (1 - (1 - kept).prod(1)).reshape(images, p.image_size, p.image_size)


class _Deodr(torch.autograd.Function):
    """One image of DEODR's rasteriser: silhouettes whose outer edges fade over a pixel."""

    @staticmethod
    def forward(ctx: Any, points: Tensor, depth: Tensor, scene: Callable[..., Any]) -> Tensor:
        """See `torch.autograd.Function`."""
        drawn = scene(points.detach().double().numpy(), depth.detach().double().numpy())
        image, _ = drawn.render(1.0)
        ctx.scene = drawn
        return torch.from_numpy(image[..., 0]).to(points.dtype)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor, None, None]:
        """See `torch.autograd.Function`."""
        (grad,) = grad_outputs
        ctx.scene.clear_gradients()
        ctx.scene.render_backward(np.ascontiguousarray(grad.double().numpy())[..., None])
        return torch.from_numpy(ctx.scene.ij_b.copy()).to(grad.dtype), None, None


class Deodr(ShapeTask):
    """DEODR's package (de La Gorce et al. 2011): `pip install deodr`."""

    @cached_property
    def adjacencies(self) -> Any:
        """What DEODR finds out about the faces of the sphere, once."""
        from deodr.triangulated_mesh import (  # pyright: ignore[reportMissingImports]
            TriMeshAdjacencies,
        )

        from gendr.mesh import icosphere

        return TriMeshAdjacencies(icosphere(self.protocol.subdivisions).faces.numpy())

    def soft(self, instance: Instance, views: Views, scale: Tensor) -> Tensor:
        """See `ShapeTask`; the scale is not used."""
        from deodr import Scene2D  # pyright: ignore[reportMissingImports]

        size = self.protocol.image_size
        faces = views.faces.numpy().astype(np.uint32)
        vertices, count = views.vertices.shape[1], len(faces)
        xy, depth = views.camera.project(views.vertices)
        # Pixel centres are whole numbers, rows from the top.
        flipped = xy * torch.tensor([1.0, -1.0])
        points = ((flipped + 1) * size - 1) / 2

        def scene(ij: Any, depths: Any) -> Any:
            return Scene2D(
                faces, faces, ij, depths, np.zeros(count, bool), np.zeros((vertices, 2)),
                np.zeros(vertices), np.ones((vertices, 1)), np.zeros(count, bool),
                self.adjacencies.edge_on_silhouette(ij), size, size, 1, np.zeros((0, 0)),
                background_color=np.zeros(1), backface_culling=True,
            )  # fmt: skip

        images = [_Deodr.apply(p, d, scene) for p, d in zip(points, depth, strict=True)]
        return torch.stack(images)  # pyright: ignore[reportArgumentType, reportCallIssue]


# By the name in the tables: the task, the renderer whose distribution and scale it takes, and
# whether its images depend on the scale.
PEERS: dict[str, tuple[type[ShapeTask], str, bool]] = {
    "antialiased edges": (AntialiasedEdges, "uniform/probabilistic", False),
    "DEODR": (Deodr, "uniform/probabilistic", False),
    "NMR": (HardForward, "uniform/probabilistic", True),
    "PyTorch3D's blending": (NearestFaces, "logistic.squared/probabilistic", True),
}
