"""What photographs without masks become: `gendr fit --scene`, and photos that were left out.

    python benchmarks/photo_scenes.py FOLDER[:SIDE] ... --work WORK --docs

Of each folder, with a file of cameras or without, every fifth photo is left out. The command runs
in a process of its own; a folder of WORK that holds its results already is measured as it is. What
is no sky is said by the photos themselves: what is not as plain as sky is, connected with the upper
edge.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from real_photos import COMMAND, MEASURES
from rows import measured_on
from scipy import ndimage

from gendr.mesh import Mesh
from gendr.photos import visual
from gendr.photos.scene.model import Scene, read_scene
from gendr.photos.scene.views import camera_of
from lab.pages import fill, table

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results" / "photo-scenes.json"
EVERY, SIDE = 5, 1600
# The largest difference of grey values within 5 x 5 pixels of the sky.
PLAIN = 14


def sky(image: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Whether pixels [H, W] are sky: plain, bright, and connected with the upper edge."""
    grey = ndimage.gaussian_filter(image.mean(2), 1)
    even = ndimage.maximum_filter(grey, 5) - ndimage.minimum_filter(grey, 5) < PLAIN
    part, _ = ndimage.label(even & (image[..., 2] > 110))
    upper = np.unique(part[0])
    return ndimage.binary_dilation(np.isin(part, upper[upper > 0]), iterations=2)


def seen(mesh: Mesh, scene: Scene, rows: list[int]) -> dict[str, float]:
    """Cover of what is no sky, and of sky, in the mean of some photos."""
    found: list[tuple[float, float]] = []
    for i in rows:
        height, width = scene.images[i].shape[:2]
        alpha = visual.silhouettes(mesh, camera_of(scene, [i], (height, width)), (height, width))
        covered, above = alpha[0].numpy() > 0.5, sky(scene.images[i])
        found.append((float(covered[~above].mean()), float(covered[above].mean())))
    cover, fringe = np.mean(found, 0)
    return {"cover_of_no_sky": round(float(cover), 4), "cover_of_sky": round(float(fringe), 4)}


def measure(folder: Path, side: int, work: Path) -> dict[str, Any]:
    """One row."""
    out = work / f"{folder.name}_{side}"
    log = work / f"{folder.name}_{side}.txt"
    if not (out / "metrics.json").is_file():
        first = json.loads((folder / "cameras.json").read_text())["images"][0]
        lens = sorted((first["width"], first["height"]))
        command = [sys.executable, "-c", COMMAND, "fit", str(folder), "-o", str(out), "--scene"]
        command += ["--hold-out", str(EVERY), "--image-size", str(round(side * lens[0] / lens[1]))]
        run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        log.write_text(run.stdout)
    metrics = json.loads((out / "metrics.json").read_text())
    most = re.search(r"^VmHWM:\s+(\d+) kB", log.read_text() if log.is_file() else "", re.MULTILINE)
    scene = read_scene(folder, side=side, left_out=metrics["held_out"])
    mesh = Mesh.load(out / "fit.glb")
    mesh = mesh.with_vertices(mesh.vertices - mesh.vertices.new_tensor(scene.origin))
    row = {"photos": folder.name, "side": side, "count": len(scene), **measured_on()}
    row |= {k: metrics[k] for k in ("held_out", "matched", "kept", "assumed", "faces", "seconds")}
    row |= {k: metrics["scores"][k] for k in ("psnr", "psnr_exposed", "psnr_affine", "cover")}
    row |= {"peak_gib": int(most[1]) / 2**20} if most else {}
    return row | {"glb_mb": (out / "fit.glb").stat().st_size / 1e6} | seen(
        mesh, scene, metrics["held_out"]
    )  # fmt: skip


def lines(rows: list[dict[str, Any]]) -> list[str]:
    """The table of the page."""
    head = ["photos", "pixels", "left out", "cover of no sky", "of sky", "PSNR, dB",
            "with a factor a photo", "and an offset", "faces", "GLB, MB",
            "seconds: depths", "fusion", "surface", "colours", "all", "memory, GiB"]  # fmt: skip
    cells = [
        [f"{row['photos']}, {row['count']}", str(row["side"]), str(len(row["held_out"])),
         f"{row['cover_of_no_sky']:.2f}", f"{row['cover_of_sky']:.3f}", f"{row['psnr']:.1f}",
         f"{row['psnr_exposed']:.1f}", f"{row['psnr_affine']:.1f}", f"{row['faces']:,}",
         f"{row['glb_mb']:.0f}",
         *(f"{row['seconds'][k]:.0f}" for k in ("depths", "fusion", "surface", "colors", "total")),
         f"{row['peak_gib']:.2f}" if "peak_gib" in row else ""]
        for row in rows
    ]  # fmt: skip
    return table(head, cells, left=1)


def main() -> None:
    """Measure, print, and write files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", metavar="FOLDER[:SIDE]")
    parser.add_argument("--work", type=Path, required=True, help="a folder for results")
    parser.add_argument("--docs", action="store_true", help="write the table of the page")
    args = parser.parse_args()
    rows = json.loads(RESULTS.read_text()) if RESULTS.is_file() else []
    args.work.mkdir(parents=True, exist_ok=True)
    for text in args.folders:
        name, _, side = text.partition(":")
        row = measure(Path(name), int(side or SIDE), args.work)
        key = row["photos"], row["side"]
        rows = [old for old in rows if (old["photos"], old["side"]) != key] + [row]
        sys.stdout.write(json.dumps(row) + "\n")
        if args.docs:
            RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
            fill(MEASURES, "photo-scenes", lines(rows))


if __name__ == "__main__":
    main()
