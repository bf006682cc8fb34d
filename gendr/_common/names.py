"""Names: those a user may have misspelt, and those that are imported when they are first used.

Imports nothing heavy: the command line needs it at once.
"""

from __future__ import annotations

import ast
import difflib
import gc
import threading
import warnings
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from importlib import import_module
from os import path
from typing import Any

_FEW = 12  # names that a message lists whole
_frozen = False
_lock = threading.RLock()  # of the two below; a handler of signals may come between
_resting = 0  # how many are within `uncollected`
_was_on = False  # before the first of them


def nearest(value: object, allowed: Iterable[str], count: int = 3) -> list[str]:
    """The names most like `value`, best first; all of them if there are few."""
    names = sorted(allowed)
    if len(names) <= count:
        return names
    return difflib.get_close_matches(str(value), names, n=count, cutoff=0.4) or names


def unknown(name: str, value: object, allowed: Iterable[str]) -> str:
    """The message for a value that is none of the allowed names: the nearest first, of few all."""
    names = list(allowed)
    close = nearest(value, names)
    if len(names) <= _FEW:
        close += sorted({*names} - {*close})
    hint = "allowed" if len(close) == len(names) else "the nearest"
    return f"unknown {name} {value!r}; {hint}: {', '.join(close)}"


def warn_of_namesake(file: str) -> None:
    """Warn if the package of this `__init__.py` shares its folder with the paper's CUDA package.

    That one is called gendr on the package index too, and pip unpacks one over the other.
    """
    folder = path.dirname(file)
    if path.isdir(path.join(folder, "functional")):
        warnings.warn(
            f"{folder} also holds files of another package named gendr, the CUDA code of the "
            "paper: `pip uninstall gendr gendr-family`, then install the one that you want",
            RuntimeWarning,
            stacklevel=3,
        )


@contextmanager
def uncollected() -> Generator[None]:
    """Within it Python's collector of cycles rests, as long as something is imported.

    It would look through all that PyTorch or Numba make, again and again, and find nothing: that
    takes a tenth of the time. At the end all is old to it, for it would begin with just that.
    It is one for all threads: it rests until the last of those within is through.
    """
    global _resting, _was_on
    with _lock:
        _resting += 1
        if _resting == 1:
            _was_on = gc.isenabled()
            gc.disable()
    try:
        yield
    finally:
        with _lock:
            if _resting == 1 and _was_on:
                # Not if somebody has taken objects away from it; to count ours takes long.
                if not _frozen and not gc.get_freeze_count():
                    gc.freeze()
                    gc.unfreeze()  # into the oldest generation
                gc.enable()
            _resting -= 1


def freeze() -> None:
    """All that there is stays: Python's collector of cycles need not look at it again."""
    global _frozen
    gc.freeze()
    _frozen = True


def lazily(
    module: dict[str, Any],
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package whose names are imported at first use.

    They are the imports of the stub beside it, `__init__.pyi`, by which type checkers know them;
    `import a as a` hands a name on, and one without `as` can be read, but is not offered, as its
    modules can.

    Args:
        module: the globals of the package.

    Source: SPEC 1 of Scientific Python, Lazy Loading of Submodules and Functions, for the stub.
    """
    package: str = module["__name__"]
    homes: dict[str, tuple[str, str]] = {}
    offered: list[str] = []
    with open(f"{module['__file__']}i", encoding="utf-8") as file:
        tree = ast.parse(file.read())
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            homes |= {x.asname or x.name: (node.module, x.name) for x in node.names}
            offered += [x.asname for x in node.names if x.asname]

    def get(name: str) -> Any:
        home, known = homes.get(name, (package, name))
        with uncollected():
            if home != package:
                module[name] = getattr(import_module(home), known)
                return module[name]
            if name in homes or not name.startswith("_"):
                try:
                    return import_module(f"{package}.{known}")
                except ModuleNotFoundError as error:
                    if error.name != f"{package}.{known}":
                        raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted({*module, *homes}), sorted(offered)
