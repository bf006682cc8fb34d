"""How many broken lines the tests catch: a line of a system is changed, its tests are run.

    python benchmarks/mutations.py HEAD --count 10        # all systems, an hour or two
    python benchmarks/mutations.py c618c28 --systems sorting logic --out before.json

A commit is checked out in a folder of its own. In every system so many places are drawn, by a seed:
an operator, a comparison, a number or a condition in a function, which becomes another one. Of the
tests, those in the folder of the system and the modules named after it run until the first failure.
That is less than `make test` runs, so the share caught is a lower bound; some changes (a limit that
nothing reaches, a faster way to the same result) cannot be caught. What is in --out already is not
tried again.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
SYSTEMS = (
    "rendering", "relaxed", "mesh", "logic", "fitting", "sorting", "distributions", "cli",
    "reconstruction", "topk", "data", "tnorms", "optim", "losses",
)  # fmt: skip
OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.Lt: ">=", ast.LtE: ">",
    ast.Gt: "<=", ast.GtE: "<", ast.Eq: "!=", ast.NotEq: "==", ast.And: "or", ast.Or: "and",
}  # fmt: skip
SECONDS = 900  # a run that takes longer has hung: it is caught
MEMORY = 8 << 30  # bytes of a process: a broken size ends its test, not the whole machine


def changes(path: Path) -> Iterator[tuple[int, str]]:
    """Line numbers of statements in functions, and the lines as they could be broken."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in (x for statement in function.body for x in ast.walk(statement)):
            if isinstance(node, ast.BinOp):
                first, second, operator = node.left, node.right, node.op
            elif isinstance(node, ast.Compare):
                first, second, operator = node.left, node.comparators[0], node.ops[0]
            elif isinstance(node, ast.BoolOp):
                first, second, operator = node.values[0], node.values[1], node.op
            elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
                line, end = lines[node.lineno - 1], node.end_col_offset
                yield node.lineno, f"{line[: node.col_offset]}{node.value + 1}{line[end:]}"
                continue
            elif isinstance(node, ast.If) and node.test.lineno == node.test.end_lineno:
                line, test = lines[node.test.lineno - 1], node.test
                broken = f"not ({line[test.col_offset : test.end_col_offset]})"
                yield test.lineno, line[: test.col_offset] + broken + line[test.end_col_offset :]
                continue
            else:
                continue
            if type(operator) in OPERATORS and first.end_lineno == second.lineno:
                line = lines[second.lineno - 1]
                end, start = first.end_col_offset or 0, second.col_offset
                sign = line[end:start].strip(" ()")
                between = line[end:start].replace(sign, OPERATORS[type(operator)], 1)
                yield second.lineno, line[:end] + between + line[start:]


def drawn(root: Path, system: str, count: int) -> list[tuple[str, int, str]]:
    """File, line and broken line, of different lines."""
    folder = root / "gendr" / system
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    places: dict[tuple[str, int], list[str]] = {}
    for path in files:
        for number, line in changes(path):
            if line.isascii():  # columns are bytes
                places.setdefault((str(path.relative_to(root)), number), []).append(line)
    rng = random.Random(system)
    return [(*key, rng.choice(places[key])) for key in rng.sample(sorted(places), count)]


def caught(root: Path, system: str) -> bool:
    """Whether the tests of a system fail."""
    tests = [str(x) for x in (root / "tests" / system, root / f"tests/test_{system}.py")]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    command += ["-n", "2", "--dist", "worksteal", *(x for x in tests if Path(x).exists())]
    try:
        run = subprocess.run(
            command, cwd=root, capture_output=True, timeout=SECONDS,
            env={**os.environ, "PYTHONPATH": str(root)},
            preexec_fn=partial(resource.setrlimit, resource.RLIMIT_DATA, (MEMORY, MEMORY)),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return True
    return run.returncode != 0


def main() -> None:
    """Break, run, count."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("commit")
    parser.add_argument("--count", type=int, default=10, metavar="N", help="lines of each system")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS, metavar="SYSTEM")
    parser.add_argument("--out", type=Path, metavar="FILE", help="JSON; what it has is not redone")
    args = parser.parse_args()
    rows: list[dict[str, object]] = []
    if args.out and args.out.exists():
        rows = json.loads(args.out.read_text(encoding="utf-8"))
    known = {(row["system"], row["file"], row["line"]) for row in rows}
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "clone"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(root)], check=True)
        subprocess.run(["git", "checkout", "-q", args.commit], cwd=root, check=True)
        for system in args.systems:
            asked = drawn(root, system, args.count)
            todo = [x for x in asked if (system, x[0], x[1]) not in known]
            if todo and caught(root, system):
                raise SystemExit(f"the tests of {system} fail before anything is broken")
            for file, number, broken in tqdm(todo, desc=system):
                path = root / file
                text = path.read_text(encoding="utf-8")
                lines = text.splitlines()
                was, lines[number - 1] = lines[number - 1], broken
                path.write_text("\n".join(lines) + "\n", encoding="utf-8")
                start = time.monotonic()
                row = {"system": system, "file": file, "line": number, "was": was.strip()}
                row |= {"broken": broken.strip(), "caught": caught(root, system)}
                rows.append({**row, "seconds": round(time.monotonic() - start)})
                path.write_text(text, encoding="utf-8")
                if args.out:
                    args.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
            found = [row["caught"] for row in rows if row["system"] == system]
            print(f"{system:15} {sum(map(bool, found))} of {len(found)} caught", flush=True)


if __name__ == "__main__":
    main()
