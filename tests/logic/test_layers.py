"""Layers of gates: the formulas, gradients, hard against soft, backends, errors."""

import copy
import io
import itertools
import pickle

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck

from gendr.logic import GATES, GroupSum, LogicLayer, random_wiring
from gendr.logic.backends.choice import backends
from gendr.tnorms import as_tconorm
from support import TOLERANCES, relative_l2
from support.cases import for_each

BACKENDS = ["reference", "cpu"]


def one_hot(layer, ids):
    """Make each neuron a gate, beyond doubt."""
    weight = torch.full_like(layer.weight, -1e9)
    weight[torch.arange(len(ids)), ids] = 0
    layer.weight.data = weight
    return layer


def corners(fan_in, dtype=torch.float32):
    return torch.tensor(list(itertools.product((0, 1), repeat=fan_in)), dtype=dtype)


def test_backends_are_here():
    found = backends()
    assert list(found) == ["cpu", "triton", "reference"]
    assert found["cpu"] is None
    assert found["reference"] is None


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_gate_at_every_corner(backend, dtype):
    """Hard equals relaxed exactly at one-hot weights, and both equal the truth table."""
    wires = torch.tensor([[0] * 16, [1] * 16])
    layer = LogicLayer(2, 16, wiring=wires, backend=backend, dtype=dtype)
    one_hot(layer, torch.arange(16))
    want = torch.tensor([gate.table for gate in GATES], dtype=dtype).T
    for mode in (True, False):
        assert torch.equal(layer.train(mode)(corners(2, dtype)), want)
    x = torch.rand(9, 2, dtype=dtype)
    assert torch.equal(layer.train()(x), layer.eval()(x))
    assert layer.choices().tolist() == list(range(16))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_mixture_is_the_sum_over_all_gates(backend):
    """(6.2), gate by gate."""
    layer = LogicLayer(7, 12, init="normal", backend=backend, dtype=torch.float64)
    x = torch.rand(5, 7, dtype=torch.float64)
    a, b = x[:, layer.wires[0]], x[:, layer.wires[1]]
    want = torch.zeros(5, 12, dtype=torch.float64)
    for gate, share in zip(GATES, layer.weight.softmax(1).T, strict=True):
        one, ca, cb, cab = gate.coefficients
        want += share * (one + ca * a + cb * b + cab * a * b)
    torch.testing.assert_close(layer(x), want, atol=1e-14, rtol=0)


@for_each(fan_in=range(1, 7), backend=BACKENDS)
def test_a_table_is_the_expectation_over_corners(backend, fan_in):
    layer = LogicLayer(8, 5, fan_in, parametrization="table", init="normal", backend=backend,
                       dtype=torch.float64)  # fmt: skip
    x = torch.rand(33, 8, dtype=torch.float64)
    want = torch.zeros(33, 5, dtype=torch.float64)
    for index, corner in enumerate(corners(fan_in).tolist()):
        chance = torch.ones(33, 5, dtype=torch.float64)
        for digit, row in zip(corner, layer.wires, strict=True):
            chance = chance * (x[:, row] if digit else 1 - x[:, row])
        want += chance * layer.weight[:, index].sigmoid()
    torch.testing.assert_close(layer(x), want, atol=1e-14, rtol=0)
    # Hard: the table at the corner.
    bits = (x > 0.5).double()
    places = sum(bits[:, row].long() << k for k, row in enumerate(layer.wires.flip(0)))
    hard = layer.hard_tables()
    assert torch.equal(layer.eval()(bits), hard[torch.arange(5), places])


def gradient_cases():
    for fan_in in range(1, 7):
        yield {"fan_in": fan_in, "parametrization": "table"}
    yield {"fan_in": 2, "parametrization": "gates"}
    yield {"fan_in": 2, "gates": ["and", "or", "xor", "a"]}
    yield {"fan_in": 2, "temperature": 0.5}
    yield {"fan_in": 3, "temperature": 0.5}


