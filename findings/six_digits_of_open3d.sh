#!/usr/bin/env bash
# Open3D 0.20.0, `write_triangle_mesh` of an OBJ in map coordinates (float64 in memory).
# Expected: the coordinates, as its PLY has them; OBJ is text and holds any digits.
# Seen: six significant digits: a sphere of radius 1 at y = 5,000,000 is written with the same y at
#   every vertex and comes back flat.
# Who meets it: georeferenced meshes on their way to a modelling program.
# On Debian Open3D needs the packages libusb-1.0-0, libgl1 and libgomp1.
. "$(dirname "$0")/environment"
packages open3d==0.20.0 numpy==2.4.6
python - <<'PY'
import numpy as np
import open3d

sphere = open3d.geometry.TriangleMesh.create_sphere()
sphere.translate((500_000.0, 5_000_000.0, 100.0))
extent = {}
for name in ("far.ply", "far.obj"):
    open3d.io.write_triangle_mesh(name, sphere)
    extent[name] = np.ptp(np.asarray(open3d.io.read_triangle_mesh(name).vertices), axis=0).round(3)
print("a sphere of diameter 2 has, when read again, the sides", extent)
assert np.allclose(extent["far.ply"], 2, atol=0.02), "changed"
assert extent["far.obj"][1] == 0, "changed"
PY
