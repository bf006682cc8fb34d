"""Losses around solvers: closed forms, enumerated feasible sets, linear programmes, directions."""

import itertools
import pickle

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

from gendr.relaxed.estimators import (
    BlackBox,
    ContrastiveLoss,
    FenchelYoungLoss,
    ImplicitMLE,
    PerturbationGradientLoss,
    SolutionCache,
    SolutionRankingLoss,
    SPOPlusLoss,
    StraightThrough,
    estimated,
    knn_costs,
    names,
    regret,
)
from support.cases import for_each
from support.graphs import assert_graph

# Three of five things.
SUBSETS = np.array([w for w in itertools.product((0.0, 1.0), repeat=5) if sum(w) == 3])

LOSSES = (
    SPOPlusLoss, FenchelYoungLoss, ContrastiveLoss, SolutionRankingLoss, PerturbationGradientLoss
)  # fmt: skip


class Enumerated:
    """The best of a few solutions; of equal ones the first."""

    batched = True

    def __init__(self, minimize, solutions=SUBSETS):
        self.minimize, self.solutions, self.calls = minimize, solutions, 0
        self._minimizes = minimize

    def __call__(self, costs):
        self.calls += 1
        scores = costs @ self.solutions.T
        best = scores.argmin(1) if self._minimizes else scores.argmax(1)
        return self.solutions[best].astype(costs.dtype)


def problems(solver, count=6):
    """Predictions, true costs, and their solutions."""
    x = torch.randn(count, solver.solutions.shape[1], dtype=torch.float64).requires_grad_()
    costs = torch.randn(x.shape, dtype=torch.float64)
    return x, costs, torch.from_numpy(solver(costs.numpy()))


def slopes(function, x, step=1e-6):
    """Differences of a function [N] of inputs [N, D], each of its own row."""
    columns = []
    for move in step * torch.eye(x.shape[1], dtype=x.dtype):
        columns.append((function(x + move) - function(x - move)) / (2 * step))
    return torch.stack(columns, 1)


# -- SPO+


def test_spo_plus_of_a_linear_programme():
    """The value and subgradient of definition 3, each inner problem by `linprog`."""
    random = np.random.default_rng(0)
    limits = random.uniform(1, 2, 4)
    weights = random.uniform(0.1, 1, (4, 3))

    def solver(costs):
        return linprog(costs, A_ub=weights, b_ub=limits, bounds=(0, 2)).x

    x, costs = (torch.from_numpy(random.normal(size=(5, 3))) for _ in range(2))
    loss = SPOPlusLoss(solver, minimize=True, reduction="none")
    leaf = x.clone().requires_grad_()
    value = loss(leaf, costs)
    (grad,) = torch.autograd.grad(value.sum(), leaf)
    assert loss.report.evaluations == 10
    for i, (guess, true) in enumerate(zip(x.numpy(), costs.numpy(), strict=True)):
        best = solver(true)
        # max over w of <c - 2x, w>, plus 2 <x, w*>, less the best objective.
        inner = linprog(2 * guess - true, A_ub=weights, b_ub=limits, bounds=(0, 2))
        assert value[i].item() == pytest.approx(-inner.fun + 2 * guess @ best - true @ best)
        np.testing.assert_allclose(grad[i], 2 * (best - inner.x), atol=1e-9)


@for_each(minimize=[True, False])
def test_spo_plus_is_convex_above_the_regret_and_0_at_the_truth(minimize):
    solver = Enumerated(minimize)
    x, costs, wanted = problems(solver, 40)
    loss = SPOPlusLoss(solver, reduction="none")
    value = loss(x, costs, wanted)
    lost = regret(x, costs, solver, wanted=wanted, reduction="none")
    assert (lost >= 0).all()
    assert (lost > 0).any()
    assert (value >= lost - 1e-12).all()
    assert loss(costs, costs, wanted).abs().max() < 1e-12
    (grad,) = torch.autograd.grad(value.sum(), x)
    torch.testing.assert_close(grad, slopes(lambda y: loss(y, costs, wanted), x.detach()))
    other = torch.randn_like(x)
    half = loss((x + other) / 2, costs, wanted)
    assert (half <= (value + loss(other, costs, wanted)) / 2 + 1e-12).all()


