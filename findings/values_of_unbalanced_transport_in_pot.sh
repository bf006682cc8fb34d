#!/usr/bin/env bash
# POT 0.9.7.post1: `ot.solve(M, a, b, reg=…, unbalanced=…)`, entropic and unbalanced.
# Expected: `value` is what its docstring says, the least <T, M> + reg R(T) + λ1 U(T 1, a) + λ2 U(Tᵀ 1, b).
# Seen: 7.5e-10 where the plan that it returns has 0.3062, and 2.0e-10 for 0.8456 where costs are ten
#   times as large, without a word: its divergences lack the term sum(q − p), which matters where masses
#   differ. `value_linear` is right, and so is `value` without `reg`.
# Who meets it: losses by unbalanced transport: the loss is 0 from the first step on.
. "$(dirname "$0")/environment"
packages pot==0.9.7.post1 numpy==2.4.6 scipy==1.17.1
python -W error - <<'PY'
import numpy as np
import ot

draw = np.random.default_rng(0)
costs, a, b = draw.random((5, 6)), np.array([0.1, 0.3, 0.2, 0.15, 0.25]), np.full(6, 1 / 6)


def divergence(p, q):
    return (p * np.log(p / q) - p + q).sum()


for factor in (1, 10):
    seen = ot.solve(factor * costs, a, b, reg=0.1, unbalanced=1.0)
    plan, linear = seen.plan, (seen.plan * factor * costs).sum()
    value = linear + 0.1 * divergence(plan, np.outer(a, b))
    value += divergence(plan.sum(1), a) + divergence(plan.sum(0), b)
    print(f"costs × {factor}: value {seen.value:.3g}, of its plan {value:.4f}")
    assert abs(seen.value_linear - linear) < 1e-12 and value > 0.3
    assert abs(seen.value) < 1e-8, "changed"
PY
