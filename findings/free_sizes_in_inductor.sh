#!/usr/bin/env bash
# torch 2.13.0, `torch.compile(dynamic=True)` by its default backend on a CPU, in float64 (needs a C++
# compiler; about 200 MB where the index has a build for CPUs, gigabytes elsewhere).
# Expected: the gradient of a quotient of two columns of a matrix product as without a graph.
# Seen: another one, off by more than its size, without a warning; values are right, and so is the
#   gradient with sizes that are fixed, and by the backends "eager" and "aot_eager".
# Who meets it: weighted means by one product, sum_i w_i v_i / sum_i w_i, such as soft ranks.
. "$(dirname "$0")/environment"
packages torch==2.13.0 numpy==2.4.6 setuptools==80.9.0
cat > quotient.py <<'PY'
import torch


def ranks(x):
    p = (x[..., :, None] - x[..., None, :]).abs().neg().softmax(-1)
    places = torch.arange(x.shape[-1], dtype=x.dtype)
    sums = p.mT @ torch.stack([places, torch.ones_like(places)], -1)
    return sums[..., 0] / sums[..., 1]


torch.manual_seed(0)
x, weights = torch.randn(2, 3, 5, dtype=torch.float64)
found = {}
for name, run in {
    "without a graph": ranks,
    "sizes fixed": torch.compile(ranks, dynamic=False),
    "sizes free, aot_eager": torch.compile(ranks, dynamic=True, backend="aot_eager"),
    "sizes free": torch.compile(ranks, dynamic=True),
}.items():
    torch._dynamo.reset()
    own = x.clone().requires_grad_()
    y = run(own)
    (slope,) = torch.autograd.grad((weights * y).sum(), own)
    found[name] = y.detach(), slope
    off = [float((a - b).abs().max()) for a, b in zip(found[name], found["without a graph"])]
    print(f"{name}: value off by {off[0]:.1e}, gradient off by {off[1]:.1e} of {slope.abs().max():.1f}")
    if name == "sizes free":
        assert off[0] < 1e-12 and off[1] > 0.1, "changed"
    else:
        assert max(off) < 1e-12, "changed"
PY
python -W ignore quotient.py
