"""Threads of the compiled kernels."""

import os
import sys
import threading
import time
import weakref

import numpy as np
import pytest
import torch

import gendr
from gendr import primitives as dr
from gendr import set_num_threads
from gendr.kernels import threads
from gendr.kernels.threads import Beside, mapped, num_threads, run, torch_on_one_thread
from gendr.mesh import icosphere
from gendr.rendering.ordered import ordered
from support import soup
from support.cases import for_each
from support.operators import all_work_shared, entries, from_threads, graded
from support.processes import run_python


@pytest.fixture(autouse=True)
def _as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
    set_num_threads(None)


@for_each("own, asked, want", [(None, None, 2), (3, None, 3), (3, 4, 4)])
def test_torch_has_one_thread_for_a_while(own, asked, want):
    torch.set_num_threads(2)
    set_num_threads(own)
    seen = []

    @torch_on_one_thread(asked)
    def fail():
        seen.extend((torch.get_num_threads(), num_threads()))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert seen == [1, want]
    assert torch.get_num_threads() == 2
    assert num_threads() == (own or 2)


def test_all_calls_share_one_pool(monkeypatch):
    made, pools = [], threads.ThreadPoolExecutor

    def pool(*args):
        made.append(args)
        return pools(*args)

    def kernel(seen, start, stop):
        seen[start:stop] += 1

    monkeypatch.setattr(threads, "ThreadPoolExecutor", pool)
    set_num_threads(7)  # as in no other test, whose pool would serve
    for _ in range(3):
        seen = np.zeros(100)
        run(kernel, 100, seen)
        assert (seen == 1).all()
    seen = np.zeros(100)
    run(kernel, 100, seen, alone=True)
    assert (seen == 1).all()
    assert made == [(6, "gendr")]


def test_beside_another_thread_does_what_nobody_has_asked_for():
    set_num_threads(2)
    begun, go, by = threading.Event(), threading.Event(), {}

    def work(name, wait):
        by[name] = threading.get_ident(), torch.is_grad_enabled(), torch.get_num_threads()
        run(lambda start, stop: by.setdefault(f"{name}'s kernel", (start, stop)), 100)
        if wait:
            begun.set()
            assert go.wait(10)
        if name == "wrong":
            raise ZeroDivisionError(name)
        return name

    with Beside() as beside, torch.no_grad():
        first, *others = (beside.call(work, x, x == "first") for x in ("first", "wrong", "asked"))
        assert begun.wait(10)
        assert others[1]() == "asked"  # which has not begun: this thread does it
        go.set()
        assert first() == first() == "first"
        with pytest.raises(ZeroDivisionError, match="wrong"):
            others[0]()
    here = threading.get_ident()
    assert by["asked"][0] == here != by["first"][0]
    assert by["first"][1:] == (False, 1)
    assert by["first's kernel"] == (0, 100)  # and the helpers are left to others


def test_beside_leaves_out_what_has_not_begun_and_needs_a_second_thread():
    begun, done = threading.Event(), []

    def slow():
        begun.set()
        time.sleep(0.05)
        done.append("slow")

    set_num_threads(2)
    with Beside() as beside:
        beside.call(slow)
        beside.call(done.append, "late")
        assert begun.wait(10)
    assert done == ["slow"]  # waited for
    for few, device in ((1, None), (2, torch.device("meta"))):
        set_num_threads(few)
        with Beside(device) as beside:
            asked = beside.call(threading.get_ident)
            time.sleep(0.01)
            assert asked() == threading.get_ident()


def test_alone_is_one_call_by_this_thread():
    calls = []
    for alone in (True, False):
        set_num_threads(2)
        seen = []
        run(lambda *args: seen.append(args), 10, "given", pieces=3, alone=alone)  # noqa: B023
        calls.append(sorted(seen))
    assert calls[0] == [("given", 0, 10)]
    assert len(calls[1]) == 6
    assert [stop for _, _, stop in calls[1][:-1]] == [start for _, start, _ in calls[1][1:]]


# In a process that has not drawn or sorted yet: what is compiled, loaded or kept at the first call
# is for four threads to share.
COLD = """
import sys, torch
from support.operators import all_work_shared, from_threads

with all_work_shared():
    torch.save(from_threads([0, 1] * 2), sys.argv[1])
"""


