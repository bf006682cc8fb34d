#!/usr/bin/env bash
# mouette 1.2.8: an OFF file of one quadrilateral, and of the six of a cube.
# Expected: faces of four corners: a line of a face in OFF begins with the number of its corners.
# Seen: tetrahedra: four triangles for a square, so that its area is doubled, without a word; of OBJ the
#   square is a face.
# Who meets it: quadrilateral meshes in OFF, as of ModelNet, CGAL and MeshLab.
. "$(dirname "$0")/environment"
packages mouette==1.2.8 numpy==2.4.6
printf 'OFF\n4 1 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n4 0 1 2 3\n' > square.off
printf 'v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3 4\n' > square.obj
cat > check.py <<'PY'
import mouette
import numpy as np


def read(name):
    mesh = mouette.mesh.load(name)
    corners, area = np.array(mesh.vertices), 0.0
    for face in mesh.faces:
        p = corners[list(face)]
        area += np.linalg.norm(sum(np.cross(p[i] - p[0], p[i + 1] - p[0]) for i in range(1, len(p) - 1))) / 2
    print(name, type(mesh).__name__, "faces", [tuple(map(int, face)) for face in mesh.faces], "area", area)
    return type(mesh).__name__, len(mesh.faces), area


assert read("square.obj") == ("SurfaceMesh", 1, 1.0)
assert read("square.off") == ("VolumeMesh", 4, 2.0), "changed"
PY
python -W error check.py
