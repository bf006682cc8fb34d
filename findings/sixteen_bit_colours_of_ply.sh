#!/usr/bin/env bash
# trimesh 5.2.0, VTK 9.7.2 (by PyVista 0.49.1) and pymeshlab 2025.7: a PLY whose vertices have colours
# as `ushort`, of 0 .. 65535, which the format allows as any other type.
# Expected: 32768 is half of white, 128 of 255; or a word.
# Seen: trimesh and VTK keep the lower byte: 32768 is 0, 33023 is 255, so that gradients of colour
#   become 256 short ones; MeshLab has no colours. No word from any of them. plyfile gives the numbers.
# Who meets it: scanners and programs of photogrammetry that write 16 bits, and their point clouds.
. "$(dirname "$0")/environment"
packages trimesh==5.2.0 vtk==9.7.2 pyvista==0.49.1 pymeshlab==2025.7.post1 numpy==2.4.6
cat > grey.ply <<'PLY'
ply
format ascii 1.0
element vertex 4
property float x
property float y
property float z
property ushort red
property ushort green
property ushort blue
element face 2
property list uchar int vertex_indices
end_header
0 0 0 65535 65535 65535
1 0 0 32768 32768 32768
1 1 0 33023 33023 33023
0 1 0 0 0 0
3 0 1 2
3 0 2 3
PLY
python - 2> words <<'PY'
import warnings

import numpy as np
import pymeshlab
import pyvista
import trimesh

with warnings.catch_warnings():
    warnings.simplefilter("error")
    by_trimesh = trimesh.load("grey.ply", process=False).visual.vertex_colors[:, 0]
by_vtk = pyvista.read("grey.ply").point_data["RGB"][:, 0]
meshes = pymeshlab.MeshSet()
meshes.load_new_mesh("grey.ply")
assert len(meshes.current_mesh().vertex_matrix()) == 4
by_meshlab = meshes.current_mesh().has_vertex_color()
print("expected [255 128 128 0], trimesh", by_trimesh, "VTK", by_vtk, "MeshLab has colours:", by_meshlab)
assert np.array_equal(by_trimesh, [255, 0, 255, 0]), "changed"
assert np.array_equal(by_vtk, [255, 0, 255, 0]), "changed"
assert not by_meshlab, "changed"
PY
cat words
test ! -s words
