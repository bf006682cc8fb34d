"""What the renderer asks of a backend, and the choice of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from gendr.kernels.backends import AnyBackend, Choice

if TYPE_CHECKING:
    from gendr.rendering.fragments import PixelPairs
    from gendr.rendering.geometry import ScreenFaces


class Backend(AnyBackend, Protocol):
    """A module with all functions of `gendr.rendering.backends.reference`: kernels, or these.

    They have the arguments and results of those. Its table of kernels says which are none.
    """

    project: Callable[..., ScreenFaces | None]
    alpha: Callable[..., Tensor]
    pairs: Callable[..., list[Callable[[], PixelPairs]]]
    distance: Callable[..., Tensor]
    gather: Callable[[Tensor, Tensor], Tensor]
    softmax: Callable[..., tuple[Tensor, Tensor] | None]
    nearest: Callable[..., Tensor]
    depth_keys: Callable[..., tuple[Tensor, Tensor]]
    ordered: Callable[..., tuple[Tensor, Tensor]]


_MODULES = {
    "cpu": "gendr.rendering.backends.cpu.backend",
    "triton": "gendr.rendering.backends.triton.backend",
    "reference": "gendr.rendering.backends.reference",
}
choose: Callable[[str, Tensor], Backend] = Choice(
    "rendering", _MODULES, batched="rendering", doubles=True
).choose
