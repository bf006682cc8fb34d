"""What all trainings by steps share: batches, history, checkpoints, the end of time."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from gendr.jobs import loop
from gendr.jobs.training import TrainingLoop, drive
from lab.studies.training import StudyTraining
from support.trainings import resumed, trained


@dataclass(frozen=True)
class Settings:
    """The settings of a line through points."""

    steps: int = 12
    learning_rate: float = 0.1
    evaluate_every: int = 5
    seed: int = 3
    batch: int = 4


class Line(TrainingLoop):
    """The training of a line; it draws from its own generator and from the global one."""

    kind, kept = "a line", ("best",)

    def __init__(self, settings=Settings(), data="some"):
        super().__init__(settings, "cpu", lambda: nn.Linear(1, 1))
        self.evaluations, self.best, self.data = 0, 0, data

    def loss(self):
        x = torch.rand(self.settings.batch, 1, generator=self.generator)
        return (self.model(x) + 0.1 * torch.randn_like(x)).square().mean()

    def evaluate(self, row):
        self.evaluations += 1
        self.best = row["right"] = float(self.step)

    def signature(self):
        return self.signature_of([self.data])

    def result(self) -> Any:
        return SimpleNamespace(
            history=self.history, step=self.step, best=self.best, seconds=self.seconds,
            weights=torch.cat([p.detach().flatten() for p in self.model.parameters()]),
        )  # fmt: skip


def check_same(one, other):
    assert (one.history, one.step, one.best) == (other.history, other.step, other.best)
    assert torch.equal(one.weights, other.weights)


def test_an_epoch_has_every_sample_at_most_once():
    for count, batch in ((10, 3), (4, 9)):
        training = Line()
        a_step, steps = min(batch, count), count // min(batch, count)
        epochs = []
        for epoch in range(2):
            seen = []
            for place in range(steps):
                training.step = epoch * steps + place
                seen += StudyTraining.batch_of_epoch(training, count, batch).tolist()
            assert len(set(seen)) == len(seen) == a_step * steps
            epochs.append(seen)
        assert epochs[0] != epochs[1]
        order = torch.randperm(count, generator=torch.Generator().manual_seed((3 << 32) + 1))
        assert epochs[1] == order[: a_step * steps].tolist()


def test_the_last_row_is_evaluated():
    for steps, evaluations in ((0, 1), (5, 1), (6, 2)):
        training = Line()
        for _ in range(steps):
            training.advance()
        before = [dict(row) for row in training.history]
        history = StudyTraining.evaluated_history(training, "right")
        assert history[-1]["step"] == history[-1]["right"] == steps
        assert training.evaluations == evaluations  # no second time where there is one
        assert training.history == before  # which is left as it is


def test_the_number_of_steps_makes_no_other_training():
    first, second = (Line(Settings(steps=steps)).signature() for steps in (10, 20))
    assert first == second
    expected = {"learning_rate": 0.1, "evaluate_every": 5, "seed": 3, "batch": 4}
    assert first == {**expected, "data": ["some"]}


def test_rows_of_the_history():
    result = trained(Line(Settings(steps=29, evaluate_every=25)))
    assert [row["step"] for row in result.history] == [*range(2, 26, 2), 25, 26, 28]
    assert [row["step"] for row in result.history if "right" in row] == [25]
    training, losses = Line(), []
    torch.manual_seed(1)
    for _ in range(4):
        states = training.generator.get_state(), torch.get_rng_state()
        losses.append(training.loss().item())
        training.generator.set_state(states[0])
        torch.set_rng_state(states[1])
        training.advance()
    assert [row["loss"] for row in training.history] == pytest.approx(losses)


def test_resuming_changes_nothing(tmp_path):
    for at, every in ((1, 5), (5, 5), (7, 30), (12, 5)):  # 30: a row every third step
        settings, file = Settings(evaluate_every=every), tmp_path / f"{at}.pt"
        torch.manual_seed(3)
        whole = trained(Line(settings))
        torch.manual_seed(3)

        def train(*, resume=False, **options):
            if resume:
                torch.rand(7)  # as if others had drawn meanwhile
            return trained(Line(settings), resume=resume, **options)  # noqa: B023

        result, steps = resumed(train, file, at)
        assert steps == list(range(at + 1, 13))
        check_same(result, whole)


def test_a_kill_or_the_end_of_time_costs_no_step(tmp_path, monkeypatch):
    file, then = tmp_path / "checkpoint.pt", tmp_path / "at step 9.pt"

    def keep(training):
        if training.step == 9:
            then.write_bytes(file.read_bytes())

    torch.manual_seed(3)
    whole = trained(Line(), checkpoint=file, save_every=0, callback=keep)
    (at_step_9 := Line()).restore(then)
    assert at_step_9.step == 8
    check_same(trained(Line(), checkpoint=then, resume=True), whole)
    torch.manual_seed(3)
    part = trained(Line(), checkpoint=file, seconds=1e-9)
    assert part.step == 1
    rest = trained(Line(), checkpoint=file, resume=True)
    check_same(rest, whole)
    assert 0 < part.seconds < rest.seconds
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], perf_counter=lambda: now[0])
    monkeypatch.setattr(loop, "time", clock)
    steps = []

    def tick(_):  # a second a step
        now[0] += 1

    monkeypatch.setattr(Line, "save", lambda training, _: steps.append(training.step))
    assert trained(Line(), checkpoint=file, save_every=5, callback=tick).step == 12
    assert steps == [5, 10, 12]
    assert trained(Line(), seconds=6.5, callback=tick).step == 7


def test_checkpoints_that_do_not_fit_or_cannot_be_written(tmp_path, monkeypatch):
    file = tmp_path / "checkpoint.pt"

    def refused(words, training=None, **options):
        options = {"checkpoint": file, "resume": True, **options}
        with pytest.raises(ValueError, match=words):
            drive(training or Line(), **options)

    refused("no checkpoint to resume from at")
    refused("resume needs a checkpoint", checkpoint=None)
    file.write_bytes(b"something else")
    refused("is no checkpoint of a line")
    torch.save({"format": "another"}, file)
    refused("is no checkpoint of a line")
    drive(Line(), checkpoint=file, seconds=1e-9)
    words = r"with batch = 4, now it is 5; resume with the same settings"
    refused(words, Line(Settings(batch=5)))
    refused("is a line with data = ", Line(data="other"))
    refused("the loss is .* after .* steps; try a smaller", Line(Settings(learning_rate=1e30)),
            resume=False, checkpoint=None)  # fmt: skip
    before = file.read_bytes()

    def fail(values, target):
        target.write(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(OSError, match="no space"):
        drive(Line(), checkpoint=file, resume=True)
    assert file.read_bytes() == before
