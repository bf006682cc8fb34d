"""Pictures of data sets and of predictions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gendr import visual
from gendr.reconstruction.classes import find_class
from gendr.reconstruction.making import DESCRIPTION
from gendr.reconstruction.renderings import SPLITS, VIEWS, ShapeNetRenderings

__all__ = ["dataset_sheet"]

TILE, GAP, MARGIN = 112, 8, 16  # pixels
COLUMNS, SHAPES = 8, 32
FIRST = 1  # the view that shapes are shown from
CUT = 18  # letters of a name


def dataset_sheet(folder: str | Path, name: str) -> visual.Pixels:
    """Some shapes of a class in one view each, and the first of them from all around.

    The pictures come from the files that training reads.

    Args:
        folder: of the data set.
        name: of the class.

    Raises:
        FileNotFoundError: if there is no such class.
    """
    folder = Path(folder)
    shape_class = find_class(name, [name])
    # A class may have no shapes in a split.
    splits = [s for s in SPLITS if (folder / f"{shape_class.id}_{s}_images.npz").is_file()]
    if not splits:
        raise FileNotFoundError(f"{folder} has no class {name!r}")
    data = {split: ShapeNetRenderings(folder, [shape_class.id], split) for split in splits}
    names = _names(folder, shape_class.id)
    places = [(split, k) for split, one in data.items() for k in range(len(one))]
    chosen = [places[i] for i in visual.spread(len(places), SHAPES)]
    rows = -(-len(chosen) // COLUMNS)
    step, head, top = TILE + GAP, 18, 74
    around_top = top + rows * (step + head) + 34
    width = 2 * MARGIN + COLUMNS * step - GAP
    page = visual.Page(width, around_top + 3 * step + MARGIN)
    page.text(MARGIN, 14, f"{shape_class.name}: {len(places)} shapes", 20)
    counts = "     ".join(f"{split} {len(one)}" for split, one in data.items())
    page.text(MARGIN, 44, counts, 13, visual.FAINT)
    for k, (split, number) in enumerate(chosen):
        x, y = MARGIN + k % COLUMNS * step, top + k // COLUMNS * (step + head)
        image = data[split].images(torch.tensor([number]), torch.tensor([FIRST]))[0]
        page.tile(_enlarged(image), x, y)
        label = names.get(split, {}).get(number, f"{split} {number}")
        page.text(x + TILE // 2, y + TILE + 2, _short(label), 10, visual.FAINT, "ma")
    split, number = chosen[0]
    label = names.get(split, {}).get(number, f"{split} {number}")
    page.text(MARGIN, around_top - 24, f"{label} from all sides", 13)
    views = torch.arange(VIEWS)
    images = data[split].images(torch.full((VIEWS,), number), views)
    for k, image in enumerate(images):
        x, y = MARGIN + k % COLUMNS * step, around_top + k // COLUMNS * step
        page.tile(_enlarged(image), x, y)
    return page.pixels()


def _names(folder: Path, class_id: str) -> dict[str, dict[int, str]]:
    """The names of shapes by split and number, as far as dataset.json has them."""
    path = folder / DESCRIPTION
    if not path.is_file():
        return {}
    shapes = json.loads(path.read_text()).get(class_id, {}).get("shapes", {})
    return {split: {k: s["name"] for k, s in enumerate(some)} for split, some in shapes.items()}


def _short(text: str) -> str:
    return text if len(text) <= CUT else text[: CUT - 1] + "…"


def _enlarged(image: Tensor, side: int = TILE) -> visual.Pixels:
    """An image [4, H, W] of straight colours in [0, 1], on white."""
    from PIL import Image

    alpha = image[3:]
    pixels = visual.composited((image[:3] * alpha)[None], alpha)[0]
    size = (side, side)
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC))
