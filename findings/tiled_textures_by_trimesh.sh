#!/usr/bin/env bash
# trimesh 5.2.0, `concatenate` of two textured meshes, and `to_mesh` of a scene of both, where one repeats its
#   texture: UVs from 0 to 3, as floors and walls have them, and the default wrap of glTF is to repeat.
# Expected: each place keeps its colour, by a repeated picture or by smaller triangles; or a word that it cannot.
# Seen: both pictures go into one, and UVs are taken to it after their whole parts have been cut off: 0 and 3
#   are the same place, and the whole square has one colour. What goes from -1.25 to -0.75 comes
#   mirrored, from 0.75 back to 0.25. Meshes alone, or a scene that is not joined, are right.
# Who meets it: who makes one mesh of a scene with several materials, as by `trimesh.load(…, force="mesh")`.
. "$(dirname "$0")/environment"
packages trimesh==5.2.0 pillow==13.0.0 scipy==1.17.1 numpy==2.4.6
python -W error::UserWarning - <<'PY'
import numpy as np
import trimesh
from PIL import Image
from trimesh.visual.material import PBRMaterial

red_over_blue = np.zeros((8, 8, 3), np.uint8)
red_over_blue[:4, :, 0] = red_over_blue[4:, :, 2] = 255
green = np.zeros((8, 8, 3), np.uint8)
green[..., 1] = 255

def square(x, image, low, high):
    uv = np.array([[low, low], [high, low], [high, high], [low, high]], float)
    visual = trimesh.visual.TextureVisuals(uv, PBRMaterial(baseColorTexture=Image.fromarray(image)))
    corners = [[x, 0, 0], [x + 1, 0, 0], [x + 1, 1, 0], [x, 1, 0]]
    return trimesh.Trimesh(corners, [[0, 1, 2], [0, 2, 3]], visual=visual, process=False)

def spread(mesh):
    """How much of the picture the first square spans, in whole pictures of its own."""
    width = mesh.visual.material.baseColorTexture.size
    return np.ptp(mesh.visual.uv[:4], axis=0) * width / 8

def both(low, high):
    meshes = [square(0, red_over_blue, low, high), square(2, green, 0, 1)]
    yield trimesh.util.concatenate(meshes)
    yield trimesh.Scene(meshes).to_mesh()

for joined in both(0, 3):
    print("UVs from 0 to 3 span", spread(joined), "of a picture that is repeated three times")
    assert len(joined.faces) == 4 and (spread(joined) < 0.01).all(), "changed"
for joined in both(0, 1):
    assert (spread(joined) > 0.7).all() and (spread(joined) < 1.1).all()
for joined in both(-1.25, -0.75):
    u = joined.visual.uv[:4, 0]
    print("u from -1.25 to -0.75 becomes", u[:2])
    assert u[1] < u[0], "changed"
PY
