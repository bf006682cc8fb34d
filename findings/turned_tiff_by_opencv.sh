#!/usr/bin/env bash
# opencv-python-headless 4.12.0.88 and 5.0.0.93: `imread` of a photo taken upright (orientation 6).
# Expected: a TIFF is turned as a JPEG is; or it is given as it is stored.
# Seen: None, with an internal assertion on stderr, for every orientation that swaps the sides (5 to
#   8); TIFF without or with the other orientations, and JPEG and PNG with any, are read. WebP is
#   turned by 5.0, not by 4.12.
# Who meets it: 16-bit TIFF photos developed from raw files, portrait ones only.
. "$(dirname "$0")/environment"
for version in 4.12.0.88 5.0.0.93; do
    packages opencv-python-headless==$version pillow==12.0.0
    OPENCV_LOG_LEVEL=SILENT python - <<'PY'
import cv2
from PIL import Image

seen = {}
for orientation in (1, 3, 6, 8):
    exif = Image.Exif()
    exif[274] = orientation
    for kind in ("tif", "jpg", "png", "webp"):
        Image.new("RGB", (64, 32), (200, 0, 0)).save(f"photo.{kind}", exif=exif)
        image = cv2.imread(f"photo.{kind}")
        seen[kind, orientation] = None if image is None else image.shape[:2]
print(cv2.__version__, {key: value for key, value in seen.items() if key[1] in (1, 6)})
assert seen["tif", 1] == seen["tif", 3] == (32, 64), "changed"
assert seen["tif", 6] is None and seen["tif", 8] is None, "changed"
assert seen["jpg", 6] == seen["png", 8] == (64, 32), "changed"
assert seen["webp", 6] == ((32, 64) if cv2.__version__.startswith("4") else (64, 32)), "changed"
PY
done
