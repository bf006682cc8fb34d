"""Texts of the languages, in files of their own, with @names@ for what a circuit gives."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files


@cache
def parts(file: str) -> dict[str, str]:
    """The parts of a file, by the words of the lines before them, which begin with `@@`."""
    text = files(__name__).joinpath(file).read_text(encoding="utf-8")
    pieces = re.split("^@@ (.*)\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(pieces[::2], pieces[1::2], strict=True))


def filled(file: str, part: str, **values: object) -> str:
    """A part of a file with these values, without the end of its last line."""
    return re.sub(r"@(\w+)@", lambda name: str(values[name[1]]), parts(file)[part][:-1])
