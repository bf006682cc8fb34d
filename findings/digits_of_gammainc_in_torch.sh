#!/usr/bin/env bash
# torch 2.13.0, `torch.special.gammainc` and `gammaincc`, by them `torch.distributions.Gamma.cdf`
# (about 200 MB where the index has a build for CPUs, gigabytes elsewhere).
# Expected: in float64 nearly all digits, as by `scipy.special.gammainc`, of whose code it is made.
# Seen: 9 digits for shapes above 20 within 30 % of the mean, 15 beside that. Where one formula
#   follows on the other the function has a step of 1e-10, downwards at .7 of the shape: this CDF
#   falls there, and a derivative by differences of 1e-9 is negative.
# Who meets it: checks of gradients, quantiles by Newton's method or by bisection, likelihoods that
#   are compared with SciPy's.
. "$(dirname "$0")/environment"
packages torch==2.13.0 mpmath==1.3.0 numpy==2.4.6
python -W ignore - <<'PY'
import mpmath
import torch

mpmath.mp.dps = 30


def off(shape, x, name="gammainc"):
    a, b = torch.tensor(shape, dtype=torch.float64), torch.tensor(x, dtype=torch.float64)
    theirs = float(getattr(torch.special, name)(a, b))
    ends = (0, x) if name == "gammainc" else (x, mpmath.inf)
    truth = float(mpmath.gammainc(shape, *ends, regularized=True))
    return theirs, truth, abs(theirs / truth - 1)


for name, shape, x in (
    ("gammainc", 21.5, 15.2), ("gammaincc", 20.5, 26.5), ("gammainc", 19.5, 14.0),
):
    theirs, truth, error = off(shape, x, name)
    print(f"{name}({shape}, {x}): {theirs:.15f}, true {truth:.15f}, relative error {error:.1e}")
    assert (error > 1e-9) == (shape > 20), "changed"
shape = torch.tensor(20.5, dtype=torch.float64)
before, behind = (float(torch.special.gammainc(shape, 0.7 * shape + x)) for x in (-1e-9, 1e-9))
density = float(torch.distributions.Gamma(shape, 1.0).log_prob(0.7 * shape).exp())
print(f"gammainc(20.5, x) over 2e-9 at x = 14.35: {behind - before:.1e}, true {2e-9 * density:.1e}")
assert behind < before, "changed"
PY
