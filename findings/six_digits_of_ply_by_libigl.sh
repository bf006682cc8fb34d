#!/usr/bin/env bash
# libigl 2.6.3, `igl.write_triangle_mesh` of doubles as PLY, and PyGEL3D 0.8.2 `hmesh.off_save` as OFF.
# Expected: as in OBJ and OFF of libigl and OBJ of PyGEL, all digits.
# Seen: six digits: map coordinates are 1.7 m off, and a triangle of a metre has no area, without a word.
# Who meets it: meshes in UTM, or of millimetres far from the origin.
. "$(dirname "$0")/environment"
packages libigl==2.6.3 PyGEL3D==0.8.2 numpy==2.4.6
python -W ignore - <<'PY'
import igl
import numpy as np
from pygel3d import hmesh

corners = np.array([[500000.123, 5000000.456, 100.789], [500001.234, 5000000.567, 100.891], [500000.345, 5000001.678, 100.912]])
faces = np.array([[0, 1, 2]])
mesh = hmesh.Manifold.from_triangles(corners, faces)
hmesh.obj_save("gel.obj", mesh)
hmesh.off_save("gel.off", mesh)
for name in ("igl.obj", "igl.off", "igl.ply"):
    igl.write_triangle_mesh(name, corners, faces)
off = {}
for name in ("igl.obj", "igl.off", "igl.ply", "gel.obj", "gel.off"):
    back = igl.read_triangle_mesh(name)[0]
    off[name] = abs(back - corners).max()
    area = np.linalg.norm(np.cross(back[1] - back[0], back[2] - back[0])) / 2
    print(f"{name}: {off[name]:.1e} off, area {area:.3f}")
assert all(off[name] < 1e-6 for name in ("igl.obj", "igl.off", "gel.obj"))
assert off["igl.ply"] > 1.6 and off["gel.off"] > 1.6, "changed"
PY