@for_each(rotating=4, settings=list(gradient_cases()), backend=BACKENDS)
def test_gradients(backend, settings):
    layer = LogicLayer(7, 4, **settings, init="normal", backend=backend, dtype=torch.float64)
    x = torch.rand(3, 7, dtype=torch.float64, requires_grad=True)

    def run(x, weight):
        return torch.func.functional_call(layer, {"weight": weight}, (x,))

    assert gradcheck(run, (x, layer.weight))
    if settings["fan_in"] in (2, 3):
        assert gradgradcheck(run, (x, layer.weight))
    for wanted in ((x, layer.weight.detach()), (x.detach(), layer.weight)):
        assert gradcheck(run, wanted)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_gate_may_read_one_feature_twice(backend):
    wires = torch.tensor([[0, 1, 2, 2], [0, 1, 1, 2]])
    layer = LogicLayer(4, 4, wiring=wires, init="normal", backend=backend, dtype=torch.float64)
    x = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    assert gradcheck(layer, x)
    (grad,) = torch.autograd.grad(layer(x).sum(), x)
    assert (grad[:, 3] == 0).all()  # nobody reads it


@for_each(
    "fan_in, width, batch",
    [(2, 300, 129), (2, 5000, 100), (3, 70, 37), (6, 50, 65), (1, 9, 1)],
    dtype=[torch.float32, torch.float64],
)
def test_kernels_match_the_reference(dtype, fan_in, width, batch):
    found = []
    for backend in BACKENDS:
        layer = LogicLayer(90, width, fan_in, init="normal", seed=1, backend=backend, dtype=dtype)
        x = torch.rand(batch, 90, dtype=dtype, generator=torch.Generator().manual_seed(2))
        x.requires_grad_()
        y = layer(x)
        given = torch.rand(y.shape, dtype=dtype, generator=torch.Generator().manual_seed(3)) - 0.3
        found.append([y, *torch.autograd.grad(y, (x, layer.weight), given)])
    limit = TOLERANCES[dtype]
    torch.testing.assert_close(found[1][0], found[0][0], atol=limit.alpha, rtol=0)
    for got, want in zip(*reversed(found), strict=True):
        assert got.shape == want.shape
        assert relative_l2(got, want) < limit.gradient


def test_any_batch_shape_and_layout():
    layer = LogicLayer(6, 5, init="normal")
    x = torch.rand(2, 3, 4, 6)
    want = torch.stack([layer(row) for row in x.reshape(-1, 6)]).reshape(2, 3, 4, 5)
    torch.testing.assert_close(layer(x), want)
    torch.testing.assert_close(layer(x.transpose(0, 2)), want.transpose(0, 2))
    assert layer(x[0, 0, 0]).shape == (5,)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype):
    layer = LogicLayer(20, 30, init="normal", seed=0)
    half = LogicLayer(20, 30, init="normal", seed=0, dtype=dtype)
    x = torch.rand(10, 20)
    x16 = x.to(dtype).requires_grad_()
    got = half(x16)
    assert got.dtype == dtype
    torch.testing.assert_close(got.float(), layer(x), atol=0.03, rtol=0)
    got.sum().backward()
    assert half.weight.grad.isfinite().all()
    assert set(half.eval()((x16 > 0.5).to(dtype)).flatten().tolist()) <= {0.0, 1.0}


def test_residual_layers_pass_the_first_input_on():
    for settings in ({}, {"fan_in": 4}, {"fan_in": 2, "parametrization": "table"}):
        layer = LogicLayer(20, 30, **settings)
        bits = (torch.rand(10, 20) > 0.5).float()
        assert torch.equal(layer.eval()(bits), bits[:, layer.wires[0]])
        soft = layer.train()(bits)
        assert (soft - bits[:, layer.wires[0]]).abs().max() < 0.1


def test_estimators():
    bits = (torch.rand(40, 20) > 0.5).float()
    plain = LogicLayer(20, 30, init="normal", seed=1)
    through = LogicLayer(20, 30, init="normal", seed=1, estimator="straight_through")
    assert torch.equal(through(bits), plain.eval()(bits))
    plain.train()
    # Gradients of tables are those of the mixture, as far as the outputs are linear in them.
    torch.testing.assert_close(
        torch.autograd.grad(through(bits).sum(), through.weight)[0],
        torch.autograd.grad(plain(bits).sum(), plain.weight)[0],
    )
    for parametrization in ("gates", "table"):
        noisy = LogicLayer(
            2, 1, wiring=torch.tensor([[0], [1]]), parametrization=parametrization,
            init="normal", seed=3, estimator="gumbel_straight_through",
        )  # fmt: skip
        torch.manual_seed(0)
        draws = torch.stack([noisy(corners(2))[:, 0] for _ in range(2000)])
        assert set(draws.unique().tolist()) == {0.0, 1.0}
        # A gate is drawn with its probability, so that the mean is the expected table.
        torch.testing.assert_close(
            draws.mean(0), noisy.soft_tables()[0].detach(), atol=0.05, rtol=0
        )
        noisy.estimator = "gumbel"
        soft = noisy(corners(2))
        assert not torch.equal(soft, noisy(corners(2)))
        assert torch.equal(noisy.eval()(corners(2)), noisy(corners(2)))


