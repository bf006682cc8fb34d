"""Kernel functions of the members of a family, under names by which caches keep them.

Also copies of undecorated functions in which globals stand for the functions of one compiler.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from types import CodeType, FunctionType, ModuleType
from typing import Any, Generic, TypeVar, cast

from gendr._common.registry import is_member, is_of_package, members, subclasses
from gendr.kernels import vocabulary

T = TypeVar("T", bound=type[Any])


@dataclass(frozen=True)
class KernelFunctions(Generic[T]):
    """The kernel functions of one member: undecorated functions beside its class, or named by it.

    Attributes:
        owner: who it is, for messages: "the distribution cauchy".
        cls: its class.
        functions: the kernel functions by name.
    """

    owner: str
    cls: T
    functions: Mapping[str, Callable[..., Any]]

    def has(self, kind: str) -> bool:
        """Whether the member has the kernel function."""
        return kind in self.functions

    def for_float64(self, kind: str) -> Callable[..., Any]:
        """The kernel function for Numba.

        Raises:
            ValueError: the member has none.
        """
        function = self.functions.get(kind)
        if function is None:
            raise ValueError(
                f"{self.owner} has no kernel function {kind!r}; write that function "
                f"beside {self.cls.__qualname__} in {self.cls.__module__}, or name it in its "
                "`kernel_functions`, or use backend='reference'"
            )
        return function

    def for_float32(self, kind: str) -> Callable[..., Any]:
        """The kernel function for Triton: `<kind>_float32` if there is one.

        Raises:
            ValueError: the member has neither.
        """
        return self.functions.get(f"{kind}_float32") or self.for_float64(kind)


class KernelNames(Generic[T]):
    """Those of all members of a family, each under a name that stands for its class and code.

    What is compiled is kept by that name: a member of the package goes by its own, one of the
    user's own by a name that no other class has, and that changes when a kernel function does, or
    anything that a kernel function reads.

    Args:
        what: a member is, for messages: "distribution".
        root: of the family.
        kinds: the names of the kernel functions.

    Attributes:
        known: names by class for members of the package, by class and code for the user's own.
    """

    def __init__(self, what: str, root: T, kinds: tuple[str, ...]) -> None:
        self._what, self._root = what, root
        self._kinds = {name for kind in kinds for name in (kind, f"{kind}_float32")}
        self.known: dict[Any, str] = {}
        self._latest: dict[type, str] = {}
        self._found: dict[str, KernelFunctions[T]] = {}

    def name(self, cls: T) -> str:
        """The name of a member for `kernel_functions`: letters, digits and underscores.

        Raises:
            TypeError: `kernel_functions` of the class is no mapping from names to undecorated
                functions.
            ValueError: nobody knows which kernel functions belong to the class: several classes
                share its file and none names its own, or another class has taken its place.
        """
        if cls in self.known:  # of the package, whose code stays
            return self.known[cls]
        ours = is_of_package(cls)
        functions = vars(cls).get("kernel_functions")
        if functions is None:
            beside = vars(sys.modules.get(cls.__module__, object))
            functions = {
                k: beside[k] for k in self._kinds if isinstance(beside.get(k), FunctionType)
            }
        else:
            self._check(cls, functions)
        key = cls if ours else (cls, tuple((k, code_of(functions[k])) for k in sorted(functions)))
        if key in self.known:
            return self.known[key]
        if "kernel_functions" not in vars(cls) and functions:
            if cls in self._latest and not _stands(cls):
                return self._latest[cls]
            self._check_owner(cls, functions)
        name = cls.name
        if not ours or name in self._found:  # in which case its module was loaded again
            name = f"{re.sub(r'[^a-zA-Z0-9]', '_', name)}__{next(_count)}"
        self._found[name] = KernelFunctions(f"the {self._what} {cls.name}", cls, dict(functions))
        self._latest[cls] = self.known.setdefault(key, name)
        return self._latest[cls]

    def kernel_functions(self, name: str) -> KernelFunctions[T]:
        """What stands behind a name.

        Args:
            name: as `name` gives it, or that of a member of the package.

        Raises:
            ValueError: it is neither.
        """
        if name not in self._found:
            known = members(self._root, "gendr")
            if name not in known:
                every = ", ".join(known)
                raise ValueError(f"there is no {self._what} {name!r}; there are {every}")
            self.name(known[name])
        return self._found[name]

    def _check(self, cls: T, functions: Any) -> None:
        """Look whether a class names functions that can be compiled."""
        known = isinstance(functions, Mapping) and functions.keys() <= self._kinds
        if not known or not all(isinstance(f, FunctionType) for f in functions.values()):
            raise TypeError(
                f"`kernel_functions` of {cls.__qualname__} must map some of "
                f"{', '.join(sorted(self._kinds))} to undecorated functions, got {functions!r}"
            )

    def _check_owner(self, cls: T, functions: Mapping[str, Any]) -> None:
        """Look whether the functions beside a class are its own."""
        if not _stands(cls):
            raise ValueError(
                f"{cls.__qualname__} was defined anew in {cls.__module__}, whose functions "
                "belong to the new class; make the object again from that"
            )
        sharing = [cls, *self._siblings(cls)]
        if len(sharing) > 1:
            raise ValueError(
                f"{' and '.join(sorted(c.__qualname__ for c in sharing))} share the file "
                f"{cls.__module__}, so {', '.join(sorted(functions))} in it could be of "
                "either; give each class its own `kernel_functions`, a mapping from these names to "
                "functions, or use backend='reference'"
            )

    def _siblings(self, cls: T) -> list[T]:
        """Other members in the file of a class; those that it replaced do not count."""
        return [
            other
            for other in cast("list[T]", [*dict.fromkeys(subclasses(self._root))])
            if (other.__module__, is_member(other)) == (cls.__module__, True)
            and other.__qualname__ != cls.__qualname__
            and _stands(other)
        ]


_count = count(1)


def _stands(cls: type) -> bool:
    """Whether no other class has taken the place of this one in its module."""
    there = getattr(sys.modules.get(cls.__module__), cls.__qualname__, cls)
    return there is cls or not isinstance(there, type)


# Whose functions a compiler knows itself.
_INSTALLED = ("numba", "numpy", "torch", "triton")


def code_of(function: Any) -> tuple[Any, ...]:
    """What a function computes, as plain values to compare or to hash: its code and what it reads.

    Two functions with the same result are compiled to the same, wherever they stand.
    """
    seen: dict[int, int] = {}

    def of(value: Any) -> Any:
        value = getattr(value, "py_func", value)  # what Numba has made of it
        if isinstance(value, ModuleType):
            return value.__name__
        if not isinstance(value, FunctionType):
            is_array = hasattr(value, "tolist") and not isinstance(value, type)
            return repr(value.tolist() if is_array else value)
        if id(value) in seen:
            return seen[id(value)]
        seen[id(value)] = len(seen)
        if value.__module__.partition(".")[0] in _INSTALLED:
            return f"{value.__module__}.{value.__qualname__}"
        names, around = value.__code__.co_names, value.__globals__
        read = [(name, around[name]) for name in names if name in around]
        read += [
            (f"{module}.{name}", getattr(value, name))
            for module, value in read
            for name in names
            if isinstance(value, ModuleType) and hasattr(value, name)
        ]
        found = [(name, of(value)) for name, value in read]
        return plain_code(value.__code__), repr(value.__defaults__), *found

    return of(function)


def plain_code(code: CodeType) -> tuple[Any, ...]:
    """What code does, wherever it stands: neither its file nor its lines."""
    values = (plain_code(x) if isinstance(x, CodeType) else repr(x) for x in code.co_consts)
    return code.co_code, code.co_names, code.co_varnames, *values


def rebound(function: Any, replace: Callable[[str, Any], Any], **names: Any) -> FunctionType:
    """A copy of a function whose globals are replaced one by one.

    Args:
        function: an undecorated Python function.
        replace: takes the name and the value of a global that the function may read (None if its
            module has no such global), and returns the value that the copy reads in its place.
        **names: more globals of the copy.

    Raises:
        ValueError: the function is a closure.
    """
    function = cast("FunctionType", function)
    if function.__code__.co_freevars:
        raise ValueError(
            f"{function.__qualname__} of {function.__module__} reads "
            f"{', '.join(function.__code__.co_freevars)} of the function around it; compilers "
            "know only what stands at the top of a file"
        )
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
    """A copy under another full name; `file` is the source file that caches ascribe it to.

    It begins at the file's first line: Numba reads the source there, and from Python 3.13 a line
    within a string of that file would be an error.
    """
    code = function.__code__
    if file:
        code = code.replace(co_filename=file, co_firstlineno=1)
    copy = FunctionType(code, {**function.__globals__, "__name__": module}, function.__name__)
    copy.__qualname__ = name
    return copy


def is_word(value: Any) -> bool:
    """Whether a value belongs to the vocabulary."""
    return isinstance(value, FunctionType) and value.__module__ == vocabulary.__name__
