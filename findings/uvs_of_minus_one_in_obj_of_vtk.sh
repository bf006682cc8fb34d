#!/usr/bin/env bash
# VTK 9.6.2 by PyVista 0.49.1: a cube with the texture coordinates that PyVista gives it, saved as OBJ.
# Expected: eight points, eight lines vt, faces that name them.
# Seen: points whose first coordinate is -1 have no line vt, while faces go on numbering by points:
#   from there on each has the coordinates of a later one, and the last two name lines that are not there.
# Who meets it: textures that are mirrored or repeated to the left (u = -1), without a word.
. "$(dirname "$0")/environment"
packages pyvista==0.49.1 vtk==9.6.2
cat > cube.py <<'PY'
import pyvista

cube = pyvista.Cube()
uvs = cube.active_texture_coordinates
cube.save("cube.obj")
lines = [line.split() for line in open("cube.obj")]
written = [words[1:] for words in lines if words[:1] == ["vt"]]
named = {int(word.split("/")[1]) for words in lines if words[:1] == ["f"] for word in words[1:]}
lost = int((uvs[:, 0] == -1).sum())
print(f"{cube.n_points} points, {lost} of u = -1, {len(written)} lines vt; faces name up to {max(named)}")
assert (cube.n_points, lost, len(written), max(named)) == (8, 2, 6, 8), "changed"
cube.active_texture_coordinates = uvs + 2  # the same places of a repeated texture
cube.save("moved.obj")
assert sum(line.startswith("vt ") for line in open("moved.obj")) == 8, "changed"
PY
python cube.py
