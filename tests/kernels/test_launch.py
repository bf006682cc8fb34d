"""Direct launches: the same compiled kernels and arguments as those that Triton picks."""

import json
import os

import pytest

from support.processes import run_python

pytest.importorskip("triton")

KERNELS = """
import triton
import triton.language as tl

@triton.jit
def scaled(x, n, out, factor, also, FACTOR: tl.constexpr, BLOCK: tl.constexpr = 8):
    tl.store(out + n, tl.load(x) * factor * FACTOR + tl.load(also))

@triton.jit(do_not_specialize=["n"])
def counted(n, out, BLOCK: tl.constexpr):
    tl.store(out, n)

@triton.jit
def no_numbers(x, out, BLOCK: tl.constexpr):
    tl.store(out, tl.load(x))
"""

# In a process of its own, which does not interpret Triton. Every compiled kernel is a stand-in that
# knows what Triton compiled it for, and notes with what it is launched.
SCRIPT = """
import json
import kernels_of_test as kernels
import torch, triton, triton.compiler
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction
from gendr.kernels.triton import launch
from gendr.kernels.triton.launch import Launcher, run

launched, by_triton = [], [0]

def address(x):
    return x.data_ptr() if isinstance(x, torch.Tensor) else x

class Compiled:
    function, packed_metadata = "function", "metadata"
    def __init__(self, what):
        self.what = what
    def launch_metadata(self, *_):
        return None
    def run(self, x, y, z, stream, function, metadata, *rest):
        hooks, args = rest[:3], rest[3:]
        launched.append([self.what, [x, y, z], stream, function, metadata,
                         [repr(address(a)) for a in args]])

def compiled(source, target, options):
    what = [source.fn.__name__, source.signature, sorted(map(str, source.attrs.items())),
            sorted(map(str, source.constants.items())), options["num_warps"]]
    return Compiled(json.loads(json.dumps(what, default=str)))

original = JITFunction.run
def counting(self, *args, **options):
    by_triton[0] += 1
    return original(self, *args, **options)

cpu = torch.device("cpu")
memory = torch.zeros(64)
whole, later, half = memory[16:], memory[17:], torch.zeros(64, dtype=torch.float16)
longs, nothing = torch.zeros(8, dtype=torch.int64), memory[:0]
triton.compiler.compile, JITFunction.run = compiled, counting
out = {}

def both(name, call, reference):
    "What two ways of launching do, and how often Triton launched in the first."
    launched.clear()
    by_triton[0] = 0
    call()
    ours, count = list(launched), by_triton[0]
    launched.clear()
    reference()
    out[name] = {"ours": ours, "triton": list(launched), "by triton": count}

def sequence(name, kernel, calls, **constants):
    launcher = Launcher(kernel, cpu, **constants)
    def direct():
        for grid, args in calls * 2:
            launcher(grid, *args)
    def reference():
        for grid, args in calls * 2:
            if 0 not in grid:  # which launches nothing
                kernel[grid](*args, **constants)
    both(name, direct, reference)

class Driver:
    "The part of a driver that a launch asks before it calls CUDA."
    def get_current_device(self):
        return 0
    def get_current_stream(self, _):
        return 0
    def get_current_target(self):
        return triton.backends.compiler.GPUTarget("cuda", 90, 32)

stub = Driver()
driver.set_active(stub)

sizes = [((1,), (whole, n, memory, 0.5, memory))
         for n in (1, 2, 16, 17, 32, 2**31 - 1, 2**31, 2**40)]
sequence("sizes", kernels.scaled, sizes, FACTOR=2, num_warps=2)
sequence("aligned or not", kernels.scaled,
         [((3, 2), (a, 5, b, 2.0, c)) for a in (whole, later) for b in (memory, later)
          for c in (nothing, later)], FACTOR=2)
sequence("grids", kernels.scaled, [(g, (whole, 5, memory, 2.0, memory))
         for g in ((4,), (4, 3), (4, 3, 2), (0,), (4, 0))], FACTOR=2, BLOCK=4)
sequence("floats", kernels.scaled, [((1,), (whole, 5, memory, f, memory))
         for f in (0.5, 1.0, 0.0, -1.0)], FACTOR=2)
sequence("not specialised", kernels.counted, [((1,), (n, memory)) for n in (1, 16, 5)], BLOCK=4)
sequence("no numbers", kernels.no_numbers, [((1,), (whole, memory))], BLOCK=4)

def anything(do):
    for k in range(2):
        for constant in (1, True, 1.0, 2):
            for number in (1, True, 16):
                for x in (whole, later, half, longs):
                    do(x, number, constant)
def directly(x, n, c):
    run(kernels.scaled, (2,), cpu, x, n, memory, 1.0, x, FACTOR=c)
def by_triton_alone(x, n, c):
    kernels.scaled[(2,)](x, n, memory, 1.0, x, FACTOR=c)
both("any arguments", lambda: anything(directly), lambda: anything(by_triton_alone))

plain = ((1,), (whole, 5, memory, 2.0, memory))
def hooked(set_hook):
    launcher = Launcher(kernels.scaled, cpu, FACTOR=3)
    launcher(plain[0], *plain[1])
    by_triton[0] = 0
    launcher(plain[0], *plain[1])
    before = by_triton[0]
    undo = set_hook()
    launcher(plain[0], *plain[1])
    undo()
    launcher(plain[0], *plain[1])
    return [before, by_triton[0]]

def enter():
    chain, note = triton.knobs.runtime.launch_enter_hook, lambda *_: None
    if chain is None:
        triton.knobs.runtime.launch_enter_hook = note
        return lambda: setattr(triton.knobs.runtime, "launch_enter_hook", None)
    chain.add(note)
    return lambda: chain.remove(note)

def leave():
    before = triton.knobs.runtime.launch_exit_hook
    triton.knobs.runtime.launch_exit_hook = lambda *_: None
    return lambda: setattr(triton.knobs.runtime, "launch_exit_hook", before)

def before_run():
    kernels.scaled.add_pre_run_hook(lambda *_, **__: None)
    return kernels.scaled.pre_run_hooks.clear

def other_device():
    stub.get_current_device = lambda: 1
    return lambda: delattr(stub, "get_current_device")

out["hooks"] = {f.__name__: hooked(f) for f in (enter, leave, before_run, other_device)}

launcher = Launcher(kernels.counted, cpu, BLOCK=4)
for n in range(3 * launch._MOST):
    launcher((1,), n, memory)
out["kept"] = len(launcher._kept)

launch.knows = lambda *_: False
launcher, by_triton[0] = Launcher(kernels.scaled, cpu, FACTOR=2), 0
for _ in range(3):
    launcher(plain[0], *plain[1])
out["unknown version"] = by_triton[0]
print(json.dumps(out))
"""


