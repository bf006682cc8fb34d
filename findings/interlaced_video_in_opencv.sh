#!/usr/bin/env bash
# OpenCV 5.0.0.93 (with imageio-ffmpeg 0.8.1 and PyAV 18.1 to make and to check): interlaced video.
# Expected: the frames, combed, as OpenCV 4.12 and PyAV give them, or False of `read`.
# Seen: `read` is True, and every frame is the same one without a picture: black, of H.264 in a file of
#   AVCHD. FFmpeg's swscale refuses to make a progressive frame of an interlaced one, on stderr alone.
# Who meets it: who reads video of camcorders (AVCHD, DV, 1080i), of television and of DVD.
. "$(dirname "$0")/environment"
packages opencv-python-headless==5.0.0.93 imageio-ffmpeg==0.8.1 av==18.1.0 numpy==2.2.6
ffmpeg=$(python -c "import imageio_ffmpeg; print(imageio_ffmpeg.get_ffmpeg_exe())")
"$ffmpeg" -loglevel error -f lavfi -i testsrc2=size=640x480:rate=50:duration=1 -vf interlace \
    -pix_fmt yuv420p -c:v libx264 -flags +ilme+ildct -x264opts tff=1 a.mts
cat > check.py <<'PY'
import sys

import av
import cv2
import numpy as np

video, frames = cv2.VideoCapture("a.mts"), []
while len(frames) < 10:
    there, frame = video.read()
    assert there, "changed"
    frames.append(frame)
with av.open("a.mts") as file:
    true = [frame.to_ndarray(format="bgr24") for _, frame in zip(range(10), file.decode(video=0))]
off = float(np.abs(np.stack(frames).astype(int) - np.stack(true)).mean())
same = all(np.array_equal(frame, frames[0]) for frame in frames)
print(f"OpenCV {cv2.__version__}: mean of a frame {frames[0].mean():.0f}, by PyAV {true[0].mean():.0f};",
      f"{off:.1f} of 255 apart; all ten frames equal: {same}")
assert (same and off > 100) if sys.argv[1] == "wrong" else (not same and off < 5), "changed"
PY
python check.py wrong 2> opencv.log
python -m pip install --quiet --disable-pip-version-check opencv-python-headless==4.12.0.88 && python check.py right
