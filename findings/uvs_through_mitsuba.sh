#!/usr/bin/env bash
# Mitsuba 3.9.1: UVs of an OBJ in the PLY that `write_ply` makes of it.
# Expected: v counts from the bottom of the image in both, as in Blender, MeshLab and trimesh.
# Seen: v becomes 1 - v when an OBJ is read, not so when a PLY is (`flip_tex_coords` has other defaults),
#   and `write_ply` writes what it has: its PLY has textures upside down in other programs, and a PLY
#   of these has them so in Mitsuba. Its own OBJ and PLY are equal.
# Who meets it: those who take meshes to or from Mitsuba by PLY.
. "$(dirname "$0")/environment"
packages mitsuba==3.9.1 trimesh==5.2.0 numpy==2.4.6
printf 'v 0 0 0\nv 1 0 0\nv 1 1 0\nvt 0 0\nvt 1 0\nvt 1 0.25\nf 1/1 2/2 3/3\n' > a.obj
python - <<'PY'
import mitsuba
import numpy as np
import trimesh

mitsuba.set_variant("scalar_rgb")
mitsuba.load_dict({"type": "obj", "filename": "a.obj"}).write_ply("a.ply")
again = mitsuba.traverse(mitsuba.load_dict({"type": "ply", "filename": "a.ply"}))["vertex_texcoords"]
obj, ply = (trimesh.load(name, process=False).visual.uv[:, 1] for name in ("a.obj", "a.ply"))
print("v of the corners, OBJ by trimesh:", obj, "PLY of Mitsuba by trimesh:", ply)
assert np.allclose(obj, [0, 0, 0.25]) and np.allclose(ply, [1, 1, 0.75]), "changed"
assert np.allclose(np.array(again)[1::2], ply), "changed"
PY
