#!/usr/bin/env bash
# laspy 2.7.0, `laspy.create` or `LasData(LasHeader())`: coordinates as they are assigned.
# Expected: LAS has integers times a scale of the file's own (LAS 1.4, X scale factor); a header without
#   scales of the caller gets some that hold what is assigned, or a word.
# Seen: the scale is 0.01, so that `las.x = x` rounds to hundredths at once: 1000 points of an object
#   of 2 cm are 27, without a word. A finer `header.scales` afterwards comes too late.
# Who meets it: who writes points of small objects, or in degrees (0.01 degrees are a kilometre).
. "$(dirname "$0")/environment"
packages laspy==2.7.0 numpy==2.4.6
python -W error::UserWarning - <<'PY'
import laspy
import numpy as np

points = np.random.default_rng(0).uniform(0, 0.02, (1000, 3))
las = laspy.create(point_format=2)
las.x, las.y, las.z = points.T
las.header.scales = [1e-5, 1e-5, 1e-5]
las.write("late.las")
late = laspy.read("late.las")
las = laspy.create(point_format=2)
las.x, las.y, las.z = points.T
las.write("plain.las")
plain = laspy.read("plain.las")
left = len(np.unique(plain.xyz, axis=0))
print("1000 points in a cube of 0.02:", left, "are left, off by", abs(plain.xyz - points).max())
assert left == 27 and abs(plain.xyz - points).max() > 0.0049, "changed"
assert abs(late.xyz - points).max() > 0.0049, "changed"

header = laspy.LasHeader(point_format=2)
header.scales = [1e-6, 1e-6, 1e-6]
las = laspy.LasData(header)
las.x, las.y, las.z = points.T
assert abs(las.xyz - points).max() < 1e-6
PY
