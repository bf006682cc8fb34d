"""The detector of races sees what it is for, and nothing else."""

import pytest
import torch

triton = pytest.importorskip("triton", reason="Triton has no wheels for this platform")

import triton.language as tl  # noqa: E402  (after the skip)

from support.races import RaceError, checked_launches, random_grid_order  # noqa: E402

pytestmark = pytest.mark.skipif(
    not triton.knobs.runtime.interpret, reason="it hooks the interpreter"
)

BLOCK = 8


@triton.jit
def reversing(x, out, BARRIER: tl.constexpr, BLOCK: tl.constexpr):
    """Every lane stores, loads what another has stored, and stores again."""
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i))
    if BARRIER:
        tl.debug_barrier()
    found = tl.load(out + (BLOCK - 1 - i))
    if BARRIER:
        tl.debug_barrier()
    tl.store(out + i, found)


@triton.jit
def again(x, BARRIER: tl.constexpr, BLOCK: tl.constexpr):
    """Every lane stores what it has loaded, and loads what it has itself stored."""
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) + 1.0)
    if BARRIER:
        tl.debug_barrier()
    tl.store(x + i, tl.load(x + i) + 1.0)


@triton.jit
def shifting(x, BARRIER: tl.constexpr, BLOCK: tl.constexpr):
    """Every lane stores where another has loaded."""
    i = tl.arange(0, BLOCK)
    found = tl.load(x + i + 1)
    if BARRIER:
        tl.debug_barrier()
    tl.store(x + i, found)


@triton.jit
def scalar(x, out, BARRIER: tl.constexpr):
    """One thread stores what all load."""
    tl.store(out, tl.load(x))
    if BARRIER:
        tl.debug_barrier()
    tl.store(out + 1, tl.load(out))


@triton.jit
def colliding(out, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Lanes store side by side, or if WIDTH is smaller in one place."""
    i = tl.arange(0, BLOCK)
    tl.store(out + i % WIDTH, i.to(tl.float32))


@triton.jit
def spreading(out, STEP: tl.constexpr, BLOCK: tl.constexpr):
    """Programs store STEP apart."""
    i = tl.program_id(0) * STEP + tl.arange(0, BLOCK)
    tl.store(out + i, i.to(tl.float32))


@triton.jit
def neighbours(x, out, BLOCK: tl.constexpr):
    """Programs load what the next one stores, if x is out."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i + BLOCK))


@triton.jit
def counting(out, ATOMIC: tl.constexpr):
    """Programs add up in one place."""
    if ATOMIC:
        tl.atomic_add(out, 1.0)
    else:
        tl.store(out, tl.load(out) + 1.0)


@triton.jit
def copying(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n, 0.0), i < n)


@triton.jit
def numbering(order, count):
    """The turn of every program."""
    turn = tl.load(count)
    tl.store(order + tl.program_id(0), turn)
    tl.store(count, turn + 1)


def ramp(count):
    return torch.arange(count, dtype=torch.float32)


def findings(kernel, programs, *args, **constants):
    """What a launch is reported with, without the lines of the kernel."""
    lines = []
    with checked_launches() as watch:
        try:
            kernel[(programs,)](*args, **constants)
        except RaceError as error:
            lines += str(error).splitlines()
    assert (watch.kernels, watch.programs) == ([kernel.fn.__name__], [programs])
    assert all("test_races.py:" in line for line in lines)
    return [line.partition(", test_races.py")[0] for line in lines]


def test_what_a_gpu_would_leave_to_chance_is_reported():
    x, out, whole = ramp(5 * BLOCK), torch.zeros(5 * BLOCK), torch.zeros(2 * BLOCK)
    wide = {"BLOCK": BLOCK}
    lanes = "between lanes: {}, {}".format
    programs = "between programs: {}, {}".format
    for kernel, count, args, right, wrong, said in (
        (reversing, 1, (x, out), {"BARRIER": True, **wide}, {"BARRIER": False, **wide},
         [lanes(f"{one} and {other}", "reversing: out[0]")
          for one, other in (("store", "store"), ("store", "load"), ("load", "store"))]),
        (again, 1, (x,), {"BARRIER": True, **wide}, {"BARRIER": False, **wide},
         [lanes("store and store", "again: x[0]"), lanes("store and load", "again: x[0]")]),
        (shifting, 1, (x,), {"BARRIER": True, **wide}, {"BARRIER": False, **wide},
         [lanes("load and store", "shifting: x[1]")]),
        (scalar, 1, (x, out), {"BARRIER": True}, {"BARRIER": False},
         [lanes("store and load", "scalar: out[0]")]),
        (colliding, 1, (out,), {"WIDTH": BLOCK, **wide}, {"WIDTH": BLOCK // 2, **wide},
         [lanes("store and store", "colliding: out[0]")]),
        (spreading, 4, (out,), {"STEP": BLOCK, **wide}, {"STEP": BLOCK - 1, **wide},
         [programs("store and store", f"spreading: out[{BLOCK - 1}]")]),
        (counting, 4, (out,), {"ATOMIC": True}, {"ATOMIC": False},
         [lanes("load and store", "counting: out[0]"),
          programs("load and store", "counting: out[0]"),
          programs("store and store", "counting: out[0]")]),
    ):  # fmt: skip
        assert findings(kernel, count, *args, **right) == [], kernel
        assert sorted(findings(kernel, count, *args, **wrong)) == sorted(said), kernel
    assert findings(neighbours, 4, x, out, **wide) == []
    (found,) = findings(neighbours, 4, x, x, **wide)
    assert found == programs("load and store", f"neighbours: x[{BLOCK}]")
    # Views of one storage are one memory, also where their items are of different sizes.
    assert findings(copying, 1, x, whole[BLOCK:], BLOCK, **wide) == []
    found = findings(reversing, 1, whole[:BLOCK], whole[4:], BARRIER=True, **wide)
    assert any("between lanes: load and store" in line for line in found)
    found = findings(copying, 2, whole.view(torch.float64), whole, 2 * BLOCK, BLOCK=BLOCK // 2)
    assert any("between programs: load and store" in line for line in found)


def test_an_access_out_of_bounds_is_reported_and_not_made():
    """Not even where the memory behind belongs to another tensor that was passed."""
    for short in ("x", "out"):
        guard = torch.full((3 * BLOCK,), 7.0)
        x, out, n = guard[:BLOCK], guard[BLOCK : 2 * BLOCK], BLOCK - 3
        args = (x[:n], out) if short == "x" else (x, out[:n])
        assert findings(copying, 1, *args, n, BLOCK=BLOCK) == []
        guard[BLOCK:] = 9.0
        (found,) = findings(copying, 1, *args, BLOCK, BLOCK=BLOCK)
        kind = "load" if short == "x" else "store"
        assert found == f"out of bounds: {kind} of {n} elements, copying: {short}[{n}]"
        assert (out[n:] == (0 if short == "x" else 9)).all()  # what was not loaded is 0


def test_the_order_of_programs_is_random_and_complete():
    orders = []
    for seed in (None, 0, 0, 1):
        order, count = torch.full((12,), -1), torch.zeros(1, dtype=torch.int64)
        if seed is None:
            numbering[(12,)](order, count)
        else:
            with random_grid_order(seed):
                numbering[(12,)](order, count)
        orders.append(order.tolist())
    assert orders[0] == list(range(12))
    assert orders[1] == orders[2]
    assert orders[1] not in (orders[0], orders[3])
    assert all(sorted(order) == orders[0] for order in orders)
