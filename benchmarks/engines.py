"""What other programs show of a GLB: PSNR and SSIM against photos left out, and frames per second.

    python benchmarks/engines.py out/splats.glb PHOTOS                  # what of it is installed
    python benchmarks/engines.py out/fit.glb PHOTOS --cameras out/cameras.json --size 800
    python benchmarks/engines.py A.glb B.glb PHOTOS --pyrender ENV/bin/python --json rows.json

Every tenth photo counts, as `gendr splat --hold-out 10` leaves them out. Rows:

- gendr: the hard pictures of `gendr.Renderer`, 2 x 2 points a pixel, as `opaque_psnr` has them.
- primitives: rasterized, interpolated and antialiased at 2 x 2 points a pixel, as an engine would:
  COLOR_0 and texels are linear until the pixel has its colour.
- three: three.js in headless Chromium with WebGL in software, `antialias: true`, one point of the
  screen a pixel. three 2x: with two (devicePixelRatio 2), averaged.
- gendr view: the same browser at the page of the viewer, whose library maps tones of meshes.
- pyrender: trimesh and pyrender by OSMesa, 2 x 2 points a pixel (of its own, as software of Mesa 22
  gives it no multisampling), colours interpolated as sRGB.

Materials that are lit count as unlit: photos have their own light. three.js comes by npm into a
temporary folder, unless --npm names one that has it. pyrender wants NumPy 1 and a newer PyOpenGL
than it asks for: python -m venv ENV; ENV/bin/pip install 'numpy<2' pyrender; ENV/bin/pip install -U
PyOpenGL; and libosmesa6 of the system.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rows import measured_on
from torch import Tensor
from viser.transforms import SO3

import gendr.primitives as dr
from gendr.losses import psnr, ssim
from gendr.mesh import Camera, Mesh
from gendr.photos import visual
from gendr.photos.splatting import Photos, load_photos
from gendr.photos.viewer import Viewer, read_subject
from gendr.photos.views import color_of
from lab.pages import fill, table

DOCS = Path(__file__).parents[1] / "docs" / "splatting.md"
RESULTS = DOCS.parent / "results" / "splatting-engines.json"

Images = NDArray[Any]  # [B, H, W, 3] in [0, 1]

THREE = "three@0.187.0"
HERE = Path(__file__).resolve().parent
FINER = 2  # points along the side of a pixel, for our own pictures
LEAST_SECONDS = 3.0  # of which frames are counted
PATIENCE = 300.0  # seconds for a browser
COLOURS = 64  # of a figure
DRAWN = ("photo", "gendr", "three 2x", "pyrender", "gendr view")  # in it
SETTLED = 5.0  # seconds after which a page has its mesh
SOFTWARE = (
    "--headless=new", "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist", "--disable-extensions", "--no-first-run", "--mute-audio",
)  # fmt: skip

PAGE = Path(__file__).with_suffix(".html")  # for three.js

PYRENDER = """
import json, os, sys
os.environ.setdefault("PYOPENGL_PLATFORM", "osmesa")
import numpy as np, pyrender, trimesh
job = json.load(open(sys.argv[1]))
scene = pyrender.Scene(bg_color=[*job["background"], 1.0])
for node in (loaded := trimesh.load_scene(job["model"], process=False)).graph.nodes_geometry:
    place, name = loaded.graph[node]
    mesh = loaded.geometry[name]
    colors = mesh.visual.vertex_attributes.get("color") if mesh.visual.kind == "texture" else None
    if colors is None and mesh.visual.kind == "vertex":
        colors = mesh.visual.vertex_colors / 255.0
    material = getattr(mesh.visual, "material", None)
    image = getattr(material, "baseColorTexture", None)
    factor = getattr(material, "baseColorFactor", None)
    factor = np.ones(4) if factor is None else np.asarray(factor, float) / 255
    encode = lambda x: np.where(x <= 0.0031308, 12.92 * x, 1.055 * np.abs(x) ** (1 / 2.4) - 0.055)
    look = dict(metallicFactor=0.0, alphaMode="OPAQUE", doubleSided=True)
    look["baseColorFactor"] = [*encode(factor[:3]), 1.0]
    parts = dict(positions=mesh.vertices, indices=mesh.faces, mode=4)
    if colors is not None:  # which pyrender shows as they are
        parts["color_0"] = np.c_[encode(colors[:, :3]), np.ones(len(colors))].astype(np.float32)
    if image is not None:
        look["baseColorTexture"] = pyrender.Texture(source=image, source_channels="RGB")
        parts["texcoord_0"] = mesh.visual.uv
    primitive = pyrender.Primitive(material=pyrender.MetallicRoughnessMaterial(**look), **parts)
    scene.add(pyrender.Mesh([primitive]), pose=place)

