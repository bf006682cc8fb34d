"""Photos to a surface without a GPU: what others' packages make of a bowl, beside `gendr fit`.

    python benchmarks/truth.py draw WORK --meshes FOLDER   # and measure WORK --docs
    python benchmarks/peers/meshing.py WORK [--python PEERS/bin/python]

Others run in an environment of their own, made in WORK unless one is given. COLMAP has the true
cameras and masks; its dense stereo needs CUDA, its Delaunay meshing is not in its Python package.
Open3D has no stereo of many photos: it is given our depths, whose time counts, with silhouettes.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
RESULTS, PAGE = (ROOT / "docs/results" / name for name in ("meshing-peers.json", "photos.md"))
PACKAGES = ("open3d==0.20.0", "pycolmap==4.2.1", "libusb-package", "numpy")
PEERS = {
    "COLMAP 4.2.1: sparse points, Poisson": "colmap",
    "Open3D 0.20: our depths, TSDF": "tsdf",
    "Open3D 0.20: our depths, Poisson": "poisson",
}
PEAK, RATIO = 0.001, 0.9  # of features and matches; by default, there are 77 points in all
DEPTH, CELLS, REACH = 9, 320, 4.0  # of octrees; of grids, as ours: cells of the extent, truncation


def open3d():
    """Open3D; its wheel looks for a library that not all systems have."""
    import ctypes

    import libusb_package  # pyright: ignore[reportMissingImports]

    ctypes.CDLL(str(libusb_package.get_library_path()), mode=ctypes.RTLD_GLOBAL)
    import open3d  # pyright: ignore[reportMissingImports]

    return open3d


def colmap(work, given):
    """Sparse points of known cameras, with normals that face them, and COLMAP's own Poisson."""
    import pycolmap  # pyright: ignore[reportMissingImports]

    o3d, out, photos = open3d(), work / "colmap", work / "bowl-pattern"
    shutil.rmtree(out, ignore_errors=True)
    (out / "masks").mkdir(parents=True)
    for mask in (photos / "masks").glob("*.png"):
        shutil.copy(mask, out / "masks" / f"{mask.name}.png")
    lens = ",".join(str(given["photo_k"][i, j]) for i, j in ((0, 0), (1, 1), (0, 2), (1, 2)))
    about = {"camera_model": "PINHOLE", "camera_params": lens, "mask_path": str(out / "masks")}
    sift, matching = pycolmap.FeatureExtractionOptions(), pycolmap.FeatureMatchingOptions()
    sift.sift.peak_threshold, matching.sift.max_ratio = PEAK, RATIO
    sift.sift.estimate_affine_shape = sift.sift.domain_size_pooling = True
    matching.guided_matching = True
    base, found, single = out / "data.db", pycolmap.Reconstruction(), pycolmap.CameraMode.SINGLE
    names = [f"{i:03d}.png" for i in range(len(given["pose"]))]
    reader = pycolmap.ImageReaderOptions(**about)
    pycolmap.extract_features(base, photos, names, single, reader, sift)
    pycolmap.match_exhaustive(base, matching)
    with pycolmap.Database.open(base) as database:
        found.add_camera_with_trivial_rig(database.read_all_cameras()[0])
        for image in database.read_all_images():
            pose = pycolmap.Rigid3d(given["pose"][names.index(image.name), :3])
            found.add_image_with_trivial_frame(image, pose)
    found = pycolmap.triangulate_points(found, base, photos, out)
    points, eyes = [], []
    for point in found.points3D.values():
        seen = [found.images[one.image_id].projection_center() for one in point.track.elements]
        if len(seen) > 2:  # most of the others are false
            points.append(point.xyz)
            eyes.append(np.mean(seen, 0))
    print(len(points), "points of", len(found.points3D))
    cloud = o3d.geometry.PointCloud(o3d.utility.Vector3dVector(np.array(points)))
    cloud.estimate_normals(o3d.geometry.KDTreeSearchParamKNN(16))
    normals = np.asarray(cloud.normals)
    normals *= np.sign((normals * np.subtract(eyes, points)).sum(1, keepdims=True))
    cloud.paint_uniform_color([0.5, 0.5, 0.5])
    o3d.io.write_point_cloud(str(out / "points.ply"), cloud)
    options = pycolmap.PoissonMeshingOptions(depth=DEPTH, trim=0.0)  # nothing is trimmed of so few
    pycolmap.poisson_meshing(out / "points.ply", out / "mesh.ply", options)
    return o3d.io.read_triangle_mesh(str(out / "mesh.ply"))


