#!/usr/bin/env bash
# trimesh 5.2.0: `aspectRatio` of the camera in a GLB or glTF of a scene.
# Expected: width over height of the image, 2 for 800 x 400 pixels with f = 400: the format says so, and
#   that xfov follows from it and yfov by the tangents.
# Seen: the angle across over the angle down, 90 over 53.13: 1.694. `yfov` is right.
# Who meets it: who views such a scene from its camera elsewhere, with wide lenses.
. "$(dirname "$0")/environment"
packages trimesh==5.2.0 numpy==2.4.6 scipy==1.17.1
python - <<'PY'
import json

import numpy as np
import trimesh

scene = trimesh.Scene([trimesh.creation.box()])
scene.camera = trimesh.scene.Camera(resolution=(800, 400), focal=(400, 400))
scene.camera_transform = np.eye(4)
lens = json.loads(scene.export(file_type="gltf")["model.gltf"])["cameras"][0]["perspective"]
across = np.degrees(2 * np.arctan(lens["aspectRatio"] * np.tan(lens["yfov"] / 2)))
print("800 x 400, f = 400:", lens, "which is", across.round(2), "degrees across for", scene.camera.fov[0])
assert abs(np.degrees(lens["yfov"]) - 53.1301) < 1e-3 and abs(lens["aspectRatio"] - 1.694) < 1e-3, "changed"
PY
