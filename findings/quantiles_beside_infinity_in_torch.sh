#!/usr/bin/env bash
# torch 2.13.0, `torch.quantile` of numbers of which some are infinite, as what is missing or never reached often is;
#   numpy 2.4.6, `np.quantile`.
# Expected: a quantile that is one of the numbers is that number: the quantile 1 is the maximum, the quantile 1/2 of
#   three the middle one. Between two infinities lies infinity.
# Seen: NaN, without a word, wherever the number itself is infinite: also the quantile 1 of 1, 2, 3, inf. By NumPy
#   the median of 1, 2, inf is NaN too, with a RuntimeWarning (`np.median` gives 2). interpolation="nearest"
#   is right, as are `torch.median` and `torch.max`.
# Who meets it: thresholds by a quantile of distances, depths or costs.
. "$(dirname "$0")/environment"
packages torch==2.13.0 numpy==2.4.6
python -W ignore::RuntimeWarning - <<'PY'
from math import inf, isnan

import numpy as np
import torch

for numbers, q, want in (([1, inf, inf], 0.5, inf), ([-inf, -inf, 1], 0.5, -inf), ([1, 2, 3, inf], 1.0, inf)):
    x = torch.tensor(numbers, dtype=torch.float64)
    found = x.quantile(q).item()
    print(f"the quantile {q} of {numbers}: {found}, the number {want}")
    assert isnan(found), "changed"
    assert x.quantile(q, interpolation="nearest") == want
assert torch.tensor([1, inf, inf]).median() == inf
assert torch.tensor([1, 2, inf]).quantile(0.5) == 2
print("NumPy: the quantile 1/2 of 1, 2, inf is", np.quantile([1, 2, inf], 0.5), "its median", np.median([1, 2, inf]))
assert isnan(np.quantile([1, 2, inf], 0.5)) and np.median([1, 2, inf]) == 2, "changed"
PY
