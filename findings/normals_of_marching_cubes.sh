#!/usr/bin/env bash
# scikit-image 0.26.0, `skimage.measure.marching_cubes` (numpy 2.4.6).
# Expected: the normals it returns stand on the surface it returns, also for voxels that are no
#   cubes (`spacing`), and turn with the faces where `gradient_direction` turns these.
# Seen: normals are those of the grid's indices: voxels of 1 x 1 x 4 leave a sphere's as they were,
#   by up to 39 degrees off the ellipsoid; and they point to the lower values whatever the
#   direction, so that of a signed distance (negative inside) they point inwards.
# Who meets it: meshes of scans with thick slices, and of signed distances, shaded with these
#   normals or fitted to them.
. "$(dirname "$0")/environment"
packages scikit-image==0.26.0 numpy==2.4.6
python - <<'PY'
import numpy as np
from skimage.measure import marching_cubes

grid = np.indices((40, 40, 40)) - 19.5
distance = np.sqrt((grid**2).sum(0)) - 12


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def normals(spacing, direction):
    """Of the call, of its faces by the right-hand rule, and of the ellipsoid, outwards."""
    points, faces, given, _ = marching_cubes(
        distance, 0, spacing=spacing, gradient_direction=direction
    )
    a, b, c = (points[faces[:, i]] for i in range(3))
    of_faces = np.zeros_like(points)
    for i in range(3):
        np.add.at(of_faces, faces[:, i], np.cross(b - a, c - a))
    outwards = unit((points / spacing - 19.5) / spacing)
    return given, unit(of_faces), outwards


for direction, sign in (("descent", 1), ("ascent", -1)):
    given, of_faces, outwards = normals((1.0, 1.0, 1.0), direction)
    print(direction, "faces", round((of_faces * outwards).sum(1).mean(), 3),
          "normals", round((given * outwards).sum(1).mean(), 3))
    assert (sign * (of_faces * outwards).sum(1)).min() > 0.99, "changed"
    assert (given * outwards).sum(1).max() < -0.99, "changed"
given, of_faces, outwards = normals((1.0, 1.0, 4.0), "ascent")
off = [np.degrees(np.arccos(np.clip((x * -outwards).sum(1), -1, 1))).max() for x in (of_faces, given)]
print(f"voxels of 1 x 1 x 4: faces at most {off[0]:.1f} degrees off, normals {off[1]:.1f}")
assert off[0] < 7 and 38 < off[1] < 40, "changed"
PY
