"""What photos become: `gendr fit` on pictures of meshes that another renderer made.

    python benchmarks/photos.py MESH... --out docs/results

The other renderer is a depth buffer in NumPy, which knows nothing of the package: pinhole cameras
in OpenCV's convention, principal point off the middle, sides unequal, four samples a pixel. The
photos go to a folder with a model of COLMAP, and the command line fits shape and texture to them. A
mesh without a texture gets a pattern that depends on the place. Held-out views lie between those
fitted, at other elevations.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from rows import Rows, make_parser

from gendr.cli import main as run_command
from gendr.losses import iou, psnr
from gendr.mesh import Camera, Mesh, load_texture
from gendr.photos import load_views, visual

Array = NDArray[np.float64]

HEIGHT, WIDTH, SAMPLES = 256, 320, 2
FOCAL, MIDDLE = 520.0, (172.0, 118.0)
DISTANCE = 5.0
# Views, elevation and first azimuth of rings of cameras, in degrees.
FITTED = ((12, 0.0, 0.0), (8, 40.0, 15.0), (4, -40.0, 30.0))
HELD_OUT = ((6, 20.0, 8.0), (3, 60.0, 50.0), (3, -25.0, 70.0))


def poses(rings: tuple[tuple[int, float, float], ...]) -> list[tuple[Array, Array]]:
    """World to camera, x right, y down, z ahead, of cameras that look at the origin."""
    found = []
    for count, elevation, first in rings:
        for i in range(count):
            a, e = math.radians(first + 360 * i / count), math.radians(elevation)
            back = np.array([math.cos(e) * math.sin(a), math.sin(e), math.cos(e) * math.cos(a)])
            right = np.cross([0.0, 1.0, 0.0], back)
            right /= np.linalg.norm(right)
            down = np.cross(right, back)
            found.append((np.stack([right, down, -back]), np.array([0.0, 0.0, DISTANCE])))
    return found


def pattern(points: Array) -> Array:
    """Colours of places."""
    turned = points @ np.array([[1.0, 0.4, 0.2], [0.1, 1.0, 0.5], [0.6, 0.2, 1.0]]).T
    return 0.5 + 0.4 * np.sin(12 * turned)


def drawn(mesh: Mesh, rotation: Array, shift: Array) -> Array:
    """RGBA [H, W, 4] in [0, 1], colours times alpha: triangle by triangle into a depth buffer."""
    height, width = HEIGHT * SAMPLES, WIDTH * SAMPLES
    world = mesh.vertices.double().numpy()
    seen = world @ rotation.T + shift
    xy = SAMPLES * (FOCAL * seen[:, :2] / seen[:, 2:] + MIDDLE)
    depth = np.full((height, width), np.inf)
    image = np.zeros((height, width, 4))
    texture = None if mesh.texture is None else mesh.texture.double().numpy()
    uvs = None if mesh.corner_uvs is None else mesh.corner_uvs.double().numpy()
    for number, face in enumerate(mesh.faces.numpy()):
        corners, z = xy[face], seen[face, 2]
        low = np.maximum(np.ceil(corners.min(0) - 0.5), 0).astype(int)
        high = np.minimum(np.floor(corners.max(0) - 0.5), [width - 1, height - 1]).astype(int)
        if (low > high).any():
            continue
        x, y = np.meshgrid(np.arange(low[0], high[0] + 1), np.arange(low[1], high[1] + 1))
        px, py = x + 0.5, y + 0.5
        (ax, ay), (bx, by), (cx, cy) = corners
        area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
        if area == 0:
            continue
        wb = ((px - ax) * (cy - ay) - (py - ay) * (cx - ax)) / area
        wc = ((bx - ax) * (py - ay) - (by - ay) * (px - ax)) / area
        flat = np.stack([1 - wb - wc, wb, wc], -1)
        inside = (flat >= 0).all(-1)
        weights = flat / z  # perspective
        here = 1 / weights.sum(-1)
        weights = weights * here[..., None]
        wins = inside & (here < depth[y, x])
        if not wins.any():
            continue
        weights, x, y = weights[wins], x[wins], y[wins]
        depth[y, x] = here[wins]
        if texture is None or uvs is None:
            color = pattern(weights @ world[face])
        else:
            u, v = (weights @ uvs[number]).T
            rows, columns = texture.shape[:2]
            color = texture[
                ((1 - v) * rows).astype(int) % rows, (u * columns).astype(int) % columns
            ]
        image[y, x] = np.concatenate([color, np.ones((len(color), 1))], 1)
    return image.reshape(HEIGHT, SAMPLES, WIDTH, SAMPLES, 4).mean((1, 3))


def saved(image: Array, path: Path) -> None:
    """A PNG with straight colours."""
    straight = image[..., :3] / np.maximum(image[..., 3:], 1e-6)
    pixels = np.concatenate([straight, image[..., 3:]], -1).clip(0, 1)
    Image.fromarray((255 * pixels).round().astype(np.uint8)).save(path)


def quaternion(r: Array) -> list[float]:
    """(w, x, y, z) of a rotation, by the eigenvector of Bar-Itzhack's matrix."""
    k = np.array(
        [
            [r[0, 0] + r[1, 1] + r[2, 2], r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]],
            [0, r[0, 0] - r[1, 1] - r[2, 2], r[1, 0] + r[0, 1], r[2, 0] + r[0, 2]],
            [0, 0, r[1, 1] - r[0, 0] - r[2, 2], r[2, 1] + r[1, 2]],
            [0, 0, 0, r[2, 2] - r[0, 0] - r[1, 1]],
        ]
    )
    return np.linalg.eigh(k, UPLO="U")[1][:, -1].tolist()


