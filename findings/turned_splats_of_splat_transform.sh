#!/usr/bin/env bash
# @playcanvas/splat-transform 2.7.1 reads a .splat file whose Gaussians are not turned.
# Expected: the quaternion 1 0 0 0. The page that the format comes from (antimatter15/splat) writes
#   128 q + 128, cut at 255, and reads (byte - 128) / 128: 0 is the byte 128.
# Seen: .99998 .0039 .0039 .0039, a turn by 0.78 degrees about the diagonal: it reads byte / 127.5 - 1.
# Who meets it: flat Gaussians of large surfaces, such as floors, and what is aligned to axes.
. "$(dirname "$0")/environment"
command -v npm > /dev/null || { echo "needs Node.js and npm"; exit 1; }
npm init -y > /dev/null
npm install --silent --no-audit --no-fund @playcanvas/splat-transform@2.7.1 > npm.log 2>&1 || { cat npm.log; exit 1; }
python3 - <<'PY'
import struct

row = struct.pack("<6f4B4B", 0, 0, 0, 0.5, 0.5, 0.001, 255, 128, 0, 255, 255, 128, 128, 128)
open("flat.splat", "wb").write(2 * row)
PY
npx splat-transform -w flat.splat flat.csv > run.log 2>&1 || { cat run.log; exit 1; }
python3 - <<'PY'
import csv, math

row = next(csv.DictReader(open("flat.csv")))
q = [float(row[f"rot_{i}"]) for i in range(4)]
angle = math.degrees(2 * math.acos(min(1, abs(q[0]) / math.hypot(*q))))
print("1 0 0 0 of a .splat file is read as", *(round(x, 5) for x in q), f"turned by {angle:.2f} degrees")
assert 0.7 < angle < 0.85
PY
