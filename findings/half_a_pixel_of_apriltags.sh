#!/usr/bin/env bash
# OpenCV 5.0.0 (`cv2.aruco`, tags of AprilTag 36h11) and pupil-apriltags 1.0.4: corners of one tag.
# Expected: one convention within a package. OpenCV's calibration has the centre of the first pixel at
#   (0, 0), so that a tag that fills pixels 200 .. 399 has its corners at 199.5 and 399.5.
# Seen: so by CORNER_REFINE_SUBPIX; by CORNER_REFINE_APRILTAG they are at 200 and 400, half a pixel to
#   the right and below, as pupil-apriltags has them (which counts them in another order). OpenCV's
#   page names the method, and not that its pixels begin elsewhere.
# Who meets it: cameras and poses from boards of tags by `solvePnP` and `calibrateCamera`: the principal
#   point is half a pixel off with one setting, and tags and other points do not fit together.
. "$(dirname "$0")/environment"
packages opencv-python-headless==5.0.0.93 pupil-apriltags==1.0.4.post11 numpy==2.4.6
python - <<'PY'
import cv2
import numpy as np
import pupil_apriltags

tags = cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_APRILTAG_36h11)
image = np.full((480, 640), 255, np.uint8)
image[120:320, 200:400] = cv2.aruco.generateImageMarker(tags, 3, 200)
image = cv2.GaussianBlur(image, (0, 0), 1)  # as a lens does


def by_opencv(refinement):
    settings = cv2.aruco.DetectorParameters()
    settings.cornerRefinementMethod = refinement
    corners, _, _ = cv2.aruco.ArucoDetector(tags, settings).detectMarkers(image)
    return corners[0][0]


(tag,) = pupil_apriltags.Detector(families="tag36h11", quad_decimate=1).detect(image)
seen = {"OpenCV, SUBPIX": by_opencv(cv2.aruco.CORNER_REFINE_SUBPIX),
        "OpenCV, APRILTAG": by_opencv(cv2.aruco.CORNER_REFINE_APRILTAG),
        "pupil-apriltags": tag.corners}
for name, corners in seen.items():
    middle = corners.mean(0)
    print(f"{name}: x {corners[:, 0].min():.2f} to {corners[:, 0].max():.2f}, middle {middle.round(2)}")
    offset = middle - [300, 220]  # of the edges of pixels
    assert np.allclose(offset, -0.5 if "SUBPIX" in name else 0, atol=0.05), "changed"
PY
