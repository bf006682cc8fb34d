"""Keys at the ends of their dtype's range, and empty batches: every method and distribution."""

import itertools
from dataclasses import replace
from functools import partial

import pytest
import torch

import gendr
from gendr.distributions import get as distribution
from gendr.distributions import standard_distributions
from gendr.sorting import PermutationSort, SoftSorter, get, losses, names, odd_even

SYMMETRIC = [name for name, dist in standard_distributions().items() if dist.is_symmetric is True]
FORMS = ("plain", "squared", "art")
# What a method has besides networks: settings that choose another formula.
OPTIONS = {
    "network": [{"network": odd_even(4)}],
    "softsort": [{"power": power} for power in (1.0, 2.0, 0.5, 3.0)],
    "permutahedron": [{"regularization": kind} for kind in ("l2", "entropic")],
}


def base_form(base, form):
    dist = distribution(base)
    return dist.squared() if form == "squared" else dist.art(0.3) if form == "art" else dist


def variants():
    """Every method, every network with its own F, and one with all distributions and forms."""
    for name in names():
        for options in OPTIONS.get(name, [{}]):
            method = get(name, **options)
            if hasattr(method, "dist"):  # a network
                yield from (replace(method, backend=backend) for backend in ("cpu", "reference"))
            else:
                yield method
    for dist in (*SYMMETRIC, "heaviside"):
        for form in FORMS:
            for backend in ("cpu", "reference"):
                yield get("bitonic", dist=base_form(dist, form), backend=backend)


VARIANTS = list(variants())
DTYPES = (torch.float32, torch.float64)


def edge_keys(dtype):
    """Lists [B, 4] whose differences, squares or sums overflow, among ordinary and tiny ones."""
    largest, tiny = torch.finfo(dtype).max, torch.finfo(dtype).tiny
    below = torch.tensor(largest, dtype=dtype).nextafter(torch.zeros((), dtype=dtype)).item()
    rows = [
        [largest, -largest, 1.0, 0.0],
        [0.56 * largest, 1.0, -0.56 * largest, tiny],
        [largest, largest, -largest, -largest],
        [largest, largest, largest, largest],
        [largest, below, 0.9999 * largest, 0.5 * largest],
        [largest**0.5, -2 * largest**0.5, 1.0, 0.0],
        [tiny, -tiny, 0.0, 2 * tiny],
        [3.0, 1.0, 2.0, 1.0],
    ]
    return torch.tensor(rows, dtype=dtype)


def has_ranks(method):
    """SoftSort's ranks need a power of 1 or more."""
    return getattr(method, "power", 1) >= 1


def check_finite_results(method, dtype, steepness):
    """Values, ranks and P of the edge keys, and the gradients through them, are finite."""
    x = edge_keys(dtype).requires_grad_()
    steepness = torch.tensor(steepness, dtype=dtype, requires_grad=True)
    out = SoftSorter(method, steepness=steepness)(x)
    parts = [out.values, *([out.ranks] if has_ranks(method) else [])]
    if isinstance(method, PermutationSort):
        parts.append(out.permutation)
    weights = [torch.linspace(-1, 1, p.numel(), dtype=dtype).reshape(p.shape) for p in parts]
    grads = torch.autograd.grad(parts, (x, steepness), weights, materialize_grads=True)
    assert all(found.isfinite().all() for found in (*parts, *grads))


@pytest.mark.rotating(4, group="sorting")
def test_all_is_finite_at_the_ends_of_the_range(drawn):
    for method, dtype in drawn(itertools.product(VARIANTS, DTYPES), 12):
        for steepness in (1e-30, 10.0, 1e30):
            check_finite_results(method, dtype, steepness)


@pytest.mark.every
@pytest.mark.skipif(gendr.backends()["triton"] is not None, reason="no Triton")
@pytest.mark.skipif(torch.cuda.is_available(), reason="the interpreter's, on the CPU")
def test_the_kernels_of_triton_are_finite_too():
    for form in FORMS:
        method = get("bitonic", dist=base_form("cauchy", form), backend="triton")
        for steepness in (1e-30, 1e30):
            check_finite_results(method, torch.float32, steepness)


@pytest.mark.rotating(4, group="sorting")
def test_what_is_far_apart_is_sorted_hard(drawn):
    for method, dtype in drawn(itertools.product(VARIANTS, DTYPES), 6):
        largest = torch.finfo(dtype).max
        x = torch.tensor([[largest, -largest, 0.0, largest / 2]], dtype=dtype, requires_grad=True)
        out = SoftSorter(method, steepness=10.0)(x)
        if has_ranks(method):
            torch.testing.assert_close(out.ranks, torch.tensor([[4.0, 1.0, 2.0, 3.0]], dtype=dtype))
        if not isinstance(method, PermutationSort):
            continue  # its values are the softer the further apart the keys are
        torch.testing.assert_close(out.permutation, losses.permutation_matrix(x.detach()))
        torch.testing.assert_close(
            out.values, x.detach().sort(-1).values, rtol=1e-6, atol=largest / 1e6
        )
        weights = torch.tensor([[1.0, 2.0, -3.0, 4.0]], dtype=dtype)
        (grad,) = torch.autograd.grad(out.values, x, weights)
        torch.testing.assert_close(grad, torch.tensor([[4.0, 1.0, 2.0, -3.0]], dtype=dtype))


@pytest.mark.rotating(4, group="sorting")
def test_correlations_of_huge_scores():
    for dtype in DTYPES:
        x = edge_keys(dtype)[:6].requires_grad_()
        order = torch.tensor([4.0, 1.0, 2.0, 3.0], dtype=dtype).expand(6, 4)
        rho = losses.spearman(x, order)
        torch.testing.assert_close(rho[0], losses.spearman(x[0].detach() / 1e10, order[0]))
        found = [rho]
        for name in standard_distributions():
            for form in FORMS:
                for variant in "ab":
                    dist = base_form(name, form)
                    found += [
                        losses.kendall(x, order, dist, s, variant) for s in (1e-30, 10.0, 1e30)
                    ]
        for part in found:
            assert part.isfinite().all()
            (grad,) = torch.autograd.grad(part.sum(), x, retain_graph=True)
            assert grad.isfinite().all()


def test_gains_at_the_end_of_the_range():
    for dtype in DTYPES:
        relevance = torch.tensor([1.0, 0.5, 1.0, 0.0], dtype=dtype) * torch.finfo(dtype).max
        small = relevance / torch.finfo(dtype).max
        p = losses.permutation_matrix(torch.tensor([2.0, 1.0, 4.0, 3.0], dtype=dtype))
        ranks = torch.tensor([2.0, 1.0, 4.0, 3.0], dtype=dtype)
        for function, argument in ((losses.ndcg, p), (losses.ndcg_of_ranks, ranks)):
            metric = partial(function, descending=True)
            want = metric(argument, small, gain="linear")
            torch.testing.assert_close(metric(argument, relevance, gain="linear"), want)
            with pytest.raises(ValueError, match="beyond the range of float"):
                metric(argument, relevance)
