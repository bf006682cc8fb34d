"""Functions of users: they may work in place, and return whatever they like, to be told so."""

import itertools
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from gendr.relaxed.estimators import (
    ContrastiveLoss,
    FenchelYoungLoss,
    PerturbationGradientLoss,
    SolutionCache,
    SolutionRankingLoss,
    SPOPlusLoss,
    estimated,
    names,
    regret,
)
from support.cases import for_each

X = torch.tensor([[3.0, 1.0, 2.0, 5.0], [1.0, 4.0, 2.0, 2.5]])
C = torch.tensor([[1.0, 2.0, 3.0, 4.0], [4.0, 1.0, 2.0, 3.0]])
ROOM = np.empty(4, np.float32)


def pure(costs):
    return (costs.argsort().argsort() < 2).astype(costs.dtype)


def in_place(costs):
    costs -= costs.min() - 1e-3
    return pure(costs)


def one_room(costs):
    ROOM[:] = pure(costs)
    return ROOM


def with_objective(costs):
    found = pure(costs)
    return found.tolist(), found @ costs


W = torch.stack([torch.from_numpy(pure(row.numpy())) for row in C])
LOSSES = {
    "spo": lambda s, x, c, w: SPOPlusLoss(s, minimize=True)(x, c),
    "spo known": lambda s, x, c, w: SPOPlusLoss(s, minimize=True)(x, c, w),
    "regret": lambda s, x, c, w: regret(x, c, s, minimize=True),
    "perturbation gradient": lambda s, x, c, w: PerturbationGradientLoss(s, minimize=True)(x, c),
    "cache": lambda s, x, c, w: SPOPlusLoss(SolutionCache(s, minimize=True, refresh=1.0))(x, c),
    "contrastive": lambda s, x, c, w: ContrastiveLoss(s, minimize=True)(x, w),
    "fenchel young": lambda s, x, c, w: FenchelYoungLoss(s, minimize=True, seed=0)(x, w),
    **{
        name: lambda s, x, c, w, m=name: (estimated(s, m, minimize=True, seed=0)(x) * c).sum()
        for name in names()
    },
}


@for_each(name=LOSSES, solver=[in_place, one_room, with_objective])
def test_a_solver_may_work_in_place_and_return_its_objective(name, solver):
    def outcome(solver):
        x, c, w = X.clone().requires_grad_(), C.clone(), W.clone()
        value = LOSSES[name](solver, x, c, w)
        grad = torch.autograd.grad(value, x)[0] if value.requires_grad else torch.zeros(0)
        assert torch.equal(x.detach(), X)
        assert torch.equal(c, C)
        assert torch.equal(w, W)
        return value.detach(), grad

    for found, want in zip(outcome(solver), outcome(pure), strict=True):
        torch.testing.assert_close(found, want)


@for_each(
    "solver, error, said",
    [
        (lambda c: None, TypeError, "solver, must return an array of numbers .* nothing"),
        (lambda c: {"x": c}, TypeError, "a dict for input 0"),
        (lambda c: pure(c)[:2], ValueError, r"shape of its costs, got \[2\] for \[4\]"),
        (lambda c: None, TypeError, "infeasible problem return NaN in the shape"),
        (lambda c: c + np.inf, ValueError, "result for input 0; for an infeasible problem"),
    ],
    name=[name for name in LOSSES if name in ("spo", "regret", "fenchel young", "black_box")],
)
def test_what_a_solver_may_not_return(solver, error, said, name):
    with pytest.raises(error, match=said):
        LOSSES[name](solver, X.clone().requires_grad_(), C, W)


SAMPLED = ("fenchel young", "smoothing", "perturbed", "implicit_mle", "adaptive_implicit_mle")


