"""Selection, masks and the loss by Triton kernels; interpreted without a GPU."""

import warnings

import pytest
import torch

pytest.importorskip("triton", reason="Triton has no wheels for this platform")

from gendr.topk import TopKCrossEntropy, soft_topk, soft_topk_mask
from support.cases import for_each
from support.races import in_any_order
from support.triton import DEVICE, needs_the_interpreter, small_rows


def losses(backend, dtype=torch.float64, device="cpu", p_k=(0.5, 0, 0.5), **settings):
    """Losses of rows of 12 classes, one of which is ignored, and their gradients."""
    generator = torch.Generator().manual_seed(1)
    logits, labels = torch.randn(5, 12, generator=generator), torch.tensor([0, 3, 11, -100, 5])
    given = {"m": 8, "check": False, **settings}
    loss = TopKCrossEntropy(p_k, backend=backend, reduction="none", **given).to(device)
    leaf = logits.to(device, dtype).requires_grad_()
    found = loss(leaf, labels.to(device))
    weights = torch.linspace(1, 2, 5).to(found)
    return [x.cpu().double() for x in (found.detach(), *torch.autograd.grad(found, leaf, weights))]


@pytest.mark.rotating(2)
@for_each(
    settings=[
        {}, {"m": 5, "dist": "logistic", "art": 0.25}, {"m": 3, "weight": torch.arange(12.0)},
        {"m": 7, "top1": "network", "method": "odd_even", "dist": "gaussian"}, {"m": None},
        {"p_k": torch.tensor([[0.5, 0.2, 0.3]]).expand(12, 3)},
        {"p_k": (1.0,), "m": 1, "top1": "network"},
    ],
    rotating=4,
)  # fmt: skip
def test_loss(settings, monkeypatch):
    small_rows(monkeypatch, 8)
    got = losses("triton", torch.float32, DEVICE, **settings)
    for ours, want in zip(got, losses("reference", **settings), strict=True):
        torch.testing.assert_close(ours, want, rtol=1e-4, atol=2e-5)


def test_what_is_wrong_is_said_or_nan():
    logits, labels = torch.randn(3, 9, device=DEVICE), torch.tensor([0, 9, 3], device=DEVICE)
    loss = TopKCrossEntropy([0, 1.0], m=4, backend="triton", reduction="none").to(DEVICE)
    with pytest.raises(ValueError, match=r"target .* 9 classes"):
        loss(logits, labels)
    logits[2, 8] = torch.nan
    with pytest.raises(ValueError, match="logits must be finite"):
        loss(logits, labels.clamp(max=8))
    loss.check = False
    assert loss(logits, labels).isnan().tolist() == [False, True, True]
    with pytest.raises(ValueError, match="does not serve"):
        loss(logits.double(), labels)


def masks(dist, backend, dtype=torch.float64, device="cpu"):
    """Memberships of rows, one of ties, for k and scales of every row, and all gradients."""
    generator = torch.Generator().manual_seed(2)
    x, weights = (torch.randn(3, 37, generator=generator) for _ in range(2))
    x[1] = x[1].round()
    k, scale = torch.tensor([2.5, 36.0, 7.0]), torch.tensor([0.3, 1.0, 0.1])
    leaves = [t.to(device, dtype).requires_grad_() for t in (x, k, scale)]
    p = soft_topk_mask(leaves[0], leaves[1], dist, leaves[2], backend=backend)
    found = (p.detach(), *torch.autograd.grad(p, leaves, weights.to(p)))
    return [t.cpu().double() for t in found]


@pytest.mark.rotating(2)
@for_each(
    dist=["laplace", "uniform", "cauchy", "levy.reversed", "gamma(shape=2)", "gumbel_min"],
    rotating=3,
)
def test_masks(dist, monkeypatch):
    longest = small_rows(monkeypatch, 16)
    got, want = masks(dist, "triton", torch.float32, DEVICE), masks(dist, "reference")
    for ours, exact in zip(got, want, strict=True):
        torch.testing.assert_close(ours, exact, rtol=2e-5, atol=2e-5)
    long = torch.zeros(1, longest + 1, device=DEVICE)  # the definition, after a sort
    long[0, 0] = 1.0
    assert soft_topk_mask(long, 1, scale=0.01, backend="triton")[0, 0] > 0.999


@needs_the_interpreter
@pytest.mark.rotating(4, group="hazards")
def test_no_race_and_any_order_gives_the_same_bits(monkeypatch):
    small_rows(monkeypatch, 8)

    def run():
        return [*losses("triton", torch.float32), *masks("cauchy", "triton", torch.float32)]

    assert {*in_any_order(run).kernels} == {"losses", "mask", "mask_back"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_the_host_does_not_wait_for_a_gpu():
    x = torch.randn(100, 1000, device="cuda", requires_grad=True)
    labels = torch.randint(1000, (100,), device="cuda")
    loss = TopKCrossEntropy([0.5, 0, 0, 0, 0.5], check=False).cuda()

    def steps():
        for dist in ("laplace", "logistic"):
            soft_topk_mask(x, 10, dist, check=False).sum().backward()
        soft_topk(x, 5, check=False).attribution.square().sum().backward()
        loss(x, labels).backward()

    steps()  # kernels are compiled, networks made
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the mode is a prototype
            torch.cuda.set_sync_debug_mode("error")
        steps()
    finally:
        torch.cuda.set_sync_debug_mode("default")
