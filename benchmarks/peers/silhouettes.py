"""One loop, four renderers: a sphere fitted to 24 silhouettes, its quality over time.

    PYTHONPATH=. python benchmarks/peers/silhouettes.py gendr softras --out peers.json
    python -m venv peers && peers/bin/pip install . mitsuba==3.5.2
    PYTHONPATH=. peers/bin/python benchmarks/peers/silhouettes.py mitsuba --out peers.json
    python docs/make_figures.py peers

The same for PyTorch3D 0.7.9, `pip install . torch==2.12.0 easypytorch3d==0.7.9.post1`, a wheel of
its code by others that wants the torch it was built with. Runs from a clone; each renderer adds its
curve to the file, which is kept as docs/results/peers.json.

Everything but the renderer is shared: target, start, parametrisation, optimiser, loss, number of
steps. Soft renderers get the schedule of the README, twice the suggested scale to a third of it
(squared for squared distributions); Mitsuba's images are hard, and it samples outlines for
their gradients. The clock runs over steps alone, after one step on the side that compiles, and
counts processor time of all threads, so that other work on the machine matters little. Quality is
the mean IoU of hard silhouettes from 24 other places.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import gendr

ROOT = Path(__file__).parents[2]
SIZE, VIEWS, STEPS = 64, 24, 100
CUTOFF = 1e-3
SEEN = gendr.look_at(2.732, 30.0, torch.arange(VIEWS) * 15.0)
HELD_OUT = gendr.look_at(2.732, torch.tensor([50.0, 10.0]).repeat(12), torch.arange(24) * 15.0 + 7)
HARD = gendr.Renderer(SIZE, "heaviside", "max")
SAMPLES = 16  # per pixel, of Mitsuba
FACES_PER_PIXEL = 50  # of PyTorch3D, which leaves out the others

# What a renderer is: (vertices [V, 3], faces [F, 3], scale) -> alpha [VIEWS, SIZE, SIZE].
Render = Callable[[Tensor, Tensor, float], Tensor]


def ours(dist: str) -> Render:
    """A renderer of the family."""
    renderer = gendr.Renderer(SIZE, dist, "probabilistic", cutoff=CUTOFF)

    def render(vertices: Tensor, faces: Tensor, scale: float) -> Tensor:
        return renderer(gendr.Mesh(vertices, faces), SEEN, scale=scale).alpha

    return render


def pytorch3d() -> Render:
    """PyTorch3D's soft silhouette, set as its tutorials do, with the cameras of `SEEN`."""
    from pytorch3d import renderer as p3d  # pyright: ignore[reportMissingImports]
    from pytorch3d.structures import Meshes  # pyright: ignore[reportMissingImports]

    r, t, focal, principal = SEEN.to_pytorch3d()
    cameras = p3d.PerspectiveCameras(focal_length=focal, principal_point=principal, R=r, T=t)

    def render(vertices: Tensor, faces: Tensor, scale: float) -> Tensor:
        settings = p3d.RasterizationSettings(
            image_size=SIZE,
            blur_radius=math.log(1 / CUTOFF - 1) * scale,
            faces_per_pixel=FACES_PER_PIXEL,
        )
        shader = p3d.SoftSilhouetteShader(blend_params=p3d.BlendParams(sigma=scale))
        rasterizer = p3d.MeshRasterizer(cameras=cameras, raster_settings=settings)
        meshes = Meshes(vertices[None], faces[None]).extend(VIEWS)
        return p3d.MeshRenderer(rasterizer, shader)(meshes)[..., 3]

    return render


def mitsuba() -> Render:
    """Mitsuba 3: hard silhouettes of a shape that emits light, by projective sampling."""
    import drjit as dr  # pyright: ignore[reportMissingImports]
    import mitsuba as mi  # pyright: ignore[reportMissingImports]

    mi.set_variant("llvm_ad_rgb")
    sphere = gendr.mesh.icosphere(3)
    mesh = mi.Mesh("mesh", len(sphere.vertices), len(sphere.faces), props=_glowing(mi))
    params = mi.traverse(mesh)
    params["faces"] = mi.UInt32(sphere.faces.flatten().int().numpy())
    params["vertex_positions"] = mi.Float(sphere.vertices.flatten().numpy())
    params.update()
    scene = mi.load_dict(
        {
            "type": "scene",
            "integrator": {"type": "direct_projective", "sppi": 0},
            "mesh": mesh,
        }
    )
    params = mi.traverse(scene)
    (key,) = (name for name in params.keys() if name.endswith("vertex_positions"))
    sensors = [_sensor(mi, place) for place in SEEN]
    seeds = iter(range(10**9))

    @dr.wrap_ad(source="torch", target="drjit")
    def draw(vertices: Any) -> Any:
        params[key] = dr.ravel(mi.Vector3f(*(vertices[:, i].array for i in range(3))))
        params.update()
        images = [
            mi.render(scene, params, sensor=sensor, spp=SAMPLES, seed=next(seeds))[..., 0].array
            for sensor in sensors
        ]
        every = dr.zeros(mi.Float, VIEWS * SIZE**2)
        for k, image in enumerate(images):
            dr.scatter(every, image, dr.arange(mi.UInt32, SIZE**2) + k * SIZE**2)
        return mi.TensorXf(every, (VIEWS, SIZE, SIZE))

    def render(vertices: Tensor, faces: Tensor, scale: float) -> Tensor:
        return draw(vertices)

    return render