@pytest.mark.parametrize("name", ["hamacher(p=0.5)", "frank(p=4)", "einstein", "max", "yager(p=2)"])
def test_other_tnorms(name):
    tnorm = as_tconorm(name).dual
    wires = torch.tensor([[0] * 16, [1] * 16])
    layer = LogicLayer(2, 16, wiring=wires, tnorm=name, dtype=torch.float64)
    one_hot(layer, torch.arange(16))
    assert torch.equal(layer(corners(2).double()), layer.eval()(corners(2).double()))
    layer.train()
    x = torch.rand(200, 2, dtype=torch.float64)
    a, b = x.T
    y = layer(x)
    torch.testing.assert_close(y[:, 1], tnorm(a, b))
    torch.testing.assert_close(y[:, 4], b - tnorm(a, b))
    if name.startswith("frank"):  # whose T-conorm is a + b - ab with the T-norm for ab
        torch.testing.assert_close(y[:, 7], tnorm.dual(a, b))
    assert y.min() >= -1e-12
    assert y.max() <= 1 + 1e-12
    layer.reset("normal", seed=0)
    assert gradcheck(layer, x[:3].clone().requires_grad_())
    assert name.partition("(")[0] in repr(layer)


def test_tnorms_that_do_not_fit():
    with pytest.raises(ValueError, match=r"yager\(p=0.5\) lies below max\(a \+ b - 1, 0\)"):
        LogicLayer(4, 4, tnorm="yager(p=0.5)")
    with pytest.raises(ValueError, match="gates of two inputs, got fan_in = 3"):
        LogicLayer(4, 4, 3, tnorm="max")
    assert LogicLayer(4, 4, tnorm="probabilistic").tnorm is None


def test_a_subset_of_gates():
    layer = LogicLayer(9, 40, gates=["nor", "a", "xor"], init="normal")
    assert layer.weight.shape == (40, 3)
    assert set(layer.choices().tolist()) <= {3, 6, 8}
    with pytest.raises(ValueError, match="needs the gate 'a'"):
        LogicLayer(9, 40, gates=["nor"])


