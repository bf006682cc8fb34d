#!/usr/bin/env bash
# @sparkjsdev/spark 2.2.0 (Gaussians in three.js), what `SplatMesh` makes of any file: `PackedSplats`.
# Expected: positions as float32, as in the file; colours ½ + Y·f_dc of any size, as 3DGS has them.
# Seen: positions are half floats, documented: 1000.3 becomes 1000 (1000.5 from a file), and from 65536 on they are
#   infinite without a word. Colours are cut to [0, 1] before the harmonics of the view are added.
#   `ExtSplats` keeps both.
# Who meets it: scenes in map coordinates, or in millimetres; highlights of trained scenes.
. "$(dirname "$0")/environment"
command -v npm > /dev/null || { echo "needs Node.js and npm"; exit 1; }
npm init -y > /dev/null
npm install --silent --no-audit --no-fund @sparkjsdev/spark@2.2.0 three@0.187.0 > npm.log 2>&1 || { cat npm.log; exit 1; }
cat > pack.mjs <<'JS'
Object.assign(globalThis, { self: globalThis, window: globalThis });
const { PackedSplats, ExtSplats } = await import("@sparkjsdev/spark");
const { Color, Quaternion, Vector3 } = await import("three");
const places = [1000.3, 4096.9, 65535, 65536];
const kept = async (Kind) => {
  const splats = new Kind({ maxSplats: places.length }), found = { x: [], colour: null };
  await splats.initialized;
  const size = new Vector3(0.1, 0.1, 0.1), colour = new Color(1.2, -0.3, 0.5);
  for (const x of places) splats.pushSplat(new Vector3(x, 0, 0), size, new Quaternion(), 1, colour);
  splats.forEachSplat((i, centre, s, q, o, c) => {
    found.x.push(centre.x);
    found.colour = c.toArray().map((v) => Math.round(100 * v) / 100);
  });
  return found;
};
const [packed, ext] = [await kept(PackedSplats), await kept(ExtSplats)];
console.log("of", places, "PackedSplats:", packed, "ExtSplats:", ext);
const asExpected = ext.x.every((x, i) => x === Math.fround(places[i])) && ext.colour[0] === 1.2;
const asSeen = packed.x[0] === 1000 && packed.x[3] === Infinity && packed.colour.join() === "1,0,0.5";
process.exit(asExpected && asSeen ? 0 : 1);
JS
node pack.mjs
