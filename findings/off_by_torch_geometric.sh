#!/usr/bin/env bash
# PyTorch Geometric 2.8.1 (torch 2.13.0), `read_off` and `write_off`.
# Expected: all faces of an OFF file, which may have any number of corners and colours behind them
#   (Geomview's manual), or a word; coordinates to the digits of their type.
# Seen: pentagons are left out; a triangle with a colour has six corners, the colour's numbers among
#   them; five digits are written, so that map coordinates are up to 50 m off. No word of it.
# Who meets it: who trains on OFF of CGAL, Geomview, MeshLab or scans, or writes results with it.
. "$(dirname "$0")/environment"
packages torch==2.13.0 torch_geometric==2.8.1 numpy==2.4.6
python -W error::UserWarning - <<'PY'
import torch
from torch_geometric.data import Data
from torch_geometric.io import read_off, write_off

corners = "0 0 0\n2 0 0\n2 2 0\n1 3 0\n0 2 0\n"
open("both.off", "w").write(f"OFF\n5 2 0\n{corners}3 0 1 2\n5 0 1 2 3 4\n")
open("red.off", "w").write(f"OFF\n5 1 0\n{corners}3 0 1 2 255 0 0\n")
both, red = read_off("both.off").face.T.tolist(), read_off("red.off").face.T.tolist()
print("a triangle and a pentagon:", both, "a red triangle:", red)
assert both == [[0, 1, 2]] and red == [[0, 1, 2, 255, 0, 0]], "changed"

place = torch.tensor([[512345.678, 5012345.678, 1]], dtype=torch.float64) + torch.eye(3)
mesh = Data(pos=place, face=torch.tensor([[0], [1], [2]]))
write_off(mesh, "map.off")
first = open("map.off").read().splitlines()[2]
off = abs(float(first.split()[1]) - place[0, 1].item())
print("y of", place[0, 1].item(), "is written in", repr(first), f"{off:.0f} off")
assert 40 < off < 60, "changed"
PY
