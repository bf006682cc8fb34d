"""Copies of undecorated functions in which globals stand for the functions of one compiler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any, cast

from gendr._runtime import vocabulary


@dataclass(frozen=True)
class Bodies:
    """The bodies of one member of a registry: undecorated functions beside its class.

    Attributes:
        owner: who it is, for messages: "the law cauchy".
        module: its file.
    """

    owner: str
    module: ModuleType

    def has(self, kind: str) -> bool:
        """Whether the file has the body."""
        return hasattr(self.module, kind)

    def for_float64(self, kind: str) -> Callable[..., Any]:
        """The body for Numba.

        Raises:
            ValueError: the file has none.
        """
        return self._named(kind)

    def for_float32(self, kind: str) -> Callable[..., Any]:
        """The body for Triton: `<kind>_float32` if the file has it.

        Raises:
            ValueError: the file has neither.
        """
        special = getattr(self.module, f"{kind}_float32", None)
        return self._named(kind) if special is None else special

    def _named(self, kind: str) -> Callable[..., Any]:
        body = getattr(self.module, kind, None)
        if body is None:
            raise ValueError(
                f"{self.owner} has no body {kind!r} for compiled kernels; write it beside the "
                f"class in {self.module.__name__}, or use backend='reference'"
            )
        return body


def rebound(function: Any, replace: Callable[[str, Any], Any], **names: Any) -> FunctionType:
    """A copy of a function whose globals are replaced one by one.

    Args:
        function: an undecorated Python function.
        replace: takes the name and the value of a global that the function may read (None if its
            module has no such global), and returns the value that the copy reads in its place.
        **names: more globals of the copy.
    """
    function = cast("FunctionType", function)
    found = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    bound = {name: replace(name, value) for name, value in found.items()}
    bound = {name: value for name, value in bound.items() if value is not None}
    copy = FunctionType(
        function.__code__,
        {"__name__": function.__module__, **bound, **names},
        function.__name__,
        function.__defaults__,
    )
    copy.__qualname__, copy.__doc__ = function.__qualname__, function.__doc__
    return copy


def moved(function: FunctionType, module: str, name: str, file: str | None = None) -> FunctionType:
    """A copy under another full name; `file` is the source file that caches ascribe it to."""
    code = function.__code__.replace(co_filename=file) if file else function.__code__
    copy = FunctionType(code, {**function.__globals__, "__name__": module}, function.__name__)
    copy.__qualname__ = name
    return copy


def is_word(value: Any) -> bool:
    """Whether a value belongs to the vocabulary."""
    return isinstance(value, FunctionType) and value.__module__ == vocabulary.__name__
