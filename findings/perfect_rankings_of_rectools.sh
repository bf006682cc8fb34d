#!/usr/bin/env bash
# rectools 0.19.0, NDCG of a ranking that has all relevant items first.
# Expected: 1: the gain is divided by that of the best ranking (Järvelin and Kekäläinen), as scikit-learn
#   1.9.1 and ranx have it.
# Seen: 0.220 at 10 for a user with one relevant item: by default the divisor is that of ten relevant items,
#   `divide_by_achievable=False`, so that the number says how many relevant items users have. MAP of the same
#   package is 1 there.
# Who meets it: whoever compares recommenders by their NDCG across packages, papers or data sets.
. "$(dirname "$0")/environment"
packages numpy==2.4.6 scipy==1.17.1 pandas==2.3.3 attrs==26.1.0 pydantic==2.14.4 typeguard==4.6.1 tqdm==4.70.1 scikit-learn==1.9.1
python -m pip install --quiet --disable-pip-version-check --no-deps rectools==0.19.0
python -W ignore - <<'PY'
import numpy as np
import pandas as pd
from rectools import Columns
from rectools.metrics import MAP, NDCG
from sklearn.metrics import ndcg_score

items = [f"item {i}" for i in range(10)]
ranked = pd.DataFrame({Columns.User: 1, Columns.Item: items, Columns.Rank: range(1, 11)})
for relevant in (1, 3, 10):
    known = pd.DataFrame({Columns.User: 1, Columns.Item: items[:relevant]})
    theirs, mean = (metric(k=10).calc(ranked, known) for metric in (NDCG, MAP))
    achievable = NDCG(k=10, divide_by_achievable=True).calc(ranked, known)
    right = ndcg_score([np.arange(10) < relevant], [-np.arange(10)], k=10)
    print(f"{relevant} relevant, all first: NDCG {theirs:.3f}, achievable {achievable:.3f}, scikit-learn {right:.3f}, MAP {mean:.3f}")
    best, full = (sum(1 / np.log2(i + 2) for i in range(n)) for n in (relevant, 10))
    assert abs(theirs - best / full) < 1e-9, "changed"
    assert abs(right - 1) < 1e-9 and abs(achievable - 1) < 1e-9 and abs(mean - 1) < 1e-9
PY
