#!/usr/bin/env bash
# SciPy 1.17.1, `ndimage.distance_transform_edt`: a mask that fills its image, as of a close-up.
# Expected: infinity, or an error: there is no background to be far from. `distance_transform_bf` of
#   SciPy says 1.3e154, `distance_transform_cdt` -1, OpenCV 5.0.0 3.4e38.
# Seen: 1, 1.41, 2.24, ... in the first row, 2 in the second: distances to a pixel above the first one,
#   which is not in the image. `return_indices` names it, with the row -1.
# Who meets it: whoever makes signed distances of silhouettes, of which some are empty or full: a field
#   that looks like that of an object in the corner. Ask for `mask.all()` before.
. "$(dirname "$0")/environment"
packages scipy==1.17.1 opencv-python-headless==5.0.0.93 numpy==2.4.6
python -W ignore - <<'PY'
import cv2
import numpy as np
from scipy import ndimage

full = np.ones((3, 4), np.uint8)
seen, place = ndimage.distance_transform_edt(full, return_indices=True)
others = [ndimage.distance_transform_bf(full).max(), ndimage.distance_transform_cdt(full).max(),
          cv2.distanceTransform(full, cv2.DIST_L2, 5).max()]
print(seen.round(2), "to", sorted(set(zip(*place.reshape(2, -1).tolist()))), "others:", others)
rows, columns = np.mgrid[:3, :4]
assert np.allclose(seen, np.hypot(rows + 1, columns)), "changed"
assert (place[0] == -1).all() and (place[1] == 0).all(), "changed"
assert others[0] > 1e100 and others[1] == -1 and others[2] > 1e30, "changed"
PY
