"""Photos to a surface without a GPU: what others' packages make of a bowl, beside `gendr fit`.

    python benchmarks/truth.py draw WORK --meshes FOLDER --shapes bowl --paints pattern
    python benchmarks/truth.py measure WORK --shapes bowl --paints pattern --docs
    python benchmarks/peers/meshing.py WORK [--python PEERS/bin/python]

Others run in an environment of their own, which is made in WORK unless one is given. COLMAP
triangulates with the true cameras, from features within the masks; its dense stereo needs CUDA,
and its Delaunay meshing is not in its Python package. Open3D has no stereo of many photos, so it
is given our depths, and the time of those counts: of silhouettes, where they begin, and of stereo.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
RESULTS, PAGE = (ROOT / "docs/results" / name for name in ("meshing-peers.json", "photos.md"))
PACKAGES = ("open3d==0.20.0", "pycolmap==4.2.1", "libusb-package", "numpy")
PEERS = {
    "COLMAP 4.2.1: sparse points, Poisson": "colmap",
    "Open3D 0.20: our depths, TSDF": "tsdf",
    "Open3D 0.20: our depths, Poisson": "poisson",
}
PEAK, RATIO = 0.001, 0.9  # of features and matches: by default, a thirteenth of the points
DEPTH, CELLS, REACH = 9, 320, 4.0  # of octrees; of grids, as ours: cells of the extent, truncation


def open3d() -> Any:
    """Open3D; its wheel looks for a library that not all systems have."""
    import ctypes

    import libusb_package  # pyright: ignore[reportMissingImports]

    ctypes.CDLL(str(libusb_package.get_library_path()), mode=ctypes.RTLD_GLOBAL)
    import open3d  # pyright: ignore[reportMissingImports]

    return open3d


def colmap(work: Path, given: Any) -> Any:
    """Sparse points of known cameras, with normals that face them, and COLMAP's own Poisson."""
    import pycolmap  # pyright: ignore[reportMissingImports]

    o3d, out, photos = open3d(), work / "colmap", work / "bowl-pattern"
    shutil.rmtree(out, ignore_errors=True)
    (out / "masks").mkdir(parents=True)
    names = [f"{i:03d}.png" for i in range(len(given["turn"]))]
    for name in names:
        shutil.copy(photos / "masks" / name, out / "masks" / f"{name}.png")
    lens = ",".join(str(given["photo_k"][i, j]) for i, j in ((0, 0), (1, 1), (0, 2), (1, 2)))
    reader = pycolmap.ImageReaderOptions(
        camera_model="PINHOLE", camera_params=lens, mask_path=str(out / "masks")
    )
    base, found = out / "database.db", pycolmap.Reconstruction()
    sift = pycolmap.FeatureExtractionOptions()
    sift.sift.peak_threshold = PEAK
    sift.sift.estimate_affine_shape = sift.sift.domain_size_pooling = True
    pycolmap.extract_features(base, photos, names, pycolmap.CameraMode.SINGLE, reader, sift)
    matching = pycolmap.FeatureMatchingOptions(guided_matching=True)
    matching.sift.max_ratio = RATIO
    pycolmap.match_exhaustive(base, matching)
    with pycolmap.Database.open(base) as database:
        found.add_camera_with_trivial_rig(database.read_all_cameras()[0])
        for image in database.read_all_images():
            i = names.index(image.name)
            pose = pycolmap.Rigid3d(pycolmap.Rotation3d(given["turn"][i]), given["shift"][i])
            found.add_image_with_trivial_frame(image, pose)
    found = pycolmap.triangulate_points(found, base, photos, out)
    points = list(found.points3D.values())
    eyes = {i: image.projection_center() for i, image in found.images.items()}
    seen = [np.mean([eyes[e.image_id] for e in p.track.elements], 0) - p.xyz for p in points]
    cloud = o3d.geometry.PointCloud(o3d.utility.Vector3dVector(np.array([p.xyz for p in points])))
    cloud.estimate_normals(o3d.geometry.KDTreeSearchParamKNN(16))
    normals = np.asarray(cloud.normals)
    normals *= np.sign((normals * np.array(seen)).sum(1, keepdims=True))
    cloud.paint_uniform_color([0.5, 0.5, 0.5])
    o3d.io.write_point_cloud(str(out / "points.ply"), cloud)
    print(len(points), "points")
    options = pycolmap.PoissonMeshingOptions(depth=DEPTH, trim=0.0)  # 10 leaves nothing of so few
    pycolmap.poisson_meshing(out / "points.ply", out / "mesh.ply", options)
    return o3d.io.read_triangle_mesh(str(out / "mesh.ply"))