@pytest.mark.rotating(4, group="long")
def test_every_entry_gives_the_bits_of_a_serial_run_from_four_threads(tmp_path, request):
    """Whatever else runs, whichever call is first, and however many threads the kernels have."""

    def serial(threads):
        """Of two kinds, so that a thread which reads or writes what is another's is seen."""
        set_num_threads(threads)
        return [{name: graded(*call) for name, call in entries(k).items()} for k in (0, 1)]

    wanted, others = serial(1), []
    with all_work_shared():
        others += serial(8) + from_threads([0, 1] * 2)
    if request.config.getoption("--every"):  # where nothing is compiled yet, which takes minutes
        cold = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        run_python(COLD, tmp_path / "cold.pt", env=cold, check=True, timeout=3000)
        others += torch.load(tmp_path / "cold.pt")
    for k, found in enumerate(others):
        for name, tensors in wanted[k % 2].items():
            for a, b in zip(tensors, found[name], strict=True):
                assert (a is None and b is None) or torch.equal(a, b), name


def images(dtype):
    ball = icosphere(2).scaled(0.5).to(dtype)
    leaves = ball.vertices.clone().requires_grad_(), torch.rand_like(ball.vertices).requires_grad_()
    mesh = ball.with_vertices(leaves[0]).with_vertex_colors(leaves[1])
    camera = gendr.look_at(2.732, 30.0, torch.arange(3) * 120.0).to(dtype)
    size = 133, 90  # tiles lie where faces do, and rows of pixels belong to threads
    out = gendr.Renderer(size, "logistic", scale=0.02, gamma=0.1, backend="cpu")(mesh, camera)
    return [out.alpha, out.rgb], leaves


def layers(dtype):
    corners = soup(2, 150, 7, dtype, size=0.3).requires_grad_()
    leaves = corners, torch.rand(2, 150, 3, dtype=dtype).requires_grad_()
    dist = "uniform" if dtype == torch.float32 else "gamma(shape=2)"
    found = [
        ordered(*leaves, (40, 50), dist, join, 0.02, bound=1e-3, backend="cpu")
        for join in ("probabilistic", "max", "average", "frank(p=2)")
    ]
    return [x for pair in found for x in pair], leaves


def lookups(dtype):
    """Triangles of a ball, their texture, silhouettes."""
    mesh = icosphere(2)
    turn = 0.7 * torch.eye(4) + 0.15 * torch.rand(3, 4, 4)
    pos = torch.cat([mesh.vertices, torch.ones(len(mesh.vertices), 1)], -1) @ turn
    leaves = (
        pos.to(dtype).requires_grad_(),
        torch.rand(1, 6, 32, 32, 3, dtype=dtype).requires_grad_(),
    )
    tri = mesh.faces.int()
    rast, db = dr.rasterize(None, leaves[0], tri, (40, 70))
    uv, uv_da = dr.interpolate(leaves[0][..., :3].contiguous(), rast, tri, db, "all")
    color = dr.texture(leaves[1], uv, uv_da, boundary_mode="cube")
    return [dr.antialias(color, rast, leaves[0], tri), db], leaves


@for_each(work=[images, layers, lookups], dtype=[torch.float32, torch.float64], rotating=3)
def test_work_of_many_pieces_has_the_same_bits_from_run_to_run_and_on_any_threads(work, dtype):
    """Of torch, or of the kernels if they have a number of their own."""
    found = []
    for of_torch, own in ((1, None), (2, None), (2, None), (1, 3)):
        torch.set_num_threads(of_torch)
        set_num_threads(own)
        torch.manual_seed(0)
        results, leaves = work(dtype)
        loss = sum((x * torch.linspace(0, 1, x.numel()).to(x).view_as(x)).sum() for x in results)
        found.append([*(x.detach() for x in results), *torch.autograd.grad(loss, leaves)])
    for other in found[1:]:
        assert all(map(torch.equal, found[0], other))
    with pytest.raises(ValueError, match="threads must be >= 1"):
        set_num_threads(0)


