"""What wrong masks and poses do to a fit: a few photos of a folder damaged in several ways.

    python benchmarks/damage.py FOLDER --masks MASKS --out docs/results --docs
    python benchmarks/damage.py --command assets/photos --out docs/results --docs

The masks that contradict the others are left out, as `gendr fit` does it, and then all are used.
Each fit is compared with all masks as they were. With --command one photo of a folder with masks in
alpha is damaged, and the whole command makes a mesh of three of four photos: the others judge it.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from real_photos import copied, entries, measured
from rows import Rows, make_parser, measured_on
from scipy.ndimage import gaussian_filter
from torch import Tensor
from torch.nn.functional import interpolate

import gendr
from gendr.cli import main as run_command
from gendr.losses import iou
from gendr.mesh import Camera, Mesh, example
from gendr.photos import Views, load_views, visual
from gendr.photos.fitting.colors.light import HarmonicLight
from gendr.photos.suspicious_masks import suspicious_masks
from lab.pages import fill, table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "results" / "photos.md"
# The kinds of damage, and how many photos have it.
KINDS = {
    "nothing": 0, "shadow": 3, "cut": 3, "shifted": 3, "empty": 3, "of another side": 3,
    "turned by 5°": 2, "blurred": 1, "of another object": 1,
}  # fmt: skip
COMMAND_KINDS = ("nothing", "blurred", "of another object")
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


def spoilt(image: Any, kind: str, camera: Camera, place: Mesh | None) -> Any:
    """A photo [H, W, 4] in 0 .. 255, damaged.

    Args:
        image: with its mask in alpha.
        kind: of the damage.
        camera: of the photo.
        place: where another object would stand.
    """
    image = image.astype(np.float64)
    alpha = image[..., 3:] / 255
    layers = np.concatenate([image[..., :3] * alpha, image[..., 3:]], 2)  # as a lens mixes them
    if kind == "blurred":
        width = BLUR * min(image.shape[:2]) / SIZE
        layers = gaussian_filter(layers, (width, width, 0))
    elif place is not None:
        chair = example("chair").normalized()
        low, high = place.bounding_box()
        own = chair.bounding_box()
        scale = float(((high - low) / (own[1] - own[0])).min())
        there = (chair.vertices - (own[0] + own[1]) / 2) * scale + (low + high) / 2
        seen = Mesh(there, chair.faces).with_vertex_colors(0.3 + 0.4 * torch.rand_like(there))
        rgb, cover = visual.render_views(seen, camera, image.shape[:2], {"lighting": "none"})
        layers = 255 * torch.cat([rgb[0], cover]).permute(1, 2, 0).double().numpy()
    alpha = layers[..., 3:] / 255
    layers[..., :3] /= alpha.clip(1e-3)
    return layers.clip(0, 255).round().astype(np.uint8)


def through_command(folder: Path) -> Rows:
    """What one damaged photo does to all that `gendr fit` makes of a folder."""
    listed, rows = entries(folder, None), Rows()
    views = load_views(folder)
    held = [i for i in range(len(listed)) if i % 4 == 3]
    kept = [i for i in range(len(listed)) if i not in held]
    wrong = kept[len(kept) // 3]
    truth: Mesh | None = None
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as work:
        for kind in COMMAND_KINDS:
            place = Path(work) / kind
            copied([listed[i] for i in kept], place)
            name = Path(listed[wrong]["file"]).name
            if kind != "nothing":
                image = np.asarray(Image.open(place / name).convert("RGBA"))
                damaged_one = spoilt(image, kind, views.camera[wrong], truth)
                Image.fromarray(damaged_one).save(place / name)
            if run_command(["fit", str(place), "-o", str(place / "out"), "--quiet"]):
                raise SystemExit(1)
            mesh = Mesh.load(place / "out" / "fit.glb")
            truth = mesh if truth is None else truth
            facts = json.loads((place / "out" / "metrics.json").read_text())
            names = {x.name for x in map(Path, facts["photos"])}
            blurred = {x.name for x in map(Path, facts["colors"]["blurred"])}
            named = name not in names - blurred
            found = facts["colors"]["light"]
            light = found and HarmonicLight(torch.tensor(found["coefficients"]), found["frame"])
            rows.add({"damage": kind, "named": named, **measured(mesh, views[held], light)})
    return rows


def command_lines(rows: list[dict[str, Any]]) -> list[str]:
    """The table of fits by the whole command."""
    head = ["one photo", "named", "IoU, left out", "of that without damage", "PSNR, left out, dB"]
    cells = [
        [
            row["damage"] if row["damage"] != "nothing" else "as it was",
            "yes" if row["named"] else "no", "{:.3f} ± {:.3f}".format(*row["iou"]),
            f"{row['iou'][0] / rows[0]['iou'][0]:.3f}",
            "{:.1f} ± {:.1f}".format(*row["psnr_object"]),
        ]
        for row in rows
    ]  # fmt: skip
    return table(head, cells, left=1)


def main() -> None:
    """Measure, print, and write files."""
    parser = make_parser(__doc__, "damage.json")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--masks", type=Path)
    parser.add_argument("--command", type=Path, help="a folder for the whole command")
    parser.add_argument("--docs", action="store_true", help="write docs/results/photos.md")
    args = parser.parse_args()
    if args.command:
        done = through_command(args.command)
        facts = {"photos": args.command.name, **measured_on()}
        done.write(args.out, "damage-command.json", **facts)
        if args.docs:
            where = f"{facts['date']}, commit {facts['commit']}, {facts['machine']}."
            fill(PAGE, "damage-command", [*command_lines(done.rows), "", where])
    if args.folder is None:
        return
    views = load_views(args.folder, masks=args.masks, size=SIZE)
    count = len(views)
    rows = Rows()
    for kind, damages in KINDS.items():
        wrong = [count // 7, count // 2 - 1, 3 * count // 4 + 1][:damages]
        masks, camera = damaged(views, kind, wrong)
        found = suspicious_masks(camera, masks)
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
