"""Newton losses beside plain ones: the settings, the trainings, the table, the script."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import torch
import torch.nn.functional as F

from gendr.optim import NewtonLoss, NewtonStep
from gendr.sorting.losses import permutation_matrix, ranking_cross_entropy
from lab.data import segment_splits
from lab.report.curves import spread
from lab.report.newton import Entry, summary, table
from lab.studies import newton
from lab.studies.newton import (
    ClassSettings,
    ClassTraining,
    DigitsNet,
    NewtonPathSettings,
    NewtonPathTraining,
    SortingSettings,
    SortingTraining,
    halved,
    kendall_of,
)
from lab.studies.shortest_path import generated_splits
from support.cases import for_each
from support.scripts import imported

SORTING = SortingSettings(
    n=4, network="digits", steps=3, batch=6, evaluate_every=2, lists=10, test_lists=10
)
CLASSES = ClassSettings(steps=3, batch=20, evaluate_every=2, images=50)
PATHS = NewtonPathSettings(noise=2.0, steps=2, batch=3, samples=4, evaluate_every=2, maps=3)


@pytest.fixture(scope="module")
def digits():
    return segment_splits(200, 60, 60)


@pytest.fixture(scope="module")
def maps():
    return generated_splits(6, 3, 4)


def gradients(training):
    """All gradients of the first step, in one vector."""
    training.model.zero_grad()
    training.loss().backward()
    return torch.cat([p.grad.flatten() for p in training.model.parameters()])


# -- sorting


def test_kendall_is_that_of_scipy():
    rng = np.random.default_rng(0)
    scores, values = rng.normal(size=(20, 6)), rng.permuted(np.tile(np.arange(6), (20, 1)), axis=1)
    expected = [scipy.stats.kendalltau(a, b).statistic for a, b in zip(scores, values, strict=True)]
    np.testing.assert_allclose(kendall_of(scores, values), expected)


def test_small_network_sees_each_digit_by_itself(digits):
    train = halved(digits).train
    assert train.shape == (1, 14, 56)
    first = digits.train.images[0].float()
    expected = torch.stack([first[i::2, j::2] for i in (0, 1) for j in (0, 1)]).mean(0)
    assert torch.equal(train.images[0], expected.round().byte())
    net = DigitsNet(train.shape)
    images, _ = train.draw(3, 5, torch.Generator().manual_seed(0))
    assert net(images).shape == (3, 5)
    parts = images.reshape(15, 14, 4, 14).movedim(2, 1)  # [15, digit, 14, 14]
    expected = net.number(net.digit(parts.flatten(2)).flatten(1))
    torch.testing.assert_close(net(images), expected.reshape(3, 5))


@for_each(
    method=["neuralsort", "odd_even"], variant=["regular", "hessian", "fisher", "elementwise"]
)
def test_first_step_to_sort(digits, variant, method):
    """The same weights and lists for all variants; the gradient is that of the loss."""
    settings = replace(SORTING, method=method, variant=variant, tikhonov=0.5)
    training = SortingTraining(settings, digits)
    found = gradients(training)
    other = SortingTraining(replace(settings, variant="regular"), digits)
    images, values = other.train.draw(6, 4, other.generator)

    def each(y, q):
        p = other.sorter.permutation(y)
        return ranking_cross_entropy(p, q, binary=True, reduction="none")

    scores, q = other.model(images), permutation_matrix(values)
    if variant == "regular":
        each(scores, q).mean().backward()
    else:
        NewtonLoss(each, variant, tikhonov=0.5, second="differences")(scores, q).backward()
    expected = torch.cat([p.grad.flatten() for p in other.model.parameters()])
    torch.testing.assert_close(found, expected)


def test_damping_is_what_was_found(monkeypatch):
    monkeypatch.setattr(newton, "TIKHONOV", {("odd_even/logistic", "fisher"): 0.25})
    settings = SortingSettings(method="odd_even", dist="logistic", variant="fisher")
    assert settings.damping == 0.25
    assert replace(settings, variant="hessian").damping == newton.DAMPING
    assert replace(settings, tikhonov=3.0).damping == 3.0


# -- classification


def test_models_of_the_table():
    for model in newton.MODELS:
        net = newton.classifier(model)
        assert net(torch.rand(2, 1, 28, 28)).shape == (2, 10)
        layers = [m for m in net if isinstance(m, torch.nn.Linear | torch.nn.Conv2d)]
        assert len(layers) == 5
        assert layers[2].in_features == newton.WIDTHS.get(model, 400)


@for_each(optimizer=["sgd", "adam"])
def test_first_steps_to_classify(digits, optimizer):
    """Plain: those of torch's cross-entropy; an epoch shows every image once."""
    training = ClassTraining(replace(CLASSES, optimizer=optimizer), digits)
    other = newton.classifier("M1")
    other.load_state_dict(training.model.state_dict())
    steps = torch.optim.SGD(other.parameters(), 0.1)
    if optimizer == "adam":
        steps = torch.optim.Adam(other.parameters(), 1e-3)
    order = torch.randperm(200, generator=torch.Generator().manual_seed(0))
    for place in range(3):
        chosen = order[20 * place : 20 * (place + 1)]
        images = digits.train.images[chosen][:, None].float() / 255
        steps.zero_grad()
        F.cross_entropy(other(images), digits.train.labels[chosen].long()).backward()
        steps.step()
        training.advance()
    for a, b in zip(training.model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b)


