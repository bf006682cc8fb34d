"""Three path-traced scenes with photos, cameras and backgrounds that are not plain.

    pip install mitsuba
    python experiments/path_traced.py OUT                      # 48 pictures of 200² of each
    gendr splat OUT/room -o room --hold-out 6

Drawn by Mitsuba 3 (Jakob et al. 2022): a room with coloured walls and balls of gold and glass;
a chair on tiles under a sky; a heap of glossy stones before hills. With `--scenes heap` that heap
alone, transparent around it, for experiments that need masks. Views go round each at two heights.
The poses are in `transforms.json`, the format of the NeRF papers.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
ANGLE = 50.0  # of view, degrees


def room(mi: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Balls of metal, glass and paint, and a block, in a box with coloured walls and a lamp."""
    turn = mi.ScalarTransform4f
    walls = {
        "floor": (turn(), checks((0.85, 0.83, 0.8), (0.25, 0.3, 0.4), 12)),
        "back": (turn().rotate([1, 0, 0], 90), paint(0.75, 0.72, 0.65)),
        "front": (turn().rotate([1, 0, 0], -90), paint(0.55, 0.65, 0.75)),
        "left": (turn().rotate([0, 1, 0], 90), checks((0.7, 0.25, 0.2), (0.8, 0.5, 0.4), 6)),
        "right": (turn().rotate([0, 1, 0], -90), paint(0.3, 0.6, 0.35)),
        "ceiling": (turn().rotate([1, 0, 0], 180), paint(0.8, 0.8, 0.8)),
    }
    scene: dict[str, Any] = {
        name: {"type": "rectangle", "to_world": turn().translate([0, 0, 2]) @ way
               @ turn().translate([0, 0, -2.6 if name in ("floor", "ceiling") else -5])
               @ turn().scale([5, 5, 1]), "bsdf": {"type": "twosided", "material": look}}
        for name, (way, look) in walls.items()
    }  # fmt: skip
    scene["lamp"] = {
        "type": "rectangle",
        "to_world": turn().translate([0.5, 0.5, 4.5]) @ turn().rotate([1, 0, 0], 180)
        @ turn().scale([1.2, 1.2, 1]),
        "emitter": {"type": "area", "radiance": {"type": "rgb", "value": [14, 13, 11]}},
    }  # fmt: skip
    metal = {"type": "roughconductor", "material": "Au", "alpha": 0.15}
    glass = {"type": "dielectric", "int_ior": 1.5}
    balls = [((0.0, 0.0, 0.15), 0.75, metal), ((1.1, 0.5, -0.15), 0.45, glass),
             ((-0.9, 0.8, -0.2), 0.4, gloss(0.1, 0.25, 0.7)),
             ((0.4, -1.1, -0.25), 0.35, gloss(0.75, 0.15, 0.15))]  # fmt: skip
    for i, (centre, radius, look) in enumerate(balls):
        scene[f"ball{i}"] = {"type": "sphere", "center": list(centre), "radius": radius,
                             "bsdf": look}  # fmt: skip
    scene["block"] = {
        "type": "cube", "bsdf": gloss(0.9, 0.7, 0.2),
        "to_world": turn().translate([-1.1, -0.6, -0.2]) @ turn().rotate([0, 0, 1], 25)
        @ turn().scale([0.35, 0.35, 0.4]),
    }  # fmt: skip
    return scene


def chair(mi: Any, rng: np.random.Generator) -> dict[str, Any]:
    """The chair of this project on tiles, under a sky with clouds."""
    turn = mi.ScalarTransform4f
    return {
        "floor": {"type": "disk", "to_world": turn().translate([0, 0, -0.6]) @ turn().scale(4),
                  "bsdf": checks((0.8, 0.75, 0.65), (0.35, 0.2, 0.15), 16)},
        "chair": {"type": "obj", "filename": str(ROOT / "gendr" / "assets" / "chair.obj"),
                  "to_world": turn().scale(1.2) @ turn().rotate([1, 0, 0], 90),
                  "face_normals": True, "bsdf": gloss(0.55, 0.3, 0.12)},
        "sky": sky(mi, rng, hills=False),
    }  # fmt: skip


