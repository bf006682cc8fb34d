"""What is counted for a GPU without one: launches, waits, rounds of loops, machine code."""

import importlib
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch

import gendr
from support.processes import run_python

pytest.importorskip("triton")
pytestmark = pytest.mark.slow
FOLDER = Path(__file__).parents[1] / "benchmarks"

# In a process of its own: it must not interpret Triton, and the pretended device stays registered.
SCRIPT = """
import contextlib, json, sys
from unittest import mock
sys.path.insert(0, sys.argv[1])
import host_time, machine_code, pretend_gpu, torch, triton_programs
import kernels_of_test
import gendr

out = {}
there = pretend_gpu.device()
x = pretend_gpu.upload(torch.tensor([1.0, -2.0, 3.0]))
cases = {
    "add": lambda: x + 1,
    "view": lambda: x[1:].reshape(1, 2).detach(),
    "item": lambda: x[0].item(),
    "bool": lambda: bool((x > 0).all()),
    "tolist": lambda: x.tolist(),
    "cpu": lambda: x.cpu(),
    "upload": lambda: torch.tensor([1.0, 2.0], device=there),
    "nonzero": lambda: x.nonzero(),
    "mask": lambda: x[x > 0],
    "empty": lambda: torch.empty(3, device=there),
    "zeros": lambda: torch.zeros(3, device=there),
    "in place": lambda: x.clone().add_(1),
    "on host": lambda: torch.ones(3).sum().item(),
}
for name, case in cases.items():
    with pretend_gpu.recorded() as record:
        case()
    out[name] = record.total()

x = pretend_gpu.upload(torch.tensor([1.0, -2.0, 3.0])).requires_grad_()
with pretend_gpu.recorded() as record:
    (x * x).sum().backward()
out["grad"] = x.grad.tolist()
out["directions"] = [e.backward for e in record.events]

def launched(kernel, grid, *args, **constants):
    launch = pretend_gpu.Launch(kernel, grid, args, constants)
    return launch, triton_programs.execute(launch)

x, y = torch.arange(8, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
_, found = launched(kernels_of_test.rounds, (8,), x, y, y, BLOCK=4)
out["rounds"], out["stored"] = [n.tolist() for n in found.values()], y.tolist()
z = torch.zeros(8)
launch, found = launched(kernels_of_test.rounds, (8,), x, z, z, BLOCK=4)
out["counted only"], out["left out"] = [n.tolist() for n in found.values()], z.tolist()
code = machine_code.compiled(launch)
out["lanes"] = code.lanes
following, y = torch.arange(8, dtype=torch.int32) // 2, torch.zeros(8, dtype=torch.int32)
launch, found = launched(kernels_of_test.chased, (8,), following, y)
out["chased"] = [n.tolist() for n in found.values()]
code = machine_code.compiled(launch)
out["loops"], out["spills"] = len(code.loops), code.spills

observed = []
mesh = gendr.mesh.icosphere(0).scaled(0.5)
def launch(x):
    observed.append((x, triton_programs.execute(x)))
record = host_time.counted(mesh, 1, 64, host_time.INSTANCES[0], launch)
out["lines"] = [row[0] for row in record.by_line()]
steady = observed[-len(record.launches):]
out["step"] = {x.name: [n.tolist() for n in found.values()] for x, found in steady}
out["block"] = {x.name: x.constants.get("BLOCK") for x, _ in steady}
rounds = {}
def launch(x):
    rounds[x.name] = [n.tolist() for n in triton_programs.execute(x).values()]
gamma = host_time.Instance("gamma", {"near": 1.0, "far": 100.0, "dist": "gamma(shape=2)"})
host_time.counted(mesh, 1, 64, gamma, launch)
out["gamma"] = rounds
learnt = host_time.Instance(
    "learnt",
    {"near": 1.0, "far": 9.0, "tconorm": "yager(p=2)", "learnable": ("scale", "p", "gamma")},
)
steady = (*host_time.INSTANCES, learnt)
out["steady"] = {x.name: host_time.counted(mesh, 2, 16, x).total() for x in steady}
def third(call):
    for _ in range(3):
        with pretend_gpu.recorded() as record:
            call()
    return record.total()

step = host_time.Step(mesh, 2, 16, host_time.INSTANCES[0], pretended=True)
step.scale = pretend_gpu.upload(torch.tensor([1e-2, 2e-2])).requires_grad_()
out["steady"]["scale"] = third(step)
corners = pretend_gpu.upload(torch.rand(2, 5, 3, 3)).requires_grad_()
grad = pretend_gpu.upload(torch.rand(2, 16, 16))
out["steady"]["silhouette"] = third(
    lambda: gendr.silhouette(corners, 16, scale=step.scale).backward(grad)
)

step = host_time.Step(mesh, 2, 16, host_time.INSTANCES[0], pretended=True)
with pretend_gpu.recorded():
    step()
with contextlib.ExitStack() as stack:
    for name, module in list(sys.modules.items()):
        if name.startswith("gendr.") and hasattr(module, "capturing"):
            stack.enter_context(mock.patch.object(module, "capturing", return_value=True))
    with pretend_gpu.recorded() as record:
        step()
out["captured"] = [*record.total(), [e.what for e in record.events]]
calls = []
with mock.patch.object(pretend_gpu._Compiled, "run", lambda *_: calls.append(1)):
    assert host_time.host_seconds(1, host_time.INSTANCES[0], 2) > 0
counted = host_time.counted(gendr.mesh.icosphere(2).scaled(0.5), 1, 8, host_time.INSTANCES[0])
# Where time is taken, no list is longer than a segment.
counted = [x.name for x in counted.launches if x.name != "join_segments"]
out["host"] = host_time.WARM + 2, len(calls), len(counted)
print(json.dumps(out))
"""

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def doubled(x, FACTOR: tl.constexpr):
    return x * FACTOR, x

