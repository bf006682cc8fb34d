"""The grid: its choice of instances, its forecast, and that nothing is lost or done twice."""

import csv
import itertools
import json
import math
import os
import random
import re
import signal
import sys
import time
from collections import Counter, deque
from pathlib import Path

import pytest
import torch

import gendr
from gendr import distributions, tnorms
from lab.engine import executors
from lab.engine import grid as grid_module
from lab.engine.executors import Attempt, LocalExecutor
from lab.engine.grid import Job, Progress, Status, forecast, jobs, run_grid, select
from lab.engine.store import Store
from support.cases import for_each
from support.fake_grid import FakeTask, attempts, is_running, outcome_of, results_of
from support.processes import Python, fork_server, run_python
from support.scripts import imported

HERE = Path(__file__).parent
NAMES = [instance.name for instance in gendr.instances()[::50]]


# -- which


def matching(dist, tconorm):
    """The instances whose texts match regular expressions."""
    return [
        i
        for i in gendr.instances()
        if re.fullmatch(dist, str(i.dist)) and re.fullmatch(tconorm, str(i.tconorm))
    ]


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
    ],
)
def test_patterns_choose(dists, tconorms, dist, tconorm):
    expected = matching(dist, tconorm)
    assert expected
    assert select(dists, tconorms) == expected
    assert select(dists, tconorms, limit=2) == expected[:2]


@for_each(name=[*distributions.names(), *tnorms.names()])
def test_bare_name_chooses_all_members(name):
    members = [i for i in gendr.instances() if name in (str(i.dist.law).split("(")[0],)]
    members += [i for i in gendr.instances() if i.tconorm.name == name]
    if members:
        chosen = select([name]) if name in distributions.names() else select([], [name])
        assert chosen == members
    else:  # not among the 1242
        with pytest.raises(ValueError, match=name):
            select([name]) if name in distributions.names() else select([], [name])


@for_each(
    "dists, tconorms, near",
    [
        (["gama"], [], "gamma"),
        (["logistic", "gausian*"], [], "gaussian"),
        (["heaviside"], [], "no distribution of the benchmark"),
        (["gamma(3)"], [], "gamma"),
        ([], ["yaeger"], "yager"),
        ([], ["yager(p=3)"], "yager(p=2)"),
        ([], ["gamma"], "T-conorm"),
    ],
)
def test_pattern_without_a_match_names_what_is_near(dists, tconorms, near):
    with pytest.raises(ValueError, match="matches") as caught:
        select(dists, tconorms)
    assert near in str(caught.value)
    assert "\n" not in str(caught.value)


# -- in what order, for how long


def test_jobs_are_the_instances_laws_first_and_then_the_slow_ones():
    every = gendr.instances()
    found = jobs(every)
    assert sorted(job.name for job in found) == sorted(i.name for i in every)
    laws = len({str(i.dist) for i in every})
    scouts, rest = found[:laws], found[laws:]
    assert {job.law for job in scouts} == {str(i.dist) for i in every}
    assert {job.is_heavy for job in scouts[:2]} == {True, False}
    assert [job.reach for job in rest] == sorted((job.reach for job in rest), reverse=True)
    heavy = {job.law for job in found if job.is_heavy}
    assert {"cauchy", "reciprocal.squared", "levy.reversed"} <= heavy
    assert not heavy & {"logistic", "gamma(shape=2.0).reversed", "levy", "uniform.squared"}
    assert found == jobs(every)


def simulate(chosen, seconds, workers):
    """Run jobs in simulated time; yields (time, forecast) whenever one of them ends."""
    waiting, running, done, now = deque(chosen), {}, {}, 0.0
    while waiting or running:
        while waiting and len(running) < workers:
            running[waiting.popleft()] = now
        job = min(running, key=lambda j: running[j] + seconds[j])
        now = running.pop(job) + seconds[job]
        done[job] = seconds[job]
        left = {j: now - running[j] for j in running} | dict.fromkeys(waiting, 0.0)
        yield now, forecast(left, done, workers)


@pytest.mark.rotating(3)
@pytest.mark.parametrize("workers", [1, 2, 8])
@pytest.mark.parametrize("seed", range(3))
def test_forecast_is_honest_and_steady(workers, seed):
    rng = random.Random(seed)
    chosen = jobs(gendr.instances())
    of_law = {}
    for job in chosen:
        usual = 20.0 if job.is_heavy else 2.0
        of_law.setdefault(job.law, usual * rng.lognormvariate(0, 0.3))
    seconds = {job: of_law[job.law] * rng.lognormvariate(0, 0.3) for job in chosen}
    moments = list(simulate(chosen, seconds, workers))
    end = moments[-1][0]
    assert moments[-1][1] == 0.0
    ends = [(now + left) / end for now, left in moments]
    # When an instance or two per worker are done; when all laws are known; from then on.
    assert ends[2 * workers] == pytest.approx(1, rel=0.5)
    assert ends[3 * workers : 54] == pytest.approx([1] * (54 - 3 * workers), rel=0.4)
    assert ends[54:] == pytest.approx([1] * len(ends[54:]), rel=0.2)
    steps = [abs(math.log(b / a)) for a, b in itertools.pairwise(ends[2 * workers :])]
    assert max(steps) < 0.3


