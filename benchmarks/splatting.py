"""How good splats get in a given time, and what a step costs, on photos with held-out pictures.

    python benchmarks/splatting.py PHOTOS                               # one minute at 400²
    python benchmarks/splatting.py PHOTOS --budgets 60 600 3600 --docs  # and write it down
    python benchmarks/splatting.py PHOTOS --starts surface cameras --docs  # the whole command
    python benchmarks/splatting.py PHOTOS --old CLONE --docs  # the command, of another build too

Every tenth photo is left out. The time is that of the training alone: reading photos and compiling
kernels come before it. Each training is a row of the table as soon as it is over.

Starts are those of `gendr splat` without masks: the surface that stereo finds, and what cameras
see. Their time is all that the command takes, but for finding cameras, in seconds of a processor,
so that other programs do not count; every fifth photo is left out. So it is with another build, a
clone with its kernels, which takes turns with this one: soft triangles alone, as `--opaque 0`, and
both are scored by this one.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from tempfile import TemporaryDirectory
from typing import Any

import torch
from PIL import Image
from rows import measured_on
from tqdm import tqdm

from gendr.cli.splat import SCORES
from gendr.kernels.threads import num_threads, torch_on_one_thread
from gendr.losses import psnr, ssim
from gendr.photos.splatting import Photos, Splats, load_photos
from gendr.photos.splatting.pictures import rendered, sheet
from gendr.photos.splatting.settings import SplatSettings
from gendr.photos.splatting.training import SplatTraining, fit_splats
from lab.pages import fill, table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results" / "splatting-cpu.json"
STARTS = RESULTS.with_name("splatting-starts.json")
BUILDS = RESULTS.with_name("splatting-builds.json")
PAGE = RESULTS.with_name("splatting-speed.md")
EVERY = 5  # of the photos that a command gets, one is left out
SHOWN = 4  # pictures of the sheet
COLOURS = 192  # of its file


def step_times(splats: Splats, photos: Photos, rounds: int = 9) -> tuple[float, float]:
    """Median seconds of drawing alone, and of forward and backward, over photos of a scene."""
    leaf = splats.with_tensors(vertices=splats.vertices.clone().requires_grad_())
    forward, both = [], []
    for i in range(rounds):
        camera, size = photos.camera[i % len(photos)], photos.image_size
        start = time.perf_counter()
        rendered(splats, camera, size)
        middle = time.perf_counter()
        leaf.render(camera, size, bound=1e-3)[0].square().mean().backward()
        forward.append(middle - start)
        both.append(time.perf_counter() - middle)
    return statistics.median(forward), statistics.median(both)


def measure(
    train: Photos, held_out: Photos, budget: float, triangles: int | None
) -> tuple[dict[str, Any], Splats]:
    """A training, as a row of the table, and its splats."""
    settings = SplatSettings(budget=budget, evaluate_every=1.0, triangles=triangles)
    with tqdm(total=round(budget), unit="s") as bar:

        def tell(training: SplatTraining) -> None:
            bar.update(int(training.seconds) - bar.n)

        training = fit_splats(train, settings, callback=tell)
    splats = training.splats()
    pictures = torch.stack(
        [rendered(splats, camera, held_out.image_size)[0] for camera in _each(held_out)]
    )
    forward, both = step_times(splats, held_out)
    return {
        "side": min(held_out.image_size), "budget": budget, "triangles": len(splats),
        "steps": training.step, "psnr": psnr(pictures, held_out.images).tolist(),
        "ssim": ssim(pictures, held_out.images).tolist(), "forward": forward, "both": both,
    }, splats  # fmt: skip


def _each(photos: Photos) -> list[Any]:
    return [photos.camera[i] for i in range(len(photos))]


def lines(rows: list[dict[str, Any]]) -> list[str]:
    """The table of the page, and where its rows come from."""
    head = ["photos", "picture", "seconds", "threads", "triangles", "steps", "PSNR, dB", "SSIM",
            "drawing, ms", "forward and backward, ms"]  # fmt: skip
    cells, sources = [], {}
    for row in rows:
        error = statistics.stdev(row["psnr"]) / len(row["psnr"]) ** 0.5
        cells.append([
            row["photos"], row["picture"], f"{row['budget']:g}", str(row["threads"]),
            f"{row['triangles']:,}", f"{row['steps']:,}",
            f"{statistics.mean(row['psnr']):.1f} ± {error:.1f}",
            f"{statistics.mean(row['ssim']):.3f}", f"{1e3 * row['forward']:.0f}",
            f"{1e3 * row['both']:.0f}",
        ])  # fmt: skip
        sources[f"{row['date']}, commit {row['commit']}, {row['machine']}"] = None
    about = "± is the error of the mean over the pictures left out"
    return [*table(head, cells, left=2), "", f"{'; '.join(sources)}; {about}."]


def command(folder: str, size: int, budget: float, root: Path, out: str, *words: str) -> float:
    """Run `gendr splat` of the build in `root`, and return seconds of a processor that it took."""
    code = "import sys, time; time.perf_counter = time.process_time; from gendr import cli; "
    line = [sys.executable, "-c", code + "sys.exit(cli.main())", "splat", Path(folder).resolve(),
            "-o", out, "--image-size", str(size), "--quiet", "--threads", "1", "--hold-out",
            str(EVERY), "--budget", f"{budget:g}s", *words]  # fmt: skip
    begin = getrusage(RUSAGE_CHILDREN)
    path = {**os.environ, "PYTHONPATH": str(root)}
    subprocess.run(line, check=True, cwd=root, env=path)  # code of -c imports from where it runs
    end = getrusage(RUSAGE_CHILDREN)
    return end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime


def started(folder: str, size: int, budget: float, init: str) -> dict[str, Any]:
    """What the whole command makes of photos from one start, as a row of the table."""
    with TemporaryDirectory() as out:
        seconds = command(folder, size, budget, ROOT, out, "--init", init)
        found = json.loads((Path(out) / "metrics.json").read_text())
    return {
        "side": size, "budget": budget, "start": init, "triangles": found["triangles"],
        "steps": found["steps"], "psnr": found["psnr"], "ssim": found["ssim"],
        "opaque": {name: found["opaque"][name] for name in ("psnr", "ssim")}, "seconds": seconds,
        "threads": 1,
    }  # fmt: skip


def built(folder: str, size: int, budget: float, root: Path) -> dict[str, Any]:
    """What the whole command of the build in `root` makes of photos, as a row of the table."""
    with TemporaryDirectory() as out:
        seconds = command(folder, size, budget, root, out, "--opaque", "0")
        steps = json.loads((Path(out) / "metrics.json").read_text())["steps"]
        splats = Splats.load(Path(out) / "splats.npz")
    held_out = load_photos(folder, size=size).split(EVERY, EVERY // 2)[1]
    pictures = [rendered(splats, camera, held_out.image_size)[0] for camera in _each(held_out)]
    scores = {
        name: statistics.mean(
            float(score(*(held_out.cropped(x, i) for x in (pictures[i], held_out.images[i]))))
            for i in range(len(held_out))
        )
        for name, score in SCORES.items()
    }
    git = ["git", "-C", str(root), "rev-parse", "--short=8", "HEAD"]
    build = subprocess.run(git, check=True, capture_output=True, text=True).stdout.strip()
    return {
        "side": size, "budget": budget, "build": build, "triangles": len(splats), "steps": steps,
        "left_out": len(held_out), **scores, "seconds": seconds, "threads": 1,
    }  # fmt: skip


def build_lines(rows: list[dict[str, Any]]) -> list[str]:
    """The table of builds, and where its rows come from."""
    head = ["photos", "build", "side, budget", "triangles, steps", "PSNR, dB",
            "with a factor a photo", "and an offset", "tones of the left half", "SSIM",
            "seconds in all"]  # fmt: skip
    cells = [
        [f"{row['photos']}, {row['left_out']} left out", row["build"],
         f"{row['side']}, {row['budget']:g} s", f"{row['triangles']:,}, {row['steps']:,}",
         *(f"{row[name]:.1f}" for name in SCORES if name != "ssim"), f"{row['ssim']:.2f}",
         f"{row['seconds']:.0f}"]
        for row in rows
    ]  # fmt: skip
    sources = sorted({f"{row['date']}, {row['machine']}" for row in rows})
    return [*table(head, cells, left=2), "", f"{'; '.join(sources)}; one seed."]


def start_lines(rows: list[dict[str, Any]]) -> list[str]:
    """The table of starts, and where its rows come from."""
    head = ["photos", "start", "side, budget", "triangles, steps", "splats: dB, SSIM",
            "GLB: dB, SSIM", "seconds in all"]  # fmt: skip
    cells, sources = [], {}
    for row in rows:
        cells.append([
            row["photos"], row["start"], f"{row['side']}, {row['budget']:g} s",
            f"{row['triangles']:,}, {row['steps']:,}", f"{row['psnr']:.1f}, {row['ssim']:.2f}",
            f"{row['opaque']['psnr']:.1f}, {row['opaque']['ssim']:.2f}", f"{row['seconds']:.0f}",
        ])  # fmt: skip
        sources[f"{row['date']}, commit {row['commit']}, {row['machine']}"] = None
    return [*table(head, cells, left=2), "", f"{'; '.join(sources)}; one seed."]


def keep(path: Path, row: dict[str, Any], key: tuple[str, ...]) -> list[dict[str, Any]]:
    """Put a row into a file of results, in the place of one of equal key; return all of them."""
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    rows = [r for r in rows if any(r[name] != row[name] for name in key)] + [row]
    rows.sort(key=lambda r: [r["photos"] != "lego", *(r[name] for name in key)])
    path.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    return rows


def main() -> None:
    """Train, print, and write what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", help="a folder of photos with cameras")
    parser.add_argument("--size", type=int, default=400, help="shorter side; 0: as it is")
    parser.add_argument("--every", type=int, default=10, metavar="N", help="N-th is left out")
    parser.add_argument("--triangles", type=int)
    parser.add_argument("--threads", type=int, help="of the kernels; all cores by default")
    parser.add_argument("--budgets", type=float, nargs="+", default=[60.0], metavar="S")
    parser.add_argument("--docs", action="store_true", help="write the table of docs/splatting.md")
    parser.add_argument("--picture", action="store_true", help="write the picture of the page")
    parser.add_argument("--starts", nargs="+", metavar="INIT", help="the command, by its starts")
    parser.add_argument("--name", help="of the photos; by default that of their folder")
    parser.add_argument("--old", type=Path, metavar="CLONE", help="of another build, as it is used")
    parser.add_argument("--old-budget", type=float, metavar="S", help="of that, if it is another")
    args = parser.parse_args()
    name, size = args.name or Path(args.photos).name, args.size

    def told(row: dict[str, Any]) -> dict[str, Any]:
        return {"threads": num_threads(), **row, "photos": name, **measured_on()}

    if args.starts:
        for budget in args.budgets:
            for init in args.starts:
                row = told(started(args.photos, size, budget, init))
                print("\n".join(start_lines([row])), flush=True)
                if args.docs:
                    rows = keep(STARTS, row, ("photos", "side", "budget", "start"))
                    fill(PAGE, "splatting-starts", start_lines(rows))
        return
    if args.old:
        for budget in args.budgets:
            for root in (args.old, ROOT):
                old = root == args.old
                given = args.old_budget if old and args.old_budget else budget
                row = told(built(args.photos, size, given, root)) | {"old": old}
                print("\n".join(build_lines([row])), flush=True)
                if args.docs:
                    rows = keep(BUILDS, row, ("photos", "side", "old"))
                    fill(PAGE, "splatting-builds", build_lines(rows))
        return
    photos = load_photos(args.photos, size=size or None)
    train, held_out = photos.split(args.every, args.every // 2)
    height, width = photos.image_size
    for budget in args.budgets:
        with torch_on_one_thread(args.threads):
            row, splats = measure(train, held_out, budget, args.triangles)
            picture = f"{width}²" if width == height else f"{width} × {height}"
            row = told(row) | {"picture": picture}
        print("\n".join(lines([row])), flush=True)
        if args.docs:
            rows = keep(RESULTS, row, ("photos", "side", "budget", "threads"))
            fill(ROOT / "docs" / "splatting.md", "splatting-speed", lines(rows))
        if args.picture:
            draw(splats, held_out, row)


def draw(splats: Splats, held_out: Photos, row: dict[str, Any]) -> None:
    """Write the picture of the page: pictures left out, and splats from there."""
    shown = held_out[list(range(SHOWN))]
    pictures = [rendered(splats, camera, shown.image_size)[0] for camera in _each(shown)]
    notes = [f"{x:.1f} dB" for x in psnr(torch.stack(pictures), shown.images).tolist()]
    page = sheet(
        f"{row['photos']}: pictures that were held out",
        f"{len(splats):,} soft triangles, {row['budget']:g} s on {row['threads']} threads",
        list(shown.names), [(list(shown.images), [""] * SHOWN), (pictures, notes)],
    )  # fmt: skip
    picture = Image.fromarray(page).quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(ROOT / "docs" / "images" / "splatting.png", optimize=True)


if __name__ == "__main__":
    main()