class Given(pyrender.Camera):
    def __init__(self, matrix):
        super().__init__(znear=job["near"], zfar=job["far"])
        self.matrix = np.array(matrix).reshape(4, 4)
    def get_projection_matrix(self, width=None, height=None):
        return self.matrix

renderer = pyrender.OffscreenRenderer(job["width"], job["height"])
flags = pyrender.RenderFlags.FLAT | pyrender.RenderFlags.SKIP_CULL_FACES
for i, each in enumerate(job["cameras"]):
    node = scene.add(Given(each["projection"]), pose=np.array(each["world"]).reshape(4, 4))
    scene.main_camera_node = node
    np.save(f"{job['out']}/{i}.npy", renderer.render(scene, flags=flags)[0][..., :3])
    scene.remove_node(node)
"""


def placed(camera: Camera, size: tuple[int, int], near: float, far: float) -> list[dict[str, Any]]:
    """Each camera as OpenGL has it: its projection, and camera to world, row by row."""
    rotation, shift, k = (x.double() for x in camera.to_opencv(size))
    height, width = size
    found = []
    for r, t, (row, column, _) in zip(rotation, shift, k, strict=True):
        fx, cx, fy, cy = (float(x) for x in (row[0], row[2], column[1], column[2]))
        projection = [
            2 * fx / width, 0, 1 - 2 * cx / width, 0,
            0, 2 * fy / height, 2 * cy / height - 1, 0,
            0, 0, -(far + near) / (far - near), -2 * far * near / (far - near),
            0, 0, -1, 0,
        ]  # fmt: skip
        world = torch.eye(4, dtype=torch.float64)
        world[:3, :3] = r.T * torch.tensor([1.0, -1.0, -1.0], dtype=torch.float64)
        world[:3, 3] = -r.T @ t
        if camera.origin is not None:
            world[:3, 3] += camera.origin.double().cpu().reshape(-1, 3)[0]
        found.append({"projection": projection, "world": world.flatten().tolist()})
    return found


def by_gendr(mesh: Mesh, photos: Photos, background: Tensor) -> Images:
    """The hard pictures of the renderer."""
    rgb, alpha = visual.render_views(mesh.with_unlit(), photos.camera, photos.image_size)
    image = rgb + (1 - alpha)[:, None] * background[:, None, None]
    return image.permute(0, 2, 3, 1).float().numpy()


def by_primitives(mesh: Mesh, photos: Photos, background: Tensor) -> Images:
    """As engines do it: linear colours, antialiased edges, the mean of some points a pixel."""
    height, width = (FINER * n for n in photos.image_size)
    camera, faces = photos.camera.toward(mesh), mesh.faces.int()
    near, far = visual.depths(mesh, camera)
    shape = torch.tensor([min(height, width) / width, min(height, width) / height])
    images = []
    for i in range(len(camera)):
        (xyw,), (depth,) = camera[i].clip_coordinates(mesh.vertices)
        z = ((far + near) * depth - 2 * far * near) / (far - near)
        w = xyw[:, 2]
        scale = depth / w  # of clip coordinates, of which only ratios count
        pos = torch.stack([*(xyw[:, :2] * shape).mul(scale[:, None]).unbind(1), z, depth], 1)[None]
        rast, over = dr.rasterize(None, pos, faces, resolution=[height, width])
        color = torch.ones(1, height, width, 3)
        if mesh.vertex_colors is not None:
            color, _ = dr.interpolate(_linear(mesh.vertex_colors)[None], rast, faces)
        if mesh.face_colors is not None:
            corners = torch.arange(3 * len(faces), dtype=torch.int32).reshape(-1, 3)
            each = _linear(mesh.face_colors).repeat_interleave(3, 0)
            color = dr.interpolate(each[None], rast, corners)[0]
        if mesh.texture is not None and mesh.uvs is not None:
            own = mesh.face_uvs if mesh.face_uvs is not None else mesh.faces
            up = torch.stack([mesh.uvs[:, 0], 1 - mesh.uvs[:, 1]], 1)
            uv, da = dr.interpolate(up[None], rast, own.int(), rast_db=over, diff_attrs="all")
            texels = _linear(mesh.texture)[None].contiguous()
            color = color * dr.texture(texels, uv, da)
        color = torch.where(rast[..., 3:] > 0, _encoded(color), background)
        color = dr.antialias(color, rast, pos, faces)
        images.append(color.flip(1))
    return _pooled(torch.cat(images).numpy(), FINER)


def _linear(colors: Tensor) -> Tensor:
    x = colors.float().clamp(0, 1)
    return torch.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)


def _encoded(colors: Tensor) -> Tensor:
    x = colors.clamp(0, 1)
    return torch.where(x <= 0.0031308, 12.92 * x, 1.055 * x ** (1 / 2.4) - 0.055)


def _pooled(images: Images, n: int) -> Images:
    batch, height, width, _ = images.shape
    return images.reshape(batch, height // n, n, width // n, n, 3).mean((2, 4))


def by_three(
    job: dict[str, Any], model: Path, modules: Path, ratio: int
) -> tuple[Images, dict[str, Any]]:
    """What three.js shows in Chromium, and what it says of itself."""
    job = job | {"ratio": ratio, "seconds": LEAST_SECONDS}
    images: dict[int, bytes] = {}
    facts: dict[str, Any] = {}
    over = threading.Event()

    class Door(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            kind = "text/javascript" if path.endswith(".js") else "application/octet-stream"
            if path == "/":
                body, kind = PAGE.read_bytes(), "text/html"
            elif path == "/job.json":
                body = json.dumps(job).encode()
            elif path == "/model.glb":
                body = model.read_bytes()
            elif path.startswith("/three/") and (file := modules / path[1:]).is_file():
                body = file.read_bytes()
            else:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(204)
            self.end_headers()
            if self.path.startswith("/image/"):
                images[int(self.path[7:])] = body
                return
            facts.update({"failed": body.decode()} if self.path == "/failed" else json.loads(body))
            over.set()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with _browser(f"http://127.0.0.1:{server.server_port}/"):
        if not over.wait(PATIENCE):
            facts["failed"] = f"no answer in {PATIENCE:g} s"
    server.shutdown()
    if "failed" in facts:
        raise RuntimeError(f"three.js: {facts['failed']}")
    width, height = facts["size"]
    found = [
        np.frombuffer(images[i], np.uint8).reshape(height, width, 4)[::-1, :, :3]
        for i in range(len(job["cameras"]))
    ]
    return _pooled(np.stack(found).astype(np.float32) / 255, ratio), facts


@contextmanager
def _browser(url: str) -> Generator[None]:
    """Chromium at a page."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = subprocess.Popen(
            [_chromium(), *SOFTWARE, f"--user-data-dir={profile}", url],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield
        finally:
            browser.terminate()
            browser.wait()


