#!/usr/bin/env bash
# torch 2.13.0, `torch.distributions.Laplace(0, b).cdf` and `.icdf`; numpyro 0.22.0 has the same formula.
# Expected: the derivative of a CDF is the density, 1 / (2 b) in the middle, and its inverse's is 2 b.
# Seen: both have the gradient 0 there, by the input and by `loc`: they are written with a sign and an
#   absolute value, whose derivatives are 0 at 0. A hair beside the middle it is right. Normal, Cauchy and
#   Gumbel are right, as is jax.scipy.stats.laplace.cdf.
# Who meets it: soft comparisons of two equal numbers by Laplace noise: ties never part, as all of a batch
#   does that starts at zeros, and a median is drawn without a gradient.
. "$(dirname "$0")/environment"
packages torch==2.13.0 numpyro==0.22.0 jax==0.10.2 numpy==2.4.6
python -W error::UserWarning - <<'PY'
import jax
import numpyro.distributions as numpyro
import torch
from torch.distributions import Cauchy, Gumbel, Laplace, Normal

def slope(function, at):
    x = torch.tensor(at, dtype=torch.float64, requires_grad=True)
    return torch.autograd.grad(function(x), x)[0].item()

zero, one = torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64)
for kind in (Normal, Cauchy, Gumbel):
    d = kind(zero, one)
    assert abs(slope(d.cdf, 0.0) - d.log_prob(zero).exp()) < 1e-12
laplace = Laplace(zero, one)
found = [slope(laplace.cdf, x) for x in (-1e-9, 0.0, 1e-9)]
print("slope of the CDF at -1e-9, 0, 1e-9:", found, "; density", laplace.log_prob(zero).exp().item())
assert found[1] == 0 and abs(found[0] - 0.5) < 1e-6 and abs(found[2] - 0.5) < 1e-6, "changed"
inverse = [slope(laplace.icdf, p) for p in (0.5 - 1e-9, 0.5)]
print("slope of its inverse beside 1/2 and at 1/2:", inverse)
assert abs(inverse[0] - 2) < 1e-6 and inverse[1] == 0, "changed"
assert slope(lambda loc: Laplace(loc, one).cdf(zero), 0.0) == 0, "changed"
other = jax.grad(lambda x: numpyro.Laplace(0.0, 1.0).cdf(x))(0.0), jax.grad(jax.scipy.stats.laplace.cdf)(0.0)
print("numpyro, jax.scipy.stats:", [float(x) for x in other])
assert other[0] == 0 and other[1] == 0.5, "changed"
PY
