"""The notebooks of the documentation: run without Jupyter, and as pages of the site.

What their cells print and draw stands beside them, NAME.json and NAME-CELL.png, made by
docs/make_examples.py; the notebooks themselves are kept without output.
"""

from __future__ import annotations

import ast
import io
import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

# Dots an inch of figures: half the width of a page.
DPI = 80


class Cell(NamedTuple):
    """A cell of a notebook.

    Attributes:
        kind: "code" or "markdown".
        text: its source.
    """

    kind: str
    text: str


class Output(NamedTuple):
    """What a cell of code came to.

    Attributes:
        text: what it printed, and the representation of its last expression.
        pictures: the figures it showed, and the image that its last expression is.
    """

    text: str
    pictures: list[Image.Image]


def cells(path: Path) -> list[Cell]:
    """The cells of a notebook, in order."""
    book = json.loads(path.read_text(encoding="utf-8"))
    return [Cell(cell["cell_type"], "".join(cell["source"])) for cell in book["cells"]]


def title(path: Path) -> str:
    """The heading that a notebook begins with."""
    return cells(path)[0].text.partition("\n")[0].removeprefix("#").strip()


def run(path: Path) -> Iterator[tuple[int, Output]]:
    """Run a notebook from top to bottom, in the present folder.

    Matplotlib must draw without a window: MPLBACKEND=agg.

    Yields:
        The number of each cell of code among all cells, and what it came to.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells(path)):
        if cell.kind == "code":
            yield number, _run(cell.text, f"{path.name}, cell {number}", names)


def _run(text: str, where: str, names: dict[str, Any]) -> Output:
    body = ast.parse(text, where)
    last = body.body[-1] if body.body else None
    if isinstance(last, ast.Expr):
        del body.body[-1]
    value: Any = None
    pictures: list[Image.Image] = []
    printed = io.StringIO()
    with redirect_stdout(printed), _shown_figures(pictures):
        exec(compile(body, where, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)
    if isinstance(value, Image.Image):
        pictures.append(value.convert("RGB"))
    elif value is not None:
        printed.write(f"{value!r}\n")
    return Output(printed.getvalue(), pictures)


@contextmanager
def _shown_figures(pictures: list[Image.Image]) -> Generator[None, None, None]:
    """Inside, `pyplot.show` puts the open figures into a list, and closes them."""
    from matplotlib import pyplot

    def show() -> None:
        for number in pyplot.get_fignums():
            file = io.BytesIO()
            pyplot.figure(number).savefig(file, dpi=DPI, bbox_inches="tight")
            pictures.append(Image.open(file).convert("RGB"))
        pyplot.close("all")

    before, pyplot.show = pyplot.show, show
    try:
        yield
    finally:
        pyplot.show = before


def as_markdown(path: Path) -> str:
    """A notebook with what its cells came to, as a page that stands in its folder."""
    found = path.with_suffix(".json")
    texts = json.loads(found.read_text(encoding="utf-8")) if found.is_file() else {}
    lines: list[str] = []
    for number, cell in enumerate(cells(path)):
        if cell.kind == "markdown":
            lines += [cell.text, ""]
            if number == 0:
                lines += [f"[This page as a notebook]({path.name}){{ download }}", ""]
            continue
        lines += ["```python", cell.text, "```", ""]
        if text := texts.get(str(number)):
            lines += ["```text", text.rstrip("\n"), "```", ""]
        for picture in sorted(path.parent.glob(f"{path.stem}-{number}-*.png")):
            lines += [f"![What the lines above show]({picture.name})", ""]
    return "\n".join(lines)
