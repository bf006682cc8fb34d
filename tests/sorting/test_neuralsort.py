"""NeuralSort against the formula of its paper; test_rows.py has what it shares with SoftSort."""

import math

import numpy as np
import pytest
import torch

from gendr.sorting.neuralsort import NeuralSort


def published(x, temperature):
    """Grover et al., equation (5), row by row: the permutation that sorts in descending order."""
    n = len(x)
    total = [sum(abs(x[j] - x[k]) for k in range(n)) for j in range(n)]
    p = np.zeros((n, n))
    for i in range(1, n + 1):
        logits = [((n + 1 - 2 * i) * x[j] - total[j]) / temperature for j in range(n)]
        powers = [math.exp(v - max(logits)) for v in logits]
        p[i - 1] = [v / sum(powers) for v in powers]
    return p


def published_gradient(x, temperature, g):
    """dL/dx for g = dL/dp of `published`, term by term, with sign(0) = 0."""
    n = len(x)
    p = published(x, temperature)
    grad = np.zeros(n)
    for i in range(n):
        mean = p[i] @ g[i]
        for j in range(n):
            by_logit = p[i, j] * (g[i, j] - mean) / temperature
            grad[j] += by_logit * (n + 1 - 2 * (i + 1))
            for k in range(n):
                slope = np.sign(x[j] - x[k])
                grad[j] -= by_logit * slope
                grad[k] += by_logit * slope
    return grad


def test_published_formula():
    for n in (1, 2, 3, 8, 70):
        for steepness in (0.3, 4.0):
            x = torch.randn(n, dtype=torch.float64)
            want = torch.from_numpy(published(x.tolist(), 1 / steepness)).flip(0)
            got = NeuralSort(steepness=steepness).permutation(x)
            torch.testing.assert_close(got, want, rtol=0, atol=1e-12)
            torch.testing.assert_close(
                NeuralSort().reference(x, steepness), want, rtol=0, atol=1e-12
            )


@pytest.mark.parametrize("values", [[0.3, -1.0, 0.8], [0.5, 0.1, 0.5, -2.0, 0.1, 0.5], [0.0] * 4])
def test_published_gradient_also_at_ties(values):
    n = len(values)
    g = torch.randn(n, n, dtype=torch.float64)
    want = published_gradient(np.array(values), 0.5, g.flip(0).numpy())
    for f in (NeuralSort(2.0).permutation, lambda x: NeuralSort().reference(x, 2.0)):
        x = torch.tensor(values, dtype=torch.float64, requires_grad=True)
        (got,) = torch.autograd.grad(f(x), x, g)
        torch.testing.assert_close(got, torch.from_numpy(want))


def test_two_inputs_are_a_logistic_network():
    a, b, steepness = 0.4, 1.1, 3.0
    keep = 1 / (1 + math.exp(-steepness * (b - a)))
    want = torch.tensor([[keep, 1 - keep], [1 - keep, keep]])
    torch.testing.assert_close(NeuralSort(steepness).permutation(torch.tensor([a, b])), want)


def test_rows_of_even_spacing_are_gaussian():
    step, steepness = 0.2, 5.0
    x = step * torch.arange(12, dtype=torch.float64)
    squares = (x[:, None] - x).square()
    want = (-squares / (2 * (step / (2 * steepness)))).softmax(-1)
    torch.testing.assert_close(NeuralSort(steepness).permutation(x), want)
