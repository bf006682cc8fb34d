"""Imports point down only, and importing the package loads nothing heavy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gendr

ROOT = Path(gendr.__file__).parent
GROUND = {
    *("_backends", "_checks", "_compile", "_files", "_groups", "_numba_calls", "_numba_math"),
    *("_threads", "_tracing", "_triton_launch", "_triton_math"),
}
# What each part of the package may import from it; see docs/design.md.
ALLOWED = {
    "_backends": {"_checks"},
    "_groups": set(),
    "_numba_calls": set(),
    "_threads": {"_checks"},
    "_checks": set(),
    "_compile": set(),
    "_files": set(),
    "_tracing": set(),
    "_numba_math": set(),
    "_triton_launch": set(),
    "_triton_math": set(),
    "distributions": GROUND,
    "tnorms": GROUND,
    "_instances": {*GROUND, "distributions", "tnorms"},
    "mesh": GROUND,
    "rendering": {*GROUND, "distributions", "tnorms", "mesh"},
    "losses": {*GROUND, "mesh"},
    "sorting": {*GROUND, "distributions"},
    "testing": {*GROUND, "distributions", "tnorms", "rendering"},
}
SYSTEMS = {*ALLOWED, "scale"}
ALLOWED["scale"] = {*GROUND, "distributions", "tnorms", "mesh", "rendering"}
ALLOWED["visual"] = {*SYSTEMS}
ALLOWED["fitting"] = {*SYSTEMS, "visual"}
ALLOWED["experiments"] = {*SYSTEMS, "_instances", "visual", "__init__"}
ALLOWED["cli"] = {*SYSTEMS, "visual", "fitting", "experiments", "__init__"}


def part(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports():
    """(importing part, imported part) for every import inside the package."""
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                names = [node.module]
                if node.module == "gendr":
                    names = [f"gendr.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            for name in names:
                first, *rest = name.split(".")
                if first != "gendr":
                    continue
                target = rest[0] if rest else "__init__"
                known = (ROOT / target).is_dir() or (ROOT / f"{target}.py").exists()
                yield part(path), target if known else "__init__"


def test_imports_point_down():
    found = set(imports())
    assert ("rendering", "tnorms") in found  # the test sees imports at all
    for source, target in found:
        if source in ("__init__", "__main__") or source == target:
            continue
        assert source in ALLOWED, f"{source} is new: give it a layer in this test"
        assert target in ALLOWED[source], f"{source} may not import {target}"


def test_import_is_light():
    script = (
        "import time, torch, numpy\n"
        "start = time.perf_counter()\n"
        "import gendr, sys\n"
        "[getattr(gendr, name) for name in gendr.__all__]\n"
        "seconds = time.perf_counter() - start\n"
        "heavy = {'numba', 'scipy', 'trimesh', 'matplotlib', 'PIL', 'imageio', 'triton'}\n"
        "print(*sorted(heavy & set(sys.modules)))\n"
        "print(seconds)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded, _seconds = run.stdout.split("\n")[:2]
    assert loaded == ""


def test_every_public_name_exists():
    assert sorted(gendr.__all__) == sorted(gendr._HOME)
    for name in gendr.__all__:
        assert getattr(gendr, name) is not None
        assert name in dir(gendr)
    with pytest.raises(AttributeError, match="no attribute 'Rendrer'"):
        _ = gendr.Rendrer


def test_type_checkers_see_the_same_names():
    tree = ast.parse((ROOT / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        (alias.name, node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == set(gendr._HOME.items())


def test_help_does_not_wait_for_torch():
    script = "import sys, gendr.cli; gendr.cli.main(['--help']); print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "False"
