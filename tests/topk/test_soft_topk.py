"""Soft selection by every method: hard limits, gradients, and agreement with the dense sort."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from gendr import sorting
from gendr.distributions import standard_distributions
from gendr.sorting import Network, permutation
from gendr.topk import NetworkSelection, SoftTopK, get, names, network, soft_topk
from support.backends import BACKENDS, place
from support.cases import for_each
from support.lists import MASK, assert_of_lists, poisoned

F64 = torch.float64
NETWORKS = ("bitonic", "odd_even", "odd_even_merge", "pairwise", "splitter")
WITH_A = [name for name in names() if name != "permutahedron"]


def values(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def test_all_methods_are_known():
    assert set(names()) == {*NETWORKS, "neuralsort", "softsort", "sinkhorn", "permutahedron"}
    assert set(names()) - {*NETWORKS} <= {*sorting.names()}
    for name in names():
        assert isinstance(get(name), NetworkSelection if name in NETWORKS else sorting.Sort)


def test_the_hard_limit_is_that_of_torch():
    for name in names():
        x = values(2, 3, 13)
        for k in (1, 4, 13):
            out = soft_topk(x, k, name, steepness=1e5)
            expected = x.topk(k)
            assert out.values.shape == (2, 3, k)
            torch.testing.assert_close(out.values, expected.values, rtol=0, atol=2e-3)
            if name in WITH_A:
                hard = torch.zeros(2, 3, k, 13, dtype=x.dtype)
                hard.scatter_(-1, expected.indices[..., None], 1.0)
                torch.testing.assert_close(out.attribution, hard, rtol=0, atol=2e-2)


def test_rows_of_the_attribution_sum_to_1_and_give_the_values():
    for name in WITH_A:
        for n, k in ((1, 1), (2, 2), (9, 4), (20, 3)):
            x = values(2, n)
            found, a = soft_topk(x, k, name, steepness=2.0)
            assert a.shape == (2, k, n)
            assert (a >= 0).all()
            torch.testing.assert_close(a.sum(-1), torch.ones(2, k, dtype=x.dtype))
            torch.testing.assert_close((a @ x[..., None])[..., 0], found)


def test_pruning_and_the_backward_pass_change_nothing():
    """The same network as a sorting network of all its wires, by the forward pass."""
    for name in NETWORKS:
        net = network(name, 11, 4)
        x = values(3, 11)
        dense = Network(11, net.layers)
        p = permutation(x, "network", network=dense, steepness=1.5)
        rows = [*reversed(net.outputs)]
        out = soft_topk(x, 4, name, steepness=1.5)
        torch.testing.assert_close(out.attribution, p[..., rows, :], rtol=0, atol=1e-12)
        own = soft_topk(x, 4, NetworkSelection(1.5, network=net))
        assert torch.equal(own.attribution, out.attribution)


@for_each(name=names(), rotating=3)
def test_gradients(name):
    x, payload = values(2, 5).requires_grad_(), values(2, 5, 2).requires_grad_()
    steepness = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    parts = ["values"] if name == "permutahedron" else ["values", "attribution", "payload"]

    def found(x, steepness, payload):
        out = soft_topk(x, 3, name, steepness=steepness, payload=payload)
        return tuple(getattr(out, part) for part in parts)

    assert gradcheck(found, (x, steepness, payload), fast_mode=True)
    assert gradgradcheck(lambda x: found(x, 1.3, payload.detach()), (x,), atol=1e-4, fast_mode=True)


def test_the_smallest_are_the_largest_of_the_negative():
    for name in names():
        x = values(3, 8)
        out, negative = soft_topk(x, 3, name, largest=False), soft_topk(-x, 3, name)
        assert torch.equal(out.values, -negative.values)
        if name in WITH_A:
            assert torch.equal(out.attribution, negative.attribution)


def test_hard_forward_soft_backward():
    for name in names():
        for largest in (True, False):
            x = torch.tensor([[2.0, -1.0, 2.0, 0.5, 3.0]], dtype=torch.float64, requires_grad=True)
            payload = values(1, 5, 2)
            parts = ["values"] if name == "permutahedron" else ["values", "attribution", "payload"]
            found = {}
            for part in parts:
                hard, loose = (
                    soft_topk(
                        x, 3, name, steepness=0.4, largest=largest, hard=hard, payload=payload
                    )
                    for hard in (True, False)
                )
                one, two = getattr(hard, part), getattr(loose, part)
                assert not torch.equal(one, two)
                weights = torch.randn_like(two)
                a, b = (torch.autograd.grad(y, x, weights)[0] for y in (one, two))
                assert torch.equal(a, b)
                assert b.abs().max() > 0
                found[part] = one.detach()
            assert torch.equal(found["values"], x.topk(3, largest=largest).values)
            if name in WITH_A:
                assert set(found["attribution"].unique().tolist()) == {0.0, 1.0}
                want = found["attribution"] @ x.detach()[..., None]
                torch.testing.assert_close(want[..., 0], found["values"])
                torch.testing.assert_close(found["attribution"] @ payload, found["payload"])
                none = soft_topk(x, 3, name, payload=payload[..., :0]).payload
                assert none.shape == (1, 3, 0)


def test_noise_is_drawn_once_for_all_parts():
    x, payload = values(3, 6), values(3, 6, 2)
    out = soft_topk(x, 2, "softsort", noise=2.0, payload=payload)
    torch.testing.assert_close((out.attribution @ x[..., None])[..., 0], out.values)
    torch.testing.assert_close(out.attribution @ payload, out.payload)


def test_top_rows_are_those_of_the_sort():
    for name in ("neuralsort", "softsort", "sinkhorn"):
        x = values(2, 70)
        p = permutation(x, name, steepness=3.0, descending=True)
        out = soft_topk(x, 66, name, steepness=3.0)  # more rows than a unit of the kernels has
        torch.testing.assert_close(out.attribution, p[..., :66, :], rtol=0, atol=1e-12)
    assert soft_topk(torch.arange(6), 2).values.dtype == torch.float32
    assert soft_topk(values(0, 6), 2).attribution.shape == (0, 2, 6)


@for_each(backend=BACKENDS, method=["splitter", "odd_even"])
def test_backends_agree(backend, method):
    x, weights, found = values(3, 20).float(), values(3, 5, 20), []
    for name, dtype, device in ((backend, x.dtype, place(backend)[0]), ("reference", F64, "cpu")):
        leaf = x.to(device, dtype).requires_grad_()
        out = soft_topk(leaf, 5, method, dist="logistic", steepness=2.0, backend=name)
        (grad,) = torch.autograd.grad((out.attribution * weights.to(leaf)).sum(), leaf)
        found.append([t.detach().cpu().double() for t in (out.values, out.attribution, grad)])
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)


def test_bad_input():
    for args, options, error, message in (
        ((torch.zeros(5), -1), {}, ValueError, "k must be >= 0, got -1"),
        ((torch.zeros(5), 6), {}, ValueError, "k must be at most n = 5"),
        ((torch.zeros(5), 1.5), {}, TypeError, "k must be an int, got float"),
        ((torch.tensor([0.0, torch.nan]), 1), {}, ValueError, "x must be finite"),
        ((torch.zeros(5), 2, "spliter"), {}, ValueError, "unknown method 'spliter'"),
        ((torch.zeros(5), 2, 3), {}, TypeError, "a method is a name, a NetworkSelection or a Sort"),
        ((torch.zeros(5), 2), {"dist": "levy"}, ValueError, "a comparator needs a symmetric"),
        ((torch.zeros(5), 2), {"dits": "levy"}, TypeError, "no setting .dits.; it has: art, back"),
        ((torch.zeros(5), 2), {"name": "levy"}, TypeError, "no setting .name.; it has: art, back"),
        ((torch.zeros(5), 2), {"backend": "cuda"}, ValueError, "unknown backend"),
        ((torch.zeros(5), 2), {"steepness": 0.0}, ValueError, "steepness must be > 0"),
        ((torch.zeros(5), 2), {"payload": torch.zeros(4, 1)}, ValueError, "payload must have"),
        (
            (torch.zeros(5), 2, NetworkSelection(network=network("splitter", 6, 2))),
            {},
            ValueError,
            "selects 2 of 6 values, got k = 2 and n = 5",
        ),
    ):
        with pytest.raises(error, match=message):
            _ = soft_topk(*args, **options).values


def test_a_method_without_attribution_says_so():
    out = soft_topk(torch.zeros(5), 2, "permutahedron", payload=torch.zeros(5, 1))
    for part in ("attribution", "payload"):
        with pytest.raises(ValueError, match="'permutahedron' gives values only"):
            getattr(out, part)
    with pytest.raises(ValueError, match="there is no payload"):
        _ = soft_topk(torch.zeros(5), 2).payload


def test_a_result_unpacks_like_that_of_soft_sort():
    x, payload = values(3, 6), values(6, 2)
    found, carried = soft_topk(x, 2, payload=payload)
    out = soft_topk(x, 2)
    assert torch.equal(found, out.values)
    torch.testing.assert_close(carried, out.attribution @ payload)
    assert all(torch.equal(a, b) for a, b in zip(out, (out.values, out.attribution), strict=True))
    assert (len(out), out[0] is out.values) == (2, True)


SYMMETRIC = sorted(
    name for name, dist in standard_distributions().items() if dist.is_symmetric is True
)
ALL = [get(name, steepness=1.3) for name in names()]
ALL += [get("splitter", steepness=1.3, dist=dist) for dist in SYMMETRIC]


@for_each(method=ALL, largest=[True, False], rotating=4)
def test_absent_values_are_not_selected(method, largest):
    """Values and gradients are those of the lists of what is present alone."""
    x, payload = poisoned(values(6, 6)), values(6, 6, 2, seed=1)
    out = soft_topk(x, 3, method, largest=largest, mask=MASK, payload=payload)

    def alone(x, row):
        return soft_topk(
            x, min(3, len(x)), method, largest=largest, payload=payload[row, MASK[row]]
        )

    parts = {"values": "k"}
    if isinstance(method, (NetworkSelection, sorting.PermutationSort)):
        parts |= {"attribution": "kn", "payload": "kc"}
    for part, dims in parts.items():
        assert_of_lists(
            getattr(out, part), lambda x, row, part=part: getattr(alone(x, row), part), x, dims=dims
        )
    hard = torch.where(MASK, x, -torch.inf if largest else torch.inf).topk(3, largest=largest)
    for row, here in enumerate(MASK):
        count = min(3, int(here.sum()))
        assert torch.equal(out.indices[row, :count], hard.indices[row, :count])
        assert (out.indices[row, count:] == -1).all()


def test_any_dimension_and_the_module():
    x, mask = values(2, 5, 3), torch.rand(2, 5, 3) > 0.3
    moved = x.movedim(1, -1)
    for options, there in (({}, {}), ({"mask": mask}, {"mask": mask.movedim(1, -1)})):
        out, want = soft_topk(x, 2, dim=1, **options), soft_topk(moved, 2, **there)
        assert torch.equal(out.values, want.values.movedim(-1, 1))
        assert torch.equal(out.indices, want.indices.movedim(-1, 1))
        assert torch.equal(out.attribution, want.attribution)
    assert torch.equal(soft_topk(x, 2, dim=1).indices, x.topk(2, dim=1).indices)
    for part in ("values", "attribution", "indices"):
        module = SoftTopK(2, dim=1, part=part, steepness=3.0)
        want = getattr(soft_topk(x, 2, dim=1, steepness=3.0), part)
        assert torch.equal(torch.nn.Sequential(module)(x), want)
    chain = torch.nn.Sequential(
        torch.nn.Linear(5, 7), SoftTopK(3, "softsort", learnable=True), torch.nn.Linear(3, 1)
    )
    chain(values(4, 5).float()).sum().backward()
    assert chain[1].log_steepness.grad.abs() > 0
    low = soft_topk(x, 2, largest=False).values
    assert torch.equal(soft_topk(x, 2, descending=False).values, low)
    sharp = SoftTopK(2, dim=1, steepness=10.0)(x)
    torch.testing.assert_close(SoftTopK(2, dim=1, scale=0.1)(x), sharp)
