#!/usr/bin/env bash
# trimesh 5.2.0 (with Pillow 13.0): a mesh with an image and nothing else, written as GLB, glTF and OBJ.
# Expected: the image as it is: `TextureVisuals(uv=…, image=…)`, or an MTL that has `map_Kd` alone.
# Seen: the default grey of a material without an image, 102 of 255, is its factor: 0.4 of linear light
#   in glTF, so that white is 170 of 255 in every viewer, and `Kd 0.4` beside the image in its MTL.
# Who meets it: who turns scans or textured OBJ into GLB.
. "$(dirname "$0")/environment"
packages trimesh==5.2.0 pillow==13.0.0 numpy==2.4.6
python - <<'PY'
import json

import trimesh
from PIL import Image

white = Image.new("RGB", (4, 4), "white")
white.save("white.png")
open("a.mtl", "w").write("newmtl m\nmap_Kd white.png\n")
open("a.obj", "w").write("mtllib a.mtl\nusemtl m\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nvt 1 0\nvt 0 1\nf 1/1 2/2 3/3\n")
made = trimesh.Trimesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]], process=False)
made.visual = trimesh.visual.TextureVisuals(uv=[[0, 0], [1, 0], [0, 1]], image=white)
for name, mesh in (("made with an image", made), ("OBJ with map_Kd alone", trimesh.load_mesh("a.obj"))):
    files = trimesh.Scene(mesh).export(file_type="gltf")
    factor = json.loads(files["model.gltf"])["materials"][0]["pbrMetallicRoughness"]["baseColorFactor"]
    mtl = mesh.export(file_type="obj", return_texture=True)[1]["material.mtl"].decode()
    (kd,) = [line for line in mtl.splitlines() if line.startswith("Kd")]
    print(f"{name}: baseColorFactor {factor}, {kd}")
    assert factor == [0.4, 0.4, 0.4, 1.0] and float(kd.split()[1]) == 0.4, "changed"
PY
