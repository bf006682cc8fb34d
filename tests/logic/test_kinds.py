"""What a state dict, a name, or a number of another dtype means."""

import shutil
import subprocess

import numpy as np
import pytest
import torch
from torch import nn

from gendr.logic import (
    Binarize,
    GroupSum,
    LogicConv2d,
    LogicLayer,
    OrPool2d,
    Thermometer,
    harden,
    inference_state_dict,
)
from support.cases import for_each

KINDS = [
    (lambda **o: LogicLayer(6, 8, **o), {"parametrization": "walsh"}, {"parametrization": "table"}),
    (lambda **o: LogicLayer(6, 8, init="normal", **o), {"gates": [1, 7]}, {"gates": [6, 14]}),
    (lambda **o: LogicLayer(6, 8, **o), {"tconorm": "einstein"}, {}),
    (lambda **o: LogicLayer(6, 8, **o), {"scale": 0.5}, {}),
    (lambda **o: LogicLayer(6, 8, **o), {"estimator": "straight_through"}, {}),
    (lambda n: LogicLayer(n, 8), {"n": 6}, {"n": 7}),
    (lambda k: LogicConv2d(1, 2, kernel_size=k, depth=1), {"k": (2, 3)}, {"k": (3, 2)}),
    (lambda **o: Thermometer([0.2, 0.6], **o), {"dim": -3}, {}),
]


@for_each("make, one, other", KINDS)
def test_a_state_of_another_kind_is_refused(make, one, other):
    saved, loaded = make(**one), make(**other)
    make(**one).load_state_dict(saved.state_dict())
    before = {name: x.clone() for name, x in loaded.state_dict().items()}
    with pytest.raises(RuntimeError, match="another kind of layer"):
        loaded.load_state_dict(saved.state_dict())
    assert all(torch.equal(x, before[name]) for name, x in loaded.state_dict().items())
    state = saved.state_dict()
    del state["_extra_state"]  # as an earlier version saved it
    saved.load_state_dict(state)


def test_what_is_made_without_values_is_filled():
    for make in (
        lambda: LogicLayer(4, 8), lambda: LogicLayer(6, 8, parametrization="walsh"),
        lambda: LogicLayer(8, 8, wiring="learnable"), lambda: Thermometer.uniform(3),
        lambda: LogicConv2d(1, 2, kernel_size=2, depth=1), lambda: Binarize(0.5, learnable=True),
    ):  # fmt: skip
        with torch.device("meta"):
            module = make()
        right = make()
        module.load_state_dict(right.state_dict(), assign=True)
        x = torch.rand(5, 1, 4, 4) if isinstance(module, LogicConv2d) else torch.rand(
            5, getattr(module, "in_features", 4)
        )  # fmt: skip
        assert torch.equal(module.eval()(x), right.eval()(x))
        assert make().to("meta")(x.to("meta")).shape == right(x).shape


def test_batches_without_rows():
    x, image = torch.rand(0, 4, requires_grad=True), torch.rand(0, 1, 4, 4)
    for mode in (True, False):
        y = LogicLayer(4, 8).train(mode)(x)
        assert y.shape == (0, 8)
        assert torch.autograd.grad(y.sum(), x)[0].shape == (0, 4)
        convolution = LogicConv2d(1, 2, kernel_size=2, depth=2, padding=1).train(mode)
        assert convolution(image).shape == (0, 2, 5, 5)
    assert OrPool2d(2)(image).shape == (0, 1, 2, 2)
    circuit = harden(nn.Sequential(Binarize(0.5), LogicLayer(4, 8), GroupSum(2)))
    none = np.zeros((0, 4), np.float32)
    assert circuit(none).shape == (0, 2)
    assert circuit.predict(none).shape == (0,)
    assert circuit.labels(none).shape == (0, 2)


