"""Training by several processes, as `torchrun` starts them, each with a share of every batch.

    >>> with joined("cuda") as ranks:            # one process outside of torchrun
    ...     training = Training(data, settings, ranks.device, ranks)

All processes draw the same batch and take their part of it. What is a mean over the batch stays
one: gradients (by DistributedDataParallel), losses, and the statistics of batch norm.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, distributed, nn

from gendr.jobs.devices import usable_device

__all__ = ["GlobalBatchNorm2d", "Ranks", "joined", "with_global_batch_norm"]


class Ranks:
    """The processes that train together, as one of them sees it.

    Args:
        device: on which this process trains.

    Attributes:
        device: as given.
        rank: the number of this process.
        size: how many there are; 1 outside of `torch.distributed`.
    """

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        started = distributed.is_available() and distributed.is_initialized()
        self.rank = distributed.get_rank() if started else 0
        self.size = distributed.get_world_size() if started else 1

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and speaks."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """The part of `count` things that is this process's; all parts are equally large.

        Raises:
            ValueError: if that cannot be.
        """
        if count % self.size:
            raise ValueError(
                f"a batch of {count} cannot be shared evenly by {self.size} processes; choose a "
                f"multiple of {self.size}"
            )
        each = count // self.size
        return slice(self.rank * each, (self.rank + 1) * each)

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes of values of the same shape; no gradient."""
        if self.size == 1:
            return values
        total = values.detach().to(self.device, copy=True)
        distributed.all_reduce(total)
        return total.to(values.device)

    def mean(self, values: Tensor) -> Tensor:
        """The mean over all processes of values of the same shape; no gradient."""
        return self.sum(values) / self.size

    def any(self, flag: bool) -> bool:
        """Whether a flag is set in any process."""
        return (self.size > 1 and bool(self.sum(torch.tensor(float(flag))) > 0)) or flag

    def from_first(self, value: Any) -> Any:
        """What the first process has; plain values and tensors on the CPU. Others give anything."""
        if self.size == 1:
            return value
        box = [value if self.is_first else None]
        distributed.broadcast_object_list(box, device=self.device)
        return box[0]

    def wait_for_all(self) -> None:
        """Return when all processes are here."""
        self.any(False)


@contextmanager
def joined(device: str) -> Generator[Ranks, None, None]:
    """Join the processes that torchrun started; the only one if it did not.

    Args:
        device: the name of a device. "cuda" is the GPU of this process's local rank.

    Raises:
        ValueError: for a device that is not there, or a certain GPU for several processes.
    """
    local, several = os.environ.get("LOCAL_RANK"), int(os.environ.get("WORLD_SIZE", "1")) > 1
    if local is None or not several:
        yield Ranks(usable_device(device))
        return
    if device.startswith("cuda:"):
        raise ValueError(f"--device {device} is one GPU for all processes; give --device cuda")
    found = usable_device("cuda" if device == "cuda" else device)
    if found.type == "cuda":
        found = usable_device(f"cuda:{local}")
        torch.cuda.set_device(found)
    distributed.init_process_group("nccl" if found.type == "cuda" else "gloo")
    yield Ranks(found)
    # Not after an error: it would wait for what the others still do, and torchrun ends all.
    distributed.destroy_process_group()


class _Mean(torch.autograd.Function):
    """The mean over all processes, through which gradients flow to all of them."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, ranks: Ranks) -> Tensor:
        ctx.ranks = ranks
        return ranks.mean(values)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        # The mean is an input of the loss of every process.
        return ctx.ranks.mean(grads[0].contiguous()), None


class GlobalBatchNorm2d(nn.BatchNorm2d):
    """Batch norm whose mean and variance are those of the batch of all processes.

    It is `nn.BatchNorm2d` for the names in a checkpoint, and in evaluation. That of torch for
    several processes, `nn.SyncBatchNorm`, trains on GPUs only.

    Args:
        features: C.
        ranks: the processes; their parts of the batch must be equally large.

    Source: Ioffe, Szegedy, Batch Normalization, 2015.
    """

    ranks: Ranks

    def __init__(self, features: int, ranks: Ranks) -> None:
        super().__init__(features)
        self.ranks = ranks

    def forward(self, input: Tensor) -> Tensor:
        """Normalised features [B, C, H, W]."""
        if not self.training:
            return super().forward(input)
        # Statistics need the digits, also under autocast.
        values = input if input.dtype in (torch.float32, torch.float64) else input.float()
        mean = self._mean(values.mean((0, 2, 3)))
        centred = values - mean[:, None, None]
        variance = self._mean(centred.square().mean((0, 2, 3)))
        self._remember(mean.detach(), variance.detach(), self.ranks.size * values[:, 0].numel())
        factor = self.weight * (variance + self.eps).rsqrt()
        found = centred * factor[:, None, None] + self.bias[:, None, None]
        return found.to(input.dtype)

    def _mean(self, values: Tensor) -> Tensor:
        mean = _Mean.apply(values, self.ranks)
        assert isinstance(mean, Tensor)  # for the type checker
        return mean

    def _remember(self, mean: Tensor, variance: Tensor, count: int) -> None:
        """Move the running statistics, of which the variance is the unbiased one."""
        assert self.running_mean is not None  # for the type checker
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        rate = self.momentum or 0.0
        with torch.no_grad():
            self.running_mean.lerp_(mean, rate)
            self.running_var.lerp_(variance * (count / max(count - 1, 1)), rate)
            self.num_batches_tracked += 1


def with_global_batch_norm(module: nn.Module, ranks: Ranks) -> None:
    """Replace every `nn.BatchNorm2d` inside a module; weights and state stay the same tensors."""
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d):
            new = GlobalBatchNorm2d(child.num_features, ranks)
            new.eps, new.momentum, new.training = child.eps, child.momentum, child.training
            new.weight, new.bias = child.weight, child.bias
            for kept in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(new, kept, getattr(child, kept))
            setattr(module, name, new)
        else:
            with_global_batch_norm(child, ranks)