def _glowing(mi: Any) -> Any:
    props = mi.Properties()
    props["mesh_emitter"] = mi.load_dict({"type": "area", "radiance": {"type": "rgb", "value": 1}})
    return props


def _sensor(mi: Any, camera: gendr.Camera) -> Any:
    """The sensor of a camera: the same place, direction and angle; box filter."""
    eye = camera.eye[0]
    return mi.load_dict(
        {
            "type": "perspective",
            "fov": 30.0,
            "to_world": mi.ScalarTransform4f.look_at(
                origin=eye.tolist(), target=[0, 0, 0], up=[0, 1, 0]
            ),
            "film": {
                "type": "hdrfilm",
                "width": SIZE,
                "height": SIZE,
                "rfilter": {"type": "box"},
                "pixel_format": "rgb",
            },
        }
    )


# The name in the plot, the distribution whose scale is suggested, and what makes the renderer.
RENDERERS: dict[str, tuple[str, str, Callable[[], Render]]] = {
    "gendr": ("gendr: logistic", "logistic", lambda: ours("logistic")),
    "softras": ("SoftRas' formula, by gendr", "logistic.squared", lambda: ours("logistic.squared")),
    "pytorch3d": ("PyTorch3D", "logistic.squared", pytorch3d),
    "mitsuba": ("Mitsuba", "logistic", mitsuba),
}


def measure(name: str, steps: int, limit: float) -> dict[str, Any]:
    """The curve of a renderer: seconds of steps, and quality after them.

    Raises:
        SystemExit: its silhouettes are not those of `gendr`.
    """
    _, dist, make = RENDERERS[name]
    teapot = gendr.Mesh.load(ROOT / "assets" / "teapot.obj")
    target, held_out = HARD(teapot, SEEN).alpha, HARD(teapot, HELD_OUT).alpha
    sphere = gendr.mesh.icosphere(3).scaled(0.4)
    scale = gendr.suggest_scale(sphere, SEEN, SIZE, dist)
    power = 2 if dist.endswith("squared") else 1
    schedule = gendr.geometric_schedule(2**power * scale, scale / 3**power, steps=steps)
    render = make()
    with torch.no_grad():
        drawn = render(sphere.vertices, sphere.faces, scale / 100**power)
    agreement = float(gendr.losses.iou(drawn, HARD(sphere, SEEN).alpha).mean())
    if agreement < 0.97:
        raise SystemExit(f"{name}: its silhouette of a sphere has an IoU of {agreement:.3f}")
    shape = gendr.SmoothParametrization(sphere)
    optimizer = torch.optim.Adam(shape.parameters(), lr=0.03, betas=(0.9, 0.99))

    def loss_at(s: float) -> Tensor:
        mesh = shape.mesh()
        return gendr.losses.iou_loss(render(mesh.vertices, mesh.faces, s), target)

    def quality() -> float:
        return float(gendr.losses.iou(HARD(shape.mesh().detach(), HELD_OUT).alpha, held_out).mean())

    loss_at(float(schedule[0])).backward()
    curve, clock, wall = [(0, 0.0, quality())], 0.0, 0.0
    for step, s in enumerate(schedule, 1):
        began, busy = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        loss_at(float(s)).backward()
        optimizer.step()
        clock += time.process_time() - busy
        wall += time.perf_counter() - began
        if step in (1, 2, 3, 5, 7) or step % 5 == 0 or clock > limit:
            curve.append((step, round(clock, 3), round(quality(), 4)))
        if clock > limit:
            break
    return {"curve": curve, "wall_s": round(wall, 2), "sphere_iou": round(agreement, 4)}


def about() -> dict[str, Any]:
    """What a measurement was taken with."""
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    )
    return {
        "date": str(datetime.date.today()),
        "commit": commit.stdout.strip(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 2),
        "machine": platform.machine(),
    }


def version(name: str) -> str | None:
    """The version of a peer's package."""
    from importlib.metadata import version as of

    return {"pytorch3d": lambda: _version("pytorch3d"), "mitsuba": lambda: of("mitsuba")}.get(
        name, lambda: None
    )()


def _version(module: str) -> str:
    return __import__(module).__version__


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("renderers", nargs="+", choices=RENDERERS)
    parser.add_argument("--steps", type=int, default=STEPS, help="%(default)s")
    parser.add_argument(
        "--limit", type=float, default=300.0, help="seconds of processor time; %(default)s"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="JSON, to which curves are added")
    args = parser.parse_args()
    found = json.loads(args.out.read_text()) if args.out and args.out.exists() else {}
    for name in args.renderers:
        run = about()  # the load before
        found[name] = {
            "label": RENDERERS[name][0],
            "version": version(name),
            **measure(name, args.steps, args.limit),
            **run,
        }
        step, seconds, quality = found[name]["curve"][-1]
        print(f"{name}: IoU {quality:.3f} after {step} steps, {seconds:.1f} s of processor")
        if args.out:
            args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
