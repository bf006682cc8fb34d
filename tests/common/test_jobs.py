"""Long work: steps until all is done, callbacks, checkpoints now and then."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

from gendr.cli.progress import Session
from gendr.jobs import loop
from gendr.jobs.loop import Pace, Progress, iterate


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
    for seconds, wait in ((0.2, 5.0), (2.0, 20.0)):
        assert not pace.is_due
        clock[0] += 5
        assert pace.is_due
        with pace.paused():
            clock[0] += seconds
        clock[0] += wait - 5.1
        assert not pace.is_due
        clock[0] += 0.1


def test_progress_is_a_number_with_a_stage_and_a_state():
    now = Progress(0.25, "search", {"n": 1})
    assert (now, now.progress, now.stage, now.state) == (0.25, 0.25, "search", {"n": 1})
    assert isinstance(2 * now, float)
    assert (Progress(1).stage, Progress(1).state) == ("", None)


def test_a_session_saves_what_was_done_last(clock, capsys):
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
            with pytest.raises(KeyboardInterrupt):
                steps(stop, every)
            said = f"stopped after {stop}; the same command with --resume goes on from there"
            assert said in capsys.readouterr().err
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
