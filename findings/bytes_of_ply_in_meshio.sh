#!/usr/bin/env bash
# meshio 5.3.5 (numpy 2.4.6, plyfile 1.1.3): a binary PLY of 225 vertices whose faces name them by
# bytes, `property list uchar uchar vertex_indices`, as small meshes may.
# Expected: vertices 0 to 224, as plyfile reads them, and an area of 196 for 14 × 14 squares.
# Seen: the bytes become signed: vertex 128 and those behind it are -128 and so on, which NumPy
#   takes for vertices counted from the end: other faces and an area of 265.5, without a word.
# Who meets it: low-polygon models of 129 to 256 vertices; what has fewer is right.
. "$(dirname "$0")/environment"
packages meshio==5.3.5 numpy==2.4.6 plyfile==1.1.3
python - <<'PY'
import meshio
import numpy as np
from plyfile import PlyData

points = np.array([[i % 15, i // 15, 0] for i in range(225)], "<f4")
corner = np.array([r * 15 + c for r in range(14) for c in range(14)])
quads = corner[:, None] + [0, 1, 16, 15]
head = """ply
format binary_little_endian 1.0
element vertex 225
property float x
property float y
property float z
element face 196
property list uchar uchar vertex_indices
end_header
"""
rows = np.c_[np.full(196, 4), quads].astype("u1")
with open("grid.ply", "wb") as file:
    file.write(head.encode() + points.tobytes() + rows.tobytes())


def area(faces):
    a, b, c, d = points[faces].transpose(1, 0, 2)
    return float(np.linalg.norm(np.cross(c - a, d - b), axis=1).sum() / 2)


right = np.stack(PlyData.read("grid.ply")["face"]["vertex_indices"])
seen = meshio.read("grid.ply").cells[0].data
print("expected", right.min(), "to", right.max(), "area", area(right))
print("seen", seen.min(), "to", seen.max(), "area", area(seen))
assert np.array_equal(right, quads) and seen.min() < 0, "changed"
PY