@for_each(minimize=[True, False], two_sided=[False, True])
def test_the_perturbation_gradient_is_a_difference_of_best_objectives(minimize, two_sided):
    """Objectives by enumeration; in the limit, what the decision costs."""
    solver = Enumerated(minimize)
    x, costs, _ = problems(solver, 40)
    loss = PerturbationGradientLoss(solver, step=0.3, two_sided=two_sided, reduction="none")

    def best(values):
        scores = values @ torch.from_numpy(SUBSETS).T
        return scores.amin(1) if minimize else -scores.amax(1)

    value = loss(x, costs)
    ahead = best(x + 0.3 * costs) if two_sided else best(x)
    expected = (ahead - best(x - 0.3 * costs)) / (0.6 if two_sided else 0.3)
    torch.testing.assert_close(value, expected)
    (grad,) = torch.autograd.grad(value.sum(), x)
    assert grad.any()
    torch.testing.assert_close(grad, slopes(lambda y: loss(y, costs), x.detach()))
    near = PerturbationGradientLoss(solver, step=1e-9, two_sided=two_sided, reduction="none")
    sign = 1.0 if minimize else -1.0
    decided = torch.from_numpy(solver(x.detach().numpy()))
    torch.testing.assert_close(
        near(x, costs).detach(), sign * (costs * decided).sum(1), rtol=1e-4, atol=1e-5
    )


@for_each(minimize=[True, False])
def test_every_loss_has_the_gradient_of_its_value(minimize):
    """By differences, where no solution changes; noise is the same in every call."""
    solver = Enumerated(minimize)
    x, costs, wanted = problems(solver)
    cache = SolutionCache(solver, refresh=0.0)
    cache.add(torch.from_numpy(SUBSETS))
    for make, given in (
        (lambda: SPOPlusLoss(solver), (costs, wanted)),
        (lambda: PerturbationGradientLoss(solver, step=0.3), (costs,)),
        (lambda: PerturbationGradientLoss(solver, step=0.3, two_sided=True), (costs,)),
        (lambda: FenchelYoungLoss(solver, samples=9, scale=0.4, seed=1), (wanted,)),
        (lambda: ContrastiveLoss(cache), (wanted,)),
        (lambda: ContrastiveLoss(cache, hardest=True), (wanted,)),
        *((lambda o=o: SolutionRankingLoss(cache, order=o), (costs,))
          for o in ("listwise", "pairwise", "pointwise")),
    ):  # fmt: skip
        assert torch.autograd.gradcheck(lambda x, m=make, g=given: m()(x, *g), x)
    features = torch.randn(6, 3, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda c: knn_costs(features, c, 2), costs.requires_grad_())


def test_costs_of_neighbours_against_a_search():
    """By sorting distances one by one; PyEPO's data set has the mean of these costs."""
    features = torch.randn(1100, 3, dtype=torch.float64)
    features[5] = features[7]  # which does not make an instance its own neighbour
    costs = torch.randn(1100, 2, 2, dtype=torch.float64)
    found = knn_costs(features, costs, 4, 0.25)
    assert found.shape == (1100, 4, 2, 2)
    for i in (0, 5, 7, 1024, 1099):
        apart = (features - features[i]).square().sum(1).tolist()
        order = sorted((d, j) for j, d in enumerate(apart) if j != i)[:4]
        near = costs[[j for _, j in order]]
        torch.testing.assert_close(found[i], 0.25 * costs[i] + 0.75 * near)
    assert torch.equal(knn_costs(features, costs, 1, 1.0)[:, 0], costs)
    assert knn_costs(features.bfloat16(), costs.bfloat16(), 1).dtype == torch.bfloat16
    for call, said in (
        (lambda: knn_costs(features, costs, 1100), "less than the 1100 instances"),
        (lambda: knn_costs(features, costs, 2, 1.5), "weight"),
        (lambda: knn_costs(features[:3], costs), "same instances"),
        (lambda: knn_costs(features * torch.nan, costs), "features must be finite"),
    ):
        with pytest.raises(ValueError, match=said):
            call()


