"""NeuralSort and SoftSort: the formulas of their papers, kernels, gradients, limits, noise."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.special
import torch

from gendr.sorting import get
from support import relative_l2

COMPILED = [get("neuralsort"), get("softsort"), get("softsort", power=2.0)]
SORTS = [*COMPILED, get("softsort", power=0.5), get("softsort", power=3.5)]
SHAPES = [(1,), (5,), (3, 1), (4, 2), (2, 3, 5), (0, 3), (2, 0, 4), (3, 70), (2, 130)]
DTYPES = (torch.float32, torch.float64)


def inputs(*shape, dtype=torch.float64):
    """x, steepness and an upstream gradient of P."""
    x = torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_()
    steepness = torch.tensor(1.3, dtype=dtype, requires_grad=True)
    return x, steepness, torch.randn(*shape, shape[-1], dtype=torch.float64).to(dtype)


def matrix(sort, x, steepness):
    return replace(sort, steepness=steepness).permutation(x)


def assert_gradients(got, want, leaves, g):
    for a, b in zip(
        *(torch.autograd.grad(y, leaves, g, retain_graph=True) for y in (got, want)), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


# -- the papers


def published(sort, x, temperature):
    """P and its slopes [rank, input, by], row by row, of the paper; the order is descending.

    Grover et al., equation (5); Prillo and Eisenschlos, equation (4); slopes are 0 at ties.
    """
    n = len(x)
    order = np.argsort(-x, kind="stable")
    p, slopes = np.zeros((n, n)), np.zeros((n, n, n))
    for i in range(n):
        logits, by = np.zeros(n), np.zeros((n, n))
        for j in range(n):
            if sort.name == "neuralsort":
                logits[j] = (n - 1 - 2 * i) * x[j] - sum(abs(x[j] - x))
                by[j, j] += n - 1 - 2 * i
                signs = np.sign(x[j] - x)
                by[j, j] -= signs.sum()
                by[j] += signs
            else:
                d = x[order[i]] - x[j]
                logits[j] = -(abs(d) ** sort.power)
                slope = -sort.power * abs(d) ** (sort.power - 1) * np.sign(d) if d else 0.0
                by[j, order[i]] += slope
                by[j, j] -= slope
        weights = np.exp((logits - logits.max()) / temperature)
        p[i] = weights / weights.sum()
        slopes[i] = p[i, :, None] * (by - p[i] @ by) / temperature
    return p, slopes


def test_the_formulas_of_the_papers_and_their_gradients_also_at_ties():
    rows = [torch.randn(n, dtype=torch.float64).tolist() for n in (1, 2, 3, 8, 40)]
    for values in (*rows, [0.5, 0.1, 0.5, -2.0, 0.1, 0.5], [0.0] * 4):
        g = torch.randn(len(values), len(values), dtype=torch.float64)
        for sort in (*SORTS, get("softsort", power=1.5)):
            for steepness in (0.3, 4.0):
                # Equal values keep their order in the ascending sort, that of -x in descending.
                x = np.array(values)
                if sort.name == "neuralsort":
                    p, slopes = published(sort, x, 1 / steepness)
                    p, slopes = p[::-1], slopes[::-1]
                else:
                    p, slopes = published(sort, -x, 1 / steepness)
                    slopes = -slopes
                want = np.einsum("rc,rcx->x", g.numpy(), slopes)
                for f in (
                    lambda x, s=sort, t=steepness: matrix(s, x, t),
                    lambda x, s=sort, t=steepness: s.reference(x, t),
                ):
                    leaf = torch.tensor(values, dtype=torch.float64, requires_grad=True)
                    found = f(leaf)
                    np.testing.assert_allclose(found.detach(), p, rtol=0, atol=1e-12)
                    (grad,) = torch.autograd.grad(found, leaf, g)
                    np.testing.assert_allclose(grad, want, rtol=1e-7, atol=1e-9)


# -- kernels


def test_kernels_are_the_reference_also_at_ties():
    """The matrix, and products with it for which it is not made."""
    tied = torch.tensor([[0.3, -1.0, 0.8, 0.3, 0.3, 0.8], [-0.0, 0.0, -0.0, 0.0, -0.0, 0.0]])
    for sort in COMPILED:
        for shape in (*SHAPES, (1, 600), None):  # more than one part of a matrix
            x, steepness, g = inputs(*(shape or (2, 6)))
            x = x if shape else tied.double().requires_grad_()
            got, p = matrix(sort, x, steepness), sort.reference(x, steepness)
            torch.testing.assert_close(got, p, rtol=0, atol=1e-12)
            assert_gradients(got, p, (x, steepness), g)
            if not shape:
                assert torch.equal(got[0, :, 0], got[0, :, 3])
            payload = torch.randn(*x.shape, 3, dtype=torch.float64).requires_grad_()
            method, leaves = replace(sort, steepness=steepness), (x, steepness, payload)
            got, want = method.carried(x, payload), p @ payload
            torch.testing.assert_close(got, want, rtol=0, atol=1e-11)
            assert_gradients(got, want, leaves, torch.randn_like(want))
            positions = torch.arange(1.0, x.shape[-1] + 1, dtype=torch.float64)
            got, want = method.ranks(x), positions @ (p / p.sum(-2, keepdim=True))
            torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-11)
            assert_gradients(got, want, (x, steepness), torch.randn_like(x))


def test_few_rows_are_the_last_of_all_also_at_ties():
    """Of few rows not all values are sorted."""
    x, steepness, _ = inputs(4, 30)
    x = x.detach()
    x[1, [3, 9, 17, 21]] = x[1].max() + 1  # ties among the largest
    x[2, ::4] = x[2].sort().values[-2]  # and at the end of the selection
    x[3] = 0.0
    x.requires_grad_()
    for sort in COMPILED:
        for count in (1, 3, 29):
            few = replace(sort, steepness=steepness).last_rows(x, count)
            want = sort.reference(x, steepness, count)
            torch.testing.assert_close(few, want, rtol=0, atol=1e-12)
            g = torch.randn(few.shape, dtype=torch.float64)
            assert_gradients(few, want, (x, steepness), g)
            for channels in (1, 3, 9):  # the last by the matrix
                payload = torch.randn(4, 30, channels, dtype=torch.float64).requires_grad_()
                method, leaves = replace(sort, steepness=steepness), (x, steepness, payload)
                got = method.last_carried(x, payload, count)
                product = sort.reference(x, steepness, count) @ payload
                torch.testing.assert_close(got, product, rtol=0, atol=1e-12)
                assert_gradients(got, product, leaves, torch.randn_like(product))
                weights = torch.randn(4, count, channels, dtype=torch.float64).requires_grad_()
                got = method.last_weighed(x, weights)
                product = sort.reference(x, steepness, count).mT @ weights
                torch.testing.assert_close(got, product, rtol=0, atol=1e-12)
                leaves = x, steepness, weights
                assert_gradients(got, product, leaves, torch.randn_like(product))


def test_products_in_float32():
    for sort in COMPILED:
        for shape, offset in (((1, 600), 100), ((300, 8), 0)):
            x = (torch.randn(shape) + offset).requires_grad_()
            wide, g = x.detach().double().requires_grad_(), torch.randn(shape)
            values = sort.values(x)
            want = (sort.reference(wide, 10.0) @ wide[..., None])[..., 0]
            assert relative_l2(values.double(), want) < 1e-7
            grads = (torch.autograd.grad(y, t, g)[0] for y, t in ((values, x), (want, wide)))
            assert relative_l2(*(grad.double() for grad in grads)) < 2e-6


@pytest.mark.rotating(4, group="sorting")
def test_float32_keeps_its_digits():
    for sort in COMPILED:
        for n, offset in ((2, 100), (5, 0), (128, 100), (1024, 0), (1024, 100)):
            x, steepness, g = inputs(1, n, dtype=torch.float32)
            x = (x.detach() + offset).requires_grad_()
            wide, wide_steepness = (t.detach().double().requires_grad_() for t in (x, steepness))
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


def test_small_weights_have_all_their_digits_in_float32():
    gaps = torch.cat([torch.logspace(-9, 1.94, 9000), torch.linspace(0, 87.2, 9000)])
    x = torch.stack([torch.zeros_like(gaps), gaps], -1)
    p = get("softsort", steepness=1.0).permutation(x)
    want = scipy.special.expit(-gaps.double().numpy())
    np.testing.assert_allclose(p[:, 0, 1], want, rtol=2.5e-7, atol=0)
    far = get("softsort", steepness=1.0).permutation(torch.tensor([[0.0, 120.0], [0.0, 1e30]]))
    assert torch.equal(far, torch.eye(2).expand(2, 2, 2))


@pytest.mark.usefixtures("nan_in_new_tensors")
def test_no_use_of_uninitialised_memory(monkeypatch):
    empty = np.empty
    monkeypatch.setattr(
        np, "empty", lambda shape, *dtype: empty(shape, *dtype) if dtype else np.full(shape, np.nan)
    )
    for sort in COMPILED:
        x, steepness, g = inputs(100, 70)  # several threads, and several units in a matrix
        p = matrix(sort, x, steepness)
        values = replace(sort, steepness=steepness).values(x)
        grads = torch.autograd.grad((p, values), (x, steepness), (g, g[..., 0]))
        assert all(t.isfinite().all() for t in (p, values, *grads))


# -- gradients


def test_steepness_of_other_shape_and_dtype():
    x, _, _ = inputs(3, 4, dtype=torch.float32)
    steepness = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
    for sort in SORTS:
        p = matrix(sort, x, steepness)
        assert p.dtype == torch.float32
        (grad,) = torch.autograd.grad(p.square().sum(), steepness)
        assert (grad.shape, grad.dtype) == ((1,), torch.float64)
        assert grad > 0


# -- what every relaxed permutation has


def test_rows_sum_to_1_are_largest_where_the_hard_sort_is_and_become_it():
    for sort in SORTS:
        for n in (1, 2, 5, 300):
            # Distinct values in any order, 0.1 to 0.2 from one to the next.
            steps = 0.1 + 0.1 * torch.rand(3, n, dtype=torch.float64)
            x = steps.cumsum(-1).gather(-1, torch.rand(3, n).argsort(-1))
            soft = matrix(sort, x, 1.0)
            assert torch.equal(soft.argmax(-1), x.argsort(-1))
            assert n == 1 or soft.diff(dim=-1).abs().max() < 0.999
            for dtype, atol in ((torch.float64, 1e-12), (torch.float32, 1e-6)):
                x = x.to(dtype)
                p = sort.permutation(x)
                assert (p >= 0).all()
                torch.testing.assert_close(p.sum(-1), torch.ones_like(x), rtol=0, atol=atol)
                steep = replace(sort, steepness=1e8)
                hard = torch.nn.functional.one_hot(x.argsort(-1), n).to(dtype)
                assert torch.equal(steep.permutation(x), hard)
                assert torch.equal(steep.values(x), x.sort(-1).values)
                if getattr(sort, "power", 1) >= 1:
                    ranks = (x.argsort(-1).argsort(-1) + 1).to(dtype)
                    assert torch.equal(steep.ranks(x), ranks)


def test_overflow():
    for sort in (*SORTS, get("softsort", power=20.0)):
        for dtype in DTYPES:
            x = (1e4 * torch.randn(3, 70, dtype=dtype)).requires_grad_()
            steepness = torch.tensor(1e6, dtype=dtype, requires_grad=True)
            p = matrix(sort, x, steepness)
            torch.testing.assert_close(p.sum(-1), torch.ones(3, 70, dtype=dtype))
            grads = torch.autograd.grad(p, (x, steepness), torch.randn_like(p))
            assert all(t.isfinite().all() for t in grads)
            # Sums of distances, about 1e14, are rounded by more than such neighbours differ.
            x = 1e12 * torch.randn(35, dtype=torch.float64)
            x = torch.cat([x, x * (1 + 1e-15)]).to(dtype)
            p = matrix(sort, x, 1e6)
            torch.testing.assert_close(p.sum(-1), torch.ones(70, dtype=dtype))


def test_plain_torch_in_float32():
    """What other devices run."""
    for sort in SORTS:
        x = 100 + torch.randn(2, 70)
        want = sort.reference(x.double(), 1.3)
        torch.testing.assert_close(sort.reference(x, 1.3).double(), want, rtol=0, atol=2e-5)
        x = (1e4 * torch.randn(2, 70)).requires_grad_()
        steepness = torch.tensor(1e33, requires_grad=True)
        p = sort.reference(x, steepness)
        assert torch.equal(p, torch.nn.functional.one_hot(x.argsort(-1), 70).float())
        grads = torch.autograd.grad(p, (x, steepness), torch.randn_like(p))
        assert all(t.isfinite().all() for t in grads)


# -- noise


def test_noise_follows_the_seed_and_gradients_flow_through_it():
    for sort in SORTS:
        x, steepness, g = inputs(2, 4)
        noisy = replace(sort, noise=0.5, steepness=steepness)
        samples = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            samples.append(noisy.permutation(x))
        assert torch.equal(samples[0], samples[1])
        assert not torch.allclose(samples[0], samples[2])
        (got,) = torch.autograd.grad(samples[0], x, g)
        torch.manual_seed(1)
        fixed = noisy.perturbed(x).detach().requires_grad_()
        (want,) = torch.autograd.grad(sort.reference(fixed, steepness), fixed, g)
        torch.testing.assert_close(got, want)
    payload = torch.randn(2, 4, 1).expand(2, 4, 2)
    carried = get("neuralsort", noise=1.0).carried(torch.randn(2, 4), payload)
    assert torch.equal(carried[..., 0], carried[..., 1])


def test_noise_is_plackett_luce():
    noise, count = 0.7, 40_000
    x = torch.tensor([0.3, -0.5, 0.9, 0.0], dtype=torch.float64)
    p = get("softsort", noise=noise).permutation(x.expand(count, 4))
    first, second = p.argmax(-1).flip(-1)[:, :2].unbind(-1)  # from the largest down
    seen = torch.zeros(4, 4, dtype=torch.float64)
    seen.index_put_((first, second), torch.ones(count, dtype=torch.float64), accumulate=True)
    score = (x / noise).softmax(0)
    want = score[:, None] * score / (1 - score[:, None])
    want.fill_diagonal_(0)
    deviation = (want * (1 - want) / count).sqrt()
    assert ((seen / count - want).abs() <= 4 * deviation).all()


def test_noise_stays_finite_where_the_generator_gives_0(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "exponential_", torch.Tensor.zero_)
    assert get("neuralsort", noise=1.0).perturbed(torch.zeros(3)).isfinite().all()


def test_messages():
    for settings, error, message in (
        ({"noise": -1.0}, ValueError, "noise must be >= 0, got -1.0; 0 adds none"),
        ({"noise": "gumbel"}, TypeError, "noise must be a number, got str"),
        ({"steepness": 0.0}, ValueError, "steepness must be > 0, got 0.0"),
        ({"power": 0.0}, ValueError, "power must be > 0"),
        ({"power": math.nan}, ValueError, "power must be > 0"),
    ):
        with pytest.raises(error, match=message):
            get("softsort", **settings)
