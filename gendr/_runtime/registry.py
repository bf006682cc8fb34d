"""The members of a family of classes, found by walking its subclasses; no list is kept by hand."""

from __future__ import annotations

import inspect
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import ClassVar, Protocol, TypeVar


class _Named(Protocol):
    name: ClassVar[str]


T = TypeVar("T", bound=_Named)


def import_all(package: ModuleType) -> None:
    """Import every module of a package, so that the classes in them are known."""
    for module in iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")


def members(base: type[T], package: str | None = None) -> dict[str, type[T]]:
    """The concrete classes below a class by their `name`, in the order of their definition.

    One rule for all: a class is a member if it is not abstract and says its own name. A class of
    the user's own is one as soon as it is defined.

    Args:
        base: The class that they derive from.
        package: If given, only the classes of its modules count, and users' own do not.
    """
    found: dict[str, type[T]] = {}
    for cls in base.__subclasses__():
        inside = package is None or cls.__module__.startswith(f"{package}.")
        if inside and "name" in vars(cls) and not inspect.isabstract(cls):
            found[cls.name] = cls
        found |= members(cls, package)
    return found