def test_reductions():
    solver = Enumerated(True)
    x, costs, wanted = problems(solver)
    for make, inputs in (
        (lambda r: SPOPlusLoss(solver, reduction=r), (costs, wanted)),
        (lambda r: FenchelYoungLoss(solver, samples=3, seed=0, reduction=r), (wanted,)),
        (lambda r: ContrastiveLoss(solver, reduction=r), (wanted,)),
        (lambda r: SolutionRankingLoss(solver, reduction=r), (costs,)),
    ):
        values, mean, total = (make(r)(x, *inputs) for r in ("none", "mean", "sum"))
        assert values.shape == (6,)
        torch.testing.assert_close(values.mean(), mean)
        torch.testing.assert_close(values.sum(), total)
        (grad,) = torch.autograd.grad(mean, x)
        torch.testing.assert_close(6 * grad, torch.autograd.grad(total, x)[0])
        with pytest.raises(ValueError, match="reduction"):
            make("median")


@pytest.mark.graphs
def test_losses_of_caches_break_the_graph():
    solver = Enumerated(True)
    x, costs, wanted = problems(solver)
    for loss, inputs in (
        (ContrastiveLoss(solver), (wanted,)), (SolutionRankingLoss(solver), (costs, wanted)),
    ):  # fmt: skip
        assert_graph(loss, (x, *inputs), backend="eager")


# -- noise


@for_each(minimize=[True, False], two_sided=[False, True])
def test_implicit_mle_with_gumbel_noise_is_a_difference_of_softmaxes(minimize, two_sided, seed):
    sign = -1.0 if minimize else 1.0
    solver = Enumerated(minimize, np.eye(4))
    x, g = problems(solver)[:2]
    strength = 1.5
    soft = estimated(
        solver, "implicit_mle", samples=4000, step=strength, two_sided=two_sided, seed=seed
    )
    result = soft(x)
    values = sign * x.detach()
    torch.testing.assert_close(result, values.softmax(1), rtol=0, atol=0.05)
    (grad,) = torch.autograd.grad(result, x, g)
    above = (values + strength * g).softmax(1) if two_sided else values.softmax(1)
    below, width = (values - strength * g).softmax(1), strength * (1 + two_sided)
    deviation = soft.report.variance.sqrt() + 1e-4
    assert ((grad - sign * (above - below) / width).abs() < 5 * deviation).all()


@for_each(minimize=[True, False])
def test_without_noise_implicit_mle_is_black_box_differentiation(minimize):
    solver = Enumerated(minimize)
    x, g = problems(solver)[:2]
    found = []
    for method in (BlackBox(3.0, minimize=minimize),
                   ImplicitMLE(1, 0.0, step=3.0, minimize=minimize)):  # fmt: skip
        found.append(torch.autograd.grad(estimated(solver, method)(x), x, g)[0])
    assert found[0].any()
    torch.testing.assert_close(*found)


def test_the_adaptive_strength_grows_until_solutions_move():
    solver = Enumerated(True)
    x, g = problems(solver)[:2]
    soft = estimated(solver, "adaptive_implicit_mle", scale=0.0, start=1e-3, rate=0.05, seed=0)
    state, numbers, strengths = soft.estimator.state, [], []
    for _ in range(120):
        (grad,) = torch.autograd.grad(soft(x), x, g)
        numbers.append(float((grad != 0).sum()) / len(x))
        strengths.append(state["adapted"])
    assert numbers[0] == 0
    assert strengths[5] > strengths[0]
    # About the target of one number of each gradient, of the five.
    assert 0.5 < np.mean(numbers[40:]) < 1.5
    assert not torch.autograd.grad(soft(x), x, torch.zeros_like(g))[0].any()


# -- the identity


