#!/usr/bin/env bash
# PyTorch Geometric 2.8.1 (torch 2.13.0), `NormalizeRotation` and `RandomFlip`.
# Expected: a rotation, as its page says, so that a left hand stays one; normals stay those of the points,
#   as NormalizeRotation's page promises for its own.
# Seen: clouds are mirrored or not by what signs the eigenvectors have, without a word; RandomFlip
#   mirrors the points alone: normals and the order of faces stay, so that meshes are inside out.
# Who meets it: learning on scans, molecules and teeth, registration, signed distances of what is mirrored.
. "$(dirname "$0")/environment"
packages torch==2.13.0 torch_geometric==2.8.1 numpy==2.4.6
python -W error::UserWarning - <<'PY'
import numpy as np
import torch
import torch_geometric.transforms as transforms
from torch_geometric.data import Data

generator = torch.Generator().manual_seed(0)
mirrored = {True: 0, False: 0}
for _ in range(40):
    turn = torch.linalg.qr(torch.randn(3, 3, generator=generator))[0]
    points = torch.randn(100, 3, generator=generator) * torch.tensor([3.0, 2.0, 1.0]) @ turn
    for sort in mirrored:
        seen = transforms.NormalizeRotation(sort=sort)(Data(pos=points.clone())).pos
        matrix = np.linalg.lstsq(points.numpy(), seen.numpy(), rcond=None)[0]
        assert abs(abs(np.linalg.det(matrix)) - 1) < 1e-4
        mirrored[sort] += int(np.linalg.det(matrix) < 0)
print(f"NormalizeRotation mirrors {mirrored[False]} of 40 clouds, with sort=True {mirrored[True]}")
assert min(mirrored.values()) > 5, "changed"

side = Data(pos=torch.tensor([[1.0, 0, 0], [1, 1, 0], [1, 0, 1]]), face=torch.tensor([[0], [1], [2]]),
            normal=torch.tensor([[1.0, 0, 0]]).repeat(3, 1))
seen = transforms.RandomFlip(0, p=1)(side)
corners = seen.pos[seen.face[:, 0]]
outwards = torch.linalg.cross(corners[1] - corners[0], corners[2] - corners[0])
print("RandomFlip of a face at x = 1 that looks along +x: now at x =", seen.pos[0, 0].item(),
      "with the normal", seen.normal[0].tolist(), "and by its corners", outwards.tolist())
assert seen.pos[0, 0] == -1 and seen.normal[0, 0] == 1 and outwards[0] == 1, "changed"
PY
