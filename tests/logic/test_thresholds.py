"""Numbers as bits, and sums of groups."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from gendr.distributions import get
from gendr.logic import Binarize, GroupSum, Thermometer
from support.cases import for_each


def test_bits_of_a_feature_are_neighbours():
    x = torch.tensor([[0.1, 0.6], [0.5, 0.9]])
    got = Thermometer([0.25, 0.5, 0.75])(x)
    assert got.tolist() == [[0, 0, 0, 1, 1, 0], [1, 0, 0, 1, 1, 1]]
    assert got.dtype == torch.float32
    per_feature = Thermometer(torch.tensor([[0.25, 0.5], [0.7, 0.8]]))(x)
    assert per_feature.tolist() == [[0, 0, 0, 0], [1, 0, 1, 1]]
    assert Binarize(0.55)(x.double()).tolist() == [[0, 1], [0, 1]]
    assert Binarize(0.55)(x.double()).dtype == torch.float64


def test_bits_of_a_channel_are_channels():
    """They are thresholds of the last dimension, with that in the place of the channels."""
    x = torch.rand(3, 2, 4, 5, dtype=torch.float64)
    for thresholds in (torch.tensor([0.2, 0.6, 0.7]), torch.tensor([[0.2, 0.6], [0.5, 0.9]])):
        for learnable in (False, True):
            plain = Thermometer(thresholds.double(), learnable=learnable)
            images = Thermometer(thresholds.double(), dim=-3, learnable=learnable)
            want = plain(x.movedim(-3, -1)).movedim(-1, -3)
            assert torch.equal(images(x), want)
            assert torch.equal(images(x[0]), want[0])
    assert torch.equal(Thermometer.uniform(3, dim=-3)(x)[:, 4], (x[:, 1] > 0.5).double())
    image = torch.tensor([[0, 127, 128, 255]], dtype=torch.uint8)
    got = Binarize(127.5)(image)
    assert got.tolist() == [[0, 0, 1, 1]]
    assert got.dtype == torch.float32


def test_uniform_thresholds_are_those_of_the_thesis():
    assert Thermometer.uniform(3).thresholds.tolist() == [0.25, 0.5, 0.75]
    torch.testing.assert_close(
        Thermometer.uniform(31, 0, 32).thresholds, torch.arange(1, 32, dtype=torch.float32)
    )


def test_quantiles_part_the_data_equally():
    x = torch.randn(1000, 3) * torch.tensor([1.0, 5.0, 0.1]) + 4
    bits = Thermometer.quantiles(x, 3)(x)
    assert bits.shape == (1000, 9)
    shares = bits.mean(0).reshape(3, 3)
    torch.testing.assert_close(
        shares, torch.tensor([0.75, 0.5, 0.25]).expand(3, 3), atol=2e-3, rtol=0
    )
    halves = torch.tensor([[0.0], [0.0], [1.0], [1.0]])
    assert Thermometer.quantiles(halves, 1)(halves).flatten().tolist() == [0, 0, 1, 1]
    # With weights: `numpy.quantile` of rows that come as often.
    x, weights = torch.randn(4000, 2), torch.randint(0, 5, (4000,))
    found = Thermometer.quantiles(x, 4, weights / 3).thresholds
    often = x.repeat_interleave(weights, 0).numpy()
    wanted = np.quantile(often, np.arange(1, 5) / 5, axis=0, method="inverted_cdf").T
    np.testing.assert_allclose(found, wanted, atol=0.01)
    plain = Thermometer.quantiles(x, 4).thresholds
    assert torch.equal(Thermometer.quantiles(x, 4, torch.full((4000,), 0.3)).thresholds, plain)


def test_learnable_thresholds_are_soft_while_they_train():
    x = torch.rand(5, 2, dtype=torch.float64)
    module = Thermometer(
        torch.tensor([[0.2, 0.5], [0.3, 0.7]]).double(), learnable=True, dist="gaussian"
    )
    got = module(x)
    want = get("gaussian")(x[..., None] - module.thresholds, 0.1).flatten(-2)
    torch.testing.assert_close(got, want)
    assert gradcheck(lambda t: torch.func.functional_call(module, {"thresholds": t}, (x,)),
                     module.thresholds)  # fmt: skip
    module.eval()
    assert set(module(x).flatten().tolist()) <= {0.0, 1.0}
    assert "thresholds" in dict(module.named_parameters())
    assert "thresholds" in Binarize().state_dict()


CHANNELS = Thermometer([[0.1], [0.2]], dim=-3)


@for_each(
    "make, error, match",
    [
        (lambda: Thermometer([]), ValueError, r"thresholds must have shape \[T\]"),
        (lambda: Thermometer([0.1, float("nan")]), ValueError, "thresholds must be finite"),
        (lambda: Thermometer([True]), TypeError, "thresholds must be numbers"),
        (lambda: Thermometer.uniform(0), ValueError, "bits must be >= 1"),
        (lambda: Thermometer.uniform(2, 1, 0), ValueError, "low must be < 0"),
        (lambda: Thermometer.quantiles(torch.zeros(0, 3), 2), ValueError, "N >= 1"),
        (
            lambda: Thermometer.quantiles(torch.zeros(2, 3), 2, torch.ones(3)),
            ValueError,
            r"be \[2\]",
        ),
        (lambda: Thermometer([[0.1], [0.2]])(torch.rand(4, 3)), ValueError, "have 2 features"),
        (lambda: Thermometer([0.5], dim=1), ValueError, "dim must be -1, or -3 for the channels"),
        (lambda: CHANNELS(torch.rand(3, 4, 4)), ValueError, "have 2 features in dimension -3"),
        (lambda: CHANNELS(torch.rand(4, 4)), ValueError, "have 2 features in dimension -3"),
        (lambda: Binarize("0.5"), TypeError, "threshold must be a number"),
        (lambda: Binarize(learnable=True, scale=0.0), ValueError, "scale must be > 0"),
        (lambda: GroupSum(0), ValueError, "k must be >= 1"),
        (lambda: GroupSum(2, tau=0.0), ValueError, "tau must be > 0"),
        (lambda: GroupSum(3)(torch.rand(2, 10)), ValueError, "3 groups of equal size, got 10"),
        (lambda: GroupSum(3)(torch.rand(2, 0)), ValueError, "3 groups of equal size, got 0"),
    ],
)
def test_bad_input(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_sums_of_groups():
    x = torch.arange(12.0).reshape(2, 6)
    assert GroupSum(3)(x).tolist() == [[1, 5, 9], [13, 17, 21]]
    assert GroupSum(2, tau=2.0, beta=1.0)(x).tolist() == [[2.5, 7.0], [11.5, 16.0]]
    assert GroupSum(2)(x[0]).tolist() == [3, 12]
    assert GroupSum(2)(x.reshape(2, 1, 6)).shape == (2, 1, 2)
    x = torch.rand(3, 8, dtype=torch.float64, requires_grad=True)
    assert gradcheck(GroupSum(4, tau=3.0), x)
