#!/usr/bin/env bash
# PyAV 18.1.0, imageio-ffmpeg 0.8.1, opencv-python-headless 5.0.0.93: a video that a phone took
# upright, stored on its side with a display matrix of 90 degrees (ISO/IEC 14496-12, 8.3.2).
# Expected: three readers on top of one FFmpeg give the same frames.
# Seen: imageio-ffmpeg and OpenCV turn them upright (48 x 64), PyAV leaves them as they are stored
#   (64 x 48) and states the angle beside each frame. OpenCV's ORIENTATION_META is 270 where
#   PyAV's rotation is 90.
# Who meets it: photogrammetry and training from walk-around videos; poses are 90 degrees off.
. "$(dirname "$0")/environment"
packages av==18.1.0 imageio-ffmpeg==0.8.1 opencv-python-headless==5.0.0.93 numpy==2.4.6
python - <<'PY'
import subprocess

import av
import cv2
import imageio_ffmpeg

run = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error"]
source = ["-f", "lavfi", "-i", "testsrc=size=64x48:rate=5:duration=1", "-pix_fmt", "yuv420p"]
subprocess.run([*run, *source, "stored.mp4"], check=True)
turn = ["-display_rotation", "90", "-i", "stored.mp4", "-c", "copy", "phone.mp4"]
subprocess.run([*run, *turn], check=True)

with av.open("phone.mp4") as container:
    frame = next(container.decode(video=0))
of_av = frame.to_ndarray(format="rgb24").shape[:2], frame.rotation
of_imageio = next(imageio_ffmpeg.read_frames("phone.mp4"))["size"][::-1]
video = cv2.VideoCapture("phone.mp4")
of_opencv = video.read()[1].shape[:2], int(video.get(cv2.CAP_PROP_ORIENTATION_META))
print("height and width by PyAV", of_av, "imageio-ffmpeg", of_imageio, "OpenCV", of_opencv)
assert of_av == ((48, 64), 90), "changed"
assert of_imageio == (64, 48), "changed"
assert of_opencv == ((64, 48), 270), "changed"
PY
