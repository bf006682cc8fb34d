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

Before they are timed, losses and gradients must agree. They take turns, in bursts, so that whatever
else the machine does meets all of them; compare minima where it is busy. Inference is timed from
packed bits to the counts of classes, and from images of bytes to classes; hardening with all its
passes and their checks. Both run on the CPU, and are left out with --device cuda.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import comparison
import numpy as np
import speed
import torch
from torch import Tensor, nn
from torch.nn import functional

from gendr._runtime.command_line import Parser
from gendr._runtime.threads import torch_on_one_thread
from gendr.logic import GATES, Binarize, Circuit, GroupSum, LogicLayer, harden
from lab.pages import table
from support import relative_l2

AGREEMENT = 1e-3  # relative, of losses and gradients in float32
MARK = "logic-speed"  # in docs/logic.md
STEP_MS, IMAGES_PER_SECOND, HARDEN_S = 12.0, 5e6, 10.0  # the targets of the project, on 2 cores
ALONE, GRAPH = "gendr, torch on one thread", "gendr, torch.compile"
BATCH, CLASSES, TAU = 100, 10, 10.0


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


def step(
    model: Callable[..., Tensor], adam: torch.optim.Optimizer, x: Tensor, labels: Tensor
) -> Tensor:
    """One step of training; the loss."""
    adam.zero_grad()
    loss = functional.cross_entropy(model(x), labels)
    loss.backward()
    adam.step()
    return loss.detach()


def alone(run: Callable[[], object]) -> object:
    """Run with torch on one thread, and the kernels on all."""
    with torch_on_one_thread():
        return run()


def train(layers: int, width: int, repeat: int, device: str) -> list[dict[str, Any]]:
    """Times of a training step; one row for every implementation."""
    gendr = network(layers, width).to(device)
    models: dict[str, nn.Module] = {
        "gendr": gendr,
        "four numbers": network(layers, width, "reference").to(device),
        "sixteen gates": nn.Sequential(
            *(SixteenGates(m) if isinstance(m, LogicLayer) else m for m in gendr)
        ),
    }
    generator = torch.Generator().manual_seed(0)
    x = (torch.rand(BATCH, 784, generator=generator) > 0.5).float().to(device)
    labels = torch.randint(CLASSES, (BATCH,), generator=generator).to(device)
    grads: dict[str, list[Tensor]] = {}
    runs: dict[str, Callable[[], object]] = {}
    for name, model in models.items():
        loss = functional.cross_entropy(model(x), labels)
        grads[name] = [loss.detach(), *torch.autograd.grad(loss, [*model.parameters()])]
        apart = max(map(relative_l2, grads[name], grads["gendr"]))
        if not apart <= AGREEMENT:
            raise SystemExit(f"{name} is {apart:.1e} off gendr")
        adam = torch.optim.Adam(model.parameters(), 0.01, fused=True)
        runs[name] = partial(step, model, adam, x, labels)
    own = runs.pop("gendr")
    if device == "cpu":
        runs = {"gendr": own, ALONE: partial(alone, own), **runs}
    else:
        graph = torch.compile(gendr)
        adam = torch.optim.Adam(gendr.parameters(), 0.01, fused=True)
        runs = {"gendr": own, GRAPH: partial(step, graph, adam, x, labels), **runs}
        for run in runs.values():
            run()  # compiles
    times = comparison.take_turns(runs, repeat, device)
    return [
        {
            "implementation": name,
            "median_s": statistics.median(seconds),
            "min_s": min(seconds),
            "runs": len(seconds),
        }
        for name, seconds in times.items()
    ]


def infer(layers: int, width: int, rows: int, repeat: int) -> dict[str, Any]:
    """Times of hardening and inference."""
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
    times = comparison.take_turns(runs, repeat, "cpu")
    return {
        "harden_s": harden_s,
        "gates": len(whole.netlist),
        "simplified_gates": len(circuit.netlist),
        "file_bytes": size_of(circuit),
        "rows": rows,
        "times": {
            name: {"median_s": statistics.median(seconds), "min_s": min(seconds)}
            for name, seconds in times.items()
        },
    }


def size_of(circuit: Circuit) -> int:
    """Bytes of the saved file."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "circuit"
        circuit.save(path)
        return path.stat().st_size


def markdown(report: dict[str, Any]) -> list[str]:
    """The report as lines of Markdown."""
    run, inference = report["run"], report.get("inference")
    rows = report["training"]
    first = rows[0]

    def each(key: str, row: dict[str, Any]) -> str:
        return speed.milliseconds(row[key])

    target = f" (target: {STEP_MS:g} ms)" if inference else ""
    lines = [
        f"{comparison.measured_on(run)}, which busy cores raise: then compare minima.",
        "",
        f"A training step, batch {BATCH}{target}:",
        "",
        *table(
            ["implementation", "median", "minimum", "minimum / gendr", "runs"],
            [
                [
                    row["implementation"], each("median_s", row), each("min_s", row),
                    f"{speed.short(row['min_s'] / first['min_s'])}×", str(row["runs"]),
                ]
                for row in rows
            ],
        ),
    ]  # fmt: skip
    if not inference:
        return lines
    return [
        *lines,
        "",
        f"Inference, {inference['rows']:,} images at a time (target: "
        f"{IMAGES_PER_SECOND / 1e6:g} million a second from packed bits):",
        "",
        *table(
            ["circuit", "gates", "million images a second, median", "best"],
            [
                [
                    name,
                    f"{inference['gates' if 'trained' in name else 'simplified_gates']:,}",
                    *(f"{inference['rows'] / times[k] / 1e6:.2f}" for k in ("median_s", "min_s")),
                ]
                for name, times in inference["times"].items()
            ],
        ),
        "",
        f"Hardening with all passes and their checks takes {inference['harden_s']:.2f} s (target: "
        f"{HARDEN_S:g} s); the saved file has {inference['file_bytes'] / 1024:.0f} KiB.",
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: cpu")
    parser.add_argument("--quick", action="store_true", help="a tiny network")
    parser.add_argument("--repeat", type=int, default=30, metavar="N", help="rounds; %(default)s")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="for logic-speed-DEVICE.json")
    parser.add_argument("--docs", action="store_true", help="write into docs/logic.md, of the cpu")
    args = parser.parse_args(argv)
    args.device = args.device or "cpu"
    device = comparison.device_of(args, parser)
    if args.docs and device != "cpu":
        parser.error("--docs writes what the CPU does; leave it out, or --device cuda")
    layers, width, rows = (2, 200, 2000) if args.quick else (6, 8000, 100_000)
    report: dict[str, Any] = {
        "run": comparison.about_run(device),
        "training": train(layers, width, args.repeat, device),
    }
    if device == "cpu":
        report["inference"] = infer(layers, width, rows, args.repeat)
    comparison.publish(report, markdown(report), args, "logic-speed", MARK, "logic")


if __name__ == "__main__":
    main()
