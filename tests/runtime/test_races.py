"""The detector of races sees what it is for, and nothing else."""

import numpy as np
import pytest
import torch

triton = pytest.importorskip("triton", reason="Triton has no wheels for this platform")

import triton.language as tl  # noqa: E402  (after the skip)

from gendr._runtime.triton.launch import interpreted  # noqa: E402
from support.races import RaceError, checked_launches, random_grid_order  # noqa: E402

pytestmark = pytest.mark.skipif(not interpreted(), reason="it hooks the interpreter")

BLOCK = 8


@triton.jit
def reversing(x, out, BARRIER: tl.constexpr, BLOCK: tl.constexpr):
    """Every lane stores, and loads what another has stored."""
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i))
    if BARRIER:
        tl.debug_barrier()
    found = tl.load(out + (BLOCK - 1 - i))
    if BARRIER:
        tl.debug_barrier()
    tl.store(out + i, found)


@triton.jit
def again(x, STEPS: tl.constexpr, BARRIER: tl.constexpr, BLOCK: tl.constexpr):
    """Every lane loads what it has itself stored."""
    i = tl.arange(0, BLOCK)
    step = 0
    while step < STEPS:
        tl.store(x + i, tl.load(x + i) + 1.0)
        if BARRIER:
            tl.debug_barrier()
        step += 1


@triton.jit
def shifting(x, BARRIER: tl.constexpr, BLOCK: tl.constexpr):
    """Every lane stores where another has loaded."""
    i = tl.arange(0, BLOCK)
    found = tl.load(x + i + 1)
    if BARRIER:
        tl.debug_barrier()
    tl.store(x + i, found)


