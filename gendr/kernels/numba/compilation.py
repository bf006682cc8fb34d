"""Whether Numba works here, how it compiles kernels, and where they are cached.

Numba caches kernels beside the source or in the user's cache folder, and refuses to work if it can
write to neither, as in a container with a read-only file system. In that case we give it a
temporary folder, and every process compiles anew.

Compiling takes some seconds, which a line on stderr explains. It is a warning of the logger
"gendr": `logging.getLogger("gendr").setLevel("ERROR")` silences it.
"""

from __future__ import annotations

import atexit
import inspect
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from gendr._common.names import uncollected

if TYPE_CHECKING:  # a saved circuit runs without torch
    from torch import Tensor


@cache
def available() -> str | None:
    """None if Numba can be imported, else the reason."""
    try:
        with uncollected():
            import_module("numba")
    except ImportError as error:
        return f"the cpu backend needs Numba, which failed to import ({error}); pip install numba"
    return None


def supports(tensor: Tensor) -> bool:
    """Whether the tensor is on the CPU."""
    return tensor.device.type == "cpu"


_ours: WeakSet[Any] = WeakSet()


def ours(function: Any) -> Any:
    """The function, which will be loaded from the disk without what other people's may need."""
    _ours.add(function)
    return function


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function that Python calls, at its first call; it leaves the lock of Python.

    Args:
        **options: further ones of `numba.njit`.
    """
    from numba import njit

    options = {"cache": True, "nogil": True, "no_cfunc_wrapper": True, **options}
    make: Any = njit(**options)
    return lambda function: make(ours(function))


def inner(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function that only compiled functions call, with the first of them.

    Numba would give each a second function that takes Python's objects, and a third for C, which
    take as long to compile as a short function itself; and it would compile one anew for every
    whole number that is a constant where it is called, such as the 0 from which a loop starts.

    Args:
        **options: further ones of `numba.njit`; `cache=False` for what has no file.
    """
    from numba import njit, types

    options = {"cache": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, **options}
    make: Any = njit(**options)

    def decorate(function: Callable[..., Any]) -> Any:
        made = make(ours(function))
        found = made.get_call_template

        def of_any_number(args: Any, kws: Any) -> Any:
            return found(tuple(map(widened, args)), {k: widened(v) for k, v in kws.items()})

        def widened(kind: Any) -> Any:
            if isinstance(kind, types.IntegerLiteral | types.Tuple):  # or a tuple with some
                return types.unliteral(kind)
            return kind

        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise TypeError(f"{function.__name__} is called by compiled functions only")

        made.get_call_template = of_any_number
        # Without a wrapper a call from Python would jump to address 0: none is ever found.
        made._insert = lambda *args, **kwargs: None
        made._compile_for_args = refuse
        return made

    return decorate


def ensure_cache() -> None:
    """Give Numba a cache folder that it can write to, if it has none; call before compiling."""
    _find_cache()
    _forget_other_versions()
    _load_without_compiler()
    if sys.modules.get("torch") is not None:
        _leave_out_dynamo()


@cache
def _forget_other_versions() -> None:
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


@cache
def _load_without_compiler() -> None:
    """Load our kernels from the disk without all that Numba can compile, which is long to import.

    They need no more than what allocates arrays. The compiler makes itself ready when it is asked.
    """
    from numba.core.caching import Cache
    from numba.core.runtime.nrt import rtsys

    load: Any = Cache.load_overload

    def load_overload(self: Any, sig: Any, target_context: Any) -> Any:
        if self._py_func not in _ours:  # whatever it needs
            return load(self, sig, target_context)
        with uncollected(), self._guard_against_spurious_io_errors():
            rtsys.initialize(target_context)
            return self._load_overload(sig, target_context)

    Cache.load_overload = load_overload


@cache
def _leave_out_dynamo() -> None:
    """Let `torch.compile` trace no frame of Numba's compiler.

    Around code that it cannot trace it looks at every function that this calls. In the compiler
    that takes minutes and ends in a RecursionError.
    """
    from numba.core.ccallback import CFunc
    from numba.core.dispatcher import Dispatcher
    from torch._C._dynamo import eval_frame

    skip = eval_frame._FrameAction.SKIP
    strategy = eval_frame._FrameExecStrategy(skip, skip)  # of the frame, and of all that it calls
    dispatcher: Any = Dispatcher
    for method in (dispatcher._compile_for_args, dispatcher.typeof_pyval, CFunc.compile):
        eval_frame.set_code_exec_strategy(inspect.unwrap(method).__code__, strategy)


@cache
def _find_cache() -> None:
    from numba import config

    if config.CACHE_DIR:  # pyright: ignore[reportAttributeAccessIssue]  # made at run time
        return
    if is_writable(Path(__file__).parent / "__pycache__"):
        return
    if is_writable(Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "numba"):
        return
    folder = tempfile.mkdtemp(prefix="gendr-numba-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    config.CACHE_DIR = folder  # pyright: ignore[reportAttributeAccessIssue]


def is_writable(folder: Path) -> bool:
    """Whether files can be made in `folder`; makes the folder if it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@cache
def announce_compilation(module: str) -> None:
    """Log one line, once, when a function of a module is not in the cache and gets compiled."""
    from numba.core import event

    class Announcement(event.Listener):
        def on_start(self, event: Any) -> None:
            # Functions from the cache go through no pass of the compiler.
            if event.data["module"] == module:
                _log_compilation()

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:run_pass", Announcement())


@cache
def _log_compilation() -> None:
    logging.getLogger("gendr").warning(
        "gendr: compiling the CPU kernels for this machine, which takes about 15 seconds"
    )
