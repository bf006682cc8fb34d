"""Layers of gates: the formulas, gradients, hard against soft, backends, errors."""

import copy
import io
import itertools
import pickle

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from gendr.logic import GATES, LearnableWiring, LogicConv2d, LogicLayer, harden, random_wiring
from gendr.tnorms import as_tconorm
from support import TOLERANCES, relative_l2
from support.cases import for_each

BACKENDS = ["reference", "cpu"]
F64 = torch.float64
# Every kind of layer, and a batch for it.
LAYERS = {
    "fixed": (lambda **more: LogicLayer(50, 60, **more), (5, 50)),
    "learnable": (lambda **more: LogicLayer(50, 60, wiring="learnable", **more), (5, 50)),
    "trees": (lambda **more: LogicConv2d(2, 9, 3, padding=1, **more), (3, 2, 5, 5)),
}


def one_hot(layer, ids):
    """Make each neuron a gate, beyond doubt."""
    weight = torch.full_like(layer.weight, -1e9)
    weight[torch.arange(len(ids)), ids] = 0
    layer.weight.data = weight
    return layer


def corners(fan_in, dtype=torch.float32):
    return torch.tensor(list(itertools.product((0, 1), repeat=fan_in)), dtype=dtype)


@for_each(backend=BACKENDS, dtype=[torch.float32, F64])
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


@for_each(backend=BACKENDS)
def test_a_mixture_is_the_sum_over_all_gates(backend):
    """(6.2), gate by gate."""
    layer = LogicLayer(7, 12, init="normal", backend=backend, dtype=F64)
    x = torch.rand(5, 7, dtype=F64)
    a, b = x[:, layer.wires[0]], x[:, layer.wires[1]]
    want = torch.zeros(5, 12, dtype=F64)
    for gate, share in zip(GATES, layer.weight.softmax(1).T, strict=True):
        one, ca, cb, cab = gate.coefficients
        want += share * (one + ca * a + cb * b + cab * a * b)
    torch.testing.assert_close(layer(x), want, atol=1e-14, rtol=0)


@for_each(fan_in=range(1, 7), backend=BACKENDS)
def test_a_table_is_the_expectation_over_corners(backend, fan_in):
    layer = LogicLayer(8, 5, fan_in, parametrization="table", init="normal", backend=backend,
                       dtype=F64)  # fmt: skip
    x = torch.rand(33, 8, dtype=F64)
    want = torch.zeros(33, 5, dtype=F64)
    for index, corner in enumerate(corners(fan_in).tolist()):
        chance = torch.ones(33, 5, dtype=F64)
        for digit, row in zip(corner, layer.wires, strict=True):
            chance = chance * (x[:, row] if digit else 1 - x[:, row])
        want += chance * layer.weight[:, index].sigmoid()
    torch.testing.assert_close(layer(x), want, atol=1e-14, rtol=0)
    # Hard: the table at the corner.
    bits = (x > 0.5).double()
    places = sum(bits[:, row].long() << k for k, row in enumerate(layer.wires.flip(0)))
    hard = layer.hard_tables()
    assert torch.equal(layer.eval()(bits), hard[torch.arange(5), places])


@for_each(fan_in=range(1, 7), backend=BACKENDS)
def test_walsh_is_the_sigmoid_of_the_sum_over_sets(backend, fan_in):
    """And hardened it is the table of the signs of that sum, which are those of any table."""
    layer = LogicLayer(8, 5, fan_in, parametrization="walsh", init="normal", scale=0.7,
                       backend=backend, dtype=F64)  # fmt: skip
    x = torch.rand(33, 8, dtype=F64)

    def summed(x):
        logits = torch.zeros(len(x), 5, dtype=F64)
        for index, chosen in enumerate(corners(fan_in).tolist()):
            signs = torch.ones(len(x), 5, dtype=F64)
            for digit, row in zip(chosen, layer.wires, strict=True):
                signs = signs * (1 - 2 * x[:, row]) if digit else signs
            logits += layer.weight[:, index] * signs
        return logits

    torch.testing.assert_close(layer(x), (summed(x) / 0.7).sigmoid(), atol=1e-14, rtol=0)
    bits = (x > 0.5).double()
    assert torch.equal(layer.eval()(bits), (summed(bits) > 0).double())
    circuit = harden(layer, simplify=False)
    assert torch.equal(circuit(bits), layer(bits) > 0)
    torch.testing.assert_close(
        layer.soft_tables()[:, -1],
        ((layer.weight * (-1.0) ** corners(fan_in).sum(1)).sum(1) / 0.7).sigmoid(),
    )


