"""Bubble sort: the hard limit against sorting and counting, kernels against torch, gradients."""

import itertools

import pytest
import torch

from gendr.relaxed import bubble_sort

LAWS = ("logistic", "cauchy", "laplace", "uniform", "student_t(shape=1.5)")


def wrong_pairs(x):
    """How many pairs are in the wrong order."""
    n = x.shape[-1]
    above = torch.triu(torch.ones(n, n, dtype=torch.bool), 1)
    return ((x[..., :, None] > x[..., None, :]) & above).sum((-2, -1))


def test_hard_results_are_those_of_sorting(seed):
    for (dist, steepness), n in itertools.product(
        [("heaviside", 1.0), ("logistic", 1e9)], [1, 2, 6]
    ):
        x = torch.randn(
            10_000, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
        )
        values, swaps, ordered = bubble_sort(x, dist, steepness)
        torch.testing.assert_close(values, x.sort(-1).values, rtol=0, atol=1e-5)
        torch.testing.assert_close(swaps, wrong_pairs(x).double(), rtol=0, atol=1e-5)
        torch.testing.assert_close(ordered, (wrong_pairs(x) == 0).double(), rtol=0, atol=1e-5)


def test_equal_values_stay_in_hard_mode():
    x = torch.tensor([2.0, 1.0, 1.0, 2.0])
    for backend in ("cpu", "reference"):
        values, swaps, ordered = bubble_sort(x, "heaviside", backend=backend)
        assert values.tolist() == [1.0, 1.0, 2.0, 2.0]
        assert (swaps.item(), ordered.item()) == (2.0, 0.0)


def test_two_passes_by_hand():
    """Three values, all branches by their probabilities."""
    x = torch.tensor([0.3, -0.2, 0.1], dtype=torch.float64)
    beta = 2.0

    def above(a, b):
        return torch.sigmoid((a - b) * beta)

    def exchanged(a, b):
        p = above(a, b)
        return p * b + (1 - p) * a, p * a + (1 - p) * b, p

    a, b, p = exchanged(x[0], x[1])
    b, c, r = exchanged(b, x[2])
    one, stop = torch.stack([a, b, c]), (1 - p) * (1 - r)
    a, b, s = exchanged(a, b)
    two = torch.stack([a, b, c])
    values, swaps, ordered = bubble_sort(x, steepness=beta)
    torch.testing.assert_close(values, stop * one + (1 - stop) * two, rtol=0, atol=1e-14)
    expected = stop * (p + r) + (1 - stop) * (p + r + s)
    torch.testing.assert_close(swaps, expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(
        ordered, stop * stop + (1 - stop) * stop * (1 - s), rtol=0, atol=1e-14
    )


def test_kernel_is_the_reference():
    for dist, shape in itertools.product([*LAWS, "heaviside"], [(1,), (3, 2), (40, 7)]):
        x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        beta = torch.tensor(2.5, dtype=torch.float64, requires_grad=True)
        given = [torch.randn(size, dtype=torch.float64) for size in (shape, shape[:-1], shape[:-1])]
        found = []
        for backend in ("cpu", "reference"):
            out = bubble_sort(x, dist, beta, backend=backend)
            hard = dist == "heaviside" or shape[-1] == 1
            grads = () if hard else torch.autograd.grad(out, (x, beta), given)
            found.append((*out, *grads))
        for ours, truth in zip(*found, strict=True):
            torch.testing.assert_close(ours, truth, rtol=1e-10, atol=1e-10)


def test_the_losses_lead_to_the_wanted_order():
    scores = (0.1 * torch.randn(4, 5, dtype=torch.float64)).requires_grad_()
    optimizer = torch.optim.Adam([scores], lr=0.1)
    for _ in range(80):
        result = bubble_sort(scores, steepness=5.0)
        optimizer.zero_grad()
        (result.swaps.mean() + 1 - result.ordered.mean()).backward()
        optimizer.step()
    assert (scores.diff(dim=-1) > 0).all()
    assert (bubble_sort(scores, steepness=5.0).ordered > 0.9).all()


def test_any_batch_shape_and_dtype():
    for backend in ("cpu", "reference"):
        x = torch.randn(2, 3, 5, dtype=torch.float64)
        whole = bubble_sort(x, backend=backend)
        assert [part.shape for part in whole] == [(2, 3, 5), (2, 3), (2, 3)]
        for part, alone in zip(whole, bubble_sort(x[1, 2], backend=backend), strict=True):
            torch.testing.assert_close(part[1, 2], alone, rtol=0, atol=1e-14)
        for part, short in zip(whole, bubble_sort(x.float(), backend=backend), strict=True):
            assert short.dtype == torch.float32
            torch.testing.assert_close(short.double(), part, rtol=0, atol=1e-5)
        assert bubble_sort(x[:0], backend=backend).swaps.shape == (0, 3)


BAD = [
    ({"x": [3.0, 1.0]}, TypeError, "x must be a torch.Tensor"),
    ({"x": torch.ones(3, dtype=torch.int64)}, TypeError, "float32 or float64"),
    ({"x": torch.tensor(1.0)}, ValueError, r"\[\.\.\., n\]"),
    ({"x": torch.ones(2, 0)}, ValueError, "n >= 1"),
    ({"x": torch.full((2,), torch.nan)}, ValueError, "finite"),
    ({"dist": "gamma(shape=2.0)"}, ValueError, "symmetric"),
    ({"steepness": float("inf")}, ValueError, "steepness"),
    ({"backend": "triton"}, ValueError, "backend"),
]


def test_bad_arguments():
    for options, kind, said in BAD:
        with pytest.raises(kind, match=said):
            bubble_sort(**{"x": torch.ones(3), **options})
