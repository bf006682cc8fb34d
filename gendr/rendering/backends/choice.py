"""The narrow interface of a backend, and the choice of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

from torch import Tensor

from gendr._runtime.backends import NAMES, choose_from
from gendr._runtime.tracing import constant
from gendr.rendering.geometry import ImageSize, Pairs, ScreenFaces, Surfaces
from gendr.rendering.model import Model

if TYPE_CHECKING:
    from gendr.rendering.shading import Appearance


class Backend(Protocol):
    """A backend is a module that has these functions.

    Attributes:
        TAKES_ABSENT: whether faces that are not there may stand among the others, at `ABSENT`.
    """

    TAKES_ABSENT: bool

    def available(self) -> str | None:
        """None if usable here, else the reason."""
        ...

    def supports(self, tensor: Tensor) -> bool:
        """Whether it works where this tensor lives."""
        ...

    def alpha(self, faces: ScreenFaces, size: ImageSize, model: Model) -> Tensor:
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
        model: Model,
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


def _module(name: str) -> Backend:
    """Import a backend; spelt out, because `torch.compile` does not trace `import_module`."""
    if name == "cpu":
        from gendr.rendering.backends.cpu import backend as module
    elif name == "triton":
        from gendr.rendering.backends.triton import backend as module
    else:
        from gendr.rendering.backends import reference as module
    return cast("Backend", module)


@constant
def _reason(name: str) -> str | None:
    """Why a backend is not usable here, None if it is."""
    return _module(name).available()


def backends() -> dict[str, str | None]:
    """Every backend's name -> None if it is usable here, else the reason why not."""
    return {name: _reason(name) for name in NAMES}


def choose(name: str, tensor: Tensor) -> Backend:
    """The backend of that name, or for `auto` the first that serves the tensor's device.

    Raises:
        ValueError: for an unknown name, or a backend that does not serve this device.
        RuntimeError: for a backend that is not usable here, with its reason.
    """
    return choose_from(_module, _reason, name, tensor)
