"""What all trainings by steps share beyond their steps."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from gendr._runtime.training import Training


@dataclass(frozen=True)
class Settings:
    """The settings of a line through points."""

    steps: int = 10
    learning_rate: float = 0.1
    evaluate_every: int = 4
    seed: int = 3


class Line(Training):
    """The training of a line, which notes its batches."""

    kind, what = "line 1", "a line"

    def __init__(self, settings):
        super().__init__(settings, "cpu", lambda: nn.Linear(1, 1))
        self.evaluations = 0

    def loss(self):
        return self.model(torch.ones(1, 1)).square().sum()

    def evaluate(self, row):
        self.evaluations += 1
        row["right"] = float(self.step)

    def signature(self):
        return self.signature_of(["some"])

    def result(self):
        raise NotImplementedError


@pytest.mark.parametrize(("count", "batch"), [(10, 3), (4, 9)])
def test_an_epoch_has_every_sample_at_most_once(count, batch):
    training = Line(Settings())
    a_step, steps = min(batch, count), count // min(batch, count)
    epochs = []
    for epoch in range(2):
        seen = []
        for place in range(steps):
            training.step = epoch * steps + place
            seen += training.batch_of_epoch(count, batch).tolist()
        assert len(set(seen)) == len(seen) == a_step * steps
        epochs.append(seen)
    assert epochs[0] != epochs[1]
    order = torch.randperm(count, generator=torch.Generator().manual_seed((3 << 32) + 1))
    assert epochs[1] == order[: a_step * steps].tolist()


@pytest.mark.parametrize(("steps", "evaluations"), [(0, 1), (4, 1), (5, 2)])
def test_the_last_row_is_evaluated(steps, evaluations):
    training = Line(Settings())
    for _ in range(steps):
        training.advance()
    before = [dict(row) for row in training.history]
    history = training.evaluated_history("right")
    assert history[-1]["step"] == history[-1]["right"] == steps
    assert training.evaluations == evaluations  # no second time where there is one
    assert training.history == before  # which is left as it is


def test_the_number_of_steps_makes_no_other_training():
    first, second = (Line(Settings(steps=steps)).signature() for steps in (10, 20))
    assert first == second
    assert first == {"learning_rate": 0.1, "evaluate_every": 4, "seed": 3, "data": ["some"]}
