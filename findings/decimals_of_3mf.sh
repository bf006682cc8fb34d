#!/usr/bin/env bash
# lib3mf 2.5.0 (the reference library of the 3MF Consortium): a mesh in metres written and read.
# Expected: coordinates to the seven digits of the float32 that the library takes; 3MF is text.
# Seen: six places after the point, cut off and not rounded: 0.0000019 m comes back as 0.000001 m.
#   `SetDecimalPrecision(12)` keeps it.
# Who meets it: who writes small parts in metres; in millimetres, the default unit, it hardly shows.
. "$(dirname "$0")/environment"
packages lib3mf==2.5.0
python - <<'PY'
import lib3mf

library = lib3mf.get_wrapper()


def vertices(places=None):
    model = library.CreateModel()
    model.SetUnit(lib3mf.ModelUnit.Meter)
    mesh = model.AddMeshObject()
    for point in ((0, 0, 0), (1.9e-6, 0, 0), (0, 2.9e-6, 0), (0, 0, 3.9e-6)):
        position = lib3mf.Position()
        position.Coordinates[:] = point
        mesh.AddVertex(position)
    for corners in ((0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)):
        triangle = lib3mf.Triangle()
        triangle.Indices[:] = corners
        mesh.AddTriangle(triangle)
    model.AddBuildItem(mesh, library.GetIdentityTransform())
    writer = model.QueryWriter("3mf")
    if places:
        writer.SetDecimalPrecision(places)
    writer.WriteToFile("a.3mf")
    copy = library.CreateModel()
    copy.QueryReader("3mf").ReadFromFile("a.3mf")
    found = copy.GetMeshObjects()
    found.MoveNext()
    return [round(max(v.Coordinates), 9) for v in found.GetCurrentMeshObject().GetVertices()]


print("1.9, 2.9 and 3.9 micrometres come back as", vertices()[1:], "with 12 places as", vertices(12)[1:])
assert vertices() == [0.0, 1e-6, 2e-6, 3e-6], "changed"
assert vertices(12) == [0.0, 1.9e-6, 2.9e-6, 3.9e-6], "changed"
PY
