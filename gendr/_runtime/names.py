"""Names that a user may have misspelt. Imports nothing heavy: the command line needs it at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_FEW = 12  # names that a message lists whole


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
