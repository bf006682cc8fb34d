"""Compile the Triton kernels ahead of time, one of each body of a law or family; no GPU is needed.

    python benchmarks/kernels.py [--processes 2] [--only TEXT] [--check 6]

Registers, spills, shared memory, size and time of each go to docs/results/kernels.csv, row by row:
a run that was stopped goes on where it was, and only what has changed since is compiled again.
With another Triton, in a folder of its own, say where the table goes:

    pip download --no-deps triton==3.6.0 && python -m zipfile -e triton-3.6.0-*.whl FOLDER
    PYTHONPATH=FOLDER python benchmarks/kernels.py --table kernels-3.6.csv

and `chmod +x FOLDER/triton/backends/nvidia/bin/*`. `--check` compiles so many pairs that are not in
the table, and says how near the table is to them.

    python benchmarks/kernels.py --all FOLDER
    PYTHONPATH=FOLDER36 python benchmarks/kernels.py --all FOLDER

compiles every specialisation, pairs included, with the Triton that is imported (about 25 minutes of
processor time each), to FOLDER/kernels-VERSION.csv, which is resumed like the table. What has been
compiled by then, with every version of which FOLDER has a file, is summed up in
docs/results/kernels-all.md.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import csv
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, fields, replace
from itertools import product
from pathlib import Path
from statistics import median

os.environ["TRITON_INTERPRET"] = "0"  # before the first import of Triton

from tqdm import tqdm

from lab.pages import table
from support.ahead_of_time import (
    CAPABILITIES,
    USUAL,
    Specialisation,
    Usage,
    compile_ahead,
    fingerprint,
    one_of_each_body,
    specialisations,
)

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
TABLE = RESULTS / "kernels.csv"
SUMMARY = RESULTS / "kernels-all.md"
KEY = [field.name for field in fields(Specialisation)] + ["capability"]
COLUMNS = [*KEY, *(field.name for field in fields(Usage)), "fingerprint"]
FAILED = "failed"  # a column of the rows of all: what the compiler said, "" if it compiled
# Kernel, sides of a face and gradients of scalars of those that stand for a pair.
USUAL_OF_PAIRS = ("alpha_tiles", 3, False), ("alpha_gradients", 3, True)
MANY_REGISTERS = 128  # beyond it less than a quarter of an SM's threads run at once

Row = dict[str, str]
Job = Callable[[Specialisation, int], Row]


def key(row: Row) -> tuple[str, ...]:
    """The columns that tell a row from all others."""
    return tuple(row[name] for name in KEY)


def named(x: Specialisation, capability: int) -> Row:
    """The columns of a row that name a specialisation and a GPU."""
    return {name: str(value) for name, value in asdict(x).items()} | {"capability": str(capability)}


def described(x: Specialisation, capability: int) -> Row:
    """The row of a specialisation before it is compiled: its name and its fingerprint."""
    return {**named(x, capability), "fingerprint": fingerprint(x)}


def compiled(x: Specialisation, capability: int) -> Row:
    """The row of a specialisation after it is compiled."""
    usage = asdict(compile_ahead(x, capability))
    usage["seconds"] = f"{usage['seconds']:.2f}"
    return described(x, capability) | {name: str(value) for name, value in usage.items()}


def attempted(x: Specialisation, capability: int) -> Row:
    """The row of a specialisation, with the error if it does not compile."""
    try:
        return compiled(x, capability) | {FAILED: ""}
    except Exception as error:  # noqa: BLE001 (whatever the compiler raises is the answer)
        said = f"{type(error).__name__}: {error}".split("\n")[0]
        return described(x, capability) | {FAILED: said[:200]}


def read(path: Path) -> dict[tuple[str, ...], Row]:
    """The rows of a table, the later of two about the same; none of a table with other columns."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        table = csv.DictReader(file)
        known = set(COLUMNS) <= set(table.fieldnames or ())
        return {key(row): row for row in table} if known else {}


