"""Rankings by relaxed bubble sort: the losses."""

import itertools
from dataclasses import asdict

import pytest
import torch

from lab.studies.bubble import BUBBLES, BubbleOrder
from lab.studies.ranking import RankingSettings


def test_hard_losses_count_wrong_pairs():
    """At a high steepness they count inversions, or say whether there are any; for all orders."""
    orders = torch.tensor([*itertools.permutations(range(4))])
    values = torch.arange(4).expand_as(orders)
    for order, truth in zip(orders, values, strict=True):
        wrong = sum(int(order[i] > order[j]) for i in range(4) for j in range(i + 1, 4))
        for name, want in (("bubble_swaps", wrong), ("bubble_sort", wrong > 0)):
            loss = BubbleOrder(name, steepness=1000.0).loss(order.double(), truth)
            assert loss.item() == pytest.approx(float(want), abs=1e-9)


def test_losses_do_not_depend_on_the_order_of_the_list():
    scores = torch.tensor([[0.3, -0.2, 0.1], [1.0, 0.0, 0.5]], dtype=torch.float64)
    values = torch.tensor([[7, 2, 5], [1, 2, 3]])
    for name in BUBBLES:
        method = BubbleOrder(name)
        want = method.loss(scores, values)
        for order in itertools.permutations(range(3)):
            torch.testing.assert_close(method.loss(scores[:, order], values[:, order]), want)


def test_loss_of_two_is_the_probability_of_the_wrong_order():
    scores = torch.tensor([0.1, 0.3], dtype=torch.float64, requires_grad=True)
    for name in BUBBLES:
        loss = BubbleOrder(name, steepness=8.0).loss(scores, torch.tensor([2, 1]))
        assert loss.item() == pytest.approx(torch.sigmoid(torch.tensor(1.6)).item(), rel=1e-6)
        (slope,) = torch.autograd.grad(loss, scores)
        assert slope[0] < 0 < slope[1]  # the first should have the larger score


def test_methods_of_the_settings():
    assert RankingSettings(method="bubble_sort").sorter() == BubbleOrder("bubble_sort")
    assert (BubbleOrder().dist, BubbleOrder().steepness) == ("logistic", 8.0)  # published
    settings = RankingSettings(method="bubble_swaps", dist="cauchy", steepness=3.0)
    assert asdict(settings.sorter()) == {"name": "bubble_swaps", "dist": "cauchy", "steepness": 3}
    with pytest.raises(ValueError, match="symmetric"):
        RankingSettings(method="bubble_sort", dist="gumbel_max").sorter()
    with pytest.raises(ValueError, match="steepness must be > 0"):
        RankingSettings(method="bubble_sort", steepness=-1.0).sorter()
