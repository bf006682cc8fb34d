"""What every renderer of the family fitted, all in one image: each has its place in it.

Columns are the distributions of the benchmark, first the plain ones, then the squared ones; rows
are its T-conorms, and in the last row the mean in their place. A place that is white is empty.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np

from gendr._common.files import write_whole
from gendr.distributions import benchmark_distributions
from gendr.photos.visual import PAPER, Pixels
from gendr.tnorms import benchmark_tconorms
from lab.studies.scene import as_png

# Grey levels and shades of one colour: with so many in all, an eye sees no steps.
COLOURS = 24


@cache
def places() -> dict[str, tuple[int, int]]:
    """Row and column of every renderer by its name."""
    dists = [str(dist) for dist in benchmark_distributions()]
    columns = [*dists, *(f"{distribution}.squared" for distribution in dists)]
    rows = [*(str(conorm) for conorm in benchmark_tconorms()), "average"]
    return {f"{x}/{y}": (i, j) for i, y in enumerate(rows) for j, x in enumerate(columns)}


def pictures_of(folder: Path, task: str, number: int) -> Path:
    """The file with the pictures of a round of a task, beside the tables."""
    return folder / f"{task}-{number}.png"


def read_pictures(path: Path) -> dict[str, bytes]:
    """The pictures of a file by the names of the renderers, as PNG files; none if it is not there.

    Raises:
        ValueError: if it is no such image.
    """
    if not path.exists():
        return {}
    from PIL import Image

    whole = np.asarray(Image.open(path).convert("RGB"))
    rows, columns = (1 + max(each) for each in zip(*places().values(), strict=True))
    side = whole.shape[1] // columns
    if whole.shape[:2] != (rows * side, columns * side):
        raise ValueError(f"{path} has no room for {rows} x {columns} pictures of one size")
    found: dict[str, bytes] = {}
    for name, (i, j) in places().items():
        cell = whole[i * side : (i + 1) * side, j * side : (j + 1) * side]
        if (cell != PAPER).any():
            found[name] = as_png(np.ascontiguousarray(cell))
    return found


def write_pictures(path: Path, pictures: Mapping[str, bytes]) -> None:
    """Write pictures, square PNG files of one size, by the names of the renderers."""
    from PIL import Image

    cells: dict[str, Pixels] = {
        name: np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
        for name, png in pictures.items()
    }
    side = len(next(iter(cells.values())))
    rows, columns = (1 + max(each) for each in zip(*places().values(), strict=True))
    whole = np.full((rows * side, columns * side, 3), PAPER, np.uint8)
    for name, cell in cells.items():
        i, j = places()[name]
        whole[i * side : (i + 1) * side, j * side : (j + 1) * side] = cell
    image = Image.fromarray(whole).quantize(COLOURS, dither=Image.Dither.NONE)
    write_whole(path, lambda file: image.save(file, "PNG", optimize=True))
