#!/usr/bin/env bash
# OpenCV 5.0.0, `fisheye.projectPoints`: directions 60 to 110 degrees off the axis of a fisheye lens
# of 220 degrees, without distortion.
# Expected: r = f theta for each, which the manual states.
# Seen: right up to 90 degrees. Beyond, theta is the arctangent of r / z, which is negative, so that the
#   point appears on the other side of the image: for 110 degrees at theta = -70.
# Who meets it: whoever draws or optimises with lenses of phones' clip-ons, of 360-degree cameras or of
#   robots, whose photos show 190 degrees and more. pycolmap 4.2.1 gives NaN there, GTSAM 4.3 an error.
. "$(dirname "$0")/environment"
packages opencv-python-headless==5.0.0.93 numpy==2.4.6
python -W ignore - <<'PY'
import cv2
import numpy as np

k = np.array([[100.0, 0, 200], [0, 100, 200], [0, 0, 1]])
seen = {}
for degrees in (60, 89, 91, 110):
    theta = np.radians(degrees)
    point = np.array([[[np.sin(theta), 0.0, np.cos(theta)]]])
    xy, _ = cv2.fisheye.projectPoints(point, np.zeros(3), np.zeros(3), k, np.zeros(4))
    seen[degrees] = (round(float(xy[0, 0, 0]), 1), round(float(200 + 100 * theta), 1))
print("x in the image and 200 + 100 theta:", seen)
assert all(x == wanted for degrees, (x, wanted) in seen.items() if degrees < 90), "changed"
assert seen[91][0] == 44.7 and seen[110][0] == 77.8, "changed"
PY
