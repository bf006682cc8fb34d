"""What takes float64, for tensors on a device that has none: Apple's mps, here pretended."""

import warnings

import pytest
import torch
from torch import Tensor

from gendr import distributions, optim, primitives, sorting, topk, transport

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
    "hessian": lambda x: optim.NewtonLoss(lambda y: y.prod(-1), "hessian")(x),
    "fisher": lambda x: optim.NewtonLoss(lambda y: y.prod(-1), "fisher")(x),
}


@pytest.fixture(autouse=True)
def copies(monkeypatch):
    monkeypatch.setattr(Tensor, "to", to)
    monkeypatch.setattr(Tensor, "cpu", lambda self: self.as_subclass(Tensor))
    arange = torch.arange
    monkeypatch.setattr(
        torch, "arange", lambda *args, device="cpu", **how: arange(*args, **how).to(device)
    )


def test_on_mps_it_is_computed_on_the_cpu_and_says_so():
    x = torch.rand(3, 4, generator=torch.Generator().manual_seed(0)) * 0.9 + 0.05
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for name, case in CASES.items():
            found = []
            for given in (x.clone(), x.clone().as_subclass(OnMps)):
                y = case(given.requires_grad_())
                assert y.device == given.device, name
                weights = torch.arange(1, y.numel() + 1).view(y.shape)
                (slope,) = torch.autograd.grad((y * weights).sum(), given)
                found.append((y.detach().as_subclass(Tensor), slope.as_subclass(Tensor)))
            torch.testing.assert_close(*found, msg=lambda text, name=name: f"{name}: {text}")
    texts = [str(warning.message) for warning in said]
    assert all("which mps has not: it is computed on the CPU" in text for text in texts), texts
    assert {"sinkhorn", "damped_solve", "fisher_solve"} <= {text.split()[0] for text in texts}
