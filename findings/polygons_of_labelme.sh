#!/usr/bin/env bash
# labelme 6.3.1, `labelme.utils.shape_to_mask` of a polygon; Pillow 13.0.0's ImageDraw.polygon, OpenCV 5.0.0's
#   fillPoly of the same.
# Expected: the polygon (10, 10) to (20, 20) has the area 100, and its mask as many pixels: those whose centres
#   are inside, as pycocotools has it.
# Seen: 121 pixels by all three, and by scikit-image 0.26's `polygon2mask`: the outline is drawn as well, so that a mask is half a pixel larger on each side,
#   and two polygons side by side share a row of pixels.
# Who meets it: masks for fits of silhouettes: an object of 100 pixels becomes 1 % wider, of 40 pixels the
#   overlap of a perfect fit is 0.95.
. "$(dirname "$0")/environment"
packages labelme==6.3.1 pillow==13.0.0 pycocotools==2.0.11 opencv-python-headless==5.0.0.93 numpy==2.4.6
python -W error::UserWarning - <<'PY'
import cv2
import numpy as np
from labelme.utils import shape_to_mask
from PIL import Image, ImageDraw
from pycocotools import mask as coco

def polygon(low, high):
    return [(low, 10.0), (high, 10.0), (high, 20.0), (low, 20.0)]

def drawn(points):
    image = Image.new("L", (60, 60))
    ImageDraw.Draw(image).polygon(points, fill=1)
    return np.asarray(image)

def counted(points):
    return coco.decode(coco.frPyObjects([np.ravel(points).tolist()], 60, 60))[..., 0]

def filled(points):
    return cv2.fillPoly(np.zeros((60, 60), np.uint8), [np.array(points, np.int32)], 1)

ways = {"labelme": lambda p: shape_to_mask((60, 60), p, "polygon"), "Pillow": drawn, "OpenCV": filled}
for name, mask in ways.items():
    one, beside = mask(polygon(10.0, 20.0)), mask(polygon(20.0, 30.0))
    shared = np.logical_and(one, beside).sum()
    print(f"{name}: {one.sum()} pixels of an area of 100, {shared} shared with the polygon beside")
    assert one.sum() == 121 and shared == 11, "changed"
one, beside = counted(polygon(10.0, 20.0)), counted(polygon(20.0, 30.0))
print("pycocotools:", one.sum(), "pixels,", (one & beside).sum(), "shared")
assert one.sum() == 100 and not (one & beside).any()
PY
