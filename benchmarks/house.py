"""How large the house is, and how many rooms a call goes through.

    python benchmarks/house.py             # Markdown tables for docs/design.md

Lines are those of code: without comments, docstrings and empty ones. Calls are Python functions of
the package that a warm call enters on one thread, forward and backward; files are those they are
in. On several threads kernels are called once for each piece that this thread happens to take.
"""

from __future__ import annotations

import argparse
import ast
import gc
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Callable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
APPLICATION = {"photos", "cli", "jobs", "splatting.py"}


def lines_of_code(path: Path) -> int:
    """Lines of a file with something else than comments and docstrings."""
    text = path.read_text(encoding="utf-8")
    told: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            and ast.get_docstring(node, clean=False) is not None
        ):
            told.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    blank = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
             tokenize.ENDMARKER}  # fmt: skip
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in blank:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - told)


def part_of(path: Path) -> str:
    """The part of the repository that a file belongs to."""
    first, *rest = path.relative_to(ROOT).parts
    if not rest:
        return "tests"  # what all of them share
    if first == "gendr":
        return "application" if rest[0] in APPLICATION else "library"
    if (first, rest[0]) == ("experiments", "tests"):
        return "tests of the study"
    return {"experiments": "study"}.get(first, first)


def sizes() -> list[str]:
    """Files, lines and classes of each part."""
    lines, files, classes = Counter[str](), Counter[str](), Counter[str]()
    folders = ("gendr", "experiments", "tests", "benchmarks")
    paths = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*.py*")
        if path.suffix in (".py", ".pyi")
    ]
    for path in [*paths, ROOT / "conftest.py"]:
        part = part_of(path)
        lines[part] += lines_of_code(path)
        files[part] += 1
        tree = ast.parse(path.read_text(encoding="utf-8"))
        classes[part] += sum(isinstance(node, ast.ClassDef) for node in ast.walk(tree))
    rows = [f"| {part} | {files[part]} | {classes[part]} | {lines[part]:,} |" for part in lines]
    return ["| part | files | classes | lines of code |", "| --- | --- | --- | --- |", *rows]


def circle() -> list[str]:
    """Modules that import each other in turn, if there are any, also for type checkers."""
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (ROOT / "gendr").rglob("*.py")
    }
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        found = graph[name] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                inner = (f"{node.module}.{alias.name}" for alias in node.names)
                found |= {each if each in modules else node.module for each in inner}
        found &= modules.keys() - {name}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def autograd_functions() -> list[str]:
    """Classes derived from `torch.autograd.Function` outside the operator layer."""
    return [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in sorted((ROOT / "gendr").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).endswith("autograd.Function") for base in node.bases)
        and path.name != "operator.py"
    ]


def tests_of_internals() -> dict[str, list[str]]:
    """What files of tests import from the package that `tests/public_api.txt` does not list."""
    listed = (ROOT / "tests" / "public_api.txt").read_text(encoding="utf-8").splitlines()
    public = {"gendr.__version__"}
    for line in listed:
        head, _, offered = line.partition(":")
        if not head.rpartition(".")[2][0].isupper():  # a module
            public |= {head, *(f"{head}.{name}" for name in offered.split())}
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            internal = [x for x in names if x.partition(".")[0] == "gendr" and x not in public]
            if internal:
                found.setdefault(str(path.relative_to(ROOT)), []).extend(internal)
    return found


def entered(call: Callable[[], object]) -> tuple[int, int, int]:
    """Files of the package that a call enters, its Python calls in them, those in the ground."""
    files, calls, ground = set[str](), 0, 0

    def trace(frame: object, event: str, _: object) -> None:
        nonlocal calls, ground
        name = frame.f_code.co_filename  # pyright: ignore[reportAttributeAccessIssue]
        if event == "call" and name.startswith(str(ROOT / "gendr")):
            files.add(name)
            calls += 1
            ground += "/_common/" in name or "/kernels/" in name or "/_runtime/" in name

    gc.collect()  # finalizers of what others left would be counted as calls
    gc.disable()
    sys.setprofile(trace)
    try:
        call()
    finally:
        sys.setprofile(None)
        gc.enable()
    return len(files), calls, ground


def ways() -> list[str]:
    """Files and calls of three ways through the package, warm."""
    import torch

    import gendr
    from gendr.kernels.threads import torch_on_one_thread
    from gendr.sorting import soft_sort
    from gendr.splatting import from_mesh

    mesh = gendr.mesh.icosphere(1)
    mesh.vertices.requires_grad_()
    camera = gendr.look_at(3.0, 20.0, 30.0)
    x = torch.rand(4, 8, requires_grad=True)
    splats = from_mesh(gendr.mesh.icosphere(1), 200)
    found: dict[str, Callable[[], torch.Tensor]] = {
        "`Renderer(...)(mesh, camera).alpha`": lambda: gendr.Renderer(64)(mesh, camera).alpha,
        "`soft_sort(x)`": lambda: soft_sort(x),
        "`Splats.render`": lambda: splats.render(camera, (64, 64))[0],
    }
    rows = ["| way | files | calls | of these on the ground | backward |", "| --- |" + " --- |" * 4]
    with torch_on_one_thread(kernels=1):
        for name, call in found.items():
            for _ in range(3):
                out = call()
                if out.requires_grad:
                    out.sum().backward()
            files, calls, ground = entered(call)
            out = call()
            back = entered(out.sum().backward)[1] if out.requires_grad else 0
            rows.append(f"| {name} | {files} | {calls} | {ground} | {back} |")
    return rows


def main() -> None:
    """Print the tables."""
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    print("\n".join(sizes()), "\n")
    print("\n".join(ways()), "\n")
    functions = autograd_functions()
    print(f"a circle of imports, those for type checkers included: {', '.join(circle()) or 'none'}")
    print(f"\n`autograd.Function`s outside the operator layer: {len(functions)}")
    print(*(f"- {each}" for each in functions), sep="\n")
    internal = tests_of_internals()
    print(f"\nfiles of tests that import internal names: {len(internal)}")
    print(*(f"- {path}: {len(names)}" for path, names in internal.items()), sep="\n")


if __name__ == "__main__":
    main()
