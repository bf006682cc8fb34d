"""A pretended GPU whose tensors refuse to meet those of the CPU, as CUDA's do.

Tensors on the device `pretend` compute on the CPU and say that they are on a GPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from importlib import import_module
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

NAME = "pretend"
COMPOSITE = "CompositeImplicitAutograd"

_device: torch.device | None = None


def device() -> torch.device:
    """The pretended device, which is registered with PyTorch on first use."""
    global _device
    if _device is None:
        backend_registration._setup_privateuseone_for_python_backend(NAME)
        module: Any = torch.get_device_module(NAME)
        module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]  # for autocast
        _device = torch.device(NAME, 0)
    return _device


class Pretended(Tensor):
    """A tensor on the pretended device; `elem` holds its values."""

    elem: Tensor

    @staticmethod
    def __new__(cls: type[Pretended], elem: Tensor) -> Pretended:
        """Wrap a tensor of the CPU."""
        out = Tensor._make_wrapper_subclass(
            cls, elem.shape, strides=elem.stride(), storage_offset=elem.storage_offset(),
            dtype=elem.dtype, device=device(),
        )  # fmt: skip
        out.elem = elem
        return out

    @property
    def is_cuda(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Yes, so that the host takes the paths that it takes on a GPU."""
        return True

    def tolist(self) -> Any:
        """The numbers, by way of the CPU: PyTorch refuses it for subclasses."""
        return self.detach().to("cpu").tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Computed."""
        return _compute(func, args, kwargs or {})


def upload(x: Tensor) -> Pretended:
    """A tensor of the CPU put on the pretended device."""
    return Pretended(x.detach().clone())


# Operators that take tensors of the CPU beside those of a GPU: copies, and indices.
_MIXING = {
    "copy_",
    "_to_copy",
    "index",
    "index_put",
    "index_put_",
    "_index_put_impl_",
    "_copy_from",
}
_strict = False


def _refuse_mixed(func: Any, args: Any, kwargs: Any) -> None:
    found: list[Tensor] = []
    tree_map(lambda x: found.append(x) if isinstance(x, Tensor) else None, (args, kwargs))
    # A number on the CPU may be added to anything.
    there = [x for x in found if x.ndim > 0]
    name = func._schema.name.split("::")[1]
    if name not in _MIXING and len({isinstance(x, Pretended) for x in there}) == 2:
        kinds = [f"{tuple(x.shape)} on {x.device}" for x in found]
        raise RuntimeError(f"tensors are not all on the same device: {name} of {kinds}")


def _compute(func: Any, args: Any, kwargs: Any) -> Any:
    """The result of an operator."""
    if _strict:
        _refuse_mixed(func, args, kwargs)
    read: list[Tensor] = []
    wanted: list[torch.device] = []

    def to_cpu(x: Any) -> Any:
        if isinstance(x, Pretended):
            read.append(x)
            return x.elem
        if isinstance(x, torch.device):
            wanted.append(x)
            return torch.device("cpu")
        return x

    inner_args, inner_kwargs = tree_map(to_cpu, args), tree_map(to_cpu, kwargs)
    out = func(*inner_args, **inner_kwargs)
    there = wanted[0].type == NAME if wanted else bool(read)
    if func._schema.is_mutable and args and isinstance(args[0], Tensor):
        # In place: the very tensor comes back.
        returned = func._schema.returns
        if len(returned) == 1 and returned[0].alias_info is not None:
            return args[0]
    if there:
        out = tree_map(lambda x: Pretended(x) if isinstance(x, Tensor) else x, out)
    return out


class _Mode(TorchDispatchMode):
    """Sees operators that no argument would bring here, such as those that make tensors."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Compute; inside our own operators PyTorch has not taken composite ones apart yet."""
        kwargs = kwargs or {}
        if func.namespace == "profiler":
            return func(*args, **kwargs)
        if func.namespace not in ("aten", "prims"):
            from torch._library import custom_ops

            with self:
                return custom_ops.OPDEFS[func._schema.name]._init_fn(*args, **kwargs)
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), COMPOSITE):
            with self:
                out = func.decompose(*args, **kwargs)
            if out is not NotImplemented:
                return out
        return _compute(func, args, kwargs)


@contextlib.contextmanager
def _numbers_by_way_of_cpu() -> Generator[None]:
    """Within it `torch.tensor(..., device=...)` makes a tensor on the CPU and copies it."""
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        yield
    finally:
        torch._C._set_only_lift_cpu_tensors(before)


@contextlib.contextmanager
def strict() -> Generator[None]:
    """Within it, operators refuse to mix tensors of the pretended GPU and the CPU, as CUDA does.

    The reference backends do the work: it is the code around kernels that is looked at. Backward
    passes run in this thread, which the mode sees.
    """
    global _strict
    before = _strict
    with contextlib.ExitStack() as stack:
        homes = (f"{x}.backends.triton.backend" for x in ("rendering", "sorting", "logic", "topk"))
        for home in (*homes, "primitives.triton.backend", "photos.splatting.triton"):
            module = import_module(f"gendr.{home}")
            stack.enter_context(mock.patch.object(module, "available", return_value="left out"))
        stack.enter_context(torch.autograd.set_multithreading_enabled(False))
        stack.enter_context(_numbers_by_way_of_cpu())
        stack.enter_context(_Mode())
        _strict = True
        try:
            yield
        finally:
            _strict = before
