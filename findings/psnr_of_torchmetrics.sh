#!/usr/bin/env bash
# torchmetrics 1.9.0, `torchmetrics.functional.peak_signal_noise_ratio` without `data_range`
# (torch 2.13.0; about 200 MB where the index has a build for CPUs, gigabytes elsewhere).
# Expected: the function of the same name in `torchmetrics.functional.image`, which demands the
#   range; a FutureWarning says to import it from there, and of nothing else.
# Seen: here the range has a default, 3.0: for images in [0, 1] the value is 20 log10(3) = 9.54 dB
#   higher than the PSNR of papers.
# Who meets it: comparisons of renderers and of view synthesis.
. "$(dirname "$0")/environment"
packages torch==2.13.0 torchmetrics==1.9.0 numpy==2.4.6
python -W ignore::FutureWarning - <<'PY'
import math

import torch
from torchmetrics.functional import image as functions
from torchmetrics.functional import peak_signal_noise_ratio

target = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
image = (target + 0.1).clamp(max=1)
try:
    functions.peak_signal_noise_ratio(image, target)
    raise SystemExit("changed")
except TypeError as error:
    print(error)
truth = -10 * math.log10((image - target).square().mean())
default = peak_signal_noise_ratio(image, target).item()
named = peak_signal_noise_ratio(image, target, data_range=1.0).item()
print(f"PSNR {truth:.3f} dB; with data_range=1 {named:.3f}; by default {default:.3f}")
assert abs(named - truth) < 1e-3, "changed"
assert abs(default - truth - 20 * math.log10(3)) < 1e-3, "changed"
PY
