"""Path-traced photos of shapes that are known: what silhouettes and stereo make of them.

    pip install mitsuba     # 3.5 with LLVM 14, or 3.9 with LLVM 19 (DRJIT_LIBLLVM_PATH)
    python benchmarks/truth.py draw WORK --meshes FOLDER    # photos of all shapes
    python benchmarks/truth.py measure WORK --docs

Drawn by Mitsuba 3 (Jakob et al. 2022): six shapes on a floor with soft shadows, 36 photos in
three rings. Each is once painted with a pattern of three sizes and once nearly plain; the light
stands still for three of the shapes, and for three of them moves with the camera, as a flash does.
Masks are those of the shapes alone. FOLDER holds `fandisk.obj` and those of
the figures.

The last four are figures of plaster: of one grey, before black, in light from beside the camera or
from two sides of the room, so that what lies in shadow is as black as the background. Their photos
of 640 x 480 are taken from a ring, and are noisy; masks are those that `gendr fit` finds.

What is measured is what `gendr fit` does with its defaults: the fit of silhouettes, and stereo
after it. Distances are those between what two photos or more see of one surface and the other one,
in both ways, as parts of the diagonal. Hollows: how far a floor is off, of how deep it lies.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import itertools
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bowl import bowl, pattern
from fit_quality import to_surface
from fit_starts import volume_iou
from numpy.typing import NDArray
from PIL import Image
from rows import measured_on
from torch import Tensor

import gendr
from gendr.cli.fit import IMAGE_SIZE
from gendr.cli.masks import with_masks
from gendr.cli.parser import Fit
from gendr.cli.photos import STEREO_SIZE
from gendr.cli.resume import Run
from gendr.mesh import Camera, Mesh, example, mesh_quality
from gendr.photos import load_views, visual
from gendr.photos.fitting.visibility import visible_faces
from gendr.photos.meshing.hull import Field, Grid, surface_of
from lab.pages import fill, table

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = (ROOT / "docs" / "results" / name for name in ("truth.json", "photos.md"))
PAINTS, PLASTER = ("pattern", "nearly plain"), "plaster"
ALL = (*PAINTS, PLASTER)
# The shapes, and whether the light moves with the camera; those that are figures of plaster.
SHAPES = {
    "fandisk": False, "rocker": True, "chair": True, "airplane": False, "mug": False, "bowl": True,
    "homer": True, "cheburashka": False, "stanford-bunny": True, "spot": False,
}  # fmt: skip
FIGURES = ("homer", "cheburashka", "stanford-bunny", "spot")
# Elevations of the photos, degrees, and which part of them is there.
RINGS = ((8.0, 0.4), (32.0, 0.35), (58.0, 0.25))
DISTANCE, FOV = 4.6, 30.0  # all of a shape of radius 1 is in view
# Of figures: the ring's elevation; where lamps are, in the camera's frame, x to the right, y up, z
# towards it, or in the world; the noise of brightness, of 1.
RING, BESIDE, AROUND = 12.0, (17.0, 11.0, 22.0), ((20.0, 14.0, 16.0), (-22.0, 10.0, -14.0))
NOISE = 1.5 / 255
ABOUT = """\
## What to expect where the truth is known

