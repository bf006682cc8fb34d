#!/usr/bin/env bash
# nerfstudio 1.1.5 (with OpenCV 4.12, NumPy 2.2.6): lenses of Metashape and of OpenDroneMap in the
# transforms.json of `ns-process-data`.
# Expected: the same pixels. Metashape's manual has P1 (r² + 2x²) + 2 P2 xy in x, OpenCV and
#   nerfstudio 2 p1 xy + p2 (r² + 2x²), so that both change places, and u = w / 2 + cx + f x' + b1 x'
#   + b2 y'. c_x of OpenSfM is in parts of the longer side.
# Seen: p1 and p2 as they are, b1 and b2 left out: a pixel at (3825, 2696) is 18 off; c_x is added
#   as pixels: a principal point that is 40 pixels beside the middle becomes the middle. No word of it.
# Who meets it: who trains on cameras of either.
. "$(dirname "$0")/environment"
packages numpy==2.2.6 opencv-python-headless==4.12.0.88 open3d==0.20.0 imageio==2.38.1 rawpy==0.27.1 rich==15.0.0
python -m pip install --quiet --disable-pip-version-check --no-deps nerfstudio==1.1.5
cat > a.xml <<'XML'
<document><chunk>
<sensors><sensor id="0" type="frame"><resolution width="4000" height="3000"/>
<calibration type="frame"><f>3000</f><cx>10</cx><cy>-5</cy><k1>0</k1><p1>0.004</p1><p2>-0.002</p2>
<b1>4</b1><b2>2</b2></calibration></sensor></sensors>
<cameras><camera id="0" sensor_id="0" label="a"><transform>1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1</transform></camera></cameras>
</chunk></document>
XML
cat > check.py <<'PY'
import json
import warnings
from pathlib import Path

import cv2
import numpy as np

warnings.simplefilter("ignore")
from nerfstudio.process_data.metashape_utils import metashape_to_json
from nerfstudio.process_data.odm_utils import cameras2nerfds

here, photos = Path("."), {"a": Path("images/a.jpg")}
said = metashape_to_json(photos, Path("a.xml"), here)
(lens,) = json.load(open("transforms.json"))["frames"]
x, y = 0.6, 0.4
square = x * x + y * y
bent_x = x + 0.004 * (square + 2 * x * x) + 2 * -0.002 * x * y
bent_y = y + -0.002 * (square + 2 * y * y) + 2 * 0.004 * x * y
true = np.array([2000 + 10 + 3000 * bent_x + 4 * bent_x + 2 * bent_y, 1500 - 5 + 3000 * bent_y])
matrix = np.array([[lens["fl_x"], 0, lens["cx"]], [0, lens["fl_y"], lens["cy"]], [0, 0, 1]])
bends = np.array([lens[name] for name in ("k1", "k2", "p1", "p2", "k3")])
seen, _ = cv2.projectPoints(np.array([[x, y, 1]]), np.zeros(3), np.zeros(3), matrix, bends)
print("a pixel by Metashape's formula:", true.round(2), "by nerfstudio's lens:", seen.ravel().round(2))
assert lens["p1"] == 0.004 and lens["p2"] == -0.002 and lens["fl_x"] == lens["fl_y"] == 3000, "changed"
assert 18 < np.linalg.norm(seen.ravel() - true) < 18.2, "changed"

lens = {"projection_type": "brown", "width": 4000, "height": 3000, "focal_x": 0.75, "focal_y": 0.75}
lens |= {"c_x": 0.01, "c_y": 0.0, "k1": 0.0, "k2": 0.0, "p1": 0.0, "p2": 0.0, "k3": 0.0}
shots = {"a.jpg": {"rotation": [0, 0, 0], "translation": [0, 0, 0], "camera": "lens"}}
json.dump({"lens": lens}, open("cameras.json", "w"))
json.dump([{"cameras": {"lens": lens}, "shots": shots, "points": {}}], open("reconstruction.json", "w"))
said += cameras2nerfds(photos, Path("cameras.json"), Path("shots"), Path("reconstruction.json"), here)
(lens,) = json.load(open("transforms.json"))["frames"]
print("c_x = 0.01 of 4000 x 3000, 40 pixels beside 2000: cx =", lens["cx"])
assert abs(lens["cx"] - 1999.51) < 0.01, "changed"
print("it says:", *said)
assert not any(word in " ".join(said).lower() for word in ("p1", "b1", "tangential", "principal")), "changed"
PY
python check.py