@triton.jit
def chased(following, out):
    k = tl.program_id(0)
    while k > 0:
        k = tl.load(following + k)
    tl.store(out + tl.program_id(0), k)

@triton.jit
def rounds(times, out, also, BLOCK: tl.constexpr):
    # Program i goes around times[i] times and stores the sum of i + 0, ..., i + BLOCK - 1, that
    # often; odd programs twice that.
    i = tl.program_id(0)
    left = tl.load(times + i)
    total = tl.zeros([BLOCK], tl.int32)
    while left > 0:
        total += i + tl.arange(0, BLOCK)
        left -= 1
    where = out + i
    if i % 2 == 1:
        total, _ = doubled(total, 2)
    tl.store(where, tl.sum(tl.sum(total[None, :], 1), 0))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "kernels_of_test.py").write_text(KERNEL)
    root = Path(gendr.__file__).parents[1]
    path = os.pathsep.join([str(root), str(folder)])
    run = run_python(SCRIPT, FOLDER, env={"TRITON_INTERPRET": "0", "PYTHONPATH": path})
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.fixture(scope="module")
def machine_code():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        return importlib.import_module("machine_code")


@pytest.mark.parametrize(
    ("case", "launches", "waits"),
    [
        ("add", 1, 0), ("view", 0, 0), ("item", 0, 1), ("bool", 2, 1), ("tolist", 1, 1),
        ("cpu", 1, 1), ("upload", 1, 1), ("nonzero", 3, 1), ("mask", 5, 1), ("empty", 0, 0),
        ("zeros", 1, 0), ("in place", 2, 0), ("on host", 0, 0),
    ],
)  # fmt: skip
def test_launches_and_waits_of_operators(found, case, launches, waits):
    assert found[case] == [launches, waits]


def test_gradients_are_right_and_told_apart(found):
    assert found["grad"] == [2.0, -4.0, 6.0]
    directions = found["directions"]
    assert directions == sorted(directions)
    assert {False, True} == set(directions)


def test_programs_store_and_count_rounds(found):
    assert found["rounds"] == [list(range(8))]
    assert found["stored"] == [i * (4 * i + 6) * (1 + i % 2) for i in range(8)]


def test_kernels_that_store_floats_in_loops_are_only_counted(found):
    assert found["counted only"] == [list(range(8))]
    assert found["left out"] == [0.0] * 8


def test_rounds_may_depend_on_what_is_loaded(found):
    assert found["chased"] == [[0, 1, 2, 2, 3, 3, 3, 3]]


