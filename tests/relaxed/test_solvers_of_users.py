"""Functions of users: they may work in place, and return whatever they like, to be told so."""

import numpy as np
import pytest
import torch

from gendr.relaxed.estimators import (
    ContrastiveLoss,
    FenchelYoungLoss,
    SolutionCache,
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


W = torch.stack([torch.from_numpy(pure(row.numpy())) for row in C])
LOSSES = {
    "spo": lambda s, x, c, w: SPOPlusLoss(s, minimize=True)(x, c),
    "spo known": lambda s, x, c, w: SPOPlusLoss(s, minimize=True)(x, c, w),
    "regret": lambda s, x, c, w: regret(x, c, s, minimize=True),
    "cache": lambda s, x, c, w: SPOPlusLoss(SolutionCache(s, minimize=True, refresh=1.0))(x, c),
    "contrastive": lambda s, x, c, w: ContrastiveLoss(s, minimize=True)(x, w),
    "fenchel young": lambda s, x, c, w: FenchelYoungLoss(s, minimize=True, seed=0)(x, w),
    **{
        name: lambda s, x, c, w, m=name: (estimated(s, m, minimize=True, seed=0)(x) * c).sum()
        for name in names()
    },
}


@for_each(name=LOSSES, solver=[in_place, one_room])
def test_a_solver_may_work_in_place(name, solver):
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
        (lambda c: (pure(c), 1.0), TypeError, "tuple of 2 parts for input 0; of .solution, obj"),
        (lambda c: None, TypeError, "solver, must return an array of numbers .* nothing"),
        (lambda c: {"x": c}, TypeError, "a dict for input 0"),
        (lambda c: pure(c)[:2], ValueError, r"shape of its costs, got \[2\] for \[4\]"),
        (lambda c: c * np.nan, ValueError, "result for input 0; is its problem infeasible"),
    ],
    name=[name for name in LOSSES if name in ("spo", "regret", "fenchel young", "black_box")],
)
def test_what_a_solver_may_not_return(solver, error, said, name):
    with pytest.raises(error, match=said):
        LOSSES[name](solver, X.clone().requires_grad_(), C, W)


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
