#!/usr/bin/env bash
# usd2gltf 0.3.5, `usd2gltf -i … -o …` of USD that usd-core 26.11 wrote.
# Expected: what the stage shows, in metres with y up, as glTF 2.0 (3.4) has it: hidden meshes and guides are left
#   out, `!resetXformStack!` leaves out what is above, `metersPerUnit` and `upAxis` are heeded, polygons are
#   cut along ears (the area of a concave one is kept).
# Seen: none of the five, without a word: a box of 3 centimetres is 3 metres, z up lies on its back, a hidden mesh
#   and a guide are there, one that leaves its parent's transform out moves by it, and polygons are fans.
#   Transforms, `leftHanded`, mirrors and orders of rotations are right. (A point instancer and a colour for
#   each face end in an error of Python.)
# Who meets it: who turns USD of a phone's scanner or of Omniverse into GLB, as what reads no USD wants it.
. "$(dirname "$0")/environment"
packages usd2gltf==0.3.5 usd-core==26.11 trimesh==5.2.0 numpy==2.4.6
python -W error::UserWarning - <<'PY'
import subprocess

import numpy as np
import trimesh
from pxr import Usd, UsdGeom

CORNERS = [(x, y, z) for x in (0, 1) for y in (0, 2) for z in (0, 3)]
SIDES = [0, 1, 3, 2, 4, 6, 7, 5, 0, 4, 5, 1, 2, 3, 7, 6, 0, 2, 6, 4, 1, 5, 7, 3]

def converted(name, change=None, up="Y", metres=1.0):
    """The triangles in space [F, 3, 3] of a box that was changed."""
    stage = Usd.Stage.CreateNew(f"{name}.usda")
    UsdGeom.SetStageUpAxis(stage, up)
    UsdGeom.SetStageMetersPerUnit(stage, metres)
    parent = UsdGeom.Xform.Define(stage, "/root")
    stage.SetDefaultPrim(parent.GetPrim())
    mesh = UsdGeom.Mesh.Define(stage, "/root/box")
    mesh.CreatePointsAttr(CORNERS)
    mesh.CreateFaceVertexCountsAttr([4] * 6)
    mesh.CreateFaceVertexIndicesAttr(SIDES)
    mesh.CreateSubdivisionSchemeAttr("none")
    if change:
        change(parent, mesh)
    stage.Save()
    subprocess.run(["usd2gltf", "-i", f"{name}.usda", "-o", f"{name}.glb"], check=True, capture_output=True)
    return np.concatenate([part.triangles for part in trimesh.load(f"{name}.glb").dump()])

def reset(parent, mesh):
    parent.AddTranslateOp().Set((5, 0, 0))
    mesh.SetResetXformStack(True)

def concave(_, mesh):
    mesh.GetPointsAttr().Set([(0, 0, 0), (4, 0, 0), (4, 4, 0), (1, 1, 0), (0, 4, 0)])
    mesh.GetFaceVertexCountsAttr().Set([5])
    mesh.GetFaceVertexIndicesAttr().Set([1, 2, 3, 4, 0])

def area(found):
    return np.linalg.norm(np.cross(found[:, 1] - found[:, 0], found[:, 2] - found[:, 0]), axis=1).sum() / 2

plain = converted("plain").reshape(-1, 3)
assert (plain.max(0) == [1, 2, 3]).all() and (plain.min(0) == 0).all()
sizes = {
    "in centimetres": converted("centimetres", metres=0.01),
    "with z up": converted("up", up="Z"),
    "hidden": converted("hidden", lambda _, mesh: mesh.CreateVisibilityAttr("invisible")),
    "a guide": converted("guide", lambda _, mesh: mesh.CreatePurposeAttr("guide")),
}
for name, found in sizes.items():
    print(f"a box of 1 x 2 x 3, {name}: up to {found.reshape(-1, 3).max(0)}")
    assert np.allclose(found.reshape(-1, 3).max(0), [1, 2, 3]), "changed"
moved = converted("reset", reset).reshape(-1, 3).min(0)
print("!resetXformStack! under a parent at 5:", moved)
assert np.allclose(moved, [5, 0, 0]), "changed"
found = area(converted("concave", concave))
print("a concave polygon of area 10 has the area", found)
assert abs(found - 18) < 1e-4, "changed"
PY
