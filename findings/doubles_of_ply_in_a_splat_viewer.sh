#!/usr/bin/env bash
# @mkkellogg/gaussian-splats-3d 0.4.7, `PlyParser` of Gaussians whose x, y, z are `property double`.
# Expected: the positions, which every type of PLY can hold; or an error.
# Seen: none, without a word: doubles are skipped, and all Gaussians are where the last one of the
#   file before was, or nowhere. With `property float` the positions are right.
# Who meets it: scenes in map coordinates, which float32 would round to decimetres.
. "$(dirname "$0")/environment"
command -v npm > /dev/null || { echo "needs Node.js and npm"; exit 1; }
npm init -y > /dev/null
npm install --silent --no-audit --no-fund @mkkellogg/gaussian-splats-3d@0.4.7 three@0.187.0 > npm.log 2>&1 || { cat npm.log; exit 1; }
python3 - <<'PY'
import struct

names = ["f_dc_0", "f_dc_1", "f_dc_2", "opacity", "scale_0", "scale_1", "scale_2",
         "rot_0", "rot_1", "rot_2", "rot_3"]
for kind, code in (("float", "f"), ("double", "d")):
    head = ["ply", "format binary_little_endian 1.0", "element vertex 2"]
    head += [f"property {kind} {axis}" for axis in "xyz"] + [f"property float {n}" for n in names]
    row = struct.pack("<3" + code, 1.5, -2.25, 0.75) + struct.pack("<11f", *[0.5] * 7, 1, 0, 0, 0)
    with open(f"{kind}.ply", "wb") as file:
        file.write(("\n".join([*head, "end_header"]) + "\n").encode() + 2 * row)
PY
cat > read.mjs <<'JS'
import { readFileSync } from "fs";
Object.assign(globalThis, { self: globalThis, window: globalThis });
const { PlyParser } = await import("@mkkellogg/gaussian-splats-3d");
const read = (file) => {
  const bytes = readFileSync(file);
  const data = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  return PlyParser.parseToUncompressedSplatArray(data, 0).splats[0].slice(0, 3);
};
const [double, float] = ["double.ply", "float.ply"].map(read);
console.log("1.5 -2.25 0.75 as float:", float, "as double:", double);
if (float.join(" ") !== "1.5 -2.25 0.75" || double.some((x) => x !== undefined)) process.exit(1);
JS
node read.mjs 2> node.log || { cat node.log; exit 1; }
