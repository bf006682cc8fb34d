"""Learning from order: the published settings, the network, the metrics, the loss."""

import math

import pytest
import torch
from torch.nn import functional

from gendr.sorting import network
from gendr.sorting.losses import hard_ranks, permutation_matrix, ranking_cross_entropy
from lab.data import MultiDigits, Splits
from lab.studies.ranking import (
    Metrics,
    RankingNet,
    RankingSettings,
    RankingTraining,
    evaluate,
    published_steepness,
)


def bright(count=40, side=4, seed=0):
    """Digits that can be told apart by their brightness."""
    labels = torch.arange(count).byte() % 10
    noise = torch.randint(0, 9, (count, side, side), generator=torch.Generator().manual_seed(seed))
    return MultiDigits((labels[:, None, None] * 27 + noise).byte(), labels, digits=1)


@pytest.fixture(scope="module")
def data():
    return Splits(bright(), bright(seed=1), bright(20, seed=2))


# -- the published settings ---------------------------------------------------------------------


def test_steepness_of_art():
    s = RankingSettings()
    assert (s.batch, s.steps, s.learning_rate) == (100, 200_000, pytest.approx(10**-3.5))
    # Twice the layers for a distribution that the table lacks.
    assert published_steepness("odd_even", 5, "cauchy", art=True) == 2 * 5
    assert published_steepness("bitonic", 16, "gaussian", art=True) == 2 * 10
    row = [published_steepness("odd_even", n, "logistic", art=True) for n in (3, 5, 7, 9, 15, 32)]
    assert row == [15, 20, 13, 34, 16, 29]
    assert [published_steepness("bitonic", n, "logistic", art=True) for n in (16, 32)] == [28, 26]
    assert published_steepness("odd_even", 8, "logistic", art=True) in (13, 34)  # of a like depth
    assert RankingSettings(n=5, dist="logistic", art=0.25).sorter().steepness == 20


def test_steepness_of_the_table():
    assert published_steepness("odd_even", 9, "optimal") == 32
    assert published_steepness("bitonic", 32, "logistic") == 8
    assert published_steepness("odd_even", 15, "cauchy") == pytest.approx(40 * math.pi, abs=0.1)
    # The thesis' reciprocal sigmoid at beta, against ours.
    from gendr.distributions import get

    x, beta = torch.linspace(-2, 2, 9, dtype=torch.float64), 124.0
    thesis = beta * x / (1 + 2 * beta * x.abs()) + 0.5
    ours = get("reciprocal")(x, 1 / published_steepness("bitonic", 16, "reciprocal"))
    torch.testing.assert_close(ours, thesis)


def test_steepness_of_what_the_table_lacks_is_that_of_a_like_depth():
    assert network("bitonic", 32).depth == 15
    assert published_steepness("odd_even", 16, "optimal") == 25  # odd_even(15), not bitonic(32)
    assert published_steepness("odd_even", 15, "cauchy") == 125.7
    assert published_steepness("odd_even_merge", 32, "cauchy") in (125.7, 152.4)
    assert published_steepness("odd_even", 99, "optimal") == 124
    assert published_steepness("odd_even", 2, "optimal") == 6
    with pytest.raises(ValueError, match="no published steepness for gaussian"):
        published_steepness("odd_even", 5, "gaussian")


def test_sorters_of_the_settings():
    sorter = RankingSettings(n=9, dist="optimal").sorter()
    assert (sorter.name, sorter.steepness, str(sorter.distribution)) == ("odd_even", 32, "optimal")
    sorter = RankingSettings(n=16, method="bitonic", dist="logistic", art=0.25).sorter()
    assert (sorter.name, sorter.steepness, str(sorter.distribution)) == (
        "bitonic",
        28,
        "logistic.art(0.25)",
    )
    assert RankingSettings(steepness=3.0).sorter().steepness == 3.0
    soft = RankingSettings(method="softsort").sorter()
    assert soft.steepness == type(soft)().steepness
    assert RankingSettings(method="softsort", steepness=3.0).sorter().steepness == 3.0
    with pytest.raises(ValueError, match="softsurt"):
        RankingSettings(method="softsurt").sorter()


