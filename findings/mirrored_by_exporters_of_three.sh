#!/usr/bin/env bash
# three.js 0.187.0, OBJExporter and STLExporter of an object that is mirrored (scale -1, 1, 1), as one half of
#   what is symmetric is often made.
# Expected: as three.js shows it, with its outside outside: WebGLRenderer turns the faces of such objects, and
#   GLTFExporter keeps the scale, which glTF 2.0 (3.7.4) wants to be turned by readers.
# Seen: corners are mirrored, the order of a face's corners is kept: files are inside out, the volume of a box
#   of 6 is -6 as its own loaders read it. PLYExporter does the same.
# Who meets it: 3D printing, and whoever renders one side of faces or takes volumes of such files.
. "$(dirname "$0")/environment"
command -v npm > /dev/null || { echo "needs Node.js and npm"; exit 1; }
npm init -y > /dev/null
npm install --silent three@0.187.0 > /dev/null
cat > look.mjs <<'JS'
import assert from 'node:assert';
import * as three from 'three';
globalThis.requestAnimationFrame = function_ => function_();
const addon = async (folder, name) => (await import(`three/addons/${folder}/${name}.js`))[name];
const volume = geometry => {
  const flat = geometry.index ? geometry.toNonIndexed() : geometry;
  const [a, b, c] = [0, 0, 0].map(() => new three.Vector3());
  let sum = 0;
  for (let i = 0; i < flat.attributes.position.count; i += 3) {
    [a, b, c].forEach((corner, k) => corner.fromBufferAttribute(flat.attributes.position, i + k));
    sum += a.dot(b.cross(c)) / 6;
  }
  return sum;
};
const through = {
  OBJ: async mesh => new (await addon('loaders', 'OBJLoader'))().parse(
    new (await addon('exporters', 'OBJExporter'))().parse(mesh)).children[0].geometry,
  STL: async mesh => new (await addon('loaders', 'STLLoader'))().parse(
    new (await addon('exporters', 'STLExporter'))().parse(mesh)),
  PLY: async mesh => new (await addon('loaders', 'PLYLoader'))().parse(
    new (await addon('exporters', 'PLYExporter'))().parse(mesh, () => {})),
};
for (const [name, there] of Object.entries(through)) {
  const found = {};
  for (const scale of [1, -1]) {
    const mesh = new three.Mesh(new three.BoxGeometry(1, 2, 3), new three.MeshBasicMaterial());
    mesh.scale.x = scale;
    mesh.updateMatrixWorld(true);
    found[scale] = volume(await there(mesh));
  }
  console.log(`${name}: volume ${found[1]}, mirrored ${found[-1]}`);
  assert(Math.abs(found[1] - 6) < 1e-5);
  assert(Math.abs(found[-1] + 6) < 1e-5, 'changed');
}
JS
node look.mjs
