#!/usr/bin/env bash
# kapture 1.1.12 (with numpy-quaternion 2024.0.13, NumPy 2.3.5): cameras of COLMAP's models PINHOLE
# and RADIAL, exported to OpenMVG and OpenSfM.
# Expected: the same projections, or a word where the other format cannot have them. OpenMVG counts
#   the centre of the first pixel as 0, COLMAP and kapture as 0.5.
# Seen: OpenMVG gets the principal point as it is, half a pixel off, and one focal length, the mean
#   of two that differ by a tenth; OpenSfM's camera is "perspective" with the principal point in
#   the middle, here three pixels off, though "radial" would keep it. No warning speaks of it.
# Who meets it: those who bring cameras of COLMAP to either by kapture.
. "$(dirname "$0")/environment"
packages kapture==1.1.12 numpy-quaternion==2024.0.13 numpy==2.3.5 pillow==13.0.0
cat > make.py <<'PY'
import sys
from pathlib import Path

import kapture
import kapture.io.csv
import quaternion
from PIL import Image

for name, numbers in (("PINHOLE", [64, 48, 70, 77, 35, 21]), ("RADIAL", [64, 48, 70, 35, 21, 0, 0])):
    root = Path(name, "sensors/records_data")
    root.mkdir(parents=True)
    Image.new("RGB", (64, 48)).save(root / "a.jpg")
    whole = kapture.Kapture()
    whole.sensors, whole.records_camera = kapture.Sensors(), kapture.RecordsCamera()
    whole.trajectories = kapture.Trajectories()
    whole.sensors["lens"] = kapture.Camera(name, numbers, "lens")
    whole.records_camera[0, "lens"] = "a.jpg"
    whole.trajectories[0, "lens"] = kapture.PoseTransform(quaternion.one, [0, 0, 0])
    kapture.io.csv.kapture_to_dir(name, whole)
PY
python make.py
kapture_export_openmvg -v 30 -f -i PINHOLE -o mvg --image_action skip > mvg.log 2>&1
kapture_export_opensfm -v 30 -f -k RADIAL -o sfm --transfer copy > sfm.log 2>&1
python - <<'PY'
import json

lens = json.load(open("mvg/sfm_data.json"))["intrinsics"][0]["value"]["ptr_wrapper"]["data"]
print("fx 70, fy 77, principal point (35, 21) of COLMAP in OpenMVG:", lens)
assert lens["focal_length"] == 73.5 and lens["principal_point"] == [35, 21], "changed"
(camera,) = json.load(open("sfm/reconstruction.json"))[0]["cameras"].values()
print("focal length 70, principal point (35, 21) of 64 x 48 in OpenSfM:", camera)
assert camera["projection_type"] == "perspective" and camera["focal"] == 70 / 64, "changed"
assert not {"c_x", "c_y"} & set(camera), "changed"
said = (open("mvg.log").read() + open("sfm.log").read()).lower()
assert not any(word in said for word in ("principal", "focal", "intrinsic")), "changed"
PY
