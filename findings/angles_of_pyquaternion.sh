#!/usr/bin/env bash
# pyquaternion 0.9.9, `Quaternion.yaw_pitch_roll`.
# Expected: its page says intrinsic angles of z-y'-x'', which are those of the product Rz Ry Rx, as
#   SciPy's "ZYX" and aircraft have them.
# Seen: those of Rx Ry Rz (which the next line of the page has), the inverse order: 28.5, 22.2 and -1.1
#   degrees for yaw 30, pitch 20, roll 10. They are equal only if two of the angles are 0.
# Who meets it: poses of drones, cars and data sets in which quaternions are of this package.
. "$(dirname "$0")/environment"
packages pyquaternion==0.9.9 scipy==1.17.1 numpy==2.4.6
python - <<'PY'
import numpy as np
from pyquaternion import Quaternion
from scipy.spatial.transform import Rotation

turn = Rotation.from_euler("ZYX", [30, 20, 10], degrees=True)
theirs = Quaternion(matrix=turn.as_matrix())
assert np.allclose(theirs.rotation_matrix, turn.as_matrix())
seen = np.degrees(theirs.yaw_pitch_roll)
print("yaw, pitch, roll of (30, 20, 10):", seen.round(2), "SciPy:", turn.as_euler("ZYX", degrees=True).round(2))
assert np.allclose(seen, [28.45, 22.24, -1.12], atol=0.01), "changed"
assert np.allclose(seen, turn.as_euler("XYZ", degrees=True)[::-1])
PY
