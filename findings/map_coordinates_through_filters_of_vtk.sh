#!/usr/bin/env bash
# VTK 9.7.2 by PyVista 0.49.1: a ball of radius 1 in map coordinates (500000, 5000000), as doubles,
# subdivided and simplified.
# Expected: the ball: points are doubles, and vtkAlgorithm's DEFAULT_PRECISION is that of the input.
# Seen: `subdivide` and `decimate` give it back in steps of half a metre, without a word: the volume
#   of the latter is 3.9 of 4.18, and z is right. `decimate_pro` is as before. Take 5000000 away first.
# Who meets it: surveys and scans in UTM.
. "$(dirname "$0")/environment"
packages vtk==9.7.2 pyvista==0.49.1 numpy==2.4.6
python -W error - <<'PY'
import numpy as np
import pyvista

place = np.array([500000.125, 5000000.25, 100.0])
ball = pyvista.Icosphere(radius=1, nsub=4).triangulate()
corners, faces = ball.points.astype(float) + place, ball.faces.reshape(-1, 4)[:, 1:]
far = pyvista.PolyData.from_regular_faces(corners, faces)
assert far.points.dtype == np.float64
steps = {}
for name, out in (
    ("as it is", far),
    ("decimate_pro", far.decimate_pro(0.5)),
    ("subdivide", far.subdivide(1, "loop")),
    ("decimate", far.decimate(0.5)),
):
    y = np.asarray(out.points, float)[:, 1]
    steps[name] = np.min(np.diff(np.unique(y)))
    print(f"{name}: {out.points.dtype}, least step of y {steps[name]:.2g}, from {y.min()} to {y.max()}")
assert steps["as it is"] < 1e-3
assert steps["decimate_pro"] < 0.01, "changed"
assert steps["subdivide"] == 0.5 and steps["decimate"] == 0.5, "changed"
PY
