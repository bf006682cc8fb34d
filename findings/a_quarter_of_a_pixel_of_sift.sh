#!/usr/bin/env bash
# scikit-image 0.26.0, `skimage.feature.SIFT`, and OpenCV 5.0.0, `cv2.SIFT_create()`: one blob.
# Expected: `positions` and `pt`, which are fractions of a pixel, at the blob's centre.
# Seen: by both 0.23 pixels to the right and below, wherever it is, as images are made twice as large
#   about the corner of a pixel and coordinates halved about its centre. OpenCV has
#   `enable_precise_upscale` for it, off by default; scikit-image is right with `upsampling=1`.
# Who meets it: cameras from features; keypoints beside those of COLMAP, whose SIFT is right.
. "$(dirname "$0")/environment"
packages opencv-python-headless==5.0.0.93 scikit-image==0.26.0 numpy==2.4.6 scipy==1.17.1
python - <<'PY'
import cv2
import numpy as np
from skimage.feature import SIFT

y, x = np.mgrid[:128, :160]
blob = np.exp(-((x - 60) ** 2 + (y - 50) ** 2) / (2 * 4**2))
image = (20 + 200 * blob).astype(np.uint8)


def by_opencv(**settings):
    return np.mean([point.pt for point in cv2.SIFT_create(**settings).detect(image, None)], axis=0)


def by_skimage(**settings):
    sift = SIFT(**settings)
    sift.detect(image / 255)
    return sift.positions.mean(0)[::-1]


seen = {"OpenCV": by_opencv(), "precise": by_opencv(enable_precise_upscale=True),
        "scikit-image": by_skimage(), "upsampling=1": by_skimage(upsampling=1)}
for name, place in seen.items():
    print(f"{name}: centre found at {place.round(3)}, it is at [60 50]")
    right = name in ("precise", "upsampling=1")
    assert np.allclose(place - [60, 50], 0 if right else 0.233, atol=0.01), "changed"
PY
