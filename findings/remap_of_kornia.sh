#!/usr/bin/env bash
# kornia 0.9.0, `kornia.geometry.transform.remap` at its defaults with pixel coordinates.
# Expected: as with OpenCV's `remap`, of which it is the like, the map that sends each pixel to itself
#   changes nothing. `warp_perspective`, `warp_affine` and `undistort_image` of kornia keep to that.
# Seen: the image is stretched about its middle by n / (n - 1): half a pixel at the border, where it mixes
#   with black. Coordinates are divided by n - 1, as with align_corners=True, and sampled with
#   align_corners=None, which is False. `align_corners=True` is right.
# Who meets it: lenses, flows and views out of panoramas by maps of pixels.
. "$(dirname "$0")/environment"
packages torch==2.13.0 kornia==0.9.0 opencv-python-headless==5.0.0.93 numpy==2.4.6
python -W error::UserWarning - <<'PY'
import cv2
import torch
from kornia.geometry.transform import remap, warp_affine

image = torch.rand(1, 1, 60, 80, generator=torch.Generator().manual_seed(0))
y, x = torch.meshgrid(torch.arange(60.0), torch.arange(80.0), indexing="ij")
plain = remap(image, x[None], y[None])
right = remap(image, x[None], y[None], align_corners=True)
other = cv2.remap(image[0, 0].numpy(), x.numpy(), y.numpy(), cv2.INTER_LINEAR)
off = (plain - image).abs().max().item()
print(f"the map that changes nothing: off by {off:.3f}, by {(right - image).abs().max():.1e} with align_corners")
assert off > 0.5, "changed"
assert abs(other - image[0, 0].numpy()).max() == 0 and (right - image).abs().max() < 1e-4
assert (warp_affine(image, torch.eye(3)[None, :2], (60, 80)) - image).abs().max() < 1e-4
# Where a pixel goes: an image that is its own coordinate, seen at the pixels 10, 40 and 70.
columns = remap(x[None, None], x[None], y[None])[0, 0, 30, [10, 40, 70]]
print("columns 10, 40, 70 are taken from", columns.tolist())
assert (columns - torch.tensor([10, 40, 70])).abs().max() > 0.3
PY