def test_forecast_needs_something_to_go_by():
    a, b = Job("a/x", "a", 0.1), Job("b/x", "b", 0.1)
    assert forecast({a: 0.0}, {}, 2) is None
    assert forecast({b: 0.0}, {a: 3.0}, 2) == 3.0
    assert forecast({b: 2.0}, {a: 3.0}, 2) == 1.0
    assert forecast({b: 9.0}, {a: 3.0}, 2) == 0.0
    heavy = Job("c/x", "c", math.inf)
    assert forecast({heavy: 0.0}, {a: 3.0}, 1) == 3.0 * grid_module.HEAVIER
    assert forecast({a: 0.0}, {heavy: 3.0}, 1) == 3.0 / grid_module.HEAVIER


# -- the loop, on an executor of this process


class Here:
    """An executor without processes; what is lost how often is given beforehand."""

    def __init__(self, lost=None, failing=(), slots=2, before=None):
        self.lost, self.failing = Counter(lost or {}), failing
        self.count, self.queue, self.submitted = slots, deque(), []
        self.before = before or (lambda name: None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.queue.clear()

    def slots(self):
        return self.count

    def submit(self, name):
        assert len(self.queue) < self.count
        self.submitted.append(name)
        self.queue.append(name)

    def wait(self, seconds):
        if not self.queue:
            time.sleep(0.01)
            return []
        name = self.queue.popleft()
        self.before(name)
        if self.lost[name] > 0:
            self.lost[name] -= 1
            return [Attempt(name, reason="it was killed", lost=True)]
        if name in self.failing:
            return [Attempt(name, reason="it raised")]
        return [Attempt(name, outcome_of(name))]


def plain(names):
    return [Job(name, name.split("/")[0], 0.1) for name in names]


@pytest.fixture
def run(store):
    return store.begin("shape", "{}", 0)


def recorded(store, run):
    return [r.instance for r in store.results(run)]


def test_all_jobs_are_done_in_their_order(store, run):
    seen = []
    status = run_grid(store, run, plain(NAMES), Here(), seen.append)
    assert recorded(store, run) == NAMES
    assert status.scores == {name: outcome_of(name).score for name in NAMES}
    assert (status.left, status.failed, status.running) == (0, 0, 0)
    assert [s.left for s in seen] == sorted((s.left for s in seen), reverse=True)
    assert store.at_work(run) == 0


def test_what_is_done_is_not_done_again(store, run):
    run_grid(store, run, plain(NAMES[:10]), Here())
    executor = Here()
    status = run_grid(store, run, plain(NAMES), executor)
    assert executor.submitted == NAMES[10:]
    assert len(status.scores) == len(NAMES)
    assert run_grid(store, run, plain(NAMES[:3]), None).total == 3  # needs no executor


def test_lost_is_tried_again_and_given_up_after_three_attempts(store, run):
    executor = Here(lost={NAMES[3]: 2, NAMES[4]: 3}, failing=[NAMES[5]])
    status = run_grid(store, run, plain(NAMES), executor)
    counts = Counter(executor.submitted)
    assert [counts[name] for name in NAMES[2:7]] == [1, 3, 3, 1, 1]
    assert status.failed == 2
    assert sorted(recorded(store, run)) == sorted({*NAMES} - {NAMES[4], NAMES[5]})
    failures = {f.instance: (f.attempts, f.reason) for f in store.failures(run)}
    assert failures == {NAMES[4]: (3, "it was killed"), NAMES[5]: (1, "it raised")}


def test_grid_stops_if_no_process_can_live(store, run):
    with pytest.raises(RuntimeError, match="it was killed"):
        run_grid(store, run, plain(NAMES), Here(lost=dict.fromkeys(NAMES, 9)))
    assert store.at_work(run) == 0


def test_interruption_leaves_what_was_done_and_no_claim(store, run):
    def interrupt(name):
        if name == NAMES[7]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_grid(store, run, plain(NAMES), Here(before=interrupt))
    assert recorded(store, run) == NAMES[:7]
    assert store.at_work(run) == 0


def test_two_grids_share_the_work(store, run, path):
    with Store(path, write=True) as other_store:
        other = Here()

        def help_out(name):
            if name == NAMES[5]:
                run_grid(other_store, run, plain(NAMES[8:]), other)

        executor = Here(before=help_out)
        status = run_grid(store, run, plain(NAMES), executor)
    assert sorted(executor.submitted + other.submitted) == sorted(NAMES)
    assert other.submitted
    assert status.left == 0


def test_grid_waits_for_others_and_takes_over_what_they_leave(store, run, path, monkeypatch):
    monkeypatch.setattr(grid_module, "HEARTBEAT", 0.0)
    beats = []
    monkeypatch.setattr(store, "heartbeat", lambda: beats.append(store.at_work(run)))
    with Store(path, write=True) as other:
        other.claim(run, NAMES[0])
        other.claim(run, NAMES[1])
        steps = []

        def watch(status):
            steps.append(status)
            if len(steps) == len(NAMES) + 3:
                other.record(run, outcome_of(NAMES[0]))
                other.release()

        executor = Here()
        status = run_grid(store, run, plain(NAMES), executor, watch)
    assert executor.submitted == [*NAMES[2:], NAMES[1]]
    assert status.left == 0
    assert len(beats) > len(NAMES)


# -- what a person sees


def status(done, total, seconds_left=None, failed=0):
    return Status(total, {f"i{k}": s for k, s in enumerate(done)}, failed, 1, seconds_left)


@pytest.mark.parametrize(
    ("state", "better", "said"),
    [
        (status([], 4), "lower", "4 left"),
        (status([0.5, 0.25, math.nan], 4, 61.0), "lower", "about 2 min left, best 0.2500 i1"),
        (status([0.5, 0.25, math.nan], 4, 7260.0), "higher", "about 2 h 01 min left, best 0.5000"),
        (status([math.nan], 4, 1.0, failed=2), "higher", "2 failed, about 5 s left"),
        (status([0.5], 1, 0.0), "lower", "best 0.5000 i0"),
    ],
)
def test_progress_says_what_matters(state, better, said):
    assert Progress("shape", better).text(state).startswith(said)


def test_progress_is_a_line_a_minute_where_there_is_no_terminal(capsys, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(grid_module.time, "monotonic", lambda: now)
    progress = Progress("pose", "higher")
    for _ in range(120):
        progress(status([0.5], 4, 1.0))
        now += 1.0
    progress.close()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("pose: 1 of 4 done")


def test_progress_is_a_bar_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    progress = Progress("pose", "higher")
    for count in range(3):
        progress(status([0.5] * count, 4, 61.0))
    progress.close()
    bars = capsys.readouterr().err.split("\r")
    assert re.fullmatch(r"pose:  50%\|█+ +\| 2/4, about 2 min left, best 0.5000 i0\s*", bars[-1])


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
def quick_workers(monkeypatch):
    """Workers that need not import PyTorch first."""
    monkeypatch.setattr(executors, "get_context", lambda _: fork_server())


def test_local_workers_share_the_work_and_survive_what_may_happen(
    store, run, tmp_path, quick_workers
):
    folder = tmp_path / "marks"
    folder.mkdir()
    names = [i.name for i in gendr.instances()[:12]]
    task = FakeTask(str(folder), 0.05, kills="/einstein", raises="/max")
    status = run_grid(store, run, plain(names), LocalExecutor(task, 2))
    assert sorted(recorded(store, run)) == sorted({*names} - {"uniform/max"})
    assert all(r.score == outcome_of(r.instance).score for r in store.results(run))
    assert status.failed == 1
    (failure,) = store.failures(run)
    error, _, place = failure.reason.partition(" (")
    assert (failure.instance, failure.attempts) == ("uniform/max", 1)
    assert error == "ArithmeticError: this instance does not converge"
    assert place.startswith("fake_grid.py:")
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


@pytest.mark.slow
def test_kills_at_random_moments_lose_nothing(path, tmp_path, request):
    folder = tmp_path / "marks"
    folder.mkdir()
    every = request.config.getoption("--every")
    kills = 10 if every else 2
    names = [i.name for i in gendr.instances()[:: 19 if every else 95]]
    arguments = {
        "path": str(path),
        "marks": str(folder),
        "names": names,
        "pairs": kills // 2,
        "seed": 20261120,
    }
    code = f"{QUICK_WORKERS}; from support import fake_grid; fake_grid.main()"
    driver = run_python(code, json.dumps(arguments))
    assert driver.returncode == 0, driver.stderr
    rounds = json.loads(driver.stdout)
    assert len(rounds) == kills // 2 + 1
    assert len(rounds[-2]) < len(names)  # the last kill met a grid that was not done
    for before, after in itertools.pairwise(rounds):
        assert before.items() <= after.items()
    assert sorted(rounds[-1]) == sorted(names)
    assert {name: score for name, (score, _) in rounds[-1].items()} == {
        name: outcome_of(name).score for name in names
    }
    with Store(path) as store:
        (run,) = store.runs()
        assert all(store.trials(run, name) == list(outcome_of(name).trials) for name in names)
        assert store.failures(run) == []
        assert store.at_work(run) == 0
    # Whoever was killed had one instance in flight, and only that one was begun again.
    assert len(names) <= len(attempts(folder)) <= len(names) + kills


def test_worker_does_not_outlive_its_driver(path, tmp_path):
    folder = tmp_path / "marks"
    folder.mkdir()
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


def wait_until(happened, seconds=60):
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# -- the script


@pytest.fixture
def script(monkeypatch, tmp_path):
    """`main` of the script with a fake task, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "marks").mkdir()
    module = imported(monkeypatch, "grid_benchmark")
    task = FakeTask(str(tmp_path / "marks"))
    monkeypatch.setattr("lab.make_task", lambda *_, **__: task)

    failing = ["uniform/max"]

    def executor(task, workers, *, seed):
        return Here(failing=failing)

    def main(options, *, fails=True):
        if not fails:
            failing.clear()
        return module.main(options)

    monkeypatch.setattr("lab.engine.executors.LocalExecutor", executor)
    return main


SMALL = ["shape", "-r", "r.sqlite", "--dist", "uniform"]


def test_script_runs_resumes_and_exports(script, capsys):
    assert script([*SMALL, "--tconorm", "yager"]) == 0
    assert "shape, laptop, seed 0: 8 of 8 instances done" in capsys.readouterr().out
    assert script([*SMALL, "--resume", "--limit", "20", "--export", "csv", "t.csv"]) == 1
    said = capsys.readouterr().out
    assert "19 of 20 instances done, 1 failed" in said
    assert "failed: uniform/max: it raised" in said
    results = results_of("r.sqlite")
    best = min(results, key=lambda name: results[name][0])
    with open("t.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {r["instance"]: float(r["score"]) for r in rows} == {
        name: score for name, (score, _) in results.items()
    }
    assert {(r["task"], r["protocol"], r["seed"]) for r in rows} == {("shape", "laptop", "0")}
    assert f"best: {best} with" in said
    assert script([*SMALL, "--resume", "--limit", "20"], fails=False) == 0
    assert "20 of 20 instances done;" in capsys.readouterr().out


def test_script_does_not_go_on_unasked(script, capsys):
    assert script([*SMALL, "--limit", "3", "--tconorm", "yager"]) == 0
    before = results_of("r.sqlite")
    capsys.readouterr()
    assert script(SMALL) == 2
    printed = capsys.readouterr()
    assert "3 results" in printed.err
    assert "--resume" in printed.err
    assert printed.err.count("\n") == 1
    assert results_of("r.sqlite") == before
    assert script([*SMALL, "--limit", "3", "--seed", "1"]) == 1  # another run; max fails


@for_each(
    "options, said",
    [
        (["--dist", "unifrom"], "uniform"),
        (["--tconorm", "yagr", "max"], "yager"),
        (["-r", "missing/r.sqlite"], "missing"),
        (["-r", "text"], "no SQLite file"),
        (["--export", "xlsx", "t"], "csv"),
        (["--export", "csv", "missing/t"], "missing"),
        (["--limit", "0"], "--limit"),
        (["--workers", "some"], "--workers"),
        (["--seed", "-1"], "--seed"),
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


@pytest.mark.rotating(2)
@pytest.mark.parametrize("send", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_script_leaves_a_clean_file(tmp_path, send):
    """The whole of it: its own process group, as under a terminal, and the real task."""
    path = HERE.parents[2] / "experiments" / "grid_benchmark.py"
    options = ["shape", "-r", "r.sqlite", "--dist", "uniform", "--workers", 1]
    # Ctrl-C goes to all processes of a group, which those of a fork server are not in.
    workers = "" if send == signal.SIGINT else QUICK_WORKERS
    process = Python(f"{workers}\n{AS_A_SCRIPT}", path, *options, cwd=tmp_path)
    wait_until(lambda: results_of(tmp_path / "r.sqlite"))
    os.killpg(process.pid, send) if send == signal.SIGINT else process.send_signal(send)
    assert process.wait(60) == 130
    said = process.output()[1]
    assert said.splitlines()[-1] == (
        "grid_benchmark.py: stopped; the same command with --resume goes on"
    )
    assert "Traceback" not in said
    assert os.listdir(tmp_path) == ["r.sqlite"]
    with Store(tmp_path / "r.sqlite") as store:
        (run,) = store.runs()
        assert store.at_work(run) == 0
