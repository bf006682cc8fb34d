#!/usr/bin/env bash
# scikit-image 0.26.0, imageio 2.38.1 and tifffile 2026.3.3: a TIFF in which 0 is white.
# Expected: TIFF's PhotometricInterpretation says which end is white (TIFF 6.0, WhiteIsZero); Pillow
#   13.0.0 and OpenCV 5.0.0 give the same picture for both kinds of 8 bits (of 16 bits Pillow does
#   not, see deep_tiff_by_pillow.sh).
# Seen: the stored numbers, without a word: what is white is black. A mask is its complement.
# Who meets it: masks, scans and film that come as such TIFF, read by `imread` of these packages.
. "$(dirname "$0")/environment"
packages scikit-image==0.26.0 imageio==2.38.1 tifffile==2026.3.3 pillow==13.0.0 opencv-python-headless==5.0.0.93 numpy==2.4.6
python -W error::UserWarning - <<'PY'
import cv2
import imageio.v3
import numpy as np
import skimage.io
import tifffile
from PIL import Image

mask = np.zeros((8, 10), np.uint8)
mask[2:5, 3:6] = 255  # the object is white
tifffile.imwrite("black_is_zero.tif", mask, photometric="minisblack")
tifffile.imwrite("white_is_zero.tif", 255 - mask, photometric="miniswhite")
readers = {"Pillow": lambda name: np.array(Image.open(name)), "OpenCV": lambda name: cv2.imread(name, 0),
           "tifffile": tifffile.imread, "imageio": imageio.v3.imread, "scikit-image": skimage.io.imread}
for name, read in readers.items():
    assert np.array_equal(read("black_is_zero.tif"), mask)
    seen = read("white_is_zero.tif")
    print(f"{name}: the object is {seen[3, 4]}, the ground {seen[0, 0]}")
    assert np.array_equal(seen, mask if name in ("Pillow", "OpenCV") else 255 - mask), "changed"
PY