def stones(mi: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Forty glossy stones on sand, before hills."""
    turn = mi.ScalarTransform4f
    scene: dict[str, Any] = {
        "ground": {"type": "disk", "to_world": turn().translate([0, 0, -0.5]) @ turn().scale(5),
                   "bsdf": checks((0.76, 0.66, 0.5), (0.66, 0.56, 0.42), 40)},
        "sky": sky(mi, rng, hills=True),
    }  # fmt: skip
    for i in range(40):
        size = rng.uniform(0.1, 0.35, 3)
        x, y = rng.normal(0, 0.7, 2)
        place = [x, y, -0.5 + 0.8 * size[2] + 0.5 * max(0.0, 0.8 - math.hypot(x, y))]
        scene[f"stone{i}"] = {
            "type": "sphere" if i % 4 else "cube",
            "to_world": turn().translate(place) @ turn().rotate([0, 0, 1], rng.uniform(0, 180))
            @ turn().rotate([1, 0, 0], rng.uniform(-20, 20)) @ turn().scale(list(size)),
            "bsdf": gloss(*rng.uniform(0.05, 0.85, 3)),
        }  # fmt: skip
    return scene


def heap(mi: Any, rng: np.random.Generator) -> dict[str, Any]:
    """The stones in the light of the sky, and nothing else."""
    return {name: part for name, part in stones(mi, rng).items() if name != "ground"}


SCENES = {"room": room, "chair": chair, "stones": stones, "heap": heap}


def paint(*rgb: float) -> dict[str, Any]:
    """A dull surface."""
    return {"type": "diffuse", "reflectance": {"type": "rgb", "value": list(rgb)}}


def gloss(*rgb: float) -> dict[str, Any]:
    """A surface with highlights."""
    color = {"type": "rgb", "value": [float(x) for x in rgb]}
    return {"type": "roughplastic", "diffuse_reflectance": color, "alpha": 0.12}


def checks(first: tuple[float, ...], second: tuple[float, ...], count: int) -> dict[str, Any]:
    """A dull chessboard with so many pairs of fields along a side."""
    return {"type": "diffuse", "reflectance": {
        "type": "checkerboard", "color0": {"type": "rgb", "value": list(first)},
        "color1": {"type": "rgb", "value": list(second)}, "to_uv": scaled(count)}}  # fmt: skip


def scaled(count: int) -> Any:
    """The transform of coordinates of a texture that repeats so many times."""
    import mitsuba as mi

    return mi.ScalarTransform3f().scale([count, count])


def sky(mi: Any, rng: np.random.Generator, *, hills: bool) -> dict[str, Any]:
    """A sky that is brighter at the horizon, with clouds or hills and a sun."""
    tall, wide = 512, 1024
    down, across = np.mgrid[0:tall, 0:wide] / np.array([tall, wide])[:, None, None]
    height = 1 - 2 * down
    clear = 0.6 * np.stack([0.35 + 0.45 * (1 - abs(height)), 0.5 + 0.35 * (1 - abs(height)),
                      0.8 + 0.1 * (1 - abs(height))], -1)  # fmt: skip
    waves = sum(
        np.sin(2 * math.pi * (k * across + rng.random())) * rng.uniform(0.3, 1) / k
        for k in range(1, 9)
    )
    if hills:
        ridge = 0.12 + 0.1 * waves
        clear[height < ridge] = (0.16, 0.28, 0.14)
        clear[height < 0.5 * ridge - 0.02] = (0.3, 0.26, 0.15)
    else:
        bands = np.sin(9 * math.pi * down + 1.5 * waves)
        clear += 0.35 * np.clip(bands - 0.3, 0, 1)[..., None] * (height > 0)[..., None]
    sun = (across - 0.3) ** 2 * 4 + (down - 0.2) ** 2 < 0.0012
    clear[sun] = 60.0
    return {"type": "envmap", "bitmap": mi.Bitmap(clear.astype(np.float32)),
            "to_world": mi.ScalarTransform4f().rotate([1, 0, 0], 90)}  # fmt: skip


def eyes(count: int) -> np.ndarray:
    """Places of cameras [count, 3], by turns on a lower and a higher ring about the z axis."""
    turn = 2 * math.pi * np.arange(count) / count
    low = np.arange(count) % 2 == 0
    radius, height = np.where(low, 3.4, 2.9), np.where(low, 0.7, 1.9)
    return np.stack([radius * np.cos(turn), radius * np.sin(turn), height], -1)


def main() -> None:
    """Draw the scenes that are not there yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--scenes", nargs="+", choices=SCENES, default=list(SCENES)[:3])
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--views", type=int, default=48)
    parser.add_argument("--samples", type=int, default=64, help="of a pixel")
    args = parser.parse_args()
    import mitsuba as mi

    mi.set_variant("scalar_rgb")
    for name in args.scenes:
        folder = args.out / name
        folder.mkdir(parents=True, exist_ok=True)
        parts = SCENES[name](mi, np.random.default_rng(7))
        alone = name == "heap"
        path = {"type": "path", "hide_emitters": alone}
        scene = mi.load_dict({"type": "scene", "integrator": path, **parts})
        frames = []
        for i, eye in enumerate(tqdm(eyes(args.views), name)):
            pose = mi.ScalarTransform4f().look_at(list(eye), [0.0, 0.0, 0.0], [0, 0, 1])
            path = folder / f"{i:03d}.png"
            if not path.exists():
                sensor = mi.load_dict({
                    "type": "perspective", "fov": ANGLE, "to_world": pose,
                    "film": {"type": "hdrfilm", "width": args.size, "height": args.size,
                             "pixel_format": "rgba" if alone else "rgb",
                             "rfilter": {"type": "box"}},
                    "sampler": {"type": "independent", "sample_count": args.samples},
                })  # fmt: skip
                drawn = mi.Bitmap(mi.render(scene, sensor=sensor, seed=i))
                kind = mi.Bitmap.PixelFormat.RGBA if alone else mi.Bitmap.PixelFormat.RGB
                drawn.convert(kind, mi.Struct.Type.UInt8, srgb_gamma=True).write(str(path))
            # Mitsuba looks along +z with x to the left, the format along -z with x to the right.
            world = np.array(pose.matrix, dtype=np.float64).reshape(4, 4) @ np.diag([-1, 1, -1, 1])
            frames.append({"file_path": f"./{i:03d}", "transform_matrix": world.tolist()})
        about = {"camera_angle_x": math.radians(ANGLE), "frames": frames}
        (folder / "transforms.json").write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
