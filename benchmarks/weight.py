"""How heavy the repository is: lines of code by folder, files, classes, names, words.

    python benchmarks/weight.py                    the last commit
    python benchmarks/weight.py c618c28 HEAD       two commits beside each other

Lines are those with code: no comments, no docstrings, no blank lines.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tarfile
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


def main() -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commits", nargs="*", default=["HEAD"], metavar="COMMIT")
    commits = parser.parse_args().commits
    try:
        columns = [weigh(commit) for commit in commits]
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