def write(path: Path, rows: Iterable[Row], columns: list[str]) -> None:
    """A table in order."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows, key=key))


def in_order_of_interest() -> list[Specialisation]:
    """All specialisations: one of each body first, then one of each pair, then the others."""
    bodies = {x: None for x in one_of_each_body()}
    others = [x for x in specialisations() if x not in bodies]
    random.Random(0).shuffle(others)  # a run that is stopped has drawn fairly
    return [
        *bodies,
        *sorted(others, key=lambda x: (x.kernel, x.sides, x.scalars) not in USUAL_OF_PAIRS),
    ]


def complete(
    path: Path, processes: int, only: str, wanted_ones: Iterable[Specialisation], job: Job
) -> list[Row]:
    """Compile what the table lacks or has from other code, and bring it up to date."""
    known = read(path)
    columns = COLUMNS if job is compiled else [*COLUMNS, FAILED]
    every = [pair for pair in product(wanted_ones, CAPABILITIES) if only in str(pair[0])]
    wanted = {key(row): row for row in (described(*pair) for pair in every)}
    todo = [
        pair
        for pair, (name, row) in zip(every, wanted.items(), strict=True)
        if name not in known or known[name]["fingerprint"] != row["fingerprint"]
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    if not known:
        write(path, (), columns)
    with path.open("a", newline="") as file, ProcessPoolExecutor(processes) as pool:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        jobs = [pool.submit(job, *pair) for pair in todo]
        for done in tqdm(as_completed(jobs), total=len(jobs), desc="compile", unit="kernel"):
            row = done.result()
            known[key(row)] = row
            writer.writerow(row)
            file.flush()
    # Rows of kernels that are gone go too, unless only some kernels were asked for.
    rows = [row for name, row in known.items() if only or name in wanted]
    write(path, rows, columns)
    return rows


def expected(rows: dict[tuple[str, ...], Row], x: Specialisation, capability: int) -> Row:
    """The row that stands for a pair of triangles: of its two bodies that with more registers."""
    law, family = USUAL
    pair = (replace(x, family=family), replace(x, law=law))
    found = [rows[key(described(body, capability))] for body in pair]
    return max(found, key=lambda row: int(row["registers"]))


def check(rows: list[Row], count: int, processes: int) -> str:
    """Registers and spilling of some pairs, compiled, beside those that the table lets expect."""
    known = {key(row): row for row in rows}
    listed = set(one_of_each_body())
    pairs = [
        (x, capability)
        for x, capability in product(specialisations(), CAPABILITIES)
        if x not in listed and x.family and x.sides == 3
        if x.scalars or x.kernel == "alpha_tiles"
    ]
    drawn = random.Random(0).sample(pairs, count)
    lines = ["registers and spilling of pairs, and as the table has them"]
    with ProcessPoolExecutor(processes) as pool:
        for pair, row in zip(drawn, pool.map(compiled, *zip(*drawn, strict=True)), strict=True):
            near = expected(known, *pair)
            found, want = (f"{r['registers']:>3} {r['local']:>3}" for r in (row, near))
            lines.append(f"{pair[0]!s:50} {pair[1]}  {found}  {want}")
    return "\n".join(lines)


def summary(rows: list[Row]) -> str:
    """Registers, spills and times by kernel and architecture, then the outliers."""
    lines = [f"{'kernel':18} {'sm':>3} {'count':>5}  registers      spilling  slowest"]
    for kernel, capability in sorted({(row["kernel"], row["capability"]) for row in rows}):
        group = [x for x in rows if (x["kernel"], x["capability"]) == (kernel, capability)]
        registers = [int(x["registers"]) for x in group]
        spread = f"{min(registers)}..{median(registers):.0f}..{max(registers)}"
        spilling = sum(int(x["local"]) > 0 for x in group)
        slowest = max(float(x["seconds"]) for x in group)
        lines.append(
            f"{kernel:18} {capability:>3} {len(group):5}  {spread:14} {spilling:8} {slowest:7.1f} s"
        )
    spills = Counter(f"{x['law']}" for x in rows if int(x["local"]) > 0)
    many = Counter(f"{x['law']}" for x in rows if int(x["registers"]) > MANY_REGISTERS)
    lines.append(f"spilling by law: {dict(spills.most_common())}")
    lines.append(f"more than {MANY_REGISTERS} registers by law: {dict(many.most_common())}")
    last = max(rows, key=lambda row: float(row["seconds"]))
    lines.append(f"slowest to compile: {' '.join(key(last))}, {last['seconds']} s")
    return "\n".join(lines)


def summed_up(folder: Path) -> list[str]:
    """What the tables of a folder hold, as lines of Markdown."""
    every = list(specialisations())
    wanted = Counter(x.kernel for x in every)
    kinds = {
        "all": lambda x: True,
        "one of each body": set(one_of_each_body()).__contains__,
        "pairs of law and family, triangles": lambda x: (
            (x.kernel, x.sides, x.scalars) in USUAL_OF_PAIRS and not x.small
        ),
    }
    lines = [
        "# Which kernels compile", "",
        "Made by `benchmarks/kernels.py --all`, without a GPU: Triton and its ptxas, to machine "
        "code. Local memory is in bytes per thread.",
    ]  # fmt: skip
    counts, kernels, failures = [], [], []
    for path in sorted(folder.glob("kernels-*.csv")):
        version = path.stem.partition("-")[2]
        rows = list(read(path).values())
        found = {key(row): row for row in rows}
        for capability, (what, holds) in product(CAPABILITIES, kinds.items()):
            listed = [key(named(x, capability)) for x in every if holds(x)]
            there = [found[name] for name in listed if name in found]
            failed = [row for row in there if row[FAILED]]
            counts.append([version, capability, what, len(listed), len(there), len(failed)])
        failures += [
            f"Triton {version}: {' '.join(key(x))}: {x[FAILED]}" for x in rows if x[FAILED]
        ]
        good = [row for row in rows if not row[FAILED]]
        for kernel, capability in product(wanted, map(str, CAPABILITIES)):
            group = [x for x in good if (x["kernel"], x["capability"]) == (kernel, capability)]
            if group:
                registers = [int(x["registers"]) for x in group]
                local = [int(x["local"]) for x in group]
                kernels.append([
                    version, capability, kernel, f"{len(group)} of {wanted[kernel]}",
                    f"{min(registers)}, {median(registers):.0f}, {max(registers)}",
                    sum(x > 0 for x in local), max(local),
                ])  # fmt: skip
    head = ["Triton", "sm", "", "specialisations", "compiled", "failed"]
    lines += ["", *table(head, [[str(x) for x in row] for row in counts])]
    lines += ["", *(failures or ["None failed."])]
    head = ["Triton", "sm", "kernel", "compiled", "registers: least, median, most",
            "with local memory", "most bytes"]  # fmt: skip
    return [*lines, "", *table(head, [[str(x) for x in row] for row in kernels]), ""]


def main() -> None:
    """Compile, write, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--processes", type=int, default=2, help="0, with --all, sums up what there is; default: 2"
    )
    parser.add_argument("--only", default="", help="kernels whose description has this text")
    parser.add_argument("--table", type=Path, default=TABLE, metavar="FILE", help="default: above")
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="every specialisation")
    parser.add_argument("--check", type=int, default=0, metavar="N", help="pairs to compile too")
    args = parser.parse_args()
    if args.all is not None:
        import triton

        path = args.all / f"kernels-{triton.__version__}.csv"
        if args.processes:
            complete(path, args.processes, args.only, in_order_of_interest(), attempted)
        SUMMARY.write_text("\n".join(summed_up(args.all)), encoding="utf-8")
        return
    rows = complete(args.table, args.processes, args.only, one_of_each_body(), compiled)
    print(summary(rows))
    if args.check:
        print(check(rows, args.check, args.processes))


if __name__ == "__main__":
    main()
