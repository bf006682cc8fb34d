#!/usr/bin/env bash
# gaussforge 0.6.0 and gsply 0.4.6: scenes turn upside down on the way from PLY to SPZ, or back.
# Expected: PLY of 3D Gaussian Splatting has y down and z ahead, SPZ y up and z back (nianticlabs/spz,
#   README: stored as RUB); its tools and splat-transform turn Gaussians by 180 degrees about x.
# Seen: both write y and z as they are, and read them so. Their own round trip is exact; the file of
#   one in a viewer that follows the format, and files of others in them, stand on their head.
# Who meets it: who makes SPZ for phones and Niantic's or Adobe's viewers, or trains from one.
. "$(dirname "$0")/environment"
command -v npm > /dev/null || { echo "needs Node.js and npm"; exit 1; }
packages gaussforge==0.6.0 gsply==0.4.6 numpy==2.4.6
npm init -y > /dev/null
npm install --silent --no-audit --no-fund @playcanvas/splat-transform@2.7.1 > npm.log 2>&1 || { cat npm.log; exit 1; }
python - <<'PY'
import numpy as np

names = ["x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2", "opacity",
         "scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3"]
table = np.zeros(10, [(name, "<f4") for name in names])
table["y"], table["z"], table["rot_0"] = np.arange(10) + 1, 5, 1
table["scale_0"] = table["scale_1"] = table["scale_2"] = -3
head = "ply\nformat binary_little_endian 1.0\nelement vertex 10\n"
head += "".join(f"property float {name}\n" for name in names) + "end_header\n"
open("a.ply", "wb").write(head.encode() + table.tobytes())
PY
splat_transform() { npx splat-transform -w -g cpu "$@" > run.log 2>&1 || { cat run.log; exit 1; }; }
splat_transform a.ply --spz-version 3 theirs.spz
python - <<'PY'
import gsply
from gaussforge import GaussForge

forge = GaussForge()
open("forge.spz", "wb").write(forge.convert(open("a.ply", "rb").read(), "ply", "spz")["data"])
gsply.write_spz("gsply.spz", gsply.plyread("a.ply"))
PY
for name in theirs forge gsply; do splat_transform $name.spz $name.csv; done
python - <<'PY'
import csv

import gsply

for name, sign in (("theirs", 1), ("forge", -1), ("gsply", -1)):
    y = [float(row["y"]) for row in csv.DictReader(open(f"{name}.csv"))]
    print(f"y = 1 .. 10 of a PLY, in the SPZ of {name}, as splat-transform reads it:", *y[:3], "...")
    assert abs(sum(y) - sign * 55) < 0.1
y = gsply.read_spz("theirs.spz").means[:, 1]
print("the same in the SPZ of splat-transform, as gsply reads it:", *y[:3], "...")
assert abs(sum(y) + 55) < 0.1
PY
