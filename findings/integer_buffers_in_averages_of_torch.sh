#!/usr/bin/env bash
# torch 2.13.0, `AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)`.
# Expected: its page says that buffers are averaged too; a buffer of integers that never changes is its
#   own average, as `ema_pytorch` 0.8.3 leaves it.
# Seen: some are one less, without a word: 2, 100, 6, 65 of 3, 101, 7, 65. The sum of 0.9 n and 0.1 n is
#   rounded, sometimes to less than n, and then cut off to an integer. `use_buffers=False`, the default,
#   copies buffers. Floats are right, and so is the plain mean, without `multi_avg_fn`.
# Who meets it: networks that keep indices as buffers, as the wires of logic gate networks, graphs,
#   tables of relative positions: the averaged one is another network.
. "$(dirname "$0")/environment"
packages torch==2.13.0 numpy==2.4.6
python -W error::UserWarning - <<'PY'
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

class Wired(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.register_buffer("wires", torch.tensor([3, 101, 7, 65]))
        self.register_buffer("scale", torch.tensor([3.0, 101.0, 7.0, 65.0]))

def averaged(use_buffers, function=get_ema_multi_avg_fn(0.9)):
    found = AveragedModel(Wired(), multi_avg_fn=function, use_buffers=use_buffers)
    for _ in range(20):
        found.update_parameters(Wired())
    return found.module

print("wires 3, 101, 7, 65 averaged with buffers:", averaged(True).wires.tolist())
assert averaged(True).wires.tolist() != [3, 101, 7, 65], "changed"
assert averaged(True, None).wires.tolist() == [3, 101, 7, 65]
assert averaged(False).wires.tolist() == [3, 101, 7, 65]
assert torch.allclose(averaged(True).scale, torch.tensor([3.0, 101.0, 7.0, 65.0]))
assert torch.allclose(averaged(True).weight, torch.ones(4))
PY
