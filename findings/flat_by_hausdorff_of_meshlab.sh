#!/usr/bin/env bash
# pymeshlab 2025.7.post1, `get_hausdorff_distance` at its defaults between a square of two triangles and the
# same square with a peak of 0.5 in its middle.
# Expected: 0.354, the distance of the square's middle from the four sides of the pyramid; by `numpy` here.
# Seen: 0, as all four corners lie on both. As many samples as there are corners are taken, and of corners
#   alone (`samplevert`, not `sampleedge` and `sampleface`), so that large faces are not looked at. The
#   other way round it is 0.5. With `sampleface=True` and a number of samples it is right.
# Who meets it: simplified meshes, whose faces are large where errors are, measured by their own corners.
. "$(dirname "$0")/environment"
packages pymeshlab==2025.7.post1 numpy==2.4.6
python -W ignore - <<'PY'
import numpy as np
import pymeshlab

corners = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0.0]])
square = pymeshlab.Mesh(corners, [[0, 1, 2], [0, 2, 3]])
peak = pymeshlab.Mesh(np.vstack([corners, [0.5, 0.5, 0.5]]), [[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]])
# A point (x, 0.5, 0) is x / sqrt(2) away from the side z = x: the middle is the farthest.
expected = 0.5 / np.sqrt(2)
meshes = pymeshlab.MeshSet()
meshes.add_mesh(square)
meshes.add_mesh(peak)
found = meshes.get_hausdorff_distance(sampledmesh=0, targetmesh=1)
back = meshes.get_hausdorff_distance(sampledmesh=1, targetmesh=0)
dense = meshes.get_hausdorff_distance(sampledmesh=0, targetmesh=1, sampleface=True, samplenum=20_000)
print(f"square to peak {found['max']} of {found['n_samples']} samples, peak to square {back['max']:.3f}")
print(f"with samples of faces {dense['max']:.3f}, expected {expected:.3f}")
assert found["max"] == 0 and found["n_samples"] == 4 and abs(back["max"] - 0.5) < 1e-6, "changed"
assert abs(dense["max"] - expected) < 0.01
PY
