"""Layers of gates beside torchlogix, in one run: processor time of a step, accuracy at equal steps.

python benchmarks/peers/torchlogix_layers.py MNIST_FOLDER

`pip install --no-deps torchlogix` is enough: its layers need torch alone. Its exporter is written
for Python 3.12; where Python is older, it is left out. Both sides have the same data, batches,
widths, optimiser, learning rate and start (wires that pass their first input on), one thread, and
take turns step by step. Wires are random, each side's own. Accuracy is that of the hard network.

Source: Gerlach et al., WARP Logic Neural Networks, arXiv 2602.03527.
"""

from __future__ import annotations

import argparse
import sys
import time
import types
from itertools import pairwise
from pathlib import Path
from statistics import median

import torch
from torch import nn
from torch.nn import functional

import gendr
from gendr.logic import GroupSum, LogicLayer
from lab.data import mnist_digits

PAIRS = {  # what torchlogix calls it -> inputs, and what we do
    "raw": (2, "gates"),
    "warp": (2, "walsh"),
    "warp 4": (4, "walsh"),
}


def torchlogix_layers():
    """The module of its layers."""
    if sys.version_info < (3, 12):
        exporter = types.ModuleType("torchlogix.circuit")
        exporter.Circuit = None
        sys.modules["torchlogix.circuit"] = exporter
    from torchlogix import layers

    return layers


def networks(width, depth, tau):
    """Pairs of networks: names -> model."""
    peers = torchlogix_layers()
    sizes = [784, *[width] * depth]
    found = {}
    for name, (fan_in, own) in PAIRS.items():
        kind = name.split()[0]
        found[f"torchlogix {name}"] = nn.Sequential(
            *(
                peers.LogicDense(a, b, lut_rank=fan_in, parametrization=kind)
                for a, b in pairwise(sizes)
            ),
            peers.GroupSum(10, tau),
        )
        found[f"gendr {own} {fan_in}"] = nn.Sequential(
            *(
                LogicLayer(a, b, fan_in, parametrization=own, seed=k)
                for k, (a, b) in enumerate(pairwise(sizes))
            ),
            GroupSum(10, tau),
        )
    return found


def main() -> None:
    """Train them in turns, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--width", type=int, default=2000)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--lr", type=float, default=0.01)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    gendr.set_num_threads(1)
    (x, y), (test_x, test_y) = (
        ((part[0].flatten(1) > 127).float(), part[1].long())
        for part in (mnist_digits(args.folder, name) for name in ("train", "t10k"))
    )
    models = networks(args.width, args.depth, (args.width / 10) ** 0.5 / 2)
    adams = {name: torch.optim.Adam(each.parameters(), args.lr) for name, each in models.items()}
    times = {name: [] for name in models}
    for step in range(args.steps):
        index = torch.randint(len(x), (args.batch,))
        for name, model in models.items():
            start = time.process_time()
            adams[name].zero_grad()
            functional.cross_entropy(model(x[index]), y[index]).backward()
            adams[name].step()
            times[name].append(time.process_time() - start)
        if step % 50 == 0:
            print(f"step {step}", file=sys.stderr)
    print(f"{args.depth} layers of {args.width}, {args.steps} steps of {args.batch}, one thread")
    print(
        "| layers | processor time of a step | accuracy of the hard network |\n| --- | --- | --- |"
    )
    for name, model in models.items():
        model.eval()
        with torch.no_grad():
            found = torch.cat([model(rows).argmax(1) for rows in test_x.split(1000)])
        right = (found == test_y).float().mean()
        print(f"| {name} | {1e3 * median(times[name][3:]):.1f} ms | {100 * right:.1f}% |")


if __name__ == "__main__":
    main()
