"""Which implementation of an operation is used: chosen by device, or named."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from gendr._common.checks import check_choice, dtype_name
from gendr._common.tracing import constant, is_transformed, refuse_transforms, refuse_vmap


class AnyBackend(Protocol):
    """What every backend has, whatever it computes."""

    def available(self) -> str | None:
        """None if usable here, else the reason."""
        ...

    def supports(self, tensor: Tensor) -> bool:
        """Whether it works where this tensor lives, and in its dtype."""
        ...


B = TypeVar("B", bound=AnyBackend | None)


@constant
def reason_of(load: Callable[[str], AnyBackend | None], name: str) -> str | None:
    """Why the backend that `load` gives for a name is not usable here, None if it is."""
    backend = load(name)
    return None if backend is None else backend.available()


class Choice(Generic[B]):
    """The choice of one system's backend.

    Args:
        load: name of a backend -> the backend; None where there are no kernels, but definitions
            in plain torch. It imports by plain statements, because `torch.compile` cannot trace
            `import_module`.
        names: of the backends, in the order in which `auto` asks them; the last takes every tensor.
        traced: whether all have forms of their own for the transforms of `torch.func`.
        batched: what has batches of its own and no form for `torch.func.vmap`, for its message.
        operators: names in the backends of what has kernels or is computed by its definition.

    Attributes:
        known: the choices by their system, the part of the package in which `load` stands.
    """

    known: ClassVar[dict[str, Choice[Any]]] = {}

    def __init__(
        self,
        load: Callable[[str], B],
        names: tuple[str, ...],
        *,
        traced: bool = False,
        batched: str = "",
        operators: tuple[str, ...] = (),
    ) -> None:
        self.known[load.__module__.split(".")[1]] = self
        self.operators = operators
        self.load, self.names, self.traced, self.batched = load, names, traced, batched
        self._chosen: dict[tuple[str, torch.device, torch.dtype], B] = {}

    def backends(self) -> dict[str, str | None]:
        """Every backend's name -> None if it is usable here, else the reason why not."""
        return {name: reason_of(self.load, name) for name in self.names}

    def by_operator(self) -> dict[str, dict[str, str | None]]:
        """The same for every operator; one that has no kernels in a backend says so."""
        definitions = self.load(self.names[-1])

        def why(name: str, operator: str) -> str | None:
            reason, own = reason_of(self.load, name), getattr(self.load(name), operator, None)
            if reason or name == self.names[-1]:
                return reason
            has_own = own is not None and own is not getattr(definitions, operator, None)
            return None if has_own else f"{operator} has no {name} kernels: its definition runs"

        return {x: {name: why(name, x) for name in self.names} for x in self.operators}

    def choose(self, name: str, tensor: Tensor) -> B:
        """The backend of that name, or for `auto` the first that serves the tensor.

        Inside a transform of `torch.func` it is the last, for others are kernels.

        Args:
            name: one of the names, or "auto".
            tensor: an input of the computation; its device and dtype decide.

        Raises:
            ValueError: for an unknown name, or a backend that does not serve this device or dtype.
            RuntimeError: for a backend that is not usable here, with its reason; and for `batched`
                inside `torch.func.vmap`.
        """
        if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
            return self._search(name, tensor)[0]
        kind = name, tensor.device, tensor.dtype
        if kind in self._chosen:
            chosen = self._chosen[kind]
            if chosen is None or (chosen.available() is None and chosen.supports(tensor)):
                return chosen
        chosen, found = self._search(name, tensor)
        if found in (name, *self.names[:-1]):  # what serves all may be replaced by a better one
            self._chosen[kind] = chosen
        return chosen

    def _search(self, name: str, tensor: Tensor) -> tuple[B, str]:
        """`choose`; and the name of what is chosen."""
        if self.batched:
            refuse_vmap(self.batched)
        if name not in self.names:
            check_choice("backend", name, ("auto", *self.names))
        if name != self.names[-1] and not self.traced and is_transformed():
            if name != "auto":
                refuse_transforms(f"backend {name!r}")
            name = self.names[-1]
        candidates = self.names if name == "auto" else (name,)
        for candidate in candidates:
            if name == "auto" and candidate == "triton" and tensor.device.type == "cpu":
                continue  # only Triton's interpreter could: it is for tests, by name
            module = self.load(candidate)
            reason = reason_of(self.load, candidate)
            if name != "auto" and reason is not None:
                raise RuntimeError(reason)
            if module is not None and not module.supports(tensor):
                if name != "auto":
                    raise ValueError(
                        f"backend {name!r} does not serve tensors on {tensor.device} of "
                        f"{dtype_name(tensor.dtype)}; use the backend auto, or move or convert them"
                    )
                continue
            if reason is not None:
                warn_once(candidate, reason)
                continue
            return module, candidate
        raise RuntimeError(f"no backend serves tensors on {tensor.device}")  # reference serves all


def warn_once(name: str, reason: str) -> None:
    """Warn that a backend is not usable here; each backend once in a process."""
    if name not in warned:
        warned.add(name)
        warnings.warn(f"{reason}; falling back to a slower backend", RuntimeWarning, stacklevel=4)


warned: set[str] = set()  # names of backends that the user was told about


# Where each system chooses; imported when somebody asks.
_CHOICES = {
    "rendering": "gendr.rendering.backends.choice",
    "primitives": "gendr.primitives.choice",
    "sorting": "gendr.sorting.backends.choice",
    "logic": "gendr.logic.backends.choice",
    "relaxed": "gendr.relaxed.backends.choice",
}


def backends(of: str = "rendering") -> dict[str, Any]:
    """What can compute a system, and why not; every function of it takes these names as `backend=`.

    Args:
        of: "rendering", "primitives" (`rasterize`, `interpolate`, `texture` and `antialias`),
            "sorting" (top-k, too), "logic" or "relaxed"; or "all".

    Returns:
        Every backend's name -> None if it is usable here, else the reason why not; of "all" such a
        dict for every system, and for every operator of those that have several.

    Raises:
        ValueError: for another one.
    """
    if check_choice("of", of, (*_CHOICES, "all")) == "all":
        found: dict[str, Any] = {}
        for system in _CHOICES:
            found[system] = backends(system)
            own = Choice.known[system].by_operator()
            found |= {f"{system}.{name}": reasons for name, reasons in own.items()}
        return found
    import_module(_CHOICES[of])
    return Choice.known[of].backends()