def fused(given, kind):
    """Open3D's surface of depth maps: of their distances, or Poisson's of points."""
    o3d, k, size = open3d(), given["k"], given["depth"].shape[:0:-1]
    cell, one, tensor = given["extent"] / CELLS, o3d.core.float32, o3d.core.Tensor
    grid = o3d.t.geometry.VoxelBlockGrid(("tsdf", "weight"), (one, one), (1, 1), cell, 16, 50_000)
    lens, cloud = o3d.camera.PinholeCameraIntrinsic(*size, k), o3d.geometry.PointCloud()
    for depth, pose in zip(given["depth"], given["pose"], strict=True):
        if kind == "tsdf":
            image, place = o3d.t.geometry.Image(tensor(depth)), (tensor(k), tensor(pose), 1.0, 1e3)
            blocks = grid.compute_unique_block_coordinates(image, *place, REACH)
            grid.integrate(blocks, image, *place, REACH)
            continue
        image = o3d.geometry.Image(depth)
        part = o3d.geometry.PointCloud.create_from_depth_image(image, lens, pose, 1.0, 1e3)
        part.estimate_normals(o3d.geometry.KDTreeSearchParamKNN(30))
        part.orient_normals_towards_camera_location(np.linalg.inv(pose)[:3, 3])
        cloud += part
    if kind == "tsdf":
        return grid.extract_triangle_mesh().to_legacy()
    return o3d.geometry.TriangleMesh.create_from_point_cloud_poisson(cloud, depth=DEPTH)[0]


def write_depths(photos, file):
    """Find the depths as `gendr fit` does, and keep them and the cameras."""
    from gendr.cli.photos import STEREO_SIZE
    from gendr.mesh import Mesh
    from gendr.photos import load_views
    from gendr.photos.fitting.shape.stereo import find_depths

    start, own = Mesh.load(photos / "silhouettes.ply"), load_views(photos)
    views, begun = load_views(photos, size=STEREO_SIZE), time.process_time()
    found = find_depths(start, views.rgb, views.camera, views.masks)
    spent, pose = time.process_time() - begun, np.tile(np.eye(4), (len(views), 1, 1))
    pose[:, :3, :3], pose[:, :3, 3], k = views.camera.to_opencv(views.image_size, pixel_centre=0)
    depth = np.where(found.weights > 0, 1 / found.planes[..., 0].clip(1e-9), 0).astype(np.float32)
    extent = (start.bounding_box()[1] - start.bounding_box()[0]).max()
    photo_k = own.camera.to_opencv(own.image_size)[2][0]
    facts = {"k": k[0].double(), "photo_k": photo_k, "extent": float(extent), "seconds": spent}
    np.savez(file, depth=depth, pose=pose, **facts)


def lines(rows, table):
    """The table of the page."""
    forms = {"chamfer": "{:.2%}", "f_score": "{:.3f}", "volume_iou": "{:.3f}", "hollow": "{:.1%}",
             "genus": "{}", "parts": "{}", "faces": "{:,}", "seconds": "{:.0f}"}  # fmt: skip
    head = ["way", "chamfer", "F-score", "volume IoU", *list(forms)[3:]]
    cells = [[row["way"], *(form.format(row[x]) for x, form in forms.items())] for row in rows]
    cells = [["open" if x == "None" else x for x in line] for line in cells]
    where = sorted({f"{row['date']}, commit {row['commit']}, {row['machine']}" for row in rows})
    return [*table(head, cells, left=1), "", f"{'; '.join(where)}."]


def main():
    """Make each surface, compare it, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("work", type=Path, help="of benchmarks/truth.py")
    parser.add_argument("--python", type=Path, help=f"of an environment with {', '.join(PACKAGES)}")
    parser.add_argument("--peer", choices=PEERS.values(), help=argparse.SUPPRESS)
    args = parser.parse_args()
    photos, file = args.work / "bowl-pattern", args.work / "meshing-depths.npz"
    if args.peer:
        given, begun = dict(np.load(file)), time.process_time()
        mesh = colmap(args.work, given) if args.peer == "colmap" else fused(given, args.peer)
        out = args.work / f"{args.peer}.npz", time.process_time() - begun
        np.savez(out[0], vertices=mesh.vertices, faces=mesh.triangles, seconds=out[1])
        return
    sys.path.insert(1, str(ROOT / "benchmarks"))
    import torch
    from rows import measured_on
    from truth import compared

    from gendr.mesh import Mesh
    from gendr.photos import load_views
    from lab.pages import fill, table

    if args.python is None:
        args.python = args.work / "peers/bin/python"
        venv.create(args.work / "peers", with_pip=True)
        subprocess.run([args.python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
    if not file.is_file():
        write_depths(photos, file)
    known = json.loads((RESULTS.parent / "truth.json").read_text())
    ours = next(x for x in known if (x["shape"], x["paint"]) == ("bowl", "pattern"))
    spent, facts = ours["processor_seconds"], measured_on()
    own = {"way": "gendr fit", "seconds": sum(spent.values()), **{x: ours[x] for x in facts}}
    rows, before = [own | ours["stereo"]], spent["silhouettes"] + float(np.load(file)["seconds"])
    truth, views = Mesh.load(args.work / "bowl.ply"), load_views(photos)
    for way, name in PEERS.items():
        subprocess.run([args.python, __file__, str(args.work), "--peer", name], check=True)
        made = np.load(args.work / f"{name}.npz")
        mesh = Mesh(torch.from_numpy(made["vertices"]).float(), torch.from_numpy(made["faces"]))
        seconds = float(made["seconds"]) + (0 if name == "colmap" else before)
        row = compared("bowl", truth, mesh, views.camera, min(views.image_size))
        rows.append({"way": way, "seconds": seconds, **row, **facts})
        print(rows[-1], flush=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    fill(PAGE, "meshing-peers", lines(rows, table))


if __name__ == "__main__":
    main()
