#!/usr/bin/env bash
# PyTensor 3.0.7 (behind PyMC): the gradient of the maximum of [1, 1, 0].
# Expected: weights that sum to 1, as the maximum grows by h if all numbers do: [1, 0, 0] as by PyTorch's
#   `max`, or [1/2, 1/2, 0] as by JAX and by PyTorch's `amax`.
# Seen: [1, 1, 0]. The maximum of sixteen equal numbers has a gradient of sixteen ones, so that a step
#   along it is sixteen times too long; `maximum` of two numbers and the last of `sort` have one 1.
# Who meets it: losses by the worst case, and pooling, of numbers that begin equal or are clipped.
. "$(dirname "$0")/environment"
packages pytensor==3.0.7 numpy==2.4.6
python -W ignore - <<'PY'
import numpy as np
import pytensor
import pytensor.tensor as pt

x = pt.dvector()
parts = {"max": pt.max(x), "maximum": pt.maximum(pt.maximum(x[0], x[1]), x[2]), "sort": pt.sort(x)[-1]}
slopes = pytensor.function([x], [pytensor.grad(y, x) for y in parts.values()], mode="FAST_COMPILE")
seen = dict(zip(parts, slopes(np.array([1.0, 1.0, 0.0]))))
print({name: slope.tolist() for name, slope in seen.items()})
h = 1e-3
step = (1 + h) - 1  # what the maximum grows by if all three do
assert np.isclose(seen["maximum"].sum() * h, step) and np.isclose(seen["sort"].sum() * h, step)
assert seen["max"].tolist() == [1, 1, 0], "changed"
PY
