#!/usr/bin/env bash
# POT 0.9.7.post1, `ot.solve(M, a, b, reg=…, grad="envelope")` with tensors of PyTorch (torch 2.13.0).
# Expected: "'envelope' provides gradients only for `value`": those of `value`, as "autodiff" gives them.
# Seen: those by the weights a and b are of another function where the regulariser is the default one,
#   reg_type="KL": relative to a bᵀ, which has the weights in it, too. Moved from the second weight to
#   the first, 0.164 where `value` grows by 0.274. Those by the costs are right, and so are all with
#   reg_type="entropy".
# Who meets it: learnt weights, barycentres by descent, and who saves memory as the docstring advises.
. "$(dirname "$0")/environment"
packages torch==2.13.0 pot==0.9.7.post1 numpy==2.4.6 scipy==1.17.1
python -W error - <<'PY'
import ot
import torch

generator = torch.Generator().manual_seed(0)
costs = torch.rand(5, 6, dtype=torch.float64, generator=generator)
a = torch.tensor([0.1, 0.3, 0.2, 0.15, 0.25], dtype=torch.float64)
b = torch.full((6,), 1 / 6, dtype=torch.float64)
step = 1e-5 * torch.tensor([1.0, -1.0, 0.0, 0.0, 0.0], dtype=torch.float64)


def value(weights, reg_type, grad="autodiff"):
    settings = {"reg_type": reg_type, "grad": grad, "max_iter": 20000, "tol": 1e-12}
    return ot.solve(costs, weights, b, reg=0.1, **settings).value


def off(reg_type, grad):
    weights = a.clone().requires_grad_()
    (slope,) = torch.autograd.grad(value(weights, reg_type, grad), weights)
    truth = (value(a + step, reg_type) - value(a - step, reg_type)).item() / 2e-5
    print(f"{reg_type}, {grad}: {slope[0] - slope[1]:.4f}, by differences {truth:.4f}")
    return abs((slope[0] - slope[1]).item() - truth)


assert off("KL", "autodiff") < 1e-6 and off("entropy", "envelope") < 1e-6
assert off("KL", "envelope") > 0.05, "changed"
PY