def test_machine_code_of_a_launch(found):
    assert found["loops"] == 1
    assert found["lanes"] == 4
    assert found["spills"] == 0


def test_lines_are_of_gendr(found):
    root = Path(gendr.__file__).parents[1]
    lines = [line.removeprefix("backward of ") for line in found["lines"]]
    assert any(line.startswith("gendr/rendering/backends/triton/") for line in lines)
    assert any(line.startswith("backward of gendr/rendering/") for line in found["lines"])
    for line in lines:
        if line.startswith("gendr/"):
            file, number = line.split()[0].split(":")
            assert len((root / file).read_text().splitlines()) >= int(number)


def test_rounds_of_faces_follow_from_their_extent(found):
    """A face's program walks the box of the pixels within the radius, a block at a time."""
    renderer = gendr.Renderer(64, near=1.0, far=100.0)
    mesh, camera = gendr.mesh.icosphere(0).scaled(0.5), gendr.look_at(2.732, 30.0, 0.0)
    faces, _ = gendr.rendering.geometry.project_faces(mesh, camera, 1.0, 100.0)
    radius = renderer.dist.radius(torch.tensor([1e-2]), renderer.cutoff)[0]
    centres = gendr.rendering.geometry.ImageSize(64, 64).centres(
        torch.arange(64 * 64), torch.float32
    )
    d = gendr.rendering.fragments.signed_distance(centres[:, None], faces.corners)
    block = found["block"]["alpha_gradients"]
    (rounds,) = found["step"]["alpha_gradients"]
    shares = len(rounds) // len(mesh.faces)
    for face, near in enumerate((d >= -radius).T.reshape(-1, 64, 64)):
        rows, columns = near.nonzero().unbind(-1)
        high, wide = int(np.ptp(rows.numpy())) + 1, int(np.ptp(columns.numpy())) + 1
        total = sum(rounds[face + share * len(mesh.faces)] for share in range(shares))
        # The outermost row or column may hold no pixel that is within the radius.
        assert math.ceil(high * wide / block) <= total <= math.ceil((high + 2) * (wide + 2) / block)


def test_programs_of_laws_with_bits_and_sums_of_their_own_are_counted(found):
    """Those of a gamma law; the tiles of an image walk all of its faces, whatever the law is."""
    assert found["gamma"].keys() == found["step"].keys()
    loops = found["gamma"]["alpha_tiles"]  # the law has more of its own
    assert all(rounds in loops for rounds in found["step"]["alpha_tiles"])
    # It is 0 outside of a face: the boxes are smaller.
    fewer, (rounds,) = found["gamma"]["alpha_gradients"][0], found["step"]["alpha_gradients"]
    assert all(a <= b for a, b in zip(fewer, rounds, strict=True))
    assert 0 < sum(fewer) < sum(rounds)


@pytest.mark.parametrize(
    ("instance", "most"),
    [("default", 7), ("README", 8), ("learnt", 25), ("scale", 16), ("silhouette", 23)],
)
def test_a_steady_step_waits_for_nothing_and_launches_little(found, instance, most):
    launches, waits = found["steady"][instance]
    assert waits == 0
    assert 5 < launches <= most


def test_a_step_that_a_cuda_graph_captures_copies_nothing_to_the_host(found):
    _, waits, operators = found["captured"]
    assert waits == 0
    assert "project_faces" in operators
    assert not {"copy_", "_to_copy"} & set(operators)


def test_host_time_is_that_of_steps_that_launch_what_is_counted(found):
    steps, launches, counted = found["host"]
    assert counted > 5
    assert launches == steps * counted


# -- machine code

WORDS = {"": 0x000FE20000000000, "sets 0": 0x000E220000000000, "awaits 0": 0x001FE20000000000}


def text_of(lines):
    """Instructions as `cuobjdump -sass` prints them: 1 cycle after each, and barriers."""
    out = ["\t\tFunction : f"]
    for i, (code, barrier) in enumerate(lines):
        out.append(f"        /*{16 * i:04x}*/  {code} ;  /* 0x0000000000000000 */")
        out.append(f"                          /* 0x{WORDS[barrier]:016x} */")
    return "\n".join(out)