TWICE = torch.tensor([[0, 1, 2, 2], [0, 1, 1, 2]])  # one feature by one gate; nobody reads the last
SETTINGS = [
    *({"fan_in": fan_in, "parametrization": "table"} for fan_in in range(1, 7)),
    *({"fan_in": fan_in, "parametrization": "walsh"} for fan_in in (1, 2, 4)),
    *({"fan_in": fan_in, "wiring": LearnableWiring(2)} for fan_in in range(1, 4)),
    {"gates": ["and", "or", "xor", "a"], "wiring": TWICE},
    {"scale": 0.5},
    {"fan_in": 3, "scale": 0.5},
    {"fan_in": 3, "parametrization": "walsh", "scale": 0.5},
]


@for_each(rotating=4, settings=SETTINGS, backend=BACKENDS)
def test_gradients(backend, settings):
    layer = LogicLayer(7, 4, **settings, init="normal", backend=backend, dtype=F64)
    x = torch.rand(2, 7, dtype=F64, requires_grad=True)
    names, weights = zip(*layer.named_parameters(), strict=True)

    def run(x, *weights):
        given = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(layer, given, (x,))

    inputs = (x, *weights)
    assert gradgradcheck(run, inputs, fast_mode=True)
    for k in range(len(inputs)):
        alone = [each if k == j else each.detach() for j, each in enumerate(inputs)]
        assert gradcheck(run, alone, fast_mode=k == 0)


