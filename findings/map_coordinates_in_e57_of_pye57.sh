#!/usr/bin/env bash
# pye57 0.4.19, `write_scan_raw` of points in map coordinates (float64, 5,000,000 from the origin).
# Expected: E57 has doubles and scaled integers for coordinates, so that they come back to the
#   millimetre; or a word.
# Seen: they are written in single precision: 0.25 m off, without a word. What comes back are doubles.
# Who meets it: who takes scans or points of photogrammetry in UTM to E57, or copies such a file.
. "$(dirname "$0")/environment"
packages pye57==0.4.19 numpy==2.4.6
python -W error::UserWarning - <<'PY'
import numpy as np
import pye57

points = np.random.default_rng(0).uniform(0, 10, (1000, 3)) + [500_000, 5_000_000, 100]
names = ("cartesianX", "cartesianY", "cartesianZ")
file = pye57.E57("a.e57", mode="w")
file.write_scan_raw({name: points[:, k] for k, name in enumerate(names)})
file.close()
back = pye57.E57("a.e57").read_scan(0, ignore_missing_fields=True)
off = [abs(back[name] - points[:, k]).max() for k, name in enumerate(names)]
print(f"x, y, z come back as {back[names[0]].dtype}, off by {off[0]:.3f}, {off[1]:.3f}, {off[2]:.6f}")
assert back[names[0]].dtype == np.float64 and 0.2 < off[1] < 0.26 and 0.01 < off[0] < 0.02, "changed"
PY
