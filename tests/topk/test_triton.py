"""Selection and the loss through the Triton kernels of sorting; interpreted without a GPU."""

import warnings

import pytest
import torch

pytest.importorskip("triton", reason="Triton has no wheels for this platform")

from gendr.kernels.triton.launch import interpreted
from gendr.topk import TopKCrossEntropy, soft_topk, soft_topk_mask

DEVICE = "cpu" if interpreted() else "cuda"


def test_selection():
    for name in ("splitter", "odd_even"):
        x = torch.randn(3, 9)
        weights = torch.randn(3, 4, 9)
        found = {}
        for backend, dtype, device in (
            ("triton", torch.float32, DEVICE), ("reference", torch.float64, "cpu"),
        ):  # fmt: skip
            leaf = x.to(device, dtype).requires_grad_()
            out = soft_topk(leaf, 4, name, dist="logistic", steepness=2.0, backend=backend)
            (grad,) = torch.autograd.grad((out.attribution * weights.to(leaf)).sum(), leaf)
            found[backend] = [
                t.detach().cpu().double() for t in (out.values, out.attribution, grad)
            ]
        for ours, want in zip(found["triton"], found["reference"], strict=True):
            torch.testing.assert_close(ours, want, rtol=1e-4, atol=1e-5)


def test_loss():
    logits, labels = torch.randn(4, 12), torch.tensor([0, 3, 11, 5])
    found = {}
    for backend, device in (("triton", DEVICE), ("reference", "cpu")):
        leaf = logits.to(device).requires_grad_()
        loss = TopKCrossEntropy([0.5, 0, 0.5], m=8, backend=backend, check=False).to(device)
        value = loss(leaf, labels.to(device))
        found[backend] = value.detach().cpu(), torch.autograd.grad(value, leaf)[0].cpu()
    torch.testing.assert_close(*found.values(), rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_the_host_does_not_wait_for_a_gpu():
    x = torch.randn(100, 1000, device="cuda", requires_grad=True)
    labels = torch.randint(1000, (100,), device="cuda")
    loss = TopKCrossEntropy([0.5, 0, 0, 0, 0.5], check=False).cuda()

    def steps():
        for law in ("laplace", "logistic"):
            soft_topk_mask(x, 10, law, check=False).sum().backward()
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
