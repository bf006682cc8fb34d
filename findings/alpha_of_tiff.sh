#!/usr/bin/env bash
# OpenCV 5.0.0, tifffile 2026.3.3, imageio 2.38.1, scikit-image 0.26.0: a TIFF with alpha whose colours are
#   multiplied by it (ExtraSamples 1 of TIFF 6.0, section 18), and one whose colours are not (ExtraSamples 2).
# Expected: colours as seen, by both: (199, 99, 0) at half opacity for a stored (100, 50, 0) of the first kind,
#   and (100, 50, 0) of the second, as Pillow 13.0.0 gives them; or a word.
# Seen: stored numbers of the first kind by all four. OpenCV also multiplies those of the second, (50, 25, 0),
#   which is no longer what its PNG reader gives of the same picture. Over a background they are multiplied
#   again: dark fringes along each edge. imageio's plugin for Pillow is right.
# Who meets it: photos with a mask as their alpha, cut out in an image editor.
. "$(dirname "$0")/environment"
packages opencv-python-headless==5.0.0.93 tifffile==2026.3.3 imageio==2.38.1 scikit-image==0.26.0 pillow==13.0.0 numpy==2.4.6
python -W error::UserWarning - <<'PY'
import cv2
import imageio.v3 as imageio
import numpy as np
import skimage.io
import tifffile
from PIL import Image

stored = np.empty((8, 8, 4), np.uint8)
stored[:] = 100, 50, 0, 128
tifffile.imwrite("multiplied.tif", stored, photometric="rgb", extrasamples=[1])
tifffile.imwrite("plain.tif", stored, photometric="rgb", extrasamples=[2])
readers = {
    "Pillow": lambda name: np.asarray(Image.open(name)),
    "imageio by Pillow": lambda name: imageio.imread(name, plugin="pillow"),
    "imageio": imageio.imread,
    "tifffile": tifffile.imread,
    "scikit-image": skimage.io.imread,
    "OpenCV": lambda name: cv2.cvtColor(cv2.imread(name, cv2.IMREAD_UNCHANGED), cv2.COLOR_BGRA2RGBA),
}
for name, read in readers.items():
    found, plain = read("multiplied.tif")[0, 0].tolist(), read("plain.tif")[0, 0].tolist()
    print(f"{name}: multiplied {found}, not multiplied {plain}")
    assert found == ([199, 99, 0, 128] if "Pillow" in name else [100, 50, 0, 128]), "changed"
    assert plain == ([50, 25, 0, 128] if name == "OpenCV" else [100, 50, 0, 128]), "changed"
cv2.imwrite("plain.png", cv2.cvtColor(stored, cv2.COLOR_RGBA2BGRA))
assert readers["OpenCV"]("plain.png")[0, 0].tolist() == [100, 50, 0, 128]
PY
