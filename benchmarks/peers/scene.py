"""Depth maps and surfaces of scenes without a GPU: others beside `gendr`, in one run.

    python benchmarks/rooms.py draw WORK && python benchmarks/rooms.py measure WORK
    pip install --target FOLDER --no-deps pyarchinit-photogrammetry-core==0.5.0
    PYTHONPATH=FOLDER python benchmarks/peers/scene.py WORK/heap PHOTOS --open3d PYTHON --docs

A scene of rooms.py, of which the truth is known, and a folder of photographs with cameras. Depth
maps of some photos: by `gendr`, by the PatchMatch in Rust of pyarchinit-photogrammetry-core (GPL;
as many photos beside each as here), and by OpenCV's semi-global matching of rectified pairs
(Hirschmueller, PAMI 2008), each photo with the nearest on its left or right. "Right" are pixels
whose point is within 0.5 % of the diagonal of the true surface. Surfaces: Poisson's (Kazhdan &
Hoppe 2013) by COLMAP's package of the sparse points and of ours, and by Open3D, in the environment
of PYTHON, of ours. What is not installed is left out. Seconds are the processor's, of all threads.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import _clone  # noqa: F401  # before what it makes importable

import rooms
from rows import measured_on
from scipy.spatial import KDTree

from gendr.mesh import Mesh
from gendr.photos.scene.depth_maps import DepthMap, find_depths
from gendr.photos.scene.model import read_scene
from gendr.photos.splatting import read_cloud
from lab.pages import fill, table

RESULTS = rooms.RESULTS.with_name("scene-peers.json")
LIMIT = 0.6  # the largest cost of a pixel that counts, here and in the package in Rust


SIDE = 500  # the longer side of photographs
DEPTH, SPARSE = 8, 0.05  # of octrees; the share of vertices, of the fewest points, that goes
OPEN3D = f"""
import sys, numpy as np, open3d as o3d
cloud = o3d.io.read_point_cloud(sys.argv[1])
mesh, density = o3d.geometry.TriangleMesh.create_from_point_cloud_poisson(cloud, depth={DEPTH})
density = np.asarray(density)
mesh.remove_vertices_by_mask(density < np.quantile(density, {SPARSE}))
o3d.io.write_triangle_mesh(sys.argv[2], mesh)
"""


class Truth:
    """What is known of a scene; only of drawn ones where it truly is."""

    def __init__(self, folder):
        self.folder, self.solids = folder, None
        if (folder / "truth.npz").is_file():
            self.scene = read_scene(folder / "photos")
            self.solids = rooms.SCENES[folder.name](np.random.default_rng(rooms.SEED))
            known = np.load(folder / "truth.npz")
            self.points, self.eyes = known["points"][known["views"] >= rooms.LEAST], known["eyes"]
            self.diagonal = float(np.linalg.norm(np.ptp(self.points, axis=0)))
        else:
            self.scene = read_scene(folder, side=SIDE)

    def right(self, i, depth):
        """The shares of the pixels of photo i that have a depth, and a right one."""
        v, u = np.nonzero(depth > 0)
        if self.solids is None or not len(v):
            return len(v) / depth.size, 0.0
        scene = self.scene
        x = np.stack([u, v, np.ones(len(u))], 1) @ np.linalg.inv(scene.K[i]).T * depth[v, u, None]
        x = (x - scene.t[i]) @ scene.R[i] + scene.origin
        off = np.min([solid.distances(x) for solid in self.solids], axis=0)
        good = off < rooms.PARTS[0] * self.diagonal
        return len(v) / depth.size, float(good.sum() / depth.size)


def grey(image):
    """A photo as float32 in [0, 1]."""
    return (image @ np.array([0.299, 0.587, 0.114]) / 255).astype(np.float32)


def by_rust(truth, rows):
    """The depth maps of pyarchinit-photogrammetry-core."""
    import ppg_core

    scene, found = truth.scene, []
    for i in rows:
        lens = [(K[0, 0], K[1, 1], K[0, 2], K[1, 2]) for K in scene.K]
        beside = []
        for j in scene.neighbours[i]:
            turn = scene.R[j] @ scene.R[i].T
            shift = scene.t[j] - turn @ scene.t[i]
            beside.append((grey(scene.images[j]), lens[j], turn, shift))
        z = (scene.points[scene.seen[i]] @ scene.R[i].T + scene.t[i])[:, 2]
        near, far = 0.8 * float(z.min()), 1.2 * float(z.max())
        got = ppg_core.patchmatch_depth(
            grey(scene.images[i]), lens[i], beside, (near, far), max_cost=LIMIT
        )
        found.append(np.asarray(got[0]))
    return found


def by_pairs(truth, rows):
    """Depths by semi-global matching with the photo that stands nearest."""
    import cv2

    scene, found = truth.scene, []
    for i in rows:
        gaps = np.linalg.norm(scene.centres - scene.centres[i], axis=1)
        shifts = (scene.centres - scene.centres[i]) @ scene.R[i].T
        gaps[np.abs(shifts[:, 0]) < 2 * np.abs(shifts[:, 1])] = np.inf
        gaps[i] = np.inf
        j = int(gaps.argmin())
        turn = scene.R[j] @ scene.R[i].T
        shift = scene.t[j] - turn @ scene.t[i]
        height, width = scene.images[i].shape[:2]
        # The first is the photo on the left.
        if shift[0] > 0:
            i_, j_, turn, shift = j, i, turn.T, -turn.T @ shift
        else:
            i_, j_ = i, j
        none, size = np.zeros((5, 1)), (width, height)
        r1, r2, p1, p2, back, _, _ = cv2.stereoRectify(
            scene.K[i_], none, scene.K[j_], none, size, turn, shift[:, None], alpha=0
        )
        flat = [
            cv2.remap(
                scene.images[k],
                *cv2.initUndistortRectifyMap(scene.K[k], none, r, p, size, cv2.CV_32FC1),
                cv2.INTER_LINEAR,
            )
            for k, r, p in ((i_, r1, p1), (j_, r2, p2))
        ]
        span = 16 * (1 + int(0.35 * width) // 16)
        match = cv2.StereoSGBM_create(
            0, span, 5, P1=8 * 3 * 25, P2=32 * 3 * 25, disp12MaxDiff=1, uniquenessRatio=10,
            speckleWindowSize=100, speckleRange=2,
        )  # fmt: skip
        steps = match.compute(*flat).astype(np.float32) / 16
        x = cv2.reprojectImageTo3D(steps, back)[steps > 0] @ r1  # as the first camera sees it
        depth = np.zeros((height, width))
        world = (x - scene.t[i_]) @ scene.R[i_]
        x = world @ scene.R[i].T + scene.t[i]
        x = x[x[:, 2] > 0]
        u, v = (x @ scene.K[i].T)[:, :2].T / x[:, 2]
        inside = (u > -0.5) & (v > -0.5) & (u < width - 0.5) & (v < height - 0.5)
        order = np.argsort(-x[inside, 2])  # the nearest last
        u, v = (np.rint(c[inside][order]).astype(int) for c in (u, v))
        depth[v, u] = x[inside, 2][order]
        found.append(depth)
    return found


def by_gendr(truth, rows):
    """The depth maps of this package; those of all photos, as they agree with each other."""
    with tempfile.TemporaryDirectory() as place:
        maps = [DepthMap.load(f) for f in find_depths(truth.scene, Path(place))]
    found = [np.where(m.costs <= LIMIT, m.planes[..., 0], 0) for m in maps]
    with np.errstate(divide="ignore"):
        return [np.where(found[i] > 0, 1 / found[i], 0) for i in rows]


def written(path, points, normals):
    """A binary PLY of points with normals."""
    table = np.hstack([points, normals]).astype("<f4")
    names = "".join(f"property float {n}\n" for n in ("x", "y", "z", "nx", "ny", "nz"))
    head = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(table)}\n{names}end_header\n"
    path.write_bytes(head.encode() + table.tobytes())
    return path


def sparse(truth, path):
    """The sparse points, with normals of planes through their neighbours, towards a camera."""
    scene = truth.scene
    points, near = scene.points, KDTree(scene.points).query(scene.points, k=12)[1]
    apart = points[near] - points[near].mean(1, keepdims=True)
    normals = np.linalg.svd(apart, full_matrices=False)[2][:, 2]
    first = np.zeros(len(points), int)
    for i, rows in enumerate(scene.seen):
        first[rows] = i
    way = ((scene.centres[first] - points) * normals).sum(1, keepdims=True)
    return written(path, points + scene.origin, normals * np.where(way < 0, -1, 1))


def by_colmap(cloud, out):
    """Poisson's surface by COLMAP's package, without what lies in cells of few points."""
    import pycolmap

    options = pycolmap.PoissonMeshingOptions()
    options.depth, options.trim, options.color, options.num_threads = DEPTH, DEPTH - 3, False, 2
    pycolmap.poisson_meshing(cloud, out, options)


def spent():
    """Seconds of the processor so far, with those of other processes that are over."""
    own, others = (resource.getrusage(who) for who in (0, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def surfaces(truth, open3d):
    """A row of each surface."""
    given = truth.folder / "given"
    yield "gendr", Mesh.load(given / "fit.glb"), None
    with tempfile.TemporaryDirectory() as place:
        cloud, out = Path(place) / "ours.ply", Path(place) / "mesh.ply"
        found = read_cloud(given / "points.ply")
        ours = written(cloud, found.points, normals_of(given / "points.ply"))
        few = sparse(truth, Path(place) / "sparse.ply")
        for name, source in (("sparse points", few), ("our points", ours)):
            if find_spec("pycolmap") is not None:
                begin = spent()
                by_colmap(source, out)
                yield f"COLMAP's package: {name}, Poisson", Mesh.load(out), spent() - begin
        if open3d:
            begin = spent()
            subprocess.run([open3d, "-c", OPEN3D, ours, out], check=True)
            yield "Open3D: our points, Poisson", Mesh.load(out), spent() - begin


def normals_of(path):
    """The normals in a cloud that `gendr fit --scene` wrote."""
    head, body = path.read_bytes().split(b"end_header\n", 1)
    kinds = [(n, "<f8") for n in "xyz"] + [(f"n{n}", "<f4") for n in "xyz"]
    assert b"property uchar blue" in head
    table = np.frombuffer(body, [*kinds, ("color", "u1", 3)])
    return np.stack([table[f"n{n}"] for n in "xyz"], 1)


def measured(folder, count, open3d):
    """All rows."""
    truth = Truth(folder)
    every = len(truth.scene) / count
    rows = [int(every * (k + 0.5)) for k in range(count)]
    ways = [("gendr", by_gendr, len(truth.scene)), ("OpenCV: pairs, SGBM", by_pairs, count)]
    if find_spec("ppg_core") is not None:
        ways.append(("pyarchinit-photogrammetry-core 0.5.0", by_rust, count))
    for name, way, photos in ways:
        begin = spent()
        depths = way(truth, rows)
        seconds = (spent() - begin) / photos
        shares = np.mean([truth.right(i, d) for i, d in zip(rows, depths, strict=True)], axis=0)
        row = {"what": "depth maps", "by": name, "seconds": seconds, "share": shares[0]}
        yield row | ({"right": shares[1]} if truth.solids else {})
    for name, mesh, seconds in surfaces(truth, open3d) if truth.solids else ():
        row = {"what": "surface", "by": name, "faces": len(mesh.faces), "seconds": seconds}
        yield row | rooms.compared(mesh, truth.solids, truth.points, None, truth.eyes)


def lines(rows, facts):
    """The tables of the page."""
    cells = [
        [row["scene"], row["by"], f"{row['seconds']:.1f}", f"{100 * row['share']:.0f}",
         f"{100 * row['right']:.0f}" if "right" in row else ""]
        for row in rows if row["what"] == "depth maps"
    ]  # fmt: skip
    head = ["scene", "depth maps by", "processor seconds a photo", "pixels with a depth, %",
            "right, %"]  # fmt: skip
    found = table(head, cells, left=2)
    cells = [
        [row["scene"], row["by"], "" if row["seconds"] is None else f"{row['seconds']:.0f}",
         f"{row['faces']:,}", *(f"{row[key]:.3f}" for key in ("precision_0.005", "recall_0.005",
                                                              "f_0.005", "f_0.01"))]
        for row in rows if row["what"] == "surface"
    ]  # fmt: skip
    head = ["scene", "surface by", "processor seconds", "faces", "precision at 0.5 %",
            "recall at 0.5 %", "F-score at 0.5 %", "at 1 %"]  # fmt: skip
    return [*found, "", *table(head, cells, left=2), "", f"{', '.join(facts.values())}."]


def main():
    """Measure and, with --docs, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--photos", type=int, default=2, help="of which depth maps are measured")
    parser.add_argument("--open3d", metavar="PYTHON", help="of an environment with Open3D")
    parser.add_argument("--docs", action="store_true")
    args = parser.parse_args()
    rows = json.loads(RESULTS.read_text())["rows"] if RESULTS.is_file() else []
    rows = [row for row in rows if row["scene"] not in {folder.name for folder in args.folders}]
    for folder in args.folders:
        for row in measured(folder, args.photos, args.open3d):
            rows.append({"scene": folder.name, **row})
            print(json.dumps(rows[-1]), flush=True)
    if args.docs:
        facts = measured_on()
        RESULTS.write_text(json.dumps({"measured_on": facts, "rows": rows}, indent=1) + "\n")
        fill(rooms.PAGE, "scene-peers", lines(rows, facts))


if __name__ == "__main__":
    main()