# -- paths


def test_first_steps_of_paths(maps):
    """A Fisher step comes behind any method; Hessians where they are estimated."""
    settings = replace(PATHS, method="bellman_ford", variant="fisher", tikhonov=0.2)
    training = NewtonPathTraining(settings, maps)
    found = gradients(training)
    plain = NewtonPathTraining(replace(settings, variant="regular"), maps)
    order = torch.randperm(6, generator=torch.Generator().manual_seed(0))[:3]
    images, paths, _ = maps.train.batch(order)
    costs = plain.model(images)
    value = plain.method.loss(costs, paths, settings, 0)
    (g,) = torch.autograd.grad(3 * value, costs, retain_graph=True)
    step = NewtonStep("fisher", 0.2).of_gradient(g.flatten(1)).reshape(g.shape)
    costs.backward(-step / 3)
    expected = torch.cat([p.grad.flatten() for p in plain.model.parameters()])
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max()))


@for_each(
    "method, variant",
    [
        ("smoothing_loss", "hessian"),
        ("fenchel_young", "hessian"),
        ("fenchel_young", "elementwise"),
        ("smoothing", "fisher"),
        ("smoothing_loss", "resgro"),
    ],
)
def test_variants_of_paths_take_steps(maps, method, variant):
    training = NewtonPathTraining(replace(PATHS, method=method, variant=variant), maps)
    again = NewtonPathTraining(training.settings, maps)
    found = gradients(training)
    assert torch.isfinite(found).all()
    assert found.abs().max() > 0
    torch.testing.assert_close(gradients(again), found)  # the noise depends on the step alone
    training.advance()
    assert 0 <= training.result().test["optimal"] <= 1


# -- the table


def some(variant, seed, score, case="neuralsort, n = 5"):
    result = {"step": 10, "seconds": 0.5, "history": [], "example": {"tikhonov": 0.25}}
    return Entry(case, variant, seed, score, "em", result)


def test_table_has_differences_of_pairs():
    """Differences 0.1, 0.2, 0.3: mean 20, standard error 10 / sqrt 3."""
    scores = {0: (0.5, 0.6), 1: (0.3, 0.5), 2: (0.4, 0.7)}
    entries = [
        some(variant, seed, score)
        for seed, pair in scores.items()
        for variant, score in zip(("regular", "hessian"), pair, strict=True)
    ]
    regular, hessian = table("sorting", entries)[2:4]
    assert (
        regular == "| neuralsort, n = 5 | Regular |  | 3 | 10 | 50.0 | 40.00 ± 5.77 |  |  | 71.33 |"
    )
    expected = "0.25 | 3 | 10 | 50.0 | 60.00 ± 5.77 | +20.00 ± 5.77 | +3.5 | 83.31 |"
    assert hessian == f"| neuralsort, n = 5 | NL (Hessian) | {expected}"
    assert summary(entries) == [["neuralsort, n = 5", "40.0", "+20.0 ± 5.8", ""]]
    assert summary(entries[::2]) == []
    alone = table("sorting", [some("fisher", 0, 0.5)])[2]
    assert "| 50.00 |  |  | 83.93 |" in alone
    assert spread([1.0, 3.0]) == (2.0, 1.0)


# -- directions of steps


def test_directions_of_steps(digits, monkeypatch):
    """They are those made by hand at the first step, and the training goes on as without them."""
    module = imported(monkeypatch, "newton_directions")
    settings = replace(SORTING, method="neuralsort", variant="hessian")
    training = SortingTraining(settings, digits)
    found = module.directions(training)
    images, values = training.train.draw(
        settings.batch, settings.n, torch.Generator().manual_seed(settings.seed)
    )
    y, q = training.model(images).detach().double(), permutation_matrix(values).double()
    y.requires_grad_()

    def each(y):
        p = training.sorter.permutation(y)
        return ranking_cross_entropy(p, q, binary=settings.binary, reduction="none")

    (g,) = torch.autograd.grad(each(y).sum(), y)
    fisher = g.mT @ g / len(g) + 0.01 * torch.eye(settings.n)
    moved = torch.linalg.solve(fisher, g.mT).mT
    assert found["fisher_length"] == pytest.approx(float(moved.norm() / g.norm()), rel=1e-5)
    cosine = F.cosine_similarity(moved.flatten(), g.flatten(), dim=0)
    assert found["fisher_cosine"] == pytest.approx(float(cosine), rel=1e-5)
    assert 0 < found["hessian_cosine"] <= 1
    assert found["autograd"] < found["differences"] < 1e-3
    other = SortingTraining(settings, digits)
    torch.testing.assert_close(gradients(training), gradients(other), rtol=0, atol=0)
