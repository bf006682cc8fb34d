"""RESGRO: against the enumeration of all samples, ties, learning from a metric, ways to run."""

import itertools

import numpy as np
import pytest
import torch

from gendr.optim import RESGRO
from support.cases import for_each


def norm(z, goal):
    return float(np.square(z - goal).sum())


def outputs(count=3, size=2):
    g = torch.Generator().manual_seed(0)
    return torch.randn(count, size, generator=g, dtype=torch.float64)


def samples_of(resgro, y, goal):
    """The samples that RESGRO draws, by recording what the objective sees."""
    seen = []

    def objective(z, goal):
        seen.append(z.copy())
        return norm(z, goal)

    criterion = RESGRO(objective, resgro.k, resgro.m, scale=resgro.scale, seed=7)
    z = criterion.target(y, goal)
    return z, np.array(seen).reshape(len(y), resgro.m, -1)


@for_each("k, m", [(1, 5), (2, 5), (3, 6), (6, 6)])
def test_mean_over_all_sets_equals_enumeration(k, m):
    """(7.47), with every set of k out of m."""
    y, goal = outputs(), outputs(3, 2).flip(0)
    z, seen = samples_of(RESGRO(norm, k, m), y, goal)
    for i in range(len(y)):
        values = np.array([norm(s, goal[i].numpy()) for s in seen[i]])
        best = [
            min(chosen, key=lambda j: values[j]) for chosen in itertools.combinations(range(m), k)
        ]
        np.testing.assert_allclose(z[i].numpy(), seen[i][best].mean(0), rtol=1e-10)


def test_ties_share_their_weight():
    y = outputs()
    z, seen = samples_of(RESGRO(norm, 3, 8), y, y)
    flat = RESGRO(lambda z: 1.0, 3, 8, seed=7).target(y)
    np.testing.assert_allclose(flat.numpy(), seen.mean(1), rtol=1e-10)
    assert not torch.allclose(flat, z)


def test_many_samples_do_not_overflow():
    y = outputs(1, 1)
    z = RESGRO(lambda z, _: (z[:, 0] - 50) ** 2, 1000, 100_000, batched=True, seed=0).target(y, y)
    # The largest of 1000 standard normal numbers has the mean 3.24.
    assert float(z - y) == pytest.approx(3.24, abs=0.05)


def test_ways_to_evaluate_agree():
    y, goal = outputs(), outputs().flip(0)
    one = RESGRO(norm, 3, 8, seed=1).target(y, goal)
    threads = RESGRO(norm, 3, 8, seed=1, workers=2)
    torch.testing.assert_close(threads.target(y, goal), one)
    threads.close()

    def stacked(z, goal):
        return np.square(z - goal).sum(1)

    torch.testing.assert_close(RESGRO(stacked, 3, 8, batched=True, seed=1).target(y, goal), one)
    both = RESGRO(stacked, 3, 8, batched=True, seed=1, workers=2)
    torch.testing.assert_close(both.target(y, goal), one)
    both.close()
    negative = RESGRO(lambda z, g: -norm(z, g), 3, 8, seed=1, minimize=False)
    torch.testing.assert_close(negative.target(y, goal), one)
    other = RESGRO(norm, 3, 8, seed=2)
    assert not torch.allclose(other.target(y, goal), one)
    assert not torch.allclose(other.target(y, goal), other.target(y, goal))  # new samples


def test_gradient_leads_to_the_target():
    y = outputs().requires_grad_()
    goal = outputs().flip(0)
    z = RESGRO(norm, 3, 8, seed=1).target(y, goal)
    assert not z.requires_grad
    RESGRO(norm, 3, 8, seed=1)(y, goal).backward()
    torch.testing.assert_close(y.grad, (y.detach() - z) / 3)


@for_each(
    "run, error, message",
    [
        (lambda y: RESGRO(norm, 5, 3), ValueError, "m must be >= k"),
        (lambda y: RESGRO(norm, 0), ValueError, "k must be >= 1"),
        (lambda y: RESGRO(3, 5), TypeError, "a function of arrays is needed"),
        (lambda y: RESGRO(norm, 5, dist="heaviside"), ValueError, "'heaviside' makes no noise"),
        (lambda y: RESGRO(norm, 5, scale=-1.0), ValueError, "scale must be > 0"),
        (lambda y: RESGRO(norm, 5)(y, y[:2]), ValueError, "an entry for each of 3 inputs"),
        (lambda y: RESGRO(lambda z: z, 5)(y), ValueError, "a number for each of 15 samples"),
        (lambda y: RESGRO(lambda z: np.nan, 5)(y), ValueError, "the function must be finite"),
        (lambda y: RESGRO(norm, 5)(y.detach(), y), ValueError, "output has no gradient"),
    ],
)
def test_bad_input(run, error, message):
    with pytest.raises(error, match=message):
        run(outputs().requires_grad_())


def test_more_workers_than_samples():
    """No worker gets an empty stack."""
    y = outputs(1, 2)
    seen = []

    def stacked(z, goal):
        seen.append(len(z))
        return np.square(z - goal).sum(1)

    criterion = RESGRO(stacked, 2, batched=True, workers=5, seed=1)
    expected = RESGRO(norm, 2, seed=1).target(y, y)
    torch.testing.assert_close(criterion.target(y, y), expected)
    criterion.close()
    assert seen == [1, 1]