def by_view(model: Path, photos: Photos, background: Tensor) -> Images:
    """What `gendr view` shows from the same places."""
    viewer = Viewer(read_subject(model), 8790)
    try:
        with _browser(viewer.url):
            server, begun = viewer._server, time.monotonic()
            while not (clients := server.get_clients()):
                if time.monotonic() - begun > PATIENCE:
                    raise RuntimeError(f"gendr view: no answer in {PATIENCE:g} s")
                time.sleep(0.2)
            (client,) = clients.values()
            time.sleep(SETTLED)
            found = [_seen(client, photos.camera[i], photos.image_size) for i in range(len(photos))]
    finally:
        viewer.close()
    images = np.stack(found).astype(np.float32) / 255
    return images[..., :3] * images[..., 3:] + background.numpy() * (1 - images[..., 3:])


def _seen(client: Any, camera: Camera, size: tuple[int, int]) -> Images:
    """What the viewer's page shows from a place, to half a pixel: RGBA [H, W, 4].

    Its principal point is in the middle, so that a larger picture is cut.
    """
    rotation, shift, k = (x[0].double() for x in camera.to_opencv(size))
    middle = float(k[1, 2]), float(k[0, 2])
    height, width = (2 * math.ceil(max(m, n - m)) for m, n in zip(middle, size, strict=True))
    top, left = round(height / 2 - middle[0]), round(width / 2 - middle[1])
    picture = client.get_render(
        height, width, wxyz=SO3.from_matrix(rotation.T.numpy()).wxyz, position=-rotation.T @ shift,
        fov=2 * math.atan(height / 2 / float(k[1, 1])), transport_format="png", timeout=PATIENCE,
    )  # fmt: skip
    return picture[top : top + size[0], left : left + size[1]]


def _chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        if (path := shutil.which(name)) is not None:
            return path
    raise RuntimeError("three.js needs Chromium or Chrome on the path")


