#!/usr/bin/env bash
# torch 2.13.0, forward mode (`torch.func.jvp`, `jacfwd`, `hessian`, `torch.autograd.forward_ad`) of
# `scatter_reduce(…, "prod")` and of `linalg.det` where the matrix is singular.
# Expected: the derivatives of reverse mode, which differences confirm; or "not implemented".
# Seen: 0 for the former, everywhere, without a word, so that Hessians of `torch.func.hessian` are wrong
#   too; 0 for the latter as well, where one entry of a diagonal is 0 and the derivative is 3.
# Who meets it: products over groups (transmittance, probabilities) with `jacfwd` or `hessian`.
. "$(dirname "$0")/environment"
packages torch==2.13.0 numpy==2.4.6
python -W ignore - <<'PY'
import torch
from torch.func import grad, hessian, jacfwd, jacrev, jvp

x = torch.tensor([2.0, 3, 4, 5, 6], dtype=torch.float64)
direction = torch.tensor([1, 0.5, 0.25, 2, 3], dtype=torch.float64)
groups, ones = torch.tensor([0, 0, 0, 1, 1]), torch.ones(2, dtype=torch.float64)

def products(x):
    return ones.scatter_reduce(0, groups, x, "prod")

step = 1e-6 * direction
differences = (products(x + step) - products(x - step)) / 2e-6
forward, reverse = jvp(products, (x,), (direction,))[1], jacrev(products)(x) @ direction
print("products of groups: differences", differences.tolist(), "reverse", reverse.tolist(), "forward", forward.tolist())
assert torch.allclose(reverse, differences) and (forward == 0).all() and reverse.min() > 17, "changed"
curved = lambda x: products(x).sum()
right, seen = jacrev(grad(curved))(x), hessian(curved)(x)
print("Hessians differ by", (right - seen).abs().max().item())
assert (right - seen).abs().max() > 3, "changed"
for kind in ("sum", "mean", "amax"):
    reduced = lambda x, kind=kind: ones.scatter_reduce(0, groups, x, kind)
    assert torch.allclose(jacfwd(reduced)(x), jacrev(reduced)(x))

determinant = lambda x: torch.linalg.det(torch.diag(x))
singular = torch.tensor([2.0, 0, 3, 1, 0.5], dtype=torch.float64)
forward, reverse = jacfwd(determinant)(singular), jacrev(determinant)(singular)
print("determinant: reverse", reverse.tolist(), "forward", forward.tolist())
assert abs(reverse[1] - 3) < 1e-9 and (forward == 0).all(), "changed"
PY