LOOP = text_of(
    [
        ("S2R R0, SR_CTAID.X", ""),  # 0
        ("LDG.E R2, desc[UR4][R2.64]", "sets 0"),  # 10: the loop begins
        ("FFMA R3, R2, R2, R3", "awaits 0"),  # 20
        ("@P1 BRA 0x0050", ""),  # 30: may skip the next
        ("MUFU.EX2 R4, R3", ""),  # 40
        ("@!P0 BRA 0x0010", ""),  # 50
        ("STG.E desc[UR4][R2.64], R3", ""),  # 60
        ("EXIT", ""),  # 70
        ("BRA 0x80", ""),  # 80: padding
        ("NOP", ""),  # 90
    ]
)


def test_loops_are_found_and_counted(machine_code):
    code = machine_code.parse(LOOP)
    assert [x.opcode for x in code[:2]] == ["S2R", "LDG.E"]
    loop, rest = machine_code.stretches(code)
    assert (len(loop.code), loop.skipped, loop.depth) == (5, 1, 1)
    assert [x.opcode for x in rest.code] == ["S2R", "STG.E", "EXIT"]
    busy = loop.busy()
    assert busy["issue"] == 5
    assert (busy["special"], busy["memory"], busy["float"]) == (8.0, 4.0, 1.0)


def test_inner_loops_are_apart_from_outer(machine_code):
    lines = [("IADD3 R0, R0, R1, RZ", "")] * 6
    lines[2] = ("@P0 BRA 0x0010", "")
    lines[4] = ("@P0 BRA 0x0000", "")
    outer, inner, rest = machine_code.stretches(machine_code.parse(text_of(lines)))
    assert [len(x.code) for x in (outer, inner, rest)] == [3, 2, 1]
    assert [x.depth for x in (outer, inner, rest)] == [1, 2, 0]


def test_a_lone_warp_waits_for_its_loads(machine_code):
    loop, _ = machine_code.stretches(machine_code.parse(LOOP))
    quick, slow = (machine_code.Assumptions(load_cycles=c) for c in (100.0, 300.0))
    assert loop.alone(slow) - loop.alone(quick) == pytest.approx(200.0)
    assert loop.alone(quick) > 100.0


def code_of(machine_code, warps=4, lanes=256):
    parts = tuple(machine_code.stretches(machine_code.parse(LOOP)))
    return machine_code.Code(parts, warps, lanes, 32, 0, 0)


def test_time_is_that_of_the_longest_program_or_of_the_busiest_unit(machine_code):
    given, code = machine_code.Assumptions(kernel_us=0.0), code_of(machine_code)
    even, uneven = np.full(10_000, 10), np.r_[100_000, np.zeros(9_999, int)]
    a, b = (machine_code.cost(code, [n], 10_000, 0, given) for n in (even, uneven))
    assert a.busy_us == pytest.approx(b.busy_us)
    assert b.us == b.longest_us > 100 * a.us
    assert a.pairs == 10_000 * 10 * 256
    assert a.per_pairs == 5 * 4 * 32 / 256
    # Its special unit takes 8 cycles a round, its others fewer.
    assert a.busy_us == pytest.approx(1e6 * 10_000 * 4 * 10 * 8 / (132 * 4 * 1.8e9))


def test_time_is_at_least_that_of_memory_and_of_any_kernel(machine_code):
    code, given = code_of(machine_code), machine_code.Assumptions()
    nothing = [np.zeros(1, int)]
    assert machine_code.cost(code, nothing, 1, 0, given).us == given.kernel_us
    assert machine_code.cost(code, nothing, 1, 48 * 10**6, given).us == pytest.approx(10.0)


def test_loops_that_the_compiler_split_are_matched_and_marked(machine_code):
    found = machine_code.cost(
        code_of(machine_code), [np.array([1]), np.array([7])], 1, 0, machine_code.Assumptions()
    )
    assert not found.exact
    assert found.rounds == 7


def test_rooms_for_warps(machine_code):
    def resident(registers, warps, shared):
        return machine_code.Code((), warps, 32, registers, 0, shared).resident()

    assert resident(32, 4, 0) == 16  # all 64 of a multiprocessor
    assert resident(128, 4, 0) == 4
    assert resident(32, 1, 0) == 8  # 32 programs
    assert resident(32, 4, 100 * 1024) == 2
