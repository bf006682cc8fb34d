"""Route digits to experts: what capacity and balance do to a mixture of eight.

    python experiments/router.py --docs       five seeds, and the table of docs/results/topk.md
    python experiments/router.py --smoke      seconds

A linear gate gives every image (8 x 8, of scikit-learn) a logit for each expert, a perceptron.
`soft_topk_mask` takes it to two of them, drawn while it trains (`noise`); with a capacity, each
expert keeps no more images of a batch than 1.25 times its equal share, those with the largest
logits. An image that nobody keeps gets no prediction. With balance, the loss has the sum of the
squares of how often each expert is chosen. In tests there is neither noise nor capacity.

The folder -o gets results.json: of every way and seed the accuracy on images held out, the load of
the busiest expert there in units of an equal share, and the choices that were dropped in training.

Exit status: 0 if it went well, 2 for bad input, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from statistics import mean, stdev

import torch
from torch import Tensor, nn

from gendr.cli.command_line import count
from gendr.topk import soft_topk_mask
from lab import script
from lab.pages import fill, table

EXPERTS, CHOSEN, WIDTH, BATCH = 8, 2, 6, 128
SCALE, NOISE, ROOM, WEIGHT = 0.5, 0.5, 1.25, 0.1
WAYS = {  # name -> whether it has a capacity, and the weight of the balance
    "neither": (False, 0.0),
    "balance": (False, WEIGHT),
    "capacity": (True, 0.0),
    "capacity, balance": (True, WEIGHT),
}


class Mixture(nn.Module):
    """A linear gate and its experts."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(64, EXPERTS)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
            for _ in range(EXPERTS)
        )

    def forward(self, x: Tensor, capacity: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Logits [N, 10], and masks [N, experts] of what was chosen and of what was kept."""
        logits = self.gate(x)
        noise = NOISE if self.training else 0.0
        chosen = soft_topk_mask(logits, CHOSEN, scale=SCALE, hard=True, noise=noise)
        kept = chosen
        if capacity is not None:
            room = soft_topk_mask(
                logits, capacity, mask=chosen.bool(), dim=0, hard=True, scale=SCALE
            )
            kept = chosen * room
        weights = kept * logits.softmax(-1)
        answers = torch.stack([expert(x) for expert in self.experts], 1)
        return (weights[..., None] * answers).sum(1), chosen, kept


def digits() -> tuple[Tensor, Tensor]:
    """Images [N, 64] in [0, 1] and their labels."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return torch.from_numpy(x).float() / 16, torch.from_numpy(y).long()


def trained(way: str, seed: int, steps: int) -> dict[str, float]:
    """What a way comes to."""
    torch.manual_seed(seed)
    x, y = digits()
    order = torch.randperm(len(x))
    train, test = order[:1200], order[1200:]
    (limited, weight), model = WAYS[way], Mixture()
    adam, dropped = torch.optim.Adam(model.parameters(), 0.01), list[float]()
    capacity = int(ROOM * BATCH * CHOSEN / EXPERTS) if limited else None
    for _ in range(steps):
        index = train[torch.randint(len(train), (BATCH,))]
        logits, chosen, kept = model(x[index], capacity)
        balance = EXPERTS * (chosen.mean(0) / CHOSEN).square().sum()
        adam.zero_grad()
        (nn.functional.cross_entropy(logits, y[index]) + weight * balance).backward()
        adam.step()
        dropped.append(1 - float(kept.detach().sum() / chosen.detach().sum()))
    model.eval()
    with torch.no_grad():
        logits, chosen, _ = model(x[test])
    return {
        "accuracy": float((logits.argmax(-1) == y[test]).double().mean()),
        "load": float(chosen.mean(0).max() * EXPERTS / CHOSEN),
        "dropped": mean(dropped[len(dropped) // 2 :]),
    }


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    parser.add_argument("--smoke", action="store_true", help="few steps")
    parser.add_argument("--docs", action="store_true", help="write the table of the page too")
    parser.add_argument("--steps", type=count(1), default=600, help="default: 600")
    script.add_runs(parser, 5)
    script.add_output(parser, "router")


def run(args: argparse.Namespace) -> None:
    """Train all ways with all seeds."""
    torch.set_num_threads(1)
    steps = min(args.steps, 3) if args.smoke else args.steps
    results = dict[str, list[dict[str, float]]]()
    for way in WAYS:
        results[way] = [trained(way, seed, steps) for seed in script.seeds_of(args)]
        print(way, results[way], flush=True)
    script.write_json(script.output_folder(args) / "results.json", {"steps": steps, **results})
    if args.docs:
        script.write_json(script.ROOT / "docs/results/router.json", {"steps": steps, **results})
        fill(script.ROOT / "docs/results/topk.md", "router", rows(results))


def rows(results: dict[str, list[dict[str, float]]]) -> list[str]:
    """The table: means ± standard deviations over the seeds."""
    forms = {"accuracy": (100, ".1f"), "load": (1, ".2f"), "dropped": (100, ".1f")}
    body = [
        [way, *(
            f"{mean(values):{form}} ± {stdev(values) if len(values) > 1 else 0.0:{form}}"
            for name, (factor, form) in forms.items()
            for values in [[factor * run[name] for run in runs]]
        )]
        for way, runs in results.items()
    ]  # fmt: skip
    head = ["in training", "accuracy %", "busiest expert, of an equal share", "dropped %"]
    return table(head, body, 1)


main = script.program(__file__, __doc__, add_options, run)

if __name__ == "__main__":
    sys.exit(main())