@triton.jit
def colliding(out, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Lanes store side by side, or if WIDTH is smaller in one place."""
    i = tl.arange(0, BLOCK)
    tl.store(out + i % WIDTH, i.to(tl.float32))


@triton.jit
def scalar(x, out, BARRIER: tl.constexpr):
    """One thread stores what all load."""
    tl.store(out, tl.load(x))
    if BARRIER:
        tl.debug_barrier()
    tl.store(out + 1, tl.load(out))


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
def flagging(flag, values):
    """Programs store the same in one place, or their numbers."""
    value = tl.load(values + tl.program_id(0))
    tl.store(flag, value)


@triton.jit
def copying(x, out, n, MASK: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if MASK:
        tl.store(out + i, tl.load(x + i, i < n, 0.0), i < n)
    else:
        tl.store(out + i, tl.load(x + i))


@triton.jit
def numbering(order, count):
    """The turn of every program."""
    turn = tl.load(count)
    tl.store(order + tl.program_id(0), turn)
    tl.store(count, turn + 1)


def ramp(count=BLOCK):
    return torch.arange(count, dtype=torch.float32)


def findings(kernel, grid, *args, strict=True, shared=(), **constants):
    """The lines that a launch is reported with."""
    with checked_launches(strict=strict, shared=shared):
        try:
            kernel[grid](*args, **constants)
        except RaceError as error:
            return str(error).splitlines()
    return []


@pytest.mark.parametrize("strict", [False, True])
def test_a_barrier_that_is_missing_is_reported(strict):
    x, out = ramp(), torch.zeros(BLOCK)
    run = {"BLOCK": BLOCK, "strict": strict}
    assert findings(reversing, (1,), x, out, BARRIER=True, **run) == []
    assert torch.equal(out, x.flip(0))
    found = findings(reversing, (1,), x, out, BARRIER=False, **run)
    assert torch.equal(out, x.flip(0))  # the interpreter alone would not have noticed
    kinds = ("store and load", "store and store", "load and store")
    for kind, line in zip(kinds[:1] + kinds[1 if strict else 2 :], found, strict=True):
        assert line.startswith(f"between lanes: {kind}, reversing: out[")
        assert "test_races.py:" in line


def test_the_same_lane_may_be_in_another_thread():
    run = {"STEPS": 2, "BLOCK": BLOCK}
    loose = findings(again, (1,), ramp(), BARRIER=False, strict=False, **run)
    strict = findings(again, (1,), ramp(), BARRIER=False, **run)
    assert loose == []
    assert [line.split(",")[0] for line in strict] == [
        "between lanes: store and load",
        "between lanes: store and store",
    ]
    assert findings(again, (1,), ramp(), BARRIER=True, **run) == []


def test_a_store_behind_the_load_of_another_lane_is_reported():
    found = findings(shifting, (1,), ramp(BLOCK + 1), BARRIER=False, BLOCK=BLOCK)
    assert [line.split(",")[0] for line in found] == ["between lanes: load and store"]
    assert findings(shifting, (1,), ramp(BLOCK + 1), BARRIER=True, BLOCK=BLOCK) == []


def test_two_lanes_that_store_to_one_place_are_reported():
    assert findings(colliding, (1,), ramp(), WIDTH=BLOCK, BLOCK=BLOCK) == []
    (found,) = findings(colliding, (1,), ramp(), WIDTH=BLOCK // 2, BLOCK=BLOCK)
    assert found.startswith("between lanes: store and store, colliding: out[0]")


def test_a_scalar_is_stored_by_one_and_loaded_by_all():
    for strict in (False, True):
        args = (ramp(), torch.zeros(2))
        (found,) = findings(scalar, (1,), *args, BARRIER=False, strict=strict)
        assert found.startswith("between lanes: store and load, scalar: out[0]")
        assert findings(scalar, (1,), *args, BARRIER=True, strict=strict) == []


def test_two_programs_that_store_to_one_place_are_reported():
    out = torch.zeros(4 * BLOCK)
    assert findings(spreading, (4,), out, STEP=BLOCK, BLOCK=BLOCK) == []
    (found,) = findings(spreading, (4,), out, STEP=BLOCK - 1, BLOCK=BLOCK)
    assert found.startswith(f"between programs: store and store, spreading: out[{BLOCK - 1}]")


def test_a_program_that_loads_what_another_stores_is_reported():
    x = ramp(5 * BLOCK)
    assert findings(neighbours, (4,), x, torch.zeros(4 * BLOCK), BLOCK=BLOCK) == []
    (found,) = findings(neighbours, (4,), x, x, BLOCK=BLOCK)
    assert found.startswith(f"between programs: load and store, neighbours: x[{BLOCK}]")
    with random_grid_order(3):  # now also in the other order
        found = findings(neighbours, (4,), x, x, BLOCK=BLOCK)
    assert any("store and load" in line for line in found)


def test_views_of_one_storage_are_one_memory():
    """The second output begins inside the first; the item of the third is another."""
    whole = torch.zeros(2 * BLOCK)
    assert findings(copying, (1,), ramp(), whole[BLOCK:], BLOCK, MASK=True, BLOCK=BLOCK) == []
    found = findings(reversing, (1,), whole[:BLOCK], whole[4:], BARRIER=True, BLOCK=BLOCK)
    assert any("between lanes: load and store" in line for line in found)
    doubles = whole.view(torch.float64)
    found = findings(copying, (2,), doubles, whole, BLOCK, MASK=False, BLOCK=BLOCK // 2)
    assert any("between programs: load and store" in line for line in found)


def test_atomics_are_no_race_and_adding_up_without_them_is():
    out = torch.zeros(1)
    assert findings(counting, (4,), out, ATOMIC=True) == []
    assert out == 4
    found = findings(counting, (4,), out, ATOMIC=False)
    assert any(line.startswith("between programs: store and load") for line in found)


def test_the_same_value_from_several_programs_may_be_declared():
    flag, same, others = torch.zeros(1), torch.ones(3), ramp(3)
    assert findings(flagging, (3,), flag, same)
    flag.zero_()
    assert findings(flagging, (3,), flag, same, shared=("flag",)) == []
    (found,) = findings(flagging, (3,), flag, others, shared=("flag",))
    assert "store and store, flagging: flag[0]" in found


@pytest.mark.parametrize("short", ["x", "out"])
def test_an_access_out_of_bounds_is_reported_and_not_made(short):
    """Not even where the memory behind belongs to another tensor that was passed."""
    guard = torch.full((3 * BLOCK,), 7.0)
    x, out = guard[:BLOCK], guard[BLOCK : 2 * BLOCK]
    n = BLOCK - 3
    args = (x[:n], out) if short == "x" else (x, out[:n])
    assert findings(copying, (1,), *args, n, MASK=True, BLOCK=BLOCK) == []
    guard[BLOCK:] = 9.0
    (found,) = findings(copying, (1,), *args, n, MASK=False, BLOCK=BLOCK)
    kind = "load" if short == "x" else "store"
    assert found.startswith(f"out of bounds: {kind} of {n} elements, copying: {short}[{n}]")
    if short == "x":
        assert not out[n:].any()  # what was not loaded is 0
    else:
        assert (out[n:] == 9).all()


def test_a_pointer_before_the_tensor_is_out_of_bounds():
    x = ramp(2 * BLOCK)
    found = findings(copying, (1,), x[1:0], torch.zeros(BLOCK), 0, MASK=False, BLOCK=BLOCK)
    assert found[0].startswith("out of bounds: load of 0 elements, copying: x[0]")


def test_launches_are_counted():
    with checked_launches() as watch:
        spreading[(3,)](torch.zeros(3 * BLOCK), STEP=BLOCK, BLOCK=BLOCK)
        copying[(1,)](ramp(), torch.zeros(BLOCK), BLOCK, MASK=True, BLOCK=BLOCK)
    assert (watch.kernels, watch.programs) == (["spreading", "copying"], [3, 1])
    assert watch.accesses == [3, 2]


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
    assert orders[1] != orders[0]
    assert orders[1] != orders[3]
    assert all(sorted(order) == orders[0] for order in orders)


def test_everything_is_put_back():
    from triton.runtime import interpreter

    before = dict(vars(interpreter.InterpreterBuilder))
    with pytest.raises(ZeroDivisionError), checked_launches(), random_grid_order(0):
        raise ZeroDivisionError
    after = dict(vars(interpreter.InterpreterBuilder))
    assert before == after
    out = torch.zeros(BLOCK)
    colliding[(1,)](out, WIDTH=1, BLOCK=BLOCK)
    assert np.isfinite(out.numpy()).all()
