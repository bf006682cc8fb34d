#!/usr/bin/env bash
# Numba 0.68.1 (with NumPy 2.4.6): `np.sum`, `np.mean` and `np.std` of float32.
# Expected: NumPy's, which adds in pairs: the mean of an image of 0.7 is 0.7.
# Seen: one float32 takes all values in turn: the mean of 1080 x 1920 x 3 times 0.7 is 0.715, that of
#   2**25 ones a half, as 2**24 + 1 is 2**24. `np.nanmean` adds in float64 and is right.
# Who meets it: losses, means and spreads of images, scans and features in compiled functions.
. "$(dirname "$0")/environment"
packages numba==0.68.1 numpy==2.4.6
python - <<'PY'
import numba
import numpy as np

mean, nanmean = numba.njit(lambda a: np.mean(a)), numba.njit(lambda a: np.nanmean(a))
deviation = numba.njit(lambda a: np.std(a))
image = np.full((1080, 1920, 3), 0.7, np.float32)
ones = np.ones(2**25, np.float32)
print("mean of an image of 0.7:", mean(image), "by NumPy:", image.mean(), "nanmean:", nanmean(image))
print("mean of 2**25 ones:", mean(ones), "by NumPy:", ones.mean(), "deviation:", deviation(ones), "and", ones.std())
assert 0.715 < mean(image) < 0.716 and mean(ones) == 0.5 and deviation(ones) == 0.5, "changed"
assert abs(image.mean() - 0.7) < 1e-6 and ones.mean() == 1 and abs(nanmean(image) - 0.7) < 1e-6
PY
