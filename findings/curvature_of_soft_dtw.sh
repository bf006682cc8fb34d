#!/usr/bin/env bash
# tslearn 0.10.0, `tslearn.metrics.SoftDTWLossPyTorch`, and pysdtw 0.0.5, `pysdtw.SoftDTW`
# (torch 2.13.0; about 200 MB where the index has a build for CPUs, gigabytes elsewhere).
# Expected: second derivatives of soft-DTW, or the error that PyTorch has for functions without
#   them (`once_differentiable`); `create_graph=True` is taken.
# Seen: those of a constant alignment, without a word: of both the same numbers, which are off by
#   more than their size from differences of their own gradients, which are right.
# Who meets it: Newton's and Gauss-Newton's methods, gradient penalties, MAML, influence functions.
. "$(dirname "$0")/environment"
packages torch==2.13.0 tslearn==0.10.0 pysdtw==0.0.5 numpy==2.4.6
python -W ignore - <<'PY'
import pysdtw
import torch
from tslearn.metrics import SoftDTWLossPyTorch

generator = torch.Generator().manual_seed(0)
x, y = torch.randn(1, 6, 1, generator=generator), torch.randn(1, 5, 1, generator=generator)
direction, step = torch.ones_like(x), 1e-3


def slope(loss, at, **options):
    at = at.clone().requires_grad_()
    return at, torch.autograd.grad(loss(at, y).sum(), at, **options)[0]


for name, loss in (
    ("tslearn", SoftDTWLossPyTorch(gamma=0.5)),
    ("pysdtw", pysdtw.SoftDTW(gamma=0.5, use_cuda=False)),
):
    at, graph = slope(loss, x, create_graph=True)
    theirs = torch.autograd.grad(graph, at, direction)[0].flatten()
    ends = [slope(loss, x + sign * step * direction)[1] for sign in (1, -1)]
    truth = ((ends[0] - ends[1]) / (2 * step)).flatten()
    print(f"{name}: curvature along (1, .., 1)", theirs.tolist(), "by differences", truth.tolist())
    assert (theirs - truth).abs().max() > 1, "changed"
PY
