#!/usr/bin/env bash
# pymeshlab 2025.7.post1 (numpy 2.4.6, plyfile 1.1.3): a PLY with positions as doubles, once in each
# byte order.
# Expected: the same four vertices of both, as plyfile reads them.
# Seen: of `binary_big_endian` the bytes of each double stay where they are: 1 becomes 3e-319, and
#   the mesh is a point, without a word. Floats of that order, and doubles of the other, are right.
# Who meets it: scans in map coordinates, which need doubles, from programs that write the order of
#   the network (Java, older scanners); in MeshLab an empty window.
. "$(dirname "$0")/environment"
packages pymeshlab==2025.7.post1 numpy==2.4.6 plyfile==1.1.3
python - <<'PY'
import numpy as np
import pymeshlab
from plyfile import PlyData, PlyElement

points = np.array([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)], float)
faces = np.empty(2, [("vertex_indices", "i4", (3,))])
faces["vertex_indices"] = [(0, 1, 2), (0, 2, 3)]


def read(kind, order):
    rows = np.array([tuple(p) for p in points], [(axis, kind) for axis in "xyz"])
    elements = [PlyElement.describe(rows, "vertex"), PlyElement.describe(faces, "face")]
    PlyData(elements, byte_order=order).write("square.ply")
    vertices = PlyData.read("square.ply")["vertex"]
    assert np.array_equal(np.stack([vertices[axis] for axis in "xyz"], 1), points)
    meshes = pymeshlab.MeshSet()
    meshes.load_new_mesh("square.ply")
    return meshes.current_mesh().vertex_matrix()


assert np.array_equal(read("f4", ">"), points) and np.array_equal(read("f8", "<"), points)
seen = read("f8", ">")
print("expected", points.tolist())
print("seen", seen.tolist())
assert np.abs(seen).max() < 1e-300, "changed"
PY
