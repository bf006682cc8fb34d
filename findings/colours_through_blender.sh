#!/usr/bin/env bash
# Blender 5.0.1 (bpy), a PLY with vertex colours of 8 bits imported and exported at the defaults.
# Expected: the colours of the file.
# Seen: 169 of the 255 levels from 0 to 254 are lower by one, and by four after four such rounds: the
#   bytes become linear floats, and the way back cuts off where it should round.
# Who meets it: whoever cleans up a coloured scan in Blender, each time again.
# The package bpy 5.0.1 needs Python 3.11; on Debian also libxi6, libxkbcommon0, libsm6 and libgl1.
. "$(dirname "$0")/environment"
packages bpy==5.0.1
cat > round.py <<'PY'
import bpy

LEVELS = range(255)
with open("0.ply", "w") as file:
    file.write("ply\nformat ascii 1.0\nelement vertex 255\n")
    file.writelines(f"property float {name}\n" for name in "xyz")
    file.writelines(f"property uchar {name}\n" for name in ("red", "green", "blue"))
    file.write("element face 85\nproperty list uchar int vertex_indices\nend_header\n")
    file.writelines(f"{i} {i * i % 7} {i % 3} {i} {i} {i}\n" for i in LEVELS)
    file.writelines(f"3 {i} {i + 1} {i + 2}\n" for i in range(0, 255, 3))


def reds(name):
    header, body = open(name).read().split("end_header\n")
    names = [line.split()[-1] for line in header.splitlines() if line.startswith("property")]
    rows = [line.split() for line in body.splitlines()[:255]]
    return {int(float(row[names.index("x")])): int(row[names.index("red")]) for row in rows}


assert bpy.app.version_string == "5.0.1"
for turn in range(4):
    bpy.ops.wm.read_factory_settings(use_empty=True)
    bpy.ops.wm.ply_import(filepath=f"{turn}.ply")
    bpy.ops.wm.ply_export(filepath=f"{turn + 1}.ply", ascii_format=True)
    found = reds(f"{turn + 1}.ply")
    lower = [i - found[i] for i in LEVELS]
    print(f"after {turn + 1} rounds: {sum(map(bool, lower))} of 255 lower, at most by {max(lower)}")
    assert min(lower) == 0 and max(lower) == turn + 1, "changed"
    assert sum(map(bool, lower)) > 128, "changed"
PY
python round.py 2>&1 | grep -E "^after|Error|^  File" ; test "${PIPESTATUS[0]}" -eq 0
