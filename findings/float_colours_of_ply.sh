#!/usr/bin/env bash
# VTK 9.7.2 (by PyVista 0.49.1): a PLY whose colours are floats from 0 to 1, which the format allows.
# Expected: the colours, or 255 times them as VTK keeps bytes.
# Seen: an array "RGB" of bytes that are all 0: the mesh is black, without a word.
# Who meets it: float colours of scans and of fits, looked at in ParaView's family of programs.
. "$(dirname "$0")/environment"
packages pyvista==0.49.1 vtk==9.7.2 numpy==2.4.6
python - <<'PY'
import pyvista

names = ["x", "y", "z", "red", "green", "blue"]
header = ["ply", "format ascii 1.0", "element vertex 3", *(f"property float {n}" for n in names)]
header += ["element face 1", "property list uchar int vertex_indices", "end_header"]
rows = [f"{x} {y} 0 0.9 0.5 0.25" for x, y in ((0, 0), (1, 0), (0, 1))]
with open("colours.ply", "w") as file:
    file.write("\n".join([*header, *rows, "3 0 1 2", ""]))
colours = pyvista.read("colours.ply")["RGB"]
print("0.9 0.5 0.25 is read as", colours[0], colours.dtype)
assert colours.dtype == "uint8" and not colours.any(), "changed"
PY
