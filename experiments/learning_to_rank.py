"""Learn to rank documents of queries: losses by soft sorts beside LambdaLoss and ListMLE.

    python experiments/learning_to_rank.py --data data/learning_to_rank -o ltr    all, 3 seeds
    python experiments/learning_to_rank.py --losses ndcg lambda --runs 5
    python experiments/learning_to_rank.py --smoke                          seconds, made-up queries

--data is a folder with rank.train, rank.test (svmlight: grade index:value ..) and the numbers of
documents per query in rank.train.query and rank.test.query, such as the example of LightGBM's
lambdarank. A perceptron scores every document by itself; queries have different numbers of them.
Of the training queries every fifth validates: by its NDCG@10 the steepness and the step are chosen,
for every seed anew. The metrics are hard ones, of the test queries.

The folder -o gets
    results.json    settings and metrics of every loss and seed
    table.md        means and standard deviations

Exit status: 0 if it went well, 2 for bad input, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import mean, pstdev
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gendr.cli.command_line import count
from gendr.sorting import (
    KendallLoss,
    LambdaLoss,
    ListMLE,
    MAPLoss,
    NDCGLoss,
    RankingLoss,
    SpearmanLoss,
)
from gendr.sorting.losses import ndcg, permutation_matrix
from lab import script
from lab.pages import table

# What is trained, by name: the loss for a steepness, and the steepnesses to choose from.
SHARP, ONE = (1.0, 4.0), (1.0,)
LOSSES: dict[str, tuple[Callable[[float], RankingLoss], tuple[float, ...]]] = {
    "ndcg, neuralsort": (lambda s: NDCGLoss("neuralsort", steepness=s), SHARP),
    "ndcg, softsort": (lambda s: NDCGLoss("softsort", steepness=s), SHARP),
    "ndcg, odd_even": (lambda s: NDCGLoss("odd_even", steepness=s), SHARP),
    "ndcg, permutahedron": (lambda s: NDCGLoss("permutahedron", steepness=s), SHARP),
    "map, neuralsort": (lambda s: MAPLoss("neuralsort", threshold=1.0, steepness=s), SHARP),
    "map, permutahedron": (lambda s: MAPLoss("permutahedron", threshold=1.0, steepness=s), SHARP),
    "spearman, permutahedron": (lambda s: SpearmanLoss("permutahedron", steepness=s), SHARP),
    "kendall": (lambda s: KendallLoss(steepness=s, variant="b"), SHARP),
    "lambda": (lambda s: LambdaLoss(sigma=s), SHARP),
    "lambdarank": (lambda s: LambdaLoss(mu=0.0, sigma=s), SHARP),
    "listmle": (lambda s: ListMLE(), ONE),
}
METRICS = ("NDCG@1", "NDCG@5", "NDCG@10", "MAP")
EVERY = 10  # steps between validations


class Queries(NamedTuple):
    """Queries of different numbers of documents.

    Attributes:
        features: [Q, n, F].
        grades: [Q, n].
        mask: [Q, n] bool, True where there is a document.
    """

    features: Tensor
    grades: Tensor
    mask: Tensor

    def select(self, chosen: Tensor) -> Queries:
        """Some of the queries."""
        return Queries(*(part[chosen] for part in self))


def read_queries(folder: Path, name: str, width: int | None = None) -> Queries:
    """Read NAME and NAME.query.

    Raises:
        ValueError: a file is missing or malformed.
    """
    try:
        lines = (folder / name).read_text().splitlines()
        lengths = [int(line) for line in (folder / f"{name}.query").read_text().split()]
        rows = [line.split() for line in lines]
        entries = [[pair.split(":") for pair in row[1:]] for row in rows]
        width = width or 1 + max(int(index) for row in entries for index, _ in row)
        features = torch.zeros(len(rows), width)
        for number, row in enumerate(entries):
            for index, value in row:
                if int(index) < width:
                    features[number, int(index)] = float(value)
        grades = torch.tensor([float(row[0]) for row in rows])
    except FileNotFoundError as error:
        raise ValueError(f"there is no {error.filename}; name its folder with --data") from None
    except (ValueError, IndexError) as error:
        raise ValueError(f"{folder / name} is no svmlight file: {error}") from None
    if sum(lengths) != len(rows):
        raise ValueError(f"{name} has {len(rows)} rows, but {name}.query says {sum(lengths)}")
    padded = [
        nn.utils.rnn.pad_sequence(list(part.split(lengths)), batch_first=True)
        for part in (features, grades)
    ]
    places = torch.arange(padded[1].shape[1])
    return Queries(padded[0], padded[1], places < torch.tensor(lengths)[:, None])


def made_up(queries: int, seed: int) -> Queries:
    """Queries whose grades are a noisy function of six features."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(queries, 8, 6, generator=generator)
    values = features @ torch.tensor([1.0, -1.0, 0.5, 0.0, 0.0, 0.0])
    noise = torch.randn(values.shape, generator=generator)
    grades = (values + 0.3 * noise + 1).clamp(0, 3).round()
    lengths = torch.randint(2, 9, (queries, 1), generator=generator)
    return Queries(features, grades, torch.arange(8) < lengths)


