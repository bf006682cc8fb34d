"""Pictures of data sets and of predictions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gendr.mesh import Mesh, look_at
from gendr.photos import visual
from gendr.rendering import Renderer
from lab.reconstruction.classes import find_class
from lab.reconstruction.evaluation import voxel_iou
from lab.reconstruction.making import DESCRIPTION
from lab.reconstruction.model import Reconstructor
from lab.reconstruction.renderings import (
    DISTANCE,
    ELEVATION,
    FOV,
    SPLITS,
    VIEWS,
    ShapeNetRenderings,
    camera_of_view,
)

TILE, GAP, MARGIN = 112, 8, 16  # pixels
COLUMNS, SHAPES = 8, 32
FIRST = 1  # the view that shapes are shown from
# Azimuths at which a prediction is shown, relative to the view that fits its input.
SIDES, SIDE_NAMES = (0.0, 90.0, 180.0), ("from there", "from a side", "from behind")
PREDICTION = 168  # pixels of a picture of a prediction
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


def prediction_sheet(name: str, image: Tensor, mesh: Mesh) -> visual.Pixels:
    """A prediction: the input, the silhouette of the mesh on it, and the mesh from three sides.

    Args:
        name: of the image.
        image: the input of the network, RGBA [4, H, W] in [0, 1].
        mesh: in the cube [-1/2, 1/2]³. The network learns shapes in a frame of their own, and does
            not say from where it saw them; so the silhouette is that of the view which fits best.
    """
    view, silhouette, iou = best_view(image[3], mesh)
    azimuth = -360.0 / VIEWS * view
    around = look_at(DISTANCE, ELEVATION, torch.tensor([azimuth + side for side in SIDES]), FOV)
    side = PREDICTION
    pictures = [
        _enlarged(image, side),
        visual.difference(*(_large(mask, side) for mask in (image[3], silhouette))),
        *visual.shaded(mesh, around, side, visual.FIT),
    ]
    labels = ("input", f"silhouettes, IoU {iou:.2f}", *SIDE_NAMES)
    step, top = side + GAP, 54
    page = visual.Page(2 * MARGIN + len(pictures) * step - GAP, top + side + 72)
    page.text(MARGIN, 16, name, 18)
    for k, (pixels, label) in enumerate(zip(pictures, labels, strict=True)):
        x = MARGIN + k * step
        page.tile(pixels, x, top)
        page.text(x + side // 2, top + side + 8, label, 12, visual.FAINT, "ma")
    legend = ((visual.BOTH, "both"), (visual.TARGET, "input"), (visual.FIT, "mesh"))
    _legend(page, MARGIN + step, top + side + 38, legend, 62)
    return page.pixels()


@torch.no_grad()
def evaluation_sheet(
    model: Reconstructor, data: ShapeNetRenderings, title: str, count: int = 6
) -> visual.Pixels:
    """Predictions of shapes whose truth is known, a row for each.

    A row shows the input, the predicted and the true silhouette in the view of the input, the
    predicted mesh from three sides, and the truth from the same sides.

    Args:
        model: it is set to evaluation.
        data: the shapes are spread over it, always the same.
        title: what stands above.
        count: how many, if there are so many shapes.
    """
    shapes = torch.tensor(visual.spread(len(data), count))
    views = torch.arange(len(shapes)) * 5 % VIEWS  # from different sides
    images = data.images(shapes, views)
    meshes = model.eval().mesh(images.to(next(model.parameters()).device)).to("cpu")
    ious = voxel_iou(meshes, data.voxels(shapes)).tolist()
    renderer = Renderer(data.side, "heaviside", "max", near=0.1, far=10.0)
    silhouettes = renderer(meshes, camera_of_view(views)).alpha
    # The views of the data are a turn of 15 degrees apart, against the sense of the azimuth.
    around = torch.tensor([round(-side * VIEWS / 360) for side in SIDES])
    side, step, top = TILE, TILE + GAP, 96
    width = 2 * MARGIN + (2 + 2 * len(SIDES)) * step - GAP + 2 * GAP
    page = visual.Page(width, top + len(shapes) * step + 2 * MARGIN + 12)
    page.text(MARGIN, 14, title, 20)
    heads = ("input", "silhouettes", *SIDE_NAMES, *SIDE_NAMES)
    lefts = [
        MARGIN + k * step + GAP * ((k >= 2) + (k >= 2 + len(SIDES))) for k in range(len(heads))
    ]
    page.text(lefts[2], top - 48, "prediction", 13)
    page.text(lefts[2 + len(SIDES)], top - 48, "truth", 13)
    for x, head in zip(lefts, heads, strict=True):
        page.text(x + side // 2, top - 24, head, 12, visual.FAINT, "ma")
    for row, (shape, view) in enumerate(zip(shapes, views, strict=True)):
        sides = (view + around) % VIEWS
        found = _large(silhouettes[row], side)
        pictures = [
            _enlarged(images[row], side),
            visual.difference(_large(images[row, 3], side), found),
            *visual.shaded(meshes[row], camera_of_view(sides), side, visual.FIT),
            *(_enlarged(image, side) for image in data.images(shape.expand(len(sides)), sides)),
        ]
        y = top + row * step
        for x, pixels in zip(lefts, pictures, strict=True):
            page.tile(pixels, x, y)
        page.text(lefts[1] + side // 2, y + side - 12, f"3D IoU {ious[row]:.2f}", 11,
                  visual.FAINT, "ma")  # fmt: skip
    y = top + len(shapes) * step + 8
    _legend(page, MARGIN, y, ((visual.BOTH, "both"), (visual.TARGET, "truth only"),
                              (visual.FIT, "prediction only")), 110)  # fmt: skip
    return page.pixels()


def _legend(
    page: visual.Page, x: int, y: int, entries: Sequence[tuple[visual.Color, str]], step: int
) -> None:
    """Boxes of colours beside each other, each with what it stands for."""
    for k, (color, text) in enumerate(entries):
        page.box(x + k * step, y, 12, 12, color)
        page.text(x + k * step + 17, y + 6, text, 12, visual.INK, "lm")


@torch.no_grad()
def silhouette_sheet(model: Reconstructor, data: ShapeNetRenderings, count: int = 6) -> Tensor:
    """Some images of a data set with the silhouettes predicted from them, as one small picture.

    Args:
        model: it is set to evaluation.
        data: the images are of shapes and views spread over it, always the same.
        count: how many, if there are so many shapes.

    Returns:
        uint8 RGB [3, count * S, 3 * S] on the CPU: from left to right the input on white, the
        silhouette of the predicted mesh in the view of the input, and the true one.
    """
    shapes = torch.tensor(visual.spread(len(data), count))
    views = torch.arange(len(shapes)) * VIEWS // len(shapes)
    images = data.images(shapes, views)
    meshes = model.eval().mesh(images.to(next(model.parameters()).device))
    renderer = Renderer(data.side, "heaviside", "max", near=0.1, far=10.0).to(meshes.device)
    found = renderer(meshes, camera_of_view(views.to(meshes.device))).alpha.cpu()
    colour, mask = images[:, :3], images[:, 3:]
    columns = (colour * mask + 1 - mask, found.unsqueeze(1).expand_as(colour),
               mask.expand_as(colour))  # fmt: skip
    rows = torch.cat(columns, -1).permute(1, 0, 2, 3).flatten(1, 2)
    return (rows.clamp(0, 1) * 255).round().to(torch.uint8)


def best_view(mask: Tensor, mesh: Mesh) -> tuple[int, Tensor, float]:
    """The view of the 24 in which the silhouette of a mesh is nearest to a mask [H, H].

    Returns:
        The number of the view, the silhouette [H, H] and its IoU with the mask.
    """
    size = (len(mask), len(mask))
    cameras = camera_of_view(torch.arange(VIEWS, device=mesh.device))
    with torch.no_grad():
        found = Renderer(size, "heaviside", "max", near=0.1, far=10.0)(mesh, cameras).alpha
    mask = mask.to(found)
    both = torch.minimum(found, mask).sum((1, 2))
    either = torch.maximum(found, mask).sum((1, 2))
    iou = both / either.clamp(min=1e-6)
    view = int(iou.argmax())
    return view, found[view], float(iou[view])


def _large(mask: Tensor, side: int) -> NDArray[np.float64]:
    """A mask [H, W], enlarged with its pixels visible."""
    from PIL import Image

    values = (mask.detach().cpu().clamp(0, 1) * 255).round().to(torch.uint8).numpy()
    enlarged = Image.fromarray(values).resize((side, side), Image.Resampling.NEAREST)
    return np.asarray(enlarged) / 255.0
