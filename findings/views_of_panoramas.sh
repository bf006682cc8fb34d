#!/usr/bin/env bash
# py360convert 1.0.4 and pyequilib 0.6.0 (with NumPy 2.4.6): views of 90 degrees cut out of a panorama.
# Expected: a view of n pixels whose sides are 45 degrees off the middle, so that f = n / 2 and the
#   principal point is the middle: the first pixel's centre at tangent -1 + 1 / n, the last at 1 - 1 / n.
# Seen: `e2p` of py360convert puts the centres of the outermost pixels at 45 degrees, so that f is
#   (n - 1) / 2 and the view wider, as do sides of `e2c`, whose borders are there twice; `equi2pers` of
#   equilib has the right f, and looks half a pixel of the view, less one of the panorama, up and left.
# Who meets it: who cuts panoramas for COLMAP, NeRF or Gaussian splatting and writes the cameras down.
. "$(dirname "$0")/environment"
packages py360convert==1.0.4 pyequilib==0.6.0 numpy==2.4.6
python - <<'PY'
import numpy as np
import py360convert
from equilib import equi2pers

height, n = 1024, 64
longitude = ((np.arange(2 * height) + 0.5) / height - 1) * np.pi
latitude = (0.5 - (np.arange(height) + 0.5) / height) * np.pi
turn, up = np.meshgrid(longitude, latitude)
panorama = np.stack([np.cos(up) * np.sin(turn), np.sin(up), np.cos(up) * np.cos(turn)])  # the direction


def tangents(view):  # of the first and the last pixel of the middle rows and columns, from [3, n, n]
    x, y = view[0] / view[2], view[1] / view[2]
    across, down = (a[n // 2 - 1 : n // 2 + 1].mean(0)[[0, -1]] for a in (x, y.T))
    return np.concatenate([across, down]).round(4)


expected = np.array([-1 + 1 / n, 1 - 1 / n, 1 - 1 / n, -1 + 1 / n])
image = panorama.transpose(1, 2, 0)
wide = tangents(py360convert.e2p(image, 90, 0, 0, (n, n)).transpose(2, 0, 1))
side = tangents(py360convert.e2c(image, n, cube_format="dict")["F"].transpose(2, 0, 1))
still = {"roll": 0.0, "pitch": 0.0, "yaw": 0.0}
aside = tangents(equi2pers(panorama, still, height=n, width=n, fov_x=90.0))
print("tangents of the first and last column, row; expected:", expected)
print("e2p:", wide, "e2c:", side, "equi2pers:", aside)
assert np.abs(np.abs(wide) - 1).max() < 2e-3 and np.abs(np.abs(side) - 1).max() < 2e-3, "changed"
shift = -1 / n + 2 * np.pi / height  # twice the pixel of the panorama, as tangents grow there
assert np.abs(aside - expected - [shift, shift, -shift, -shift]).max() < 2e-3, "changed"
PY
