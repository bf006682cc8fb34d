"""Entropic transport: its marginals and optimality, derivatives, limits, weights of zero."""

import math

import pytest
import torch
from scipy.optimize import linear_sum_assignment
from torch.testing import assert_close

from gendr.transport import sinkhorn, sinkhorn_barycenter, sinkhorn_divergence
from support.graphs import assert_graph

D = torch.float64


def problem(n=6, m=4, batch=3, seed=0):
    g = torch.Generator().manual_seed(seed)
    a, b = torch.rand(batch, n, dtype=D, generator=g), torch.rand(batch, m, dtype=D, generator=g)
    costs = torch.rand(batch, n, m, dtype=D, generator=g)
    return costs, a / a.sum(-1, keepdim=True), b / b.sum(-1, keepdim=True)


def test_plans_have_their_sums_and_the_form_of_the_optimum():
    costs, a, b = problem()
    for epsilon in (1.0, 0.1, 0.02):
        found = sinkhorn(costs, a, b, epsilon, tolerance=1e-12)
        assert_close(found.plan.sum(-1), a)
        assert_close(found.plan.sum(-2), b)
        # The unique optimum is exp(u_i + v_j - C_ij / epsilon): what is left is of rank one.
        left = found.plan.log() + costs / epsilon
        left = left - left[..., :1, :] - left[..., :, :1] + left[..., :1, :1]
        assert left.abs().max() < 1e-8
        assert_close(found.cost, (found.plan * costs).sum((-2, -1)))
        outer = a[..., :, None] * b[..., None, :]
        divergence = (found.plan * (found.plan / outer).log()).sum((-2, -1))
        assert_close(found.value, found.cost + epsilon * divergence)


def test_derivatives():
    costs, a, b = problem(4, 3, 1)
    costs.requires_grad_()
    logits = a.log().requires_grad_()

    def plan(costs, logits):
        return sinkhorn(costs, logits.softmax(-1), b, 0.2, tolerance=1e-13)

    assert torch.autograd.gradcheck(plan, (costs, logits))
    assert torch.autograd.gradgradcheck(plan, (costs, logits), fast_mode=True)
    (slope,) = torch.autograd.grad(plan(costs, logits).value.sum(), costs)
    assert_close(slope, plan(costs, logits).plan.detach())  # Danskin's theorem
    one = torch.func.jacrev(lambda c: sinkhorn(c, a[0], b[0], 0.2, tolerance=1e-13).cost)
    (slope,) = torch.autograd.grad(sinkhorn(costs, a, b, 0.2, tolerance=1e-13).cost.sum(), costs)
    assert_close(one(costs[0].detach()), slope[0])
    many = problem()[0]
    mapped = torch.func.vmap(lambda c: sinkhorn(c, epsilon=0.2, iterations=200).cost)(many)
    assert_close(mapped, sinkhorn(many, epsilon=0.2, tolerance=1e-12).cost)


def test_transforms():
    """Gradients of a batch, each alone, and a Hessian, are those without transforms."""
    costs = problem()[0]
    options = {"epsilon": 0.5, "iterations": 100, "tolerance": 1e-13}
    value = lambda c: sinkhorn(c, **options).value  # noqa: E731
    slopes = torch.func.vmap(torch.func.grad(value))(costs)
    assert_close(slopes, sinkhorn(costs, **options).plan)
    one = costs[0, :3, :2].contiguous()
    found = torch.func.jacrev(torch.func.jacrev(value))(one)
    assert_close(found, torch.autograd.functional.hessian(value, one), rtol=1e-5, atol=1e-8)
    x, y = torch.rand(5, 2, dtype=D), torch.rand(4, 2, dtype=D)
    loss = lambda x: sinkhorn_divergence(x, y, **options)  # noqa: E731
    x.requires_grad_()
    assert_close(torch.func.grad(loss)(x.detach()), torch.autograd.grad(loss(x), x)[0])
    assert torch.autograd.gradcheck(loss, x, fast_mode=True)
    assert torch.autograd.gradgradcheck(loss, x, fast_mode=True)


def test_a_small_epsilon_is_the_exact_transport():
    """Of points on a line with convex costs: in their order. float32, far beyond its exponents."""
    x, y = torch.rand(40).sort().values, torch.rand(40).sort().values + 1
    costs = (x[:, None] - y).square()
    found = sinkhorn(costs, epsilon=1e-3, iterations=5000, tolerance=1e-4)
    assert_close(found.plan.sum(), torch.tensor(1.0))
    assert_close(found.cost, (x - y).square().mean(), rtol=2e-3, atol=0)
    never = torch.where(torch.eye(3) == 0, 1e20, 1.0)
    assert_close(sinkhorn(never, epsilon=1e-2).plan, torch.eye(3) / 3)


