"""The results file: what is written is read back, whatever happens; other files are left alone."""

import csv
import math
import os
import sqlite3
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

import gendr
from lab.engine import store as store_module
from lab.engine.store import COLUMNS, Store, StoreError, check_export, export, software_version
from support.cases import for_each
from support.fake_grid import outcome_of

NAMES = [instance.name for instance in gendr.instances()[::101]]


@pytest.fixture
def other(store, path):
    """Another writer of the same file."""
    with Store(path, write=True) as other:
        yield other


@pytest.fixture
def run(store):
    return store.begin("shape", "{}", 0, "laptop")


def same(a, b):
    return a == b or (math.isnan(a) and math.isnan(b))


# -- results


def test_outcome_comes_back_and_is_recorded_once(store, run, path):
    pictures = (None, b"\x89PNG\0\1")
    for name, score, picture in zip(NAMES, (0.25, math.inf, math.nan), pictures * 2):  # noqa: B905
        outcome = outcome_of(name)
        trials = (*outcome.trials, replace(outcome.trials[0], score=score, seed=7))
        outcome = replace(outcome, score=score, picture=picture, trials=trials)
        assert store.record(run, outcome)
        assert not store.record(run, replace(outcome, score=-1.0))
        check_recorded(path, run, outcome)


def check_recorded(path, run, outcome):
    trials = outcome.trials
    with Store(path) as reader:
        assert reader.runs() == [run]
        result = reader.results(run)[-1]
        assert same(result.score, outcome.score)
        for name in ("instance", "scale", "learning_rate", "seconds", "picture"):
            assert getattr(result, name) == getattr(outcome, name)
        assert (result.run, result.version) == (run.id, software_version())
        found = reader.trials(run, outcome.instance)
        assert [replace(t, score=0.0) for t in found] == [replace(t, score=0.0) for t in trials]
        assert all(same(a.score, b.score) for a, b in zip(found, trials, strict=True))
        assert reader.results(run, pictures=False)[-1].picture is None


def test_run_is_task_protocol_and_seed(store, run):
    assert store.begin("shape", "{}", 0, "another name") == run
    others = [
        store.begin("pose", "{}", 0),
        store.begin("shape", '{"a":1}', 0),
        store.begin("shape", "{}", 1),
    ]
    assert store.runs() == [run, *others]
    store.record(run, outcome_of(NAMES[0]))
    assert not any(store.results(other) for other in others)
    assert store.find("shape", "{}", 1) == others[2]
    assert store.find("shape", "{}", 2) is None


def test_half_an_outcome_is_none(store, run):
    def trials():
        yield outcome_of(NAMES[0]).trials[0]
        raise KeyboardInterrupt

    store.claim(run, NAMES[0])
    with pytest.raises(KeyboardInterrupt):
        store.record(run, replace(outcome_of(NAMES[0]), trials=trials()))
    assert store.results(run) == []
    assert store.trials(run, NAMES[0]) == []
    assert store.record(run, outcome_of(NAMES[0]))


def test_failure_lasts_until_it_is_forgotten_or_mended(store, run):
    for name in NAMES[:3]:
        store.claim(run, name)
        store.give_up(run, name, 3, "out of memory")
    assert [(f.instance, f.attempts, f.reason) for f in store.failures(run)] == [
        (name, 3, "out of memory") for name in NAMES[:3]
    ]
    assert store.claim(run, NAMES[0]) == "settled"
    store.forget_failures(run, NAMES[:1])
    assert store.claim(run, NAMES[0]) == "claimed"
    store.record(run, outcome_of(NAMES[1]))
    assert [f.instance for f in store.failures(run)] == NAMES[2:3]


# -- claims


def test_claim_is_for_one(store, other, run, claims):
    assert store.claim(run, NAMES[0]) == "claimed"
    assert store.claim(run, NAMES[0]) == "claimed"
    assert other.claim(run, NAMES[0]) == "taken"
    assert other.claim(run, NAMES[1]) == "claimed"
    assert claims() == 2
    store.release()
    assert claims() == 1
    assert other.claim(run, NAMES[0]) == "claimed"
    other.record(run, outcome_of(NAMES[0]))
    assert store.claim(run, NAMES[0]) == "settled"
    assert claims() == 1


def test_silent_claim_is_void(store, other, run, monkeypatch):
    store.claim(run, NAMES[0])
    store.claim(run, NAMES[1])
    now = store_module.time.time()
    monkeypatch.setattr(store_module.time, "time", lambda: now + store_module.STALE - 1)
    assert other.claim(run, NAMES[0]) == "taken"
    store.heartbeat()
    monkeypatch.setattr(store_module.time, "time", lambda: now + store_module.STALE + 1)
    assert other.claim(run, NAMES[0]) == "taken"
    monkeypatch.setattr(store_module.time, "time", lambda: now + 2 * store_module.STALE)
    assert other.claim(run, NAMES[0]) == "claimed"


