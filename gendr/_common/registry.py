"""The members of a family of classes, found by walking its subclasses; no list is kept by hand."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, ClassVar, Protocol, TypeVar, cast

from typing_extensions import ParamSpec

from gendr._common.tracing import is_traced


class _Named(Protocol):
    name: ClassVar[str]


T = TypeVar("T", bound=_Named)
M = TypeVar("M")
P = ParamSpec("P")
_PACKAGE = __name__.partition(".")[0]
_REFUSED = -1


class Registered:
    """What the root of a family derives from, if users may add members to it.

    A class of the user's own takes the place of an earlier one of the same name: a cell of a
    notebook may run again. The names and aliases of the package's members are kept, unless a class
    says that it takes one: `class Mine(StandardDistribution, replace=True)`.

    Raises:
        ValueError: when a class is defined that takes such a name without the word.
    """

    # In the order of definition, from 1; negative if the class was refused.
    _place: ClassVar[int] = 0
    _defined: ClassVar[int] = 0

    def __init_subclass__(cls, *, replace: bool = False, **rest: Any) -> None:
        """Check the name."""
        super().__init_subclass__(**rest)
        Registered._defined += 1
        cls._place = Registered._defined
        if "name" not in vars(cls) or is_of_package(cls) or replace:
            return
        root: Any = next(base for base in reversed(cls.__mro__) if Registered in base.__bases__)
        for other in members(root, _PACKAGE).values():
            taken = sorted({*names_of(cls)} & {*names_of(other)})
            if taken:
                cls._place = _REFUSED  # the class lives on, at least in the traceback
                raise ValueError(
                    f"the name {taken[0]!r} belongs to {other.__module__}.{other.__qualname__}; "
                    f"give {cls.__qualname__} another, or take it for the whole process by "
                    f"class {cls.__qualname__}(..., replace=True)"
                )


_PLAIN = {int, float, str, bool, type(None)}


def memoized(make: Callable[P, M]) -> Callable[P, M]:
    """A function that makes something immutable of settings; of plain ones it makes it once.

    Once more when another class was defined, which a text may mean. Settings that are not plain,
    such as tensors, are not compared.
    """

    @functools.lru_cache(maxsize=1000)  # such as parameters of a search
    def found(defined: int, kinds: tuple[type, ...], *settings: Any) -> M:
        return made(*settings)

    made: Any = make

    @functools.wraps(make)
    def read(*settings: Any) -> M:
        kinds = tuple(map(type, settings))  # 1, 1.0 and True would be equal keys
        if is_traced() or not _PLAIN.issuperset(kinds):
            return made(*settings)
        return found(Registered._defined, kinds, *settings)

    return cast("Callable[P, M]", read)


def names_of(cls: Any) -> tuple[str, ...]:
    """The name of a class and its aliases; none if it has no name."""
    return (cls.name, *getattr(cls, "aliases", ())) if hasattr(cls, "name") else ()


def is_of_package(cls: type) -> bool:
    """Whether a class is one of this package, not the user's own."""
    return cls.__module__.startswith(f"{_PACKAGE}.")


def import_all(package: ModuleType) -> None:
    """Import every module of a package, so that the classes in them are known."""
    for module in iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")


def subclasses(base: type[T]) -> Iterator[type[T]]:
    """All classes below a class, each before those that derive from it."""
    for cls in base.__subclasses__():
        yield cls
        yield from subclasses(cls)


def is_member(cls: type) -> bool:
    """Whether a class of a family is a member: it is not abstract and says its own name."""
    return "name" in cls.__dict__ and not inspect.isabstract(cls) and _place(cls) != _REFUSED


def members(base: type[T], package: str | None = None) -> dict[str, type[T]]:
    """The concrete classes below a class by their `name`, in the order of their definition.

    One rule for all: a class is a member if it is not abstract and says its own name. A class of
    the user's own is one as soon as it is defined. Of two with one name the later one counts.

    Args:
        base: The class that they derive from.
        package: If given, only the classes of its modules count, and users' own do not.
    """
    found: dict[str, type[T]] = {}
    for cls in subclasses(base):
        if not is_member(cls) or (package and not cls.__module__.startswith(f"{package}.")):
            continue
        if cls.name not in found or _place(found[cls.name]) <= _place(cls):
            found[cls.name] = cls
    return found


def _place(cls: type) -> int:
    return getattr(cls, "_place", 0)
