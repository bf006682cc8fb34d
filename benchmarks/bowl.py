"""What colours do for a shape: `gendr.refine_shape` on a bowl, whose hollow no outline shows.

    python benchmarks/bowl.py [MESH...] --out docs/results --picture docs/images/bowl.png

A MESH is a file, or the name of an example.

The bowl is a thick half sphere, open above, with a pattern of several sizes and no light, seen from
30 places that are drawn anew for each seed, as the pattern is. The depth error is measured in four
other views from above, over the pixels that show the inside of the true bowl. Meshes that are given
say whether the refinement does harm where silhouettes show almost all; one without a texture has a
pattern too.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from rows import Rows, make_parser
from torch import Tensor

import gendr
from gendr.losses import chamfer, iou, psnr
from gendr.mesh import Camera, Mesh, load_texture
from gendr.mesh.examples import example, example_names
from gendr.photos import visual

PLAIN = {"lighting": "none"}
ABOVE = (50.0, 60.0, 70.0, 80.0)
# Elevations and numbers of the views.
RINGS = ((5.0, 8), (40.0, 10), (65.0, 8), (-35.0, 4))


def bowl(around: int = 96, along: int = 40, inner: float = 0.85) -> tuple[Mesh, Tensor]:
    """A half sphere of radius 1 with a wall, open upwards, and which faces [F] are inside."""
    angle = np.linspace(0, np.pi / 2, along)
    half = np.stack([np.sin(angle), -np.cos(angle)], 1)
    profile = np.concatenate([half, inner * half[::-1]])
    turn = np.linspace(0, 2 * np.pi, around, endpoint=False)
    radius, height = profile[:, :1], np.broadcast_to(profile[:, 1:], (2 * along, around))
    vertices = np.stack([radius * np.cos(turn), height, radius * np.sin(turn)], -1).reshape(-1, 3)
    i, j = (n.flatten() for n in np.mgrid[: 2 * along - 1, :around])
    a, b = i * around + j, i * around + (j + 1) % around
    faces = np.concatenate(
        [np.stack([a, a + around, b], 1)[i > 0],
         np.stack([b, a + around, b + around], 1)[i < 2 * along - 2]]
    )  # fmt: skip
    inside = faces.min(1) // around >= along
    # The vertices of a pole are one.
    last = (2 * along - 1) * around
    faces = np.where(faces < around, 0, np.where(faces >= last, last, faces))
    used, faces = np.unique(faces, return_inverse=True)
    middle = [0.0, 0.4, 0.0]
    mesh = Mesh(
        torch.from_numpy(vertices[used] + middle).float(), torch.from_numpy(faces.reshape(-1, 3))
    )
    return mesh, torch.from_numpy(inside)


def pattern(points: Tensor, seed: int) -> Tensor:
    """Colours of places [N, 3]: waves of three sizes in random directions."""
    generator = torch.Generator().manual_seed(seed)
    total = torch.zeros_like(points)
    for frequency, size in ((2.5, 0.3), (6.0, 0.25), (14.0, 0.2)):
        for _ in range(3):
            waves = torch.randn(3, 3, generator=generator)
            waves = frequency * waves / waves.norm(dim=0)
            shift = 2 * torch.pi * torch.rand(3, generator=generator)
            total += size / 3**0.5 * torch.sin(points @ waves + shift)
    return (0.5 + 0.55 * total).clamp(0.02, 1)


def views(seed: int) -> Camera:
    """30 places around the bowl, drawn near four rings."""
    generator = torch.Generator().manual_seed(100 + seed)
    elevation = torch.cat([torch.full((n,), e) for e, n in RINGS])
    azimuth = torch.cat([torch.arange(n) * 360.0 / n for _, n in RINGS])
    elevation = elevation + 5 * torch.randn(len(elevation), generator=generator)
    azimuth = azimuth + 8 * torch.randn(len(azimuth), generator=generator)
    return gendr.look_at(4.5, elevation, azimuth)


def shots(mesh: Mesh, camera: Camera, size: int) -> tuple[Tensor, Tensor]:
    """Photos and masks, four samples a pixel."""
    rgb, alpha = visual.render_views(mesh, camera, 2 * size, PLAIN)
    pooled = torch.nn.functional.avg_pool2d
    return pooled(rgb, 2), pooled(alpha[:, None], 2)[:, 0]


def depth_error(truth: Mesh, inside: Tensor, mesh: Mesh) -> float:
    """Mean difference of depths inside, as a part of the diagonal."""
    azimuth = torch.tensor([10.0, 100.0, 190.0, 280.0])
    camera = gendr.look_at(4.5, torch.tensor(ABOVE), azimuth)
    renderer = gendr.Renderer(192, "heaviside", "max", near=1.0, far=9.0)
    with torch.no_grad():
        wanted, found = (renderer(Mesh(m.vertices, m.faces), camera) for m in (truth, mesh))
    shown = (wanted.face_id >= 0) & (found.face_id >= 0)
    shown &= inside[wanted.face_id.clamp(min=0)]
    return float((wanted.depth - found.depth)[shown].abs().mean()) / visual.diagonal(truth)


def measured(truth: Mesh, mesh: Mesh, photos: tuple[Tensor, Tensor], camera: Camera) -> Any:
    """A shape, and how well it shows 6 views that it has not seen, with vertex colours."""
    size = photos[0].shape[-1]
    held = gendr.look_at(
        4.5, torch.tensor([10.0, -20.0, 45.0, 25.0, 60.0, -5.0]), torch.arange(6) * 60.0 + 20
    )
    rgb, alpha = shots(truth, held, size)
    painted = gendr.fit_colors(mesh, photos[0], camera, photos[1], kind="vertex").mesh
    shown, cover = visual.render_views(painted, held, size, PLAIN)
    return painted, {
        "chamfer": float(chamfer(mesh, truth, seed=0)) / visual.diagonal(truth),
        "iou": float(iou(cover, alpha).mean()),
        "psnr": float(psnr(shown, rgb, torch.maximum(cover, alpha)).mean()),
    }


def compared(
    name: str, truth: Mesh, inside: Tensor | None, camera: Camera, size: int, steps: int
) -> tuple[dict[str, Any], list[Mesh]]:
    """Silhouettes alone, and then with colours."""
    photos = shots(truth, camera, size)
    begun = time.perf_counter()
    alone = gendr.fit(photos[1], camera, init="hull", steps=steps).mesh
    between = time.perf_counter()
    found = gendr.refine_shape(alone, photos[0], camera, photos[1])
    seconds = {"fit": between - begun, "refine": time.perf_counter() - between}
    row: dict[str, Any] = {"name": name, "improved": found.improved, "seconds": seconds}
    painted: list[Mesh] = []
    for key, mesh in (("before", alone), ("after", found.mesh)):
        shown, row[key] = measured(truth, mesh, photos, camera)
        painted.append(shown)
        row[key]["depth"] = None if inside is None else depth_error(truth, inside, mesh)
    return row, painted


def save_picture(truth: Mesh, meshes: list[Mesh], path: Path) -> None:
    """The true bowl, the fit, and the refined fit from above: in colours, and grey below."""
    camera = gendr.look_at(4.6, 50.0, torch.tensor([30.0]))
    rows = []
    for colored in (True, False):
        tiles = []
        for mesh in (truth, *meshes):
            if colored:
                pair = visual.render_views(mesh, camera, 240, PLAIN)
            else:
                pair = visual.render_views(Mesh(mesh.vertices, mesh.faces), camera, 240)
            tiles.append(visual.composited(*pair)[0])
        rows.append(np.concatenate(tiles, 1))
    image = Image.fromarray(np.concatenate(rows)[..., :3])
    image.quantize(256).save(path, optimize=True)


def main() -> None:
    """Measure, print, and write files."""
    parser = make_parser(__doc__, "bowl.json")
    parser.add_argument("meshes", nargs="*", metavar="MESH")
    parser.add_argument("--texture", type=Path, metavar="IMAGE", help="of the meshes with UVs")
    parser.add_argument("--image-size", type=int, default=128, metavar="N")
    parser.add_argument("--steps", type=int, default=30, metavar="N", help="of the fit")
    parser.add_argument("--seeds", type=int, default=3, metavar="N")
    parser.add_argument("--picture", type=Path, metavar="PNG", help="of the first bowl")
    args = parser.parse_args()
    rows = Rows()
    for seed in range(args.seeds):
        truth, inside = bowl()
        truth = truth.with_vertex_colors(pattern(truth.vertices, seed))
        row, meshes = compared("bowl", truth, inside, views(seed), args.image_size, args.steps)
        if args.picture is not None and seed == 0:
            save_picture(truth, meshes, args.picture)
        rows.add({**row, "seed": seed})
    for text in args.meshes:
        truth = example(text) if text in example_names() else Mesh.load(text)
        truth = truth.normalized()
        if args.texture is not None and truth.uvs is not None:
            truth = truth.with_texture(load_texture(args.texture))
        for seed in range(args.seeds):
            if truth.texture is None:
                truth = truth.with_vertex_colors(pattern(truth.vertices, seed))
            row, _ = compared(
                Path(text).stem, truth, None, views(seed), args.image_size, args.steps
            )
            rows.add({**row, "seed": seed})
    rows.write(args.out, "bowl.json", image_size=args.image_size, steps=args.steps)


if __name__ == "__main__":
    main()
