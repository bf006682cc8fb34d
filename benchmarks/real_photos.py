"""What real photographs become: `gendr fit` as it is typed, and photos that it has not seen.

    python benchmarks/real_photos.py FOLDER:EVERY ... --work WORK --docs

Of each folder every so many-th photo is left out. The rest is copied beside a file of its cameras,
those of the folder, or with FOLDER:EVERY:found those that `gendr cameras` finds in all photos. The
command fits them with its defaults. Then the mesh is drawn where the others were taken. Their masks
are those of the folder, or found in the same way as by the command.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from rows import measured_on

from gendr.cli import main as run_command
from gendr.losses import iou, psnr
from gendr.mesh import Camera, Mesh
from gendr.mesh.images import MAX_MEGAPIXELS
from gendr.photos import visual
from gendr.photos.camera_files.opencv import lens_entries
from gendr.photos.camera_files.transforms import lens_of, list_frames, read_cameras
from gendr.photos.fitting.colors.light import HarmonicLight
from gendr.photos.folders import open_folder
from gendr.photos.views import Views, load_views
from lab.pages import fill, table

ROOT = Path(__file__).resolve().parents[1]
PAGE, RESULTS = ROOT / "docs" / "photos.md", ROOT / "docs" / "results" / "real-photos.json"
MEASURES = ROOT / "docs" / "results" / "photos.md"
PICTURE = ROOT / "docs" / "images" / "real_photos.png"
SIZE, TILE = 512, 300
FITTED = "fitted.json"
# A command, and then what the most memory was that it held, of the Linux kernel's books. Not
# ru_maxrss, which a process inherits from the one that started it.
COMMAND = """
import sys
from pathlib import Path
from gendr.cli import main
status = main(sys.argv[1:])
books = Path("/proc/self/status")
sys.stdout.write(books.read_text() if books.exists() else "")
sys.exit(status)
"""


def entries(folder: Path, cameras: Path | None) -> list[dict[str, Any]]:
    """The photos with their cameras, as `cameras.json` has them."""
    read = read_cameras(folder, cameras)
    frames = list_frames(read, MAX_MEGAPIXELS)
    opened = open_folder(folder, 32, MAX_MEGAPIXELS, cameras)
    turns, shifts, _ = opened.cameras(torch.float64, "cpu").to_opencv(2)
    return [
        {"file": str(frame.image), "width": frame.size[1], "height": frame.size[0],
         **lens_entries(lens_of(read.meta, frame)), "R": turns[i].tolist(),
         "t": shifts[i].tolist()}
        for i, frame in enumerate(frames)
    ]  # fmt: skip


def are_copied(listed: list[dict[str, Any]], place: Path) -> bool:
    """Whether a folder is of these photos, as after an interruption, and not of others."""
    names = {Path(entry["file"]).name for entry in listed}
    return place.is_dir() and names == {path.name for path in place.iterdir()} - {"cameras.json"}


def copied(listed: list[dict[str, Any]], place: Path) -> None:
    """Write a folder of some of the photos."""
    place.mkdir(parents=True)
    kept = []
    for entry in listed:
        name = Path(entry["file"]).name
        shutil.copy(entry["file"], place / name)
        kept.append({**entry, "file": name})
    (place / "cameras.json").write_text(json.dumps({"images": kept}))


def drawn(mesh: Mesh, camera: Camera, size: Any, light: HarmonicLight | None) -> tuple[Any, Any]:
    """Views of a mesh, over black, in the light that the fit has found."""
    if light is not None:
        return light.views(mesh, camera, size)
    return visual.render_views(mesh, camera, size, {"lighting": "none"})


def measured(mesh: Mesh, held: Views, light: HarmonicLight | None) -> dict[str, Any]:
    """How well a mesh shows photos that it has not seen: means over them, and standard errors."""
    assert held.rgb is not None  # for the type checker
    rgb, alpha = drawn(mesh, held.camera, held.image_size, light)
    alpha = alpha.clamp(0, 1)
    both = torch.maximum(alpha, held.masks) > 0.5
    white, seen = rgb + 1 - alpha[:, None], held.rgb + 1 - held.masks[:, None]
    scores = {
        "iou": iou((alpha > 0.5).float(), (held.masks > 0.5).float()),
        "psnr_object": psnr(rgb, held.rgb, both), "psnr_white": psnr(white, seen),
    }  # fmt: skip
    return {
        name: [float(x.mean()), float(x.std() / len(x) ** 0.5)] for name, x in scores.items()
    } | {"images": len(held)}


def tiles(mesh: Mesh, held: Views, light: HarmonicLight | None, i: int) -> visual.Pixels:
    """A photo that was left out, the mesh from there, and its shape alone, side by side."""
    assert held.rgb is not None  # for the type checker
    window = visual.Closeup.of(held.masks[i : i + 1], TILE)
    photo = visual.photo(held[i].masks, held[i].rgb, 0, window)
    camera = window.camera(held.camera[i])
    painted = visual.composited(*drawn(mesh, camera, window.size, light))[0]
    shape = visual.shaded(Mesh(mesh.vertices, mesh.faces), camera, window.size, visual.TARGET)[0]
    return np.concatenate([np.asarray(x)[..., :3] for x in (photo, painted, shape)], 1)


def fitted(photos: Path, out: Path) -> None:
    """Fit photos by the command, in a process of its own.

    Its peak of memory and its date, commit and machine are kept beside: a fit that is there already
    is measured again, not made again.
    """
    command = [sys.executable, "-c", COMMAND, "fit", str(photos), "-o", str(out)]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    sys.stdout.write(run.stdout.split("\nName:")[0] + "\n")
    most = re.search(r"^VmHWM:\s+(\d+) kB", run.stdout, re.MULTILINE)
    peak = {"peak_gib": int(most[1]) / 2**20} if most else {}
    (out.parent / FITTED).write_text(json.dumps(peak | measured_on()))


def measure(text: str, work: Path) -> tuple[dict[str, Any], visual.Pixels]:
    """Fit the photos of a folder, and measure."""
    path, every, *how = text.split(":")
    folder, found = Path(path), how == ["found"]
    name = folder.name + (", photos alone" if found else "")
    place = work / f"{folder.name}{'-found' if found else ''}"
    cameras = None
    if found:
        cameras = place / "found.json"
        place.mkdir(parents=True, exist_ok=True)
        if not cameras.is_file() and run_command(["cameras", path, "-o", str(cameras)]):
            raise SystemExit(1)
    listed = entries(folder, cameras)
    held = [i for i in range(len(listed)) if i % int(every) == int(every) - 1]
    kept = [entry for i, entry in enumerate(listed) if i not in held]
    there = (place / FITTED).is_file() and (place / "out" / "metrics.json").is_file()
    if not (there and are_copied(kept, place / "photos")):
        for part in ("photos", "out"):
            shutil.rmtree(place / part, ignore_errors=True)
        copied(kept, place / "photos")
        fitted(place / "photos", place / "out")
    facts = json.loads((place / "out" / "metrics.json").read_text())
    mesh = Mesh.load(place / "out" / "fit.glb")
    masks: Path | None = None
    if (place / "out" / "masks").is_dir():  # there were none: those of all photos, found alike
        masks = place / "masks"
        if not masks.is_dir() and run_command(["masks", path, "-o", str(masks)]):
            raise SystemExit(1)
    views = load_views(folder, cameras=cameras, masks=masks, size=SIZE)[held]
    found = facts["colors"]["light"]
    light = found and HarmonicLight(torch.tensor(found["coefficients"]), found["frame"])
    row = {
        "photos": name, "fitted": len(kept), **measured(mesh, views, light),
        "psnr_fitted": facts["colors"]["psnr"], "light": found and found["frame"],
        "seconds": facts["seconds"], "faces": facts["faces"], "quality": facts["quality"],
        **json.loads((place / FITTED).read_text()),
    }  # fmt: skip
    return row, tiles(mesh, views, light, min(2, len(held) - 1))


def value(row: dict[str, Any], key: str, digits: int) -> str:
    """A mean and its standard error."""
    mean, error = row[key]
    return f"{mean:.{digits}f} ± {error:.{digits}f}"


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """The table of the page: what a reader asks first."""
    head = ["photos", "fitted", "left out", "IoU", "PSNR over the object, dB", "seconds"]
    cells = [
        [
            row["photos"].replace("_", " "), str(row["fitted"]), str(row["images"]),
            value(row, "iou", 3), value(row, "psnr_object", 1), f"{row['seconds']['total']:.0f}",
        ]
        for row in rows
    ]  # fmt: skip
    return table(head, cells, left=1)


def lines(rows: list[dict[str, Any]]) -> list[str]:
    """The table of all measures."""
    head = [
        "photos", "fitted", "left out", "IoU", "PSNR over the object, dB", "PSNR on white, dB",
        "fitted photos, dB", "light",
        "faces", "parts", "genus", "seconds: masks, cameras", "silhouettes", "stereo", "colours",
        "all", "memory, GiB",
    ]  # fmt: skip
    cells = []
    for row in rows:
        seconds = row["seconds"]
        cells.append([
            row["photos"], str(row["fitted"]), str(row["images"]), value(row, "iou", 3),
            value(row, "psnr_object", 1), value(row, "psnr_white", 1),
            f"{row['psnr_fitted']:.1f}" if "psnr_fitted" in row else "", row.get("light") or "",
            f"{row['faces']:,}",
            str(row["quality"]["parts"]), str(row["quality"]["genus"]),
            *(f"{seconds.get(part, 0):.0f}" for part in ("load", "fit", "refine", "colors")),
            f"{seconds['total']:.0f}", f"{row['peak_gib']:.2f}" if "peak_gib" in row else "",
        ])  # fmt: skip
    where = sorted({f"{row['date']}, commit {row['commit']}, {row['machine']}" for row in rows})
    return [*table(head, cells, left=1), "", "; ".join(where) + "; ± is the error of the mean."]


def save_picture(strips: list[Path]) -> None:
    """Photos, meshes and shapes below each other."""
    page = visual.Page(3 * TILE + 40, len(strips) * (TILE + 10) + 40)
    for i, text in enumerate(("a photo that was left out", "the mesh from there", "its shape")):
        page.text(20 + i * TILE + TILE // 2, 12, text, 15, visual.INK, "ma")
    for i, path in enumerate(strips):
        with Image.open(path) as strip:
            page.tile(np.asarray(strip), 20, 36 + i * (TILE + 10))
    picture = Image.fromarray(page.pixels()).quantize(128, dither=Image.Dither.NONE)
    picture.save(PICTURE, optimize=True)


def main() -> None:
    """Measure, print, and write files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", metavar="FOLDER:EVERY[:found]")
    parser.add_argument("--work", type=Path, required=True, help="an empty folder for results")
    parser.add_argument("--picture", action="store_true", help="write that of the README")
    parser.add_argument("--docs", action="store_true", help="write the tables of the pages")
    args = parser.parse_args()
    rows = json.loads(RESULTS.read_text()) if RESULTS.is_file() else []
    for text in args.folders:
        row, strip = measure(text, args.work)
        rows = [old for old in rows if old["photos"] != row["photos"]] + [row]
        sys.stdout.write(json.dumps(row) + "\n")
        Image.fromarray(strip).save(args.work / f"{row['photos']}.png")
        if args.docs:
            RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
            fill(PAGE, "real-photos-summary", summary(rows))
            fill(MEASURES, "real-photos", lines(rows))
    if args.picture:
        strips = [args.work / f"{row['photos']}.png" for row in rows]
        save_picture([strip for strip in strips if strip.is_file()])


if __name__ == "__main__":
    main()
