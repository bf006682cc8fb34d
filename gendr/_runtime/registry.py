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


def members(base: type[T]) -> dict[str, type[T]]:
    """The concrete classes below a class by their `name`, in the order of their definition.

    A class is a member if it is not abstract and defines a `name` of its own. A class that a user
    writes is a member as soon as it is defined.
    """
    found: dict[str, type[T]] = {}
    for cls in base.__subclasses__():
        if "name" in vars(cls) and not inspect.isabstract(cls):
            found[cls.name] = cls
        found |= members(cls)
    return found
