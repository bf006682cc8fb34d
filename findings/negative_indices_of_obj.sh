#!/usr/bin/env bash
# trimesh 5.2.0, meshio 5.3.5 (numpy 2.4.6): an OBJ of two objects whose faces name vertices by
# negative numbers, as the format allows: -1 is the vertex that was defined last before the face.
# Expected: a square of area 1 and a triangle of area 1/2, which lie in the planes z = 0 and z = 1.
# Seen: both count from the end of the file, trimesh right, meshio one too far: other triangles,
#   which join both objects, without a word. With one object trimesh is right.
# Who meets it: OBJs that are written piece by piece, whose writer need not know how many vertices
#   there were (several objects in one file, files put together by `cat`).
. "$(dirname "$0")/environment"
packages trimesh==5.2.0 meshio==5.3.5 numpy==2.4.6
cat > two.obj <<'OBJ'
o square
v 0 0 0
v 1 0 0
v 1 1 0
v 0 1 0
f -4 -3 -2
f -4 -2 -1
o triangle
v 0 0 1
v 1 0 1
v 1 1 1
f -3 -2 -1
OBJ
python - <<'PY'
import meshio
import numpy as np
import trimesh


def area(points, faces):
    a, b, c = np.asarray(points)[np.asarray(faces)].transpose(1, 0, 2)
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2)


def joined(points, faces):  # triangles with corners in both planes
    return int((np.ptp(np.asarray(points)[np.asarray(faces)][:, :, 2], axis=1) > 0).sum())


ours = trimesh.load("two.obj", process=False, force="mesh")
theirs = meshio.read("two.obj")
faces = np.concatenate([cell.data for cell in theirs.cells])
by_trimesh = area(ours.vertices, ours.faces), joined(ours.vertices, ours.faces)
by_meshio = area(theirs.points, faces), joined(theirs.points, faces)
print("area and triangles that join both objects: expected 1.5, 0")
print("trimesh: seen", by_trimesh)
print("meshio: seen", by_meshio)
assert by_trimesh[1] and by_meshio[1], "changed"
PY
