#!/usr/bin/env bash
# Pillow 13.0.0, `Image.save(path, exif=exif)` of AVIF, with an `Image.Exif` that has an orientation.
# Expected: as of JPEG, PNG, WebP and TIFF, what is given is as it was afterwards.
# Seen: the orientation is taken out of the caller's object. The AVIF itself is right (it turns by
#   irot), and whatever is saved next with the same object, another AVIF or a JPEG, lies on its
#   side, without a word. Bytes (`exif.tobytes()`) are not changed.
# Who meets it: loops that write the frames of one camera, or one photo in several formats.
. "$(dirname "$0")/environment"
packages pillow==13.0.0
python - <<'PY'
from PIL import Image, ImageOps

photo = Image.new("RGB", (8, 4), (200, 10, 10))
left = {}
for name in ("jpg", "png", "webp", "tiff", "avif"):
    exif = Image.Exif()
    exif[0x0112] = 6
    photo.save(f"a.{name}", exif=exif)
    left[name] = exif.get(0x0112)
print("orientation 6 in the caller's object after saving:", left)
assert left == {"jpg": 6, "png": 6, "webp": 6, "tiff": 6, "avif": None}, "changed"

exif = Image.Exif()
exif[0x0112] = 6
names = ["0.avif", "1.avif", "2.jpg"]
for name in names:
    photo.save(name, exif=exif)
upright = {}
for name in names:
    with Image.open(name) as opened:
        upright[name] = ImageOps.exif_transpose(opened).size
print("three files of 8 x 4 with one such object, upright:", upright)
assert upright == {"0.avif": (4, 8), "1.avif": (8, 4), "2.jpg": (8, 4)}, "changed"
PY