def test_wires_are_in_the_state_dict():
    first, second = LogicLayer(50, 80, seed=0), LogicLayer(50, 80, seed=1)
    x = torch.rand(4, 50, requires_grad=True)
    before = second(x)
    (grad,) = torch.autograd.grad(before.sum(), x)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(second.wires, first.wires)
    assert torch.equal(second(x), first(x))  # not by the old wires
    assert not torch.equal(second(x), before)
    again = torch.autograd.grad(second(x).sum(), x)[0]
    assert torch.equal(again, torch.autograd.grad(first(x).sum(), x)[0])
    assert not torch.equal(again, grad)
    for other in (copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        assert torch.equal(other(x), first(x))


def test_seeds():
    torch.manual_seed(0)
    state = torch.get_rng_state()
    first, second = (LogicLayer(30, 40, seed=4, init="normal") for _ in range(2))
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(first.weight, second.weight)
    assert torch.equal(first.wires, second.wires)
    assert not torch.equal(first.weight, LogicLayer(30, 40, seed=5, init="normal").weight)


def test_a_network_learns_xor():
    x = corners(2)
    want = (x[:, 0] != x[:, 1]).long()
    torch.manual_seed(1)
    model = nn.Sequential(LogicLayer(2, 8, init="normal"), LogicLayer(8, 8), GroupSum(2))
    adam = torch.optim.Adam(model.parameters(), 0.1)
    for _ in range(60):
        adam.zero_grad()
        nn.functional.cross_entropy(model(x), want).backward()
        adam.step()
    assert torch.equal(model.eval()(x).argmax(1), want)


@for_each(
    "make, error, match",
    [
        (lambda: LogicLayer(1, 4), ValueError, "in_features must be >= 2"),
        (lambda: LogicLayer(9, 4, 7), ValueError, "fan_in must be <= 6, got 7"),
        (lambda: LogicLayer(9, 4, 3, parametrization="gates"), ValueError, "use 'table'"),
        (lambda: LogicLayer(9, 4, 3, gates=["and"]), ValueError, "gates are chosen with"),
        (lambda: LogicLayer(9, 4, init="residul"), ValueError, "unknown init 'residul'"),
        (lambda: LogicLayer(9, 4, estimator="hard"), ValueError, "unknown estimator"),
        (lambda: LogicLayer(9, 4, wiring="ring"), ValueError, "unknown wiring"),
        (lambda: LogicLayer(9, 4, wiring=torch.zeros(2, 4)), TypeError, "must hold integers"),
        (lambda: LogicLayer(9, 4, wiring=random_wiring(9, 5)), ValueError, "must have shape"),
        (lambda: LogicLayer(9, 4, wiring=random_wiring(99, 4, seed=0)), ValueError, "the 9 inputs"),
        (lambda: LogicLayer(9, 4, temperature=0.0), ValueError, "temperature must be > 0"),
        (lambda: LogicLayer(9, 4, dtype=torch.int32), (TypeError, RuntimeError), "floating"),
        (lambda: LogicLayer(9, 4)(torch.rand(3, 8)), ValueError, r"\[..., 9\] with one row"),
        (lambda: LogicLayer(9, 4)(torch.rand(0, 9)), ValueError, r"one row at least, got \[0, 9\]"),
        (lambda: LogicLayer(9, 4)(torch.rand(3, 9).double()), TypeError, "dtype of the weights"),
        (lambda: LogicLayer(9, 4)([1.0] * 9), TypeError, "x must be a torch.Tensor"),
        (lambda: LogicLayer(9, 4, backend="cup")(torch.rand(3, 9)), ValueError, "unknown backend"),
        (
            lambda: LogicLayer(9, 4, backend="cpu", dtype=torch.bfloat16)(
                torch.rand(3, 9).bfloat16()
            ),
            ValueError,
            "does not serve",
        ),
    ],
)
def test_bad_input(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_the_text_of_a_layer():
    text = repr(LogicLayer(9, 4, estimator="gumbel", temperature=2.0))
    assert text == "LogicLayer(9, 4, fan_in=2, 16 gates, gumbel, temperature=2)"


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("wiring", ["random", "learnable"])
def test_wires_to_features_that_are_not_there_are_refused(wiring, mode):
    """Shapes of weights and wires do not tell how many inputs a layer has."""
    wide, layer = (LogicLayer(n, 50, wiring=wiring, seed=0).train(mode) for n in (1000, 50))
    with pytest.raises(ValueError, match="of the state dict must index the 50 inputs"):
        layer.load_state_dict(wide.state_dict())
    layer = LogicLayer(50, 50, wiring=wiring, seed=0).train(mode)
    layer(torch.rand(3, 50))
    (layer.wires if wiring == "random" else layer.candidates)[0] = 1000
    with pytest.raises(ValueError, match="must index the 50 inputs of the layer"):
        layer(torch.rand(3, 50))


@pytest.mark.parametrize("wiring", ["random", "learnable"])
def test_autocast_leaves_tables_as_they_are(wiring):
    layer, x = LogicLayer(8, 20, init="normal", wiring=wiring, seed=0), torch.rand(5, 8)
    with torch.autocast("cpu", torch.bfloat16):
        found = layer(x)
    assert torch.equal(found, layer(x))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("wiring", ["random", "learnable"])
def test_inference_mode(wiring, backend):
    """Layers that were made in it run; those that ran in it first can be trained."""
    with torch.inference_mode():
        made = LogicLayer(8, 20, wiring=wiring, seed=0, backend=backend)
        x = torch.rand(5, 8)
        want = made(x)
    layer = LogicLayer(8, 20, wiring=wiring, seed=0, backend=backend)
    with torch.inference_mode():
        assert torch.equal(layer(x), want)
    layer(torch.rand(5, 8, requires_grad=True)).sum().backward()
    assert layer.weight.grad is not None
