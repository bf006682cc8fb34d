#!/usr/bin/env bash
# cvxpylayers 1.2.0 (cvxpy 1.9.3, diffcp 1.1.9, torch 2.13.0): one projection of six numbers on
# 0 ≤ p ≤ 1, sum p = 2, with costs in two units, where one is 1000 of the other.
# Expected: p is the same, and its derivatives by the costs are those in the other unit by 1000.
# Seen: p is right to 5e-7 in both; derivatives are right to 3e-6 in the one and off by 0.21 of 1 in
#   the other, without a word. diffcp solves its linear system by an iteration with a tolerance of its own.
# Who meets it: layers whose costs are dollars, pixels or logits of a thousand: divide them first.
. "$(dirname "$0")/environment"
packages torch==2.13.0 cvxpylayers==1.2.0 cvxpy==1.9.3 diffcp==1.1.9 numpy==2.4.6 scipy==1.17.1
python -W ignore - <<'PY'
import cvxpy as cp
import torch
from cvxpylayers.torch import CvxpyLayer

x = 0.4 * torch.randn(6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def exact(x):
    """clip((x - b) / 0.5, 0, 1) with b such that they sum to 2, by bisection."""
    low, high = x.min() - 2, x.max() + 2
    for _ in range(200):
        middle = (low + high) / 2
        if ((x - middle) / 0.5).clamp(0, 1).sum() > 2:
            low = middle
        else:
            high = middle
    return ((x - low) / 0.5).clamp(0, 1)


step = 1e-6 * torch.eye(6, dtype=torch.float64)
truth = torch.stack([(exact(x + row) - exact(x - row)) / 2e-6 for row in step], 1)
off = {}
for unit in (1.0, 1000.0):
    costs, p = cp.Parameter(6), cp.Variable(6)
    objective = cp.Minimize(0.25 * unit * cp.sum_squares(p) - costs @ p)
    layer = CvxpyLayer(cp.Problem(objective, [p >= 0, p <= 1, cp.sum(p) == 2]), [costs], [p])
    slope = unit * torch.autograd.functional.jacobian(lambda c: layer(c)[0], unit * x)
    off[unit] = (slope - truth).abs().max().item()
    value = (layer(unit * x)[0] - exact(x)).abs().max().item()
    print(f"unit {unit:g}: p off by {value:.1e}, derivatives (of {truth.abs().max():.2f}) by {off[unit]:.1e}")
    assert value < 1e-5
assert off[1.0] < 1e-4
assert off[1000.0] > 0.05, "changed"
PY