def test_claim_of_a_dead_process_is_void_where_that_can_be_seen(store, other, run):
    process = subprocess.Popen(["true"])
    process.wait()
    here = store.owner.split(":")[0]
    for name, host, claim in (
        (NAMES[0], here, "claimed"),
        (NAMES[1], "elsewhere", "taken"),
    ):
        store.owner = f"{host}:{process.pid}:0"
        store.claim(run, name)
        assert other.claim(run, name) == claim


# -- files


def test_closed_file_is_a_single_plain_one(path):
    with Store(path, write=True) as store:
        run = store.begin("shape", "{}", 0)
        with Store(path, write=True) as other:
            other.record(run, outcome_of(NAMES[0]))
        store.record(run, outcome_of(NAMES[1]))
    assert os.listdir(path.parent) == [path.name]
    # Written and read with a rollback journal, says the header; WAL would be 2. A file in WAL mode
    # could not be read where nothing can be written.
    assert path.read_bytes()[18:20] == b"\1\1"
    with Store(path) as store:
        assert len(store.results(run)) == 2


def test_reading_changes_nothing(path):
    with Store(path, write=True) as store:
        run = store.begin("shape", "{}", 0)
        store.record(run, outcome_of(NAMES[0]))
    before = path.read_bytes()
    with Store(path) as store:
        assert len(store.results(run)) == 1
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            store.record(run, outcome_of(NAMES[1]))
    assert path.read_bytes() == before


def database(path, *statements):
    db = sqlite3.connect(path)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


def text_file(path):
    path.write_text("scores I wrote down\n" * 100)


def foreign_database(path):
    database(path, "CREATE TABLE recipes (name)")


def later_version(path):
    Store(path, write=True).close()
    database(path, "PRAGMA user_version = 2")


@for_each(
    "make, said",
    [
        (text_file, "no SQLite file"),
        (foreign_database, "not of gendr"),
        (later_version, "schema version 2"),
    ],
    write=[True, False],
)
def test_file_that_is_not_ours_is_left_as_it_is(tmp_path, make, said, write):
    path = tmp_path / "results.sqlite"
    make(path)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=said) as caught:
        Store(path, write=write)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


@for_each(
    "name, write, said",
    [
        ("missing.sqlite", False, "no results file"),
        ("missing/results.sqlite", True, "no folder"),
        (".", True, "is a folder"),
        ("file/results.sqlite", True, "no folder"),
        ("/proc/results.sqlite", True, "cannot" if os.path.isdir("/proc") else "no folder"),
    ],
)
def test_place_that_is_no_good_is_named(tmp_path, name, write, said):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=said) as caught:
        Store(tmp_path / name, write=write)
    assert str(tmp_path / name).rstrip("/.") in str(caught.value) or said == "no folder"
    assert os.listdir(tmp_path) == ["file"]


def test_threads_open_write_and_close_at_once(path):
    def work(k):
        for name in NAMES:
            with Store(path, write=True) as store:
                store.record(store.begin("shape", "{}", k % 2), outcome_of(name))

    with ThreadPoolExecutor(4) as pool:
        for job in [pool.submit(work, k) for k in range(4)]:
            job.result()
    with Store(path) as store:
        for run in store.runs():
            assert sorted(r.instance for r in store.results(run)) == sorted(NAMES)
            assert all(len(store.trials(run, name)) == 3 for name in NAMES)


# -- tables


def test_csv_has_all_results_in_the_order_of_the_benchmark(store, run, tmp_path):
    second = store.begin("pose", "{}", 3, "paper")
    for name in reversed(NAMES):
        store.record(run, outcome_of(name))
    store.record(second, replace(outcome_of(NAMES[0]), score=math.nan))
    table = tmp_path / "table.csv"
    table.write_text("an older one")
    export(store, table)
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(COLUMNS)
    assert [row["instance"] for row in rows] == [*NAMES, NAMES[0]]
    for row in rows:
        squared = row["squared"] == "True"
        dist = row["dist"] + ".squared" * squared
        assert f"{dist}/{row['tconorm']}" == row["instance"]
        assert gendr.instance(row["instance"]).dist.is_squared is squared
    assert all(float(r["score"]) == outcome_of(r["instance"]).score for r in rows[:-1])
    assert math.isnan(float(rows[-1]["score"]))
    assert [rows[-1][k] for k in ("run", "task", "protocol", "seed")] == ["2", "pose", "paper", "3"]
    assert not list(tmp_path.glob(".new*"))


@for_each("name, said", [(".", "folder"), ("missing/a", "cannot write")])
def test_export_that_cannot_work_is_found_out_beforehand(tmp_path, name, said):
    with pytest.raises(StoreError, match=said):
        check_export(tmp_path / name)
