#!/usr/bin/env bash
# CadQuery 2.8.0: a box of 10 x 20 x 30 in an assembly, exported as STEP and as GLB.
# Expected: one size in both: STEP says millimetres, and the unit of glTF 2.0 (3.4) is the metre.
# Seen: 10 x 20 x 30 metres in the GLB, a thousand times too large. build123d 0.12.0, on the same
#   kernel, writes 0.01 x 0.02 x 0.03.
# Who meets it: parts shown in a browser or in AR, or put beside others in metres.
# The kernel needs libgl1 on Debian.
. "$(dirname "$0")/environment"
packages cadquery==2.8.0 trimesh==5.2.0
cat > box.py <<'PY'
import re

import cadquery as cq
import trimesh

assembly = cq.Assembly().add(cq.Workplane().box(10, 20, 30))
assembly.export("box.step")
assembly.export("box.glb")
unit = re.search(r"LENGTH_UNIT\(\)[^;]*SI_UNIT\(\.(\w+)\.,\.METRE\.\)", open("box.step").read())[1]
size = trimesh.load("box.glb").extents.round(6).tolist()
print(f"STEP: 10 20 30 {unit} METRE; GLB in metres: {size}")
assert unit == "MILLI" and sorted(size) == [10, 20, 30], "changed"
PY
python box.py
