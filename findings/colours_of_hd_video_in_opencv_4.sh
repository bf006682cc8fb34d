#!/usr/bin/env bash
# OpenCV 4.12.0 (with imageio-ffmpeg 0.8.1 to make videos): colours of video in BT.709, as all HD is.
# Expected: within the rounding of a codec: the file names its matrix.
# Seen: they are decoded by that of BT.601: (255, 0, 0) comes as (232, 0, 1), (60, 140, 80) as
#   (65, 151, 81); greys are right. OpenCV 5.0 is right within 2 of 255, and changes the primaries of
#   Display P3, up to 45 of 255 off the formula at the ends: (0, 255, 0) becomes (0, 210, 28).
# Who meets it: who measures colours, trains on frames of phones, or changes the version in between.
. "$(dirname "$0")/environment"
packages opencv-python-headless==4.12.0.88 imageio-ffmpeg==0.8.1 numpy==2.2.6
ffmpeg=$(python -c "import imageio_ffmpeg; print(imageio_ffmpeg.get_ffmpeg_exe())")
cat > check.py <<'PY'
import sys

import cv2
import numpy as np

colours = np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255], [128, 128, 128], [60, 140, 80]])
if sys.argv[1] == "make":
    cv2.imwrite("a.png", np.kron(colours[None, :, ::-1], np.ones((720, 256, 1))).astype(np.uint8))
    raise SystemExit
seen = {}
for name in ("bt709", "p3"):
    there, frame = cv2.VideoCapture(f"{name}.mp4").read()
    assert there
    seen[name] = frame[360, 128::256, ::-1].astype(int)
    print(f"OpenCV {cv2.__version__}, {name}: {colours.tolist()} come as {seen[name].tolist()}")
off = np.abs(seen["bt709"] - colours).max(1)
if sys.argv[1] == "wrong":
    assert off[0] > 20 and off[4] > 8 and off[3] <= 1 and np.array_equal(seen["p3"], seen["bt709"]), "changed"
else:
    assert off.max() <= 2 and np.abs(seen["p3"][1] - colours[1]).max() > 40, "changed"
PY
python check.py make
for kind in "bt709 bt709 bt709" "p3 smpte432 iec61966-2-1"; do
    read -r name primaries curve <<< "$kind"
    "$ffmpeg" -loglevel error -loop 1 -t 0.3 -r 10 -i a.png -vf "scale=out_color_matrix=bt709:out_range=tv,format=yuv420p,setparams=color_primaries=$primaries:color_trc=$curve:colorspace=bt709:range=tv" -c:v libx264 -crf 4 $name.mp4
done
python check.py wrong
python -m pip install --quiet --disable-pip-version-check opencv-python-headless==5.0.0.93 && python check.py right
