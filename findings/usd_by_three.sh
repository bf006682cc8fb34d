#!/usr/bin/env bash
# three.js 0.187.0, `USDLoader`, of files that usd-core 26.11 wrote (.usdc).
# Expected: what usd-core says of the same file, or a word: `orientation = leftHanded` turns the faces,
#   `visibility = invisible` hides, `xformOp:rotateZYX` turns, `!resetXformStack!` leaves the parents
#   out, a PointInstancer of three places shows three (OpenUSD, UsdGeom's schemas).
# Seen: faces look inwards, hidden meshes show, the turn is left out (that of rotateXYZ is made), the
#   parents move it, and one instance is there, at the origin of its prototype. No word of it.
# Who meets it: pages that show USD and USDZ from Blender, Houdini, Omniverse, or scans of phones.
. "$(dirname "$0")/environment"
command -v npm > /dev/null || { echo "needs Node.js and npm"; exit 1; }
packages usd-core==26.11
npm init -y > /dev/null && npm install --silent three@0.187.0 > /dev/null
python - <<'PY'
from pxr import Gf, Usd, UsdGeom, Vt


def square(stage, path):
    mesh = UsdGeom.Mesh.Define(stage, path)
    mesh.CreatePointsAttr(Vt.Vec3fArray([(1, 0, 0), (3, 0, 0), (3, 1, 0), (1, 1, 0)]))
    mesh.CreateFaceVertexCountsAttr([4])
    mesh.CreateFaceVertexIndicesAttr([0, 1, 2, 3])
    mesh.CreateSubdivisionSchemeAttr("none")
    return mesh


def stage_of(name):
    stage = Usd.Stage.CreateNew(f"{name}.usdc")
    UsdGeom.SetStageUpAxis(stage, "Y")
    UsdGeom.SetStageMetersPerUnit(stage, 1)
    UsdGeom.Xform.Define(stage, "/a")
    return stage, square(stage, "/a/square")


stages = {name: stage_of(name) for name in ("plain", "left", "hidden", "xyz", "zyx", "reset", "places")}
stages["left"][1].CreateOrientationAttr("leftHanded")
stages["hidden"][1].MakeInvisible()
stages["xyz"][1].AddRotateXYZOp().Set(Gf.Vec3f(0, 0, 90))
stages["zyx"][1].AddRotateZYXOp().Set(Gf.Vec3f(0, 0, 90))
UsdGeom.XformCommonAPI(stages["reset"][0].GetPrimAtPath("/a")).SetTranslate((10.3, 0, 0))
stages["reset"][1].SetResetXformStack(True)
stage, mesh = stages["places"]
stage.RemovePrim("/a/square")
places = UsdGeom.PointInstancer.Define(stage, "/a/places")
square(stage, "/a/places/square")
places.CreatePrototypesRel().AddTarget("/a/places/square")
places.CreatePositionsAttr(Vt.Vec3fArray([(5, 0, 0), (10, 0, 0), (15, 0, 0)]))
places.CreateProtoIndicesAttr([0, 0, 0])
for stage, _ in stages.values():
    box = UsdGeom.BBoxCache(Usd.TimeCode.Default(), ["default"]).ComputeWorldBound(stage.GetPseudoRoot())
    box = box.ComputeAlignedRange()
    ends = "nothing" if box.IsEmpty() else f"x {box.GetMin()[0]:.4f} to {box.GetMax()[0]:.4f}"
    print("usd-core:", stage.GetRootLayer().identifier.split("/")[-1], ends)
    stage.Save()
PY
cat > look.mjs <<'JS'
import assert from 'node:assert';
import fs from 'node:fs';
import * as THREE from 'three';
import {USDLoader} from 'three/examples/jsm/loaders/USDLoader.js';
const words = [];
console.warn = console.error = (...said) => words.push(said.join(' '));
const seen = {};
for (const name of ['plain', 'left', 'hidden', 'xyz', 'zyx', 'reset', 'places']) {
  const data = fs.readFileSync(`${name}.usdc`);
  const group = new USDLoader().parse(data.buffer.slice(data.byteOffset, data.byteOffset + data.length));
  const box = new THREE.Box3(), normal = new THREE.Vector3(), meshes = [];
  group.updateMatrixWorld(true);
  group.traverseVisible(object => { if (object.isMesh) meshes.push(object); });
  for (const mesh of meshes) {
    box.expandByObject(mesh, true);
    const {index, attributes: {position}} = mesh.geometry;
    const corner = k => new THREE.Vector3().fromBufferAttribute(position, index ? index.getX(k) : k);
    const edge = corner(1).sub(corner(0));
    normal.add(edge.cross(corner(2).sub(corner(0))));
  }
  seen[name] = [meshes.length, Math.sign(normal.z), +box.min.x.toFixed(4), +box.max.x.toFixed(4)];
}
console.log('meshes that show, direction of their faces, x from, to:', seen, ...words);
assert.deepEqual(seen, {plain: [1, 1, 1, 3], left: [1, 1, 1, 3], hidden: [1, 1, 1, 3], xyz: [1, 1, -1, 0],
  zyx: [1, 1, 1, 3], reset: [1, 1, 11.3, 13.3], places: [1, 1, 1, 3]}, 'changed');
assert.equal(words.length, 0, 'changed');
JS
node look.mjs