def test_tiny_epsilons_converge():
    """Beside the linear programme, which they exceed by at most epsilon log min(n, m)."""
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(40, 2, dtype=D, generator=g), torch.randn(40, 2, dtype=D, generator=g)
    clouds = torch.cdist(x, y).square()
    for costs in (clouds / clouds.max(), torch.rand(40, 40, dtype=D, generator=g)):
        rows, columns = linear_sum_assignment(costs)
        exact = costs[rows, columns].mean()
        for epsilon in (1e-4, 1e-5, 1e-6):
            found = sinkhorn(costs, epsilon=epsilon)  # with a warning unless it converges
            assert (found.plan.sum(-2) - 1 / 40).abs().max() < 2e-6
            assert (found.plan.sum(-1) - 1 / 40).abs().max() < 2e-6
            assert -1e-6 < found.cost - exact < epsilon * math.log(40) + 1e-6


def test_masses_of_a_batch_do_not_matter():
    costs, a, b = problem()
    masses = torch.tensor([[1e-6], [0.0], [1e3]], dtype=D)
    found = sinkhorn(costs, masses * a, masses * b, 0.01)
    assert_close(found.plan[1], torch.zeros_like(costs[1]))
    for k in (0, 2):
        alone = sinkhorn(costs[k], a[k], b[k], 0.01)
        assert_close(found.plan[k] / masses[k], alone.plan, rtol=0, atol=4e-6)


def test_weights_of_zero_take_no_part():
    costs, a, b = problem()
    a = a.clone()
    a[:, 1] = 0
    a = a / a.sum(-1, keepdim=True)
    costs.requires_grad_()
    found = sinkhorn(costs, a, b, 0.1, tolerance=1e-10)
    rest = [0, 2, 3, 4, 5]
    assert_close(
        found.plan[:, rest], sinkhorn(costs[:, rest], a[:, rest], b, 0.1).plan, rtol=1e-5, atol=1e-7
    )
    assert found.plan[:, 1].abs().max() == 0
    (slope,) = torch.autograd.grad(found.value.sum(), costs)
    assert slope.isfinite().all()


def test_half_precision_and_nan():
    costs = problem()[0].to(torch.bfloat16)
    for part in sinkhorn(costs, epsilon=0.5):
        assert part.dtype == torch.bfloat16
    assert sinkhorn_divergence(costs, costs).dtype == torch.bfloat16
    assert sinkhorn_barycenter(costs, problem()[1].to(torch.bfloat16)).dtype == torch.bfloat16
    a, b = (torch.full((n,), 1 / n, dtype=torch.bfloat16) for n in (6, 4))  # sums 0.3 % off
    sums = sinkhorn(costs.float(), a, b, 0.5).plan.sum(-2)
    assert_close(sums, b.float().expand(3, 4), rtol=4e-3, atol=0)
    with pytest.raises(ValueError, match="the same sum"):
        sinkhorn(costs.float(), a.float() + 1e-5, b.float(), 0.5)
    lost = sinkhorn(costs.float() * torch.nan, epsilon=0.5, check=False)
    assert lost.cost.isnan().all()


def test_the_divergence_of_clouds():
    g = torch.Generator().manual_seed(0)
    x, y = torch.rand(2, 10, 2, dtype=D, generator=g), torch.rand(2, 7, 2, dtype=D, generator=g)
    assert_close(sinkhorn_divergence(x, x.flip(1)), torch.zeros(2, dtype=D), rtol=0, atol=1e-6)
    assert (sinkhorn_divergence(x, y) > 1e-3).all()
    moved = sinkhorn_divergence(x, x + 3)
    assert_close(moved, torch.full((2,), 18.0, dtype=D), rtol=1e-4, atol=0)  # of a shift: exact


