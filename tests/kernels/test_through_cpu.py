"""What takes float64, for tensors on a device that has none: Apple's mps, here pretended."""

import warnings

import pytest
import torch
from torch import Tensor

from gendr import distributions, primitives, sorting, topk, transport
from gendr.kernels import through_cpu
from gendr.optim.curvature import damped_solve, fisher_solve
from support.cases import for_each

MPS = torch.device("mps")
_to = Tensor.to


class OnMps(Tensor):
    """A tensor of the CPU that says it is elsewhere and has no float64."""

    device = property(lambda self: MPS)  # pyright: ignore[reportAssignmentType]

    def double(self):
        raise TypeError("mps has no float64")


def to(self, where, *others):
    if where == MPS:
        others = [x for x in others if isinstance(x, torch.dtype)]
        if self.dtype == torch.float64 and not others:
            raise TypeError("mps has no float64")
        self = self.as_subclass(OnMps)
    elif where == "cpu":
        self = self.as_subclass(Tensor)
    else:
        others = where, *others
    if torch.float64 in others and isinstance(self, OnMps):
        raise TypeError("mps has no float64")
    return _to(self, *others) if others else self


def loss():
    return topk.TopKCrossEntropy([0.5, 0.5], m=4, weight=torch.ones(4), reduction="none")


CASES = {
    "sinkhorn": lambda x: torch.stack(transport.sinkhorn(x, epsilon=0.5)[1:]),
    "barycenter": lambda x: transport.sinkhorn_barycenter(x, x[:, :3].softmax(1), epsilon=0.5),
    "sort": lambda x: sorting.soft_sort(x, "sinkhorn"),
    "loss": lambda x: loss().to(x.device)(x, torch.tensor([3, 0, 1]).to(x.device)),
    "mask": lambda x: topk.soft_topk_mask(x, 2, "gaussian"),
    "law": lambda x: distributions.get("gamma", shape=2.0)(x, 0.5),
    "quantile": lambda x: distributions.get("student_t", shape=2.5).icdf(x),
    "texture": lambda x: primitives.texture(
        x[None, ..., None], x[None, :, None, :2], filter_mode="linear"
    ),
    "hessian": lambda x: damped_solve(x.mT @ x, x, 0.1),
    "fisher": lambda x: fisher_solve(x, 0.1),
}


@pytest.fixture(autouse=True)
def copies(monkeypatch):
    monkeypatch.setattr(Tensor, "to", to)
    monkeypatch.setattr(Tensor, "cpu", lambda self: self.as_subclass(Tensor))


@for_each(name=CASES)
def test_on_mps_it_is_computed_on_the_cpu(name):
    x = torch.rand(3, 4, generator=torch.Generator().manual_seed(0)) * 0.9 + 0.05
    found = []
    for given in (x.clone(), x.clone().as_subclass(OnMps)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # says so, once
            y = CASES[name](given.requires_grad_())
        assert y.device == given.device
        (slope,) = torch.autograd.grad((y * torch.arange(y.numel()).view(y.shape)).sum(), given)
        found.append((y.detach().as_subclass(Tensor), slope.as_subclass(Tensor)))
    torch.testing.assert_close(*found)


def test_it_says_so(monkeypatch):
    monkeypatch.setattr(through_cpu, "_warned", set())
    with pytest.warns(RuntimeWarning, match="fisher_solve takes float64, which mps has not: it is"):
        fisher_solve(torch.zeros(2, 2).as_subclass(OnMps), 0.1)
