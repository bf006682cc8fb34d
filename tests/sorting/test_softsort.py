"""SoftSort against the formula of its paper; test_rows.py has what it shares with NeuralSort."""

import math

import numpy as np
import pytest
import torch

from gendr.sorting.softsort import SoftSort

POWERS = [1.0, 2.0, 0.5, 1.5, 3.0]


def published(x, temperature, power):
    """Prillo and Eisenschlos, equation (4), row by row: the sort in descending order."""
    n = len(x)
    ordered = sorted(x, reverse=True)
    p = np.zeros((n, n))
    for i in range(n):
        logits = [-(abs(ordered[i] - x[j]) ** power) / temperature for j in range(n)]
        powers = [math.exp(v - max(logits)) for v in logits]
        p[i] = [v / sum(powers) for v in powers]
    return p


def published_gradient(x, temperature, power, g):
    """dL/dx for g = dL/dp of `published`, term by term, with slope 0 at distance 0."""
    n = len(x)
    order = np.argsort(-x, kind="stable")
    p = published(list(x), temperature, power)
    grad = np.zeros(n)
    for i in range(n):
        mean = p[i] @ g[i]
        for j in range(n):
            d = x[order[i]] - x[j]
            if d == 0:
                continue
            by_logit = p[i, j] * (g[i, j] - mean) / temperature
            slope = -power * abs(d) ** (power - 1) * np.sign(d)
            grad[order[i]] += by_logit * slope
            grad[j] -= by_logit * slope
    return grad


def test_published_formula():
    for n in (1, 2, 3, 8, 70):
        for steepness in (0.3, 4.0):
            for power in POWERS:
                x = torch.randn(n, dtype=torch.float64)
                want = torch.from_numpy(published(x.tolist(), 1 / steepness, power)).flip(0)
                sort = SoftSort(steepness=steepness, power=power)
                torch.testing.assert_close(sort.permutation(x), want, rtol=0, atol=1e-12)
                torch.testing.assert_close(sort.reference(x, steepness), want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("values", [[0.3, -1.0, 0.8], [0.5, 0.1, 0.5, -2.0, 0.1, 0.5], [0.0] * 4])
@pytest.mark.parametrize("power", POWERS)
def test_published_gradient_also_at_ties(values, power):
    n = len(values)
    g = torch.randn(n, n, dtype=torch.float64)
    # The descending sort of -x is the ascending one of x, with equal values in the same order.
    want = -published_gradient(-np.array(values), 0.5, power, g.numpy())
    sort = SoftSort(2.0, power=power)
    for f in (sort.permutation, lambda x: sort.reference(x, 2.0)):
        x = torch.tensor(values, dtype=torch.float64, requires_grad=True)
        (got,) = torch.autograd.grad(f(x), x, g)
        torch.testing.assert_close(got, torch.from_numpy(want))


def test_two_inputs_are_a_logistic_network():
    a, b, steepness = 0.4, 1.1, 3.0
    keep = 1 / (1 + math.exp(-steepness * (b - a)))
    want = torch.tensor([[keep, 1 - keep], [1 - keep, keep]])
    torch.testing.assert_close(SoftSort(steepness).permutation(torch.tensor([a, b])), want)


def test_rows_are_densities_around_the_sorted_values():
    for power, density in (
        (1.0, torch.distributions.Laplace(0.0, 0.5)),
        (2.0, torch.distributions.Normal(0.0, 0.5)),
    ):
        # exp(-s d) has scale 1 / s, exp(-s d^2) variance 1 / (2 s): s = 2 for 1/2 of both.
        x = torch.randn(3, 9)
        weights = density.log_prob(x.sort(-1).values[..., :, None] - x[..., None, :]).exp()
        want = weights / weights.sum(-1, keepdim=True)
        torch.testing.assert_close(SoftSort(2.0, power=power).permutation(x), want)


def test_power_is_positive():
    for power in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="power must be > 0"):
            SoftSort(power=power)


def test_kernels_exist_for_powers_1_and_2():
    assert [p for p in POWERS if SoftSort(power=p).has_kernel] == [1.0, 2.0]
