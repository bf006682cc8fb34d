#!/usr/bin/env bash
# Open3D 0.20.0, `write_triangle_mesh` of a box to .glb, and `read_triangle_mesh` of that file.
# Expected: 12 triangles, as by .ply and .gltf.
# Seen: none, and a line "buffer view … out of range". Open3D writes the data as base64 into the JSON
#   and no binary chunk, which glTF 2.0 allows and other readers take; its own looks for the chunk.
# Who meets it: whoever keeps meshes as GLB between two runs; the next step works on an empty mesh.
# On Debian Open3D needs the packages libusb-1.0-0, libgl1 and libgomp1.
. "$(dirname "$0")/environment"
packages open3d==0.20.0 numpy==2.4.6 trimesh==5.2.0
python - <<'PY'
import open3d
import trimesh

box = open3d.geometry.TriangleMesh.create_box()
read = {}
for name in ("box.ply", "box.gltf", "box.glb"):
    assert open3d.io.write_triangle_mesh(name, box)
    read[name] = len(open3d.io.read_triangle_mesh(name).triangles)
other = len(trimesh.load_mesh("box.glb").faces)
print("of 12 triangles Open3D reads", read, "and trimesh of the last", other)
assert read == {"box.ply": 12, "box.gltf": 12, "box.glb": 0} and other == 12, "changed"
PY
