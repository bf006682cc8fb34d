"""Wirings: no gate reads an input twice, no two the same ones, all inputs are read alike.

Learnable wirings: means of candidates by their formula, gradients, hard choices.
"""

import pytest
import torch
from torch import nn

from gendr.logic import GroupSum, LearnableWiring, LogicLayer, random_wiring
from support.cases import for_each

SIZES = [(2, 1, 2), (2, 9, 2), (5, 10, 2), (5, 25, 2), (17, 24, 2), (784, 8000, 2), (300, 300, 2),
         (6, 3, 6), (7, 50, 6), (40, 200, 4), (3, 8, 1), (1, 1, 1), (60, 40, 3)]  # fmt: skip


@pytest.mark.rotating(4, group="long")
@for_each("inputs, gates, fan_in", SIZES)
def test_random_wiring(inputs, gates, fan_in, seed):
    wires = random_wiring(inputs, gates, fan_in, seed=seed)
    torch.manual_seed(seed)
    assert torch.equal(random_wiring(inputs, gates, fan_in), wires)
    assert wires.shape == (fan_in, gates)
    assert wires.dtype == torch.int64
    assert 0 <= int(wires.min()) <= int(wires.max()) < inputs
    sets = [frozenset(column) for column in wires.T.tolist()]
    assert all(len(each) == fan_in for each in sets)
    counts = torch.tensor([sets.count(each) for each in set(sets)])
    possible = torch.combinations(torch.arange(inputs), fan_in) if inputs < 50 else None
    if possible is None or len(possible) >= gates:
        assert counts.tolist() == [1] * gates
    else:
        assert len(counts) == len(possible)
        assert int(counts.max() - counts.min()) <= 1


@for_each("inputs, gates, fan_in", [(9, 14, 5), (9, 24, 5), (4, 2, 2), (12, 20, 2), (14, 21, 2)])
def test_a_dense_wiring_keeps_its_promises(inputs, gates, fan_in):
    """No input twice, no set twice, no input left out, where few sets fit together."""
    for seed in range(5):
        wires = random_wiring(inputs, gates, fan_in, seed=seed)
        sets = {frozenset(column) for column in wires.T.tolist()}
        assert len(sets) == gates
        assert {len(each) for each in sets} == {fan_in}
        assert set().union(*sets) == set(range(inputs))


def test_a_sparse_wiring_reads_all_inputs_alike():
    read = torch.bincount(random_wiring(784, 8000, seed=1).flatten(), minlength=784)
    assert int(read.max() - read.min()) <= 1
    assert torch.bincount(random_wiring(400, 200, seed=2).flatten()).tolist() == [1] * 400


def test_order_of_inputs_is_random():
    """The first input matters: a gate that passes it on is where training starts."""
    first = torch.bincount(random_wiring(6, 15, seed=0)[0], minlength=6)
    assert (first > 0).sum() >= 4
    assert (random_wiring(50, 1000, seed=0).diff(dim=0) > 0).float().mean().item() == pytest.approx(
        0.5, abs=0.1
    )


@for_each(
    "make, error, match",
    [
        (lambda: random_wiring(1, 4), ValueError, "in_features must be >= 2, as every gate reads"),
        (lambda: random_wiring(4, 0), ValueError, "out_features must be >= 1, got 0"),
        (lambda: LearnableWiring(0), ValueError, "candidates must be >= 1, got 0"),
        (lambda: LearnableWiring(2.0), TypeError, "candidates must be an int"),
        (lambda: LogicLayer(9, 5, wiring=LearnableWiring(5)), ValueError, "must be <= 4, so that"),
    ],
)
def test_bad_sizes(make, error, match):
    with pytest.raises(error, match=match):
        make()


@for_each(
    "inputs, gates, fan_in, count",
    [(16, 30, 2, 8), (90, 40, 2, 8), (7, 9, 3, 2), (5, 4, 1, 5)],
)
def test_candidates(inputs, gates, fan_in, count, seed):
    """All different for each gate, the first as in a random wiring, all inputs in use."""

    def drawn():
        wiring = LearnableWiring(count)
        return LogicLayer(inputs, gates, fan_in, wiring=wiring, seed=seed).candidates

    found = drawn()
    assert found.shape == (count, fan_in, gates)
    for own in found.flatten(0, 1).T.tolist():
        assert len(set(own)) == count * fan_in
        assert 0 <= min(own) <= max(own) < inputs
    assert torch.equal(found[0], random_wiring(inputs, gates, fan_in, seed=seed))
    assert torch.equal(found, drawn())
    assert len(found.unique()) == inputs


def by_formula(layer, x):
    """A layer of two inputs by the definition of soft wires and gates."""
    shares = layer.wire_weight.exp() / layer.wire_weight.exp().sum(0)
    a, b = torch.zeros(2, len(x), layer.candidates.shape[2], dtype=x.dtype)
    for share, which in zip(shares, layer.candidates, strict=True):
        a, b = a + share[0] * x[:, which[0]], b + share[1] * x[:, which[1]]
    t00, t01, t10, t11 = layer.soft_tables().T
    return (1 - a) * ((1 - b) * t00 + b * t01) + a * ((1 - b) * t10 + b * t11)