# -- the network --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "channels"), [((1, 28, 112), (32, 64)), ((3, 54, 54), (32, 64, 128, 256))]
)
def test_network_is_the_published_one(shape, channels):
    net = RankingNet(shape, channels)
    convolutions, before = 0, shape[0]
    height, width = shape[1:]
    for after in channels:
        convolutions += (25 * before + 1) * after
        before, height, width = after, height // 2, width // 2
    size = 64 * before * height * width + 64 + 65
    assert sum(p.numel() for p in net.parameters()) == convolutions + size
    images = torch.rand(2, 2, *shape)
    x = images.flatten(0, 1)
    for convolution in net.convolutions:
        x = functional.conv2d(x, convolution.weight, convolution.bias, padding=2)
        x = functional.max_pool2d(functional.relu(x), 2)
    x = functional.relu(functional.linear(x.flatten(1), net.hidden.weight, net.hidden.bias))
    want = functional.linear(x, net.score.weight, net.score.bias).reshape(2, 2)
    torch.testing.assert_close(net(images), want)
    parameters = list(net.parameters())
    for a, b in zip(
        torch.autograd.grad(net(images).square().sum(), parameters),
        torch.autograd.grad(want.square().sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


# -- the metrics --------------------------------------------------------------------------------


class Oracle(torch.nn.Module):
    """Scores from the brightness; noise makes some of them wrong."""

    def __init__(self, noise=0.0, sign=1.0):
        super().__init__()
        self.noise, self.sign = noise, sign

    def forward(self, images):
        score = (images.mean((-3, -2, -1)) * 255 / 27).floor()
        return self.sign * score + self.noise * torch.randn_like(score)


def test_metrics(data):
    assert evaluate(Oracle(), data.test, 4, 50, seed=0) == Metrics(1, 1, 1)
    wrong = evaluate(Oracle(sign=-1), data.test, 4, 300, seed=0)
    assert wrong.em < 0.05
    assert wrong.em5 < 0.05
    some = evaluate(Oracle(noise=0.7), data.test, 7, 300, seed=0)
    assert 0.02 < some.em < some.em5 < some.ew < 0.98
    # EM5 is EM at n = 5, whatever n is.
    five = evaluate(Oracle(noise=0.7), data.test, 5, 3000, seed=0)
    assert five.em == pytest.approx(five.em5, abs=0.05)
    for n in (2, 7, 11):
        other = evaluate(Oracle(noise=0.7), data.test, n, 15000 // n, seed=0)
        assert other.em5 == pytest.approx(five.em, abs=0.05)
    assert str(Metrics(0.5, 0.987, 1)) == "50.0 | 98.7 | 100.0"
    net = RankingNet(data.test.shape)
    found = evaluate(net, data.test, 3, 70, seed=5)
    assert evaluate(net, data.test, 3, 70, seed=5) == found
    assert evaluate(net, data.test, 3, 70, seed=6) != found


# -- the loss -----------------------------------------------------------------------------------


@pytest.mark.parametrize("binary", [False, True])
def test_losses_of_lists(data, binary):
    """That of the permutation matrix, or the squared error of the ranks."""
    images, values = data.train.draw(4, 3, torch.Generator().manual_seed(3))
    for method in ("softsort", "permutahedron"):
        settings = RankingSettings(n=3, batch=4, method=method, binary=binary, seed=3)
        training = RankingTraining(settings, data)
        scores, sorter = training.model(images), settings.sorter()
        if method == "softsort":
            p, q = sorter.permutation(scores), permutation_matrix(values)
            want = ranking_cross_entropy(p, q, binary=binary)
        else:
            want = (sorter.ranks(scores) - hard_ranks(values)).square().mean()
        assert training.loss().item() == pytest.approx(want.item(), rel=1e-6)