@for_each(name=LOSSES, batched=[False, True], known=[True, False])
def test_an_infeasible_problem_is_nan_and_the_others_as_without_it(name, batched, known):
    """Its row is left out of the loss, and has no gradient; with noise, the others are finite."""

    def solver(costs):
        rows = costs if batched else costs[None]
        found = np.stack([pure(row) for row in rows])
        found[rows[:, 0] < -50, 1] = np.nan  # one number that is none is enough
        return found if batched else found[0]

    vars(solver)["batched"] = batched
    hopeless = torch.tensor([[-100.0, 1.0, 2.0, 3.0]])
    x, c = torch.cat([X[:1], hopeless, X[1:]]), torch.cat([C[:1], hopeless, C[1:]])
    w = torch.cat([W[:1], W[:1] * (1.0 if known else torch.nan), W[1:]])

    def outcome(x, c, w):
        leaf = x.clone().requires_grad_()
        if name in names():
            result = estimated(solver, name, minimize=True, seed=0)(leaf)
            value = (result * c).nansum()
        else:
            value = LOSSES[name](solver, leaf, c, w)
        if not value.requires_grad:
            return value, torch.zeros_like(x)
        return value.detach(), torch.autograd.grad(value, leaf)[0]

    if name == "contrastive" and known:
        return  # which takes the wanted solution as it is
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        value, grad = outcome(x, c, w)
    assert any("found no result for some inputs" in str(each.message) for each in said)
    assert value.isfinite()
    assert grad.isfinite().all()
    assert not grad[1].any()
    if name not in SAMPLED:
        want, slope = outcome(X, C, W)
        torch.testing.assert_close(value, want)
        torch.testing.assert_close(grad[[0, 2]], slope)


@pytest.mark.filterwarnings("ignore:the function, or solver, found no result")
def test_rows_without_a_solution_are_nan():
    nowhere = lambda c: c * np.nan  # noqa: E731
    x = X.clone().requires_grad_()
    for loss in (
        SPOPlusLoss(nowhere, minimize=True, reduction="none")(x, C, W * torch.nan),
        FenchelYoungLoss(nowhere, minimize=True, reduction="none")(x, W),
        ContrastiveLoss(nowhere, minimize=True, reduction="none")(x, W * torch.nan),
        PerturbationGradientLoss(nowhere, minimize=True, reduction="none")(x, C),
        SolutionRankingLoss(nowhere, minimize=True, reduction="none")(x, C),
        estimated(nowhere, "black_box", minimize=True)(x)[:, 0],
    ):
        assert loss.shape == (2,)
        assert loss.isnan().all()
        assert not torch.autograd.grad(loss.square().sum(), x)[0].any()
    assert regret(X, C, nowhere, minimize=True, reduction="none").isnan().all()
    assert regret(X, C, nowhere, minimize=True).isnan()
    assert SPOPlusLoss(nowhere, minimize=True, reduction="sum")(x, C).isnan()


@for_each(name=[name for name in LOSSES if name not in ("finite_differences", "smoothing")])
def test_no_problems_have_no_solutions(name):
    x = torch.zeros(0, 4, requires_grad=True)
    value = LOSSES[name](pure, x, torch.zeros(0, 4), torch.zeros(0, 4))
    assert value.shape == ()
    if value.requires_grad:
        assert torch.autograd.grad(value, x)[0].shape == (0, 4)


@for_each(name=LOSSES, dtype=[torch.bfloat16, torch.float16])
def test_half_precision_comes_back(name, dtype):
    x = X.to(dtype).requires_grad_()
    value = LOSSES[name](pure, x, C.to(dtype), W.to(dtype))
    assert value.dtype == dtype
    if value.requires_grad:
        assert torch.autograd.grad(value, x)[0].dtype == dtype


@pytest.mark.parametrize("package", ["scipy", "ortools"])
def test_solvers_that_the_page_shows(package):
    """Against all 32 choices; the code is that of docs/decisions.md."""
    pytest.importorskip(package, reason=f"{package} is not installed")
    page = Path(__file__).parents[2].joinpath("docs/decisions.md").read_text(encoding="utf-8")
    (code,) = (
        c for c in re.findall(r"```py(?:thon)?\n(.*?)```", page, re.S) if f"{package}_k" in c
    )
    space = {}
    exec(code, space)
    solver = space[f"{package}_knapsack"]
    choices = np.array([*itertools.product((0.0, 1.0), repeat=5)])
    choices = choices[(choices @ space["weights"].T <= space["capacity"]).all(1)]
    values = torch.randn(6, 5, dtype=torch.float64)
    soft = estimated(solver, "black_box", minimize=False, workers=2)
    best = torch.from_numpy(choices[(values.numpy() @ choices.T).argmax(1)])
    assert torch.equal(soft(values), best)
    soft.close()
    space["capacity"][:] = [-1.0]
    assert np.isnan(solver(values[0].numpy())).all()