def test_projections_take_out_what_does_not_change_the_solution():
    x, g = torch.randn(4, 5, dtype=torch.float64).requires_grad_(), torch.randn(4, 5).double()
    seen = []

    def solver(costs):
        seen.append(costs)
        return Enumerated(True)(costs)

    for projection in ("mean", "norm", "standard"):
        soft = estimated(
            solver, "straight_through", projection=projection, minimize=True, batched=True
        )
        result = soft(x)
        costs = x.detach() - x.detach().mean(1, keepdim=True) * (projection != "norm")
        if projection != "mean":
            costs = costs / costs.norm(dim=1, keepdim=True)
        np.testing.assert_allclose(seen[-1], costs)
        assert torch.equal(result, torch.from_numpy(Enumerated(True)(x.detach().numpy())))
        (grad,) = torch.autograd.grad(result, x, g)
        # No step along what was taken out.
        if projection != "norm":
            assert grad.sum(1).abs().max() < 1e-12
        if projection != "mean":
            assert (grad * costs).sum(1).abs().max() < 1e-12
    constant = torch.ones(2, 5, requires_grad=True)
    assert torch.isfinite(torch.autograd.grad(soft(constant).sum(), constant)[0]).all()


# -- caches


def scores_of(x, solutions):
    return [[float(sum(a * b for a, b in zip(row, w, strict=True))) for w in solutions]
            for row in x.detach().tolist()]  # fmt: skip


@for_each(minimize=[True, False])
def test_losses_over_all_solutions_by_enumeration(minimize):
    solver = Enumerated(minimize)
    x, costs, wanted = problems(solver)
    cache = SolutionCache(solver, refresh=0.0)
    cache.add(SUBSETS)
    sign = 1.0 if minimize else -1.0
    found, true = scores_of(sign * x, SUBSETS), scores_of(sign * costs, SUBSETS)
    best = (sign * x.detach() * wanted).sum(1).tolist()
    expected = {"noise": [], "map": [], "pointwise": [], "pairwise": [], "listwise": []}
    for f, t, b in zip(found, true, best, strict=True):
        expected["noise"].append(sum(b - v for v in f) / 10)
        expected["map"].append(b - min(f))
        expected["pointwise"].append(sum((v - u) ** 2 for v, u in zip(f, t, strict=True)) / 10)
        ahead = f[t.index(min(t))]
        expected["pairwise"].append(
            sum(max(0, 0.2 + ahead - v) for j, v in enumerate(f) if j != t.index(min(t))) / 9
        )
        likely = np.exp(-np.array(t) / 2) / np.exp(-np.array(t) / 2).sum()
        logs = -np.array(f) / 2 - np.log(np.exp(-np.array(f) / 2).sum())
        expected["listwise"].append(-(likely * logs).sum())
    for name, values in expected.items():
        if name in ("noise", "map"):
            loss = ContrastiveLoss(cache, hardest=name == "map", reduction="none")
            result = loss(x, wanted)
        else:
            loss = SolutionRankingLoss(cache, order=name, scale=2.0, margin=0.2, reduction="none")
            result = loss(x, costs)
        np.testing.assert_allclose(result.detach(), values, rtol=1e-10, err_msg=name)
        assert torch.autograd.grad(result.sum(), x)[0].any()
    assert solver.calls == 1  # for `wanted`


def test_a_cache_learns_and_stands_for_the_solver():
    solver = Enumerated(True)
    x = torch.randn(300, 5, dtype=torch.float64).numpy()
    cache = SolutionCache(solver, refresh=0.0, batched=True)
    assert cache.minimize
    np.testing.assert_array_equal(cache(x), solver(x))  # the first call solves
    assert len(cache) == len(SUBSETS)
    assert cache.solved == 300
    np.testing.assert_array_equal(cache(-x), solver(-x))  # it has seen all solutions
    assert cache.solved == 300
    few = SolutionCache(solver, refresh=0.0, batched=True, limit=3)
    few(x)
    assert len(few) == 3
    assert (few(x)[:, None] == few.solutions).all(2).any(1).all()
    assert SolutionCache(solver, refresh=1.0, batched=True)(x).shape == x.shape
    with pytest.raises(ValueError, match="no solution is known"):
        _ = SolutionCache(solver).solutions
    with pytest.raises(ValueError, match="probability"):
        SolutionCache(solver, refresh=2.0)
    with pytest.raises(ValueError, match="shape of its costs"):
        SolutionCache(lambda c: c[:2], minimize=True)(x)
    y, costs, wanted = (torch.from_numpy(a) for a in (x[:6], x[6:12], solver(x[6:12])))
    exact = SPOPlusLoss(solver)(y, costs, wanted)
    torch.testing.assert_close(SPOPlusLoss(cache)(y, costs, wanted), exact)
    assert torch.equal(estimated(cache, "black_box")(y), torch.from_numpy(solver(y.numpy())))


