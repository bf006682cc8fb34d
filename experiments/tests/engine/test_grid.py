"""The grid: its choice of instances, and that nothing is lost or done twice."""

import csv
import itertools
import json
import os
import re
import signal
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import gendr
from lab.engine import executors
from lab.engine import grid as grid_module
from lab.engine.executors import LocalExecutor
from lab.engine.grid import Status, progress_of, run_grid, select, shuffled
from lab.engine.store import Store
from support.cases import for_each
from support.fake_grid import FakeTask, Here, attempts, is_running, outcome_of, results_of
from support.processes import Python, fork_server, run_python
from support.scripts import ROOT, imported

NAMES = [instance.name for instance in gendr.instances()[::50]]


# -- which


@for_each(
    "dists, tconorms, dist, tconorm",
    [
        ([], [], ".*", ".*"),
        (["gamma*"], ["yager"], r"gamma.*", r"yager.*"),
        (["gamma"], ["max", "dombi"], r"gamma.*", r"max|dombi.*"),
        (["logistic"], [], r"logistic(\.squared)?", ".*"),
        (["gudermannian"], ["einstein"], r"hyperbolic_secant(\.squared)?", "einstein"),
        (["gamma(0.5).centred.reversed"], [], r"gamma\(shape=0\.5\)\.reversed\.centred", ".*"),
        (["*.squared"], ["yager(2)"], r".*\.squared", r"yager\(p=2\)"),
        (["gamma(shape=[!2]*"], ["*(p=[24])"], r"gamma\(shape=0.*", r".*\(p=[24]\)"),
        (["cauchy.squared", "levy"], ["max"], r"cauchy\.squared|levy.*", "max"),
        (["gumbel_max"], ["frank"], r"gumbel_max(\.squared)?", "frank.*"),
    ],
)
def test_patterns_choose(dists, tconorms, dist, tconorm):
    expected = [
        i for i in gendr.instances()
        if re.fullmatch(dist, str(i.dist)) and re.fullmatch(tconorm, str(i.tconorm))
    ]  # fmt: skip
    assert expected
    assert select(dists, tconorms) == expected
    assert select(dists, tconorms, limit=2) == expected[:2]
    names = shuffled(expected)
    assert sorted(names) == sorted(i.name for i in expected)
    assert names == shuffled(expected)


@for_each(
    "dists, tconorms, near",
    [
        (["gama"], [], "gamma"),
        (["logistic", "gausian*"], [], "gaussian"),
        (["gamma(3)"], [], "gamma"),
        ([], ["yager(p=3)"], "yager(p=2)"),
        ([], ["gamma"], "T-conorm"),
        (["heaviside"], [], "no distribution of the benchmark"),
    ],
)
def test_pattern_without_a_match_names_what_is_near(dists, tconorms, near):
    with pytest.raises(ValueError, match="matches") as caught:
        select(dists, tconorms)
    assert near in str(caught.value)


# -- the loop, on an executor of this process


@pytest.fixture
def run(store):
    return store.begin("shape", "{}", 0)


def recorded(store, run):
    return [r.instance for r in store.results(run)]


def test_all_are_done_once_in_their_order(store, run, claims):
    first, seen = Here(outcome_of), []
    run_grid(store, run, NAMES[:10], first)
    executor = Here(outcome_of)
    status = run_grid(store, run, NAMES, executor, seen.append)
    assert first.submitted + executor.submitted == recorded(store, run) == NAMES
    assert status.scores == {name: outcome_of(name).score for name in NAMES}
    assert (status.left, status.failed, status.running) == (0, 0, 0)
    assert [s.left for s in seen] == sorted((s.left for s in seen), reverse=True)
    assert run_grid(store, run, NAMES[:3], None).total == 3  # needs no executor
    assert claims() == 0


def test_lost_is_tried_again_and_given_up_after_three_attempts(store, run):
    executor = Here(outcome_of, lost={NAMES[3]: 2, NAMES[4]: 3}, failing=[NAMES[5]])
    status = run_grid(store, run, NAMES, executor)
    counts = Counter(executor.submitted)
    assert [counts[name] for name in NAMES[2:7]] == [1, 3, 3, 1, 1]
    assert status.failed == 2
    assert sorted(recorded(store, run)) == sorted({*NAMES} - {NAMES[4], NAMES[5]})
    failures = {f.instance: (f.attempts, f.reason) for f in store.failures(run)}
    assert failures == {NAMES[4]: (3, "it was killed"), NAMES[5]: (1, "it raised")}


def test_what_stops_a_grid_leaves_what_was_done_and_no_claim(store, run, claims):
    def interrupt(name):
        if name == NAMES[7]:
            raise KeyboardInterrupt
        return outcome_of(name)

    another = store.begin("shape", "{}", 1)
    with pytest.raises(RuntimeError, match="it was killed"):
        run_grid(store, another, NAMES, Here(outcome_of, lost=dict.fromkeys(NAMES, 9)))
    assert claims() == 0
    with pytest.raises(KeyboardInterrupt):
        run_grid(store, run, NAMES, Here(interrupt))
    assert recorded(store, run) == NAMES[:7]
    assert claims() == 0


