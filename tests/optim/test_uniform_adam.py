"""Uniform Adam: Adam for one number, one step size per parameter, its state."""

import copy
import io

import pytest
import torch
from torch import nn

from gendr.optim import UniformAdam, uniform_adam_step
from support.cases import for_each

SETTINGS = {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-8}


def descend(optimizer, parameters, steps, start=0):
    """Steps down a bowl whose slope changes from step to step."""
    for step in range(start, start + steps):
        optimizer.zero_grad()
        loss = sum(((p - 1.5) ** 2 * (1 + step % 3)).sum() for p in parameters)
        loss.backward()
        optimizer.step()


@for_each(shape=[(), (1,), (1, 1)])
def test_of_one_number_it_is_adam(shape):
    ours, theirs = (nn.Parameter(torch.full(shape, -0.7, dtype=torch.float64)) for _ in range(2))
    descend(UniformAdam([ours], **SETTINGS), [ours], 50)
    descend(torch.optim.Adam([theirs], **SETTINGS), [theirs], 50)
    assert abs(float(theirs.detach()) + 0.7) > 1
    torch.testing.assert_close(ours, theirs, rtol=1e-13, atol=0)


def test_the_first_step_is_parallel_to_the_gradient_and_lr_long():
    u = nn.Parameter(torch.zeros(5, 3, dtype=torch.float64))
    u.grad = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    UniformAdam([u], lr=0.25).step()
    torch.testing.assert_close(u.detach(), -0.25 * u.grad / u.grad.abs().max())


def test_it_takes_the_largest_average_of_each_parameter_alone():
    generator = torch.Generator().manual_seed(1)
    one = torch.randn(4, 3, dtype=torch.float64, generator=generator)
    two = 100 * torch.randn(2, dtype=torch.float64, generator=generator)
    together = [nn.Parameter(one.clone()), nn.Parameter(two.clone())]
    descend(UniformAdam(together, **SETTINGS), together, 5)
    for start, parameter in zip((one, two), together, strict=True):
        alone = nn.Parameter(start.clone())
        descend(UniformAdam([alone], **SETTINGS), [alone], 5)
        assert torch.equal(alone, parameter)


def test_it_goes_on_from_its_state():
    whole = nn.Parameter(torch.linspace(-1, 3, 7))
    descend(UniformAdam([whole], **SETTINGS), [whole], 9)
    part = nn.Parameter(torch.linspace(-1, 3, 7))
    optimizer = UniformAdam([part], **SETTINGS)
    descend(optimizer, [part], 4)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    again = UniformAdam([part])  # the state brings the settings along
    again.load_state_dict(torch.load(io.BytesIO(file.getvalue()), weights_only=True))
    descend(again, [part], 5, start=4)
    assert torch.equal(part, whole)


def test_the_function_changes_nothing():
    given = [torch.rand(3, 2) for _ in range(4)]
    before = copy.deepcopy(given)
    found = uniform_adam_step(*given, step=3, lr=0.1)
    assert all(torch.equal(a, b) for a, b in zip(given, before, strict=True))
    assert not torch.equal(found.value, given[0])


def test_what_has_no_gradient_stays():
    still, empty = nn.Parameter(torch.ones(3)), nn.Parameter(torch.zeros(0, 3))
    flat = nn.Parameter(torch.ones(3))
    empty.grad, flat.grad = torch.zeros(0, 3), torch.zeros(3)
    optimizer = UniformAdam([still, empty, flat], lr=1.0)
    assert optimizer.step(lambda: 4.0) == 4.0
    assert torch.equal(still, torch.ones(3))
    assert torch.equal(flat, torch.ones(3))


def test_half_precision_is_refused():
    """Of a gradient of 1e-4 the square is 0 there, and the step was infinite."""
    short = nn.Parameter(torch.ones(3, dtype=torch.float16))
    short.grad = torch.full_like(short, 1e-4)
    with pytest.raises(TypeError, match="float16"):
        UniformAdam([short]).step()


@for_each(
    "changes, error, text",
    [
        ({"lr": 0.0}, ValueError, r"lr must be > 0, got 0\.0"),
        ({"lr": "fast"}, TypeError, "lr must be"),
        ({"eps": -1e-3}, ValueError, r"eps must be >= 0, got -0\.001"),
        ({"betas": (0.9, 1.0)}, ValueError, r"betas must be in \[0, 1\), got \(0\.9, 1\.0\)"),
        ({"betas": (0.9,)}, ValueError, r"betas must be two numbers, got \(0\.9,\)"),
        ({"betas": 0.9}, ValueError, r"betas must be two numbers, got 0\.9"),
    ],
)
def test_bad_settings_end_in_one_line(changes, error, text):
    with pytest.raises(error, match=text):
        UniformAdam([nn.Parameter(torch.zeros(2))], **changes)
    with pytest.raises(error, match=text):
        UniformAdam([{"params": [nn.Parameter(torch.zeros(2))], **changes}])


def test_the_state_of_another_optimiser_is_refused():
    value = nn.Parameter(torch.ones(3))
    value.grad = torch.ones(3)
    adam = torch.optim.Adam([value])
    adam.step()
    with pytest.raises(ValueError, match="another optimiser: it holds step, exp_avg"):
        UniformAdam([value]).load_state_dict(adam.state_dict())
