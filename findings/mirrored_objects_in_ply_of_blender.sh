#!/usr/bin/env bash
# Blender 5.0.1 (bpy): a cube of scale (-1, 1, 1), such as a mirrored copy, exported at the defaults.
# Expected: the same surface from each exporter, faces counter-clockwise seen from outside.
# Seen: OBJ, STL and glTF (with modifiers applied) turn its faces, volume +8; PLY does not, and the
#   cube is inside out, volume -8.
# Who meets it: whoever mirrors half of a scan or of a character and saves it as PLY.
# The package bpy 5.0.1 needs Python 3.11; on Debian also libxi6, libxkbcommon0, libsm6 and libgl1.
. "$(dirname "$0")/environment"
packages bpy==5.0.1 trimesh==5.2.0 pillow==13.0.0
cat > cube.py <<'PY'
import bpy
import trimesh

assert bpy.app.version_string == "5.0.1"
seen = {}
for scale in (1, -1):
    bpy.ops.wm.read_factory_settings(use_empty=True)
    bpy.ops.mesh.primitive_cube_add(size=2)
    bpy.context.object.scale = (scale, 1, 1)
    bpy.ops.wm.obj_export(filepath="c.obj", export_materials=False)
    bpy.ops.wm.stl_export(filepath="c.stl")
    bpy.ops.wm.ply_export(filepath="c.ply")
    bpy.ops.export_scene.gltf(filepath="c.glb")
    for kind in ("obj", "stl", "ply", "glb"):
        mesh = trimesh.load(f"c.{kind}", force="mesh")
        seen[kind, scale] = round(float(mesh.volume), 3)
print(f"volumes: {seen}")
assert all(seen[kind, 1] == 8 for kind in ("obj", "stl", "ply", "glb")), "changed"
assert seen["obj", -1] == seen["stl", -1] == seen["glb", -1] == 8, "changed"
assert seen["ply", -1] == -8, "changed"
PY
python cube.py 2>&1 | grep -E "^volumes|Error|^  File" ; test "${PIPESTATUS[0]}" -eq 0
