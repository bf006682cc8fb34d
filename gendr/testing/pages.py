"""Tables that scripts write into the pages of the documentation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

__all__ = ["fill", "table"]


def fill(page: Path, name: str, lines: Sequence[str]) -> None:
    """Replace the lines between `<!-- begin NAME -->` and `<!-- end NAME -->` in a page.

    Raises:
        ValueError: if the page does not hold the two comments exactly once.
    """
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    old, body = page.read_text(encoding="utf-8"), "\n".join((begin, *lines, end))
    pattern = f"{re.escape(begin)}.*?{re.escape(end)}"
    new, count = re.subn(pattern, lambda _: body, old, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"{page} must hold the comments of {name} once, found {count}")
    page.write_text(new, encoding="utf-8")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table."""
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows)]
