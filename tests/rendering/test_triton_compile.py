"""Every Triton kernel compiles to machine code for Ampere and Hopper, with no GPU around."""

import json
import random
from itertools import product
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton has no wheels for this platform")

from support.ahead_of_time import (
    CAPABILITIES,
    LISTING,
    PROJECTING,
    Specialisation,
    launches_compiled,
    specialisations,
)
from support.processes import run_python


def drawing(*member):
    """The kernels of alpha for a law and a family: of triangles, and of what is projected."""
    for sides, small in product((3, 4), (False, True)):
        yield Specialisation("alpha_tiles", *member, sides, small=small)
        for scalars in (False, True):
            yield Specialisation("alpha_gradients", *member, sides, scalars, small)


# The default instance, as it is compiled for a step without and with parameters that are learnt.
DEFAULT = [
    *(Specialisation(kernel) for kernel in ("face_tables", *LISTING, *PROJECTING)),
    Specialisation("nearest_tiles"),
    Specialisation("softmax_tiles", "uniform"),
    Specialisation("softmax_gradients", "uniform"),
    Specialisation("softmax_gradients", "uniform", scalars=True),
    Specialisation("join_segments", "uniform", "probabilistic"),
    *drawing("uniform", "probabilistic"),
]
# What else it launches, and those of the README. Of both lists some are drawn.
SHOWN = [
    Specialisation("face_tables", sides=4),
    Specialisation("nearest_tiles", sides=4),
    *(
        Specialisation(kernel, law, small=True)
        for kernel in ("softmax_tiles", "softmax_gradients")
        for law in ("uniform", "logistic")
    ),
    *drawing("logistic", "probabilistic"),
    *drawing("logistic", "yager"),
    Specialisation("through_totals", "uniform", "yager", scalars=True),
    *drawing("heaviside", "max"),
]
# Of each list, per run.
COMMON = 4, 1
SAMPLE = 1  # of the others, per architecture and run

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
        print(json.dumps({k: int(found[k]) for k in ("registers", "local", "shared", "size")}))
    else:
        print(json.dumps(asdict(compile_ahead(x, capability, **options))))
"""


LOT = 50  # compiled by one process, which may take 300 s


def compiled(wanted):
    """What each (specialisation, capability, options) uses."""
    request, found = [[list(vars(x).values()), *how] for x, *how in wanted], []
    for start in range(0, len(request), LOT):
        lot = json.dumps(request[start : start + LOT])
        run = run_python(SCRIPT, lot, env={"TRITON_INTERPRET": "0"})
        assert run.returncode == 0, run.stderr[-3000:]
        found += [json.loads(line) for line in run.stdout.splitlines()]
    return found


@pytest.mark.slow
def test_kernels_compile_and_those_in_common_use_spill_nothing(request, seed):
    """Some of the default, of the README, and of all others, drawn.

    With --every, all for both: 2,800 compilations of about a second each. What the tables of
    `benchmarks/kernels.py --all FOLDER` have, compiled from the same code, is taken from there if
    the variable GENDR_KERNELS names FOLDER.
    """
    generator, every = random.Random(seed), request.config.getoption("--every")
    rest = [x for x in specialisations() if x not in (*DEFAULT, *SHOWN)]
    common = []
    chosen = [
        x
        for rows, count in zip((DEFAULT, SHOWN), COMMON, strict=True)
        for x in (rows if every else generator.sample(rows, count))
    ]
    for x in chosen:
        drawn = CAPABILITIES if every else [generator.choice(CAPABILITIES)]
        common += [(x, capability, {}) for capability in drawn]
    others = []
    for capability in CAPABILITIES:
        drawn = rest if every else generator.sample(rest, SAMPLE)
        others += [(x, capability, {}) for x in drawn]
    # With too few registers a kernel spills: spills would be seen.
    narrow = (Specialisation("alpha_tiles", "uniform", "probabilistic"), CAPABILITIES[0])
    wanted = [*common, *others, (*narrow, {"maxnreg": 24})]
    *usages, narrowed = compiled(wanted)
    for index, (x, usage) in enumerate(zip(wanted[:-1], usages, strict=True)):
        assert usage["size"] > 0, x
        # Four programs of 128 threads at once; three where colours have the gradient of a scale.
        few = index < len(common) and x[0].kernel.startswith("alpha")
        assert 0 < usage["registers"] <= (128 if few else 255), x
        assert usage["local"] == 0 or index >= len(common), x
    assert narrowed["local"] > 0
    assert narrowed["registers"] <= 24


# A float32 scene where float64 is the default, of which all parameters are learnt.
DOUBLE = """
import torch
import gendr
from gendr.rendering.backends.triton import backend
from support.ahead_of_time import compile_launches

