#!/usr/bin/env bash
# imageio 2.38.1 with OpenCV 5.0.0: a picture of Radiance (.hdr) with lights above 1.
# Expected: floats, as the file has; EXPOSURE in its head is what all pixels were multiplied by, so that
#   radiance is the number divided by it (Radiance, filefmts; exiftool's page of the format).
# Seen: `imread` gives bytes: all above 1 is 255, without a word. OpenCV, asked for what is in the file,
#   gives floats, but those of a file with EXPOSURE=4 are four times the radiance, without a word.
# Who meets it: who takes an environment map or captured light for a renderer.
. "$(dirname "$0")/environment"
packages imageio==2.38.1 opencv-python-headless==5.0.0.93 pillow==13.0.0 numpy==2.4.6
python -W error::UserWarning - <<'PY'
import cv2
import imageio.v3
import numpy as np

sky = np.full((4, 8, 3), 0.5, np.float32)
sky[1, 2] = 20  # a lamp
cv2.imwrite("sky.hdr", sky)
data = open("sky.hdr", "rb").read()
head, rest = data.split(b"\n\n", 1)
cv2.imwrite("plain.hdr", 4 * sky)
bright = open("plain.hdr", "rb").read().split(b"\n\n", 1)[1]
open("exposed.hdr", "wb").write(head + b"\nEXPOSURE=4\n\n" + bright)
by_imageio = imageio.v3.imread("sky.hdr")
by_opencv = cv2.imread("sky.hdr", cv2.IMREAD_UNCHANGED)
exposed = cv2.imread("exposed.hdr", cv2.IMREAD_UNCHANGED)
print("a lamp of 20 on 0.5: imageio", by_imageio.dtype, by_imageio[1, 2, 0], by_imageio[0, 0, 0],
      "OpenCV", by_opencv.dtype, by_opencv[1, 2, 0], by_opencv[0, 0, 0],
      "and with EXPOSURE=4", exposed[1, 2, 0], exposed[0, 0, 0])
assert by_imageio.dtype == np.uint8 and by_imageio[1, 2, 0] == 255, "changed"
assert by_opencv.dtype == np.float32 and abs(by_opencv[1, 2, 0] - 20) < 0.1
assert abs(exposed[1, 2, 0] - 80) < 0.5, "changed"
PY