def test_two_grids_share_the_work(store, run, path):
    with Store(path, write=True) as other_store:
        other = Here(outcome_of)

        def help_out(name):
            if name == NAMES[5]:
                run_grid(other_store, run, NAMES[8:], other)
            return outcome_of(name)

        executor = Here(help_out)
        status = run_grid(store, run, NAMES, executor)
    assert sorted(executor.submitted + other.submitted) == sorted(NAMES)
    assert other.submitted
    assert status.left == 0


def test_grid_waits_for_others_and_takes_over_what_they_leave(
    store, run, path, monkeypatch, claims
):
    monkeypatch.setattr(grid_module, "HEARTBEAT", 0.0)
    beats = []
    monkeypatch.setattr(store, "heartbeat", lambda: beats.append(claims()))
    with Store(path, write=True) as other:
        other.claim(run, NAMES[0])
        other.claim(run, NAMES[1])
        steps = []

        def watch(status):
            steps.append(status)
            if len(steps) == len(NAMES) + 3:
                other.record(run, outcome_of(NAMES[0]))
                other.release()

        executor = Here(outcome_of)
        status = run_grid(store, run, NAMES, executor, watch)
    assert executor.submitted == [*NAMES[2:], NAMES[1]]
    assert status.left == 0
    assert len(beats) > len(NAMES)


def test_progress_has_the_best_and_what_failed(capsys):
    with progress_of("pose", "higher") as show:
        for count in (1, 3):
            show(Status(4, {f"i{k}": s for k, s in enumerate([0.5, 0.25, 0.75][:count])}, 1, 1))
    said = capsys.readouterr().err.split("\r")[-1]
    assert re.match(r"pose:  75%.* 3/4 .*1 failed, best 0.7500 i2", said)
    best = Status(3, {"a": 0.5, "b": 0.25, "c": float("nan")}, 0, 0).best
    assert (best("lower"), best("higher")) == (("b", 0.25), ("a", 0.5))


# -- processes

# A program's first lines: its workers need not import PyTorch.
QUICK_WORKERS = (
    "from lab.engine import executors; from support import processes; "
    "executors.get_context = lambda _: processes.fork_server()"
)
# Runs a script in a session of its own; it finds the modules that lie beside it.
AS_A_SCRIPT = """
import os, runpy, sys
os.setsid()
del sys.argv[0]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def folder(tmp_path):
    """A folder in which attempts leave their marks."""
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


def test_local_workers_share_the_work_and_survive_what_may_happen(store, run, folder, monkeypatch):
    monkeypatch.setattr(executors, "get_context", lambda _: fork_server())
    names = [i.name for i in gendr.instances()[:12]]
    task = FakeTask(str(folder), 0.05, kills="/einstein", raises="/max")
    status = run_grid(store, run, names, LocalExecutor(task, 2))
    assert sorted(recorded(store, run)) == sorted({*names} - {"uniform/max"})
    assert all(r.score == outcome_of(r.instance).score for r in store.results(run))
    assert status.failed == 1
    (failure,) = store.failures(run)
    assert (failure.instance, failure.attempts) == ("uniform/max", 1)
    said = r"ArithmeticError: this instance does not converge \(fake_grid\.py:\d+\)"
    assert re.fullmatch(said, failure.reason)
    pids = attempts(folder)
    assert len(pids) == len(names) + 1
    assert len({*pids}) <= 3  # one was killed
    assert not any(map(is_running, pids))


def test_worker_sets_one_thread_and_tells_what_it_cannot_read(monkeypatch):
    threads = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    attempt = executors.attempt_task(b"no pickle", 0, NAMES[0])
    assert (attempt.outcome, attempt.lost) == (None, False)
    assert attempt.reason.startswith("UnpicklingError: ")
    assert threads == [1]


@pytest.mark.every
def test_kills_at_random_moments_lose_nothing(path, folder):
    names = [i.name for i in gendr.instances()[::19]]
    arguments = {
        "path": str(path), "marks": str(folder), "names": names, "pairs": 5, "seed": 20261120,
    }  # fmt: skip
    code = f"{QUICK_WORKERS}; from support import fake_grid; fake_grid.main()"
    driver = run_python(code, json.dumps(arguments))
    assert driver.returncode == 0, driver.stderr
    rounds = json.loads(driver.stdout)
    assert len(rounds) == 6
    assert len(rounds[-2]) < len(names)  # the last kill met a grid that was not done
    for before, after in itertools.pairwise(rounds):
        assert before.items() <= after.items()
    assert {name: score for name, (score, _) in rounds[-1].items()} == {
        name: outcome_of(name).score for name in names
    }
    with Store(path) as store:
        (run,) = store.runs()
        assert all(store.trials(run, name) == list(outcome_of(name).trials) for name in names)
        assert store.failures(run) == []
    # Whoever was killed had one instance in flight, and only that one was begun again.
    assert len(names) <= len(attempts(folder)) <= len(names) + 10


def wait_until(happened, seconds=60):
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.every
def test_worker_does_not_outlive_its_driver(path, folder):
    code = (
        "from support import fake_grid as f\n"
        f"task = f.FakeTask({str(folder)!r}, seconds=60.0)\n"
        f"f.drive({str(path)!r}, [{NAMES[0]!r}], task, 1)"
    )
    driver = Python(code)
    wait_until(lambda: attempts(folder))
    (worker,) = attempts(folder)
    ignored = re.search(r"SigIgn:\s*(\w+)", Path(f"/proc/{worker}/status").read_text())[1]
    assert int(ignored, 16) >> (signal.SIGINT - 1) & 1  # Ctrl-C is for the driver
    driver.kill()
    wait_until(lambda: not is_running(worker))


@pytest.mark.every
@pytest.mark.parametrize("send", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_script_leaves_a_clean_file(tmp_path, send):
    """The whole of it: its own process group, as under a terminal, and the real task."""
    options = ["shape", "-r", "r.sqlite", "--dist", "uniform", "--workers", 1]
    # Ctrl-C goes to all processes of a group, which those of a fork server are not in.
    workers = "" if send == signal.SIGINT else QUICK_WORKERS
    file = ROOT / "experiments" / "grid_benchmark.py"
    process = Python(f"{workers}\n{AS_A_SCRIPT}", file, *options, cwd=tmp_path)
    wait_until(lambda: results_of(tmp_path / "r.sqlite"))
    os.killpg(process.pid, send) if send == signal.SIGINT else process.send_signal(send)
    assert process.wait(60) == 130
    said = process.output()[1]
    assert said.splitlines()[-1] == (
        "grid_benchmark.py: stopped; the same command with --resume goes on"
    )
    assert "Traceback" not in said
    assert os.listdir(tmp_path) == ["r.sqlite"]


# -- the script

SMALL = ["shape", "-r", "r.sqlite", "--dist", "uniform"]


@pytest.fixture
def script(monkeypatch, tmp_path, folder):
    """`main` of the script with a fake task, whose first member fails, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    module, failing = imported(monkeypatch, "grid_benchmark"), ["uniform/max"]
    kind = SimpleNamespace(make=lambda *_, **__: FakeTask(str(folder)))
    monkeypatch.setattr("lab.studies.registry.TASKS", {"shape": kind})
    here = lambda task, workers, *, seed: Here(outcome_of, failing=failing)  # noqa: E731
    monkeypatch.setattr("lab.engine.executors.LocalExecutor", here)

    def main(options, *, fails=True):
        if not fails:
            failing.clear()
        return module.main(options)

    return main


