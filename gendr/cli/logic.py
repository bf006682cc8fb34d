"""`gendr logic`: train a logic gate network on a table, run its circuit, write it as source."""

from __future__ import annotations

import csv
import io
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gendr._common.arrays import read_array, read_arrays
from gendr._common.files import write_all, write_whole
from gendr.cli.common import as_json, check_checkpoint, check_effect, check_own, versions
from gendr.cli.parser import LogicExport, LogicRun, LogicTrain
from gendr.jobs.folders import output_folder
from gendr.logic import Circuit

CHECKPOINT, CIRCUIT, METRICS = "checkpoint.pt", "circuit.npz", "metrics.json"
# By the suffix of the file to write: how a circuit becomes text.
EXPORTS = {
    ".c": Circuit.to_c,
    ".v": Circuit.to_verilog,
    ".dot": Circuit.to_dot,
    ".py": Circuit.to_numpy,
    ".txt": lambda circuit, name: f"{circuit}\n",
}


def run(args: LogicTrain | LogicRun | LogicExport) -> int:
    """Run `gendr logic` and return the exit status."""
    if isinstance(args, LogicTrain):
        _train(args)
    elif isinstance(args, LogicRun):
        _run(args)
    else:
        _export(args)
    return 0


def read_rows(path: Path, *, labels: bool) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
    """Rows x [N, F], and y [N] if a file has them.

    Args:
        path: .npy, the rows, or .npz with the arrays x and y.
        labels: whether there must be y.

    Raises:
        ValueError: if the file is something else.
    """
    if not path.is_file():
        raise ValueError(f"no such file: {path}")
    found = read_arrays(path) if zipfile.is_zipfile(path) else {"x": read_array(path)}
    if "x" not in found or (labels and "y" not in found):
        wanted = "x [N, F] and y [N]" if labels else "x [N, F]"
        raise ValueError(f"{path} must hold {wanted}, got {', '.join(found) or 'nothing'}")
    x, y = found["x"], found.get("y")
    if x.ndim != 2 or not x.size or x.dtype.kind not in "biuf":
        raise ValueError(f"{path}: x must be numbers [N, F], got {x.dtype} {list(x.shape)}")
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        raise ValueError(f"{path}: x must be finite, got NaN or inf")
    if y is not None and (y.shape != x.shape[:1] or y.dtype.kind not in "biu" or y.min() < 0):
        raise ValueError(
            f"{path}: y must be classes 0, 1, .. [{len(x)}], got {y.dtype} {list(y.shape)}"
        )
    return x, None if y is None else y.astype(np.int64)


def _train(args: LogicTrain) -> None:
    import torch

    from gendr.cli.progress import Session
    from gendr.jobs.logic import LogicSettings, LogicTraining, Samples
    from gendr.jobs.training import drive
    from gendr.logic import Thermometer

    x, y = read_rows(Path(args.data), labels=True)
    assert y is not None
    classes = int(y.max()) + 1
    if classes < 2:
        raise ValueError(f"{args.data}: there must be two classes or more, got {classes}")
    if classes > len(x):  # such as numbers of people: a layer would have a gate for each
        raise ValueError(
            f"{args.data}: y must be classes 0, 1, .., fewer than the {len(x)} rows, got "
            f"{classes - 1}; number them anew"
        )
    out = Path(args.output)
    if args.resume:
        check_checkpoint(out, CHECKPOINT)
    check_own(out, CHECKPOINT, LogicTraining.kind)
    order = np.random.default_rng(args.seed).permutation(len(x))
    train, test = np.split(order, [len(x) - max(1, round(args.test_share * len(x)))])
    if not len(train):
        raise ValueError(f"{args.data} has {len(x)} rows, too few to train and to test")
    # torch has not all types of NumPy, nor other orders of bytes; circuits compare in these two.
    kind = np.float64 if x.dtype.itemsize >= 8 else np.float32
    rows = torch.from_numpy(x.astype(kind if x.dtype.kind == "f" else np.int64))
    front = None
    if not np.isin(x, (0, 1)).all():
        front = Thermometer.quantiles(rows[torch.from_numpy(train)], args.bits)
        rows = front(rows)
    else:
        check_effect(args, (True, "bits", f"x in {args.data} is 0 and 1"))
    rows, labels = rows.byte(), torch.from_numpy(y)
    parts = [Samples(rows[part], labels[part], classes) for part in (train, test)]
    width = -(-args.width // classes) * classes
    settings = LogicSettings(
        layers=args.layers, width=width, tau=args.tau or max(1.0, (width / classes) ** 0.5 / 2),
        steps=args.steps, batch=args.batch, learning_rate=args.learning_rate, decay=0.2,
        seed=args.seed, evaluate_every=max(1, args.steps // 10),
    )  # fmt: skip
    training = LogicTraining(settings, parts[0], None, parts[1])
    with output_folder(out):
        with Session("logic", args.steps, quiet=args.quiet) as session:

            def each_step(training: LogicTraining) -> None:
                if session.stop.asked:  # then `drive` writes a checkpoint
                    done = f"after step {training.step} of {args.steps}"
                    session.place = done, f"from {out / CHECKPOINT}"
                session.each_step(training)

            drive(training, checkpoint=out / CHECKPOINT, resume=args.resume, callback=each_step)
        result = training.result()
        limits = None if front is None else front.thresholds.numpy()
        circuit = Circuit(result.circuit.netlist, limits, result.circuit.sums)
        circuit.save(out / CIRCUIT)
        metrics = {**result.describe(), "rows": [len(train), len(test)], "versions": versions()}
        write_whole(out / METRICS, as_json(metrics))
    if not args.quiet:
        sys.stdout.write(
            f"{out}: {CHECKPOINT}, {CIRCUIT}, {METRICS}; test accuracy {result.accuracy:.4f} on "
            f"{len(test)} rows, {result.stats.gates:,} gates, depth {result.stats.depth}\n"
        )


def _run(args: LogicRun) -> None:
    circuit = Circuit.load(args.circuit)
    x, y = read_rows(Path(args.data), labels=False)
    if circuit.sums is None:
        found = circuit(x).astype(np.int64)
        head = [f"output {k}" for k in range(found.shape[1])]
    else:
        found, head = circuit.predict(x)[:, None], ["class"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(found.tolist())
    if args.output:
        if Path(args.output).resolve() in (Path(args.data).resolve(), Path(args.circuit).resolve()):
            raise ValueError(f"-o {args.output} would replace what is read; name another file")
        write_whole(Path(args.output), text.getvalue().encode())
    else:
        sys.stdout.write(text.getvalue())
    if y is not None and circuit.sums is not None and not args.quiet:
        share = float((found[:, 0] == y).mean())
        sys.stderr.write(f"gendr: accuracy {share:.4f} on {len(y)} rows\n")


def _export(args: LogicExport) -> None:
    circuit = Circuit.load(args.circuit)
    contents: dict[Path, bytes] = {}
    for text in args.files:
        path = Path(text)
        if path.suffix not in EXPORTS:
            raise ValueError(
                f"the suffix of {path} must be one of {', '.join(EXPORTS)}, got "
                f"{path.suffix or 'none'}"
            )
        contents[path] = EXPORTS[path.suffix](circuit, args.name).encode()
    write_all({**contents})
    if not args.quiet:
        sys.stdout.write(f"{circuit.stats()}\n")
