#!/usr/bin/env bash
# aeon 1.6.0 and tslearn 0.10.0, DTW of two paths in the plane, an array [100, 2] each: a row for each time.
# Expected: one number, up to the root that tslearn takes.
# Seen: 8.93 by aeon and 0.39 by tslearn: aeon's rows are channels (its page has `(n_channels, n_timepoints)`),
#   so that two times are aligned in a space of 100 dimensions, without a word, also in `soft_dtw_distance`.
#   Its DTW of one series as [100, 1] is then the squared Euclidean distance.
# Who meets it: who brings trajectories, or arrays of tslearn, PyTorch or scikit-learn, to aeon.
. "$(dirname "$0")/environment"
packages aeon==1.6.0 tslearn==0.10.0
python -W ignore - <<'PY'
import numpy as np
from aeon.distances import dtw_distance, soft_dtw_distance
from tslearn.metrics import dtw, soft_dtw

time = np.linspace(0, 6, 100)
one, other = (np.stack([np.sin(time + shift), np.cos(time + shift)], 1) for shift in (0, 0.3))
theirs, turned, known = dtw_distance(one, other), dtw_distance(one.T, other.T), dtw(one, other) ** 2
print(f"DTW of two paths [100, 2]: aeon {theirs:.3f}, of the transposed {turned:.3f}, tslearn {known:.3f}")
assert abs(turned - known) < 1e-9 and theirs > 20 * known, "changed"
column = dtw_distance(one[:, :1].copy(), other[:, :1].copy())
print(f"of one series as [100, 1]: {column:.3f}, as [100]: {dtw_distance(one[:, 0].copy(), other[:, 0].copy()):.3f}")
assert abs(column - ((one - other)[:, 0] ** 2).sum()) < 1e-9, "changed"
soft = [soft_dtw_distance(a, b, gamma=0.01) for a, b in ((one, other), (one.T, other.T))]
print("soft-DTW:", soft, "tslearn", soft_dtw(one, other, gamma=0.01))
assert abs(soft[0]) > 5 * abs(soft[1]), "changed"
PY
