"""Tables: those of the papers, and those that scripts write into pages of the documentation."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def published(name: str) -> Any:
    """A table of the thesis, from published.json."""
    text = (Path(__file__).parent / "published.json").read_text(encoding="utf-8")
    return json.loads(text)[name]


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


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int | None = None) -> list[str]:
    """The lines of a Markdown table, whose columns behind the first `left` are right-aligned."""
    left = len(head) if left is None else left
    marks = ["---"] * left + ["---:"] * (len(head) - left)
    return [f"| {' | '.join(line)} |" for line in (head, marks, *rows)]


def anchor(heading: str) -> str:
    """The anchor of a heading, as common Markdown hosts make it: "All 1242" -> "all-1242"."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def order(index: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """The sections of a page that lists other pages, and of each the pages (title, path).

    A section begins at a heading of level 2. A page counts where its list item begins with a link
    to it; the first one counts.
    """
    sections: list[tuple[str, list[tuple[str, str]]]] = [("Pages", [])]
    seen: set[str] = set()
    for line in index.splitlines():
        if line.startswith("## "):
            sections.append((line[3:].strip(), []))
        elif match := re.match(r"(?:-|\d+\.) +\**\[([^\]]+)\]\(([^)#:]+\.md)\)", line):
            if match[2] not in seen:
                seen.add(match[2])
                sections[-1][1].append((match[1], match[2]))
    return [section for section in sections if section[1]]
