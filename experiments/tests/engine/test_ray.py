"""The Ray executor, on a cluster that the test starts on this machine."""

import os
import socket
import time

import pytest

import gendr
from lab.engine.executors import RayExecutor
from lab.engine.grid import run_grid
from support.fake_grid import FakeTask, attempts, outcome_of

pytest.importorskip("ray", reason="Ray is not installed: pip install '.[cluster]'")

NAMES = [instance.name for instance in gendr.instances()[:10]]


@pytest.mark.every
def test_killed_worker_costs_nothing_and_failures_are_told(store, tmp_path):
    folder = tmp_path / "marks"
    folder.mkdir()
    task = FakeTask(str(folder), 0.1, kills="/einstein", raises="/max")
    slots = []
    run = store.begin(task.name, task.protocol_json(), 5)
    executor = RayExecutor(task, workers=2, seed=5)
    run_grid(store, run, NAMES, executor, lambda status: slots.append(status.running))
    results = {r.instance: r.score for r in store.results(run)}
    (failure,) = store.failures(run)
    assert results == {n: outcome_of(n, seed=5).score for n in NAMES if n != failure.instance}
    assert (failure.instance, failure.attempts) == ("uniform/max", 1)
    assert "does not converge" in failure.reason
    # Each once, but the one whose worker died.
    pids = attempts(folder)
    assert len(pids) == len(NAMES) + 1
    assert len({*pids}) >= 2
    assert os.getpid() not in pids
    assert max(slots) == 2


@pytest.mark.every
def test_cluster_without_room_is_refused():
    with pytest.raises(RuntimeError, match="GPU to spare"):
        RayExecutor(FakeTask("nowhere"), workers=1, gpus=0.25).__enter__()


def test_address_without_a_cluster_is_refused_at_once():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]  # free again below
    start = time.monotonic()
    with pytest.raises(ConnectionError, match=f"127.0.0.1:{port}"):
        RayExecutor(FakeTask("nowhere"), address=f"127.0.0.1:{port}").__enter__()
    assert time.monotonic() - start < 10
