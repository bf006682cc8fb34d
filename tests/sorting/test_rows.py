"""What NeuralSort and SoftSort have in common: kernels, gradients, limits, noise."""

import functools
from dataclasses import replace

import numpy as np
import pytest
import torch
from numba import njit

from gendr.sorting.backends.cpu import row_kernels as _numba_rows
from gendr.sorting.neuralsort import NeuralSort
from gendr.sorting.softsort import SoftSort
from support import relative_l2

COMPILED = [NeuralSort(), SoftSort(), SoftSort(power=2.0)]
SORTS = [*COMPILED, SoftSort(power=0.5), SoftSort(power=3.5)]
SHAPES = [(1,), (5,), (3, 1), (4, 2), (2, 3, 5), (0, 3), (2, 0, 4), (3, 70), (2, 130)]
PARTS = (100, 70)  # enough for several threads, and for several units in a matrix

every_sort = pytest.mark.parametrize("sort", SORTS, ids=repr)
compiled_sort = pytest.mark.parametrize("sort", COMPILED, ids=repr)


def inputs(*shape, dtype=torch.float64):
    """x, steepness and an upstream gradient of P."""
    x = torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_()
    steepness = torch.tensor(1.3, dtype=dtype, requires_grad=True)
    return x, steepness, torch.randn(*shape, shape[-1], dtype=torch.float64).to(dtype)


def matrix(sort, x, steepness):
    return replace(sort, steepness=steepness).permutation(x)


def apart(*shape):
    """Distinct values in any order, 0.1 to 0.2 from one to the next."""
    steps = 0.1 + 0.1 * torch.rand(shape, dtype=torch.float64)
    shuffle = torch.rand(shape).argsort(-1)
    return steps.cumsum(-1).gather(-1, shuffle)


def hard(x):
    """The permutation matrix of torch.sort."""
    return torch.nn.functional.one_hot(x.argsort(-1), x.shape[-1]).to(x.dtype)


# -- kernels


