"""Time logic gate networks: a training step, hardening, inference; beside plain PyTorch.

    python benchmarks/logic.py                                  # everything, printed
    python benchmarks/logic.py --repeat 100                     # more rounds
    python benchmarks/logic.py --out docs/results --docs        # what the documentation shows
    python benchmarks/logic.py --device cuda                    # the training step on a GPU

The network is that of the thesis for MNIST, 784 -> 6 x 8,000 -> 10, with wires and weights drawn at
random, batch 100, float32. A training step is forward, cross-entropy, backward and Adam (fused).
Implementations:

gendr           the layers as users get them; also with torch itself on one thread, as advised, on a
                CPU, and as a graph of torch.compile on a GPU
four numbers    the expected gate on 1, a, b, ab, in plain PyTorch (gendr's reference)
sixteen gates   equation 6.2 as it is printed: all gates of Table 6.1, weighted and summed

Inference is timed from packed bits to the counts of classes, and from images of bytes to classes;
hardening with all its passes and their checks. Both run on the CPU, and are left out with --device
cuda.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from comparison import Case, Comparison, Groups, Run, drawn, take_turns
from torch import Tensor, nn
from torch.nn import functional

from gendr.kernels.threads import torch_on_one_thread
from gendr.logic import GATES, Binarize, Circuit, GroupSum, LogicLayer, harden
from lab.pages import table

BATCH, CLASSES, TAU = 100, 10, 10.0
IMAGES_PER_SECOND, HARDEN_S = 5e6, 10.0  # the targets of the project, on 2 cores


class SixteenGates(nn.Module):
    """A layer as equation 6.2 is printed."""

    def __init__(self, layer: LogicLayer) -> None:
        super().__init__()
        self.wires = layer.wires
        self.weight = nn.Parameter(layer.weight.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        """Evaluate all gates and take the mean by their probabilities."""
        a, b = x[:, self.wires[0]], x[:, self.wires[1]]
        shares = self.weight.softmax(1)
        out = torch.zeros_like(a)
        for gate in GATES:
            one, ca, cb, cab = gate.coefficients
            value = torch.full_like(a, float(one))
            value = value + ca * a if ca else value
            value = value + cb * b if cb else value
            value = value + cab * (a * b) if cab else value
            out = out + shares[:, gate.id] * value
        return out


def network(layers: int, width: int, backend: str = "auto") -> nn.Sequential:
    """The same wires and weights in every call."""
    widths = [784, *[width] * layers]
    return nn.Sequential(
        *(
            LogicLayer(a, b, init="normal", seed=k, backend=backend)
            for k, (a, b) in enumerate(pairwise(widths))
        ),
        GroupSum(CLASSES, TAU),
    )


def step(model: nn.Module, x: Tensor, labels: Tensor, adam: torch.optim.Optimizer) -> list[Tensor]:
    """One step of training; the loss and the gradients."""
    adam.zero_grad()
    loss = functional.cross_entropy(model(x), labels)
    loss.backward()
    adam.step()
    return [loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]


def alone(run: Run) -> Sequence[Tensor]:
    """Run with torch on one thread, and the kernels on all."""
    with torch_on_one_thread():
        return run()


def groups(layers: int, width: int, device: str) -> Groups:
    """A training step."""
    x = (drawn(BATCH, 784) > 0).float().to(device)
    labels = torch.arange(BATCH, device=device) % CLASSES

    def steps(model: nn.Module, compiled: bool = False) -> Run:
        model = model.to(device)
        adam = torch.optim.Adam(model.parameters(), 0.01, fused=True)
        forward: Any = torch.compile(model) if compiled else model
        return partial(step, forward, x, labels, adam)

    runs = {"gendr": steps(network(layers, width))}
    if device == "cpu":
        runs["gendr, torch on one thread"] = partial(alone, steps(network(layers, width)))
    else:
        runs["gendr, torch.compile"] = steps(network(layers, width), compiled=True)
    runs["four numbers"] = steps(network(layers, width, "reference"))
    modules = network(layers, width)
    sixteen = (SixteenGates(m) if isinstance(m, LogicLayer) else m for m in modules)
    return [runs | {"sixteen gates": steps(nn.Sequential(*sixteen))}]


def infer(quick: bool, repeat: int, device: str) -> tuple[dict[str, Any], list[str]]:
    """Times of hardening and inference, and their lines."""
    if device != "cpu":
        return {}, []
    layers, width, rows = (2, 200, 2000) if quick else (6, 8000, 100_000)
    model = nn.Sequential(Binarize(127.5), *network(layers, width)).eval()
    clock = time.perf_counter()
    circuit = harden(model)
    harden_s = time.perf_counter() - clock
    whole = harden(model, simplify=False)
    images = np.random.default_rng(0).integers(0, 256, (rows, 784), np.uint8)
    some = images[:300]
    with torch.no_grad():
        if not np.array_equal(circuit(some), model(torch.from_numpy(some)).numpy()):
            raise SystemExit("the circuit and the network differ")
    bits = circuit.pack(images)
    runs: dict[str, Callable[[], object]] = {
        "simplified, from packed bits": partial(circuit.counts, bits),
        "as trained, from packed bits": partial(whole.counts, bits),
        "simplified, from images of bytes": partial(circuit.predict, images),
    }
    for run in runs.values():
        run()
    times = take_turns(runs, repeat, "cpu")
    size = size_of(circuit)
    gates = {name: len((whole if "trained" in name else circuit).netlist) for name in runs}
    speeds = {name: [rows / np.median(s) / 1e6, rows / min(s) / 1e6] for name, s in times.items()}
    lines = [
        "",
        f"Inference, {rows:,} images at a time (target: {IMAGES_PER_SECOND / 1e6:g} million a "
        "second from packed bits):",
        "",
        *table(
            ["circuit", "gates", "million images a second, median", "best"],
            [[k, f"{gates[k]:,}", *(f"{x:.2f}" for x in values)] for k, values in speeds.items()],
        ),
        "",
        f"Hardening with all passes and their checks takes {harden_s:.2f} s (target: "
        f"{HARDEN_S:g} s); the saved file has {size / 1024:.0f} KiB.",
    ]
    return {
        "inference": {
            "rows": rows, "gates": gates, "million_per_second": speeds, "harden_s": harden_s,
            "file_bytes": size,
        },
    }, lines  # fmt: skip


def size_of(circuit: Circuit) -> int:
    """Bytes of the saved file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "circuit"
        circuit.save(path)
        return path.stat().st_size


def cases(quick: bool, device: str) -> list[Case]:
    """The one."""
    layers, width = (2, 200) if quick else (6, 8000)
    run = partial(groups, layers, width, device)
    return [Case("training step", run, {"gendr": "12 ms"} if device == "cpu" else {})]


main = Comparison("logic", __doc__, cases, page="results/logic", more=infer).main

if __name__ == "__main__":
    main()
