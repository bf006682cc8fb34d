"""The interface that a rendering backend implements."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from gendr.rendering.aggregation import Aggregation
from gendr.rendering.coverage import Coverage
from gendr.rendering.fragments import PixelPairs
from gendr.rendering.geometry import ImageSize, ScreenFaces

if TYPE_CHECKING:
    from gendr.mesh import Camera, Mesh
    from gendr.rendering.layers import Layered
    from gendr.rendering.scene import Scene


class Backend(Protocol):
    """A backend is a module that has these functions.

    Faces that are not there may stand among the others, see `ScreenFaces.present`.

    Attributes:
        KERNELS: which of these functions are its own kernels, by "rendering." and their names; the
            others are those of the reference, or made of these. Kernels of alpha are not asked for
            CDFs of the user's, which torch evaluates on the pairs that are listed.
    """

    KERNELS: Mapping[str, object]

    def available(self) -> str | None:
        """None if usable here, else the reason."""
        ...

    def supports(self, tensor: Tensor) -> bool:
        """Whether it works on the device, and with the dtype, of this tensor."""
        ...

    def settings(self) -> object:
        """What launches depend on, for CUDA graphs; None if the host waits in a step of alpha.

        That is a steady step and its gradient, of float32 meshes and laws of ours without learnt
        shapes.
        """
        ...

    def project(
        self, mesh: Mesh, camera: Camera, near: float | None, far: float | None, owner: Hashable
    ) -> ScreenFaces | None:
        """The faces of a batch on the screen by a fused kernel, for which the host never waits.

        None if `gendr.rendering.geometry` is to project instead.

        Args:
            mesh: B meshes or 1.
            camera: B cameras or 1.
            near: depth of the near plane; None for what `geometry.depth_limits` finds.
            far: depth of the far plane, or None.
            owner: if there is one, NaN and inf are looked for, which its later call reports.

        Raises:
            ValueError: if an earlier call found some.
        """
        ...

    def alpha(self, faces: ScreenFaces, size: ImageSize, aggregation: Aggregation) -> Tensor:
        """Alpha of every pixel, [B, H, W] in [0, 1], differentiable in the corners of the faces.

        Also differentiable in the scale, and in tensors inside the distribution and T-conorm.
        """
        ...

    def pairs(
        self, faces: ScreenFaces, size: ImageSize, radius: Tensor, limit: int
    ) -> list[Callable[[], PixelPairs]]:
        """The (pixel, face) pairs within the radius [B] (NDC), in runs of about `limit` pairs.

        A run is a function that lists its pairs when it is called.
        """
        ...

    def distance(self, faces: ScreenFaces, size: ImageSize, pixels: Tensor, face: Tensor) -> Tensor:
        """Signed distance [K] of listed pairs, differentiable in the corners."""
        ...

    def gather(self, values: Tensor, index: Tensor) -> Tensor:
        """values[index] for values [N, ...] and index [K], differentiable in the values.

        Kernels saturate gradients, as `geometry.by_index` does.
        """
        ...

    def softmax(
        self, scene: Scene, coverage: Coverage, rate: Tensor, backdrop: float
    ) -> tuple[Tensor, Tensor] | None:
        """Softmax colours by a fused kernel, or None if pairs are to be listed and shaded instead.

        Args:
            scene: the faces, and their looks at their corners.
            coverage: how faces cover pixels.
            rate: [], 1 / ((far - near) gamma).
            backdrop: depth of the background.

        Returns:
            Colours [B * H * W, 3] without the part of the background, and the share of the
            background [B * H * W].
        """
        ...

    def ordered(self, layered: Layered, size: ImageSize) -> tuple[Tensor, Tensor]:
        """Colours [B * H * W, C] over black, and alpha [B * H * W], of faces from front to back."""
        ...

    def nearest(
        self, faces: ScreenFaces, size: ImageSize, clip: Tensor, index: Tensor | None = None
    ) -> Tensor:
        """The nearest face that covers each pixel, int64 [B, H, W]; -1 if there is none.

        Args:
            faces: on the screen.
            size: of the images.
            clip: [T, 3, 4] float64, the corners of the same faces for `gendr.primitives.rasterize`.
            index: None; or for a backend with kernels of `gather` [T, 3], and `clip` is [V', 4].
        """
        ...
