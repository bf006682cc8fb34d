#!/usr/bin/env bash
# pygfx 0.17.0 (with gltflib 1.0.13), `load_gltf_mesh` of a triangle strip.
# Expected: n - 2 triangles of n vertices (glTF 2.0, 3.7.2.1, mode 5), or the error that fans get.
# Seen: the numbers are taken three by three, as of separate triangles: a square of four corners is half
#   a square, a ribbon of six squares has four triangles of twelve. No word of it.
# Who meets it: models from tools that make strips, terrain among them.
. "$(dirname "$0")/environment"
packages pygfx==0.17.0 gltflib==1.0.13 numpy==2.4.6 imageio==2.38.1
cat > make.py <<'PY'
import base64
import json

import numpy as np


def write(name, corners):
    points = np.array([[k // 2, k % 2, 0] for k in range(corners)], np.float32)
    order = np.arange(corners, dtype=np.uint16)
    data = points.tobytes() + order.tobytes()
    views = [{"buffer": 0, "byteLength": points.nbytes},
             {"buffer": 0, "byteOffset": points.nbytes, "byteLength": order.nbytes}]
    accessors = [{"bufferView": 0, "componentType": 5126, "count": corners, "type": "VEC3",
                  "min": points.min(0).tolist(), "max": points.max(0).tolist()},
                 {"bufferView": 1, "componentType": 5123, "count": corners, "type": "SCALAR"}]
    strip = {"attributes": {"POSITION": 0}, "indices": 1, "mode": 5}
    uri = "data:application/octet-stream;base64," + base64.b64encode(data).decode()
    json.dump({"asset": {"version": "2.0"}, "buffers": [{"byteLength": len(data), "uri": uri}],
               "bufferViews": views, "accessors": accessors, "meshes": [{"primitives": [strip]}],
               "nodes": [{"mesh": 0}], "scenes": [{"nodes": [0]}], "scene": 0}, open(name, "w"))


write("square.gltf", 4)
write("ribbon.gltf", 14)
PY
cat > look.py <<'PY'
import pygfx

for name, true, seen in (("square", 2, 1), ("ribbon", 12, 4)):
    (mesh,) = pygfx.load_gltf_mesh(f"{name}.gltf")
    triangles = mesh.geometry.indices.data
    print(f"{name}: {true} triangles in the file, pygfx has {len(triangles)}: {triangles.tolist()}")
    assert len(triangles) == seen, "changed"
PY
python make.py
python -W error::UserWarning look.py 2> words || { cat words; exit 1; }
if [ -s words ]; then cat words; echo "changed: there are words"; exit 1; fi