# -- directions


DIRECTED = {"black_box", "straight_through", "implicit_mle", "adaptive_implicit_mle"}


def test_every_method_takes_a_direction_and_some_ask_for_it():
    solver = Enumerated(True)
    x = torch.randn(3, 5, requires_grad=True)

    def plain(costs):  # says nothing itself
        return solver(costs)

    for name in names():
        soft = estimated(plain, name, minimize=True, batched=True)
        soft(x).sum().backward()
        assert estimated(solver, name).estimator.minimize is True
        if name in DIRECTED:
            with pytest.raises(ValueError, match=r"minimises or maximises.*minimize=True"):
                estimated(plain, name)
        else:
            estimated(plain, name)
        with pytest.raises(ValueError, match="the solver says minimize=True"):
            estimated(solver, name, minimize=False)
    for kind in LOSSES:
        with pytest.raises(ValueError, match="minimises or maximises"):
            kind(plain)
        with pytest.raises(ValueError, match="the solver says"):
            kind(solver, minimize=False)
        with pytest.raises(TypeError, match="True or False"):
            kind(plain, minimize="yes")


@for_each(minimize=[True, False], rotating=2)
def test_every_method_trains_downhill_around_either_kind_of_solver(minimize):
    """A step of a constant prediction lowers its regret, or comes as near as the method can."""
    solver = Enumerated(minimize)
    costs = torch.tensor([[1.0, -0.3, 0.8, -1.0, 0.2]], dtype=torch.float64)
    wanted = torch.from_numpy(solver(costs.numpy()))
    sign = 1.0 if minimize else -1.0

    def trained(loss):
        x = (-0.3 * costs).repeat(8, 1).requires_grad_()  # the worst prediction to begin with
        optimizer = torch.optim.SGD([x], 0.3)
        for _ in range(60):
            optimizer.zero_grad()
            loss(x).backward()
            optimizer.step()
        return regret(x.detach(), costs.expand(8, 5), solver)

    start = regret(-costs, costs, solver)
    assert start > 1
    many, best = costs.expand(8, 5), wanted.expand(8, 5)
    for name in names():
        options = {"step": 0.4} if name == "finite_differences" else {}
        if "smoothing" in name or name == "perturbed":
            options = {"samples": 30}
        soft = estimated(solver, name, seed=0, **options)
        end = trained(lambda x, soft=soft: sign * (soft(x) * many).sum())
        assert end < 0.5 * start, name
    for loss, given in (
        (SPOPlusLoss(solver, reduction="sum"), (many, best)),
        (FenchelYoungLoss(solver, reduction="sum", seed=0), (best,)),
        (PerturbationGradientLoss(solver, reduction="sum", step=0.5, two_sided=True), (many,)),
        (ContrastiveLoss(solver, reduction="sum", refresh=1.0), (best,)),
        (ContrastiveLoss(solver, reduction="sum", refresh=1.0, hardest=True), (best,)),
        (SolutionRankingLoss(solver, reduction="sum", refresh=1.0), (many, best)),
    ):
        end = trained(lambda x, loss=loss, given=given: loss(x, *given))
        assert end < 0.5 * start, type(loss).__name__


