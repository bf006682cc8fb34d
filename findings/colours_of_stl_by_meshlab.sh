#!/usr/bin/env bash
# MeshLab (pymeshlab 2025.7.post1): a tetrahedron with and without face colours, saved as STL at the
#   defaults, and read by STLLoader of three.js 0.187.0.
# Expected: by the convention of Materialise Magics, which its header announces (COLOR=), bit 15 of a
#   triangle is 0 if it has its own colour; a mesh without colours has 1, or no such header.
# Seen: bit 15 is 1 where a face has its own colour and the other bits hold it; without colours all
#   bits are 0, which is black. three.js draws the one grey (the colour of the header), the other black.
# Who meets it: whoever shows an STL that MeshLab saved, mostly one that never had colours.
. "$(dirname "$0")/environment"
command -v npm > /dev/null || { echo "needs Node.js and npm"; exit 1; }
packages pymeshlab==2025.7.post1 numpy==2.3.5
npm init -y > /dev/null && npm install --silent three@0.187.0 > /dev/null
python - <<'PY'
import numpy as np
import pymeshlab

places = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])
faces = np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]])
red = np.array([[1, 0, 0, 1.0]] * 4)
for name, mesh in {
    "plain": pymeshlab.Mesh(places, faces),
    "red": pymeshlab.Mesh(places, faces, f_color_matrix=red),
}.items():
    meshes = pymeshlab.MeshSet()
    meshes.add_mesh(mesh)
    meshes.save_current_mesh(f"{name}.stl")
    data = open(f"{name}.stl", "rb").read()
    bits = {int.from_bytes(data[132 + 50 * i : 134 + 50 * i], "little") for i in range(4)}
    print(f"{name}: header {data[:20]}, bits {[f'{b:016b}' for b in bits]}")
    assert data.startswith(b"COLOR=\x7f\x7f\x7f MATERIAL="), "changed"
    assert bits == ({0} if name == "plain" else {0x801F}), "changed"
PY
cat > look.mjs <<'JS'
import {readFileSync} from 'node:fs';
import {STLLoader} from 'three/examples/jsm/loaders/STLLoader.js';
import assert from 'node:assert';
const seen = {};
for (const name of ['plain', 'red']) {
  const data = new Uint8Array(readFileSync(`${name}.stl`)).buffer;
  const colors = new STLLoader().parse(data).getAttribute('color');
  seen[name] = [...colors.array.slice(0, 3)].map(x => Math.round(1000 * x) / 1000);
}
console.log('linear colours in three.js', seen);
assert.deepEqual(seen.plain, [0, 0, 0], 'changed');
assert(seen.red[0] === seen.red[1] && seen.red[0] > 0, 'changed');
JS
node look.mjs
