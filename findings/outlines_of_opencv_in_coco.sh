#!/usr/bin/env bash
# OpenCV 5.0.0 and pycocotools 2.0.11: a mask of 10 x 10 pixels becomes a polygon by `findContours`, as
# labelling tools save it, and a mask again by `frPyObjects`, as evaluations and trainings read it.
# Expected: the mask, as `fillPoly` of OpenCV gives it.
# Seen: 81 pixels of 100, and none of a line of one pixel. Corners of OpenCV are centres of pixels, at
#   whole numbers, with both ends in the mask; for COCO whole numbers are borders between pixels. An
#   intersection over union of a mask with itself is 0.81, and 0.53 for 5 x 3 pixels.
# Who meets it: whoever saves silhouettes as polygons of COCO. Masks as run lengths (`encode`) come back.
. "$(dirname "$0")/environment"
packages opencv-python-headless==5.0.0.93 pycocotools==2.0.11 numpy==2.4.6
python -W ignore - <<'PY'
import cv2
import numpy as np
from pycocotools import mask as coco

seen = {}
for wide, tall in ((10, 10), (5, 3), (20, 1)):
    mask = np.zeros((40, 40), np.uint8)
    mask[10 : 10 + tall, 10 : 10 + wide] = 1
    (outline, *_), _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    assert np.array_equal(cv2.fillPoly(np.zeros_like(mask), [outline], 1), mask)
    assert np.array_equal(coco.decode(coco.encode(np.asfortranarray(mask))), mask)
    polygon = outline.reshape(-1).astype(float).tolist()
    back = coco.decode(coco.merge(coco.frPyObjects([polygon], 40, 40)))
    overlap = (mask & back).sum() / (mask | back).sum()
    seen[wide, tall] = (int(mask.sum()), int(back.sum()), round(float(overlap), 2))
print("pixels of the mask, after COCO, and intersection over union:", seen)
assert seen[10, 10] == (100, 81, 0.81), "changed"
assert seen[20, 1] == (20, 0, 0.0), "changed"
PY