def folder_of(mesh: Mesh, views: list[tuple[Array, Array]], folder: Path) -> None:
    """Photos with a model of COLMAP in text."""
    (folder / "images").mkdir(parents=True)
    (folder / "sparse" / "0").mkdir(parents=True)
    lines = []
    for i, (rotation, shift) in enumerate(views):
        saved(drawn(mesh, rotation, shift), folder / "images" / f"{i:03d}.png")
        numbers = " ".join(f"{x:.15g}" for x in [*quaternion(rotation), *shift])
        lines += [f"{i + 1} {numbers} 1 {i:03d}.png", ""]
    lens = f"1 SIMPLE_PINHOLE {WIDTH} {HEIGHT} {FOCAL} {MIDDLE[0]} {MIDDLE[1]}\n"
    (folder / "sparse" / "0" / "cameras.txt").write_text(lens)
    (folder / "sparse" / "0" / "images.txt").write_text("\n".join(lines))


def measure(mesh: Mesh, options: list[str], pictures: Path | None) -> dict[str, Any]:
    """A fit, and how well it shows views that it has not seen."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        folder_of(mesh, poses(FITTED), root / "photos")
        folder_of(mesh, poses(HELD_OUT), root / "held")
        begun = time.perf_counter()
        command = ["fit", str(root / "photos"), "-o", str(root / "out"), "--shape", "silhouettes"]
        status = run_command([*command, *options])
        seconds = time.perf_counter() - begun
        if status != 0:
            raise SystemExit(status)
        found = Mesh.load(root / "out" / "fit.glb")
        metrics = json.loads((root / "out" / "metrics.json").read_text(encoding="utf-8"))
        held = load_views(root / "held")
    assert held.rgb is not None
    shown, alpha = visual.render_views(found, held.camera, held.image_size, {"lighting": "none"})
    both = torch.maximum(alpha, held.masks)
    if pictures is not None:
        save_picture(found, held.rgb, held.masks, held.camera, pictures)
    return {
        "iou": metrics["iou"],
        "psnr_fitted": metrics["colors"]["psnr"],
        "held_iou": float(iou(alpha, held.masks).mean()),
        "held_psnr": float(psnr(shown, held.rgb).mean()),
        "held_psnr_object": float(psnr(shown, held.rgb, both).mean()),
        "held_psnr_inside": float(psnr(shown, held.rgb, torch.minimum(alpha, held.masks)).mean()),
        "faces": found.face_counts[0],
        "seconds": seconds,
    }


def save_picture(
    mesh: Mesh, rgb: torch.Tensor, masks: torch.Tensor, camera: Camera, path: Path
) -> None:
    """Held-out photos above, the fitted mesh below, and its texture beside them."""
    chosen = [0, 2, 6, 10]
    rows_shown, columns_shown = slice(14, 226), slice(64, 280)
    photos = visual.composited(rgb[chosen], masks[chosen])
    found = visual.composited(
        *visual.render_views(mesh, camera[chosen], (HEIGHT, WIDTH), {"lighting": "none"})
    )
    rows = [
        np.concatenate([image[rows_shown, columns_shown] for image in row], 1)
        for row in (photos, found)
    ]
    page = np.concatenate(rows)
    assert mesh.texture is not None
    texture = (255 * mesh.texture).round().to(torch.uint8).numpy()
    side = page.shape[0]
    texture = np.asarray(Image.fromarray(texture).resize((side, side), Image.Resampling.BOX))
    gap = np.full((side, 12, 3), 255, np.uint8)
    image = Image.fromarray(np.concatenate([page, gap, texture], 1))
    image.quantize(256).save(path, optimize=True)


def main() -> None:
    """Measure, print, and write a file."""
    parser = make_parser(__doc__, "photos.json")
    parser.add_argument("meshes", nargs="+", type=Path, metavar="MESH")
    parser.add_argument("--texture", type=Path, metavar="IMAGE", help="of the meshes with UVs")
    parser.add_argument("--image-size", type=int, default=256, metavar="N", help="for the shape")
    parser.add_argument("--picture", type=Path, metavar="PNG", help="of the first mesh")
    args = parser.parse_args()
    rows = Rows()
    for path in args.meshes:
        mesh = Mesh.load(path).normalized()
        if args.texture is not None and mesh.uvs is not None:
            mesh = mesh.with_texture(load_texture(args.texture))
        options = ["--image-size", str(args.image_size), "--quiet"]
        picture = None if rows.rows else args.picture
        rows.add({"mesh": path.stem, **measure(mesh, options, picture)})
    rows.write(args.out, "photos.json", image_size=args.image_size)


if __name__ == "__main__":
    main()
