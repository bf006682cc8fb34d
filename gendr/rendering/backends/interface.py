"""The narrow interface of a backend of rendering."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from gendr.rendering.aggregation import Aggregation
from gendr.rendering.coverage import Coverage
from gendr.rendering.fragments import Pairs
from gendr.rendering.geometry import ImageSize, ScreenFaces, Surfaces

if TYPE_CHECKING:
    from gendr.rendering.shading import Appearance


class Backend(Protocol):
    """A backend is a module that has these functions.

    Faces that are not there may stand among the others, see `ScreenFaces.present`.

    Attributes:
        TAKES_ANY_CDF: whether its own operations evaluate CDFs of the user's, too; else these are
            evaluated by torch on the pairs that it lists, and it is not asked.
    """

    TAKES_ANY_CDF: bool

    def available(self) -> str | None:
        """None if usable here, else the reason."""
        ...

    def supports(self, tensor: Tensor) -> bool:
        """Whether it works where this tensor lives."""
        ...

    def alpha(self, faces: ScreenFaces, size: ImageSize, aggregation: Aggregation) -> Tensor:
        """Coverage [B, H, W]."""
        ...

    def pairs(
        self, faces: ScreenFaces, size: ImageSize, radius: Tensor, limit: int
    ) -> list[Callable[[], Pairs]]:
        """The pairs within the radius, in runs of about `limit`."""
        ...

    def distance(self, faces: ScreenFaces, size: ImageSize, pixels: Tensor, face: Tensor) -> Tensor:
        """Signed distance [K] of listed pairs, differentiable in the corners."""
        ...

    def gather(self, values: Tensor, index: Tensor) -> Tensor:
        """values[index]."""
        ...

    def softmax(
        self,
        faces: ScreenFaces,
        surfaces: Surfaces,
        appearance: Appearance,
        size: ImageSize,
        coverage: Coverage,
        rate: Tensor,
        backdrop: float,
    ) -> tuple[Tensor, Tensor] | None:
        """Colours [B * H * W, 3] less the background's part, and its share; None: list pairs."""
        ...

    def nearest(
        self, faces: ScreenFaces, size: ImageSize, planes: Tensor, limits: Tensor
    ) -> Tensor:
        """The nearest covering face [B, H, W], -1 where there is none."""
        ...
