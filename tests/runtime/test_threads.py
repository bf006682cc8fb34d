"""Threads of the compiled kernels."""

import pytest
import torch

from gendr._runtime.threads import num_threads, set_num_threads, torch_on_one_thread


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
