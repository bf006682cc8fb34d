#!/usr/bin/env bash
# geomloss 0.3.1, `SamplesLoss` (torch 2.13.0): second derivatives.
# Expected: those of the loss, which is smooth, or PyTorch's error for functions that have none;
#   `create_graph=True` is taken.
# Seen: others, without a word, for "sinkhorn", "energy", "gaussian" and "laplacian" alike: of the
#   Gaussian kernel, which is a sum of exponentials, off by more than their size from differences of
#   their own gradients, which are right. Points are detached on one side of a kernel.
# Who meets it: Newton's and Gauss-Newton's methods, gradient penalties, MAML, influence functions.
. "$(dirname "$0")/environment"
packages torch==2.13.0 geomloss==0.3.1 numpy==2.4.6
python -W ignore - <<'PY'
import torch
from geomloss import SamplesLoss

generator = torch.Generator().manual_seed(0)
x = torch.randn(6, 2, dtype=torch.float64, generator=generator)
y = torch.randn(7, 2, dtype=torch.float64, generator=generator) + 0.5
direction, step = torch.randn(6, 2, dtype=torch.float64, generator=generator), 1e-5


def slope(function, at, **options):
    at = at.clone().requires_grad_()
    return at, torch.autograd.grad(function(at), at, **options)[0]


def compared(function):
    at, graph = slope(function, x, create_graph=True)
    theirs = torch.autograd.grad(graph, at, direction)[0]
    ends = [slope(function, x + sign * step * direction)[1] for sign in (1, -1)]
    truth = (ends[0] - ends[1]) / (2 * step)
    return ((theirs - truth).norm() / truth.norm()).item()


def by_hand(at):
    def kernel(p, q):
        return torch.exp(-(p[:, None] - q).square().sum(-1) / (2 * 0.5**2)).mean()

    return kernel(at, at) / 2 + kernel(y, y) / 2 - kernel(at, y)


print("the Gaussian kernel by hand:", compared(by_hand))
theirs = SamplesLoss("gaussian", blur=0.5, backend="tensorized")
assert compared(by_hand) < 1e-6 and abs((theirs(x, y) - by_hand(x)).item()) < 1e-12
assert torch.allclose(slope(lambda at: theirs(at, y), x)[1], slope(by_hand, x)[1])
for name in ("gaussian", "energy", "laplacian", "sinkhorn"):
    loss = SamplesLoss(name, blur=0.5, scaling=0.99, backend="tensorized")
    off = compared(lambda at: loss(at, y))
    print(f"{name}: second derivatives off by {off:.2f} of their size")
    assert off > 0.5, "changed"
PY