def test_barycentres_are_where_nothing_is_cheaper():
    """By values of `sinkhorn`, whose entropy is relative to a and p, which is taken back here."""
    for epsilon in (0.5, 0.05, 0.02):
        costs, a, _ = problem(6, 4)
        shares = torch.tensor([0.2, 0.5, 0.3], dtype=D)
        found = sinkhorn_barycenter(costs, a, shares, epsilon, tolerance=1e-10)
        logits = found.log().requires_grad_()
        p = logits.softmax(-1).expand(3, -1)
        values = sinkhorn(costs, a, p, epsilon, tolerance=1e-10).value
        total = (shares * (values + epsilon * (p * p.log()).sum(-1))).sum()
        assert torch.autograd.grad(total, logits)[0].abs().max() < 1e-7
        one = sinkhorn_barycenter(costs, a, torch.tensor([0.0, 1.0, 0.0], dtype=D), epsilon)
        blurred = (a[1, :, None] * (-costs[1] / epsilon).softmax(-1)).sum(0)
        assert_close(one, blurred, rtol=0, atol=2e-6)


def test_derivatives_of_barycentres():
    costs, a, _ = problem(4, 3, 2)
    shares = torch.tensor([0.2, -0.4], dtype=D)
    leaves = costs.requires_grad_(), a.log().requires_grad_(), shares.requires_grad_()

    def found(costs, a, shares, **more):
        a, shares = a.softmax(-1), shares.softmax(-1)
        return sinkhorn_barycenter(costs, a, shares, 0.2, tolerance=1e-13, **more)

    assert torch.autograd.gradcheck(found, leaves)
    assert torch.autograd.gradgradcheck(found, leaves, fast_mode=True)
    plain = [x.detach() for x in leaves]
    traced = torch.func.jacrev(lambda *x: found(*x, iterations=200), (0, 1, 2))(*plain)
    assert_close(traced, torch.autograd.functional.jacobian(found, tuple(plain)))
    batch, masses = torch.stack([costs, costs.flip(-1)]).float(), torch.tensor([1e3, 1e-3])
    together = sinkhorn_barycenter(batch, masses[:, None, None] * a.float())
    assert_close(together[1] / 1e-3, sinkhorn_barycenter(batch[1], a.float()))


REFUSED = [
    (lambda c, a, b: sinkhorn(c, a, 2 * b), "same sum"),
    (lambda c, a, b: sinkhorn(c, -a, b), "a must be >= 0"),
    (lambda c, a, b: sinkhorn(c, b, a), r"a must be \[..., 6\]"),
    (lambda c, a, b: sinkhorn(c, epsilon=0.0), "epsilon"),
    (lambda c, a, b: sinkhorn(c, tolerance=-1.0), "tolerance must be >= 0"),
    (lambda c, a, b: sinkhorn(c[..., :0]), "n, m >= 1"),
    (lambda c, a, b: sinkhorn(c * torch.nan), "costs"),
    (lambda c, a, b: sinkhorn_barycenter(c, a * (1 + torch.arange(3)[:, None])), "one sum"),
    (lambda c, a, b: sinkhorn_barycenter(c, a, -torch.ones(3, dtype=D)), "weights must be >= 0"),
    (lambda c, a, b: sinkhorn_barycenter(c, a[0]), "must be"),
    (lambda c, a, b: sinkhorn_barycenter(c, 0 * a), "above 0"),
    (lambda c, a, b: sinkhorn_barycenter(c, a, torch.zeros(3, dtype=D)), "must not all be 0"),
]


def test_bad_input_is_refused_and_what_is_not_reached_is_said():
    for call, said in REFUSED:
        with pytest.raises(ValueError, match=said):
            call(*problem())
    with pytest.warns(RuntimeWarning, match="raise iterations, tolerance or epsilon"):
        sinkhorn(*problem(30, 30), epsilon=1e-3, iterations=1, tolerance=1e-9)
    with pytest.warns(RuntimeWarning, match="sinkhorn_barycenter stopped after 1 sweeps"):
        sinkhorn_barycenter(*problem(30, 30)[:2], epsilon=1e-3, iterations=1, tolerance=1e-9)
    assert sinkhorn(torch.rand(0, 3, 2)).plan.shape == (0, 3, 2)


@pytest.mark.rotating(7, group="graphs")
@pytest.mark.graphs
@pytest.mark.filterwarnings("ignore")  # of the compiler itself
def test_graphs_break_at_the_search():
    """Of sweeps alone, as exported graphs have them, 60 do not do for so small an epsilon."""
    costs = torch.rand(3, 6, 5, dtype=torch.float64, requires_grad=True)
    for solve in (
        lambda c: sinkhorn(c, epsilon=0.02, iterations=60).plan,
        lambda c: sinkhorn_barycenter(c[:2], c.new_ones(2, 6), epsilon=0.1),
    ):
        assert_graph(solve, costs, backend="aot_eager")
