#!/usr/bin/env bash
# trimesh 5.2.0: moments of inertia of meshes in map coordinates are noise.
# Expected: moments about the centre of mass do not depend on where a mesh is: of a ball of radius 1,
#   1.65 about each axis. Coordinates are doubles; the centre of mass is right to 1e-3.
# Seen: 2.3 at 100 km from the origin, -2.1 at 500 km (the easting in the middle of each UTM zone),
#   7096 at 5000 km; principal axes are noise too. Integrals are taken about the origin, and what is
#   subtracted afterwards is larger by the square of the distance.
# Who meets it: georeferenced scans in simulators (the inertia of URDF), alignment by principal axes.
. "$(dirname "$0")/environment"
packages trimesh==5.2.0 numpy==2.4.6
python - <<'PY'
import numpy as np
import trimesh

ball = trimesh.creation.icosphere(3)
true = np.diag(ball.moment_inertia)
found = {}
for far in (0, 1e3, 1e5, 5e5, 5e6):
    mesh = trimesh.Trimesh(ball.vertices + [far, 0, 0], ball.faces, process=False)
    found[far] = np.diag(mesh.moment_inertia)
    print(f"at {far:9.0f}: volume {mesh.volume:.4f}, moments", *found[far].round(3))
np.testing.assert_allclose(found[1e3], true, rtol=1e-3)
assert np.abs(found[1e5] - true).max() > 0.2
assert found[5e5].min() < 0
assert np.abs(found[5e6] - true).max() > 1000
PY
