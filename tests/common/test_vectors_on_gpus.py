"""Gathering and sums of rows as on a GPU, against what a CPU does."""

import torch
from torch.overrides import TorchFunctionMode

from gendr._common.vectors import gathered, summed


class OnGpu(TorchFunctionMode):
    """All tensors say that they are on a GPU."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__self__", None) is torch.Tensor.device:
            return torch.device("cuda")
        return func(*args, **(kwargs or {}))


def test_the_branches_of_gpus_give_what_cpus_do():
    x = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    index = torch.tensor([4, 0, 4, 2])
    for call in (lambda: gathered(x, index, -2), lambda: gathered(x[0], index),
                 lambda: summed(x[0, :4], index, 6)):  # fmt: skip
        want = call()
        with OnGpu():
            found = call()
        assert found.grad_fn.name() != want.grad_fn.name()
        assert torch.equal(found, want)
        grads = [torch.autograd.grad(y.square().sum(), x)[0] for y in (want, found)]
        torch.testing.assert_close(*grads)