# Calls of which Triton launches the first of each kind.
FIRST = {
    "sizes": 8,
    "aligned or not": 15,  # of 16: one call has aligned tensors only, and comes twice
    "grids": 1,
    "floats": 4,
    "not specialised": 3,
    "no numbers": 1,
    "any arguments": 96 - 36,  # of 96: of four tensors one is never aligned
}


@pytest.mark.slow
@pytest.mark.rotating(4, group="compiled ahead")
def test_the_same_kernels_are_launched_with_the_same_arguments(tmp_path):
    """Grid, stream, constants and what Triton specialises on: 1, multiples of 16, addresses."""
    (tmp_path / "kernels_of_test.py").write_text(KERNELS)
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(tmp_path)])
    run = run_python(SCRIPT, env={"TRITON_INTERPRET": "0", "PYTHONPATH": path})
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    for case, first_launches in FIRST.items():
        assert found[case]["ours"] == found[case]["triton"], case
        assert len(found[case]["ours"]) > 1
        assert found[case]["by triton"] == first_launches, case
    # Triton launches while somebody looks, and by itself where its version is unknown.
    assert [*found["hooks"].values()] == [[0, 1]] * 4, found["hooks"]
    assert found["unknown version"] == 3
    assert 0 < found["kept"] <= 256
