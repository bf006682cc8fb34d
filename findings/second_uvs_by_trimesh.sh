#!/usr/bin/env bash
# trimesh 5.2.0 (numpy 2.4.6, Pillow 13.0.0): a GLB whose material names a texture's second set of
# coordinates ("texCoord": 1; textureInfo of glTF 2.0), and one with KHR_texture_transform.
# Expected: the coordinates that the material names, moved and scaled by the extension; or a word.
# Seen: TEXCOORD_0 as it is, whatever the material says, without a warning. The second file says in
#   `extensionsRequired` that it cannot be read without the extension, and is read.
# Who meets it: GLBs with a lightmap or an atlas in a set of its own, and those of gltfpack and
#   of shops, whose textures come out as one colour or as a wrong piece; and what reads by trimesh.
. "$(dirname "$0")/environment"
packages trimesh==5.2.0 numpy==2.4.6 pillow==13.0.0
python - <<'PY'
import io
import json
import struct
import warnings

import numpy as np
import trimesh
from PIL import Image

picture = io.BytesIO()
Image.fromarray(np.full((8, 8, 3), 90, np.uint8)).save(picture, "PNG")
square = np.array([(0, 0), (1, 0), (1, 1), (0, 1)], np.float32)
parts = [
    np.pad(square, ((0, 0), (0, 1))).tobytes(),
    np.full((4, 2), 0.125, np.float32).tobytes(),  # TEXCOORD_0
    square.tobytes(),  # TEXCOORD_1
    np.array([0, 1, 2, 0, 2, 3], np.uint16).tobytes(),
    picture.getvalue(),
]


def written(name, texture, **top):
    data, views = b"", []
    for part in parts:
        views.append({"buffer": 0, "byteOffset": len(data), "byteLength": len(part)})
        data += part + bytes(-len(part) % 4)
    kinds = [(5126, 4, "VEC3"), (5126, 4, "VEC2"), (5126, 4, "VEC2"), (5123, 6, "SCALAR")]
    accessors = [
        {"bufferView": i, "componentType": form, "count": count, "type": kind}
        for i, (form, count, kind) in enumerate(kinds)
    ]
    accessors[0] |= {"min": [0, 0, 0], "max": [1, 1, 0]}
    attributes = {"POSITION": 0, "TEXCOORD_0": 1, "TEXCOORD_1": 2}
    scene = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [{"attributes": attributes, "indices": 3, "material": 0}]}],
        "materials": [{"pbrMetallicRoughness": {"baseColorTexture": {"index": 0, **texture}}}],
        "textures": [{"source": 0}],
        "images": [{"bufferView": 4, "mimeType": "image/png"}],
        "accessors": accessors,
        "bufferViews": views,
        "buffers": [{"byteLength": len(data)}],
        **top,
    }
    text = json.dumps(scene).encode()
    text += b" " * (-len(text) % 4)
    head = struct.pack("<4sII", b"glTF", 2, 12 + 8 + len(text) + 8 + len(data))
    body = struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", len(data), b"BIN\0")
    with open(name, "wb") as file:
        file.write(head + body + data)


def read(name):
    uv = trimesh.load(name, force="mesh", process=False).visual.uv
    return np.c_[uv[:, 0], 1 - uv[:, 1]]  # trimesh counts rows from below


extension = "KHR_texture_transform"
moved = {extension: {"offset": [0.5, 0.0], "scale": [0.25, 0.25]}}
written("second.glb", {"texCoord": 1})
written("moved.glb", {"extensions": moved}, extensionsUsed=[extension], extensionsRequired=[extension])
with warnings.catch_warnings():
    warnings.simplefilter("error")
    second, transformed = read("second.glb"), read("moved.glb")
print("second set: expected", square.tolist(), "seen", second.tolist())
print("transformed: expected", [0.53125, 0.03125], "seen", transformed[0].tolist())
assert np.allclose(second, 0.125) and np.allclose(transformed, 0.125), "changed"
PY