@for_each(
    "fan_in, width, batch",
    [(2, 300, 129), (2, 5000, 100), (3, 70, 37), (6, 50, 65), (1, 9, 1)],
    dtype=[torch.float32, F64],
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


def test_residual_layers_pass_the_first_input_on():
    for settings in ({}, {"fan_in": 4}, {"fan_in": 2, "parametrization": "table"},
                     {"fan_in": 3, "parametrization": "walsh"}):  # fmt: skip
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
    for parametrization in ("gates", "table", "walsh"):
        noisy = LogicLayer(
            2, 2000, wiring=torch.tensor([[0], [1]]).expand(2, 2000),
            parametrization=parametrization, init="normal", estimator="gumbel_straight_through",
        )  # fmt: skip
        noisy.weight.data[:] = noisy.weight.data[:1]
        draws = noisy(corners(2))
        assert set(draws.unique().tolist()) == {0.0, 1.0}
        # A gate is drawn with its probability, so that the mean is the expected table.
        torch.testing.assert_close(
            draws.mean(1), noisy.soft_tables()[0].detach(), atol=0.05, rtol=0
        )
        noisy.estimator = "gumbel"
        soft = noisy(corners(2))
        assert not torch.equal(soft, noisy(corners(2)))
        assert torch.equal(noisy.eval()(corners(2)), noisy(corners(2)))


@for_each(name=["hamacher(p=0.5)", "frank(p=4)", "einstein", "max", "yager(p=2)"])
def test_other_tnorms(name):
    tnorm = as_tconorm(name).dual
    wires = torch.tensor([[0] * 16, [1] * 16])
    layer = LogicLayer(2, 16, wiring=wires, tconorm=name, dtype=F64)
    one_hot(layer, torch.arange(16))
    assert torch.equal(layer(corners(2).double()), layer.eval()(corners(2).double()))
    layer.train()
    x = torch.rand(200, 2, dtype=F64)
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


def test_a_subset_of_gates():
    layer = LogicLayer(9, 40, gates=["nor", "a", "xor"], init="normal")
    assert layer.weight.shape == (40, 3)
    assert set(layer.choices().tolist()) <= {3, 6, 8}


# -- every kind of layer


@for_each(kind=LAYERS)
def test_seeds_and_state_dicts(kind):
    """Wires are kept with the weights; what was made of the old ones is forgotten."""
    make, shape = LAYERS[kind]
    state = torch.get_rng_state()
    first, again = (make(seed=0, init="normal") for _ in range(2))
    assert torch.equal(state, torch.get_rng_state())
    second = make(seed=1, init="normal")
    for one, other in zip(first.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    x = torch.rand(*shape, requires_grad=True)

    def outcome(layer):
        y = layer(x)
        return y, torch.autograd.grad(y.sum(), x)[0]

    before, want = outcome(second), outcome(first)
    assert not any(map(torch.equal, before, want))
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second.load_state_dict(torch.load(file, weights_only=True))
    for layer in (second, copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        assert all(map(torch.equal, outcome(layer), want))


@for_each(kind=LAYERS, mode=[True, False])
def test_wires_to_features_that_are_not_there_are_refused(kind, mode):
    """Shapes of weights and wires do not tell how many inputs a layer has."""
    make, shape = LAYERS[kind]
    layer = make(seed=0).train(mode)
    layer(torch.rand(shape))
    name = {"fixed": "wires", "learnable": "candidates", "trees": "places"}[kind]
    match = "must index the (50 inputs of the layer|18 places of the window)"
    far = {**layer.state_dict(), name: layer.state_dict()[name] + 999}
    with pytest.raises(ValueError, match=f"{name} of the state dict {match}"):
        layer.load_state_dict(far)
    getattr(layer, name)[0] = 999
    with pytest.raises(ValueError, match=f"{name} {match}"):
        layer(torch.rand(shape))


@for_each(kind=LAYERS, backend=BACKENDS)
def test_inference_mode(kind, backend):
    """Layers that were made in it run; those that ran in it first can be trained."""
    make, shape = LAYERS[kind]
    with torch.inference_mode():
        x = torch.rand(shape)
        want = make(seed=0, backend=backend)(x)
    layer = make(seed=0, backend=backend)
    with torch.inference_mode():
        assert torch.equal(layer(x), want)
    layer(torch.rand(*shape, requires_grad=True)).sum().backward()
    assert layer.weight.grad is not None


@for_each(kind=LAYERS, dtype=[torch.bfloat16, torch.float16])
def test_half_precision(kind, dtype):
    make, shape = LAYERS[kind]
    layer, half = make(init="normal", seed=0), make(init="normal", seed=0, dtype=dtype)
    x = torch.rand(shape)
    got = half(x.to(dtype))
    assert got.dtype == dtype
    torch.testing.assert_close(got.float(), layer(x), atol=0.03, rtol=0)
    got.sum().backward()
    assert half.weight.grad.isfinite().all()
    assert set(half.eval()((x > 0.5).to(dtype)).flatten().tolist()) <= {0.0, 1.0}
    with torch.autocast("cpu", torch.bfloat16):  # leaves tables as they are
        found = layer(x)
    assert torch.equal(found, layer(x))


@for_each(
    "make, error, match",
    [
        (lambda: LogicLayer(1, 4), ValueError, "in_features must be >= 2"),
        (lambda: LogicLayer(9, 4, 7), ValueError, "fan_in must be <= 6, got 7"),
        (lambda: LogicLayer(9, 4, 3, parametrization="gates"), ValueError, "use 'table'"),
        (lambda: LogicLayer(9, 4, 3, gates=["and"]), ValueError, "gates are chosen with"),
        (lambda: LogicLayer(9, 4, gates=["nor"]), ValueError, "needs the gate 'a'"),
        (lambda: LogicLayer(9, 4, init="residul"), ValueError, "unknown init 'residul'"),
        (lambda: LogicLayer(9, 4, estimator="hard"), ValueError, "unknown estimator"),
        (lambda: LogicLayer(9, 4, wiring="ring"), ValueError, "unknown wiring"),
        (lambda: LogicLayer(9, 4, wiring=torch.zeros(2, 4)), TypeError, "must hold integers"),
        (lambda: LogicLayer(9, 4, wiring=random_wiring(9, 5)), ValueError, "must have shape"),
        (lambda: LogicLayer(9, 4, wiring=random_wiring(99, 4, seed=0)), ValueError, "the 9 inputs"),
        (lambda: LogicLayer(9, 4, scale=0.0), ValueError, "scale must be > 0"),
        (lambda: LogicLayer(9, 4, tconorm="yager(p=0.5)"), ValueError, r"lies below max\(a \+ b"),
        (lambda: LogicLayer(9, 4, 3, tconorm="max"), ValueError, "of two inputs, got fan_in = 3"),
        (lambda: LogicLayer(9, 4, dtype=torch.int32), (TypeError, RuntimeError), "floating"),
        (lambda: LogicLayer(9, 4)(torch.rand(3, 8)), ValueError, r"\[..., 9\], got \[3, 8\]"),
        (lambda: LogicLayer(9, 4)(torch.rand(3, 9).double()), TypeError, "dtype of the weights"),
        (lambda: LogicLayer(9, 4)([1.0] * 9), TypeError, "x must be a torch.Tensor"),
        (lambda: LogicLayer(9, 4, backend="cup")(torch.rand(3, 9)), ValueError, "unknown backend"),
        (
            lambda: LogicLayer(9, 4, backend="cpu").bfloat16()(torch.rand(3, 9).bfloat16()),
            ValueError,
            "does not serve",
        ),
    ],
)
def test_bad_input(make, error, match):
    with pytest.raises(error, match=match):
        make()