def test_kernel_is_the_reference():
    for sort in COMPILED:
        for shape in SHAPES:
            x, steepness, g = inputs(*shape)
            got, want = matrix(sort, x, steepness), sort.reference(x, steepness)
            torch.testing.assert_close(got, want, rtol=0, atol=1e-12)
            got = torch.autograd.grad(got, (x, steepness), g)
            want = torch.autograd.grad(want, (x, steepness), g)
            for a, b in zip(got, want, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def test_float32_keeps_its_digits():
    for sort in COMPILED:
        for n in (2, 5, 128, 1024):
            for offset in (0, 100):
                x, steepness, g = inputs(1, n, dtype=torch.float32)
                x = (x.detach() + offset).requires_grad_()
                wide, wide_steepness = (
                    t.detach().double().requires_grad_() for t in (x, steepness)
                )
                got, want = matrix(sort, x, steepness), sort.reference(wide, wide_steepness)
                assert got.dtype == torch.float32
                torch.testing.assert_close(got.double(), want, rtol=0, atol=3e-7)
                got = torch.autograd.grad(got, (x, steepness), g)
                want = torch.autograd.grad(want, (wide, wide_steepness), g.double())
                assert [t.dtype for t in got] == [torch.float32, torch.float32]
                assert relative_l2(got[0], want[0]) < 2e-6
                # A sum of entries that nearly cancel: measured against the sizes of its terms.
                terms = (want[0] * (wide - wide.mean()) / wide_steepness).abs().sum()
                assert abs(got[1] - want[1]) < 2e-6 * terms


def test_short_exponential():
    x = -np.r_[0.0, 1e-300, np.geomspace(1e-9, 87.29, 100_000), np.linspace(0, 87.29, 100_000)]
    below = -np.r_[87.4, 1e4, 1e300, np.inf]

    @njit
    def loop(x, out):
        for i in range(len(x)):
            out[i] = _numba_rows.short_exp(x[i])

    out = np.full(len(x), np.nan, np.float32)
    loop(x, out)
    exact = np.exp(x)
    unit = np.spacing(exact.astype(np.float32)).astype(np.float64)
    assert (abs(out - exact) <= 0.6 * unit).all()
    out = np.full(len(below), np.nan)
    loop(below, out)
    assert (out == 0).all()


@compiled_sort
@pytest.mark.usefixtures("nan_in_new_tensors")
def test_no_use_of_uninitialised_memory(sort, monkeypatch):
    def filled(shape):
        return np.full(shape, np.nan)

    monkeypatch.setattr(np, "empty", filled)
    assert torch.empty(3).isnan().all()
    x, steepness, g = inputs(*PARTS)
    p = matrix(sort, x, steepness)
    grads = torch.autograd.grad(p, (x, steepness), g)
    assert all(t.isfinite().all() for t in (p, *grads))


# -- gradients


def test_first_and_second_derivatives():
    for sort in SORTS:
        for shape, which in (((1,), "both"), ((2, 3), "both"), ((2,), "x"), ((2,), "steepness")):
            x, steepness, _ = inputs(*shape)
            x.requires_grad_(which != "steepness")
            steepness.requires_grad_(which != "x")
            found = functools.partial(matrix, sort)
            assert torch.autograd.gradcheck(found, (x, steepness))
            assert torch.autograd.gradgradcheck(found, (x, steepness))


@every_sort
def test_second_derivatives_with_a_number_for_steepness(sort):
    x, _, _ = inputs(4)

    def ranks(x):
        return replace(sort, steepness=2).ranks(x)

    assert torch.autograd.gradcheck(ranks, x)
    assert torch.autograd.gradgradcheck(ranks, x)


def test_ties():
    for sort in COMPILED:
        x, steepness, g = inputs(2, 6)
        with torch.no_grad():
            x[0, 3:] = x[0, :3]
            x[0, 4] = x[0, 0]
            x[1] = 0.0
            x[1, ::2] = -0.0
        p, reference = matrix(sort, x, steepness), sort.reference(x, steepness)
        torch.testing.assert_close(p, reference, rtol=0, atol=1e-12)
        assert torch.equal(p[0, :, 0], p[0, :, 3])
        torch.testing.assert_close(p[1], torch.full_like(p[1], 1 / 6))
        got = torch.autograd.grad(p, (x, steepness), g)
        want = torch.autograd.grad(reference, (x, steepness), g)
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def test_steepness_of_other_shape_and_dtype():
    x, _, _ = inputs(3, 4, dtype=torch.float32)
    steepness = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
    for sort in SORTS:
        p = matrix(sort, x, steepness)
        assert p.dtype == torch.float32
        (grad,) = torch.autograd.grad(p.square().sum(), steepness)
        assert grad.shape == (1,)
        assert grad.dtype == torch.float64
        assert grad > 0


# -- what every relaxed permutation has


def test_rows_sum_to_1():
    for sort in SORTS:
        for dtype, atol in ((torch.float64, 1e-12), (torch.float32, 1e-6)):
            for n in (1, 2, 5, 128, 1024):
                p = sort.permutation(torch.randn(2, n, dtype=dtype))
                assert (p >= 0).all()
                torch.testing.assert_close(
                    p.sum(-1), torch.ones(2, n, dtype=dtype), rtol=0, atol=atol
                )


def test_rows_are_largest_where_the_hard_sort_is():
    for sort in SORTS:
        for n in (1, 2, 5, 128, 1024):
            x = apart(3, n)
            p = matrix(sort, x, 1.0)
            assert torch.equal(p.argmax(-1), x.argsort(-1))
            assert p.diff(dim=-1).abs().max() < 0.999 if n > 1 else True  # and they are soft


def test_hard_limit():
    for sort in SORTS:
        for n in (1, 2, 5, 128, 1024):
            for dtype in (torch.float32, torch.float64):
                x = apart(3, n).to(dtype)
                steep = replace(sort, steepness=1e8)
                assert torch.equal(steep.permutation(x), hard(x))
                assert torch.equal(steep.values(x), x.sort(-1).values)
                ranks = x.argsort(-1).argsort(-1) + 1
                assert torch.equal(steep.ranks(x), ranks.to(dtype))


def test_overflow():
    for sort in SORTS:
        for dtype in (torch.float32, torch.float64):
            x = (1e4 * torch.randn(3, 70, dtype=dtype)).requires_grad_()
            steepness = torch.tensor(1e6, dtype=dtype, requires_grad=True)
            for extreme in (
                (sort, replace(sort, power=20.0)) if isinstance(sort, SoftSort) else (sort,)
            ):
                p = matrix(extreme, x, steepness)
                torch.testing.assert_close(p.sum(-1), torch.ones(3, 70, dtype=dtype))
                grads = torch.autograd.grad(p, (x, steepness), torch.randn_like(p))
                assert all(t.isfinite().all() for t in grads)


def test_plain_torch_in_float32():
    for sort in SORTS:
        # What other devices run.
        x = 100 + torch.randn(2, 70)
        want = sort.reference(x.double(), 1.3)
        torch.testing.assert_close(sort.reference(x, 1.3).double(), want, rtol=0, atol=2e-5)
        x = (1e4 * torch.randn(2, 70)).requires_grad_()
        steepness = torch.tensor(1e33, requires_grad=True)
        p = sort.reference(x, steepness)
        assert torch.equal(p, hard(x))
        grads = torch.autograd.grad(p, (x, steepness), torch.randn_like(p))
        assert all(t.isfinite().all() for t in grads)


def test_neighbours_closer_than_the_rounding_of_sums():
    for sort in SORTS:
        for dtype in (torch.float32, torch.float64):
            # Sums of distances, about 1e14, are rounded by more than such neighbours differ.
            x = 1e12 * torch.randn(35, dtype=torch.float64)
            x = torch.cat([x, x * (1 + 1e-15)]).to(dtype)
            p = matrix(sort, x, 1e6)
            torch.testing.assert_close(p.sum(-1), torch.ones(70, dtype=dtype))


def test_shifts_do_not_matter_and_stretches_do():
    for sort in SORTS:
        x = torch.randn(2, 7, dtype=torch.float64)
        p = matrix(sort, x, 2.0)
        torch.testing.assert_close(matrix(sort, x + 1000, 2.0), p, rtol=0, atol=1e-9)
        power = sort.power if isinstance(sort, SoftSort) else 1.0
        torch.testing.assert_close(matrix(sort, 4 * x, 2.0 / 4**power), p)
        mirrored = matrix(sort, -x, 2.0).flip(-2)
        torch.testing.assert_close(mirrored, p)


# -- noise


def test_noise_follows_the_seed():
    for sort in SORTS:
        noisy = replace(sort, noise=0.5)
        x = torch.randn(2, 4, dtype=torch.float64)
        samples = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            samples.append(noisy.permutation(x))
        assert torch.equal(samples[0], samples[1])
        assert not torch.allclose(samples[0], samples[2])
        assert not torch.allclose(noisy.permutation(x), noisy.permutation(x))


def test_one_sample_carries_the_whole_payload():
    x = torch.randn(2, 4)
    payload = torch.randn(2, 4, 1).expand(2, 4, 2)
    carried = NeuralSort(noise=1.0).carried(x, payload)
    assert torch.equal(carried[..., 0], carried[..., 1])


def test_noise_is_plackett_luce():
    noise, count = 0.7, 40_000
    x = torch.tensor([0.3, -0.5, 0.9, 0.0], dtype=torch.float64)
    p = SoftSort(noise=noise).permutation(x.expand(count, 4))
    first, second = p.argmax(-1).flip(-1)[:, :2].unbind(-1)  # from the largest down
    seen = torch.zeros(4, 4, dtype=torch.float64)
    seen.index_put_((first, second), torch.ones(count, dtype=torch.float64), accumulate=True)
    score = (x / noise).exp()
    score /= score.sum()
    want = score[:, None] * score / (1 - score[:, None])
    want.fill_diagonal_(0)
    deviation = (want * (1 - want) / count).sqrt()
    assert ((seen / count - want).abs() <= 4 * deviation).all()


def test_gradients_flow_through_the_noisy_inputs():
    x, steepness, g = inputs(3, 5)
    for sort in SORTS:
        noisy = replace(sort, noise=0.5, steepness=steepness)
        torch.manual_seed(3)
        (got,) = torch.autograd.grad(noisy.permutation(x), x, g)
        torch.manual_seed(3)
        fixed = noisy.perturbed(x).detach().requires_grad_()
        assert not torch.allclose(fixed, x)
        (want,) = torch.autograd.grad(sort.reference(fixed, steepness), fixed, g)
        torch.testing.assert_close(got, want)


def test_noise_stays_finite_where_the_generator_gives_0(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "exponential_", torch.Tensor.zero_)
    assert NeuralSort(noise=1.0).perturbed(torch.zeros(3)).isfinite().all()


def test_messages():
    for settings, error, message in (
        ({"noise": -1.0}, ValueError, "noise must be >= 0, got -1.0; 0 adds none"),
        ({"noise": "gumbel"}, TypeError, "noise must be a number, got str"),
        ({"steepness": 0.0}, ValueError, "steepness must be > 0, got 0.0"),
    ):
        for cls in (NeuralSort, SoftSort):
            with pytest.raises(error, match=message):
                cls(**settings)
