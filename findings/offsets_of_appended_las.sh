#!/usr/bin/env bash
# laspy 2.7.0, `laspy.open(…, mode="a").append_points` of the points of another file, whose offset differs.
# Expected: LAS keeps integers with a scale and an offset for each file (LAS 1.4, X = x scale + offset), so
#   that points of another file are taken to those of this one; or an error.
# Seen: the integers are written as they are: points 20 m apart end 29 m off, in z 99 m, without a word.
#   `write_points` and `LasData.points = …` do no better: they round to the other file's grid at least.
# Who meets it: who joins the tiles of a survey, each with an offset of its own.
. "$(dirname "$0")/environment"
packages laspy==2.7.0 numpy==2.4.6
python -W error::UserWarning - <<'PY'
import laspy
import numpy as np

def write(name, points, scale, offset):
    header = laspy.LasHeader(point_format=2)
    header.scales, header.offsets = [scale] * 3, offset
    las = laspy.LasData(header)
    las.x, las.y, las.z = points.T
    las.write(name)

random = np.random.default_rng(0)
first = random.uniform(0, 10, (100, 3)) + [500_000, 5_000_000, 100]
second = random.uniform(0, 10, (100, 3)) + [500_020, 5_000_000, 100]
write("first.las", first, 0.001, [500_000, 5_000_000, 0])
write("second.las", second, 0.01, [500_020, 5_000_000, 0])
other = laspy.read("second.las")
assert abs(other.xyz - second).max() < 0.006
with laspy.open("first.las", mode="a") as file:
    file.append_points(other.points)
both = laspy.read("first.las").xyz
off = abs(both[100:] - second).max(0)
print("the first file is right to", abs(both[:100] - first).max(), "the second off by", off)
assert abs(both[:100] - first).max() < 6e-4 and (off > [28, 8, 98]).all(), "changed"

# What helps: coordinates instead of points.
joined = laspy.LasData(laspy.read("first.las").header)
joined.x, joined.y, joined.z = np.vstack([first, other.xyz]).T
assert abs(joined.xyz[100:] - second).max() < 0.006
PY
