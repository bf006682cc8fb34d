#!/usr/bin/env bash
# trimesh 5.2.0 (fast-simplification 0.2.0): `simplify_quadric_decimation` of a mesh with colours of
# vertices, and of one with a texture.
# Expected: colours of the vertices that are left, and UVs, or a word.
# Seen: neither, without a word: the mesh comes back white. The colours of what is left could be taken
#   from fast_simplification's `return_collapses`.
# Who meets it: scans and results of photogrammetry that are made smaller before they are written.
. "$(dirname "$0")/environment"
packages trimesh==5.2.0 fast-simplification==0.2.0 numpy==2.4.6 scipy==1.17.1 pillow==13.0.0
python -W error - <<'PY'
import numpy as np
import trimesh
from PIL import Image

ball = trimesh.creation.icosphere(subdivisions=4)
bytes_ = np.random.default_rng(0).integers(0, 256, (len(ball.vertices), 4), np.uint8)
coloured = trimesh.Trimesh(ball.vertices, ball.faces, vertex_colors=bytes_, process=False)
textured = ball.copy()
image = Image.new("RGB", (8, 8), (255, 0, 0))
textured.visual = trimesh.visual.TextureVisuals(uv=ball.vertices[:, :2], image=image)
for name, mesh in (("colours", coloured), ("texture", textured)):
    small = mesh.simplify_quadric_decimation(face_count=2000)
    print(name, mesh.visual.kind, len(mesh.faces), "->", small.visual.kind, len(small.faces))
    assert mesh.visual.kind is not None and len(small.faces) <= 2000
    assert small.visual.kind is None, "changed"
PY
