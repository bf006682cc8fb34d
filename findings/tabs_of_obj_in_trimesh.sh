#!/usr/bin/env bash
# trimesh 5.2.0: an OBJ with a tab behind `v` and `f`, and one with tabs between the numbers alone.
# Expected: the same square: the format separates words by blanks or tabs, and "#", "f" and "vt" are read
#   behind tabs by most programs, Blender, MeshLab and VTK among them.
# Seen: a mesh without vertices and faces, without a word, where the tab is behind the keyword;
#   the square where it is between the numbers.
# Who meets it: files of CAD programs, of scripts that print columns; a scene that lacks one of its objects.
. "$(dirname "$0")/environment"
packages trimesh==5.2.0 numpy==2.4.6
printf 'v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3\nf 1 3 4\n' > blanks.obj
tr ' ' '\t' < blanks.obj > tabs.obj
sed 's/ /\t/2g' blanks.obj > between.obj
python -W error - <<'PY'
import trimesh

area = {}
for name in ("blanks", "between", "tabs"):
    mesh = trimesh.load(f"{name}.obj", force="mesh", process=False)
    area[name] = float(mesh.area)
    print(name, mesh.vertices.shape, mesh.faces.shape, "area", mesh.area)
assert area["blanks"] == area["between"] == 1
assert area["tabs"] == 0, "changed"
PY
