"""Time warping: the hard limit against NumPy, soft-DTW, kernels against torch, gradients."""

import numpy as np
import pytest
import torch

from gendr.relaxed import dynamic_time_warping, warping_of_costs

LAWS = ("logistic", "cauchy", "laplace", "student_t(shape=1.5)")


def sequences(*shape):
    return torch.randn(*shape, dtype=torch.float64).requires_grad_()


def textbook(a, b, cost):
    """d of all pairs of rows of a [N, n] and b [N, m], cell by cell."""
    d = np.full((len(a), a.shape[1] + 1, b.shape[1] + 1), np.inf)
    d[:, 0, 0] = 0
    for i in range(1, a.shape[1] + 1):
        for j in range(1, b.shape[1] + 1):
            ways = np.stack([d[:, i - 1, j], d[:, i, j - 1], d[:, i - 1, j - 1]])
            d[:, i, j] = cost(a[:, i - 1] - b[:, j - 1]) + ways.min(0)
    return d


def test_hard_distances_are_those_of_the_textbook(seed):
    for cost, function in [("squared", np.square), ("absolute", np.abs)]:
        rng = np.random.default_rng(seed)
        a, b = rng.normal(size=(5000, 7)), rng.normal(size=(5000, 5))
        lengths = rng.integers(1, 8, 5000), rng.integers(1, 6, 5000)
        table = textbook(a, b, function)
        expected = torch.from_numpy(table[np.arange(5000), lengths[0], lengths[1]])
        given = tuple(map(torch.from_numpy, lengths))
        for dist, steepness in (("heaviside", 1.0), ("logistic", 1e9)):
            found = dynamic_time_warping(
                torch.from_numpy(a), torch.from_numpy(b), cost=cost, dist=dist, steepness=steepness,
                lengths=given,
            )  # fmt: skip
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-8)


def test_soft_dtw_is_a_member():
    """Cuturi and Blondel: -gamma log of the sum over all alignments of exp(-cost / gamma)."""
    gamma, n, m = 0.7, 4, 3
    a, b = np.random.default_rng(0).normal(size=(2, 4))
    b = b[:m]

    def costs(i, j):
        """The costs of all ways from (0, 0) to (i, j), one number each."""
        own = (a[i] - b[j]) ** 2
        if i == j == 0:
            return [own]
        before = [(i - 1, j), (i, j - 1), (i - 1, j - 1)]
        return [own + c for p, q in before if p >= 0 and q >= 0 for c in costs(p, q)]

    every = np.array(costs(n - 1, m - 1))
    assert len(every) == 25  # Delannoy
    expected = -gamma * np.log(np.exp(-every / gamma).sum())
    for backend in ("cpu", "reference"):
        found = dynamic_time_warping(
            torch.from_numpy(a), torch.from_numpy(b), minimum="log_sum_exp", steepness=1 / gamma,
            backend=backend,
        )  # fmt: skip
        assert abs(found.item() - expected) < 1e-12


def test_kernel_is_the_reference():
    for dist, minimum in [*((law, "expected") for law in LAWS), ("logistic", "log_sum_exp")]:
        a, b = sequences(4, 13, 2), sequences(4, 10, 2)
        beta = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
        lengths = torch.tensor([13, 5, 1, 1]), torch.tensor([10, 2, 10, 1])
        given = torch.randn(4, dtype=torch.float64)
        found = []
        for backend in ("cpu", "reference"):
            value = dynamic_time_warping(
                a, b, features=True, dist=dist, steepness=beta, minimum=minimum, lengths=lengths,
                backend=backend,
            )  # fmt: skip
            found.append((value, *torch.autograd.grad(value, (a, b, beta), given)))
        for ours, truth in zip(*found, strict=True):
            torch.testing.assert_close(ours, truth, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("minimum", ["expected", "log_sum_exp"])
@pytest.mark.parametrize("cost", ["squared", "euclidean"])
def test_gradients_by_differences(backend, minimum, cost):
    a, b = sequences(2, 3, 2), sequences(2, 2, 2)
    beta = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)

    def run(a, b, beta):
        return dynamic_time_warping(
            a, b, cost=cost, features=True, steepness=beta, minimum=minimum, backend=backend
        )

    assert torch.autograd.gradcheck(run, (a, b, beta))


def test_the_gradient_of_the_costs_is_the_alignment():
    costs = torch.rand(3, 6, 5, dtype=torch.float64, requires_grad=True)
    (soft,) = torch.autograd.grad(warping_of_costs(costs, minimum="log_sum_exp").sum(), costs)
    assert torch.allclose(soft[:, 0, 0], torch.ones(3, dtype=torch.float64))
    assert torch.allclose(soft[:, -1, -1], torch.ones(3, dtype=torch.float64))
    assert soft.min() >= 0
    (hard,) = torch.autograd.grad(warping_of_costs(costs, steepness=1e9).sum(), costs)
    assert set(hard.round(decimals=6).flatten().tolist()) == {0.0, 1.0}
    torch.testing.assert_close(
        (hard * costs).sum((1, 2)), warping_of_costs(costs, steepness=1e9), rtol=0, atol=1e-9
    )


def test_any_batch_shape_and_dtype():
    for backend in ("cpu", "reference"):
        a, b = sequences(3, 1, 5), sequences(4, 6)
        whole = dynamic_time_warping(a, b, backend=backend)
        assert whole.shape == (3, 4)
        alone = dynamic_time_warping(a[1, 0], b[2], backend=backend)
        torch.testing.assert_close(whole[1, 2], alone, rtol=0, atol=1e-12)
        short = dynamic_time_warping(a.float(), b.float(), backend=backend)
        assert short.dtype == torch.float32
        torch.testing.assert_close(short.double(), whole, rtol=1e-4, atol=1e-4)
        assert dynamic_time_warping(a[:0], b, backend=backend).shape == (0, 4)
        same = dynamic_time_warping(a, a, cost="euclidean", dist="heaviside", backend=backend)
        assert torch.equal(same, torch.zeros_like(same))


def test_equal_steps_have_a_finite_gradient():
    a = sequences(3, 4, 2)
    value = dynamic_time_warping(a, a.detach(), features=True, cost="euclidean")
    (grad,) = torch.autograd.grad(value.sum(), a)
    assert grad.isfinite().all()


BAD = [
    ({"a": [1.0]}, TypeError, "a must be a torch.Tensor"),
    ({"a": torch.ones(3, dtype=torch.float64)}, TypeError, "dtype of a"),
    ({"a": torch.ones(0)}, ValueError, "at least one step"),
    ({"a": torch.tensor(1.0)}, ValueError, r"\[\.\.\., n\]"),
    ({"features": True}, ValueError, r"\[\.\.\., n, c\]"),
    ({"a": torch.ones(2, 3), "b": torch.ones(3, 3)}, ValueError, "broadcast"),
    ({"a": torch.full((3,), torch.nan)}, ValueError, "finite"),
    ({"cost": "cosine"}, ValueError, "euclidean"),
    ({"minimum": "log_sum_exp", "dist": "laplace"}, ValueError, "logistic"),
    ({"dist": "levy"}, ValueError, "symmetric"),
    ({"lengths": (torch.tensor(2), torch.tensor(0))}, ValueError, "at least 1"),
    ({"steepness": -1}, ValueError, "steepness"),
]


def test_bad_arguments():
    for options, kind, said in BAD:
        with pytest.raises(kind, match=said):
            dynamic_time_warping(**{"a": torch.ones(3), "b": torch.ones(4), **options})
