#!/usr/bin/env bash
# torch 2.13.0, `torch.compile` by its default backend on a CPU, in float64 (needs a C++ compiler;
# about 200 MB where the index has a build for CPUs, gigabytes elsewhere).
# Expected: the gradient of a quotient of two columns of a matrix product as without a graph.
# Seen: another one, off by more than its size, without a warning, for rows of 20 (from 16 numbers,
#   where a processor has AVX-512), and with `dynamic=True` of any length; values are right, and so
#   is the gradient of rows of 5 with sizes that are fixed, and by the backend "aot_eager".
# Cause: loops over rows that are fused keep one number of a row in a buffer where they work on 16
#   rows at once, which all write to it (`local_buffer_data` in what `TORCH_LOGS=output_code` shows).
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
for n, dynamic, backend, is_right in [
    (5, False, "inductor", True),
    (5, True, "aot_eager", True),
    (5, True, "inductor", False),
    (20, False, "aot_eager", True),
    (20, False, "inductor", False),
]:
    torch._dynamo.reset()
    x, weights = torch.randn(2, 3, n, dtype=torch.float64)
    found = []
    for run in (ranks, torch.compile(ranks, dynamic=dynamic, backend=backend)):
        own = x.clone().requires_grad_()
        y = run(own)
        found.append((y.detach(), torch.autograd.grad((weights * y).sum(), own)[0]))
    off = [float((a - b).abs().max()) for a, b in zip(*found)]
    size = found[0][1].abs().max()
    print(f"{n} {dynamic=} {backend}: value off by {off[0]:.1e}, gradient by {off[1]:.1e} of {size:.1f}")
    assert off[0] < 1e-12 and (off[1] < 1e-11 if is_right else off[1] > 0.1), "changed"
PY
python -W ignore quotient.py