def test_a_call_within_another_lets_go_of_its_arrays(monkeypatch):
    """Its helpers, which never start, wait in the queue until the outer call is done."""
    monkeypatch.setattr(threads, "_own_threads", 2)
    alive = []

    def one(i):
        array = np.zeros(4)
        alive.append(weakref.ref(array))
        threads.run(lambda given, start, stop: None, 8, array)

    def all_of_them():
        threads.mapped(one, range(6))
        return sum(there() is not None for there in alive)

    held = []
    threads.mapped(lambda i: (time.sleep(0.05), held.append(all_of_them())) if i else None, (0, 1))
    assert held == [0]


def test_after_an_exception_no_thread_works_on():
    started, done = threading.Event(), []

    def kernel(start, stop):
        if threading.current_thread() is threading.main_thread():
            started.wait(10)
            raise ZeroDivisionError
        started.set()
        time.sleep(0.1)
        done.append(start)

    set_num_threads(2)
    with pytest.raises(ZeroDivisionError):
        run(kernel, 16)
    assert len(done) == 1
    time.sleep(0.3)
    assert len(done) == 1


TASKS = """
import os, threading, time
from gendr.kernels import threads

def new():
    return len({*os.listdir("/proc/self/task")} - before)

before, met, threads._QUIET = {*os.listdir("/proc/self/task")}, threading.Barrier(5, timeout=10), .2
threads.set_num_threads(5)
for threads._LONG in (10, 0.04, 0.04):
    threads.run(lambda start, stop: (met.wait(), time.sleep(0.05)), 5)
    time.sleep(0.1)
    print(new())
    end = time.monotonic() + 10
    while new() > 4 and time.monotonic() < end:
        time.sleep(0.01)
    print(new())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="of GNU's OpenMP")
def test_openmp_has_one_thread_more_while_long_kernels_run():
    """So that torch's threads do not turn round on the cores where kernels work."""
    found = [int(n) for n in run_python(TASKS, check=True).stdout.split()]
    assert found == [4, 4, 4 + 2, 4, 4 + 2, 4]  # that which asks for it, too
    said = f"import os\nos.environ['GOMP_SPINCOUNT'] = '300000'{TASKS}"
    assert {*run_python(said, check=True).stdout.split()} == {"4"}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere forks with threads are not safe")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_fork_has_threads_of_its_own():
    """As workers of a DataLoader: threads do not survive a fork, and nobody may wait for them."""
    set_num_threads(2)

    def both_work(seconds):
        met = threading.Barrier(2, timeout=seconds)
        run(lambda start, stop: met.wait(), 2)

    both_work(10)
    child = os.fork()
    if not child:
        try:
            both_work(3)
        except threading.BrokenBarrierError:
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@for_each(threads=[1, 3])
def test_mapped_is_a_list_in_order_with_the_switches_of_its_caller(threads):
    main, parts, inside = threading.get_ident(), [], []
    set_num_threads(threads)
    torch.set_num_threads(2)

    def square(x):
        time.sleep(0.002)
        inside.append((torch.is_grad_enabled(), torch.get_num_threads(), threading.get_ident()))
        return x * x

    def tell(part):
        assert threading.get_ident() == main
        parts.append(part)

    with torch.no_grad():
        assert mapped(square, range(20), tell) == [x * x for x in range(20)]
    assert {seen[:2] for seen in inside} == {(False, 1 if threads > 1 else 2)}
    assert torch.get_num_threads() == 2
    assert (len({ident for *_, ident in inside}) > 1) == (threads > 1)
    assert parts == sorted(set(parts))
    assert parts[-1] == 1
    del inside[:]
    mapped(square, range(20), most=1)
    assert {seen[0::2] for seen in inside} == {(True, main)}


@for_each(threads=[1, 2])
def test_mapped_raises_what_the_first_item_does(threads):
    def fail(x):
        time.sleep(0.02 if x == 4 else 0)  # the other thread has failed by then
        if x >= 4:
            raise ValueError(f"item {x}")

    set_num_threads(threads)
    for _ in range(3):
        with pytest.raises(ValueError, match="item 4"):
            mapped(fail, range(12))
