#!/usr/bin/env bash
# torch 2.13.0, `torch.special.ndtr` and `torch.distributions.Normal.cdf` (about 200 MB where the
# index has a build for CPUs, gigabytes elsewhere).
# Expected: the lower tail of the normal CDF to nearly all digits, as by `scipy.special.ndtr`, whose
#   name it has: 9.87e-10 at -6.
# Seen: (1 + erf(x / sqrt 2)) / 2, of which the tail cancels: 0 at -6 in float32, 57 % too much at
#   -5.5; in float64 2 % off at -8 and 0 from -8.3 on. `log_ndtr` is right: its exponential is too.
# Who meets it: probit losses, p-values, truncated normals (a quotient of two tails is NaN),
#   expected improvement, soft edges by a Gaussian: gradients of logarithms are infinite there.
. "$(dirname "$0")/environment"
packages torch==2.13.0 mpmath==1.3.0 numpy==2.4.6
python -W ignore - <<'PY'
import mpmath
import torch

wrong = []
for dtype, places in ((torch.float32, (-5.5, -6.0)), (torch.float64, (-8.0, -9.0))):
    normal = torch.distributions.Normal(torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype))
    for place in places:
        x = torch.tensor(place, dtype=dtype)
        truth = float(mpmath.ncdf(place))
        ndtr, cdf = float(torch.special.ndtr(x)), float(normal.cdf(x))
        by_logarithm = float(torch.special.log_ndtr(x).exp())
        print(f"{dtype} {place}: ndtr {ndtr:.3e}, Normal.cdf {cdf:.3e}, "
              f"exp(log_ndtr) {by_logarithm:.3e}, true {truth:.3e}")
        assert abs(by_logarithm / truth - 1) < 1e-5
        wrong += [abs(ndtr / truth - 1), abs(cdf / truth - 1)]
assert min(wrong) > 0.01 and max(wrong) == 1, "changed"
x = torch.tensor(-9.0, dtype=torch.float64, requires_grad=True)
torch.special.ndtr(x).log().backward()
print(f"slope of log ndtr at -9: {float(x.grad)}, true 9.11")
assert not torch.isfinite(x.grad), "changed"
PY
