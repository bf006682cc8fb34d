"""Depth maps and surfaces of a drawn scene without a GPU: others beside `gendr`, in one run.

    python benchmarks/rooms.py draw WORK            # and measure WORK
    pip install --target FOLDER --no-deps pyarchinit-photogrammetry-core==0.5.0
    PYTHONPATH=FOLDER python benchmarks/peers/scene.py WORK/heap --photos 4 --docs

Depth maps of some photos with the true cameras and the true range of depths: by `gendr`, by the
PatchMatch in Rust of pyarchinit-photogrammetry-core (GPL; six photos beside each, as here), and by
OpenCV's semi-global matching of rectified pairs (Hirschmüller 2008), each photo with the nearest
beside it. "Right" are pixels whose point is within 0.5 % of the diagonal of the true surface.
Surfaces: Poisson's by COLMAP's package (Kazhdan & Hoppe 2013) of the sparse points, and of ours.
What is not installed is left out. Seconds are the processor's, of all threads.
"""

import argparse
import json
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import _clone  # noqa: F401  # before what it makes importable

import rooms
from rows import measured_on

from gendr.mesh import Mesh
from gendr.photos.scene.depth_maps import DepthMap, find_depths
from gendr.photos.scene.model import read_scene
from lab.pages import fill, table

RESULTS = rooms.RESULTS.with_name("scene-peers.json")
LIMIT = 0.6  # the largest cost of a pixel that counts, here and in the package in Rust


class Truth:
    """What is known of a drawn scene."""

    def __init__(self, folder):
        self.folder, self.scene = folder, read_scene(folder / "photos")
        self.solids = rooms.SCENES[folder.name](np.random.default_rng(rooms.SEED))
        known = np.load(folder / "truth.npz")
        self.points, self.eyes = known["points"][known["views"] >= rooms.LEAST], known["eyes"]
        self.diagonal = float(np.linalg.norm(np.ptp(self.points, axis=0)))

    def right(self, i, depth):
        """The shares of the pixels of photo i that have a depth, and a right one."""
        v, u = np.nonzero(depth > 0)
        if not len(v):
            return 0.0, 0.0
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
        gaps[i] = np.inf
        j = int(gaps.argmin())
        turn = scene.R[j] @ scene.R[i].T
        shift = scene.t[j] - turn @ scene.t[i]
        height, width = scene.images[i].shape[:2]
        # To the right or upright, and the first photo where its pixels run on.
        if shift[0] > 0:
            i_, j_, turn, shift = j, i, turn.T, -turn.T @ shift
        else:
            i_, j_ = i, j
        none, size = np.zeros(5), (width, height)
        r1, r2, p1, p2, back, _, _ = cv2.stereoRectify(
            scene.K[i_], none, scene.K[j_], none, size, turn, shift, alpha=0
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


def poisson(points, out):
    """Poisson's surface by COLMAP's package."""
    import pycolmap

    options = pycolmap.PoissonMeshingOptions()
    options.depth, options.num_threads = 9, 2
    pycolmap.poisson_meshing(points, out, options)


def measured(folder, count):
    """All rows."""
    truth = Truth(folder)
    every = len(truth.scene) / count
    rows = [int(every * (k + 0.5)) for k in range(count)]
    ways = [("gendr", by_gendr, len(truth.scene)), ("OpenCV, pairs, SGBM", by_pairs, count)]
    if find_spec("ppg_core") is not None:
        ways.append(("pyarchinit-photogrammetry-core 0.5.0", by_rust, count))
    by_gendr(truth, rows[:1])  # kernels are compiled
    found = []
    for name, way, photos in ways:
        begin = time.process_time()
        depths = way(truth, rows)
        spent = (time.process_time() - begin) / photos
        shares = np.mean([truth.right(i, d) for i, d in zip(rows, depths, strict=True)], axis=0)
        found.append({"what": "depth maps", "by": name, "seconds": spent, "share": shares[0],
                      "right": shares[1]})  # fmt: skip
        print(json.dumps(found[-1]), flush=True)
    mesh = Mesh.load(folder / "given" / "fit.glb")
    own = rooms.compared(mesh, truth.solids, truth.points, None, truth.eyes)
    found.append({"what": "surface", "by": "gendr", **own})
    return found


def lines(rows, facts):
    """The table of the page."""
    maps = [row for row in rows if row["what"] == "depth maps"]
    shares = [[f"{100 * row[name]:.0f}" for name in ("share", "right")] for row in maps]
    cells = [
        [row["by"], f"{row['seconds']:.1f}", *own] for row, own in zip(maps, shares, strict=True)
    ]
    head = ["depth maps by", "processor seconds a photo", "pixels with a depth, %", "right, %"]
    return [*table(head, cells, left=1), "", f"{', '.join(facts.values())}."]


def main():
    """Measure and, with --docs, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--photos", type=int, default=4)
    parser.add_argument("--docs", action="store_true")
    args = parser.parse_args()
    rows = measured(args.folder, args.photos)
    if args.docs:
        facts = measured_on()
        RESULTS.write_text(json.dumps({"measured_on": facts, "rows": rows}, indent=1) + "\n")
        fill(rooms.PAGE, "scene-peers", lines(rows, facts))


if __name__ == "__main__":
    main()