def test_script_runs_resumes_and_exports(script, capsys):
    assert script([*SMALL, "--tconorm", "yager"]) == 0
    assert "shape, laptop, seed 0: 8 of 8 instances done" in capsys.readouterr().out
    before = results_of("r.sqlite")
    assert script(SMALL) == 2  # not unasked
    said = capsys.readouterr().err
    assert re.search("8 results.* --resume", said)
    assert said.count("\n") == 1
    assert results_of("r.sqlite") == before
    assert script([*SMALL, "--resume", "--limit", "20", "--export", "csv", "t.csv"]) == 1
    said = capsys.readouterr().out
    assert "19 of 20 instances done, 1 failed" in said
    assert "failed: uniform/max: it raised" in said
    results = results_of("r.sqlite")
    best = min(results, key=lambda name: results[name][0])
    assert f"best: {best} with" in said
    with open("t.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {r["instance"]: float(r["score"]) for r in rows} == {
        name: score for name, (score, _) in results.items()
    }
    assert {(r["task"], r["protocol"], r["seed"]) for r in rows} == {("shape", "laptop", "0")}
    assert script([*SMALL, "--limit", "3", "--seed", "1"]) == 1  # another run; max fails
    capsys.readouterr()
    assert script([*SMALL, "--resume", "--limit", "20"], fails=False) == 0
    assert "20 of 20 instances done;" in capsys.readouterr().out


@for_each(
    "options, said",
    [
        (["--dist", "unifrom"], "uniform"),
        (["-r", "missing/r.sqlite"], "missing"),
        (["-r", "text"], "no SQLite file"),
        (["--export", "xlsx", "t"], "csv"),
        (["--export", "csv", "missing/t"], "missing"),
        (["--limit", "0"], "--limit"),
        (["--gpus-per-task", "nan"], "--gpus-per-task"),
        (["--gpus-per-task", "0.5"], "--executor ray"),
        (["--address", "auto"], "--executor ray"),
        (["--device", "tpu"], "usable: cpu"),
    ],
)
def test_bad_input_ends_in_one_line(script, capsys, options, said):
    Path("text").write_text("not a database\n" * 50)
    assert script([*SMALL, *options]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert printed.err.count("\n") == 1
    assert Path("text").read_text() == "not a database\n" * 50
    assert not Path("r.sqlite").exists()
