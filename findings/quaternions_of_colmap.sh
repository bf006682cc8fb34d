#!/usr/bin/env bash
# pycolmap 4.2.1: the order of a quaternion in one library.
# Expected: `pycolmap.Rotation3d(q)` takes a quaternion as images.txt of the same library has it,
#   QW QX QY QZ.
# Seen: it takes and gives x, y, z, w, while the file that it writes has w first. Both are unit
#   quaternions, so nothing can notice.
# Who meets it: scripts that copy poses from a text model into a Reconstruction, or back.
. "$(dirname "$0")/environment"
packages pycolmap==4.2.1 numpy==2.4.6
python - <<'PY'
import numpy as np
import pycolmap

half = np.sqrt(0.5)
about_z = pycolmap.Rotation3d(np.array([0.0, 0.0, half, half]))
assert np.allclose(about_z.matrix(), [[0, -1, 0], [1, 0, 0], [0, 0, 1]]), "changed"
model = pycolmap.Reconstruction()
camera = pycolmap.Camera(model="PINHOLE", width=64, height=48, params=[70, 70, 32, 24], camera_id=1)
model.add_camera_with_trivial_rig(camera)
pose = pycolmap.Rigid3d(about_z, np.zeros(3))
model.add_image_with_trivial_frame(pycolmap.Image(name="a.png", camera_id=1, image_id=1), pose)
model.register_frame(1)
model.write_text(".")
line = next(text for text in open("images.txt") if not text.startswith("#"))
in_file = [float(word) for word in line.split()[1:5]]
print("Rotation3d.quat", np.round(about_z.quat, 3), "images.txt", np.round(in_file, 3))
assert np.allclose(about_z.quat, [0, 0, half, half]) and np.allclose(in_file, [half, 0, 0, half]), "changed"
PY
