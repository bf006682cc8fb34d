"""The narrow interface of a backend, and the choice of one."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Protocol, cast

from torch import Tensor

from gendr._checks import check_choice
from gendr.rendering.geometry import ImageSize, Pairs, ScreenFaces
from gendr.rendering.model import Model

# In the order in which `auto` asks them.
NAMES = ("cpu", "reference")


class Backend(Protocol):
    """A backend is a module that has these functions."""

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

    def nearest(
        self, faces: ScreenFaces, size: ImageSize, planes: Tensor, limits: Tensor
    ) -> Tensor:
        """The nearest covering face [B, H, W], -1 where there is none."""
        ...


def _module(name: str) -> Backend:
    return cast(Backend, import_module(f"gendr.rendering.{name}"))


def backends() -> dict[str, str | None]:
    """Every backend's name -> None if it is usable here, else the reason why not."""
    return {name: _module(name).available() for name in NAMES}


def choose(name: str, tensor: Tensor) -> Backend:
    """The backend of that name, or for `auto` the first that serves the tensor's device.

    Raises:
        ValueError: for an unknown name, or a backend that does not serve this device.
        RuntimeError: for a backend that is not usable here, with its reason.
    """
    check_choice("backend", name, ("auto", *NAMES))
    candidates = NAMES if name == "auto" else (name,)
    for candidate in candidates:
        module = _module(candidate)
        reason = module.available()
        if name != "auto" and reason is not None:
            raise RuntimeError(reason)
        if not module.supports(tensor):
            if name != "auto":
                raise ValueError(
                    f"backend {name!r} does not serve tensors on {tensor.device}; "
                    "use backend='auto' or move the tensors"
                )
            continue
        if reason is not None:
            _warn_once(candidate, reason)
            continue
        return module
    raise RuntimeError(f"no backend serves tensors on {tensor.device}")  # reference serves all


def _warn_once(name: str, reason: str) -> None:
    import warnings

    if name not in _warned:
        _warned.add(name)
        warnings.warn(f"{reason}; falling back to a slower backend", RuntimeWarning, stacklevel=4)


_warned: set[str] = set()
