"""Triton kernels compile to machine code for Ampere and Hopper, with no GPU around."""

import json
import random
from itertools import product

import pytest
import torch

pytest.importorskip("triton", reason="Triton has no wheels for this platform")

import gendr
from gendr.mesh import icosphere
from support import ahead_of_time, soup
from support.ahead_of_time import CAPABILITIES, Specialisation, specialisations
from support.processes import run_python
from support.triton import launched_by, needs_the_interpreter


def drawing(*member):
    """The kernels of alpha for one pair: of triangles, and of what is projected."""
    for sides, small in product((3, 4), (False, True)):
        yield Specialisation("alpha_tiles", *member, sides, small=small)
        for scalars in (False, True):
            yield Specialisation("alpha_gradients", *member, sides, scalars, small)


def common():
    """Those of the default renderer and of the README, also with parameters that are learnt."""
    yield from (x for x in specialisations() if not x.dist)
    for dist, small in product(("uniform", "logistic"), (False, True)):
        yield Specialisation("softmax_tiles", dist, small=small)
        yield Specialisation("softmax_gradients", dist, small=small)
    yield Specialisation("softmax_gradients", "uniform", scalars=True)
    yield Specialisation("join_segments", "uniform", "probabilistic")
    yield Specialisation("through_totals", "uniform", "yager", scalars=True)
    for member in ("uniform probabilistic", "logistic probabilistic", "logistic yager",
                   "heaviside max"):  # fmt: skip
        yield from drawing(*member.split())


# The tests' own process may interpret kernels, and then Triton cannot compile.
SCRIPT = """
import csv, json, os, sys, warnings
from dataclasses import asdict
from pathlib import Path
warnings.simplefilter("error")
import triton
from support.ahead_of_time import Specialisation, compile_ahead, fingerprint

known = {}
if folder := os.environ.get("GENDR_KERNELS"):
    with (Path(folder) / f"kernels-{triton.__version__}.csv").open(newline="") as file:
        known = {(row["fingerprint"], row["capability"]): row for row in csv.DictReader(file)}
for row, capability, options in json.loads(sys.argv[1]):
    x = Specialisation(*row)
    if not options and (found := known.get((fingerprint(x), str(capability)))):
        assert not found["failed"], found
        print(json.dumps({k: int(found[k]) for k in ("registers", "local", "size")}))
    else:
        print(json.dumps(asdict(compile_ahead(x, capability, **options))))
"""
LOT = 50  # compiled by one process, which may take 300 s


def compiled(wanted):
    """What each (specialisation, capability, options) uses.

    What the tables of `benchmarks/kernels.py --all FOLDER` have, compiled from the same code, is
    taken from there if the variable GENDR_KERNELS names FOLDER.
    """
    request, found = [[list(vars(x).values()), *how] for x, *how in wanted], []
    for start in range(0, len(request), LOT):
        lot = json.dumps(request[start : start + LOT])
        run = run_python(SCRIPT, lot, env={"TRITON_INTERPRET": "0"})
        assert run.returncode == 0, run.stderr[-3000:]
        found += [json.loads(line) for line in run.stdout.splitlines()]
    return found


@pytest.mark.slow
@pytest.mark.rotating(9, group="compiled ahead")
def test_kernels_compile_and_those_in_common_use_spill_nothing(request, seed):
    """One of those in common use or another, drawn; with --every, all for both architectures."""
    generator, every = random.Random(seed), request.config.getoption("--every")
    usual = [*common()]
    rest = [x for x in specialisations() if x not in usual]
    drawn = [*usual, *rest] if every else [generator.choice(generator.choice([usual, rest]))]
    wanted = [(x, c, {}) for x in drawn
              for c in (CAPABILITIES if every else [generator.choice(CAPABILITIES)])]  # fmt: skip
    for (x, *_), usage in zip(wanted, compiled(wanted), strict=True):
        assert usage["size"] > 0, x
        # Four programs of 128 threads at once; three where colours have the gradient of a scale.
        few = x in usual and x.kernel.startswith("alpha")
        assert 0 < usage["registers"] <= (128 if few else 255), x
        assert usage["local"] == 0 or x not in usual, x
    if every:  # with too few registers a kernel spills: spills would be seen
        narrow = Specialisation("alpha_tiles", "uniform", "probabilistic")
        (narrowed,) = compiled([(narrow, CAPABILITIES[0], {"maxnreg": 24})])
        assert narrowed["local"] > 0
        assert narrowed["registers"] <= 24


LEARNT = "scale", "shape", "p"
TYPES = {
    torch.float32: "*fp32", torch.float64: "*fp64", torch.int32: "*i32", torch.int64: "*i64",
    int: "i32", float: "fp32",
}  # fmt: skip


@pytest.mark.rotating(4, group="long")
@needs_the_interpreter
def test_what_is_compiled_ahead_of_time_is_what_is_launched(monkeypatch):
    """Types and constants of all launches, as `support.ahead_of_time` has them."""
    launches = []

    def recorder(launch, launcher, grid, *args):
        launches.append((launcher.kernel.fn.__name__, args, launcher.constants))
        launch(launcher, grid, *args)

    launched_by(monkeypatch, recorder)
    learnt = {"dist": "gamma(shape=1.7)", "tconorm": "yager(p=3)"}
    mesh = icosphere(0).scaled(0.5)
    vertices = mesh.vertices.clone().requires_grad_()
    renderer = gendr.Renderer(8, scale=0.03, backend="triton", learnable=LEARNT, **learnt)
    out = renderer(mesh.with_vertices(vertices), gendr.look_at(2.732, 30.0, 10.0))
    (out.alpha.sum() + out.rgb.sum() + out.depth.isfinite().sum()).backward()
    with torch.no_grad():  # small faces: lists
        grains = soup(2, 6, 3, torch.float32, size=0.08)
        gendr.silhouette(grains, 64, scale=0.01, backend="triton", **learnt)
    for kernel, args, constants in launches:
        of_p = kernel == "through_totals"
        x = Specialisation(
            kernel, "gamma" * (of_p or "CDF" in constants), "yager" * (of_p or "KIND" in constants),
            constants.get("N", 3), scalars=constants.get("SCALARS", of_p),
        )  # fmt: skip
        # Those that project are compiled for all that they can do, at the sizes of a GPU.
        want = {} if kernel in ahead_of_time.PROJECTING else ahead_of_time.constants(x)
        assert {name: constants[name] for name in want} == want, x
        types = {k: t for k, t in ahead_of_time.signature(kernel).items() if t != "constexpr"}
        given = {k: TYPES[getattr(x, "dtype", type(x))] for k, x in zip(types, args, strict=True)}
        if not constants.get("CHECK", True):  # what nobody looks at may point to anything
            types["flags"] = given["flags"]
        assert given == types, x
    launched = {kernel for kernel, *_ in launches}
    assert {"project_faces", "softmax_gradients", "alpha_gradients", "through_totals"} <= launched
    assert launched <= {x.kernel for x in specialisations()}
