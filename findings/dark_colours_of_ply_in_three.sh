#!/usr/bin/env bash
# three.js 0.187.0, PLYLoader: vertex colours of 8 bits, the usual ones.
# Expected: as many levels as the file has; the loader makes linear colours of them.
# Seen: the linear colours are stored in 8 bits again: of 256 levels 183 are left, 0 to 6 are black and
#   7 is drawn as 13; dark surfaces get bands. A PLY with float colours keeps all.
# Who meets it: scans with dark parts in a viewer for the browser; it is no fault of the scan.
. "$(dirname "$0")/environment"
command -v npm > /dev/null || { echo "needs Node.js and npm"; exit 1; }
npm init -y > /dev/null && npm install --silent three@0.187.0 > /dev/null
cat > look.mjs <<'JS'
import {Color} from 'three';
import {PLYLoader} from 'three/examples/jsm/loaders/PLYLoader.js';
import assert from 'node:assert';
const levels = [...Array(256).keys()];
const file = (type, of) => ['ply', 'format ascii 1.0', 'element vertex 256',
  ...['x', 'y', 'z'].map(name => `property float ${name}`),
  ...['red', 'green', 'blue'].map(name => `property ${type} ${name}`), 'end_header',
  ...levels.map(i => [i, 0, 0, of(i), of(i), of(i)].join(' ')), ''].join('\n');
const drawn = text => {
  const linear = new PLYLoader().parse(text).getAttribute('color');
  return levels.map(i => Math.round(255 * new Color().fromBufferAttribute(linear, i).convertLinearToSRGB().r));
};
const bytes = drawn(file('uchar', i => i)), floats = drawn(file('float', i => i / 255));
const seen = {levels: new Set(bytes).size, six: bytes[6], seven: bytes[7], floats: new Set(floats).size};
console.log('of 256 levels', seen);
assert.deepEqual(seen, {levels: 183, six: 0, seven: 13, floats: 256}, 'changed');
JS
node look.mjs