def test_circuits_round_numbers_as_their_networks_do():
    """Numbers of a CSV file lie on thresholds: 0.7 in float64 is not above 0.7 in float32."""
    numbers = np.random.default_rng(0).integers(0, 20, (400, 4)) / 10
    x = torch.tensor(numbers, dtype=torch.float32)
    for bits in (Thermometer([0.3, 0.7, 1.1]), Thermometer.quantiles(x, 7), Binarize(0.7)):
        model = nn.Sequential(bits, LogicLayer(bits(x).shape[-1], 64), GroupSum(2)).eval()
        nn.init.normal_(model[1].weight, std=3.0)
        circuit, right = harden(model), model(x).numpy()
        space = {}
        exec(circuit.to_numpy("net"), space)
        for found in (circuit(numbers), circuit(torch.tensor(numbers)).numpy()):
            assert np.array_equal(found, right)
        assert np.array_equal(space["net"](numbers), right)
        assert torch.equal(bits(torch.tensor(numbers)).float(), bits(x))


NAMES = "logic bit string byte uwire interconnect unique expect checker signal printf logf write x"


def test_words_of_the_languages_are_no_names(tmp_path):
    bits = Thermometer([0.2, 0.5, 1.5])
    circuit = harden(nn.Sequential(bits, LogicLayer(12, 9), LogicLayer(9, 9), GroupSum(3)).eval())
    for name in (*NAMES.split(), "INT_MAX", "list", "my_t", "a__b", "sum0"):
        for export in (circuit.to_verilog, circuit.to_c, circuit.to_numpy, circuit.to_dot):
            with pytest.raises(ValueError, match="name must"):
                export(name)
    if shutil.which("verilator") is None:
        return
    stream = {"word": 4, "registers": 2, "stream": True}
    for options in ({}, stream, {"word": 8, "signed": True, "result": "class", "registers": 1}):
        (tmp_path / "net.v").write_text(circuit.to_verilog("net", **options))
        command = ["verilator", "--lint-only", "-Wall", "net.v"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@for_each(parametrization=["gates", "table", "walsh"], wiring=["random", "learnable"])
def test_a_state_for_inference_alone(parametrization, wiring, tmp_path):
    """The same outputs in `eval` mode from less than a tenth of the bytes."""
    fan_in = 2 if parametrization == "gates" else 4

    def made(seed):
        return nn.Sequential(
            LogicConv2d(1, 20, 3, seed=seed, init="normal", gates=None),
            nn.Flatten(),
            LogicLayer(80, 60, fan_in, parametrization=parametrization, wiring=wiring, seed=seed,
                       init="normal"),
            LogicLayer(60, 30, gates=["a", "and", "xor"], seed=seed, init="normal"),
            GroupSum(3),
        ).eval()  # fmt: skip

    model, other = made(1), made(2)
    if wiring == "learnable":
        nn.init.normal_(model[2].wire_weight)
    state = inference_state_dict(model)
    torch.save(state, tmp_path / "small.pt")
    other.load_state_dict(torch.load(tmp_path / "small.pt"))
    x = (torch.rand(40, 1, 4, 4) > 0.5).float()
    assert torch.equal(other(x), model(x))
    assert not torch.equal(made(2)(x), model(x))
    assert str(harden(other, input_shape=(1, 4, 4))) == str(harden(model, input_shape=(1, 4, 4)))
    assert "2.weight" in model.state_dict()
    if wiring == "learnable":
        full = sum(t.numel() * t.element_size() for t in model[2].state_dict().values())
        small = sum(t.numel() * t.element_size() for k, t in state.items() if k.startswith("2."))
        assert 10 * small < full
    state["3.choices"] = torch.full((30,), 14, dtype=torch.uint8)
    with pytest.raises(ValueError, match="other gates than"):
        other.load_state_dict(state)
    state["3.choices"] = state["3.choices"] * 0 + 3
    state["3.wires"][0, 0] = 60
    with pytest.raises(ValueError, match="must index the 60 inputs"):
        other.load_state_dict(state)
