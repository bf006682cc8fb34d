#!/usr/bin/env bash
# Pillow 13.0.0: TIFF of 16 bits whose colours are stored one plane after the other, or whose 0 is
#   white, written by tifffile 2026.3.3.
# Expected: the numbers that tifffile wrote, of RGB their upper bytes, as with interleaved colours; or
#   an error, as for fractions of 32 bits.
# Seen: of planes other numbers (up to 223 of 255 off), no error; where 0 is white grey is inverted at
#   8 bits and not at 16, so that one is the negative of the other.
# Who meets it: scientific cameras and film scanners, whose files are mostly right.
. "$(dirname "$0")/environment"
packages pillow==13.0.0 tifffile==2026.3.3 numpy==2.3.5
python - <<'PY'
import numpy as np
import PIL
import tifffile
from PIL import Image

y, x = np.mgrid[:24, :32]
rgb = np.stack([x / 31, y / 23, (x + y) / 54], -1)
deep = np.round(rgb * 65535).astype(np.uint16)
tifffile.imwrite("mixed.tif", deep, photometric="rgb")
planes = np.ascontiguousarray(deep.transpose(2, 0, 1))
tifffile.imwrite("planes.tif", planes, photometric="rgb", planarconfig="separate")
off = {}
for name in ("mixed", "planes"):
    written = tifffile.imread(f"{name}.tif")
    assert np.array_equal(written, deep if name == "mixed" else planes)
    with Image.open(f"{name}.tif") as image:
        off[name] = int(np.abs(np.asarray(image, int) - (deep >> 8)).max())
print(f"Pillow {PIL.__version__}: upper bytes off by at most {off}")
assert off["mixed"] == 0 and off["planes"] > 100, "changed"

grey = deep[..., 0]
tifffile.imwrite("8.tif", (255 - (grey >> 8)).astype(np.uint8), photometric="miniswhite")
tifffile.imwrite("16.tif", 65535 - grey, photometric="miniswhite")
left = {}
for bits in ("8", "16"):
    with Image.open(f"{bits}.tif") as image:
        left[bits] = int(np.asarray(image)[0, 0])
print(f"the black corner of a file whose 0 is white: {left}")
assert left == {"8": 0, "16": 65535}, "changed"
PY
