"""Threads of the compiled kernels."""

import numpy as np
import pytest
import torch

from gendr._runtime import threads
from gendr._runtime.threads import num_threads, run, set_num_threads, torch_on_one_thread


@pytest.fixture(autouse=True)
def _as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
    set_num_threads(None)


@pytest.mark.parametrize(("own", "asked", "want"), [(None, None, 2), (3, None, 3), (3, 4, 4)])
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
