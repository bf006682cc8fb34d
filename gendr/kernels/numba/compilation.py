"""Whether Numba works here, how it compiles kernels, and where they are cached.

Numba caches kernels beside the source or in the user's cache folder, and refuses to work if it can
write to neither, as in a container with a read-only file system. In that case we give it a
temporary folder, and every process compiles anew.

It compiles a kernel anew if the kernel's own file has changed, but not if one has whose functions
are a part of the kernel: we count these as well.

Compiling takes some seconds, which a line on stderr explains. It is a warning of the logger
"gendr": `logging.getLogger("gendr").setLevel("ERROR")` silences it.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from hashlib import sha256
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
_announced: set[str] = set()  # modules whose compilation is told
# Of all that we compile: a division by 0 gives an infinity, without a branch that raises.
_OPTIONS = {"cache": True, "error_model": "numpy"}


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

    options = {"nogil": True, "no_cfunc_wrapper": True, **_OPTIONS, **options}
    make: Any = njit(**options)

    def decorate(function: Callable[..., Any]) -> Any:
        from gendr.kernels.compat.numba import uncollected_within

        _prepare(function.__module__)
        made = renewed(make(ours(function)), function.__code__.co_filename)
        uncollected_within(made)
        return made

    return decorate


def inner(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function that only compiled functions call, with the first of them.

    Numba would give each a second function that takes Python's objects, and a third for C, which
    take as long to compile as a short function itself; and it would compile one anew for every
    whole number that is a constant where it is called, such as the 0 from which a loop starts.

    Args:
        **options: further ones of `numba.njit`; `cache=False` for what has no file.
    """
    from numba import njit

    from gendr.kernels.compat.numba import inner_only

    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **_OPTIONS, **options}
    make: Any = njit(**options)

    def decorate(function: Callable[..., Any]) -> Any:
        _prepare(function.__module__)
        made = renewed(make(ours(function)), function.__code__.co_filename)
        inner_only(made, function.__name__)
        return made

    return decorate


_IMPORT = re.compile(r"^from (gendr(?:\.\w+)*) import \(?([\w\s,]*)", re.MULTILINE)


def renewed(made: Any, file: str) -> Any:
    """What Numba made of a function in a file, to be compiled anew if what it imports changes."""
    from gendr.kernels.compat.numba import depend_on

    depend_on(made, sources(file))
    return made


@cache
def sources(file: str, root: Path = Path(__file__).parents[2]) -> str:
    """A digest of a file and of those that it imports from gendr where it begins, and these so on.

    Args:
        file: its path; what is no file depends on nothing.
        root: the folder of gendr.
    """
    found: dict[Path, str] = {}
    ahead = [Path(file)]
    while ahead:
        path = ahead.pop()
        if path not in found and path.is_file():
            found[path], imported = _imported(path, root)
            ahead += imported
    return sha256("".join(sorted(found.values())).encode()).hexdigest()


@cache
def _imported(path: Path, root: Path) -> tuple[str, list[Path]]:
    """A digest of a file, and where what it imports from gendr may be."""
    text = path.read_text(encoding="utf-8")
    ahead: list[Path] = []
    for module, names in _IMPORT.findall(text):
        place = root.joinpath(*module.split(".")[1:])
        ahead += [place.with_suffix(".py"), place / "__init__.py"]
        ahead += [place / f"{name}.py" for name in re.findall(r"\w+", names)]
    return sha256(text.encode()).hexdigest(), ahead


@cache
def _prepare(module: str) -> None:
    """What there must be before anything of a module is compiled."""
    ensure_cache()
    announce_compilation(module)


def ensure_cache() -> None:
    """Give Numba a cache folder that it can write to, if it has none; `kernel` and `inner` do it.

    Call it before compiling by other means.
    """
    _find_cache()
    _change_numba()
    if sys.modules.get("torch") is not None:
        from gendr.kernels.compat import numba, torch

        torch.leave_out_dynamo(numba.compiling())


@cache
def _change_numba() -> None:
    from gendr.kernels.compat import numba

    numba.forget_other_versions()
    numba.load_without_compiler(_ours)


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


def announce_compilation(module: str) -> None:
    """Log one line, once, when a function of a module is not in the cache and gets compiled."""
    _listen()
    _announced.add(module)


@cache
def _listen() -> None:
    """Hear of the passes of Numba's compiler, of which there are some ten thousand, only once."""
    from numba.core import event

    class Announcement(event.Listener):
        def on_start(self, event: Any) -> None:
            # Functions from the cache go through no pass of the compiler.
            if event.data["module"] in _announced:
                _log_compilation()

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:run_pass", Announcement())


@cache
def _log_compilation() -> None:
    logging.getLogger("gendr").warning(
        "gendr: compiling the CPU kernels for this machine, which takes up to 15 seconds"
    )
