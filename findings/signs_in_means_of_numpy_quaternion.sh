#!/usr/bin/env bash
# numpy-quaternion 2024.0.13, `mean_rotor_in_chordal_metric` and `squad` of turns whose quaternions have either
#   sign, as cameras' files and matrices give them.
# Expected: q and -q are one turn. The mean of twenty turns about one is near it, as it is by SciPy 1.17.1;
#   halfway between two turns is between them, as by its own `slerp`.
# Seen: the mean is half a turn off, as the numbers are summed; `squad` between two turns 0.1 apart goes the long
#   way. No word; `unflip_rotors` first is right for both, as the page of `squad` hints.
# Who meets it: means of several estimates of one camera, and smooth paths of cameras.
. "$(dirname "$0")/environment"
packages numpy-quaternion==2024.0.13 scipy==1.17.1 numpy==2.4.6
python -W error::UserWarning - <<'PY'
import numpy as np
import quaternion
from scipy.spatial.transform import Rotation

random = np.random.default_rng(0)
middle = Rotation.from_rotvec([0.3, 0.2, 0.1])
turns = Rotation.from_rotvec(0.1 * random.normal(size=(20, 3))) * middle
signs = np.where(np.arange(20) % 2, 1, -1)[:, None]
numbers = quaternion.from_float_array(signs * turns.as_quat(scalar_first=True))
straight = quaternion.unflip_rotors(numbers)

def off(found, true):
    found = Rotation.from_quat(quaternion.as_float_array(found).reshape(4), scalar_first=True)
    return (found * true.inv()).magnitude()

scipy = Rotation.from_quat(quaternion.as_float_array(numbers), scalar_first=True).mean()
assert (scipy * middle.inv()).magnitude() < 0.1
mean, right = (off(quaternion.mean_rotor_in_chordal_metric(q), middle) for q in (numbers, straight))
print(f"the mean of twenty turns within about 0.2 of one: {mean:.2f} off, {right:.2f} after unflip_rotors")
assert mean > 1 and right < 0.1, "changed"
between = Rotation.concatenate([turns[2], turns[3]]).mean()
times = np.arange(20.0)
path, right = (off(quaternion.squad(q, times, np.array([2.5])), between) for q in (numbers, straight))
half = off(quaternion.slerp(numbers[2], numbers[3], 0, 1, 0.5), between)
print(f"halfway between two of them: squad {path:.2f} off, {right:.2f} after unflip_rotors, slerp {half:.1e}")
assert path > 1 and right < 0.2 and half < 1e-6, "changed"
PY
