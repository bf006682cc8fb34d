"""One process at a time compiles kernels of Numba."""

import threading

import numba
import pytest

fcntl = pytest.importorskip("fcntl", reason="locks of files of POSIX")

from support.compiling import one_process_compiles  # noqa: E402  (after the skip)


def test_who_compiles_waits_for_another_process_that_does(tmp_path):
    path, results = tmp_path / "lock", []
    inner = numba.njit(lambda x: x + 1.0)
    outer = numba.njit(lambda x: 2.0 * inner(x))
    thread = threading.Thread(target=lambda: results.append(outer(1.0)), daemon=True)
    with one_process_compiles(path), path.open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        assert results == []
        fcntl.flock(other, fcntl.LOCK_UN)
        thread.join(60)
        assert results == [4.0]
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # it is free again
    assert numba.njit(lambda x: x * 3.0)(1.0) == 3.0  # nobody looks at the file any more
