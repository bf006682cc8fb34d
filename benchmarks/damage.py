"""What wrong masks and poses do to a fit: a few photos of a folder damaged in several ways.

    python benchmarks/damage.py FOLDER --masks MASKS --out docs/results --docs

The masks that contradict the others are left out, as `gendr fit` does it, and then all are used.
Each fit is compared with all masks as they were.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from rows import Rows, make_parser, measured_on
from scipy.ndimage import gaussian_filter
from torch import Tensor
from torch.nn.functional import interpolate

import gendr
from gendr import visual
from gendr.losses import iou
from gendr.mesh import Camera, Views, example, load_views
from gendr.mesh.doubts import doubtful_masks
from lab.pages import fill, table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "results" / "photos.md"
# The kinds of damage, and how many photos have it.
KINDS = {
    "nothing": 0, "shadow": 3, "cut": 3, "shifted": 3, "empty": 3, "of another side": 3,
    "turned by 5°": 2, "blurred": 1, "of another object": 1,
}  # fmt: skip
SIZE, STEPS = 256, 40
BLUR = 6.0  # pixels, standard deviation


def damaged(views: Views, kind: str, rows: list[int]) -> tuple[Tensor, Camera]:
    """Masks and cameras of which some are wrong."""
    masks, camera = views.masks.clone(), views.camera
    turns, shifts = camera.rotation.clone(), camera.translation.clone()
    for i in rows:
        y, x = (masks[i] > 0.5).nonzero().unbind(1)
        top, bottom, left, right = int(y.min()), int(y.max()), int(x.min()), int(x.max())
        if kind == "shadow":
            low = bottom - (bottom - top) // 8
            masks[i, low : bottom + 3, max(0, left - 20) : right + 20] = 1
        elif kind == "cut":
            masks[i, : top + (bottom - top) // 4] = 0
        elif kind == "shifted":
            masks[i] = masks[i].roll((8, 12), (0, 1))
        elif kind == "empty":
            masks[i] = 0
        elif kind == "of another side":
            masks[i] = views.masks[(i + len(masks) // 2) % len(masks)].flip(1)
        elif kind == "blurred":
            soft = gaussian_filter(masks[i].numpy(), BLUR)
            masks[i] = torch.from_numpy(soft > 0.5).to(masks)
        elif kind == "of another object":
            eye = gendr.look_at(2.732, 30, 40)
            (seen,) = visual.silhouettes(example("chair"), eye, views.image_size)
            y, x = (seen > 0.5).nonzero().unbind(1)
            cut = seen[int(y.min()) : int(y.max()) + 1, int(x.min()) : int(x.max()) + 1]
            place = bottom + 1 - top, right + 1 - left
            masks[i] = 0
            masks[i, top : bottom + 1, left : right + 1] = interpolate(cut[None, None], place)[0, 0]
        else:
            turn = gendr.axis_angle_to_matrix(torch.tensor([[0.0, 0.0873, 0.0]]))[0].to(turns)
            turns[i], shifts[i] = turn @ turns[i], turn @ shifts[i]
    return masks, Camera(turns, shifts, camera.focal, camera.principal)


def score(views: Views, masks: Tensor, camera: Camera, rows: list[int]) -> float | None:
    """The mean IoU, with all masks as they were, of a fit to some; None if there is no hull."""
    try:
        mesh = gendr.fit(masks[rows], camera[rows], init="hull", steps=STEPS).mesh
    except ValueError:
        return None
    seen = visual.silhouettes(mesh, views.camera, views.image_size)
    return float(iou(seen, (views.masks > 0.5).to(seen)).mean())


def main() -> None:
    """Measure, print, and write files."""
    parser = make_parser(__doc__, "damage.json")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--masks", type=Path)
    parser.add_argument("--docs", action="store_true", help="write docs/results/photos.md")
    args = parser.parse_args()
    views = load_views(args.folder, masks=args.masks, size=SIZE)
    count = len(views)
    rows = Rows()
    for kind, damages in KINDS.items():
        wrong = [count // 7, count // 2 - 1, 3 * count // 4 + 1][:damages]
        masks, camera = damaged(views, kind, wrong)
        found = doubtful_masks(camera, masks)
        kept = [i for i in range(count) if i not in found]
        row: dict[str, Any] = {
            "damage": kind, "wrong": len(wrong),
            "named": len(set(found) & set(wrong)), "others": len(set(found) - set(wrong)),
            "without": score(views, masks, camera, kept),
            "with all": score(views, masks, camera, list(range(count))) if found else None,
        }  # fmt: skip
        rows.add(row)
    facts = {"photos": args.folder.name, "views": count, "image_size": SIZE, **measured_on()}
    rows.write(args.out, "damage.json", **facts)
    if args.docs:
        cells = [
            [row["damage"], f"{row['named']} of {row['wrong']}", str(row["others"]),
             *("" if row[key] is None else f"{row[key]:.3f}" for key in ("without", "with all"))]
            for row in rows.rows
        ]  # fmt: skip
        head = ["damage", "named", "others named", "IoU without them", "IoU with all"]
        where = f"{facts['date']}, commit {facts['commit']}, {facts['machine']}."
        fill(PAGE, "damage", [*table(head, cells, left=1), "", where])


if __name__ == "__main__":
    main()
