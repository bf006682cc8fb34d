#!/usr/bin/env bash
# three.js 0.187.0, PLYLoader: a face with five corners, valid in PLY.
# Expected: triangles, or a warning; triangles and quadrilaterals come out.
# Seen: the face is left out without a word; a file of pentagons alone becomes a cloud of points.
# Who meets it: PLY files of modelling programs (n-gons) shown in a browser, with holes.
. "$(dirname "$0")/environment"
command -v npm > /dev/null || { echo "needs Node.js and npm"; exit 1; }
npm init -y > /dev/null && npm install --silent three@0.187.0 > /dev/null
cat > look.mjs <<'JS'
import {PLYLoader} from 'three/examples/jsm/loaders/PLYLoader.js';
import assert from 'node:assert';
const points = ['0 0 0', '1 0 0', '1 1 0', '.5 1.5 0', '0 1 0'];
const file = faces => ['ply', 'format ascii 1.0', 'element vertex 5', 'property float x', 'property float y',
  'property float z', `element face ${faces.length}`, 'property list uchar int vertex_indices', 'end_header',
  ...points, ...faces, ''].join('\n');
const triangles = faces => (new PLYLoader().parse(file(faces)).index?.count ?? 0) / 3;
const seen = {quad: triangles(['4 0 1 2 4']), pentagon: triangles(['5 0 1 2 3 4']),
  both: triangles(['5 0 1 2 3 4', '3 0 1 2'])};
console.log('triangles', seen);
assert.deepEqual(seen, {quad: 2, pentagon: 0, both: 1}, 'changed');
JS
node look.mjs
