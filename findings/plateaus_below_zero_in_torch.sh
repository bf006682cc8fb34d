#!/usr/bin/env bash
# torch 2.13.0, `ReduceLROnPlateau(optimizer)` of a loss below zero, as logarithms of densities, soft-DTW,
#   entropies and negative scores are.
# Expected: with mode "min" and a threshold of 1e-4, a loss that gets worse in every round is no progress: after
#   `patience` rounds the rate goes down.
# Seen: a loss that grows from -1000 to -997.6 in 50 rounds counts as better in each, and is kept as the best:
#   the rate never goes down. The page's formula, best * (1 - threshold), is above the best if that is
#   negative. threshold_mode="abs" is right; of the same loss above zero all is right.
# Who meets it: who lets a rate go down by a loss that may be negative.
. "$(dirname "$0")/environment"
packages torch==2.13.0 numpy==2.4.6
python -W error::UserWarning - <<'PY'
import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

def after(losses, **options):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = ReduceLROnPlateau(optimizer, patience=3, **options)
    for loss in losses:
        scheduler.step(loss)
    return optimizer.param_groups[0]["lr"], scheduler.best

worse = [-1000 * (1 - 5e-5) ** i for i in range(50)]
rate, best = after(worse)
print(f"from {worse[0]:.1f} to {worse[-1]:.1f}: the rate is {rate}, the best {best:.1f}")
assert all(a < b for a, b in zip(worse, worse[1:]))
assert rate == 1.0 and best == worse[-1], "changed"
assert after(worse, threshold_mode="abs")[0] < 1e-3
assert after([2000 + loss for loss in worse])[0] < 1e-3
PY