def by_pyrender(job: dict[str, Any], model: Path, python: str) -> Images:
    """What pyrender shows of what trimesh has read."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "job.json"
        finer = {key: FINER * job[key] for key in ("width", "height")}
        file.write_text(json.dumps({**job, **finer, "model": str(model.resolve()), "out": folder}))
        env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        run = subprocess.run(
            [python, "-c", PYRENDER, str(file)], capture_output=True, text=True, env=env
        )
        if run.returncode:
            raise RuntimeError(f"pyrender: {run.stderr.strip().splitlines()[-1]}")
        found = [np.load(Path(folder) / f"{i}.npy") for i in range(len(job["cameras"]))]
    return _pooled(np.stack(found).astype(np.float32) / 255, FINER)


def scores(images: Images, photos: Photos) -> dict[str, float]:
    """Means of PSNR in dB and of SSIM over photos."""
    found = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2)
    pairs = [
        (photos.cropped(found[i], i), photos.cropped(photos.images[i], i))
        for i in range(len(photos))
    ]
    return {
        name: round(float(torch.stack([score(*pair) for pair in pairs]).mean()), 3)
        for name, score in (("psnr", psnr), ("ssim", ssim))
    }


def measure(model: Path, photos: Photos, args: argparse.Namespace, modules: Path | None) -> Any:
    """The rows of one GLB."""
    mesh, behind = Mesh.load(model), photos.background
    if args.background is not None:
        behind = torch.tensor(color_of(args.background))
    elif args.docs:
        facts = _facts(model)
        if facts["settings"]["background"] == "still":
            sys.stderr.write("before a picture that stands still no engine is asked\n")
            return []
        behind = torch.tensor(facts["background"])
    near, far = visual.depths(mesh, photos.camera)
    height, width = photos.image_size
    job = {
        "width": width, "height": height, "near": near, "far": far,
        "background": behind.tolist(), "cameras": placed(photos.camera, (height, width), near, far),
    }  # fmt: skip
    ways: dict[str, Callable[[], tuple[Images, dict[str, Any]]]] = {
        "gendr": lambda: (by_gendr(mesh, photos, behind), {}),
        "primitives": lambda: (by_primitives(mesh, photos, behind), {}),
    }
    if modules is not None:
        ways["three"] = partial(by_three, job, model, modules, 1)
        ways["three 2x"] = partial(by_three, job, model, modules, 2)
        ways["gendr view"] = lambda: (by_view(model, photos, behind), {})
    if args.pyrender:
        ways["pyrender"] = lambda: (by_pyrender(job, model, args.pyrender), {})
    about = {"model": str(model), "megabytes": round(model.stat().st_size / 1e6, 2)}
    rows, first, shown = [], None, {"photo": photos.images.permute(0, 2, 3, 1).numpy()}
    for name, way in ways.items():
        try:
            images, facts = way()
        except RuntimeError as error:
            sys.stderr.write(f"{error}\n")
            continue
        first = images if first is None else first
        row = {**about, "triangles": len(mesh.faces), "engine": name, **scores(images, photos)}
        row["from_ours"] = round(float(-10 * np.log10(np.square(images - first).mean() + 1e-12)), 2)
        rows.append(row | {k: facts[k] for k in ("fps", "samples", "by") if k in facts})
        _tell(rows[-1])
        shown[name] = images
        if args.out:
            _write(images, photos, Path(args.out), f"{model.stem}_{name.replace(' ', '_')}")
    if args.figure:
        _draw(shown, Path(args.figure))
    return rows


def _draw(shown: dict[str, Images], path: Path) -> None:
    """The first photo and what programs show from its place, side by side."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from PIL import Image

    kept = {"photo": "photo, left out", **_NAMES}
    columns = {kept[name]: images[0] for name, images in shown.items() if name in DRAWN}
    figure, axes = plt.subplots(1, len(columns), figsize=(2.6 * len(columns), 3))
    for axis, (name, picture) in zip(axes.flat, columns.items(), strict=True):
        axis.imshow(picture.clip(0, 1))
        axis.set_title(name.replace("`", ""), fontsize=8)
        axis.axis("off")
    figure.subplots_adjust(0, 0, 1, 0.92, 0.03)
    figure.savefig(path, dpi=90)
    plt.close(figure)
    colours = Image.open(path).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    colours.save(path, optimize=True)


def _tell(row: dict[str, Any]) -> None:
    rest = f"{row['fps']:8.1f} frames/s, {row['by']}" if "fps" in row else ""
    sys.stdout.write(
        f"{row['model']}  {row['megabytes']:.2f} MB  {row['triangles']:,} triangles  "
        f"{row['engine']:10s}  PSNR {row['psnr']:.2f}  SSIM {row['ssim']:.3f}  "
        f"to ours {row['from_ours']:.1f} dB  {rest}\n"
    )
    sys.stdout.flush()