@for_each(minimize=[True, False])
def test_a_wrong_direction_is_no_silence(minimize):
    """Said the wrong way round, a training went uphill without a word."""
    solver, said = Enumerated(minimize), not minimize
    x, costs, wanted = problems(solver)

    wrong = Enumerated(minimize)
    wrong.minimize = said  # what it does stays
    for make in (
        lambda: SPOPlusLoss(wrong)(x, costs, wanted),
        lambda: PerturbationGradientLoss(wrong)(x, costs),
        lambda: regret(x, costs, wrong),
        lambda: FenchelYoungLoss(wrong)(x, wanted),
        lambda: ContrastiveLoss(wrong)(x, wanted),
        lambda: ContrastiveLoss(SolutionCache(wrong, batched=True, refresh=1.0))(x, wanted),
        lambda: SolutionRankingLoss(SolutionCache(wrong, batched=True))(x, costs),
        lambda: estimated(wrong, StraightThrough(minimize=said))(x),
        lambda: estimated(wrong, "black_box")(x).backward(costs),
        lambda: estimated(wrong, "implicit_mle")(x).backward(costs),
        lambda: estimated(wrong, "adaptive_implicit_mle")(x).backward(costs),
    ):
        with pytest.raises(ValueError, match=rf"no solver with minimize={said}"):
            make()


def test_regret_by_enumeration():
    for minimize in (True, False):
        solver = Enumerated(minimize)
        x, costs, _ = problems(solver)
        lost, best = [], []
        for guess, true in zip(x.detach().numpy(), costs.numpy(), strict=True):
            scores = SUBSETS @ true
            pick = (SUBSETS @ guess).argmin() if minimize else (SUBSETS @ guess).argmax()
            best.append(scores.min() if minimize else scores.max())
            lost.append(abs(scores[pick] - best[-1]))
        values = regret(x, costs, solver, reduction="none")
        np.testing.assert_allclose(values, lost, atol=1e-12)
        assert regret(x, costs, solver).item() == pytest.approx(sum(lost) / np.abs(best).sum())
        assert regret(x, costs, solver, reduction="sum").item() == pytest.approx(sum(lost))


def test_bad_input():
    solver = Enumerated(True)
    x, costs, wanted = problems(solver)
    loss = SPOPlusLoss(solver)
    cache = SolutionCache(solver)
    for call, kind, said in [
        (lambda: loss(x, costs[:2], wanted), ValueError, "predicted and costs must have the same"),
        (lambda: loss(x, costs, wanted[:, :2]), ValueError, "predicted and wanted"),
        (lambda: loss(x * torch.nan, costs), ValueError, "predicted must be finite"),
        (lambda: loss(x.long(), costs), TypeError, "predicted"),
        (lambda: loss(x[0], costs[0]), ValueError, r"\[N, \*event\]"),
        (lambda: SPOPlusLoss(lambda c: c[:2], minimize=True)(x, costs), ValueError, "its costs"),
        (lambda: SolutionRankingLoss(solver, order="best"), ValueError, "listwise"),
        (lambda: SolutionRankingLoss(solver, scale=0.0), ValueError, "scale"),
        *(
            (lambda k=k: k(cache, workers=1), TypeError, "settings already, got workers")
            for k in LOSSES
        ),
        *(
            (lambda k=k: k(solver, workres=2), TypeError, f"{k.__name__} has no .*batched.*workers")
            for k in (*LOSSES, SolutionCache)
        ),
        (lambda: FenchelYoungLoss(solver, workres=2), TypeError, "dist, .*samples, scale, "),
        (lambda: ContrastiveLoss(solver, reload=1.0), TypeError, "hardest, limit, .*refresh"),
        (lambda: ContrastiveLoss(solver, maximize=True), TypeError, "minimize = not maximize"),
        (lambda: ImplicitMLE(0, minimize=True), ValueError, "samples"),
        (lambda: StraightThrough(minimize=True, projection="sum"), ValueError, "standard"),
        (lambda: regret(x, costs, solver, reduction="max"), ValueError, "normalized"),
    ]:
        with pytest.raises(kind, match=said):
            call()


def test_losses_are_pickled():
    for loss in (SPOPlusLoss(Enumerated(True)), SolutionRankingLoss(Enumerated(False))):
        copy = pickle.loads(pickle.dumps(loss))
        assert copy.minimize == loss.minimize
        assert copy.reduction == "mean"
