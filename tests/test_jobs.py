"""Long work: its loop, its checkpoints, its settings, and the locks of its folders."""

import argparse
import errno
import os
import pickle
import warnings
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, ClassVar, Literal

import pytest
import torch

from gendr.cli.command_line import add_options, group, read_options, seconds
from gendr.cli.progress import Session
from gendr.jobs import loop
from gendr.jobs.checkpoint import (
    OtherWorkError,
    digest,
    load_checkpoint,
    save_checkpoint,
)
from gendr.jobs.folders import LOCK, locked
from gendr.jobs.loop import Pace, Progress, iterate
from gendr.jobs.settings import Range, changed, check_settings

# -------------------------------------------------------------------------------------------------
# Long work: steps until all is done, callbacks, checkpoints now and then


@dataclass(frozen=True)
class Sum:
    """A value: so many terms of a sum, and what was saved of it."""

    saved: list[int]
    terms: int = 0
    total: int = 0
    seconds: float = 0.0

    @property
    def progress(self):
        return min(1.0, self.terms / 5)

    def save(self, path):
        self.saved.append(self.terms)


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves when it is told to."""
    now = [100.0]
    moved = SimpleNamespace(monotonic=lambda: now[0], perf_counter=lambda: now[0])
    monkeypatch.setattr(loop, "time", moved)
    return now


def step(clock):
    """A step that takes three seconds."""

    def add(state, seconds):
        clock[0] += 3
        terms = state.terms + 1
        return replace(state, terms=terms, total=state.total + terms, seconds=seconds)

    return add


def test_steps_are_done_until_the_progress_is_one(clock):
    seen = []

    def tell(state):
        seen.append(state)
        clock[0] += 1  # which counts for the next step

    found = iterate(Sum([]), step(clock), callback=tell)
    assert (found.terms, found.total) == (5, 15)
    assert [each.terms for each in seen] == [1, 2, 3, 4, 5]
    assert [each.seconds for each in seen] == [0, 4, 4, 4, 4]
    assert iterate(found, step(clock), callback=seen.append) is found
    assert len(seen) == 5
    assert iterate(Sum([]), step(clock), seconds=5).terms == 2


def test_checkpoints_are_written_now_and_then_at_the_end_and_if_a_callback_breaks_off(clock):
    found = iterate(Sum([]), step(clock), checkpoint="a", save_every=6)
    assert found.saved == [2, 4, 5]
    saved = []

    def stop(state):
        if state.terms == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        iterate(Sum(saved), step(clock), checkpoint="a", callback=stop)
    assert saved == [3]


def test_a_pace_keeps_to_its_part_of_the_time(clock):
    pace = Pace(5.0, 0.1)
    for taken, wait in ((0.2, 5.0), (2.0, 20.0)):
        assert not pace.is_due
        clock[0] += 5
        assert pace.is_due
        with pace.paused():
            clock[0] += taken
        clock[0] += wait - 5.1
        assert not pace.is_due
        clock[0] += 0.1


def test_progress_is_a_number_with_a_stage_and_a_state():
    now = Progress(0.25, "search", {"n": 1})
    assert (now, now.progress, now.stage, now.state) == (0.25, 0.25, "search", {"n": 1})
    assert isinstance(2 * now, float)
    assert (Progress(1).stage, Progress(1).state) == ("", None)


def test_a_session_saves_what_was_done_last(clock):
    """After an interruption, and what a part came to; once each."""
    saved = []

    def steps(stop, every):
        with Session("sum", None, quiet=True, every=every) as session:
            for n in range(1, 6):
                clock[0] += 1
                session.place = f"after {n}", "from there"
                session.after(Progress(n / 5), lambda n=n: saved.append(n))
                if n == stop:
                    raise KeyboardInterrupt

    for stop, every, wanted in ((0, 100, [5]), (0, 2, [2, 4, 5]), (3, 100, [3]), (4, 2, [2, 4])):
        saved.clear()
        if stop:
            said = f"^stopped after {stop}; the same command with --resume goes on from there$"
            with pytest.raises(KeyboardInterrupt, match=said):
                steps(stop, every)
        else:
            steps(stop, every)
        assert saved == wanted, (stop, every)
    saved.clear()
    with Session("parts", None, quiet=True) as session:
        with session.part("one", saved.append) as tell:
            state = {"n": 1}
            for done in (0.1, Progress(0.2, state=state), Progress(0.9, "end", state)):
                tell(done)
        assert saved == [{"n": 1}]

        def broken():
            with session.part("two", saved.append) as tell:
                tell(Progress(0.5, state={"n": 2}))
                raise ValueError("wrong")

        with pytest.raises(ValueError, match="wrong"):
            broken()
    assert saved == [{"n": 1}, {"n": 2}]


# -------------------------------------------------------------------------------------------------
# Checkpoints: what is saved comes back, and other files are refused


VALUES = {
    "step": 3,
    "name": "box",
    "history": [{"step": 1, "loss": 0.5}],
    "frame": (torch.arange(3.0), 2.0),
    "best": None,
}


def save(path, state=VALUES, kind="a test", signature=None):
    save_checkpoint(path, kind, state, {"seed": 1} if signature is None else signature)


def load(path, names=VALUES, **options):
    return load_checkpoint(path, "a test", names, **options)


def test_values_come_back(tmp_path):
    """Tensors lose their graph and share their memory."""
    path = tmp_path / "a.pt"
    for step in (1, 3):  # the second replaces the first
        save(path, {**VALUES, "step": step})
    found = load(path)
    assert found.keys() == VALUES.keys()
    assert torch.equal(found["frame"][0], VALUES["frame"][0])
    assert {k: v for k, v in found.items() if k != "frame"} == {
        k: v for k, v in VALUES.items() if k != "frame"
    }
    assert [file.name for file in tmp_path.iterdir()] == ["a.pt"]
    big = torch.zeros(10_000)
    parameter = torch.nn.Parameter(torch.ones(2))
    save(tmp_path / "a", {"w": parameter * 2, "one": big, "two": big})
    found = load(tmp_path / "a", ["w"])
    assert not found["w"].requires_grad
    assert found["w"].tolist() == [2, 2]
    assert (tmp_path / "a").stat().st_size < 60_000


class Trap:
    def __reduce__(self):
        return Path.touch, (Path("was-run"),)


def test_what_is_no_checkpoint_ends_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.pt"
    for write, said in (
        (lambda: None, r"no checkpoint to resume from at .*a\.pt; start without"),
        (lambda: path.write_text("hello"), "is no checkpoint of a test"),
        (lambda: path.write_bytes(pickle.dumps(Trap())), "is no checkpoint of a test"),
        (lambda: path.write_bytes(pickle.dumps({"a": 1})), "is no checkpoint of a test"),
        (lambda: torch.save([1], path, pickle_protocol=4), "is no checkpoint of a test"),
        (lambda: torch.save([1, 2], path), r"no checkpoint of a test \(another format\)"),
        (lambda: save(path, kind="another"), r"a test \(another format\)"),
        (lambda: torch.save({"format": "gendr fit 3"}, path), r"a test \(another format\)"),
        (lambda: save(path, {"name": 1}), r"a test \(it lacks best\)"),
    ):
        write()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with pytest.raises(ValueError, match=said) as caught:
                load(path)
        assert "\n" not in str(caught.value)
        assert not told
    assert not Path("was-run").exists()


def test_work_with_another_signature_is_refused(tmp_path):
    path, data = tmp_path / "a.pt", torch.arange(3.0)
    save(path, signature={"rate": 0.1, "steps": 3, "photos": digest(data)})
    for signature in ({"rate": 0.1}, {"photos": digest(data.clone())}, {}, None):
        assert load(path, signature=signature)["step"] == 3
    for signature, said in (
        ({"rate": 0.2}, "a.pt is a test with rate = 0.1, now it is 0.2; resume with the same"),
        ({"new": 1}, "a test with new = None, now it is 1"),
        ({"photos": digest(data + 1)}, "a.pt is a test of other photos; resume with"),
    ):
        with pytest.raises(OtherWorkError, match=said):
            load(path, signature=signature)


def test_what_would_unpack_to_far_more_is_refused_before_it_does(tmp_path, monkeypatch):
    monkeypatch.setattr("gendr._common.arrays.ROOM", 1 << 16)
    save(tmp_path / "c.pt", {"zeros": torch.zeros(1 << 20)})
    assert load(tmp_path / "c.pt", ["zeros"])["zeros"].sum() == 0
    with (
        zipfile.ZipFile(tmp_path / "c.pt") as plain,
        zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for member in plain.infolist():
            packed.writestr(member.filename, plain.read(member))
    with pytest.raises(ValueError, match=r"bomb\.pt would unpack from \d{4} to 419\d{4} bytes"):
        load(tmp_path / "bomb.pt", ["zeros"])


# -------------------------------------------------------------------------------------------------
# Settings that their annotations check, and that the command line reads


@dataclass(frozen=True)
class Plain:
    """Settings of a test.

    Attributes:
        steps: how many.
        rate: of them.
        how: they are done.
        also: or not at all.
        time: after which it ends.
        inner: no option.
    """

    steps: Annotated[int, Range(1)] = 5
    rate: Annotated[float | None, Range(0, 1, closed=False)] = None
    how: Literal["fast", "well"] = "fast"
    also: Literal["a", "b"] | None = None
    time: Annotated[float | None, Range(0, closed=False)] = None
    inner: Annotated[int, Range(0)] = 0

    def __post_init__(self):
        check_settings(self)


@dataclass(frozen=True, kw_only=True)
class Command:
    groups: ClassVar = {"some": "steps rate how also time"}

    settings: Plain = group(Plain, time=(seconds, "TIME"))


def test_annotations_are_checked():
    Plain(rate=0.5, also="b", time=1e-3)
    for values, error, said in (
        ({"steps": 0}, ValueError, "steps must be >= 1, got 0"),
        ({"steps": 1.5}, TypeError, "steps must be an int"),
        ({"steps": None}, TypeError, "steps must be an int"),
        ({"rate": 1}, ValueError, "rate must be"),
        ({"rate": "x"}, TypeError, "rate must be a number"),
        ({"time": 0}, ValueError, "time must be > 0, got 0"),
        ({"how": "slow"}, ValueError, "unknown how 'slow'"),
        ({"how": None}, ValueError, "unknown how None"),
        ({"also": "c"}, ValueError, "unknown also 'c'"),
        ({"inner": -1}, ValueError, "inner must be >= 0"),
    ):
        with pytest.raises(error, match=said):
            Plain(**values)
    assert changed(Plain(), "setting", {"steps": 7}) == Plain(steps=7)
    with pytest.raises(ValueError, match="unknown setting 'step'; allowed: steps"):
        changed(Plain(), "setting", {"step": 7})


def test_the_command_line_reads_plain_settings(capsys):
    parser = argparse.ArgumentParser()
    add_options(parser, Command, Command.groups)
    words = "--steps 7 --rate 0.5 --how well --also b --time 2m".split()
    found = read_options(Command, vars(parser.parse_args(words)))
    assert found.settings == Plain(7, 0.5, "well", "b", 120.0)
    assert read_options(Command, vars(parser.parse_args([]))).settings == Plain()
    for words, said in (
        ("--steps 1.5", "must be a whole number >= 1, got '1.5'"),
        ("--rate 1", "must be between 0 and 1, ends excluded"),
        ("--how slow", "invalid choice: 'slow'"),
        ("--inner 3", "unrecognized arguments"),
    ):
        with pytest.raises(SystemExit):
            parser.parse_args(words.split())
        assert said in capsys.readouterr().err
    text = parser.format_help()
    assert all(each in text for each in ("--steps N", "--rate X", "--time TIME", "how many"))


# -------------------------------------------------------------------------------------------------
# Locks of folders


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_lock_keeps_others_out_and_goes(tmp_path):
    with locked(tmp_path):
        with pytest.raises(ValueError, match=rf"\(pid {os.getpid()}\) is writing to"):
            with locked(tmp_path):
                pass
        assert names(tmp_path) == [LOCK]
    assert names(tmp_path) == []
    with locked(tmp_path):
        pass


def test_without_locks_it_goes_on(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def unknown(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unknown)
    with locked(tmp_path):
        assert names(tmp_path) == [LOCK]
    assert names(tmp_path) == []