def mean_ndcg(scores: Tensor, queries: Queries, k: int) -> float:
    """The hard NDCG@k, the mean over the queries that have a relevant document."""
    _, grades, mask = queries
    p = permutation_matrix(scores, "average", mask)
    counts = (grades.masked_fill(~mask, 0) > 0).any(-1)
    return ndcg(p, grades, k, descending=False, mask=mask)[counts].mean().item()


def metrics(scores: Tensor, queries: Queries) -> dict[str, float]:
    """The hard metrics; a document is relevant for MAP from grade 2 on."""
    _, grades, mask = queries
    exact = MAPLoss("permutahedron", steepness=1e6, threshold=1.0, reduction="none")
    relevant = (grades.masked_fill(~mask, 0) > 1).any(-1)
    found = {f"NDCG@{k}": mean_ndcg(scores, queries, k) for k in (1, 5, 10)}
    return {**found, "MAP": 1 - exact(scores, grades, mask)[relevant].mean().item()}


def trained(
    loss: RankingLoss, training: Queries, validation: Queries, seed: int, args: argparse.Namespace
) -> tuple[float, nn.Module]:
    """The best NDCG@10 on the validation queries, and the model that has it."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(training.features.shape[-1], args.width), nn.ReLU(), nn.Linear(args.width, 1)
    )
    optimizer = torch.optim.AdamW(model.parameters(), args.learning_rate, weight_decay=0.01)
    best, kept = -1.0, model
    for step in range(1, args.steps + 1):
        batch = training.select(torch.randperm(len(training.mask))[: args.batch])
        scores = model(batch.features)[..., 0]
        optimizer.zero_grad()
        loss(scores, batch.grades, batch.mask).backward()
        optimizer.step()
        if step % EVERY == 0 or step == args.steps:
            with torch.no_grad():
                found = mean_ndcg(model(validation.features)[..., 0], validation, 10)
            if found > best:
                best, kept = found, copy.deepcopy(model)
    return best, kept


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER",
        help="with the files (default: learning_to_rank in $GENDR_DATA, or in the folder data)",
    )  # fmt: skip
    parser.add_argument("--smoke", action="store_true", help="made-up queries and few steps")
    parser.add_argument(
        "--losses", nargs="+", default=[*LOSSES], metavar="LOSS",
        help=f"or the first words of some, of {'; '.join(LOSSES)} (default: all)",
    )  # fmt: skip
    script.add_runs(parser, 3)
    for name, default in (("steps", 60), ("batch", 32), ("width", 32)):
        parser.add_argument(f"--{name}", type=count(1), default=default, help=f"default: {default}")
    parser.add_argument("--learning-rate", type=float, default=0.01, help="default: 0.01")
    script.add_threads(parser)
    script.add_output(parser, "learning_to_rank")


def run(args: argparse.Namespace) -> None:
    """Train with all losses and seeds, and write what came out."""
    names = [name for name in LOSSES if any(name.startswith(text) for text in args.losses)]
    if not names:
        raise ValueError(f"no loss is called {args.losses}; there are {'; '.join(LOSSES)}")
    if args.threads is not None:
        torch.set_num_threads(args.threads)
    if args.smoke:
        args.steps = min(args.steps, EVERY)
        whole, test = made_up(20, 0), made_up(10, 1)
    else:
        folder = args.data or script.data_folder("learning_to_rank")
        whole = read_queries(folder, "rank.train")
        test = read_queries(folder, "rank.test", whole.features.shape[-1])
    validates = torch.arange(len(whole.mask)) % 5 == 4
    training, validation = whole.select(~validates), whole.select(validates)
    folder = script.output_folder(args)
    results: dict[str, list[dict[str, float]]] = {}
    settings = {name: getattr(args, name) for name in ("steps", "batch", "width", "learning_rate")}
    parts = {"training": training, "validation": validation, "test": test}
    queries = {name: len(part.mask) for name, part in parts.items()}
    whole_run = {"settings": settings, "queries": queries, "results": results}
    for name in names:
        make, sharps = LOSSES[name]
        for seed in script.seeds_of(args):
            runs = [
                (*trained(make(sharp), training, validation, seed, args), sharp)
                for sharp in (ONE if args.smoke else sharps)
            ]
            best, model, sharp = max(runs, key=lambda one: one[0])
            with torch.no_grad():
                found = metrics(model(test.features)[..., 0], test)
            results.setdefault(name, []).append(
                {**found, "validation": best, "steepness": sharp, "seed": seed}
            )
            print(f"{name}, seed {seed}: {found}", flush=True)
            script.write_json(folder / "results.json", whole_run)  # an interruption keeps it
    lines = rows(results)
    (folder / "table.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def rows(results: dict[str, list[dict[str, float]]]) -> list[str]:
    """The table: percent, mean ± standard deviation over the seeds."""
    body = []
    for name, runs in results.items():
        cells = [[100 * one[metric] for one in runs] for metric in METRICS]
        numbers = [f"{mean(cell):.1f} ± {pstdev(cell):.1f}" for cell in cells]
        body.append([name, *numbers])
    return table(["loss", *METRICS], body, 1)


main = script.program(__file__, __doc__, add_options, run)


if __name__ == "__main__":
    sys.exit(main())
