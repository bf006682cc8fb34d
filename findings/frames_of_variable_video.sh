#!/usr/bin/env bash
# OpenCV 5.0.0.93, imageio 2.38.1 with imageio-ffmpeg 0.8.1 and with PyAV 18.1.0 (numpy 2.3.5).
# Expected: frame k of a video is its k-th frame, and all frames are given once, whichever reader.
# Seen, of H.264 whose frames come 1/30 s apart and later 1/15, as a phone slows down in the dark:
#   PyAV gives each frame once. `VideoCapture.set(CAP_PROP_POS_FRAMES, k)` computes a time from the
#   mean rate: from the middle on it is 9 frames ahead, and the last 9 numbers have no frame, though
#   CAP_PROP_FRAME_COUNT counts them. `imageio.v3.imread(index=k, plugin="pyav")` does so from the
#   first rate, and is up to 2 behind. imageio-ffmpeg fills up to a constant rate: 89 for 60.
#   Reading on without a jump is right in OpenCV, and in imageio with PyAV.
# Who meets it: whoever takes frames of a walk by number, to go with poses, masks or times.
. "$(dirname "$0")/environment"
packages opencv-python-headless==5.0.0.93 imageio==2.38.1 imageio-ffmpeg==0.8.1 av==18.1.0 numpy==2.3.5
python - <<'PY'
from fractions import Fraction

import av
import cv2
import imageio.v3 as iio
import numpy as np

FRAMES = 60
TICK = Fraction(1, 90000)


def drawn(i):
    """A picture in which six bars are the bits of i."""
    image = np.full((96, 128, 3), 40, np.uint8)
    for bit in range(6):
        if i >> bit & 1:
            image[20:70, 8 + 20 * bit : 22 + 20 * bit] = 220
    return image


def number(image):
    return sum(int(image[45, 15 + 20 * bit].mean() > 130) << bit for bit in range(6))


with av.open("walk.mp4", "w") as file:
    stream = file.add_stream("libx264", rate=30)
    stream.width, stream.height, stream.pix_fmt = 128, 96, "yuv420p"
    stream.time_base = stream.codec_context.time_base = TICK
    now = 0
    for i in range(FRAMES):
        frame = av.VideoFrame.from_ndarray(drawn(i), format="rgb24")
        frame.pts, frame.time_base = now, TICK
        now += 3000 if i < FRAMES // 2 else 6000
        file.mux(stream.encode(frame))
    file.mux(stream.encode())

every = list(range(FRAMES))
with av.open("walk.mp4") as file:
    assert [number(f.to_ndarray(format="rgb24")) for f in file.decode(video=0)] == every, "changed"
assert [number(f) for f in iio.imiter("walk.mp4", plugin="pyav")] == every, "changed"
capture = cv2.VideoCapture("walk.mp4")
assert [number(capture.read()[1]) for _ in every] == every, "changed"
print("one after the other: PyAV, imageio with PyAV and OpenCV give all frames once")

filled = [number(f) for f in iio.imiter("walk.mp4", plugin="FFMPEG")]
print(f"imageio-ffmpeg: {len(filled)} frames, 35 to 39 are {[filled.count(i) for i in range(35, 40)]} times there")
assert len(filled) > 80, "changed"


def sought(k):
    capture.set(cv2.CAP_PROP_POS_FRAMES, k)
    found, image = capture.read()
    return number(image) if found else None


jumps = [sought(k) for k in every]
print(f"OpenCV counts {capture.get(cv2.CAP_PROP_FRAME_COUNT):.0f}; frame 45 is {jumps[45]}, frame 55 {jumps[55]}")
assert jumps[:30] == every[:30] and jumps[45] == 54 and jumps[55] is None, "changed"

by_index = [number(iio.imread("walk.mp4", index=k, plugin="pyav")) for k in every]
print(f"imageio with PyAV by index: frame 45 is {by_index[45]}")
assert by_index[:30] == every[:30] and by_index[45] < 45, "changed"
PY
