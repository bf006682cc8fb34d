"""Run the notebooks of docs/examples, and keep what their cells print and draw beside them.

    python docs/make_examples.py                all of them, two minutes
    python docs/make_examples.py fit-a-mesh

The site shows them as pages with these outputs; the notebooks are kept without.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import json
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from make_figures import DOCS, main
from PIL import Image

from building.notebooks import run

EXAMPLES = DOCS / "examples"
# Enough for smooth shading.
COLOURS = 64
# Pixels at least: small pictures are enlarged by a whole number.
WIDTH = 360


def example(notebook: Path) -> None:
    """Run one notebook; write NAME.json and NAME-CELL-NUMBER.png."""
    for old in EXAMPLES.glob(f"{notebook.stem}-*-*.png"):
        if old.stem.removeprefix(notebook.stem).replace("-", "").isdigit():
            old.unlink()
    texts: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        # As in the repository, but for what they write.
        (Path(folder) / "assets").symlink_to(DOCS.parent / "assets")
        before = Path.cwd()
        os.chdir(folder)
        try:
            for number, output in run(notebook):
                if output.text:
                    texts[str(number)] = output.text
                for k, picture in enumerate(output.pictures):
                    save(picture, EXAMPLES / f"{notebook.stem}-{number}-{k}.png")
        finally:
            os.chdir(before)
    text = json.dumps(texts, indent=1, ensure_ascii=False) + "\n"
    notebook.with_suffix(".json").write_text(text, encoding="utf-8")
    print(f"docs/examples/{notebook.stem}: {len(texts)} texts")


def save(picture: Image.Image, path: Path) -> None:
    """Write a picture in few colours, enlarged if it is small."""
    times = max(1, round(WIDTH / picture.width))
    large = picture.resize(
        (picture.width * times, picture.height * times), Image.Resampling.NEAREST
    )
    large.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


FIGURES: dict[str, Callable[[], None]] = {
    path.stem: partial(example, path) for path in sorted(EXAMPLES.glob("*.ipynb"))
}


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "agg")
    main(__doc__, FIGURES)
