"""Which implementation of an operation is used: chosen by device, or named."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from gendr._common.checks import check_choice, dtype_name
from gendr._common.tracing import constant, is_transformed, refuse_transforms, refuse_vmap

# In the order in which `auto` asks them; the definitions, which take every tensor, are the last.
NAMES = ("cpu", "triton", "reference")


class AnyBackend(Protocol):
    """What every backend has, whatever it computes.

    Attributes:
        KERNELS: of its operators, by their full names; the others are left to their definitions.
    """

    KERNELS: Mapping[str, Any]

    def available(self) -> str | None:
        """None if usable here, else the reason."""
        ...

    def supports(self, tensor: Tensor) -> bool:
        """Whether it works where this tensor lives, and in its dtype."""
        ...


B = TypeVar("B", bound=AnyBackend | None)


_loaded: dict[str, Any] = {}  # by their paths


@constant
def _reason(path: str | None) -> str | None:
    """Why the backend at this path is not usable here, None if it is; then it is loaded."""
    if path is None:
        return None
    _loaded[path] = import_module(path)
    return _loaded[path].available()


class Choice(Generic[B]):
    """The choice of one system's backend.

    Args:
        system: its name, the first part of the names of its operators.
        modules: name of a backend -> the module that is it, imported when first wanted; `reference`
            may be missing, where definitions in plain torch have no module of their own.
        names: of the backends, in the order in which `auto` asks them; the last takes every tensor.
        traced: whether all have forms of their own for the transforms of `torch.func`.
        batched: what has batches of its own and no form for `torch.func.vmap`, for its message.
        doubles: whether definitions compute in float64, which `mps` of Apple has not.

    Attributes:
        known: the choices by their system.
    """

    known: ClassVar[dict[str, Choice[Any]]] = {}

    def __init__(
        self,
        system: str,
        modules: Mapping[str, str],
        names: tuple[str, ...] = NAMES,
        *,
        traced: bool = False,
        batched: str = "",
        doubles: bool = False,
    ) -> None:
        self.known[system] = self
        self.doubles = doubles
        self.modules, self.names, self.traced, self.batched = modules, names, traced, batched
        self._chosen: dict[tuple[str, torch.device, torch.dtype], B] = {}

    def load(self, name: str) -> B:
        """The backend of that name; None where there are no kernels."""
        path = self.modules.get(name)
        _reason(path)  # `torch.compile` can trace no import, but finds what is loaded
        return None if path is None else _loaded[path]  # pyright: ignore[reportReturnType]

    def backends(self) -> dict[str, str | None]:
        """Every backend's name -> None if it is usable here, else the reason why not."""
        return {name: _reason(self.modules.get(name)) for name in self.names}

    def by_operator(self) -> dict[str, dict[str, str | None]]:
        """The same for every operator; one that has no kernels in a backend says so."""
        modules = {name: self.load(name) for name in self.names}
        tables = {name: {} if m is None else m.KERNELS for name, m in modules.items()}

        def why(name: str, operator: str) -> str | None:
            if name == self.names[-1] or operator in tables[name]:
                return _reason(self.modules.get(name))
            return f"{operator} has no {name} kernels: its definition runs"

        operators = dict.fromkeys(x for table in tables.values() for x in table)
        return {x: {name: why(name, x) for name in self.names} for x in operators}

    def kernels(self, operator: str, tensor: Tensor, backend: str = "auto") -> Any:
        """The kernels of an operator for tensors like this one; None for its definition.

        Args:
            operator: its full name.
            tensor: an input.
            backend: "auto", or one of the names.

        Raises:
            ValueError: for an unknown name, a backend that does not serve this device or dtype, or
                one that has no kernels of this operator.
            RuntimeError: for a backend that is not usable here, with its reason.
        """
        module = self.choose(backend, tensor)
        found = None if module is None else module.KERNELS.get(operator)
        if found is None and module is not None and backend not in ("auto", self.names[-1]):
            raise ValueError(
                f"{operator} has no {backend} kernels; use the backend auto or {self.names[-1]}"
            )
        return found

    def choose(self, name: str, tensor: Tensor) -> B:
        """The backend of that name, or for `auto` the first that serves the tensor.

        Inside a transform of `torch.func` it is the last, for others are kernels.

        Args:
            name: one of the names, or "auto".
            tensor: an input of the computation; its device and dtype decide.

        Raises:
            ValueError: for an unknown name, or a backend that does not serve this device or dtype.
            RuntimeError: for a backend that is not usable here, with its reason; for `batched`
                inside `torch.func.vmap`; and for `doubles` on the device `mps`.
        """
        if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
            return self._search(name, tensor)[0]
        kind = name, tensor.device, tensor.dtype
        if kind in self._chosen:
            chosen = self._chosen[kind]
            if chosen is None or chosen.available() is None:
                # What `auto` takes the device and the dtype have decided.
                if chosen is None or name == "auto" or chosen.supports(tensor):
                    return chosen
        chosen, found = self._search(name, tensor)
        if found in (name, *self.names[:-1]):  # what serves all may be replaced by a better one
            self._chosen[kind] = chosen
        return chosen

    def _search(self, name: str, tensor: Tensor) -> tuple[B, str]:
        """`choose`; and the name of what is chosen."""
        if self.batched:
            refuse_vmap(self.batched)
        if self.doubles and tensor.device.type == "mps":
            raise RuntimeError(
                "tensors on mps, which has no float64, cannot be computed with there; move them to "
                "the CPU with .cpu(), which has kernels"
            )
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
            reason = _reason(self.modules.get(candidate))
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
    "topk": "gendr.topk.backends.choice",
    "losses": "gendr.losses.meshes",
    "logic": "gendr.logic.backends.choice",
    "relaxed": "gendr.relaxed.backends.choice",
    "splatting": "gendr.photos.splatting.choice",
}


def backends(of: str = "rendering") -> dict[str, Any]:
    """What can compute a system, and why not; every function of it takes these names as `backend=`.

    Args:
        of: "rendering", "primitives" (`rasterize`, `interpolate`, `texture` and `antialias`),
            "sorting", "topk" (masks and losses; its networks are those of sorting), "losses" (of
            meshes), "logic", "relaxed" or "splatting" (the projection of splats; they are joined by
            rendering); or "all".

    Returns:
        Every backend's name -> None if it is usable here, else the reason why not; of "all" such a
        dict for every system, and for every operator, by its full name.

    Raises:
        ValueError: for another one.
    """
    if check_choice("of", of, (*_CHOICES, "all")) == "all":
        found: dict[str, Any] = {}
        for system in _CHOICES:
            found[system] = backends(system)
            found |= Choice.known[system].by_operator()
        return found
    import_module(_CHOICES[of])
    return Choice.known[of].backends()
