#!/usr/bin/env bash
# aeon 1.6.0, `aeon.distances.soft_dtw_distance` (numpy 2.3.5; beside it tslearn 0.10.0).
# Expected: soft-DTW as Cuturi and Blondel define it (ICML 2017, eq. 2), which its documentation
#   cites: a soft minimum over alignments, below zero for series that are alike.
# Seen: the absolute value, and 0 for a series with itself. So it falls and rises again as a series
#   moves away: a series 0.001 off is 28.3 from it, one 1.3 off is 6.1, and is taken for nearer.
#   `soft_dtw_pairwise_distance` has the same.
# Who meets it: nearest neighbours and clusters by soft-DTW, with gamma of a usual size for series
#   of usual length; and whoever compares values with a loss of another package.
. "$(dirname "$0")/environment"
packages aeon==1.6.0 tslearn==0.10.0 numpy==2.3.5
python -W ignore - <<'PY'
import numpy as np
from aeon.distances import soft_dtw_distance, soft_dtw_pairwise_distance
from scipy.special import logsumexp
from tslearn.metrics import soft_dtw


def defined(x, y, gamma):
    """Cuturi and Blondel, Algorithm 1, in float64."""
    table = np.full((len(x) + 1, len(y) + 1), np.inf)
    table[0, 0] = 0
    for i, a in enumerate(x, 1):
        for j, b in enumerate(y, 1):
            before = np.array([table[i - 1, j - 1], table[i - 1, j], table[i, j - 1]])
            table[i, j] = (a - b) ** 2 - gamma * logsumexp(-before / gamma)
    return table[-1, -1]


x = np.sin(np.arange(20) / 3)
for shift in (0, 0.001, 0.5, 1.0, 1.3, 3.0):
    y = x + shift
    truth, theirs = defined(x, y, 1.0), soft_dtw_distance(x, y, gamma=1.0)
    print(f"{shift:5}: by definition {truth:8.3f}, tslearn {soft_dtw(x, y, 1.0):8.3f}, aeon {theirs:8.3f}")
    assert abs(soft_dtw(x, y, 1.0) - truth) < 1e-6, "changed"
    assert abs(theirs - (abs(truth) if shift else 0)) < 1e-6, "changed"
near, far = soft_dtw_pairwise_distance(np.stack([x, x + 0.001, x + 1.3])[:, None], gamma=1.0)[0, 1:]
print(f"all pairs: 0.001 off {near:.1f}, 1.3 off {far:.1f}")
assert near > far, "changed"
PY
