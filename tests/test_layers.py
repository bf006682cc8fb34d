"""Imports point down only, in no circle, and importing the package loads nothing heavy."""

import ast
import functools
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest
import torch

import gendr
import lab.reconstruction
from gendr.photos import fitting
from support.cases import for_each

ROOT = Path(gendr.__file__).parent
GROUND = {"_common", "kernels"}
# What each part of the library may import from it; see docs/design.md.
ALLOWED = {
    "_common": set(),
    "kernels": {"_common"},
    "distributions": GROUND,
    "tnorms": GROUND,
    "mesh": GROUND,
    "losses": {*GROUND, "mesh"},
    "optim": {*GROUND, "distributions"},
    "primitives": GROUND,
    "rendering": {*GROUND, "distributions", "tnorms", "mesh", "primitives"},
    "soft": {*GROUND, "distributions"},
    "sorting": {*GROUND, "distributions"},
    "topk": {*GROUND, "distributions", "sorting"},  # networks, kernels, methods, the drawing
    "transport": GROUND,
    "relaxed": {*GROUND, "distributions", "tnorms"},
    "logic": {*GROUND, "distributions", "tnorms"},
}
LIBRARY = set(ALLOWED)
# The application stands on the library; "splatting" is a second name of a part of it.
ALLOWED["jobs"] = LIBRARY
ALLOWED["photos"] = {*LIBRARY, "jobs"}
ALLOWED["splatting"] = {"photos"}
ALLOWED["cli"] = {*LIBRARY, "jobs", "photos", "__init__"}
BESIDE = {("topk", "sorting"), ("splatting", "photos")}  # on one floor
MODULES = {
    ".".join(("gendr", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): path
    for path in ROOT.rglob("*.py")
}


@functools.cache
def tree(module):
    return ast.parse(MODULES[module].read_text())


def imported(node):
    """(module, name or None) of every import in a tree, those for type checkers included."""
    if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
        yield from ((node.module, alias.name) for alias in node.names)
    elif isinstance(node, ast.Import):
        yield from ((alias.name, None) for alias in node.names)
    elif isinstance(node, ast.stmt | ast.Module | ast.ExceptHandler):
        for child in ast.iter_child_nodes(node):
            yield from imported(child)


def part(module):
    """The part of the package that a module belongs to."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


@functools.cache
def imports():
    """(importing module, imported module, imported name)."""
    found = []
    for source in MODULES:
        for module, name in imported(tree(source)):
            inner = f"{module}.{name}"
            if inner in MODULES:
                found.append((source, inner, None))
            elif module in MODULES:
                found.append((source, module, name))
    return found


def test_imports_point_down():
    found = {(part(source), part(target)) for source, target, _ in imports()}
    assert ("rendering", "tnorms") in found  # the test sees imports at all
    for source, target in found:
        if source in ("__init__", "__main__") or source == target:
            continue
        assert source in ALLOWED, f"{source} is new: give it a layer in this test"
        assert target in ALLOWED[source], f"{source} may not import {target}"


def test_the_picture_of_the_house_shows_every_part_on_its_floor():
    """`HOUSE` of docs/make_figures.py has its rows from the top, each a list of parts."""
    figures = ast.parse((ROOT.parent / "docs" / "make_figures.py").read_text())
    (house,) = (
        node.value
        for node in figures.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "HOUSE"
    )
    top, *lower = ([name for name, _ in row] for row in ast.literal_eval(house))
    height = {name: -i for i, row in enumerate([top, *lower]) for name in row if name != "…"}
    assert set(height) == set(ALLOWED)
    for name in set(height) - set(top):
        for other in ALLOWED[name] - {name}:
            assert height[other] < height[name] or (name, other) in BESIDE, name


def test_there_are_no_circles():
    """Imports inside functions count too, and those for type checkers."""
    graph = {module: set() for module in MODULES}
    for source, target, _ in imports():
        if source != target:
            graph[source].add(target)
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))
    assert len(order) == len(MODULES)


def test_a_warm_call_enters_few_functions_of_ours(monkeypatch):
    """What a call asks that it has asked before is counted by `benchmarks/house.py`."""
    monkeypatch.syspath_prepend(ROOT.parent / "benchmarks")
    found = re.findall(
        r"\| (\d+) \| (\d+) \| \d+ \| (\d+) \|", "\n".join(import_module("house").ways())
    )
    calls = [(int(forward), int(back)) for _, forward, back in found]
    assert [a <= b for (a, _), b in zip(calls, (100, 36, 130), strict=True)] == [True] * 3, calls
    assert calls[0][1] <= 40, calls


def test_autograd_functions_beside_the_operators_are_those_of_the_list():
    """Each has its reason in docs/design.md."""
    found = {
        f"{path.relative_to(ROOT)}: {node.name}"
        for module, path in MODULES.items()
        for node in ast.walk(tree(module))
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).endswith("autograd.Function") for base in node.bases)
        and module != "gendr.kernels.operator"
    }
    text = (ROOT.parent / "docs" / "design.md").read_text()
    rows = re.findall(r"^\| `(\S+\.py): (.+?) \|", text, re.MULTILINE)
    listed = {f"{file}: {name.strip('`')}" for file, names in rows for name in names.split(", ")}
    assert found == listed


def test_private_names_stay_in_their_part():
    for source, target, name in imports():
        foreign = part(source) != part(target)
        private = re.match(r"_(?!_)", name or "") or any(
            word.startswith("_") for word in target.split(".")[2:]
        )
        assert not (foreign and private), f"{source} imports {name or target} of {target}"


def test_private_attributes_stay_in_their_part():
    """x._name only in a part that defines _name, unless another library does."""
    others = {*dir(torch.Tensor), *dir(torch.nn.Module()), *dir(ast.AST)}
    homes, uses = {}, []
    for module in MODULES:
        home = part(module)
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                homes.setdefault(node.name, set()).add(home)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                homes.setdefault(node.id, set()).add(home)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                if getattr(node.value, "id", "") == "self":
                    homes.setdefault(node.attr, set()).add(home)
            elif isinstance(node, ast.Attribute) and re.match("_[^_]", node.attr):
                uses.append((node.attr, home, f"{module}:{node.lineno}"))
    assert len(uses) > 100  # the test sees attributes at all
    found = [
        (name, at)
        for name, home, at in uses
        if home not in homes.get(name, {home}) and name not in others
    ]
    assert not found, f"private attributes of other parts: {found}"


# The help does not wait for PyTorch, nor the package for what few of its functions need.
LIGHT = """
import sys, gendr.cli
gendr.cli.main(["fit", "--help"])
print("torch" in sys.modules)
import gc, gendr
sys.modules["gendr.relaxed"] = None  # a name of a module that cannot be imported
try:
    gendr.relax
except ImportError:
    del sys.modules["gendr.relaxed"]
print(gc.isenabled())  # which it is not while modules are imported
[getattr(gendr, name) for name in gendr.__all__]
gendr.sorting.names()
assert gc.isenabled()
heavy = {"numba", "scipy", "trimesh", "matplotlib", "PIL", "imageio", "triton", "sklearn"}
print(*sorted(heavy & set(sys.modules)))
"""


# What Python 3.10 has not on Windows.
LACKING = {
    "os": "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_SYNC chown fork forkpty get_blocking "
    "getegid geteuid getgid getloadavg getpgid getuid killpg lchown mkfifo nice pread pwrite "
    "register_at_fork sched_getaffinity sched_yield sendfile set_blocking setsid statvfs sysconf "
    "uname wait",
    "signal": "alarm pause pthread_kill pthread_sigmask setitimer SIGALRM SIGCHLD SIGHUP SIGKILL "
    "SIGPIPE SIGQUIT SIGSTOP SIGUSR1 SIGUSR2",
    "time": "tzset clock_gettime",
}  # fmt: skip
LACKING = {f"{module}.{name}" for module, names in LACKING.items() for name in names.split()}
LACKING |= set("fcntl grp posix pty pwd resource syslog termios tty".split())
# These are asked for, or their error is caught.
GUARDED = {
    ("gendr.kernels.threads", "os.register_at_fork"), ("gendr._common.memory", "os.sysconf"),
}  # fmt: skip


def test_nothing_is_used_that_windows_lacks():
    used = set()
    for module in MODULES:
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                used.add((module, f"{node.value.id}.{node.attr}"))
            elif isinstance(node, ast.Import | ast.ImportFrom):
                used |= {(module, x) for m, n in imported(node) for x in (m, f"{m}.{n}")}
    assert {each for each in used if each[1] in LACKING} == GUARDED


@pytest.mark.rotating(4, group="long")
def test_imports_are_light():
    command = [sys.executable, "-c", LIGHT]  # an interpreter that has not seen torch
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-3:] == ["False", "True", ""]  # behind the help


@for_each(
    package=[
        gendr,
        gendr.logic,
        gendr.mesh,
        gendr.relaxed,
        gendr.relaxed.estimators,
        gendr.sorting,
        gendr.photos,
        fitting,
        gendr.photos.splatting,
        lab.reconstruction,
    ]
)
def test_names_of_stubs_are_those_of_packages(package):
    for name in package.__all__:
        assert getattr(package, name) is not None
        assert name in dir(package)
    with pytest.raises(AttributeError, match="no attribute 'Rendrer'"):
        _ = package.Rendrer
    stub = ast.parse(Path(f"{package.__file__}i").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    offered = [alias.asname for node in imports for alias in node.names if alias.asname]
    assert sorted(package.__all__) == sorted(offered)