def test_a_soft_wire_is_the_mean_of_its_candidates():
    layer = LogicLayer(20, 30, wiring=LearnableWiring(4), init="normal", dtype=torch.float64)
    x = torch.rand(7, 20, dtype=torch.float64)
    want = by_formula(layer, x)
    torch.testing.assert_close(layer(x), want, atol=1e-14, rtol=0)
    torch.testing.assert_close(layer(x[None])[0], want, atol=1e-14, rtol=0)
    hot = LogicLayer(20, 30, wiring=LearnableWiring(4), scale=0.5, init="normal",
                     dtype=torch.float64)  # fmt: skip
    state = {k: v / 2 if v.is_floating_point() else v for k, v in layer.state_dict().items()}
    del state["_extra_state"]  # which refuses another scale
    hot.load_state_dict(state)
    torch.testing.assert_close(hot(x), want, atol=1e-14, rtol=0)


@for_each(dtype=[torch.float32, torch.float64, torch.bfloat16])
def test_gradients_of_means_are_those_of_the_definition(dtype):
    """Of 50 features that are not all read."""
    layer = LogicLayer(50, 5, wiring=LearnableWiring(4), init="normal", dtype=dtype)
    x, given = torch.rand(33, 50, dtype=dtype, requires_grad=True), torch.rand(33, 5, dtype=dtype)
    limit = {torch.float32: 1e-5, torch.float64: 1e-13, torch.bfloat16: 0.05}[dtype]
    leaves = x, layer.wire_weight
    found = [torch.autograd.grad(y, leaves, given) for y in (layer(x), by_formula(layer, x))]
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=4 * limit, rtol=4 * limit)
    unread = torch.ones(50, dtype=torch.bool)
    unread[layer.candidates.flatten()] = False
    assert unread.any()
    assert (found[0][0][:, unread] == 0).all()


def test_hard_wires_equal_soft_ones_at_one_hot_weights():
    bits = (torch.rand(9, 40) > 0.5).float()
    layer = LogicLayer(40, 60, wiring="learnable", init="normal")
    for weight in (layer.weight, layer.wire_weight):
        along = 1 if weight is layer.weight else 0
        hot = torch.full_like(weight, -1e9)
        weight.data = hot.scatter_(along, weight.argmax(along, keepdim=True), 0.0)
    soft, hard = layer.train()(bits), layer.eval()(bits)
    assert torch.equal(soft, hard)
    assert not torch.equal(layer.hard_wires(), layer.candidates[0])
    plain = LogicLayer(40, 60, wiring=layer.hard_wires())
    plain.weight.data = layer.weight.data
    assert torch.equal(plain.eval()(bits), hard)


def test_residual_wires_start_as_the_random_ones():
    x = torch.rand(50, 64)
    layer = LogicLayer(64, 90, wiring="learnable", seed=3)
    plain = LogicLayer(64, 90, seed=3)
    assert torch.equal(layer.hard_wires(), plain.wires)
    assert torch.equal(layer.eval()((x > 0.5).float()), plain.eval()((x > 0.5).float()))
    assert 0 < (layer.train()(x) - plain.train()(x)).abs().max() < 0.1
    assert len(LogicLayer(9, 5, wiring="learnable").candidates) == 4


def test_estimators_of_learnable_wires():
    bits = (torch.rand(40, 20) > 0.5).float()
    make = {"wiring": LearnableWiring(4), "init": "normal", "seed": 1}
    plain = LogicLayer(20, 30, **make)
    through = LogicLayer(20, 30, **make, estimator="straight_through")
    assert torch.equal(through(bits), plain.eval()(bits))
    (got,) = torch.autograd.grad(through(bits).sum(), through.wire_weight)
    # Hard gates of hard wires forward; backward through the means, as if they had been those.
    reads = bits.T[plain.hard_wires()].requires_grad_()
    t00, t01, t10, t11 = plain.hard_tables().T[..., None]
    a, b = reads
    out = t00 + (t10 - t00) * a + (t01 - t00) * b + (t11 - t10 - t01 + t00) * a * b
    (given,) = torch.autograd.grad(out.sum(), reads)
    means = (plain.wire_weight.softmax(0)[..., None] * bits.T[plain.candidates]).sum(0)
    (want,) = torch.autograd.grad(means, plain.wire_weight, given)
    torch.testing.assert_close(got, want)
    drawn = LogicLayer(20, 30, **make, estimator="gumbel_straight_through")
    assert set(drawn(bits).unique().tolist()) <= {0.0, 1.0}
    # A wire is drawn with its share: the first gate passes the first input on, sure of it.
    many = LogicLayer(4, 2000, wiring=LearnableWiring(2), gates=["a"], init="normal",
                      estimator="gumbel_straight_through")  # fmt: skip
    many.candidates[:], many.wire_weight.data[:] = many.candidates[..., :1], torch.randn(2, 2, 1)
    x = torch.zeros(1, 4)
    x[0, many.candidates[0, 0, 0]] = 1
    want = many.wire_weight.softmax(0)[0, 0, 0].item()
    assert many(x).mean().item() == pytest.approx(want, abs=0.05)


def test_wires_find_the_features_that_matter():
    """No gate begins with the two features whose exclusive or is asked for."""
    torch.manual_seed(0)
    x = (torch.rand(300, 16) > 0.5).float()
    y = (x[:, 0] != x[:, 1]).long()
    model = nn.Sequential(LogicLayer(16, 24, wiring="learnable", seed=9), GroupSum(2))
    starts = {frozenset(pair) for pair in model[0].hard_wires().T.tolist()}
    assert {0, 1} not in starts
    adam = torch.optim.Adam(model.parameters(), 0.1)
    for _ in range(100):
        adam.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        adam.step()
    assert (model.eval()(x).argmax(1) == y).float().mean() > 0.95
    assert {0, 1} in {frozenset(pair) for pair in model[0].hard_wires().T.tolist()}
