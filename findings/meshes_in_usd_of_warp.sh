#!/usr/bin/env bash
# Warp 1.19.0, `warp.render.UsdRenderer` (usd-core 26.11): a triangle mesh and what its file says of it.
# Expected: the triangles that `render_mesh` got, in metres, the unit of Warp's simulations.
# Seen: a mesh without `subdivisionScheme`, which is a Catmull–Clark surface by UsdGeomMesh's
#   documentation: a cube is shown as a ball of less than half of its volume; and no `metersPerUnit`,
#   which is centimetres by UsdGeom's: the scene is 100 times smaller where units count.
# Who meets it: who brings a simulation of Warp or Newton to usdview, Blender, Omniverse or Houdini.
. "$(dirname "$0")/environment"
packages warp-lang==1.19.0 usd-core==26.11 numpy==2.4.6
cat > check.py <<'PY'
import numpy as np
import warp as wp
import warp.render
from pxr import Usd, UsdGeom

wp.config.quiet = True
corners = np.array([(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)], np.float32)
quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
faces = np.array([(a, b, c) for a, b, c, _ in quads] + [(a, c, d) for a, _, c, d in quads])
renderer = warp.render.UsdRenderer("cube.usda")
renderer.begin_frame(0.0)
renderer.render_mesh("cube", corners, faces.flatten())
renderer.end_frame()
renderer.save()
stage = Usd.Stage.Open("cube.usda")
(mesh,) = (UsdGeom.Mesh(prim) for prim in stage.Traverse() if prim.IsA(UsdGeom.Mesh))
scheme, unit = mesh.GetSubdivisionSchemeAttr(), UsdGeom.GetStageMetersPerUnit(stage)
print("scheme:", scheme.Get(), "written:", scheme.HasAuthoredValue(), "metres per unit:", unit)
assert list(mesh.GetFaceVertexCountsAttr().Get(0.0)) == [3] * 12
assert scheme.Get() == UsdGeom.Tokens.catmullClark and not scheme.HasAuthoredValue(), "changed"
assert unit == 0.01 and not UsdGeom.StageHasAuthoredMetersPerUnit(stage), "changed"
PY
WARP_CACHE_PATH="$PWD/cache" python check.py
