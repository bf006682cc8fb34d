#!/usr/bin/env bash
# torch 2.13.0, `torch.cdist` of float32 as it comes, of 25 points and of 26, in a cube of 1 whose corner is at
#   (1000, 1000, 1000), as a scan in metres or millimetres has it.
# Expected: a 26th point changes nothing between the others; a point's distance to itself is 0. (The page
#   says of the default that above 25 points it goes by a product of matrices, not what that costs.)
# Seen: distances are up to 0.7 off, of at most 1.7; a point is up to 0.7 from itself, and other points are
#   nearest. With 25 points they are right to 1e-7. compute_mode="donot_use_mm_for_euclid_dist" is right.
# Who meets it: nearest neighbours, Chamfer distances and costs of transport away from the origin.
. "$(dirname "$0")/environment"
packages torch==2.13.0 numpy==2.4.6
python -W error::UserWarning - <<'PY'
import torch

points = torch.rand(26, 3, generator=torch.Generator().manual_seed(0)) + 1000
exact = torch.cdist(points.double(), points.double(), compute_mode="donot_use_mm_for_euclid_dist")
off = {n: (torch.cdist(points[:n], points[:n]) - exact[:n, :n]).abs().max().item() for n in (25, 26)}
found = torch.cdist(points, points)
itself = (found.argmin(1) == torch.arange(26)).float().mean().item()
print(f"off by {off[25]:.1e} of 25 points, by {off[26]:.2f} of 26; nearest to themselves: {itself:.0%};")
print(f"a point is up to {found.diagonal().max():.2f} from itself")
assert off[25] < 1e-6 and off[26] > 0.3 and found.diagonal().max() > 0.3, "changed"
right = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
assert (right - exact).abs().max() < 1e-6
PY