Path-traced photos of shapes on a floor with soft shadows, painted with a pattern or nearly plain, \
in light that stands still or moves with the camera as a flash does (`benchmarks/truth.py`; \
Mitsuba 3). Beside each other: the fit of silhouettes alone, and with stereo after it, as \
`gendr fit` does it. Chamfer and F-score are between what two photos or more see of one surface \
and the other one, both ways; "hollow" says by how much the floor of a bowl or mug is off, of how \
deep it lies below the rim. Figures of plaster are of one grey before black, 640 × 480 from one \
ring, with shadows as black as that; their masks are those that `gendr fit` finds.
"""
POINTS = 20_000
LONGEST = 0.02  # edges of what is drawn
F_SCORE = 0.01  # of the diagonal


# -- shapes ----------------------------------------------------------------------------------------


def carved(distance: Any, half: tuple[float, float, float], cell: float = 0.01) -> Mesh:
    """The surface of a body of which signed distances are known, positive inside."""
    shape = tuple(math.ceil(2 * h / cell) + 1 for h in half)
    grid = Grid(-np.array(half), cell, shape)
    field = Field(distance(grid.points()).float(), grid, cell)
    vertices, faces = surface_of(field, 0.01)
    return Mesh(torch.from_numpy(vertices).float(), torch.from_numpy(faces))


def _tube(x: Tensor, y: Tensor, z: Tensor, radius: float, half: float, round_: float) -> Tensor:
    """A cylinder about the y axis, with round edges."""
    out = torch.stack([(x.square() + z.square()).sqrt() - radius, y.abs() - half]) + round_
    return round_ - out.clamp(min=0).norm(dim=0) - out.amax(0).clamp(max=0)


def rocker() -> Mesh:
    """An arm between two eyes of different size, with a boss: two holes."""

    def distance(p: Tensor) -> Tensor:
        x, y, z = p.unbind(1)
        large, small = (x + 0.45, z), (x - 0.6, z + 0.12)
        body = torch.maximum(_tube(large[0], y, large[1], 0.42, 0.3, 0.06),
                             _tube(small[0], y, small[1], 0.26, 0.2, 0.05))  # fmt: skip
        along = ((x + 0.45) / 1.05).clamp(0, 1)
        middle = torch.stack([x + 0.45 - 1.05 * along, y * 1.2, z + 0.12 * along], 1)
        body = torch.maximum(body, 0.2 - 0.06 * along - middle.norm(dim=1))
        body = torch.maximum(body, 0.13 - torch.stack([x - 0.1, y - 0.2, z + 0.06], 1).norm(dim=1))
        holes = torch.maximum(0.22 - (large[0].square() + large[1].square()).sqrt(),
                              0.12 - (small[0].square() + small[1].square()).sqrt())  # fmt: skip
        return torch.minimum(body, -holes)

    return carved(distance, (1.0, 0.45, 0.6))


def mug() -> Mesh:
    """A mug with a handle, open above; its hollow is three quarters of its height deep."""

    def distance(p: Tensor) -> Tensor:
        x, y, z = p.unbind(1)
        handle = ((x - 0.55).square() + y.square()).sqrt() - 0.3
        body = torch.maximum(
            _tube(x, y, z, 0.5, 0.6, 0.04), 0.075 - (handle.square() + z.square()).sqrt()
        )
        return torch.minimum(body, -_tube(x, y - 0.5, z, 0.42, 0.95, 0.05))

    return carved(distance, (1.0, 0.65, 0.6))


def shapes(folder: Path) -> dict[str, Mesh]:
    """All six, normalized, y up."""
    import trimesh

    files = {name: folder / f"{name}.obj" for name in ("fandisk", *FIGURES)}
    files["airplane"] = ROOT / "assets" / "airplane.obj"
    made = {
        "rocker": rocker,
        "mug": mug,
        "bowl": lambda: bowl()[0],
        "chair": lambda: example("chair"),
    }
    found = {name: Mesh.load(path) for name, path in files.items()}
    found |= {name: make() for name, make in made.items()}
    for name in FIGURES:  # without the edges of triangles
        bare = found[name].vertices.numpy(), found[name].faces.numpy()
        whole = trimesh.Trimesh(bare[0], bare[1])  # without what no face uses
        fine = trimesh.remesh.subdivide_loop(whole.vertices, whole.faces, iterations=2)
        found[name] = Mesh(*(torch.from_numpy(np.asarray(part)) for part in fine))
    return {name: Mesh(found[name].vertices, found[name].faces).normalized() for name in SHAPES}


# -- photos ----------------------------------------------------------------------------------------


def cameras(count: int, plaster: bool) -> Camera:
    """Those of the photos: rings, turned against each other; one ring about figures of plaster."""
    if plaster:
        return gendr.look_at(DISTANCE, RING, torch.arange(count) * 360.0 / count, FOV)
    share = [round(count * part) for _, part in RINGS]
    share[-1] = count - sum(share[:-1])
    elevation = np.concatenate([np.full(n, e) for (e, _), n in zip(RINGS, share, strict=True)])
    azimuth = np.concatenate([360 * (np.arange(n) + 0.3 * i) / n for i, n in enumerate(share)])
    return gendr.look_at(DISTANCE, torch.from_numpy(elevation), torch.from_numpy(azimuth), FOV)


def drawn(
    name: str, mesh: Mesh, paint: str, count: int, size: int, samples: int, out: Path
) -> None:
    """Draw the photos of a shape, and their masks, unless they are there."""
    import mitsuba as mi  # pyright: ignore[reportMissingImports]
    import trimesh

    mi.set_variant("llvm_ad_rgb")
    turn = mi.ScalarTransform4f
    out.mkdir(parents=True, exist_ok=True)
    plaster = paint == PLASTER
    fine = mesh.vertices.numpy(), mesh.faces.numpy()
    if not plaster:
        fine = trimesh.remesh.subdivide_to_size(*fine, LONGEST)
    corners = torch.from_numpy(np.asarray(fine[0])).float()
    colors = pattern(2.0 * corners, 1)
    if paint != PAINTS[0]:
        colors = torch.tensor([0.62, 0.6, 0.56]) + 0.04 * (not plaster) * (colors - 0.5)
    file = out / "painted.ply"
    write_painted(corners.numpy(), np.asarray(fine[1]), colors.numpy(), file)
    look = {"type": "mesh_attribute", "name": "vertex_color"}
    body = mi.load_dict({
        "type": "ply", "filename": str(file), "face_normals": not plaster,
        "bsdf": {"type": "twosided", "material": {"type": "diffuse", "reflectance": look}},
    })  # fmt: skip
    low = float(mesh.vertices[:, 1].min())
    grey = {"type": "rgb", "value": [0.55, 0.53, 0.5]}
    floor = {
        "type": "disk", "bsdf": {"type": "diffuse", "reflectance": grey},
        "to_world": turn().translate([0, low - 1e-3, 0]) @ turn().rotate([1, 0, 0], -90)
        @ turn().scale(6),
    }  # fmt: skip
    sky = {"type": "constant", "radiance": {"type": "rgb", "value": 0.2 if SHAPES[name] else 0.5}}
    power = 3200.0 if plaster else 28.0
    point = {"type": "point", "position": [0.0] * 3, "intensity": {"type": "rgb", "value": power}}
    if SHAPES[name]:
        lights: dict[str, Any] = {"lamp": point}
    elif plaster:
        lights = {f"lamp{i}": point | {"position": list(place)} for i, place in enumerate(AROUND)}
    else:
        above = turn().look_at([1.5, 5.0, 1.0], [0, 0, 0], [1, 0, 0]) @ turn().scale(1.6)
        shine = {"type": "area", "radiance": {"type": "rgb", "value": 9.0}}
        lights = {"lamp": {"type": "rectangle", "to_world": above, "emitter": shine}}
    around = {} if plaster else {"floor": floor, "sky": sky}
    scenes = []
    for parts, bounces in ((lights | around, 4), ({"sky": sky}, 1)):
        path = {"type": "path", "max_depth": bounces, "hide_emitters": True}
        scenes.append(mi.load_dict({"type": "scene", "integrator": path, "body": body, **parts}))
    moving = mi.traverse(scenes[0])
    camera = cameras(count, plaster)
    sides = (4 * size // 3 if plaster else size), size  # across and down
    # Only what lies about the shape is drawn: boxes of one size, for kernels are made for it.
    places, _ = camera.project(corners[None].to(camera.eye).expand(count, -1, -1))
    places = ((places * torch.tensor([1.0, -1.0]) * size + torch.tensor(sides)) / 2).numpy()
    first = np.clip(np.floor(places.min(1)) - 8, 0, None).astype(int)
    wide, high = (int(n) for n in np.ceil((places.max(1) - first).max(0)) + 8)
    wide, high = min(wide, sides[0]), min(high, sides[1])
    frames = []
    for i in range(count):
        boxes = zip(first[i], sides, (wide, high), strict=True)
        left, top = (int(min(n, side - m)) for n, side, m in boxes)
        beside = ((top, sides[1] - top - high), (left, sides[0] - left - wide), (0, 0))
        eye = camera.eye[i].tolist()
        pose = turn().look_at(eye, [0.0, 0.0, 0.0], [0, 1, 0])
        # Mitsuba looks along +z with x to the left, the format along -z with x to the right.
        world = np.array(pose.matrix, dtype=np.float64).reshape(4, 4) @ np.diag([-1, 1, -1, 1])
        shown = f"{'shown' if plaster else 'masks'}/{i:03d}.png"
        frames.append({"file_path": f"{i:03d}.png", "transform_matrix": world.tolist()})
        if not plaster:
            frames[-1]["mask_path"] = shown
        if (out / shown).is_file():
            continue
        if SHAPES[name]:
            lamp = world[:3, :3] @ BESIDE if plaster else np.array([eye[0], eye[1] + 0.4, eye[2]])
            moving["lamp.position"] = lamp.tolist()
            moving.update()
        sensor = mi.load_dict({
            "type": "perspective", "fov": FOV, "fov_axis": "smaller", "to_world": pose,
            "film": {"type": "hdrfilm", "width": sides[0], "height": sides[1],
                     "pixel_format": "rgba",
                     "rfilter": {"type": "box"}, "crop_offset_x": left, "crop_offset_y": top,
                     "crop_width": wide, "crop_height": high},
            "sampler": {"type": "multijitter", "sample_count": samples},
        })  # fmt: skip
        photo, mask = (
            np.pad(np.array(mi.render(s, sensor=sensor, seed=i, spp=samples)), beside)
            for s in scenes
        )
        photo = np.where(photo < 0.0031308, 12.92 * photo, 1.055 * photo ** (1 / 2.4) - 0.055)
        if plaster:
            photo = photo + np.random.default_rng(i).normal(0, NOISE, photo.shape)
        (out / shown).parent.mkdir(exist_ok=True)
        for pixels, where in ((photo[..., :3], f"{i:03d}.png"), (mask[..., 3], shown)):
            eight = np.clip(pixels * 255 + 0.5, 0, 255).astype(np.uint8)
            Image.fromarray(eight).save(out / where)
    across = 2 * math.atan(math.tan(math.radians(FOV) / 2) * sides[0] / sides[1])
    about = {"camera_angle_x": across, "frames": frames}
    (out / "transforms.json").write_text(json.dumps(about, indent=1) + "\n")


def write_painted(
    corners: NDArray[Any], faces: NDArray[Any], colors: NDArray[Any], path: Path
) -> None:
    """Write a PLY file with colours that are no bytes, as Mitsuba wants them."""
    names = "".join(f"property float {x}\n" for x in ("x", "y", "z", "r", "g", "b"))
    head = (
        f"ply\nformat binary_little_endian 1.0\nelement vertex {len(corners)}\n{names}"
        f"element face {len(faces)}\nproperty list uchar int vertex_indices\nend_header\n"
    )
    table = np.empty(len(faces), [("count", "u1"), ("corners", "<i4", 3)])
    table["count"], table["corners"] = 3, faces
    vertices = np.concatenate([corners, colors], 1).astype("<f4")
    path.write_bytes(head.encode() + vertices.tobytes() + table.tobytes())


# -- measures --------------------------------------------------------------------------------------


def seen_twice(mesh: Mesh, camera: Camera, size: int, points: Tensor, faces: Tensor) -> Tensor:
    """[P], which points on a surface two cameras or more see.

    Args:
        mesh: the surface.
        camera: B cameras.
        size: of their images.
        points: [P, 3], world.
        faces: [P], on which they are.
    """
    corners = mesh.vertices[mesh.faces]
    normals = torch.linalg.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals = torch.nn.functional.normalize(normals, dim=1)[faces]
    slack = 0.01 * visual.diagonal(mesh)
    count = torch.zeros(len(points), dtype=torch.int64)
    for i in range(len(camera)):
        one = camera[i].to(points.dtype)
        _, _, depth = visible_faces(corners, one, (size, size), visual.depths(mesh, one))
        (xy,), (z,) = one.project(points[None])
        place = ((xy * torch.tensor([1.0, -1.0]) + 1) * size / 2).long().clamp(0, size - 1)
        facing = ((one.eye[0] - points) * normals).sum(1) > 0
        count += facing & (z <= depth[place[:, 1], place[:, 0]] + slack)
    return count >= 2


def near(one: Mesh, other: Mesh, camera: Camera, size: int) -> NDArray[np.float64]:
    """Distances of what is seen of one surface to the other."""
    points, faces = sampled(one)
    kept = seen_twice(one, camera, size, points, faces)
    return to_surface(points[kept], other)


def sampled(mesh: Mesh) -> tuple[Tensor, Tensor]:
    """Points [P, 3] drawn evenly from a surface, and their faces [P]."""
    corners = mesh.vertices[mesh.faces]
    area = torch.linalg.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]).norm(
        dim=1
    )
    generator = torch.Generator().manual_seed(0)
    faces = torch.multinomial(area, POINTS, replacement=True, generator=generator)
    u, v = torch.rand(2, POINTS, 1, generator=generator)
    u = u.sqrt()
    a, b, c = corners[faces].unbind(1)
    return (1 - u) * a + u * (1 - v) * b + u * v * c, faces


def hollow_error(name: str, truth: Mesh, mesh: Mesh) -> float | None:
    """By how much a floor is off, of how deep it lies below the rim; None without a hollow."""
    if name not in ("bowl", "mug"):
        return None
    angle = torch.arange(24) * 2.4
    radius = 0.2 * float(truth.vertices[:, 2].max()) * ((torch.arange(24) + 0.5) / 24).sqrt()
    centre = (
        0.0 if name == "bowl" else float(truth.vertices[:, 0].min() + truth.vertices[:, 2].max())
    )
    place = torch.stack([centre + radius * angle.cos(), radius * angle.sin()], 1).double()
    true, found = floor_at(truth, place), floor_at(mesh, place)
    return float((true - found).abs().mean() / (truth.vertices[:, 1].max() - true.mean()))


def floor_at(mesh: Mesh, place: Tensor) -> Tensor:
    """The highest point of a surface above places [P, 2] of the ground, or its lowest."""
    a, b, c = mesh.vertices.double()[mesh.faces].unbind(1)
    found = torch.full((len(place),), float(mesh.vertices[:, 1].min()), dtype=torch.float64)
    u, v = (b - a)[:, [0, 2]], (c - a)[:, [0, 2]]
    det = u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]
    for i, p in enumerate(place):
        w = p - a[:, [0, 2]]
        s = (w[:, 0] * v[:, 1] - w[:, 1] * v[:, 0]) / det
        t = (u[:, 0] * w[:, 1] - u[:, 1] * w[:, 0]) / det
        hit = (s >= 0) & (t >= 0) & (s + t <= 1)
        if hit.any():
            found[i] = (a[:, 1] + s * (b - a)[:, 1] + t * (c - a)[:, 1])[hit].max()
    return found


def compared(name: str, truth: Mesh, mesh: Mesh, camera: Camera, size: int) -> dict[str, Any]:
    """How good a mesh is."""
    one, other = near(truth, mesh, camera, size), near(mesh, truth, camera, size)
    diagonal = visual.diagonal(truth)
    recall, precision = (float((x < F_SCORE * diagonal).mean()) for x in (one, other))
    quality = mesh_quality(mesh)
    return {
        "chamfer": float(one.mean() + other.mean()) / 2 / diagonal,
        "f_score": 2 * recall * precision / max(recall + precision, 1e-12),
        "volume_iou": volume_iou(mesh, truth), "hollow": hollow_error(name, truth, mesh),
        "genus": quality["genus"], "parts": quality["parts"], "faces": mesh.face_counts[0],
    }  # fmt: skip


def measure(name: str, truth: Mesh, folder: Path) -> dict[str, Any]:
    """Fit the photos of a shape, and compare."""
    settings, out = gendr.FitSettings(), str(folder / "fit")
    plain = Fit(target=str(folder), output=out, quiet=True, settings=settings)
    masks = with_masks(plain, Run(plain, folder)).masks
    own = load_views(folder, masks=masks)
    size = min(own.image_size)
    small, large = (
        load_views(folder, masks=masks, size=min(n, size)) for n in (IMAGE_SIZE, STEREO_SIZE)
    )
    begun, spent = time.perf_counter(), time.process_time()
    alone = gendr.fit(small.masks, small.camera, init="hull").mesh
    between, half = time.perf_counter(), time.process_time()
    assert large.rgb is not None  # for the type checker
    found = gendr.refine_shape(alone, large.rgb, large.camera, large.masks)
    after = time.perf_counter(), time.process_time()
    alone.save(folder / "silhouettes.ply")
    found.mesh.save(folder / "stereo.ply")
    return {
        "shape": name, "light": "moves" if SHAPES[name] else "still", "photos": len(own),
        "size": size, "improved": found.improved, "reason": found.reason,
        "true_genus": mesh_quality(truth)["genus"],
        "seconds": {"silhouettes": between - begun, "stereo": after[0] - between},
        "processor_seconds": {"silhouettes": half - spent, "stereo": after[1] - half},
        "silhouettes": compared(name, truth, alone, own.camera, size),
        "stereo": compared(name, truth, found.mesh, own.camera, size), **measured_on(),
    }  # fmt: skip


def lines(rows: list[dict[str, Any]]) -> list[str]:
    """The table of the page."""

    def hollow(value: float | None) -> str:
        return "" if value is None else f"{100 * value:.1f}"

    head = [
        "shape", "paint", "light", "chamfer, % of the diagonal: silhouettes", "stereo",
        "F-score at 1 %: silhouettes", "stereo", "volume IoU: silhouettes", "stereo",
        "hollow, % of its depth: silhouettes", "stereo", "genus: true", "silhouettes", "stereo",
    ]  # fmt: skip
    cells = []
    for row in rows:
        both = row["silhouettes"], row["stereo"]
        cells.append([
            row["shape"], row["paint"], row["light"], *(f"{100 * x['chamfer']:.2f}" for x in both),
            *(f"{x['f_score']:.3f}" for x in both), *(f"{x['volume_iou']:.3f}" for x in both),
            *(hollow(x["hollow"]) for x in both),
            "" if row["true_genus"] is None else str(row["true_genus"]),
            *(str(x["genus"]) for x in both),
        ])  # fmt: skip
    seconds = [sum(row["processor_seconds"].values()) for row in rows]
    where = sorted({f"{row['date']}, commit {row['commit']}, {row['machine']}" for row in rows})
    facts = f"{rows[0]['photos']} photos of {rows[0]['size']}², {np.mean(seconds):.0f} s each"
    return [
        *ABOUT.splitlines(),
        "",
        *table(head, cells, left=3),
        "",
        f"{facts}, of the processor; {'; '.join(where)}.",
    ]


def main() -> None:
    """Draw photos, or measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=("draw", "measure"))
    parser.add_argument("work", type=Path)
    parser.add_argument("--meshes", type=Path, help="a folder with fandisk.obj")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--paints", nargs="+", choices=ALL, default=list(ALL))
    parser.add_argument("--photos", type=int, default=36)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--samples", type=int, default=64, help="of a pixel")
    parser.add_argument("--docs", action="store_true", help="write docs/results/photos.md")
    args = parser.parse_args()
    wanted = [
        (paint, name)
        for paint, name in itertools.product(args.paints, args.shapes)
        if (paint == PLASTER) == (name in FIGURES)
    ]
    rows = json.loads(RESULTS.read_text()) if args.docs and RESULTS.is_file() else []
    if args.what == "draw":
        if args.meshes is None:
            parser.error("draw needs --meshes")
        for name, mesh in shapes(args.meshes).items():
            args.work.mkdir(parents=True, exist_ok=True)
            mesh.save(args.work / f"{name}.ply")
            for paint in (paint for paint, other in wanted if other == name):
                folder = args.work / f"{name}-{paint.replace(' ', '-')}"
                size = args.size * 15 // 16 if paint == PLASTER else args.size
                drawn(name, mesh, paint, args.photos, size, args.samples, folder)
        return
    for paint, name in wanted:
        truth = Mesh.load(args.work / f"{name}.ply")
        folder = args.work / f"{name}-{paint.replace(' ', '-')}"
        row = {"paint": paint, **measure(name, truth, folder)}
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
        known = {(old["paint"], old["shape"]): old for old in rows} | {(paint, name): row}
        rows = [known[key] for key in itertools.product(ALL, SHAPES) if key in known]
        if args.docs:
            RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
            fill(PAGE, "truth", lines(rows))


if __name__ == "__main__":
    main()
