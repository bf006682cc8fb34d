"""What we change of Numba: how it loads kernels, and who may call one."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import WeakSet

from gendr._common.names import uncollected

TRIED = ("0.68", "0.60")
SEAMS = (
    ("numba.core.caching", "IndexDataCacheFile._load_index"),
    ("numba.core.caching", "Cache.load_overload"),
    ("numba.core.caching", "Cache._load_overload"),
    ("numba.core.caching", "Cache._guard_against_spurious_io_errors"),
    ("numba.core.runtime.nrt", "rtsys.initialize"),
    ("numba.core.dispatcher", "Dispatcher._compile_for_args"),
    ("numba.core.dispatcher", "Dispatcher.typeof_pyval"),
    ("numba.core.dispatcher", "Dispatcher.get_call_template"),
    ("numba.core.dispatcher", "Dispatcher._insert"),
    ("numba.core.ccallback", "CFunc.compile"),
)


def forget_other_versions() -> None:
    """Let an index that names classes which are gone count as empty, as one of old code does.

    Numba reads the types of arguments before it compares the times of files, and would raise an
    AttributeError at the first call after an update.
    """
    from numba.core.caching import IndexDataCacheFile

    load = IndexDataCacheFile._load_index

    def loaded(self: Any) -> dict[Any, Any]:
        try:
            return load(self)
        except (AttributeError, ImportError):
            return {}

    IndexDataCacheFile._load_index = loaded


def load_without_compiler(ours: WeakSet[Any]) -> None:
    """Load our kernels from the disk without all that Numba can compile, which is long to import.

    They need no more than what allocates arrays. The compiler makes itself ready when it is asked.

    Args:
        ours: the functions.
    """
    from numba.core.caching import Cache
    from numba.core.runtime.nrt import rtsys

    load: Any = Cache.load_overload

    def load_overload(self: Any, sig: Any, target_context: Any) -> Any:
        if self._py_func not in ours:  # whatever it needs
            return load(self, sig, target_context)
        with uncollected(), self._guard_against_spurious_io_errors():
            rtsys.initialize(target_context)
            return self._load_overload(sig, target_context)

    Cache.load_overload = load_overload


def depend_on(made: Any, sources: str) -> None:
    """Let what is on the disk of a function count as old where `sources` is not what it was then.

    Numba compares a stamp of the function's own file alone, of its time or of what it says.
    """
    file = getattr(vars(made)["_cache"], "_cache_file", None)  # none where nothing is cached
    if file is not None:
        file._source_stamp = file._source_stamp, sources


def uncollected_within(made: Any) -> None:
    """Let Python's collector of cycles rest while a function is compiled, or loaded."""
    made._compile_for_args = partial(_uncollected, made._compile_for_args)


def _uncollected(compile_for: Any, *args: Any, **kwargs: Any) -> Any:
    with uncollected():
        return compile_for(*args, **kwargs)


def inner_only(made: Any, name: str) -> None:
    """Let only compiled functions call one, with any numbers, also a constant's."""
    from numba import types

    found = made.get_call_template

    def of_any_number(args: Any, kws: Any) -> Any:
        return found(tuple(map(widened, args)), {k: widened(v) for k, v in kws.items()})

    def widened(kind: Any) -> Any:
        if isinstance(kind, types.IntegerLiteral | types.Tuple):  # or a tuple with some
            return types.unliteral(kind)
        return kind

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{name} is called by compiled functions only")

    made.get_call_template = of_any_number
    # Without a wrapper a call from Python would jump to address 0: none is ever found.
    made._insert = lambda *args, **kwargs: None
    made._compile_for_args = refuse


def compiling() -> tuple[Any, ...]:
    """The functions by which Numba's compiler begins."""
    from numba.core.ccallback import CFunc
    from numba.core.dispatcher import Dispatcher

    dispatcher: Any = Dispatcher
    methods = dispatcher._compile_for_args, dispatcher.typeof_pyval, CFunc.compile
    return *methods, _uncollected
