"""Compile the Triton kernels ahead of time, one of each kernel function; no GPU is needed.

    python benchmarks/kernels.py [--processes 2] [--only TEXT]

Registers, spills, shared memory, size and time of each go to docs/results/kernels.csv, row by row:
a run that was stopped goes on where it was, and only what has changed since is compiled again.

    python benchmarks/kernels.py --all FOLDER
    PYTHONPATH=FOLDER36 python benchmarks/kernels.py --all FOLDER

compiles every specialisation, pairs included, with the Triton that is imported (about 25 minutes of
processor time each), to FOLDER/kernels-VERSION.csv, which is resumed like the table. What has been
compiled by then, with every version of which FOLDER has a file, is summed up in
docs/results/kernels-all.md, with the commit of each; `--only -` compiles no more. Another Triton
comes from

    pip download --no-deps triton==3.6.0 && python -m zipfile -e triton-3.6.0-*.whl FOLDER36

and `chmod +x FOLDER36/triton/backends/nvidia/bin/*`.
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
from dataclasses import asdict, fields
from itertools import product
from pathlib import Path
from statistics import median

os.environ["TRITON_INTERPRET"] = "0"  # before the first import of Triton

from speed import commit
from tqdm import tqdm

from lab.pages import table
from support.ahead_of_time import (
    CAPABILITIES,
    Specialisation,
    Usage,
    compile_ahead,
    fingerprint,
    one_of_each_function,
    specialisations,
)

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
KEY = [field.name for field in fields(Specialisation)] + ["capability"]
# "failed" is what the compiler said, "" if it compiled.
COLUMNS = [*KEY, *(field.name for field in fields(Usage)), "fingerprint", "failed"]

Row = dict[str, str]


def key(row: Row) -> tuple[str, ...]:
    """The columns that tell a row from all others."""
    return tuple(row[name] for name in KEY)


def named(x: Specialisation, capability: int) -> Row:
    """The columns of a row that name a specialisation and a GPU."""
    return {name: str(value) for name, value in {**asdict(x), "capability": capability}.items()}


def described(x: Specialisation, capability: int) -> Row:
    """The row of a specialisation before it is compiled: its name and its fingerprint."""
    return {**named(x, capability), "fingerprint": fingerprint(x)}


def compiled(x: Specialisation, capability: int) -> Row:
    """The row of a specialisation, with the error if it does not compile."""
    row = described(x, capability) | {"failed": ""}
    try:
        usage = asdict(compile_ahead(x, capability))
    except Exception as error:  # noqa: BLE001 (whatever the compiler raises is the answer)
        return row | {"failed": f"{type(error).__name__}: {error}".split("\n")[0][:200]}
    usage["seconds"] = f"{usage['seconds']:.2f}"
    return row | {name: str(value) for name, value in usage.items()}


def read(path: Path) -> dict[tuple[str, ...], Row]:
    """The rows of a table, the later of two about the same; none of a table with other columns."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        table = csv.DictReader(file)
        known = set(COLUMNS) - {"failed"} <= set(table.fieldnames or ())
        return {key(row): {"failed": "", **row} for row in table} if known else {}


def write(path: Path, rows: Iterable[Row]) -> None:
    """A table in order."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows, key=key))


def in_order_of_interest() -> list[Specialisation]:
    """All specialisations: one of each kernel function first."""
    first = dict.fromkeys(one_of_each_function())
    others = [x for x in specialisations() if x not in first]
    random.Random(0).shuffle(others)  # a run that is stopped has drawn fairly
    return [*first, *others]


def complete(path: Path, processes: int, only: str, wanted_ones: Iterable[Specialisation]) -> None:
    """Compile what the table lacks or has from other code, and bring it up to date."""
    known = read(path)
    every = [pair for pair in product(wanted_ones, CAPABILITIES) if only in str(pair[0])]
    wanted = {key(row): row for row in (described(*pair) for pair in every)}
    # Rows of other code and of kernels that are gone go, unless only some kernels were asked for.
    known = {
        name: row
        for name, row in known.items()
        if (wanted[name]["fingerprint"] == row["fingerprint"] if name in wanted else only)
    }
    todo = [pair for pair, name in zip(every, wanted, strict=True) if name not in known]
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, known.values())
    with path.open("a", newline="") as file, ProcessPoolExecutor(processes) as pool:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        jobs = [pool.submit(compiled, *pair) for pair in todo]
        for done in tqdm(as_completed(jobs), total=len(jobs), desc="compile", unit="kernel"):
            row = done.result()
            known[key(row)] = row
            writer.writerow(row)
            file.flush()
    write(path, known.values())


def summed_up(folder: Path) -> list[str]:
    """What the tables of a folder hold, as lines of Markdown."""
    every = list(specialisations())
    wanted = Counter(x.kernel for x in every)
    kinds: dict[str, Callable[[Specialisation], bool]] = {
        "all": lambda x: True,
        "one of each kernel function": set(one_of_each_function()).__contains__,
    }
    lines = [
        "# Which kernels compile", "",
        "Made by `benchmarks/kernels.py --all`, without a GPU: Triton and its ptxas, to machine "
        "code. Local memory is in bytes per thread.",
    ]  # fmt: skip
    counts, kernels, failures = [], [], []
    for path in sorted(folder.glob("kernels-*.csv")):
        version, stamp = path.stem.partition("-")[2], path.with_suffix(".commit")
        of_commit = stamp.read_text(encoding="utf-8") if stamp.exists() else "unknown"
        rows = list(read(path).values())
        found = {key(row): row for row in rows}
        for capability, what in product(CAPABILITIES, kinds):
            listed = [key(named(x, capability)) for x in every if kinds[what](x)]
            there = [found[name] for name in listed if name in found]
            failed = [row for row in there if row["failed"]]
            counts.append([
                version, of_commit, capability, what, len(listed), len(there), len(failed),
            ])  # fmt: skip
        failures += [
            f"Triton {version}: {' '.join(key(x))}: {x['failed']}" for x in rows if x["failed"]
        ]
        good = [row for row in rows if not row["failed"]]
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
    head = ["Triton", "commit", "sm", "", "specialisations", "compiled", "failed"]
    lines += ["", *table(head, [[str(x) for x in row] for row in counts])]
    lines += ["", *(failures or ["None failed."])]
    head = ["Triton", "sm", "kernel", "compiled", "registers: least, median, most",
            "with local memory", "most bytes"]  # fmt: skip
    return [*lines, "", *table(head, [[str(x) for x in row] for row in kernels]), ""]


def main() -> None:
    """Compile, write, sum up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2, help="default: 2")
    parser.add_argument("--only", default="", help="kernels whose description has this text")
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="every specialisation")
    args = parser.parse_args()
    if args.all is None:
        complete(RESULTS / "kernels.csv", args.processes, args.only, one_of_each_function())
        return
    import triton

    path = args.all / f"kernels-{triton.__version__}.csv"
    if not args.only:  # all that the table has from now on is of this commit
        args.all.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".commit").write_text(commit(), encoding="utf-8")
    complete(path, args.processes, args.only, in_order_of_interest())
    text = "\n".join(summed_up(args.all))
    (RESULTS / "kernels-all.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
