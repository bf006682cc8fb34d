"""`Output`: the images of a batch, each computed when it is read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from gendr._common.tracing import is_graph_whole, lazy
from gendr.rendering.aggregation import Aggregation
from gendr.rendering.backends.choice import Backend
from gendr.rendering.scene import Scene
from gendr.rendering.shading import (
    Blending,
    closest_faces,
    nearest_faces,
    softmax_rgb,
)

PAIRS_AT_ONCE = 1_000_000  # fragments shaded together: about 0.5 GB of temporaries in float32

_IN_GRAPHS = ("alpha", "_blending", "_photo")

T = TypeVar("T")


class image(lazy[T]):
    """A part of an `Output`, without `torch.autocast`.

    The mode of the call is a bound: what was rendered without gradients has none, whenever it is
    read.
    """

    def found(self, instance: Output) -> T:
        """The part, in full precision; `torch.compile` traces what `alpha` takes.

        Raises:
            RuntimeError: `torch.export` asks for it, or `torch.jit.trace` for another than `alpha`.
        """
        is_whole = self.function.__name__ in _IN_GRAPHS
        # A trace would keep the pairs of faces and pixels of its example, without an error.
        if torch.compiler.is_exporting() or (not is_whole and is_graph_whole()):
            raise RuntimeError(
                f"{self.function.__name__.lstrip('_')} of a rendering has no graph for "
                f"torch.export{'' if is_whole else ' or torch.jit.trace'}, because its sizes "
                "depend on what is seen; call the renderer outside of it"
            )
        if not is_whole:
            if torch.compiler.is_compiling():
                # Or it would trace what is called behind a break, and its NumPy, call by call.
                return torch.compiler.disable(image.found)(self, instance)  # pyright: ignore[reportCallIssue]
        device = instance.device.type
        graded, mixed = torch.is_grad_enabled(), torch.is_autocast_enabled(device)
        if not mixed and (instance.allows_graph or not graded):
            return super().found(instance)
        graded = torch.set_grad_enabled(graded and instance.allows_graph)
        with graded, torch.autocast(device, enabled=False):
            return super().found(instance)


class Output:
    """The images of a batch. Each image is computed when it is first read, and kept.

    In which order and in which mode images are read does not matter: one that is read under
    `torch.no_grad`, as for a progress bar, has gradients when it is read again without. What was
    rendered under `torch.no_grad` has none. Shape and camera are those of the call, also if their
    tensors have changed in place since; colours and textures are read with the image.

    Attributes:
        alpha: [B, H, W] soft coverage in [0, 1].
        rgb: [B, 3, H, W] colours over the background.
        depth: [B, H, W] depth of the nearest covering face, +inf elsewhere.
        normals: [B, 3, H, W] unit normal of that face, world frame, 0 elsewhere.
        face_id: [B, H, W] int64, index of that face in its mesh, -1 elsewhere.
        mask: [B, H, W] bool, whether there is such a face: face_id >= 0, found sooner.
        device: the device of the images.
        allows_graph: whether gradients were on when the batch was rendered.
    """

    def __init__(
        self,
        backend: Backend,
        scene: Scene,
        aggregation: Aggregation,
        blended: Callable[[float, float], Blending],
        shading: str,
        composite: str,
    ) -> None:
        self._backend, self._scene = backend, scene
        self._aggregation, self._blended = aggregation, blended
        self._is_soft, self._over_alpha = shading == "softmax", composite == "alpha"
        self.device = scene.mesh.device
        self.allows_graph = torch.is_grad_enabled()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """What copies and pickles are made of, which an output has none of."""
        raise TypeError(
            "an Output can be neither copied nor pickled: its images are computed when they are "
            "read; take the images, such as out.rgb.detach()"
        )

    @image
    def _blending(self) -> Blending:
        return self._blended(*self._scene.geometry.planes)

    @image
    def _photo(self) -> Tensor | None:
        """What photos fill of the images, bool [B, H, W]; None for all."""
        size = self._scene.size
        return self._scene.camera.photo((size.height, size.width))

    @image
    def alpha(self) -> Tensor:
        """Soft coverage [B, H, W]."""
        scene = self._scene
        covered = self._backend.alpha(scene.geometry.faces, scene.size, self._aggregation)
        photo = None if scene.camera.window is None else self._photo
        return covered if photo is None else covered * photo

    @image
    def rgb(self) -> Tensor:
        """Colours [B, 3, H, W]."""
        blending = self._blending
        if self._over_alpha:
            blending = blending.without_background()
        if self._is_soft:
            image = softmax_rgb(
                self._backend, self._scene, self._aggregation.coverage, blending, PAIRS_AT_ONCE
            )
        else:
            image = self._hard_rgb()
        if self._over_alpha:
            alpha = self.alpha.unsqueeze(-1)
            image = image * alpha + self._blending.background * (1 - alpha)
        elif self._photo is not None:
            image = torch.where(self._photo[..., None], image, self._blending.background)
        return image.permute(0, 3, 1, 2)

    @image
    def depth(self) -> Tensor:
        """Depth [B, H, W] of the nearest covering face, +inf elsewhere."""
        _, depth = self._surface
        return self._spread(depth.unsqueeze(-1), math.inf)[..., 0]

    @image
    def normals(self) -> Tensor:
        """Unit normals [B, 3, H, W] of the nearest covering face, 0 elsewhere."""
        scene, (_, face) = self._scene, self._covered
        weights, _ = self._surface
        return self._spread(scene.normals_at(face, weights), 0.0).permute(0, 3, 1, 2)

    @image
    def face_id(self) -> Tensor:
        """Index of the nearest covering face in its mesh, int64 [B, H, W], -1 elsewhere."""
        mesh, geometry, nearest = self._scene.mesh, self._scene.geometry, self._nearest
        if len(mesh) == 1 and geometry.is_whole:  # images have all faces in their order
            first = torch.arange(len(nearest), device=nearest.device) * mesh.face_counts[0]
            return torch.where(nearest < 0, -1, nearest - first[:, None, None])
        source = geometry.source
        if len(mesh) > 1:
            start = torch.tensor(mesh.face_offsets, device=source.device)
            source = source - start[self._scene.image]
        # The number -1 of the nearest face, none, is that of the last row.
        return torch.cat([source, source.new_full((1,), -1)])[nearest]

    @image
    def mask(self) -> Tensor:
        """Whether a face covers each pixel, bool [B, H, W]; sooner found than `face_id`."""
        scene, covered = self._scene, self._backend.KERNELS.get("rendering.covered")
        projected, place = scene.geometry.projected, type(self)._nearest.place
        if covered is None or projected is None or place in vars(self):
            return self._nearest >= 0
        shown = covered(scene.mesh, scene.camera, scene.size)
        return shown if self._photo is None else shown & self._photo

    @image
    def _nearest(self) -> Tensor:
        nearest = nearest_faces(self._backend, self._scene, self._blending.near, self._blending.far)
        return nearest if self._photo is None else torch.where(self._photo, nearest, -1)

    @image
    def _covered(self) -> tuple[Tensor, Tensor]:
        """Covered pixels [K] and their packed faces [K]."""
        nearest = self._nearest.reshape(-1)
        pixels = (nearest >= 0).nonzero().squeeze(-1)
        return pixels, nearest[pixels]

    @image
    def _surface(self) -> tuple[Tensor, Tensor]:
        """Weights [K, 3] and depth [K] of the covered pixels."""
        pixels, face = self._covered
        points = self._scene.size.centres(pixels, self._scene.faces.corners.dtype)
        return self._scene.interpolation(points, face)

    def _spread(self, values: Tensor, elsewhere: float | Tensor) -> Tensor:
        """An image [B, H, W, C] of values [K, C] of the covered pixels."""
        scene = self._scene
        shape = (scene.faces.images, scene.size.height, scene.size.width, values.shape[-1])
        other = torch.as_tensor(elsewhere, dtype=values.dtype, device=values.device)
        image = other.expand(shape).reshape(-1, values.shape[-1])
        return image.index_copy(0, self._covered[0], values).reshape(shape)

    def _hard_rgb(self) -> Tensor:
        """Colours [B, H, W, 3] of hard shading; for "alpha" not yet multiplied by alpha."""
        scene = self._scene
        if scene.is_flat:
            image = self._flat_rgb()
        else:
            pixels, face = self._covered
            colours = scene.colours_at(pixels, face, self._surface[0])
            image = self._spread(colours, self._blending.background)
        if not self._over_alpha:
            return image
        pixels, face = self._fringe
        weights, _ = scene.interpolation(scene.size.centres(pixels, image.dtype), face)
        colours = scene.colours_at(pixels, face, weights)
        return image.reshape(-1, 3).index_copy(0, pixels, colours).reshape(image.shape)

    def _flat_rgb(self) -> Tensor:
        """The same for faces of one colour each: nothing is interpolated."""
        colours, background = self._scene.colours[:, 0], self._blending.background
        table = torch.cat([colours, background.to(colours).reshape(1, 3)])
        nearest = self._nearest
        row = torch.where(nearest < 0, len(colours), nearest).reshape(-1)
        return self._scene.gather(table, row).reshape(*nearest.shape, 3)

    @image
    def _fringe(self) -> tuple[Tensor, Tensor]:
        """Pixels [K] that no face covers but some reach softly, and the nearest face of each."""
        wanted = (self._nearest.reshape(-1) < 0) & (self.alpha.detach().reshape(-1) > 0)
        return closest_faces(
            self._backend, self._scene, self._aggregation.coverage, wanted, PAIRS_AT_ONCE
        )
