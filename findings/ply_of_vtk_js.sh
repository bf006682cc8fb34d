#!/usr/bin/env bash
# vtk.js 37.4.3, vtkPLYWriter of a mesh without normals, and of one with quadrilaterals.
# Expected: as with VTK's own vtkPLYWriter, normals are announced if there are some, and polygons
#   are lists of as many corners as they have. Its own vtkPLYReader reads what it wrote.
# Seen: without normals, as of a mesh from an OBJ or an STL, the header announces nx ny nz all the
#   same (withNormals is true by default), and no numbers follow: a row has fewer than it should.
#   Its own reader takes colours for normals and makes all colours black; others refuse the file.
#   Polygons are written four numbers a row, as if all were triangles: of two quadrilaterals come
#   a quadrilateral of three corners, a wrong triangle and a row of `undefined`, without a word.
# Who meets it: pages that let a mesh be downloaded as PLY.
. "$(dirname "$0")/environment"
command -v npm > /dev/null || { echo "needs Node.js and npm"; exit 1; }
npm init -y > /dev/null
npm install --silent @kitware/vtk.js@37.4.3 > /dev/null
cat > look.mjs <<'JS'
import assert from 'node:assert';
globalThis.self = globalThis;
const load = async name => (await import(`@kitware/vtk.js/${name}.js`)).default;
const PolyData = await load('Common/DataModel/PolyData');
const DataArray = await load('Common/Core/DataArray');
const Writer = await load('IO/Geometry/PLYWriter');
const mesh = (polygons, colours) => {
  const found = PolyData.newInstance();
  found.getPoints().setData(Float32Array.from([0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 2, 0, 0, 2, 1, 0]), 3);
  found.getPolys().setData(Uint32Array.from(polygons));
  if (colours) {
    const values = Uint8Array.from({length: 18}, (_, i) => 10 * i);
    found.getPointData().setScalars(DataArray.newInstance({name: 'c', numberOfComponents: 3, values}));
  }
  return found;
};
const written = data => {
  const writer = Writer.newInstance();
  writer.setInputData(data);
  return writer.getOutputData();
};
const rows = text => text.slice(text.indexOf('end_header\n') + 11).trim().split('\n');

const triangles = written(mesh([3, 0, 1, 2, 3, 0, 2, 3, 3, 1, 4, 5], true));
const announced = (triangles.split('element face')[0].match(/^property/gm) ?? []).length;
const numbers = rows(triangles)[0].split(' ').length;
console.log(`a vertex: ${announced} properties announced, ${numbers} numbers written`);
assert.deepEqual([announced, numbers], [9, 6], 'changed');
const reader = (await load('IO/Geometry/PLYReader')).newInstance();
reader.parseAsText(triangles);
const read = reader.getOutputData().getPointData();
const [normal, colour] = [read.getNormals(), read.getScalars()].map(a => Array.from(a.getData().slice(3, 6)));
console.log('the second vertex, of colour 30 40 50, read again: normal', normal, 'colour', colour);
assert.deepEqual([normal, colour], [[30, 40, 50], [0, 0, 0]], 'changed');

const squares = written(mesh([4, 0, 1, 2, 3, 4, 1, 4, 5, 2], false));
console.log('faces of two squares', rows(squares).slice(6));
assert.match(squares, /element face 2\n/);
assert.deepEqual(rows(squares).slice(6), ['4 0 1 2', '3 4 1 4', '5 2 undefined undefined'], 'changed');
JS
node look.mjs
