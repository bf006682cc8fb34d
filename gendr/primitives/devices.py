"""Code that says "cuda", on the CPU."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["on_cpu"]


@contextmanager
def on_cpu() -> Generator[None]:
    """Run code that asks for CUDA on the CPU: within it, "cuda" names the CPU.

    `tensor.cuda()`, `module.cuda()`, `.to("cuda")`, `device="cuda"` of functions that make tensors,
    `torch.device("cuda")` where a device is wanted, `torch.Generator("cuda")`, the tensor types of
    `torch.cuda`, `pin_memory`, `torch.load(map_location="cuda")`, and the functions of `torch.cuda`
    that such code calls: `is_available` and `device_count` say that there is one device,
    `synchronize`, `empty_cache`, seeds and streams do nothing, events measure the time, figures of
    memory are 0. `tensor.is_cuda` stays False and `tensor.device` stays the CPU.

    It holds for the thread that enters it and, as far as it replaces functions of torch, for the
    process; afterwards everything is as it was. Tensors made within it are ordinary ones. Not for
    use around `torch.compile`.

        sys.modules["nvdiffrast.torch"] = gendr.primitives
        with gendr.primitives.on_cpu():
            import their_program

    Python wants a package `nvdiffrast` for that import; if there is none, it is there meanwhile.
    """
    with ExitStack() as stack:
        if "nvdiffrast.torch" in sys.modules and "nvdiffrast" not in sys.modules:
            package = ModuleType("nvdiffrast")
            package.__dict__["torch"] = sys.modules["nvdiffrast.torch"]
            stack.callback(sys.modules.pop, "nvdiffrast", None)
            sys.modules["nvdiffrast"] = package
        for owner, name, value in _replacements():
            stack.enter_context(patch.object(owner, name, value, create=True))
        default = torch.get_default_device()
        try:
            with _OnCpu():
                yield
        finally:
            if torch.get_default_device() != default:
                torch.set_default_device(default)


def _is_cuda(value: object) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))


def _moved(value: Any) -> Any:
    """The CPU for a CUDA device, anything else as it is."""
    if _is_cuda(value):
        return torch.device("cpu") if isinstance(value, torch.device) else "cpu"
    if isinstance(value, str) and value.startswith("torch.cuda."):  # a type of tensors
        return value.replace("torch.cuda.", "torch.")
    return value


class _OnCpu(TorchFunctionMode):
    """Functions of torch with the CPU in place of CUDA devices."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = {name: _moved(value) for name, value in (kwargs or {}).items()}
        if func in _AS_THEY_ARE:
            return args[0]
        kwargs.pop("pin_memory", None)
        if func is Tensor.to and len(args) > 1 and type(args[1]) is int:
            args = (args[0], "cpu", *args[2:])  # the number of a device
        return func(*map(_moved, args), **kwargs)


_AS_THEY_ARE = (Tensor.cuda, Tensor.pin_memory, Tensor.record_stream)


class _Event:
    """An event of a stream: the time when it was recorded."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._time = 0.0

    def record(self, *_: Any) -> None:
        from time import perf_counter

        self._time = perf_counter()

    def elapsed_time(self, other: _Event) -> float:
        """Milliseconds until another event."""
        return 1e3 * (other._time - self._time)

    def synchronize(self) -> None:
        """Does nothing."""

    def wait(self, *_: Any) -> None:
        """Does nothing."""

    def query(self) -> bool:
        """Everything before it is done."""
        return True


class _Stream:
    """A stream, in which everything is done at once."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.cuda_stream = 0

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def synchronize(self) -> None:
        """Does nothing."""

    def wait_stream(self, *_: Any) -> None:
        """Does nothing."""

    def wait_event(self, *_: Any) -> None:
        """Does nothing."""

    def record_event(self, event: _Event | None = None) -> _Event:
        """The event, recorded now."""
        event = event or _Event()
        event.record()
        return event

    def query(self) -> bool:
        """Everything is done."""
        return True


def _gives(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


def _mapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of torch that no mode sees, with devices mapped."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*map(_moved, args), **{k: _moved(v) for k, v in kwargs.items()})

    return call


def _module_cuda(module: torch.nn.Module, *_: Any) -> torch.nn.Module:
    return module


def _replacements() -> Iterator[tuple[Any, str, Any]]:
    """(owner, name, what stands there) of everything that no mode sees."""
    cuda = torch.cuda
    nothing = (
        "empty_cache", "init", "ipc_collect", "manual_seed", "manual_seed_all",
        "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_memory_stats",
        "seed", "seed_all", "set_device", "set_rng_state", "set_rng_state_all", "set_stream",
        "synchronize",
    )  # fmt: skip
    zero = (
        "current_device", "max_memory_allocated", "max_memory_cached", "max_memory_reserved",
        "memory_allocated", "memory_cached", "memory_reserved", "utilization",
    )  # fmt: skip
    yield from ((cuda, name, _gives(None)) for name in nothing)
    yield from ((cuda, name, _gives(0)) for name in zero)
    yield from (
        (cuda, "is_available", _gives(True)),
        (cuda, "device_count", _gives(1)),
        (cuda, "get_device_name", _gives("CPU")),
        (cuda, "get_device_capability", _gives((0, 0))),
        (cuda, "mem_get_info", _gives((0, 0))),
        (cuda, "memory_summary", _gives("")),
        (cuda, "get_device_properties", _gives(SimpleNamespace(name="CPU", total_memory=0))),
        (cuda, "is_current_stream_capturing", _gives(False)),
        (cuda.nvtx, "range_push", _gives(0)),
        (cuda.nvtx, "range_pop", _gives(0)),
        (cuda.nvtx, "mark", _gives(None)),
        (cuda, "get_rng_state", lambda *_, **__: torch.get_rng_state()),
        (cuda, "get_rng_state_all", lambda: [torch.get_rng_state()]),
        (cuda, "initial_seed", torch.initial_seed),
        (cuda, "device", lambda *_: nullcontext()),
        (cuda, "stream", lambda *_: nullcontext()),
        (cuda, "current_stream", lambda *_: _Stream()),
        (cuda, "default_stream", lambda *_: _Stream()),
        (cuda, "Stream", _Stream),
        (cuda, "Event", _Event),
        (torch, "load", _mapped(torch.load)),
        (torch, "Generator", _generator(torch.Generator)),
        (torch, "set_default_device", _mapped(torch.set_default_device)),
        (torch, "set_default_tensor_type", _mapped(torch.set_default_tensor_type)),
        (torch.nn.Module, "cuda", _module_cuda),
    )
    for name in (
        "FloatTensor", "DoubleTensor", "HalfTensor", "LongTensor", "IntTensor", "ShortTensor",
        "ByteTensor", "BoolTensor", "CharTensor",
    ):  # fmt: skip
        yield cuda, name, getattr(torch, name)


def _generator(plain: type[torch.Generator]) -> type[torch.Generator]:
    """`torch.Generator`, of which that for CUDA is one for the CPU."""

    class Meta(type):
        def __call__(cls, device: Any = "cpu") -> torch.Generator:
            return plain(device=_moved(device))

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, plain)

    return Meta("Generator", (), {})  # pyright: ignore[reportReturnType]
