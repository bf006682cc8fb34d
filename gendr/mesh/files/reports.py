"""Messages about a file: that it is damaged, or what was dropped."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager

# Notes that are given.
_SHOWN = 20


def note(notes: list[str], text: str) -> None:
    """Append a note once."""
    if text not in notes:
        notes.append(text)


def warn_of(what: str, notes: Sequence[str]) -> None:
    """Give all notes in one warning, if there are any; of very many the first."""
    more = [f"and {len(notes) - _SHOWN} more"] if len(notes) > _SHOWN else []
    if notes:
        warn_caller(f"{what}: {'; '.join([*notes[:_SHOWN], *more])}")


def warn_caller(message: str) -> None:
    """Warn with the line of the user's code that called into this package."""
    package = __name__.partition(".")[0]
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == package:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level - 1 if frame is None else level)


@contextmanager
def damage_named(path: object) -> Generator[None, None, None]:
    """Turn errors about the content of a file into a `ValueError` with the file's name."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