def fused(given: Any, kind: str) -> Any:
    """Open3D's surface of depth maps: of their distances, or Poisson's of points."""
    o3d, cell = open3d(), float(given["extent"]) / CELLS
    (height, width), k, one = given["depth"].shape[1:], given["k"], o3d.core.float32
    cloud, tensor = o3d.geometry.PointCloud(), o3d.core.Tensor
    grid = o3d.t.geometry.VoxelBlockGrid(("tsdf", "weight"), (one, one), (1, 1), cell, 16, 50_000)
    lens = o3d.camera.PinholeCameraIntrinsic(width, height, k[0, 0], k[1, 1], k[0, 2], k[1, 2])
    for depth, turn, shift in zip(given["depth"], given["turn"], given["shift"], strict=True):
        pose = np.vstack([np.column_stack([turn, shift]), [0, 0, 0, 1]])
        if kind == "tsdf":
            image, place = o3d.t.geometry.Image(tensor(depth)), (tensor(k), tensor(pose), 1.0, 1e3)
            blocks = grid.compute_unique_block_coordinates(image, *place, REACH)
            grid.integrate(blocks, image, *place, REACH)
        else:
            image = o3d.geometry.Image(depth)
            part = o3d.geometry.PointCloud.create_from_depth_image(image, lens, pose, 1.0, 1e3)
            part.estimate_normals(o3d.geometry.KDTreeSearchParamKNN(30))
            part.orient_normals_towards_camera_location(-turn.T @ shift)
            cloud += part
    if kind == "tsdf":
        return grid.extract_triangle_mesh().to_legacy()
    return o3d.geometry.TriangleMesh.create_from_point_cloud_poisson(cloud, depth=DEPTH)[0]


def write_depths(photos: Path, file: Path) -> None:
    """Find the depths as `gendr fit` does, and keep them and the cameras."""
    import torch

    from gendr.cli.photos import STEREO_SIZE
    from gendr.fitting.shape.stereo import find_depths
    from gendr.mesh import Mesh, load_views

    start, own, views = (
        Mesh.load(photos / "silhouettes.ply"),
        load_views(photos),
        load_views(photos, size=STEREO_SIZE),
    )
    assert views.rgb is not None  # for the type checker
    begun = time.process_time()
    found = find_depths(start, views.rgb, views.camera, views.masks)
    spent, exact = time.process_time() - begun, views.camera.to(torch.float64)
    turn, shift, k = (x.numpy() for x in exact.to_opencv(views.image_size, pixel_centre=0))
    photo_k = exact.to_opencv(own.image_size)[2][0].numpy()
    depth = np.where(found.weights > 0, 1 / found.planes[..., 0].clip(1e-9), 0).astype(np.float32)
    extent = float((start.bounding_box()[1] - start.bounding_box()[0]).max())
    np.savez(file, depth=depth, turn=turn, shift=shift, k=k[0], photo_k=photo_k, seconds=spent,
             extent=extent)  # fmt: skip


def main() -> None:
    """Make each surface, compare it, and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("work", type=Path, help="of benchmarks/truth.py")
    parser.add_argument("--python", type=Path, help=f"of an environment with {', '.join(PACKAGES)}")
    parser.add_argument("--peer", choices=PEERS.values(), help=argparse.SUPPRESS)
    args = parser.parse_args()
    photos, file = args.work / "bowl-pattern", args.work / "meshing-depths.npz"
    if args.peer:
        given, begun = dict(np.load(file)), time.process_time()
        mesh = colmap(args.work, given) if args.peer == "colmap" else fused(given, args.peer)
        np.savez(args.work / f"{args.peer}.npz", vertices=np.asarray(mesh.vertices),
                 faces=np.asarray(mesh.triangles), seconds=time.process_time() - begun)  # fmt: skip
        return
    sys.path.insert(1, str(ROOT / "benchmarks"))
    import torch
    from rows import measured_on
    from truth import compared

    from gendr.mesh import Mesh, load_views
    from lab.pages import fill, table

    if args.python is None:
        args.python = args.work / "peers/bin/python"
        venv.create(args.work / "peers", with_pip=True)
        subprocess.run([args.python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
    if not file.is_file():
        write_depths(photos, file)
    known = json.loads((RESULTS.parent / "truth.json").read_text())
    ours = next(x for x in known if (x["shape"], x["paint"]) == ("bowl", "pattern"))
    spent = ours["processor_seconds"]
    rows = [{"way": "gendr fit", **ours["stereo"], "seconds": sum(spent.values()),
             **{key: ours[key] for key in measured_on()}}]  # fmt: skip
    truth, views = Mesh.load(args.work / "bowl.ply"), load_views(photos)
    for way, name in PEERS.items():
        subprocess.run([args.python, __file__, str(args.work), "--peer", name], check=True)
        made = np.load(args.work / f"{name}.npz")
        seconds = float(made["seconds"])
        if name != "colmap":
            seconds += spent["silhouettes"] + float(np.load(file)["seconds"])
        mesh = Mesh(torch.from_numpy(made["vertices"]).float(), torch.from_numpy(made["faces"]))
        row = compared("bowl", truth, mesh, views.camera, min(views.image_size))
        rows.append({"way": way, **row, "seconds": seconds, **measured_on()})
        print(rows[-1], flush=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    head = ("way", "chamfer, %", "F-score", "volume IoU", "hollow, %", "genus", "parts", "faces",
            "seconds")  # fmt: skip
    cells = [[
        row["way"], f"{100 * row['chamfer']:.2f}",
        *(f"{row[x]:.3f}" for x in ("f_score", "volume_iou")),
        f"{100 * row['hollow']:.1f}", *(str(row[x]) for x in ("genus", "parts")),
        f"{row['faces']:,}", f"{row['seconds']:.0f}",
    ] for row in rows]  # fmt: skip
    where = sorted({f"{row['date']}, commit {row['commit']}, {row['machine']}" for row in rows})
    fill(PAGE, "meshing-peers", [*table(head, cells, left=1), "", f"{'; '.join(where)}."])


if __name__ == "__main__":
    main()
