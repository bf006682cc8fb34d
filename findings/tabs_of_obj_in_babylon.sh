#!/usr/bin/env bash
# Babylon.js 9.35.0 with its loaders 9.28.0, OBJ files: a tab after `v` in place of a blank, and
# faces by relative (negative) indices.
# Expected: the specification of Wavefront parts what is in a line by blanks of any kind, and lets
#   faces count from the last vertex, with or without coordinates of texture and normals.
# Seen: a tab after `v` loses the first coordinate: x is y, y is z, and z is NaN, without a word.
#   Relative indices are read as v/vt/vn alone; faces of v, v/vt and v//vn are left out, with a line
#   on the console for each, and what is left is a cloud of points.
# Who meets it: OBJ of programs that write tabs, or relative indices; the mesh is shown empty,
#   and its bounds are NaN.
. "$(dirname "$0")/environment"
command -v npm > /dev/null || { echo "needs Node.js and npm"; exit 1; }
npm init -y > /dev/null
npm install --silent @babylonjs/core@9.35.0 @babylonjs/loaders@9.28.0 > /dev/null
cat > look.mjs <<'JS'
import {NullEngine} from '@babylonjs/core/Engines/nullEngine.js';
import {Logger} from '@babylonjs/core/Misc/logger.js';
import {ImportMeshAsync} from '@babylonjs/core/Loading/sceneLoader.js';
import {Scene} from '@babylonjs/core/scene.js';
import '@babylonjs/loaders/OBJ/objFileLoader.js';
import assert from 'node:assert';
Logger.LogLevels = Logger.NoneLogLevel;
const engine = new NullEngine();
const triangle = ['v 0 0 0', 'v 4 0 0', 'v 1 2 3'];
const maps = ['vt 0 0', 'vt 1 0', 'vt 0 1', 'vn 0 0 1'];
const read = async lines => {
  const options = {pluginExtension: '.obj'};
  const {meshes} = await ImportMeshAsync('data:' + lines.join('\n') + '\n', new Scene(engine), options);
  const mesh = meshes.find(mesh => mesh.getTotalVertices() > 0);
  return {last: Array.from(mesh.getVerticesData('position')).slice(-3).map(Math.abs),
    faces: (mesh.getIndices()?.length ?? 0) / 3};
};
const blanks = await read([...triangle, 'f 1 2 3']);
const tab = await read([...triangle.slice(0, 2), 'v\t1 2 3', 'f 1 2 3']);
console.log('third corner (1, 2, 3) after a blank', blanks.last, 'after a tab', tab.last);
assert.deepEqual(blanks, {last: [1, 2, 3], faces: 1}, 'changed');
assert.deepEqual(tab.last, [2, 3, NaN], 'changed');
const kinds = {'v': 'f -3 -2 -1', 'v/vt': 'f -3/-3 -2/-2 -1/-1', 'v//vn': 'f -3//-1 -2//-1 -1//-1',
  'v/vt/vn': 'f -3/-3/-1 -2/-2/-1 -1/-1/-1'};
const seen = {};
for (const [kind, face] of Object.entries(kinds)) seen[kind] = (await read([...triangle, ...maps, face])).faces;
console.log('faces by relative indices', seen);
assert.deepEqual(seen, {'v': 0, 'v/vt': 0, 'v//vn': 0, 'v/vt/vn': 1}, 'changed');
JS
node look.mjs
