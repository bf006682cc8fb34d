"""Programs compiled by `torch.compile`: the values and gradients of the program as it is."""

import threading

import pytest
import torch
from torch.utils._pytree import tree_leaves

from gendr.relaxed import programs, relax
from gendr.sorting import soft_sort
from support.cases import for_each

TREE = torch.tensor([2.5, 1.75, 4.95], dtype=torch.float64)


@relax
def halved(x, below):
    steps = 0
    while x > below:
        x = x / 2
        steps += 1
    return x, steps


def numbers(*shape):
    return torch.rand(*shape, dtype=torch.float64).requires_grad_()


def inputs_of(name):
    if name == "decision_tree":
        return [(5 * numbers(6, 4).detach()).requires_grad_(), TREE.clone().requires_grad_()]
    return [numbers(2, 3)]


def same(compiled, program, inputs, **settings):
    results = [run(*inputs, **settings) for run in (compiled, program)]
    slopes = []
    weights = None
    for result in results:
        parts = tree_leaves(result)
        weights = weights or [torch.rand_like(x) for x in parts]
        total = sum((w * x).sum() for w, x in zip(weights, parts, strict=True))
        wanted = [*inputs, *(s for s in settings.values() if isinstance(s, torch.Tensor))]
        slopes.append((*parts, *torch.autograd.grad(total, wanted)))
    for ours, truth in zip(*slopes, strict=True):
        torch.testing.assert_close(ours, truth, rtol=1e-10, atol=1e-10)


@pytest.mark.graphs
@pytest.mark.rotating(7, group="graphs")
@for_each("name, dist", [("decision_tree", "cauchy"), ("bubble_sort", "logistic")], rotating=2)
def test_values_and_gradients(name, dist):
    program = getattr(programs, name)
    compiled = program.compiled(backend="eager")
    scale = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    for _ in range(2):  # the second time with other numbers, through the same graphs
        same(compiled, program, inputs_of(name), scale=scale, dist=dist, tolerance=0)


@pytest.mark.graphs
@pytest.mark.rotating(7, group="graphs")
def test_other_kinds_of_input_are_compiled_anew():
    program = programs.decision_tree
    compiled = program.compiled(backend="eager")
    flowers, thresholds = inputs_of("decision_tree")
    same(compiled, program, [flowers[:3].detach().requires_grad_(), thresholds], scale=0.1)
    same(compiled, program, [flowers, thresholds], scale=0.2)
    with torch.no_grad():
        assert not compiled(flowers, thresholds, scale=0.2)[0].requires_grad


@pytest.mark.graphs
@pytest.mark.rotating(7, group="graphs")
def test_a_loop_makes_all_its_iterations():
    compiled = halved.compiled(backend="eager")
    x = numbers(4)
    same(compiled, halved, [x], below=0.3, scale=0.1, max_iterations=3, tolerance=0)
    with pytest.raises(RuntimeError, match="max_iterations"):
        compiled(x, 0.3, scale=0.1)


@pytest.mark.graphs
def test_a_trace_is_seen_by_its_own_thread_alone():
    """Nothing looks at values while it is made: what is not finite is refused elsewhere only."""
    here, elsewhere = [], []

    def look(seen):
        try:
            soft_sort(torch.tensor([1.0, torch.nan]))
            seen.append("traced")
        except ValueError:
            seen.append("checked")

    def cdf(z):
        look(here)
        thread = threading.Thread(target=look, args=[elsewhere])
        thread.start()
        thread.join()
        return z.sigmoid()

    compiled = halved.compiled(backend="eager")
    compiled(numbers(2), 0.3, dist=cdf, max_iterations=1)
    look(elsewhere)
    assert "traced" in here
    assert set(elsewhere) == {"checked"}


@pytest.mark.graphs
def test_what_cannot_be_compiled():
    compiled = programs.decision_tree.compiled(backend="eager")
    with pytest.raises(TypeError, match="hashed"):
        compiled(inputs_of("decision_tree")[0], {1, 2})
    with pytest.raises(ValueError, match="finite"):
        compiled(torch.full((2, 4), torch.nan), TREE)
