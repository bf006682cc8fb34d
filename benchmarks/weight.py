"""How heavy the repository is: lines of code by folder, files, classes, names, words.

    python benchmarks/weight.py                    the last commit
    python benchmarks/weight.py c618c28 HEAD       two commits beside each other
    python benchmarks/weight.py --made             and its wheel, its import, its tests

Lines are those with code: no comments, no docstrings, no blank lines. The import is that of gendr
after torch, the median of seven processes; tests are those of an ordinary run.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("gendr", "tests", "benchmarks", "experiments", "docs", "assets")
NO_CODE = (
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
)  # fmt: skip
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(text: str, tree: ast.Module) -> int:
    """How many lines of a module have code."""
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            docstrings.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def weigh(commit: str) -> dict[str, int]:
    """The rows of one commit.

    Raises:
        ValueError: there is no such commit.
    """
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True)
    if archive.returncode:
        raise ValueError(f"no commit {commit!r} in {ROOT}")
    rows: Counter[str] = Counter()
    classes: Counter[str] = Counter()
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        for member in files:
            folder, _, _ = member.name.partition("/")
            file = files.extractfile(member)
            if file is None or not member.name.endswith((".py", ".md")):
                continue
            text = file.read().decode()
            if member.name.endswith(".md"):
                rows["words of pages"] += len(text.split())
                continue
            tree = ast.parse(text)
            if folder in FOLDERS:
                rows[f"lines of {folder}"] += code_lines(text, tree)
            if folder == "gendr":
                rows["files of gendr"] += 1
                found = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
                classes.update(node.name for node in found)
                rows["autograd functions"] += sum(
                    ast.unparse(base).endswith("autograd.Function")
                    for node in found
                    for base in node.bases
                )
    rows["classes of gendr"] = sum(classes.values())
    rows["class names that stand twice"] = sum(count > 1 for count in classes.values())
    return dict(rows)


def made(commit: str) -> dict[str, int]:
    """What takes a checkout: kilobytes of the wheel, milliseconds of the import, tests."""
    with tempfile.TemporaryDirectory() as name:
        root, python = Path(name) / "clone", sys.executable
        subprocess.run(["git", "clone", "-q", ROOT, root], check=True)
        subprocess.run(["git", "checkout", "-q", commit], cwd=root, check=True)

        def printed(*command: str) -> str:
            run = subprocess.run(
                [python, *command], cwd=root, capture_output=True, text=True, check=True,
                env={**os.environ, "PYTHONPATH": str(root)},
            )  # fmt: skip
            return run.stdout

        code = "import time, torch; t = time.perf_counter(); import gendr; "
        code += "print(time.perf_counter() - t)"
        seconds = [float(printed("-c", code)) for _ in range(7)]
        tests = printed("-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider")
        build = ("-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", "made", ".")
        printed(*build)
        (wheel,) = (root / "made").glob("*.whl")
        return {
            "kilobytes of the wheel": wheel.stat().st_size // 1000,
            "milliseconds to import": round(1e3 * statistics.median(seconds)),
            "tests of an ordinary run": sum("::" in line for line in tests.splitlines()),
        }


def main() -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commits", nargs="*", default=["HEAD"], metavar="COMMIT")
    parser.add_argument("--made", action="store_true", help="minutes")
    args = parser.parse_args()
    commits = args.commits
    try:
        columns = [weigh(x) | (made(x) if args.made else {}) for x in commits]
    except ValueError as error:
        print(f"weight.py: error: {error}", file=sys.stderr)
        return 2
    print("| |", *(f" {commit} |" for commit in commits), sep="")
    print("| --- |", " ---: |" * len(commits), sep="")
    for row in sorted({name for column in columns for name in column}):
        print(f"| {row} |", *(f" {column.get(row, 0):,} |" for column in columns), sep="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
