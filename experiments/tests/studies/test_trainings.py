"""The trainings of all studies: they learn, say it in plain values, and go on as if whole."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from lab.data import Examples, ExampleSplits, HouseNumbers, MultiDigits, Splits, segment_splits
from lab.studies import training as studies
from lab.studies.classification import ClassificationSettings, ClassificationTraining
from lab.studies.edit_distance import EditSettings, EditTraining
from lab.studies.newton import (
    ClassSettings,
    ClassTraining,
    NewtonPathSettings,
    NewtonPathTraining,
    SortingSettings,
    SortingTraining,
)
from lab.studies.ranking import RankingSettings, RankingTraining
from lab.studies.shortest_path import PathSettings, PathTraining, generated_splits
from support.cases import for_each
from support.trainings import resumed, trained


def bright(seed, digits=10, side=8, count=40):
    """Digits that can be told apart by the brightness of their left half."""
    labels = torch.arange(count).byte() % digits
    noise = torch.randint(0, 9, (count, side, side), generator=torch.Generator().manual_seed(seed))
    noise[..., : side // 2] += 240 // digits * labels[:, None, None]
    return MultiDigits(noise.byte(), labels, digits=1)


def points(seed, count=70):
    labels = torch.arange(count) % 7
    generator = torch.Generator().manual_seed(seed)
    features = 3 * torch.eye(7)[labels] + torch.randn(count, 7, generator=generator)
    return Examples(features, labels, 7)


NUMBERS = Splits(*(bright(seed) for seed in range(3)))
FOUR = Splits(*(bright(seed, 4, count=24) for seed in range(3)))
POINTS = ExampleSplits(*(points(seed) for seed in range(3)))
MAPS = generated_splits(24, 12, 4)
DIGITS = segment_splits(200, 60, 60)
QUICK = {"evaluate_every": 20, "steps": 40}
LISTS = {"n": 3, "batch": 16, "lists": 50, "test_lists": 100, "learning_rate": 0.01, **QUICK}

# By name: the training, settings with which it learns in no time, its data, and what of the test
# is at least how large.
TRAININGS = {
    "ranking": (RankingTraining, RankingSettings(method="softsort", **LISTS), NUMBERS, "em5", 0.6),
    "ranks": (
        RankingTraining, RankingSettings(method="permutahedron", **LISTS), NUMBERS, "em5", 0.5,
    ),
    "swaps": (
        RankingTraining, RankingSettings(method="bubble_swaps", **LISTS), NUMBERS, "em5", 0.5,
    ),
    "edit": (
        EditTraining,
        EditSettings((0, 3), length=10, batch=6, learning_rate=0.01, evaluate_every=20, steps=50),
        FOUR, "accuracy", 0.9,
    ),
    "topk": (
        ClassificationTraining,
        ClassificationSettings("softsort", batch=20, learning_rate=0.05, **QUICK), POINTS, 4, 0.9,
    ),
    "paths": (
        PathTraining, PathSettings(batch=4, steepness=3.0, learning_rate=3e-3, evaluate_every=10,
                                   steps=20), MAPS, "optimal", 0.05,
    ),
    "newton classes": (
        ClassTraining, ClassSettings(variant="fisher", batch=20, rate=3e-3, **QUICK), DIGITS,
        "accuracy", 0.25,
    ),
    "newton lists": (
        SortingTraining,
        SortingSettings(variant="hessian", network="digits", **{**LISTS, "steps": 20}), DIGITS,
        "em5", 0.0,
    ),
    "newton paths": (
        NewtonPathTraining,
        NewtonPathSettings(variant="hessian", method="fenchel_young", samples=2, batch=4,
                           evaluate_every=3, steps=4), MAPS, "paths", 1.0,
    ),
}  # fmt: skip


@for_each(name=TRAININGS, rotating=9)
def test_it_learns_and_goes_on_as_if_whole(name, tmp_path):
    kind, settings, data, key, least = TRAININGS[name]
    training = kind(settings, data)
    whole = trained(training)
    assert whole.test[key] >= least
    assert (whole.step, whole.history[-1]["step"]) == (settings.steps, settings.steps)
    plain = json.loads(json.dumps(whole.describe()))
    assert plain["settings"]["steps"] == plain["step"] == settings.steps
    before = [parameter.clone() for parameter in training.model.parameters()]
    again = training.result()  # which left the training as it was
    assert all(map(torch.equal, before, training.model.parameters()))
    assert (again.test, again.history) == (whole.test, whole.history)

    at = settings.steps - 2
    result, steps = resumed(
        lambda **options: trained(kind(settings, data), **options), tmp_path / "half.pt", at
    )
    assert steps == [at + 1, at + 2]
    assert (result.history, result.test, result.more) == (whole.history, whole.test, whole.more)
    for value, other in zip(
        result.model.state_dict().values(), whole.model.state_dict().values(), strict=True
    ):
        assert torch.equal(value, other)
    with pytest.raises(ValueError, match=r"is a .*training.* with batch = "):
        kind(replace(settings, batch=5), data).restore(tmp_path / "half.pt")
    with pytest.raises(ValueError, match=r"is a .*training.* with data = "):
        kind(settings, data._replace(train=data[1])).restore(tmp_path / "half.pt")


def test_the_best_weights_are_kept():
    training = RankingTraining(TRAININGS["ranking"][1], NUMBERS)
    weight = next(iter(training.model.state_dict()))
    values = []
    for step, score in enumerate((0.2, 0.6, 0.4)):
        training.step = step
        training.keep_if_best(score)
        values.append(training.model.state_dict()[weight].clone())
        training.advance()
    assert training.best["step"] == 1
    assert torch.equal(training.best_model().state_dict()[weight], values[1])
    assert not torch.equal(training.model.state_dict()[weight], values[1])
    one = studies.StudyResult(training.settings, 3, {}, (), 0.0, training.model, {"best_step": 1})
    assert one.describe()["best_step"] == 1


@for_each(
    "settings, changes, error, words",
    [
        (RankingSettings(), {"n": 1}, ValueError, "n must be >= 2"),
        (RankingSettings(), {"steps": 0}, ValueError, "steps must be >= 1"),
        (RankingSettings(), {"batch": 2.0}, TypeError, "batch must be an int"),
        (RankingSettings(), {"learning_rate": 0.0}, ValueError, "learning_rate must be > 0"),
        (RankingSettings(), {"n": 2, "lists": 2}, ValueError, "must hold 5 numbers"),
        (RankingSettings(), {"method": "softsort", "art": 0.25}, ValueError, "for sorting"),
        (RankingSettings(), {"method": "softsort", "dist": "cauchy"}, ValueError, "got them with"),
        (RankingSettings(), {"method": "bubble_sort", "art": 0.5}, ValueError, "got it with"),
        (EditSettings(), {"method": "hamming"}, ValueError, "method"),
        (EditSettings(), {"length": 3}, ValueError, "length must be >= 4"),
        (EditSettings(), {"dist": "gumbel_max"}, ValueError, "symmetric"),
        (PathSettings(), {"method": "dijkstra"}, ValueError, "method"),
        (PathSettings(), {"loss": "l3"}, ValueError, "loss"),
        (PathSettings(), {"precision": "float16"}, ValueError, "precision"),
        (PathSettings(), {"batch": 1}, ValueError, "batch must be >= 2"),
        (PathSettings(), {"samples": 2.0}, TypeError, "samples must be an int"),
        (PathSettings(), {"noise": 0.0}, ValueError, "noise must be > 0"),
        (PathSettings(), {"dist": "gumbel_max"}, ValueError, "symmetric"),
        (ClassificationSettings(), {"loss": "hinge"}, ValueError, "unknown loss 'hinge'"),
        (ClassificationSettings(), {"p_k": (0.5, 0.1)}, ValueError, "sum to 1"),
        (ClassificationSettings(), {"model": "transformer"}, ValueError, "unknown model"),
        (ClassificationSettings(), {"top1": "sigmoid"}, ValueError, "unknown top1"),
        (SortingSettings(), {"variant": "newton"}, ValueError, "unknown variant 'newton'"),
        (SortingSettings(), {"method": "permutahedron"}, ValueError, "with a permutation matrix"),
        (SortingSettings(), {"tikhonov": -1.0}, ValueError, "tikhonov must be"),
        (SortingSettings(), {"samples": 5, "drawn": 4}, ValueError, "drawn must be >= 5"),
        (SortingSettings(), {"network": "large"}, ValueError, "unknown network"),
        (ClassSettings(), {"model": "M6"}, ValueError, "unknown model"),
        (ClassSettings(), {"variant": "resgro"}, ValueError, "no variant resgro"),
        (ClassSettings(), {"rate": 0.0}, ValueError, "rate must be > 0"),
        (NewtonPathSettings(), {"variant": "hessian"}, ValueError, "has not, but smoothing"),
        (NewtonPathSettings(), {"variant": "resgro", "drawn": 3}, ValueError, "drawn must be"),
    ],
)  # fmt: skip
def test_bad_settings(settings, changes, error, words):
    with pytest.raises(error, match=words):
        replace(settings, **changes)


def test_data_that_do_not_fit():
    other = HouseNumbers(torch.zeros(1, 3, 20, 20).byte(), torch.zeros(1).long(), window=16)
    few = Examples(torch.zeros(4, 2), torch.arange(4) % 2, 2)
    for make, error, words in (
        (lambda: EditTraining(EditSettings(), FOUR._replace(test=other)), TypeError,
         "must be MultiDigits, got HouseNumbers"),
        (lambda: EditTraining(EditSettings((0, 7)), FOUR), ValueError, "there is no image of 7"),
        (lambda: ClassificationTraining(ClassificationSettings(model="convolution"), POINTS),
         ValueError, "model 'convolution' takes images"),
        (lambda: ClassificationTraining(ClassificationSettings(), ExampleSplits(few, few, few)),
         ValueError, "need more than 5 classes, got 2"),
    ):  # fmt: skip
        with pytest.raises(error, match=words):
            make()
    # Networks for house numbers have four convolutions.
    data = SimpleNamespace(
        digest=str, to=lambda _: None, shape=other.shape, channels=other.channels
    )
    splits = Splits(data, data, data)
    training = RankingTraining(RankingSettings(), splits)
    assert len(training.model.convolutions) == 4
