"""Code that says "cuda", on the CPU."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from threading import Thread
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.autograd.graph import _engine_run_backward
from torch.overrides import TorchFunctionMode

from gendr._common.memory import physical_memory

__all__ = ["on_cpu"]

_OWN = "gendr.primitives"


@contextmanager
def on_cpu() -> Generator[None]:
    """Run code that asks for CUDA on the CPU: within it, "cuda" names the CPU.

    `tensor.cuda()`, `module.cuda()`, `.to("cuda")`, `device="cuda"` of functions that make tensors,
    `torch.device("cuda")` where a device is wanted, `torch.Generator("cuda")`, the tensor types of
    `torch.cuda`, `pin_memory`, `torch.load` of what was saved on a GPU, `torch.amp`, and the
    functions of `torch.cuda` that such code calls: `is_available` and `device_count` say that there
    is one device, `synchronize`, `empty_cache`, seeds and streams do nothing, events measure the
    time, memory in use is 0. `tensor.cpu()` and `.to("cpu")` give copies, as they do for tensors on
    a GPU: a program may keep them while an optimiser goes on. `tensor.is_cuda` stays False and
    `tensor.device` stays the CPU.

    It holds for the thread that enters it, those that are started meanwhile and, as far as it
    replaces functions of torch, for the process; afterwards everything is as it was. Tensors made
    within it are ordinary ones. Not for use around `torch.compile`.

        sys.modules["nvdiffrast.torch"] = gendr.primitives
        with gendr.primitives.on_cpu():
            import their_program

    Python wants a package `nvdiffrast` for that import; if there is none, it is there meanwhile.
    """
    with ExitStack() as stack:
        if "nvdiffrast" not in sys.modules and find_spec("nvdiffrast") is None:
            package = ModuleType("nvdiffrast")
            package.__dict__["torch"] = sys.modules.get("nvdiffrast.torch", import_module(_OWN))
            stack.callback(sys.modules.pop, "nvdiffrast", None)
            sys.modules["nvdiffrast"] = package
        mode = _OnCpu()
        for owner, name, value in _replacements(mode):
            stack.enter_context(patch.object(owner, name, value, create=True))
        default = torch.empty(0).device
        try:
            with mode:
                yield
        finally:
            mode.on = False
            if torch.empty(0).device != default:
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

    on = True  # threads that go on afterwards keep the mode, not what it does

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given, kwargs = kwargs or {}, {}
        if not self.on:
            return func(*args, **given)
        for name, value in given.items():
            kwargs[name] = "cpu" if name == "device" and type(value) is int else _moved(value)
        if func in _AS_THEY_ARE:
            return args[0]
        kwargs.pop("pin_memory", None)
        if func is Tensor.to:
            if len(args) > 1 and type(args[1]) is int:
                args = (args[0], "cpu", *args[2:])  # the number of a device
            elif "cpu" in (given.get("device"), *(x for x in args[1:] if isinstance(x, str))):
                kwargs["copy"] = True
        result = func(*map(_moved, args), **kwargs)
        return result.clone() if func is Tensor.cpu and any(x is result for x in args) else result


_AS_THEY_ARE = (Tensor.cuda, Tensor.pin_memory)


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


def _within(mode: _OnCpu, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function in which code of users runs that torch calls without the mode."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with mode:
            return function(*args, **kwargs)

    return call


def _load(*args: Any, **kwargs: Any) -> Any:
    """`torch.load`, to the CPU unless something else is said."""
    if len(args) < 2:
        kwargs.setdefault("map_location", "cpu")
    return _LOAD(*args, **kwargs)


def _module_to(module: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.nn.Module:
    """`Module.to`, which also takes the number of a device."""
    args = tuple("cpu" if type(x) is int else x for x in args)
    return _MODULE_TO(
        module, *args, **{k: "cpu" if type(x) is int else x for k, x in kwargs.items()}
    )


_LOAD, _MODULE_TO = torch.load, torch.nn.Module.to


def _module_cuda(module: torch.nn.Module, *_: Any) -> torch.nn.Module:
    return module


def _replacements(mode: _OnCpu) -> Iterator[tuple[Any, str, Any]]:
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
        (cuda, "mem_get_info", lambda *_, **__: 2 * (physical_memory(),)),
        (cuda, "is_initialized", _gives(True)),
        (cuda, "is_bf16_supported", _gives(True)),
        (cuda, "memory_stats", lambda *_, **__: defaultdict(int)),
        (cuda, "memory_summary", _gives("")),
        (
            cuda,
            "get_device_properties",
            lambda *_, **__: SimpleNamespace(
                name="CPU",
                total_memory=physical_memory(),
                major=0,
                minor=0,
                multi_processor_count=1,
            ),
        ),
        (cuda, "is_current_stream_capturing", _gives(False)),
        (cuda.nvtx, "range_push", _gives(0)),
        (cuda.nvtx, "range_pop", _gives(0)),
        (cuda.nvtx, "mark", _gives(None)),
        (cuda, "get_rng_state", lambda *_, **__: torch.get_rng_state()),
        (cuda, "get_rng_state_all", lambda: [torch.get_rng_state()]),
        (cuda, "initial_seed", torch.initial_seed),
        # `torch.random.fork_rng` takes them from the module of the device.
        (torch.cpu, "get_rng_state", lambda *_, **__: torch.get_rng_state()),
        (torch.cpu, "set_rng_state", lambda state, *_: torch.set_rng_state(state)),
        (cuda, "device", lambda *_: nullcontext()),
        (cuda, "stream", lambda *_: nullcontext()),
        (cuda, "current_stream", lambda *_: _Stream()),
        (cuda, "default_stream", lambda *_: _Stream()),
        (cuda, "Stream", _Stream),
        (cuda, "Event", _Event),
        (torch, "load", _mapped(_load)),
        # Before it calls this, torch takes the mode away; functions and hooks of users run in it.
        (torch.autograd, "_engine_run_backward", _within(mode, _engine_run_backward)),
        (Thread, "run", _within(mode, Thread.run)),
        (Tensor, "record_stream", _gives(None)),
        (torch.UntypedStorage, "cuda", lambda storage, *_, **__: storage),
        (torch, "Generator", _generator(torch.Generator)),
        (torch, "set_default_device", _mapped(torch.set_default_device)),
        (torch, "set_default_tensor_type", _mapped(torch.set_default_tensor_type)),
        (torch.nn.Module, "cuda", _module_cuda),
        (torch.nn.Module, "to", _module_to),
        # DataParallel without devices calls its module.
        (sys.modules[torch.nn.DataParallel.__module__], "_get_available_device_type", _gives(None)),
        (cuda.sparse, "FloatTensor", torch.sparse.FloatTensor),  # pyright: ignore[reportAttributeAccessIssue]
    )
    for name in (
        "FloatTensor", "DoubleTensor", "HalfTensor", "LongTensor", "IntTensor", "ShortTensor",
        "ByteTensor", "BoolTensor", "CharTensor", "BFloat16Tensor",
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
