#!/usr/bin/env bash
# three.js 0.187.0: an InstancedMesh of five boxes, exported as OBJ, STL, PLY and GLB.
# Expected: five boxes from each, or a warning.
# Seen: OBJ, STL and PLY have one box, without a word; the GLB has five (EXT_mesh_gpu_instancing).
#   An object that is not visible is the other way round: OBJ, STL and PLY have it, the GLB has not.
# Who meets it: configurators and scatter tools that let users download what they see.
. "$(dirname "$0")/environment"
command -v npm > /dev/null || { echo "needs Node.js and npm"; exit 1; }
npm init -y > /dev/null && npm install --silent three@0.187.0 > /dev/null
cat > look.mjs <<'JS'
import * as THREE from 'three';
import {GLTFExporter} from 'three/examples/jsm/exporters/GLTFExporter.js';
import {OBJExporter} from 'three/examples/jsm/exporters/OBJExporter.js';
import {PLYExporter} from 'three/examples/jsm/exporters/PLYExporter.js';
import {STLExporter} from 'three/examples/jsm/exporters/STLExporter.js';
import assert from 'node:assert';
globalThis.requestAnimationFrame = run => run();
globalThis.FileReader = class {  // of browsers
  readAsDataURL(blob) {
    blob.arrayBuffer().then(data => {
      this.result = 'data:;base64,' + Buffer.from(data).toString('base64');
      this.onloadend();
    });
  }
};
const count = (text, word) => text.split(word).length - 1;
const faces = object => ({
  obj: count(new OBJExporter().parse(object), '\nf '), stl: count(new STLExporter().parse(object), 'facet normal'),
  ply: Number(new PLYExporter().parse(object, () => {}, {}).match(/element face (\d+)/)[1])});
const box = new THREE.BoxGeometry(1, 1, 1), paint = new THREE.MeshBasicMaterial();
const five = new THREE.InstancedMesh(box, paint, 5);
for (let i = 0; i < 5; i++) five.setMatrixAt(i, new THREE.Matrix4().makeTranslation(2 * i, 0, 0));
const pair = new THREE.Group().add(new THREE.Mesh(box, paint), new THREE.Mesh(box, paint));
pair.children[1].visible = false;
for (const each of [five, pair]) each.updateMatrixWorld(true);
const tree = await new GLTFExporter().parseAsync(five), one = await new GLTFExporter().parseAsync(pair);
const places = tree.nodes[0].extensions.EXT_mesh_gpu_instancing.attributes.TRANSLATION;
const seen = {five: {...faces(five), glb: 12 * tree.accessors[places].count},
  hidden: {...faces(pair), glb: 12 * one.nodes.filter(node => 'mesh' in node).length}};
console.log('triangles', seen);
assert.deepEqual(seen, {five: {obj: 12, stl: 12, ply: 12, glb: 60}, hidden: {obj: 24, stl: 24, ply: 24, glb: 12}},
  'changed');
JS
node look.mjs
