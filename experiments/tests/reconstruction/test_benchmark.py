"""The benchmark of a step: its parts are the whole."""

import importlib.util
from pathlib import Path

import pytest
import torch

from lab.reconstruction import ShapeNetRenderings, Training, TrainingSettings

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "reconstruction.py"


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("reconstruction_benchmark", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.rotating(4, group="study")
def test_the_parts_move_the_weights_as_a_step_does(benchmark, folder):
    data, settings = ShapeNetRenderings(folder), TrainingSettings(batch=4, scale="1px")
    whole, parts = Training(data, settings), Training(data, settings)
    whole.advance()
    seconds = benchmark.step_in_parts(parts)
    assert seconds.keys() == benchmark.PARTS.keys()
    assert all(value > 0 for value in seconds.values())
    for name, value in whole.model.state_dict().items():
        # The regularisers' gradient is added in another order. Where it is nearly 0, Adam's first
        # step, of length 1e-4 for every weight, may then go another way.
        other = parts.model.state_dict()[name]
        assert torch.allclose(value, other, atol=3e-4), name
    moved = torch.cat([(a - b).flatten() for a, b in zip(
        whole.model.parameters(), parts.model.parameters(), strict=True)])  # fmt: skip
    assert moved.abs().mean() < 1e-6