torch.set_default_dtype(torch.float64)
cases = compile_launches()
backend.available, backend.supports = lambda: None, lambda _: True
for dist, tconorm, learnable in cases:
    mesh, camera = (
        x.to(torch.float32) for x in (gendr.mesh.icosphere(0), gendr.look_at(3.0, 20.0, 0.0))
    )
    vertices = mesh.vertices.requires_grad_()
    renderer = gendr.Renderer(16, dist, tconorm, 0.1, backend="triton", learnable=learnable)
    out = renderer(mesh.with_vertices(vertices), camera)
    (out.alpha.sum() + out.rgb.sum()).backward()
"""
LAUNCHED = """depth_ranges project_faces face_tables alpha_tiles face_tables softmax_tiles
softmax_gradients alpha_gradients project_gradients""".split()


@pytest.mark.every
@pytest.mark.slow
def test_float64_as_default_changes_no_kernel(seed):
    capability = CAPABILITIES[seed % len(CAPABILITIES)]
    case = "uniform", "probabilistic", ["scale"]
    found = launches_compiled(DOUBLE, [case], [capability])
    assert sorted(kernel for kernel, *_ in found) == sorted(LAUNCHED)
    for *what, usage in found:
        assert usage.local == 0, what


def test_a_process_that_interprets_compiles_nothing(monkeypatch):
    from support.ahead_of_time import compile_ahead

    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(RuntimeError, match="TRITON_INTERPRET is set"):
        compile_ahead(DEFAULT[0], 80)


def test_tables_of_compiled_kernels_are_used_if_the_code_is_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("GENDR_KERNELS", str(tmp_path))
    x = Specialisation("face_tables")
    found = run_python(TABLE, str(tmp_path), env={"TRITON_INTERPRET": "0"})
    assert found.returncode == 0, found.stderr[-3000:]
    assert compiled([(x, 90, {})])[0]["size"] == 1
    assert compiled([(x, 80, {})])[0]["size"] > 1  # the table has it from other code


TABLE = """
import csv, sys
from pathlib import Path
import triton
from support.ahead_of_time import Specialisation, fingerprint

used = {"registers": 40, "local": 8, "shared": 0, "size": 1, "failed": ""}
right = fingerprint(Specialisation("face_tables"))
with (Path(sys.argv[1]) / f"kernels-{triton.__version__}.csv").open("w", newline="") as file:
    writer = csv.DictWriter(file, ["fingerprint", "capability", *used])
    writer.writeheader()
    writer.writerow({"fingerprint": right, "capability": 90, **used})
    writer.writerow({"fingerprint": right[::-1], "capability": 80, **used})
"""


SUMMARY = """
import csv, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import kernels

order = kernels.in_order_of_interest()
assert sorted(order) == sorted(kernels.specialisations())
bodies = list(kernels.one_of_each_body())
assert order[: len(bodies)] == bodies
used = {"registers": "40", "local": "8", "shared": "0", "size": "1", "seconds": "1", "failed": ""}
rows = [kernels.named(x, 90) | used for x in bodies]
rows[3] |= {"failed": "CompilationError: of this test"}
kernels.write(Path(sys.argv[2]) / "kernels-3.6.0.csv", rows, [*kernels.COLUMNS, "failed"])
print(len(bodies))
print("\\n".join(kernels.summed_up(Path(sys.argv[2]))))
"""


def test_what_compiles_is_summed_up(tmp_path):
    benchmarks = str(Path(__file__).parents[2] / "benchmarks")
    run = run_python(SUMMARY, benchmarks, str(tmp_path), env={"TRITON_INTERPRET": "0"})
    assert run.returncode == 0, run.stderr[-3000:]
    count, *lines = run.stdout.splitlines()
    assert f"| 3.6.0 | 90 | one of each body | {count} | {count} | 1 |" in lines
    assert f"| 3.6.0 | 80 | one of each body | {count} | 0 | 0 |" in lines
    assert any("90: CompilationError: of this test" in line for line in lines)
    assert any(
        line.startswith("| 3.6.0 | 90 | scan_tiles | 1 of 1 | 40, 40, 40 | 1 | 8 |")
        for line in lines
    )