def _write(images: Images, photos: Photos, folder: Path, stem: str) -> None:
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    for name, image in zip(photos.names, images, strict=True):
        pixels = (image.clip(0, 1) * 255).round().astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{stem}_{Path(name).stem}.png")


def _modules(given: str | None, folder: str) -> Path | None:
    """Where three.js is; it is installed unless a folder is given."""
    if given:
        return Path(given) / "node_modules"
    if shutil.which("npm") is None:
        sys.stderr.write("three.js needs npm\n")
        return None
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder,
                    THREE], check=True)  # fmt: skip
    return Path(folder) / "node_modules"


# What the page calls them.
_NAMES = {
    "gendr": "hard triangles, four points a pixel", "primitives": "the same, edges by `antialias`",
    "three": "three.js, `antialias`", "three 2x": "three.js, devicePixelRatio 2",
    "gendr view": "`gendr view`, tones mapped", "pyrender": "pyrender, four points a pixel",
}  # fmt: skip


def _facts(model: Path) -> dict[str, Any]:
    """What `gendr splat` wrote beside a GLB."""
    return json.loads(model.with_name("metrics.json").read_text("utf-8"))


def _write_page(model: Path, name: str, commit: str | None, rows: list[dict[str, Any]]) -> None:
    """Keep a scene, and fill the table of docs/splatting.md.

    Raises:
        OSError: if there is no metrics.json beside the GLB.
    """
    facts = _facts(model)
    of = measured_on() | ({"commit": commit} if commit else {})
    found = {"soft": facts, "gendr": facts["opaque"]} | {row["engine"]: row for row in rows}
    found = {k: {"psnr": v["psnr"], "ssim": v["ssim"]} for k, v in found.items()}
    height, width = facts["image_size"]
    three = [f"{x['fps']:.1f} frames/s by three.js in software" for x in rows if "fps" in x][:1]
    parts = [
        f"{width} × {height}", f"{facts['triangles']:,} soft triangles",
        f"{facts['opaque']['triangles']:,} opaque ones, {facts['opaque']['bytes'] / 1e6:.1f} MB",
        *three, f"{facts['steps']:,} and {facts['opaque']['steps']:,} steps",
        f"{facts['seconds']['total'] / 60:.0f} minutes on {facts['threads']} threads, one run",
        *of.values(),
    ]  # fmt: skip
    scenes = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    scenes[name] = {"about": ", ".join(parts), "drawn": found}
    RESULTS.write_text(json.dumps(scenes, indent=1) + "\n")
    lines = []
    for key, called in ({"soft": "soft triangles"} | _NAMES).items():
        each = [scene["drawn"].get(key) for scene in scenes.values()]
        cells = ["" if x is None else f"{x['psnr']:.1f}, {x['ssim']:.3f}" for x in each]
        lines.append([called if key == "soft" else f"GLB: {called}", *cells])
    abouts = [f"- {name}: {scene['about']}." for name, scene in scenes.items()]
    head = ["drawn by", *(f"{name}, dB, SSIM" for name in scenes)]
    fill(DOCS, "splatting-engines", [*table(head, lines, 1), "", *abouts])


def main() -> None:
    """Measure, and print the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("models", nargs="+", metavar="GLB")
    parser.add_argument("photos", metavar="PHOTOS")
    parser.add_argument("--cameras", help="their file, if it is not with the photos")
    parser.add_argument("--size", type=int, default=400, help="shorter side of the photos")
    parser.add_argument("--every", type=int, default=10, help="photos that count; 1 for all")
    parser.add_argument("--background", help="a colour, in place of that of the photos")
    parser.add_argument("--npm", help="folder with node_modules/three")
    parser.add_argument("--no-three", action="store_true", help="without a browser")
    parser.add_argument("--pyrender", metavar="PYTHON", help="of an environment that has it")
    parser.add_argument("--out", help="folder for the pictures")
    parser.add_argument("--figure", help="file for a picture of all, side by side")
    parser.add_argument("--json", help="file for the rows")
    parser.add_argument("--docs", action="store_true", help="write the table of docs/splatting.md")
    parser.add_argument("--commit", help="that trained the GLB, for that table; else this one")
    args = parser.parse_args()
    color = args.background or "white"
    photos = load_photos(args.photos, cameras=args.cameras, size=args.size, background=color)
    if args.every > 1:
        _, photos = photos.split(args.every, min(args.every, len(photos)) // 2)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        modules = None if args.no_three else _modules(args.npm, folder)
        for model in args.models:
            rows += measure(Path(model), photos, args, modules)
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if args.docs:
        _write_page(Path(args.models[0]), Path(args.photos).resolve().name, args.commit, rows)


if __name__ == "__main__":
    main()
