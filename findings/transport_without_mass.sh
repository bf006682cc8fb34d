#!/usr/bin/env bash
# POT 0.9.7.post1, `ot.sinkhorn` and `ot.sinkhorn2` at their defaults in float32.
# Expected: with a small regulariser an error, NaN, or the distance of the exact transport (1.93).
# Seen: warnings of divisions, then a plan that moves nothing (its sum is 0, where 1 is demanded)
#   and a distance of exactly 0: the two clouds look equal. "sinkhorn_log" moves all of it.
# Who meets it: transport as a loss, where the least value is what is searched for.
. "$(dirname "$0")/environment"
packages POT==0.9.7.post1 numpy==2.4.6 scipy==1.17.1
python -W ignore - <<'PY'
import numpy as np
import ot

rng = np.random.default_rng(0)
x, y = rng.random((50, 2)).astype(np.float32), 1 + rng.random((60, 2)).astype(np.float32)
a, b = np.full(50, 1 / 50, np.float32), np.full(60, 1 / 60, np.float32)
cost = ot.dist(x, y).astype(np.float32)
exact = float(ot.emd2(a, b, cost))
plan, distance = ot.sinkhorn(a, b, cost, 1e-3), float(np.squeeze(ot.sinkhorn2(a, b, cost, 1e-3)))
logs = ot.sinkhorn(a, b, cost, 1e-3, method="sinkhorn_log")
print(f"exact distance {exact:.3f}; sinkhorn {distance:.3f} with mass {plan.sum():.3f}; in logs {logs.sum():.3f}")
assert exact > 1.9 and distance == 0 and plan.sum() == 0, "changed"
assert abs(logs.sum() - 1) < 1e-3, "changed"
PY
