#!/usr/bin/env bash
# Aspose.3D for Python 26.9.0, an OBJ saved as PLY, and as OBJ and STL.
# Expected: the corners of all three are those of the file.
# Seen: in the PLY every coordinate has the other sign, while faces keep their order: the object is
#   mirrored through the origin, and a closed one is inside out. OBJ and STL have the corners as
#   they were, but the STL has normals that look inwards, against the order of its corners.
# Who meets it: those who convert by it, or by web pages that do; in viewers without culling the PLY
#   looks plausible until text or a left hand is in it.
# It runs as a trial, in .NET without the cultures of a system (ICU), and says so where it can.
. "$(dirname "$0")/environment"
packages numpy==2.3.5 aspose-3d==26.9.0
export DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1
printf '%s\n' 'v 1 0 0' 'v 0 2 0' 'v 0 0 3' 'v 0 0 0' 'f 1 2 3' 'f 1 4 2' 'f 2 4 3' 'f 3 4 1' > t.obj
for format in ply obj stl; do
    # In a process each, of which the end does not count: the trial may stop after its work.
    python -c "from aspose.threed import Scene; Scene.from_file('t.obj').save('o.$format')" \
        > "$format.log" 2>&1 || true
    [ -s "o.$format" ] || { cat "$format.log"; exit 1; }
done
python - <<'PY'
import numpy as np
head, body = open("o.ply").read().split("end_header\n")
rows = body.split("\n")
points = np.array([row.split()[:3] for row in rows[:4]], float)
faces = np.array([row.split()[1:4] for row in rows[4:8]], int)
obj = np.array([line.split()[1:4] for line in open("o.obj") if line.startswith("v ")], float)
stl = np.frombuffer(open("o.stl", "rb").read()[84:], np.dtype([("v", "<f4", (4, 3)), ("a", "<u2")]))


def volume(corners):  # of a closed mesh, above 0 if its faces look outwards
    return np.linalg.det(corners).sum() / 6


print("corners of the OBJ", obj[:3].tolist(), "and of the PLY", points[:3].tolist())
assert np.array_equal(obj[:3], np.diag([1, 2, 3])), "changed"
assert np.array_equal(points[:3], -np.diag([1.0, 2, 3])), "changed"
print("volume", volume(stl["v"][:, 1:].astype(float)), "by the STL,", volume(points[faces]), "by the PLY")
assert np.isclose(volume(stl["v"][:, 1:].astype(float)), 1) and np.isclose(volume(points[faces]), -1)
normals = np.cross(stl["v"][:, 2] - stl["v"][:, 1], stl["v"][:, 3] - stl["v"][:, 1])
cosines = (normals * stl["v"][:, 0]).sum(1) / np.linalg.norm(normals, axis=1)
print("normals of the STL times those of its corners", cosines.round(6).tolist())
assert np.allclose(cosines, -1, atol=1e-5), "changed"
PY
