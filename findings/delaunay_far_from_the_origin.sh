#!/usr/bin/env bash
# SciPy 1.17.1, scipy.spatial.Delaunay (Qhull, float64): points in map coordinates.
# Expected: a cloud of points has the same tetrahedra wherever it lies; float64 leaves nine digits
#   of a cloud of one metre that lies 5,000 km from the origin, as UTM coordinates do.
# Seen: of 1,000 points more than 900 are corners of no tetrahedron, without a word; they are
#   listed in `coplanar`, which few read. With the mean subtracted first all are used.
# Who meets it: everybody who meshes georeferenced points (drones, laser scans).
. "$(dirname "$0")/environment"
packages numpy==2.4.6 scipy==1.17.1
python - <<'PY'
import numpy as np
from scipy.spatial import Delaunay

points = np.random.default_rng(0).random((1000, 3))
offset = np.array([500_000.0, 5_000_000.0, 100.0])
assert np.abs((points + offset) - offset - points).max() < 1e-9  # the digits are there
unused = {
    name: len(cloud) - len(np.unique(Delaunay(cloud).simplices))
    for name, cloud in {"at the origin": points, "in map coordinates": points + offset}.items()
}
print("points that are corners of no tetrahedron, of 1000:", unused)
assert unused["at the origin"] == 0 and unused["in map coordinates"] > 900, "changed"
PY
